//! HTTP/2 and gRPC's framing of one connection, without a socket and without a thread.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::server::{self, SendResponse};
use h2::{Ping, PingPong};
use http::{HeaderMap, Method, Request, StatusCode};

use crate::frames::{FrameWatch, PingPolicy, go_away};
use crate::headers;
use crate::pipe::Pipe;
use crate::stream::{self, Event, Life, Ready, Stream};

/// A client may have this much on its way in one call, and in all of its calls: HTTP/2 lets no
/// server begin a connection with less.
const WINDOW_BYTES: u32 = 65_535;
/// Bytes that wait are told in steps of this.
const WAITING_STEP_BYTES: usize = 64 << 10;
/// Bytes are taken from h2 after each read of the socket, so one read may have many small frames.
const DATA_FRAME_BUDGET: usize = 4 << 20;
/// The text for a request that is not one of gRPC.
const SPEAKS: &[u8] = b"This port speaks gRPC.\n";
const ENHANCE_YOUR_CALM: u32 = 11;

const RESOURCE_EXHAUSTED: u32 = 8;

pub struct Limits {
    pub message_bytes_max: usize,
    pub metadata_bytes_max: u32,
    pub streams_max: u32,
}

enum State {
    Greeting(Box<server::Handshake<Pipe, Bytes>>),
    Open(Box<server::Connection<Pipe, Bytes>>),
    Ended,
}

pub struct Connection {
    pub pipe: Pipe,
    state: State,
    limits: Limits,
    streams: HashMap<u64, Stream>,
    next_id: u64,
    ready: Ready,
    pings: Option<PingPong>,
    awaits_pong: bool,
    watch: FrameWatch,
    /// Bytes of all calls that wait for a handler or for room, and what of them was told.
    waiting_bytes: usize,
    told_waiting_bytes: usize,
}

impl Connection {
    pub fn new(limits: Limits, pings: PingPolicy) -> Self {
        let pipe = Pipe::default();
        let greeting = server::Builder::new()
            .initial_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .data_frame_budget(DATA_FRAME_BUDGET)
            .max_concurrent_streams(limits.streams_max)
            // h2 refuses larger ones with a status that gRPC's clients do not know.
            .max_header_list_size(limits.metadata_bytes_max.saturating_mul(2))
            .handshake(pipe.clone());
        Self {
            pipe,
            state: State::Greeting(Box::new(greeting)),
            limits,
            streams: HashMap::new(),
            next_id: 0,
            ready: Arc::new(Mutex::new(Vec::new())),
            pings: None,
            awaits_pong: false,
            watch: FrameWatch::new(pings),
            waiting_bytes: 0,
            told_waiting_bytes: 0,
        }
    }

    /// Whether the peer has finished the handshake of HTTP/2.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    pub fn lives(&self) -> bool {
        !matches!(self.state, State::Ended)
    }

    pub fn stream(&mut self, id: u64) -> Option<&mut Stream> {
        self.streams.get_mut(&id)
    }

    /// Goes on with one call, after the handler did something.
    pub fn touch(&mut self, id: u64) {
        if let Ok(mut ready) = self.ready.lock() {
            ready.push(id);
        }
    }

    /// Takes bytes of the socket; nothing more comes after empty ones.
    pub fn receive(&mut self, content: &[u8]) {
        if let Some(reason) = self.watch.look(content, !self.streams.is_empty()) {
            let farewell = go_away(self.watch.last_stream, ENHANCE_YOUR_CALM, reason);
            self.pipe.bytes().leaving.extend_from_slice(&farewell);
            self.state = State::Ended;
            return;
        }
        let mut bytes = self.pipe.bytes();
        bytes.arrived.extend_from_slice(content);
        bytes.has_ended |= content.is_empty();
    }

    /// Lets the client have this much more on its way than at first.
    pub fn widen(&mut self, size: u32) {
        if let State::Open(connection) = &mut self.state {
            connection.set_target_window_size(WINDOW_BYTES + size);
        }
    }

    /// Tells the client to make no further calls here. Calls that it has made go on.
    pub fn drain(&mut self) {
        if let State::Open(connection) = &mut self.state {
            connection.graceful_shutdown();
        }
    }

    /// Sends a ping, unless one is on its way.
    pub fn ping(&mut self) {
        if let Some(pings) = &mut self.pings
            && !self.awaits_pong
        {
            self.awaits_pong = pings.send_ping(Ping::opaque()).is_ok();
        }
    }

    /// Whether the ping has not been answered yet.
    pub fn awaits_pong(&mut self) -> bool {
        let cx = &mut Context::from_waker(Waker::noop());
        if self.awaits_pong
            && let Some(pings) = &mut self.pings
        {
            self.awaits_pong = pings.poll_pong(cx).is_pending();
        }
        self.awaits_pong
    }

    /// Goes on as far as what has arrived and what the socket takes allow.
    pub fn drive(&mut self, events: &mut Vec<Event>) {
        loop {
            self.accept(events);
            let ready = match self.ready.lock() {
                Ok(mut ready) if !ready.is_empty() => std::mem::take(&mut *ready),
                _ => break,
            };
            for id in ready {
                self.drive_stream(id, events);
            }
        }
        if !self.lives() {
            for (id, _) in self.streams.drain() {
                events.push(Event::Closed { id, is_broken_off: true });
            }
            self.waiting_bytes = 0;
        }
        self.tell_waiting(events);
    }

    /// Less than half a step is not told, so that a call that is read in turn tells nothing.
    fn tell_waiting(&mut self, events: &mut Vec<Event>) {
        let size = if self.waiting_bytes < WAITING_STEP_BYTES / 2 {
            0
        } else {
            self.waiting_bytes.next_multiple_of(WAITING_STEP_BYTES)
        };
        if size > self.told_waiting_bytes || (size == 0 && self.told_waiting_bytes > 0) {
            self.told_waiting_bytes = size;
            events.push(Event::Waiting { size });
        }
    }

    fn drive_stream(&mut self, id: u64, events: &mut Vec<Event>) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let life = stream.drive(events);
        if stream.take_has_sent() {
            self.watch.note_sent();
        }
        self.waiting_bytes -= stream.counted_bytes;
        stream.counted_bytes = stream.waiting_bytes();
        self.waiting_bytes += stream.counted_bytes;
        if life != Life::Open {
            self.waiting_bytes -= stream.counted_bytes;
            self.streams.remove(&id);
            events.push(Event::Closed { id, is_broken_off: life == Life::BrokenOff });
        }
    }

    fn accept(&mut self, events: &mut Vec<Event>) {
        let cx = &mut Context::from_waker(Waker::noop());
        if let State::Greeting(greeting) = &mut self.state {
            match Pin::new(greeting.as_mut()).poll(cx) {
                Poll::Pending => {
                    if self.pipe.bytes().has_ended {
                        self.state = State::Ended;
                    }
                    return;
                }
                Poll::Ready(Ok(mut connection)) => {
                    self.pings = connection.ping_pong();
                    self.state = State::Open(Box::new(connection));
                }
                Poll::Ready(Err(_)) => self.state = State::Ended,
            }
        }
        loop {
            let State::Open(connection) = &mut self.state else { return };
            match connection.poll_accept(cx) {
                Poll::Ready(Some(Ok((request, responder)))) => {
                    self.begin(request, responder, events);
                }
                Poll::Ready(_) => self.state = State::Ended,
                Poll::Pending => return,
            }
        }
    }

    fn begin(
        &mut self,
        request: Request<h2::RecvStream>,
        mut responder: SendResponse<Bytes>,
        events: &mut Vec<Event>,
    ) {
        let (head, body) = request.into_parts();
        if let Some(refusal) = refusal(&head.method, &head.headers) {
            if let Ok(mut sender) = responder.send_response(refusal, false) {
                let _ = sender.send_data(Bytes::from_static(SPEAKS), true);
            }
            return;
        }
        let size = headers::list_size(&head.headers);
        if size > self.limits.metadata_bytes_max as usize {
            let _ = responder.send_response(too_much_metadata(size, &self.limits), true);
            return;
        }
        self.next_id += 1;
        let id = self.next_id;
        let stream =
            Stream::new(id, body, responder, &self.ready, self.limits.message_bytes_max);
        self.streams.insert(id, stream);
        events.push(Event::Call { id, path: head.uri.path().to_owned(), headers: head.headers });
        self.drive_stream(id, events);
    }
}

/// The answer to a call with more metadata than the limit.
fn too_much_metadata(size: usize, limits: &Limits) -> http::Response<()> {
    let most = limits.metadata_bytes_max;
    let text = format!("the call has {size} bytes of metadata, more than {most}");
    stream::response(headers::status(RESOURCE_EXHAUSTED, &text))
}

/// The answer to a request that is not one of gRPC.
fn refusal(method: &Method, headers: &HeaderMap) -> Option<http::Response<()>> {
    let content_type = headers.get("content-type").map_or(&b""[..], |each| each.as_bytes());
    // `application/grpc-web` is another protocol.
    let is_grpc = content_type
        .strip_prefix(b"application/grpc")
        .is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')));
    let status = if method != Method::POST {
        StatusCode::METHOD_NOT_ALLOWED
    } else if !is_grpc {
        StatusCode::UNSUPPORTED_MEDIA_TYPE
    } else {
        return None;
    };
    let mut response = http::Response::new(());
    *response.status_mut() = status;
    Some(response)
}
