//! The output buffer: a head and small pieces copied together, one large piece as it is, and the bytes that end it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::AsyncWrite;

/// Longest piece that is copied behind the others, in bytes; larger ones are written in place.
const COPY_MAX: usize = 4 * 1024;
/// Number of gathered bytes from which on they must be written first.
const GATHERED_MAX: usize = 32 * 1024;
/// Largest buffer that is kept between two messages, in bytes.
const KEPT_MAX: usize = 2 * 1024;

/// Bytes to be written, in the order `gathered`, `large`, `tail`.
#[derive(Debug, Default)]
pub(crate) struct Output {
    gathered: BytesMut,
    large: Bytes,
    tail: &'static [u8],
}

impl Output {
    /// Returns the buffer of small pieces. Only for use while [`Output::takes_more`].
    pub(crate) fn gathered(&mut self) -> &mut BytesMut {
        &mut self.gathered
    }

    /// Appends a piece of a body to the output, and `tail` behind it. Only for use while [`Output::takes_more`].
    pub(crate) fn push(&mut self, data: Bytes, tail: &'static [u8]) {
        if data.len() <= COPY_MAX {
            self.gathered.extend_from_slice(&data);
            self.gathered.extend_from_slice(tail);
        } else {
            self.large = data;
            self.tail = tail;
        }
    }

    /// Returns whether more may be appended.
    pub(crate) fn takes_more(&self) -> bool {
        self.large.is_empty() && self.tail.is_empty() && self.gathered.len() < GATHERED_MAX
    }

    /// Returns whether everything is written.
    pub(crate) fn is_empty(&self) -> bool {
        self.gathered.is_empty() && self.large.is_empty() && self.tail.is_empty()
    }

    /// Releases memory that an idle connection does not need.
    pub(crate) fn rest(&mut self) {
        if self.gathered.is_empty() && self.gathered.capacity() > KEPT_MAX {
            self.gathered = BytesMut::new();
        }
    }

    /// Writes the output, and counts the bytes in `written`. Pending while the peer does not read.
    pub(crate) fn poll_write<IO>(
        &mut self,
        io: &mut IO,
        cx: &mut Context<'_>,
        written: &mut u64,
    ) -> Poll<io::Result<()>>
    where
        IO: AsyncWrite + Unpin,
    {
        while !self.is_empty() {
            let len = if self.large.is_empty() && self.tail.is_empty() {
                ready!(Pin::new(&mut *io).poll_write(cx, &self.gathered))?
            } else {
                let parts = [IoSlice::new(&self.gathered), IoSlice::new(&self.large), IoSlice::new(self.tail)];
                let first = parts.iter().take_while(|part| part.is_empty()).count();
                ready!(Pin::new(&mut *io).poll_write_vectored(cx, &parts[first..]))?
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
        let gathered = len.min(self.gathered.len());
        self.gathered.advance(gathered);
        len -= gathered;
        let large = len.min(self.large.len());
        self.large.advance(large);
        if self.large.is_empty() {
            // Frees the buffer that the slice belongs to.
            self.large = Bytes::new();
        }
        len -= large;
        self.tail = self.tail.get(len..).unwrap_or_default();
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
        output.gathered().extend_from_slice(b"head");
        output.push(Bytes::from_static(b"small"), b"\r\n");
        let large = vec![b'x'; COPY_MAX + 1];
        output.push(large.clone().into(), b"\r\n");
        assert!(!output.takes_more());
        let read = tokio::spawn(async move {
            let mut all = Vec::new();
            far.read_to_end(&mut all).await.unwrap();
            all
        });
        let mut written = 0;
        std::future::poll_fn(|cx| output.poll_write(&mut near, cx, &mut written)).await.unwrap();
        drop(near);
        let want = [&b"headsmall\r\n"[..], &large, b"\r\n"].concat();
        assert_eq!((read.await.unwrap(), written), (want.clone(), want.len() as u64));
        assert!(output.is_empty() && output.takes_more());
    }
}
