//! A file with the secrets of sessions, for an inspector in development: `SEALWAY3 <session id> <prk, hexadecimal>`.
//!
//! A reader of the file can read and forge everything. So it requires both an option and an environment variable, and
//! the client prints a warning.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use zeroize::Zeroizing;

use super::Session;
use super::lines::private;
use crate::error::{Error, ErrorKind};

/// Environment variable that has to be `1`.
pub(super) const ALLOWED: &str = "SEALWAY_KEY_LOG_ALLOWED";

/// Rejects a key log that the environment does not allow, and prints a warning for one that it allows.
pub(crate) fn check(file: &Path) -> Result<(), Error> {
    if std::env::var_os(ALLOWED).is_none_or(|value| value != "1") {
        return Err(ErrorKind::Usage(format!(
            "a key log is for development alone: it is written only if {ALLOWED} is 1"
        ))
        .into());
    }
    let warning = format!(
        "WARNING: the keys of all sessions are written to {}: anyone who reads the file can read and forge everything",
        file.display()
    );
    // A failed write to standard error does not stop the session.
    let _ = writeln!(std::io::stderr(), "{warning}");
    Ok(())
}

/// Appends the secret of a session to the file.
pub(super) fn write(file: &Path, session: &Session) -> Result<(), Error> {
    let mut line = Zeroizing::new(format!("SEALWAY3 {} ", session.id()));
    // Reserved in advance: a line that grows would move and leave copies of the secret in memory.
    line.reserve_exact(65);
    for byte in session.agreed.expose_secret().expose() {
        let _ = write!(*line, "{byte:02x}");
    }
    line.push('\n');
    let opened = private(OpenOptions::new().append(true).create(true)).open(file);
    let written = opened.and_then(|mut out| out.write_all(line.as_bytes()));
    let failed = |err| ErrorKind::Usage(format!("cannot write the key log {}: {err}", file.display()));
    Ok(written.map_err(failed)?)
}
