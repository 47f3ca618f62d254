//! Opens an audit log: locks it, repairs it after an interrupted write, and continues it after a rename.
//!
//! A new log continues a renamed one if no process was running at the rename. The renamed log is searched beside the
//! new one: its name begins with the new one's, as log rotation names it, it was begun under that name, and it has no
//! end. Another broker's log with such a name was begun under its own name. A file that was moved elsewhere or
//! compressed is not found: then the new one begins a chain of its own, and says so.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use sealway_runtime::clock::Clock;

use super::line;
use super::writer::{Event, Hash, LINE_LEN_MAX, LogFile, Members};
use crate::folders::folder_of;
use crate::hash::{hex, unhex};
use crate::module::Module;

/// Version of the line format.
const FORMAT: u32 = 1;

/// Most files that are examined.
const FILES_MAX: usize = 4_096;
/// Endings of file names that are not logs: unfinished new files, and torn lines.
const NOT_LOGS: [&str; 2] = [".new", ".torn"];

/// Returns the most recent log that was renamed and not closed.
fn renamed(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let entries = std::fs::read_dir(folder_of(path)).ok()?.take(FILES_MAX);
    let beside = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let rest = entry.file_name().to_str()?.strip_prefix(name)?.to_owned();
        let is_renamed = rest.starts_with(['.', '-', '_']) && !NOT_LOGS.iter().any(|end| rest.ends_with(end));
        is_renamed.then(|| entry.path())
    });
    let open = beside.filter_map(|path| last_line(&path, name).map(|line| (line, path)));
    open.max().map(|(_, path)| path)
}

/// Time and number of a log's last line; `None` for a file that is not a log, was begun under another name, is closed,
/// or can be written by others.
fn last_line(path: &Path, begun_as: &str) -> Option<(String, u64)> {
    // Opening a file that is not a regular one may block.
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

/// Crypto library of this process, and the certificate of its validation.
fn library() -> (String, &'static str) {
    let Module { version, certificate, .. } = crate::module::module();
    (version, certificate.unwrap_or("none"))
}

impl LogFile {
    /// Opens a log, or begins a new one.
    ///
    /// # Errors
    /// Another process writes it; it cannot be written; others may write it; its last lines are not a chain.
    pub(super) fn open(path: &Path, clock: Arc<dyn Clock>) -> io::Result<LogFile> {
        let found = OpenOptions::new().read(true).append(true).custom_flags(nofollow()).open(path);
        match found {
            Ok(file) if file.metadata()?.len() > 0 => LogFile::go_on(file, path, clock),
            Err(err) if err.kind() != io::ErrorKind::NotFound => Err(err),
            found => match LogFile::after_renaming(path, &clock) {
                Some(log) => Ok(log),
                None => LogFile::first(found.ok(), path, clock),
            },
        }
    }

    /// Begins a chain in an existing empty file, of any mode, or in a new one.
    fn first(found: Option<File>, path: &Path, clock: Arc<dyn Clock>) -> io::Result<LogFile> {
        match found {
            Some(file) => {
                lock(&file, path)?;
                check(&file, path)?;
                let mut log = LogFile::new(file, path, clock, [0; 32], 0);
                let (begin, _) = log.begin()?;
                log.append_durably(&[begin])?;
                Ok(log)
            }
            None => Ok(LogFile::make(path, clock, [0; 32], 0)?.0),
        }
    }

    /// Continues a log that was renamed while no process was running.
    fn after_renaming(path: &Path, clock: &Arc<dyn Clock>) -> Option<LogFile> {
        let before = renamed(path)?;
        let gone_on = || {
            let file = OpenOptions::new().read(true).append(true).custom_flags(nofollow()).open(&before)?;
            let mut log = LogFile::go_on(file, &before, Arc::clone(clock))?;
            path.clone_into(&mut log.path);
            log.reopen().map(|_| log)
        };
        match gone_on() {
            Ok(log) => {
                tracing::info!(before = %before.display(), "the audit log continues the rotated file's chain");
                Some(log)
            }
            Err(err) => {
                tracing::warn!(before = %before.display(), %err, "the audit log cannot continue the rotated file's chain");
                None
            }
        }
    }

    /// Creates a file that continues from a hash; also returns its id. The file has another name until its first line
    /// is on the disk, so that no log lacks one.
    fn make(path: &Path, clock: Arc<dyn Clock>, previous: Hash, seq: u64) -> io::Result<(LogFile, String)> {
        // An interrupted process of the same id may have left one.
        let unfinished = named(path, &format!("{}.new", std::process::id()));
        let _ = std::fs::remove_file(&unfinished);
        let file = OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(&unfinished)?;
        let made = lock(&file, path).and_then(|()| {
            let mut log = LogFile::new(file, path, clock, previous, seq);
            let (begin, id) = log.begin()?;
            log.append_durably(&[begin])?;
            // Fails if there is a file by now.
            std::fs::hard_link(&unfinished, path)?;
            Ok((log, id))
        });
        let _ = std::fs::remove_file(&unfinished);
        if made.is_ok() {
            File::open(folder_of(path))?.sync_all()?;
        }
        made
    }

    /// Continues an existing log: checks its end, moves a torn last line to a `.torn` file, and writes the opening
    /// line.
    fn go_on(mut file: File, path: &Path, clock: Arc<dyn Clock>) -> io::Result<LogFile> {
        lock(&file, path)?;
        check(&file, path)?;
        let tail = Tail::read(&mut file)?;
        let torn_len = tail.file_len - tail.whole_len;
        let pid = std::process::id();
        let mut log = LogFile::new(file, path, clock, tail.hash, tail.seq.saturating_add(1));
        log.len = tail.whole_len;
        let (module, certificate) = library();
        let event = if torn_len == 0 {
            Event::Opened { pid, module, certificate }
        } else {
            let torn_sha256 = log.put_aside(torn_len)?;
            tracing::warn!(file = %path.display(), torn_len, "the audit log's last line was incomplete and was moved to a .torn file");
            Event::Recovered { pid, module, certificate, torn_bytes: torn_len, torn_sha256 }
        };
        log.append_durably(&[Members::of_event(&event)])?;
        Ok(log)
    }

    /// Copies the bytes after the last whole line to another file, and truncates them.
    fn put_aside(&mut self, torn_len: u64) -> io::Result<String> {
        self.file.seek(SeekFrom::Start(self.len))?;
        let aside = named(&self.path, "torn");
        let mut aside =
            OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(nofollow()).open(aside)?;
        let mut context = Context::new(&SHA256);
        let mut block = vec![0; 64 * 1024];
        let mut torn = (&mut self.file).take(torn_len);
        loop {
            let len = torn.read(&mut block)?;
            if len == 0 {
                break;
            }
            context.update(&block[..len]);
            aside.write_all(&block[..len])?;
        }
        aside.write_all(b"\n")?;
        aside.sync_all()?;
        self.file.set_len(self.len)?;
        Ok(hex(context.finish().as_ref()))
    }

    fn begin(&self) -> io::Result<(Members, String)> {
        let mut id = [0; 16];
        aws_lc_rs::rand::fill(&mut id).map_err(|_| io::Error::other("no random numbers"))?;
        let file = hex(&id);
        let (module, certificate) = library();
        let previous = hex(&self.hash);
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let event = Event::Begin { format: FORMAT, file: file.clone(), previous, module, certificate, name };
        Ok((Members::of_event(&event), file))
    }

    /// Begins a new file if the path no longer leads to this one; true if it did. The new file names the hash that it
    /// continues, the old file names its successor.
    ///
    /// # Errors
    /// No new file could be made: the old one stays in use.
    pub(super) fn reopen(&mut self) -> io::Result<bool> {
        let own = self.file.metadata()?;
        let found = std::fs::symlink_metadata(&self.path);
        match &found {
            Ok(there) if (there.dev(), there.ino()) == (own.dev(), own.ino()) => return Ok(false),
            Ok(there) if there.len() > 0 || !there.is_file() => {
                return Err(io::Error::other("there is something else at the log's path"));
            }
            // Like an empty file of logrotate's `create`.
            Ok(_) => std::fs::remove_file(&self.path)?,
            Err(err) if err.kind() == io::ErrorKind::NotFound => {}
            Err(err) => return Err(io::Error::new(err.kind(), err.to_string())),
        }
        let (mut new, id) = LogFile::make(&self.path, Arc::clone(&self.clock), self.hash, self.seq)?;
        new.refused = self.refused;
        self.refused = 0;
        // The chain holds without this line, which only shows that nothing was cut off after it.
        if let Err(err) = self.append_durably(&[Members::of_event(&Event::End { next: id })]) {
            tracing::warn!(%err, "the rotated audit log has no closing line");
        }
        *self = new;
        Ok(true)
    }
}

/// Length and last line of the whole lines of a file.
struct Tail {
    file_len: u64,
    whole_len: u64,
    hash: Hash,
    seq: u64,
    time: String,
}

impl Tail {
    /// Reads the end of a file: the last whole line has to follow from the one before it.
    fn read(file: &mut File) -> io::Result<Tail> {
        let broken = |what: &str| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{what}; put the file aside and verify it: a new one is begun"),
            )
        };
        let file_len = file.metadata()?.len();
        let whole_len = whole_len(file, file_len)?;
        let begin = whole_len.saturating_sub(2 * LINE_LEN_MAX as u64);
        file.seek(SeekFrom::Start(begin))?;
        let mut bytes = Vec::new();
        file.take(whole_len - begin).read_to_end(&mut bytes)?;
        let mut lines = bytes.split(|byte| *byte == b'\n').rev().skip(1);
        let Some(last) = lines.next() else { return Err(broken("the audit log has no whole line")) };
        let read = line::read(last).map_err(|what| broken(&format!("the audit log's last line {what}")))?;
        let previous = match (&read.head.previous, lines.next()) {
            (Some(previous), _) if read.head.kind == "begin" => unhex(previous.as_bytes()),
            (_, Some(line)) => line::read(line).ok().map(|read| read.hash),
            (_, None) => None,
        };
        if !previous.is_some_and(|previous| line::follows(last, &previous)) {
            return Err(broken("the audit log's last line does not follow from the one before it"));
        }
        if read.head.kind == "end" {
            return Err(broken("the audit log was put aside and is closed"));
        }
        Ok(Tail { file_len, whole_len, hash: read.hash, seq: read.head.seq, time: read.head.time })
    }
}

/// Length up to the last line feed, searched backwards.
fn whole_len(file: &mut File, file_len: u64) -> io::Result<u64> {
    let mut block = vec![0; 64 * 1024];
    let mut end = file_len;
    while end > 0 {
        let begin = end.saturating_sub(block.len() as u64);
        let len = usize::try_from(end - begin).unwrap_or(block.len());
        file.seek(SeekFrom::Start(begin))?;
        file.read_exact(&mut block[..len])?;
        if let Some(at) = block[..len].iter().rposition(|byte| *byte == b'\n') {
            return Ok(begin + at as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}

fn lock(file: &File, path: &Path) -> io::Result<()> {
    file.try_lock().map_err(|err| match err {
        std::fs::TryLockError::WouldBlock => {
            io::Error::new(io::ErrorKind::ResourceBusy, format!("another process writes {}", path.display()))
        }
        std::fs::TryLockError::Error(err) => err,
    })
}

/// Checks that only this process's user may write the file.
fn check(file: &File, path: &Path) -> io::Result<()> {
    let metadata = file.metadata()?;
    let is_ours = metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o022 == 0;
    if metadata.is_file() && is_ours {
        return Ok(());
    }
    let text = format!("{} is not a file that only this process's user may write", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

fn nofollow() -> i32 {
    i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default()
}

fn named(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}
