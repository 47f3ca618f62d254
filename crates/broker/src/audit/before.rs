//! The log that a new one goes on from, where a process was stopped after its file was renamed and before it was told so. It is
//! looked for beside the new one: under a name that begins with the new one's, as those who rotate logs name it, begun under
//! that one, and not closed. Another broker's log, whose name may begin so too, was begun under its own.
//!
//! A file that was moved elsewhere or packed is not found: then the new one begins a chain of its own, and says so.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::file::{Tail, check, nofollow};
use super::line::{self, LINE_LEN_MAX};

/// Most files that are looked at.
const FILES_MAX: usize = 4_096;
/// What such names end with that are none of a log's: begun and not finished, and what was not whole.
const NOT_LOGS: [&str; 2] = [".new", ".torn"];

/// The path of the log that was written last of those that were renamed and not closed.
pub(super) fn find(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).ok()?.take(FILES_MAX);
    let beside = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let rest = entry.file_name().to_str()?.strip_prefix(name)?.to_owned();
        let is_renamed = rest.starts_with(['.', '-', '_']) && !NOT_LOGS.iter().any(|end| rest.ends_with(end));
        is_renamed.then(|| entry.path())
    });
    let open = beside.filter_map(|path| last_line(&path, name).map(|line| (line, path)));
    open.max().map(|(_, path)| path)
}

/// When the last line of a log was written, and its number; nothing of what is no log, or was begun under another name, is closed,
/// or not ours alone.
fn last_line(path: &Path, begun_as: &str) -> Option<(String, u64)> {
    // What is no file may hold whoever opens it.
    std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let mut file = OpenOptions::new().read(true).custom_flags(nofollow()).open(path).ok()?;
    check(&file, path).ok()?;
    if name_at_begin(&mut file)? != begun_as {
        return None;
    }
    let tail = Tail::read(&mut file).ok()?;
    Some((tail.time, tail.seq))
}

fn name_at_begin(file: &mut File) -> Option<String> {
    let mut bytes = Vec::with_capacity(LINE_LEN_MAX);
    file.rewind().and_then(|()| file.take(LINE_LEN_MAX as u64).read_to_end(&mut bytes)).ok()?;
    let first = bytes.split(|byte| *byte == b'\n').next()?;
    line::read(first).ok()?.head.name
}
