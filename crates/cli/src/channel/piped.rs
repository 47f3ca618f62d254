//! Standard output for copied streams, which records if the reader has gone.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

use sealway_runtime::output::OutputError;

/// Standard output that notices a broken pipe.
pub(crate) struct PipeOutput {
    out: tokio::io::Stdout,
    has_gone: Arc<AtomicBool>,
}

/// Record of a [`PipeOutput`]'s reader.
pub(crate) struct Reader(Arc<AtomicBool>);

pub(crate) fn piped() -> (PipeOutput, Reader) {
    let has_gone = Arc::new(AtomicBool::new(false));
    (PipeOutput { out: tokio::io::stdout(), has_gone: has_gone.clone() }, Reader(has_gone))
}

impl Reader {
    /// Error for a failed copy: the reader's absence, else `err`.
    pub(crate) fn or(&self, err: impl Into<anyhow::Error>) -> anyhow::Error {
        if self.0.load(Ordering::Relaxed) { OutputError::ReaderGone.into() } else { err.into() }
    }
}

impl PipeOutput {
    fn note<T>(&self, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if matches!(&polled, Poll::Ready(Err(err)) if err.kind() == ErrorKind::BrokenPipe) {
            self.has_gone.store(true, Ordering::Relaxed);
        }
        polled
    }
}

impl AsyncWrite for PipeOutput {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.out).poll_write(cx, bytes);
        self.note(polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.out).poll_flush(cx);
        self.note(polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.out).poll_shutdown(cx);
        self.note(polled)
    }
}
