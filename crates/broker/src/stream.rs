//! A connection's stream that is woken by what it waits for and by nothing else. Whoever waits for a Unix socket in both
//! directions is woken each time the other side has read: for a call at a time that is one wake-up of three.

use std::io::{self, IoSlice, Read, Write};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

/// A stream; woken when there is something to read, and while it has something to write that finds no room, when there is
/// room.
#[derive(Debug)]
pub(crate) struct QuietStream {
    reading: AsyncFd<UnixStream>,
    /// The same socket, while a write waits.
    writing: Option<AsyncFd<UnixStream>>,
}

impl QuietStream {
    /// Takes over a stream of tokio's.
    ///
    /// # Errors
    /// The kernel cannot watch it.
    pub(crate) fn new(stream: tokio::net::UnixStream) -> io::Result<QuietStream> {
        let reading = watched(stream.into_std()?, Interest::READABLE)?;
        Ok(QuietStream { reading, writing: None })
    }

    /// Writes now, or when there is room.
    fn poll_with(
        &mut self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(&UnixStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            if let Some(writing) = &self.writing {
                drop(ready!(writing.poll_write_ready(cx))?);
                self.writing = None;
            }
            match write(self.reading.get_ref()) {
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => {
                    let same = self.reading.get_ref().try_clone()?;
                    self.writing = Some(watched(same, Interest::WRITABLE)?);
                }
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                done => return Poll::Ready(done),
            }
        }
    }
}

#[expect(
    deprecated,
    reason = "unsound for types whose descriptor can change, as std's cannot; what replaces it is unsafe"
)]
fn watched(stream: UnixStream, interest: Interest) -> io::Result<AsyncFd<UnixStream>> {
    AsyncFd::with_interest(stream, interest)
}

impl AsyncRead for QuietStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.reading.poll_read_ready(cx))?;
            let room = buf.initialize_unfilled();
            let most = room.len();
            match ready.try_io(|reading| reading.get_ref().read(room)) {
                Ok(Ok(read)) => {
                    // The kernel had no more: it says so again when it has.
                    if (1..most).contains(&read) {
                        ready.clear_ready();
                    }
                    buf.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(err)) if err.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(err)) => return Poll::Ready(Err(err)),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for QuietStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll_with(cx, |mut stream| stream.write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_with(cx, |mut stream| stream.write_vectored(parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.reading.get_ref().shutdown(std::net::Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// More than a socket holds.
    const LEN: usize = 4 * 1024 * 1024;

    fn pair() -> (QuietStream, tokio::net::UnixStream) {
        let (ours, theirs) = tokio::net::UnixStream::pair().unwrap();
        (QuietStream::new(ours).unwrap(), theirs)
    }

    fn pattern() -> Vec<u8> {
        (0..LEN).map(|at| (at % 251) as u8).collect()
    }

    #[tokio::test]
    async fn a_write_that_finds_no_room_goes_on_when_there_is_some() {
        let (mut ours, mut theirs) = pair();
        let writing = tokio::spawn(async move {
            ours.write_all(&pattern()).await.unwrap();
            ours.shutdown().await.unwrap();
            ours
        });
        // Until it is stuck.
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        assert!(!writing.is_finished());
        let mut read = Vec::new();
        theirs.read_to_end(&mut read).await.unwrap();
        assert!(read == pattern());
        assert!(writing.await.unwrap().writing.is_none());
    }

    #[tokio::test]
    async fn all_that_comes_is_read_to_its_end_in_pieces_of_any_size() {
        let (mut ours, mut theirs) = pair();
        let writing = tokio::spawn(async move {
            for piece in pattern().chunks(70_001) {
                theirs.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        let mut read = Vec::new();
        ours.read_to_end(&mut read).await.unwrap();
        assert!(read == pattern());
        writing.await.unwrap();
    }

    #[tokio::test]
    async fn who_is_gone_ends_the_reading_and_fails_the_writing() {
        let (mut ours, theirs) = pair();
        drop(theirs);
        assert_eq!(ours.read(&mut [0; 8]).await.unwrap(), 0);
        assert_eq!(ours.write(b"to nobody").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
