//! HTTP/2 and gRPC's framing for a server whose sockets, TLS and handlers are Python's.

mod connection;
mod frames;
mod headers;
mod inbox;
mod pipe;
mod stream;

use std::time::Duration;

use http::HeaderMap;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::connection::{Connection, Limits};
use crate::frames::PingPolicy;
use crate::headers::Value;
use crate::stream::Event;

/// What `Wire.receive` returns are tuples that begin with one of these.
const CALL: u8 = 0;
const MESSAGE: u8 = 1;
const TOO_LARGE: u8 = 2;
const HALF_CLOSED: u8 = 3;
const SENT: u8 = 4;
const CLOSED: u8 = 5;
const BAD_CALL: u8 = 6;
const WANTS_ROOM: u8 = 7;
const WAITING: u8 = 8;

type Metadata<'py> = Vec<(String, Bound<'py, PyBytes>)>;

/// One connection. For the thread of one event loop.
#[pyclass]
struct Wire {
    connection: Connection,
}

#[pymethods]
impl Wire {
    #[new]
    fn new(
        message_bytes_max: usize,
        metadata_bytes_max: u32,
        streams_max: u32,
        ping_interval_ms: u64,
        ping_strikes_max: u32,
        permits_pings_without_calls: bool,
    ) -> Self {
        let limits = Limits { message_bytes_max, metadata_bytes_max, streams_max };
        let pings = PingPolicy {
            interval: Duration::from_millis(ping_interval_ms),
            strikes_max: ping_strikes_max,
            permits_without_calls: permits_pings_without_calls,
        };
        Self { connection: Connection::new(limits, pings) }
    }

    /// Takes bytes of the socket; nothing more comes after empty ones. Returns events.
    fn receive<'py>(&mut self, py: Python<'py>, content: &[u8]) -> PyResult<Bound<'py, PyList>> {
        self.connection.receive(content);
        self.drive(py)
    }

    /// Goes on with what was called before. Returns events.
    fn drive<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut events = Vec::new();
        self.connection.drive(&mut events);
        let list = PyList::empty(py);
        for event in events {
            list.append(shown(py, event)?)?;
        }
        Ok(list)
    }

    /// Takes the bytes for the socket.
    fn leaving<'py>(&mut self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let leaving = std::mem::take(&mut self.connection.pipe.bytes().leaving);
        PyBytes::new(py, &leaving)
    }

    /// Bytes of the socket that have arrived and were not read.
    fn unread_bytes(&self) -> usize {
        self.connection.pipe.bytes().arrived.len()
    }

    /// Tells whether the socket takes nothing now.
    fn set_blocked(&self, is_blocked: bool) {
        self.connection.pipe.bytes().is_blocked = is_blocked;
    }

    /// The handler waits for one more message of the call.
    fn want(&mut self, id: u64) {
        if let Some(stream) = self.connection.stream(id) {
            stream.wanted += 1;
            self.connection.touch(id);
        }
    }

    /// There is room for the message of the call that is not whole.
    fn give_room(&mut self, id: u64) {
        if let Some(stream) = self.connection.stream(id) {
            stream.give_room();
            self.connection.touch(id);
        }
    }

    /// Bytes of the call that its handler has not taken.
    fn held_bytes(&mut self, id: u64) -> usize {
        self.connection.stream(id).map_or(0, |stream| stream.held_bytes())
    }

    /// Takes no further message of the call.
    fn refuse(&mut self, id: u64) {
        if let Some(stream) = self.connection.stream(id) {
            stream.refuse();
            self.connection.touch(id);
        }
    }

    /// Lets the client have this much more on its way than at first, in all calls.
    fn widen(&mut self, size: u32) {
        self.connection.widen(size);
    }

    /// Sets what the first headers have besides their own; for before the first message.
    fn set_initial_metadata(&mut self, id: u64, metadata: Metadata<'_>) -> PyResult<()> {
        let mut headers = HeaderMap::new();
        add_all(&mut headers, metadata)?;
        if let Some(stream) = self.connection.stream(id) {
            stream.set_initial_metadata(headers);
        }
        Ok(())
    }

    /// Sends the first headers now.
    fn open(&mut self, id: u64) {
        if let Some(stream) = self.connection.stream(id) {
            // A call that is broken off is told by an event.
            let _ = stream.open();
            self.connection.touch(id);
        }
    }

    /// Sends a message. An event tells when it has left.
    fn send(&mut self, id: u64, content: &[u8]) {
        if let Some(stream) = self.connection.stream(id) {
            stream.send(content);
            self.connection.touch(id);
        }
    }

    /// Ends the call, behind its messages. Raises ValueError for metadata that no header can have.
    fn finish(
        &mut self,
        id: u64,
        code: u32,
        message: &str,
        metadata: Metadata<'_>,
    ) -> PyResult<()> {
        let mut trailers = headers::status(code, message);
        add_all(&mut trailers, metadata)?;
        if let Some(stream) = self.connection.stream(id) {
            stream.finish(trailers);
            self.connection.touch(id);
        }
        Ok(())
    }

    /// Sends the only message of a call, and OK.
    fn answer(&mut self, id: u64, content: &[u8]) {
        if let Some(stream) = self.connection.stream(id) {
            stream.send(content);
            stream.finish(headers::status(0, ""));
            self.connection.touch(id);
        }
    }

    /// Tells the client to make no further calls on this connection.
    fn drain(&mut self) {
        self.connection.drain();
    }

    /// Sends a ping, unless one is on its way.
    fn ping(&mut self) {
        self.connection.ping();
    }

    /// Whether a ping has not been answered yet.
    fn awaits_pong(&mut self) -> bool {
        self.connection.awaits_pong()
    }

    /// Whether the handshake of HTTP/2 is over.
    fn is_open(&self) -> bool {
        self.connection.is_open()
    }

    /// Whether there is still something to read or to send.
    fn lives(&self) -> bool {
        self.connection.lives()
    }
}

fn add_all(headers: &mut HeaderMap, metadata: Metadata<'_>) -> PyResult<()> {
    for (name, value) in metadata {
        headers::add_metadata(headers, &name, value.as_bytes())
            .map_err(|what| PyValueError::new_err(format!("not valid as metadata: {what}")))?;
    }
    Ok(())
}

fn shown<'py>(py: Python<'py>, event: Event) -> PyResult<Bound<'py, PyTuple>> {
    match event {
        Event::Call { id, path, headers } => called(py, id, path, &headers),
        Event::Message { id, is_compressed, content } => {
            (MESSAGE, id, is_compressed, PyBytes::new(py, &content)).into_pyobject(py)
        }
        Event::TooLarge { id, size } => (TOO_LARGE, id, size).into_pyobject(py),
        Event::WantsRoom { id, size } => (WANTS_ROOM, id, size).into_pyobject(py),
        Event::Waiting { size } => (WAITING, 0, size).into_pyobject(py),
        Event::HalfClosed { id } => (HALF_CLOSED, id).into_pyobject(py),
        Event::Sent { id } => (SENT, id).into_pyobject(py),
        Event::Closed { id, is_broken_off } => (CLOSED, id, is_broken_off).into_pyobject(py),
    }
}

fn called<'py>(
    py: Python<'py>,
    id: u64,
    path: String,
    headers: &HeaderMap,
) -> PyResult<Bound<'py, PyTuple>> {
    let encoding = headers.get("grpc-encoding").and_then(|each| each.to_str().ok());
    let (Ok(timeout), Ok(metadata)) =
        (headers::timeout_seconds(headers), headers::metadata(headers))
    else {
        return (BAD_CALL, id).into_pyobject(py);
    };
    let mut pairs = Vec::with_capacity(metadata.len());
    for (name, value) in metadata {
        pairs.push(match value {
            Value::Text(text) => (name, text).into_pyobject(py)?,
            Value::Binary(content) => (name, PyBytes::new(py, &content)).into_pyobject(py)?,
        });
    }
    (CALL, id, path, PyTuple::new(py, pairs)?, timeout, encoding).into_pyobject(py)
}

#[pymodule]
fn _wire(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Wire>()
}
