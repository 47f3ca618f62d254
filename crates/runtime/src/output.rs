//! The output of commands and their exit codes. A reader that has gone, as after `| head -1`, is no failure of the command: it ends,
//! quietly and in order.

use std::error::Error;
use std::fmt::{Arguments, Display};
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// As a shell tells the end by `SIGPIPE`: 128 and the signal's number.
const READER_GONE: u8 = 128 + 13;

/// The reason why standard output was not written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// Its reader has gone.
    #[error("nobody reads standard output any more")]
    ReaderGone,
    /// Anything else.
    #[error("standard output cannot be written")]
    Failed(#[source] io::Error),
}

impl From<io::Error> for OutputError {
    fn from(err: io::Error) -> OutputError {
        match err.kind() {
            ErrorKind::BrokenPipe => OutputError::ReaderGone,
            _ => OutputError::Failed(err),
        }
    }
}

/// A command line that is wrong in a way that its parser cannot see: exit code 2. Its text is a sentence that names the flag.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(String);

impl Usage {
    /// With this text.
    pub fn new(text: impl Display) -> Usage {
        Usage(text.to_string())
    }
}

/// Standard output, as `writeln!(out(), ...)?`: `println!` panics where the reader has gone.
#[derive(Debug)]
pub struct Out(());

/// Standard output.
pub fn out() -> Out {
    Out(())
}

impl Out {
    /// The target of `write!` and `writeln!`.
    ///
    /// # Errors
    /// It was not written.
    pub fn write_fmt(&mut self, text: Arguments<'_>) -> Result<(), OutputError> {
        Ok(io::stdout().write_fmt(text)?)
    }

    /// Writes bytes, at once.
    ///
    /// # Errors
    /// They were not written.
    pub fn write_all(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        let mut out = io::stdout().lock();
        Ok(out.write_all(bytes).and_then(|()| out.flush())?)
    }
}

/// Writes a line to standard error; a reader that has gone changes nothing.
pub fn tell(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Tells why a command failed, and returns its exit code.
pub fn failed(err: &(dyn Error + 'static)) -> ExitCode {
    if causes(err).any(|err| matches!(err.downcast_ref(), Some(OutputError::ReaderGone))) {
        return ExitCode::from(READER_GONE);
    }
    let texts: Vec<_> = causes(err).map(|err| err.to_string()).collect();
    tell(format_args!("sealway: {}", texts.join(": ")));
    if causes(err).any(|err| err.is::<Usage>()) { ExitCode::from(2) } else { ExitCode::FAILURE }
}

/// An error, then what each was caused by.
fn causes<'a>(err: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(err), |&err| err.source())
}
