//! What commands print. A reader who has gone, as after `| head -1`, is nobody's fault: the command ends, quietly and in order.

use std::fmt::{Arguments, Display};
use std::io::{self, ErrorKind, Write};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

/// As a shell tells the end by `SIGPIPE`: 128 and the signal's number.
const READER_GONE: u8 = 128 + 13;

/// Whoever read standard output has gone.
#[derive(Debug)]
struct ReaderGone;

impl Display for ReaderGone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("nobody reads standard output any more")
    }
}

impl std::error::Error for ReaderGone {}

/// Standard output, as `writeln!(out(), ...)?`: `println!` panics where the reader has gone.
pub(crate) struct Out(());

pub(crate) fn out() -> Out {
    Out(())
}

impl Out {
    /// What `write!` and `writeln!` call.
    pub(crate) fn write_fmt(&mut self, text: Arguments<'_>) -> anyhow::Result<()> {
        checked(io::stdout().write_fmt(text))
    }

    /// Bytes, at once.
    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        checked(out.write_all(bytes).and_then(|()| out.flush()))
    }
}

fn checked(written: io::Result<()>) -> anyhow::Result<()> {
    written.map_err(|err| match err.kind() {
        ErrorKind::BrokenPipe => ReaderGone.into(),
        _ => anyhow::Error::new(err).context("standard output cannot be written"),
    })
}

/// A line on standard error; a reader who has gone changes nothing.
pub(crate) fn tell(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Standard output for what copies streams, which notes whether the reader has gone.
pub(crate) struct Piped {
    out: tokio::io::Stdout,
    has_gone: Arc<AtomicBool>,
}

/// What a [`Piped`] has noted.
pub(crate) struct Reader(Arc<AtomicBool>);

pub(crate) fn piped() -> (Piped, Reader) {
    let has_gone = Arc::new(AtomicBool::new(false));
    (Piped { out: tokio::io::stdout(), has_gone: has_gone.clone() }, Reader(has_gone))
}

impl Reader {
    /// Why copying failed.
    pub(crate) fn or(&self, err: impl Into<anyhow::Error>) -> anyhow::Error {
        if self.0.load(Ordering::Relaxed) { ReaderGone.into() } else { err.into() }
    }
}

impl Piped {
    fn note<T>(&self, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if matches!(&polled, Poll::Ready(Err(err)) if err.kind() == ErrorKind::BrokenPipe) {
            self.has_gone.store(true, Ordering::Relaxed);
        }
        polled
    }
}

impl AsyncWrite for Piped {
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

/// Says why a command failed, and gives its exit code.
pub(crate) fn failed(err: &anyhow::Error) -> ExitCode {
    if err.is::<ReaderGone>() {
        return ExitCode::from(READER_GONE);
    }
    tell(format_args!("sealway: {err:#}"));
    ExitCode::FAILURE
}
