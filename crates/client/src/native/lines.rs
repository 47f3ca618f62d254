//! Files with one line for each service, which begins with the service's origin.
//!
//! Several processes read and write them concurrently: a writer holds a lock file beside the file, reads again, and
//! renames a new file over the old one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind};

/// Longest file that is read, in bytes.
const FILE_LEN_MAX: u64 = 4 * 1024 * 1024;

/// Returns the text after `origin` in its line; `None` without a line or a file.
///
/// # Errors
/// [`ErrorKind::Trust`] for a file that cannot be read, or that other users may write.
pub(super) fn read(file: &Path, origin: &str) -> Result<Option<String>, Error> {
    let text = whole(file)?;
    Ok(text.lines().find_map(|line| behind(line, origin)).map(str::to_owned))
}

/// Returns all origins in a file, each with the rest of its line; none without a file.
///
/// # Errors
/// Those of [`read`].
pub(super) fn all(file: &Path) -> Result<Vec<(String, String)>, Error> {
    let text = whole(file)?;
    Ok(text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(origin, rest)| (origin.into(), rest.into()))
        .collect())
}

/// Replaces the line of `origin`, or removes it if `change` returns `None`. A lock keeps other processes from changing
/// the file meanwhile.
///
/// # Errors
/// Errors of `change`; [`ErrorKind::Trust`] for a file that cannot be locked, read or written.
pub(super) fn rewrite(
    file: &Path,
    origin: &str,
    change: impl FnOnce(Option<&str>) -> Result<Option<String>, Error>,
) -> Result<(), Error> {
    let failed =
        |what: &str, err: io::Error| Error::from(ErrorKind::Trust(format!("cannot {what} {}: {err}", file.display())));
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(|err| failed("make the folder of", err))?;
    }
    let lock = private(OpenOptions::new().write(true).create(true)).open(beside(file, "lock"));
    let lock = lock.map_err(|err| failed("lock", err))?;
    lock.lock().map_err(|err| failed("lock", err))?;
    let text = whole(file)?;
    let old = text.lines().find_map(|line| behind(line, origin));
    let new = change(old)?;
    if old == new.as_deref() {
        return Ok(());
    }
    let others = text.lines().filter(|line| behind(line, origin).is_none());
    let new = new.map(|new| format!("{origin} {new}"));
    let new = others.chain(new.as_deref()).fold(String::new(), |all, line| all + line + "\n");
    let temporary = beside(file, "new");
    let written = private(OpenOptions::new().write(true).create(true).truncate(true)).open(&temporary);
    let written = written.and_then(|mut out| out.write_all(new.as_bytes()).and_then(|()| out.sync_all()));
    written.and_then(|()| fs::rename(&temporary, file)).map_err(|err| failed("write", err))
}

fn behind<'a>(line: &'a str, origin: &str) -> Option<&'a str> {
    line.strip_prefix(origin)?.strip_prefix(' ').map(str::trim)
}

fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

fn whole(file: &Path) -> Result<String, Error> {
    let failed =
        |err: &dyn std::fmt::Display| Error::from(ErrorKind::Trust(format!("cannot read {}: {err}", file.display())));
    let opened = match File::open(file) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        opened => opened.map_err(|err| failed(&err))?,
    };
    if may_others_write(&opened).map_err(|err| failed(&err))? {
        return Err(failed(&"others than its owner may write it, so it proves nothing (chmod 600)"));
    }
    let mut text = String::new();
    opened.take(FILE_LEN_MAX + 1).read_to_string(&mut text).map_err(|err| failed(&err))?;
    if text.len() as u64 > FILE_LEN_MAX { Err(failed(&"it is longer than 4 MiB")) } else { Ok(text) }
}

/// Makes created files readable and writable by their owner only.
#[cfg(unix)]
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600)
}

#[cfg(not(unix))]
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

#[cfg(unix)]
fn may_others_write(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    Ok(file.metadata()?.permissions().mode() & 0o022 != 0)
}

#[cfg(not(unix))]
fn may_others_write(_: &File) -> io::Result<bool> {
    Ok(false)
}
