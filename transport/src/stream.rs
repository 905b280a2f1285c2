//! One call: messages that arrive and leave.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use bytes::{BufMut, Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Response};

use crate::inbox::Inbox;

/// Each message begins with a byte that says whether it is compressed, and its size.
const PREFIX_BYTES: usize = 5;

pub enum Event {
    Call { id: u64, path: String, headers: HeaderMap },
    Message { id: u64, is_compressed: bool, content: Vec<u8> },
    /// A message is larger than the limit; nothing of it is kept.
    TooLarge { id: u64, size: usize },
    /// The handler waits for a message that is not whole. With room for `size` bytes, the client
    /// gets its window back while they arrive.
    WantsRoom { id: u64, size: usize },
    /// So many bytes of the connection wait for handlers or for room.
    Waiting { size: usize },
    /// The client sends no more.
    HalfClosed { id: u64 },
    /// All that the handler wrote has left for the socket.
    Sent { id: u64 },
    /// The call is over; nothing of it is kept. It was broken off if it has not ended by a status.
    Closed { id: u64, is_broken_off: bool },
}

/// The ids of streams for which h2 has news.
pub type Ready = Arc<Mutex<Vec<u64>>>;

struct StreamWaker {
    id: u64,
    ready: Ready,
}

impl Wake for StreamWaker {
    fn wake(self: Arc<Self>) {
        if let Ok(mut ready) = self.ready.lock() {
            ready.push(self.id);
        }
    }
}

pub struct Stream {
    id: u64,
    waker: Waker,
    body: Option<RecvStream>,
    has_arrived: bool,
    has_told_arrival: bool,
    /// h2 keeps a note for each frame, so its bytes are taken at once, whatever their number.
    held: Inbox,
    /// So many of the first bytes held have given the client its window back.
    released: usize,
    /// So many bytes of the first message have room.
    room: usize,
    has_asked_for_room: bool,
    /// What the connection last counted of this stream's `waiting_bytes`.
    pub counted_bytes: usize,
    /// How many messages the handler waits for. Without any, the client's window stays closed.
    pub wanted: usize,
    responder: Option<SendResponse<Bytes>>,
    initial: HeaderMap,
    sender: Option<SendStream<Bytes>>,
    leaving: VecDeque<Bytes>,
    has_unsent: bool,
    has_sent: bool,
    trailers: Option<HeaderMap>,
    message_bytes_max: usize,
}

/// What became of a stream.
#[derive(PartialEq, Eq)]
pub enum Life {
    Open,
    Ended,
    BrokenOff,
}

impl Stream {
    pub fn new(
        id: u64,
        body: RecvStream,
        responder: SendResponse<Bytes>,
        ready: &Ready,
        message_bytes_max: usize,
    ) -> Self {
        let waker = Waker::from(Arc::new(StreamWaker { id, ready: ready.clone() }));
        Self {
            id,
            waker,
            body: Some(body),
            has_arrived: false,
            has_told_arrival: false,
            held: Inbox::default(),
            released: 0,
            room: 0,
            has_asked_for_room: false,
            counted_bytes: 0,
            wanted: 1,
            responder: Some(responder),
            initial: HeaderMap::new(),
            sender: None,
            leaving: VecDeque::new(),
            has_unsent: false,
            has_sent: false,
            trailers: None,
            message_bytes_max,
        }
    }

    pub fn set_initial_metadata(&mut self, headers: HeaderMap) {
        self.initial = headers;
    }

    /// Queues a message of the handler.
    pub fn send(&mut self, content: &[u8]) {
        let mut framed = BytesMut::with_capacity(PREFIX_BYTES + content.len());
        framed.put_u8(0);
        framed.put_u32(content.len() as u32);
        framed.put_slice(content);
        self.leaving.push_back(framed.freeze());
        self.has_unsent = true;
    }

    /// Ends the call, behind what is queued.
    pub fn finish(&mut self, trailers: HeaderMap) {
        self.trailers = Some(trailers);
    }

    /// Goes on as far as possible.
    pub fn drive(&mut self, events: &mut Vec<Event>) -> Life {
        let waker = self.waker.clone();
        let cx = &mut Context::from_waker(&waker);
        if self.read(cx, events).is_err() {
            return Life::BrokenOff;
        }
        match self.write(cx) {
            Err(_) => return Life::BrokenOff,
            Ok(true) if self.trailers.is_some() => return self.end(),
            Ok(true) if self.has_unsent => {
                self.has_unsent = false;
                events.push(Event::Sent { id: self.id });
            }
            Ok(_) => {}
        }
        let reset = match (&mut self.sender, &mut self.responder) {
            (Some(sender), _) => sender.poll_reset(cx),
            (None, Some(responder)) => responder.poll_reset(cx),
            (None, None) => Poll::Pending,
        };
        if reset.is_ready() { Life::BrokenOff } else { Life::Open }
    }

    /// Bytes for which the client has no window back.
    pub fn waiting_bytes(&self) -> usize {
        self.held.len() - self.released
    }

    /// Whether headers or parts of messages were sent since this was last asked.
    pub fn take_has_sent(&mut self) -> bool {
        std::mem::take(&mut self.has_sent)
    }

    /// Bytes that no handler has taken.
    pub fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// There is room for the message that is not whole.
    pub fn give_room(&mut self) {
        self.room = self.first_size().unwrap_or(0);
    }

    /// Takes no further message, and forgets what has arrived of it.
    pub fn refuse(&mut self) {
        self.wanted = 0;
        self.body = None;
        self.held = Inbox::default();
        (self.released, self.room) = (0, 0);
    }

    fn read(&mut self, cx: &mut Context<'_>, events: &mut Vec<Event>) -> Result<(), h2::Error> {
        while !self.has_arrived
            && let Some(body) = &mut self.body
        {
            match body.poll_data(cx) {
                Poll::Pending => break,
                Poll::Ready(Some(chunk)) => self.held.push(&chunk?),
                Poll::Ready(None) => self.has_arrived = true,
            }
        }
        self.release()?;
        while self.wanted > 0 && self.take_message(events)? {}
        if self.wanted == 0 || self.body.is_none() {
            return Ok(());
        }
        if self.has_arrived {
            if self.held.len() > 0 {
                return Err(Reason::PROTOCOL_ERROR.into());
            }
            if !self.has_told_arrival {
                self.has_told_arrival = true;
                events.push(Event::HalfClosed { id: self.id });
            }
        } else if let Some(size) = self.first_size()
            && !self.has_asked_for_room
        {
            self.has_asked_for_room = true;
            events.push(Event::WantsRoom { id: self.id, size });
        }
        Ok(())
    }

    /// Gives the window back for what has room.
    fn release(&mut self) -> Result<(), h2::Error> {
        let size = self.room.min(self.held.len()).saturating_sub(self.released);
        if size > 0
            && let Some(body) = &mut self.body
        {
            body.flow_control().release_capacity(size)?;
            self.released += size;
        }
        Ok(())
    }

    /// The size of the first message with its prefix, if that has arrived.
    fn first_size(&self) -> Option<usize> {
        let prefix = self.held.as_slice().get(1..PREFIX_BYTES)?;
        Some(PREFIX_BYTES + u32::from_be_bytes(prefix.try_into().ok()?) as usize)
    }

    /// Gives the first message, if it is whole or too large.
    fn take_message(&mut self, events: &mut Vec<Event>) -> Result<bool, h2::Error> {
        let Some(size) = self.first_size() else { return Ok(false) };
        if size - PREFIX_BYTES > self.message_bytes_max {
            self.refuse();
            events.push(Event::TooLarge { id: self.id, size: size - PREFIX_BYTES });
            return Ok(false);
        }
        if self.held.len() < size {
            return Ok(false);
        }
        // The handler has the message: what it takes is counted there.
        self.room = size;
        self.release()?;
        let is_compressed = self.held.as_slice()[0] != 0;
        let content = self.held.take(PREFIX_BYTES, size);
        (self.released, self.room, self.has_asked_for_room) = (0, 0, false);
        self.wanted -= 1;
        events.push(Event::Message { id: self.id, is_compressed, content });
        Ok(true)
    }

    /// Hands to h2 what it has room for; `true` if nothing is left.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<bool, h2::Error> {
        if self.leaving.is_empty() {
            return Ok(true);
        }
        self.open()?;
        let Some(sender) = &mut self.sender else { return Ok(true) };
        while let Some(front) = self.leaving.front_mut() {
            if front.is_empty() {
                self.leaving.pop_front();
                continue;
            }
            sender.reserve_capacity(front.len());
            let room = sender.capacity();
            if room == 0 {
                match sender.poll_capacity(cx) {
                    Poll::Pending => return Ok(false),
                    Poll::Ready(Some(Ok(_))) => continue,
                    Poll::Ready(Some(Err(error))) => return Err(error),
                    Poll::Ready(None) => return Err(Reason::CANCEL.into()),
                }
            }
            let part = front.split_to(room.min(front.len()));
            sender.send_data(part, false)?;
            self.has_sent = true;
        }
        Ok(true)
    }

    /// Sends the first headers, if they have not left.
    pub fn open(&mut self) -> Result<(), h2::Error> {
        if let Some(mut responder) = self.responder.take() {
            let head = response(std::mem::take(&mut self.initial));
            self.sender = Some(responder.send_response(head, false)?);
            self.has_sent = true;
        }
        Ok(())
    }

    fn end(&mut self) -> Life {
        self.has_sent = true;
        let trailers = self.trailers.take().unwrap_or_default();
        let sent = match (self.sender.take(), self.responder.take()) {
            (Some(mut sender), _) => sender.send_trailers(trailers),
            // Without a message, the first headers are the last ones.
            (None, Some(mut responder)) => {
                let mut headers = std::mem::take(&mut self.initial);
                headers.extend(trailers);
                responder.send_response(response(headers), true).map(|_| ())
            }
            (None, None) => Ok(()),
        };
        if sent.is_ok() { Life::Ended } else { Life::BrokenOff }
    }
}

pub fn response(mut headers: HeaderMap) -> Response<()> {
    headers.insert("content-type", HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-accept-encoding", HeaderValue::from_static("identity,deflate,gzip"));
    let mut head = Response::new(());
    *head.headers_mut() = headers;
    head
}
