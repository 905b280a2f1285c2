//! One call: messages that arrive and leave.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Response};

/// Each message begins with a byte that says whether it is compressed, and its size.
const PREFIX_BYTES: usize = 5;

pub enum Event {
    Call { id: u64, path: String, headers: HeaderMap },
    Message { id: u64, is_compressed: bool, content: Bytes },
    /// A message is larger than the limit; nothing of it is kept.
    TooLarge { id: u64, size: usize },
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
    held: BytesMut,
    /// How many messages the handler waits for. Without any, the client's window stays closed.
    pub wanted: usize,
    responder: Option<SendResponse<Bytes>>,
    initial: HeaderMap,
    sender: Option<SendStream<Bytes>>,
    leaving: VecDeque<Bytes>,
    has_unsent: bool,
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
            held: BytesMut::new(),
            wanted: 1,
            responder: Some(responder),
            initial: HeaderMap::new(),
            sender: None,
            leaving: VecDeque::new(),
            has_unsent: false,
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

    fn read(&mut self, cx: &mut Context<'_>, events: &mut Vec<Event>) -> Result<(), h2::Error> {
        while self.wanted > 0 {
            if self.take_message(events) {
                continue;
            }
            let Some(body) = &mut self.body else { return Ok(()) };
            match body.poll_data(cx) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Some(Ok(chunk))) => {
                    body.flow_control().release_capacity(chunk.len())?;
                    self.held.extend_from_slice(&chunk);
                }
                Poll::Ready(Some(Err(error))) => return Err(error),
                Poll::Ready(None) => {
                    self.body = None;
                    if !self.held.is_empty() {
                        return Err(Reason::PROTOCOL_ERROR.into());
                    }
                    events.push(Event::HalfClosed { id: self.id });
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Gives the first message, if it is whole or too large.
    fn take_message(&mut self, events: &mut Vec<Event>) -> bool {
        if self.held.len() < PREFIX_BYTES {
            return false;
        }
        let is_compressed = self.held[0] != 0;
        let size = (&self.held[1..PREFIX_BYTES]).get_u32() as usize;
        if size > self.message_bytes_max {
            self.wanted = 0;
            self.held = BytesMut::new();
            events.push(Event::TooLarge { id: self.id, size });
            return true;
        }
        if self.held.len() < PREFIX_BYTES + size {
            return false;
        }
        self.held.advance(PREFIX_BYTES);
        let content = self.held.split_to(size).freeze();
        self.wanted -= 1;
        events.push(Event::Message { id: self.id, is_compressed, content });
        true
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
        }
        Ok(true)
    }

    /// Sends the first headers, if they have not left.
    pub fn open(&mut self) -> Result<(), h2::Error> {
        if let Some(mut responder) = self.responder.take() {
            let head = response(std::mem::take(&mut self.initial));
            self.sender = Some(responder.send_response(head, false)?);
        }
        Ok(())
    }

    fn end(&mut self) -> Life {
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

fn response(mut headers: HeaderMap) -> Response<()> {
    headers.insert("content-type", HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-accept-encoding", HeaderValue::from_static("identity,deflate,gzip"));
    let mut head = Response::new(());
    *head.headers_mut() = headers;
    head
}
