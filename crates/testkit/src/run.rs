//! Files that the processes of a test run share: with nextest each test is a process.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Environment variable with a folder that the processes of a test run share, and the run removes.
const FOLDER: &str = "SEALWAY_TEST_RUN";

/// Returns the path `name` in the folder of the run. The first process that asks for it makes it: `make` leaves it at the path that it
/// gets, as a whole. None if this process belongs to no run.
///
/// # Errors
/// Those of `make`, or the folder cannot be written.
pub(crate) fn made_once(name: &str, make: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<Option<PathBuf>> {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return Ok(None) };
    let path = folder.join(name);
    let lock = fs::File::create(folder.join(format!("{name}.lock"))).context(FOLDER)?;
    lock.lock().with_context(|| format!("cannot lock {name}"))?;
    if !path.exists() {
        make(&path)?;
    }
    Ok(Some(path))
}
