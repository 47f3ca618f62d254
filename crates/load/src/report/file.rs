//! Report files: read up to a maximum size, written whole or not at all.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::document::{Kind, Report};

/// Maximum size of a report, in bytes; a day of seconds is about 100 MB.
const REPORT_LEN_MAX: u64 = 256 * 1024 * 1024;

/// Failure to read or write a report.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReportError {
    /// The file system reported an error.
    #[error("cannot {doing} {path}: {error}")]
    Io {
        /// Operation that failed: `read`, `write` and so on.
        doing: &'static str,
        /// Path of the report's file.
        path: PathBuf,
        /// Error of the file system.
        error: std::io::Error,
    },
    /// The content or the request is invalid; the message says why.
    #[error("{0}")]
    Content(String),
}

impl ReportError {
    fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> ReportError {
        let path = path.to_owned();
        move |error| ReportError::Io { doing, path, error }
    }
}

/// Reads the JSON report of a run.
///
/// # Errors
/// [`ReportError`] if the file cannot be read, is larger than 256 MiB, is not JSON, or is not the report of a run in a known
/// version.
pub(crate) fn read(path: &Path) -> Result<Report, ReportError> {
    let length = std::fs::metadata(path).map_err(ReportError::io("read", path))?.len();
    let failure = |why: String| ReportError::Content(format!("{} is not a report of a run: {why}", path.display()));
    if length > REPORT_LEN_MAX {
        return Err(failure(format!("it has {length} bytes, of at most {REPORT_LEN_MAX}")));
    }
    let text = std::fs::read(path).map_err(ReportError::io("read", path))?;
    parse(&text).map_err(failure)
}

/// Kind and version of a document. Read first, so that an error names the document and not a missing field.
#[derive(serde::Deserialize)]
struct Head {
    kind: Kind,
    version: u32,
}

fn parse(text: &[u8]) -> Result<Report, String> {
    let head: Head = serde_json::from_slice(text).map_err(|err| err.to_string())?;
    match head.kind {
        Kind::Run if head.version == super::VERSION => {}
        Kind::Run => {
            return Err(format!("its version is {}; this program reads version {}", head.version, super::VERSION));
        }
        Kind::Autotune => return Err("it is a report of autotune; give a report of a single run".to_owned()),
        Kind::Matrix => return Err("it is a report of a matrix; give a report of a single run".to_owned()),
    }
    serde_json::from_slice(text).map_err(|err| err.to_string())
}

/// Writes bytes to a file, or to standard output for `-`. A file keeps its old content or has the new, never a part: the
/// bytes are written to a temporary file beside it, synced to disk, and renamed.
///
/// # Errors
/// [`ReportError`] if the file or its folder cannot be written; the temporary file is removed then.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), ReportError> {
    if path == Path::new("-") {
        let mut out = std::io::stdout().lock();
        return out.write_all(bytes).and_then(|()| out.flush()).map_err(ReportError::io("write", path));
    }
    // A pipe or a terminal cannot be replaced and is written to directly.
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return std::fs::write(path, bytes).map_err(ReportError::io("write", path));
    }
    let Some((beside, folder)) = beside(path) else {
        return Err(ReportError::Content(format!("cannot write {}: it does not name a file", path.display())));
    };
    let written = place(&beside, path, folder, bytes);
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written.map_err(ReportError::io("write", path))
}

/// Checks that [`write`] can place a file at this path: creates a temporary file beside it and removes it. An existing file
/// stays unchanged.
///
/// # Errors
/// A message with the problem and a remedy, without the path.
pub(crate) fn check(path: &Path) -> Result<(), String> {
    if path == Path::new("-") {
        return Ok(());
    }
    let found = std::fs::metadata(path);
    if path.is_dir() {
        return Err("is a folder; give a file in it".to_owned());
    }
    // A pipe or a terminal is only checked for access: opening it may have side effects.
    if found.is_ok_and(|found| !found.is_file()) {
        return rustix::fs::access(path, rustix::fs::Access::WRITE_OK)
            .map_err(|err| format!("cannot be written: {}; give another file", std::io::Error::from(err)));
    }
    let (beside, folder) = beside(path).ok_or("does not name a file; give one, such as report.json")?;
    if !folder.exists() {
        return Err(format!("the folder {} does not exist; create it, or give another", folder.display()));
    }
    if !folder.is_dir() {
        return Err(format!("{} is not a folder; give another", folder.display()));
    }
    let created = File::options().write(true).create_new(true).open(&beside);
    created.and_then(|_| std::fs::remove_file(&beside)).map_err(|err| {
        format!("cannot create a file in {}: {err}; change its permissions, or give another folder", folder.display())
    })
}

/// Returns a name for a temporary file beside this one, and their folder; `None` if the path names no file.
fn beside(path: &Path) -> Option<(PathBuf, &Path)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().filter(|_| !path.as_os_str().as_encoded_bytes().ends_with(b"/"))?;
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}.{}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some((folder.join(beside), folder))
}

fn place(beside: &Path, path: &Path, folder: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::options().write(true).create_new(true).open(beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    drop(file);
    std::fs::rename(beside, path)?;
    // Syncs the folder, which holds the new name. Some file systems reject this; the file is there anyway.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_a_failure_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        write(&path, b"first").unwrap();
        write(&path, b"2").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"2");
        let taken = folder.path().join("b");
        std::fs::create_dir(&taken).unwrap();
        let error = write(&taken, b"3").unwrap_err().to_string();
        assert!(error.starts_with("cannot write ") && error.contains("/b: "), "{error}");
        let missing = write(&folder.path().join("no/c.json"), b"3").unwrap_err().to_string();
        assert!(missing.contains("No such file"), "{missing}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_that_is_not_a_report_is_rejected() {
        for (text, part) in [
            ("", "EOF"),
            ("{}", "missing field `kind`"),
            (r#"{"kind":"matrix","version":1}"#, "report of a matrix"),
            (r#"{"kind":"run","version":7}"#, "its version is 7; this program reads version 1"),
            (r#"{"kind":"run","version":1}"#, "missing field"),
        ] {
            assert!(parse(text.as_bytes()).unwrap_err().contains(part), "{text}");
        }
    }
}
