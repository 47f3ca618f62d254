//! Output of a connection: small frames gathered in one buffer, large payloads as they are, written together.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::AsyncWrite;

/// Longest payload that is copied behind the others, in bytes; larger ones are written in place.
const COPY_MAX: usize = 2 * 1024;
/// Number of bytes from which on no more frames are made: they must be written first.
const OUTPUT_MAX: usize = 128 * 1024;
/// Number of bytes from which on no stream is opened: a peer that does not read would be sent heads without end.
const HEADS_MAX: usize = 4 * OUTPUT_MAX;
/// Number of pieces in one system call.
const SLICES_MAX: usize = 32;
/// Largest buffer that an idle connection keeps, in bytes.
const KEPT_MAX: usize = 2 * 1024;

/// Bytes to be written, in the order `parts`, `tail`.
#[derive(Debug, Default)]
pub(super) struct Output {
    parts: VecDeque<Bytes>,
    /// Length of all parts together.
    parts_len: usize,
    tail: BytesMut,
}

impl Output {
    /// Returns the buffer behind everything else, for frames.
    pub(super) fn tail(&mut self) -> &mut BytesMut {
        &mut self.tail
    }

    /// Appends a payload, without a copy if it is long.
    pub(super) fn push(&mut self, payload: Bytes) {
        if payload.len() <= COPY_MAX {
            self.tail.extend_from_slice(&payload);
            return;
        }
        if !self.tail.is_empty() {
            self.parts_len += self.tail.len();
            self.parts.push_back(self.tail.split().freeze());
        }
        self.parts_len += payload.len();
        self.parts.push_back(payload);
    }

    /// Returns the number of bytes to be written.
    pub(super) fn len(&self) -> usize {
        self.parts_len + self.tail.len()
    }

    /// Returns whether everything is written.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether more frames may be made.
    pub(super) fn takes_more(&self) -> bool {
        self.len() < OUTPUT_MAX
    }

    /// Returns whether further streams may be opened.
    pub(super) fn takes_heads(&self) -> bool {
        self.len() < HEADS_MAX
    }

    /// Releases memory that an idle connection does not need.
    pub(super) fn rest(&mut self) {
        if self.is_empty() && self.tail.capacity() > KEPT_MAX {
            self.tail = BytesMut::new();
        }
        if self.parts.is_empty() {
            self.parts = VecDeque::new();
        }
    }

    /// Writes the output, and adds the number of bytes to `written`. Pending while the peer does not read.
    pub(super) fn poll_write<IO>(
        &mut self,
        io: &mut IO,
        cx: &mut Context<'_>,
        written: &mut u64,
    ) -> Poll<io::Result<()>>
    where
        IO: AsyncWrite + Unpin,
    {
        while !self.is_empty() {
            let len = if self.parts.is_empty() {
                ready!(Pin::new(&mut *io).poll_write(cx, &self.tail))?
            } else {
                let mut slices = [IoSlice::new(&[]); SLICES_MAX];
                let pieces = self.parts.iter().map(|part| &part[..]).chain([&self.tail[..]]);
                let count = slices.iter_mut().zip(pieces).map(|(slice, piece)| *slice = IoSlice::new(piece)).count();
                ready!(Pin::new(&mut *io).poll_write_vectored(cx, slices.get(..count).unwrap_or_default()))?
            };
            if len == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            *written += len as u64;
            self.advance(len);
        }
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, mut len: usize) {
        while let Some(part) = self.parts.front_mut() {
            let of_part = len.min(part.len());
            part.advance(of_part);
            self.parts_len -= of_part;
            len -= of_part;
            if !part.is_empty() {
                return;
            }
            self.parts.pop_front();
        }
        self.tail.advance(len.min(self.tail.len()));
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn all_is_written_in_order_however_little_is_taken_at_a_time() {
        let (mut near, mut far) = tokio::io::duplex(7);
        let mut output = Output::default();
        let mut want = Vec::new();
        for number in 0..50_u8 {
            let payload = Bytes::from(vec![number; if number % 3 == 0 { COPY_MAX + 1 } else { 5 }]);
            output.tail().extend_from_slice(b"head");
            output.push(payload.clone());
            want.extend_from_slice(b"head");
            want.extend_from_slice(&payload);
        }
        assert_eq!(output.len(), want.len());
        let read = tokio::spawn(async move {
            let mut all = Vec::new();
            far.read_to_end(&mut all).await.unwrap();
            all
        });
        let mut written = 0;
        std::future::poll_fn(|cx| output.poll_write(&mut near, cx, &mut written)).await.unwrap();
        drop(near);
        assert_eq!(written, want.len() as u64);
        assert_eq!(read.await.unwrap(), want);
        assert!(output.is_empty() && output.takes_more());
    }
}
