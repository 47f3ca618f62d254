//! What commands print. A reader who has gone, as after `| head -1`, is nobody's fault: the command ends, quietly and in order.

use std::fmt::{Arguments, Display};
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// As a shell tells the end by `SIGPIPE`: 128 and the signal's number.
const READER_GONE: u8 = 128 + 13;

/// Whoever read standard output has gone.
#[derive(Debug)]
pub(crate) struct ReaderGone;

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

/// A command line that is wrong in a way that its parser cannot see: exit code 2.
#[derive(Debug)]
pub(crate) struct Usage(String);

impl Usage {
    /// A sentence that names the flag.
    #[allow(dead_code, reason = "not every family of commands has such flags")]
    pub(crate) fn new(text: impl Display) -> Usage {
        Usage(text.to_string())
    }
}

impl Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Says why a command failed, and gives its exit code.
pub(crate) fn failed(err: &anyhow::Error) -> ExitCode {
    if err.is::<ReaderGone>() {
        return ExitCode::from(READER_GONE);
    }
    tell(format_args!("sealway: {err:#}"));
    if err.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}
