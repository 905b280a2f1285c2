//! A connection's bytes in memory: h2 reads and writes here, and Python has the socket.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// While the socket takes nothing, h2 may write this much more before it has to wait.
const LEAVING_BYTES_MAX: usize = 256 << 10;

#[derive(Default)]
pub struct Bytes {
    pub arrived: BytesMut,
    pub leaving: Vec<u8>,
    /// Whether the peer sends no more.
    pub has_ended: bool,
    /// Whether the socket takes nothing now.
    pub is_blocked: bool,
}

#[derive(Clone, Default)]
pub struct Pipe(Arc<Mutex<Bytes>>);

impl Pipe {
    /// Python calls from one thread, so nobody ever waits here.
    pub fn bytes(&self) -> MutexGuard<'_, Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = self.bytes();
        if bytes.arrived.is_empty() {
            return if bytes.has_ended { Poll::Ready(Ok(())) } else { Poll::Pending };
        }
        let size = out.remaining().min(bytes.arrived.len());
        out.put_slice(&bytes.arrived[..size]);
        bytes.arrived.advance(size);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        content: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut bytes = self.bytes();
        if bytes.is_blocked && bytes.leaving.len() >= LEAVING_BYTES_MAX {
            return Poll::Pending;
        }
        bytes.leaving.extend_from_slice(content);
        Poll::Ready(Ok(content.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
