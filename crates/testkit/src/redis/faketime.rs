//! libfaketime for a server: its clock is the system's plus an offset that is read anew each time.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;

/// Returns the file of a server's offset.
pub(crate) fn file(folder: &Path) -> PathBuf {
    folder.join("clock")
}

/// Sets the clock to `now_ms`, from which it runs on.
pub(crate) fn set(file: &Path, now_ms: u64) -> anyhow::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "the offset is from the clock that the server's process sees")]
    let real_ms = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
    let ahead_ms = i64::try_from(now_ms)? - i64::try_from(real_ms)?;
    let sign = if ahead_ms < 0 { '-' } else { '+' };
    let ms = ahead_ms.unsigned_abs();
    // Renamed into place: a half-written offset would be another time.
    let unfinished = file.with_extension("tmp");
    std::fs::write(&unfinished, format!("{sign}{}.{:03}\n", ms / 1000, ms % 1000))?;
    Ok(std::fs::rename(unfinished, file)?)
}

/// Runs a command with the clock of `file`.
pub(crate) fn apply(command: &mut Command, file: &Path) -> anyhow::Result<()> {
    // With libc's own malloc in front: jemalloc, which redis-server is linked to, reads the time while libfaketime initialises
    // itself, and the two would wait for each other.
    let preload = format!("{}:libc.so.6", library()?.display());
    command.env("LD_PRELOAD", preload).env("FAKETIME_TIMESTAMP_FILE", file);
    // The clock that measures waits stays true: only the time of day is changed.
    command.env("FAKETIME_NO_CACHE", "1").env("DONT_FAKE_MONOTONIC", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    Ok(())
}

/// Returns the library's path: Debian puts it under the folder of the machine's architecture.
fn library() -> anyhow::Result<PathBuf> {
    const NAME: &str = "faketime/libfaketime.so.1";
    let mut folders = vec![PathBuf::from("/usr/lib"), PathBuf::from("/usr/local/lib")];
    folders.extend(std::fs::read_dir("/usr/lib")?.filter_map(|entry| Some(entry.ok()?.path())));
    let found = folders.into_iter().map(|folder| folder.join(NAME)).find(|path| path.exists());
    found.context("no libfaketime.so.1; install Debian's package libfaketime")
}
