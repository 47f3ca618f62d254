//! A transport that cuts what passes anywhere, and bodies that arrive as a plan says.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use super::plan::{BodyPlan, Plan, Random};

/// A transport that reads and writes a random number of bytes at a time.
pub(crate) struct Cut<IO> {
    io: IO,
    random: Random,
    max: usize,
}

impl<IO> Cut<IO> {
    pub(crate) fn new(io: IO, plan: &Plan) -> Cut<IO> {
        Cut { io, random: Random::new(plan.seed), max: plan.cut_max }
    }
}

/// Returns both ends of a connection in memory.
pub(crate) fn pair(plan: &Plan) -> (Cut<DuplexStream>, Cut<DuplexStream>) {
    let (near, far) = tokio::io::duplex(plan.pipe_len);
    (Cut::new(near, plan), Cut::new(far, plan))
}

impl<IO: AsyncRead + Unpin> AsyncRead for Cut<IO> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, read: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let max = self.max;
        let len = (1 + self.random.below(max)).min(read.remaining());
        let mut part = vec![0; len];
        let mut part = ReadBuf::new(&mut part);
        std::task::ready!(Pin::new(&mut self.io).poll_read(cx, &mut part))?;
        read.put_slice(part.filled());
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Cut<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let max = self.max;
        let len = (1 + self.random.below(max)).min(bytes.len());
        match Pin::new(&mut self.io).poll_write(cx, &bytes[..len]) {
            // A client that has all its answers closes, whatever is still said of their streams. After such an error h2 0.4.20
            // fails an assertion of its own.
            Poll::Ready(Err(err)) if err.kind() == io::ErrorKind::BrokenPipe => Poll::Ready(Ok(len)),
            written => written,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// Yields once to the other tasks.
#[derive(Default)]
pub(crate) struct Rest(bool);

impl Rest {
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<()> {
        self.0 = !self.0;
        if self.0 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}

/// The body of a plan.
pub(crate) struct BodyOfPlan {
    plan: BodyPlan,
    at: usize,
    sent: usize,
    has_trailers: bool,
    rest: Rest,
}

impl BodyOfPlan {
    pub(crate) fn new(plan: &BodyPlan) -> BodyOfPlan {
        let has_trailers = plan.trailers.is_some();
        BodyOfPlan { plan: plan.clone(), at: 0, sent: 0, has_trailers, rest: Rest::default() }
    }
}

impl Body for BodyOfPlan {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.plan.is_slow {
            std::task::ready!(self.rest.poll(cx));
        }
        if self.plan.fails_after == Some(self.at) {
            return Poll::Ready(Some(Err("the plan says so".into())));
        }
        if let Some(len) = self.plan.pieces.get(self.at).copied() {
            let bytes = self.plan.bytes(self.sent, len);
            self.at += 1;
            self.sent += len;
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        if std::mem::take(&mut self.has_trailers) {
            return Poll::Ready(self.plan.trailers.clone().map(|trailers| Ok(Frame::trailers(trailers))));
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        let is_failed = self.plan.fails_after == Some(self.at);
        self.plan.says_end && self.at == self.plan.pieces.len() && !self.has_trailers && !is_failed
    }

    fn size_hint(&self) -> SizeHint {
        // An announced length of a body that fails is announced all the same.
        if self.plan.is_announced {
            SizeHint::with_exact((self.plan.len() - self.sent) as u64)
        } else {
            SizeHint::default()
        }
    }
}
