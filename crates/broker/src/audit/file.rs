//! The file of an audit log, which one process writes: opened behind a lock, mended where a process was stopped while it wrote,
//! appended to so that what could not be written leaves no trace, and put aside by renaming it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use sealway_runtime::clock::{Clock, iso8601};

use super::before;
use super::line::{self, Event, Hash, LINE_LEN_MAX, Members};
use crate::module::Module;

/// The form of the lines.
const FORMAT: u32 = 1;

/// The log's file, and where its chain stands.
pub(super) struct LogFile {
    file: File,
    path: PathBuf,
    clock: Arc<dyn Clock>,
    hash: Hash,
    /// Of the next line.
    seq: u64,
    /// Up to where it is whole.
    len: u64,
    /// There may be bytes beyond that, which are to be cut off before anything else is written.
    is_dirty: bool,
    /// Operations that were refused since a write has failed.
    refused: u64,
}

/// What does the operations of this process, and the certificate of its validation.
fn library() -> (String, &'static str) {
    let Module { version, certificate, .. } = crate::module::module();
    (version, certificate.unwrap_or("none"))
}

impl LogFile {
    /// Opens a log, or begins one.
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

    /// A log that goes on from none, in a file that was made beforehand, with whatever rights, or in a new one.
    fn first(found: Option<File>, path: &Path, clock: Arc<dyn Clock>) -> io::Result<LogFile> {
        match found {
            Some(file) => {
                lock(&file, path)?;
                check(&file, path)?;
                let mut log = LogFile::new(file, path, clock, [0; 32], 0);
                let begin = log.begin()?;
                log.append_durably(&[begin])?;
                Ok(log)
            }
            None => Ok(LogFile::make(path, clock, [0; 32], 0)?.0),
        }
    }

    /// A new file that goes on from one which was renamed while nobody was there to be told.
    fn after_renaming(path: &Path, clock: &Arc<dyn Clock>) -> Option<LogFile> {
        let before = before::find(path)?;
        let gone_on = || {
            let file = OpenOptions::new().read(true).append(true).custom_flags(nofollow()).open(&before)?;
            let mut log = LogFile::go_on(file, &before, Arc::clone(clock))?;
            path.clone_into(&mut log.path);
            log.reopen().map(|_| log)
        };
        match gone_on() {
            Ok(log) => {
                tracing::info!(before = %before.display(), "the audit log goes on from the file that was put aside");
                Some(log)
            }
            Err(err) => {
                tracing::warn!(before = %before.display(), %err, "the audit log cannot go on from the file that was put aside");
                None
            }
        }
    }

    fn new(file: File, path: &Path, clock: Arc<dyn Clock>, hash: Hash, seq: u64) -> LogFile {
        LogFile { file, path: path.to_owned(), clock, hash, seq, len: 0, is_dirty: false, refused: 0 }
    }

    /// A new file that goes on from a hash, and its id. Under another name until its first line is on the disk, so that there is
    /// never one without.
    fn make(path: &Path, clock: Arc<dyn Clock>, previous: Hash, seq: u64) -> io::Result<(LogFile, String)> {
        // A process of this number that was stopped on the way may have left one.
        let unfinished = named(path, &format!("{}.new", std::process::id()));
        let _ = std::fs::remove_file(&unfinished);
        let file = OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(&unfinished)?;
        let made = lock(&file, path).and_then(|()| {
            let mut log = LogFile::new(file, path, clock, previous, seq);
            let (begin, id) = log.begin_with_id()?;
            log.append_durably(&[begin])?;
            // Fails where there is a file by now.
            std::fs::hard_link(&unfinished, path)?;
            Ok((log, id))
        });
        let _ = std::fs::remove_file(&unfinished);
        if made.is_ok() {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            File::open(folder)?.sync_all()?;
        }
        made
    }

    /// Goes on with a log that is there.
    fn go_on(mut file: File, path: &Path, clock: Arc<dyn Clock>) -> io::Result<LogFile> {
        lock(&file, path)?;
        check(&file, path)?;
        let tail = Tail::read(&mut file)?;
        let torn_len = tail.file_len - tail.whole_len;
        let pid = std::process::id();
        let mut log =
            LogFile { len: tail.whole_len, ..LogFile::new(file, path, clock, tail.hash, tail.seq.saturating_add(1)) };
        let (module, certificate) = library();
        let event = if torn_len == 0 {
            Event::Opened { pid, module, certificate }
        } else {
            let torn_sha256 = log.put_aside(torn_len)?;
            tracing::warn!(file = %path.display(), torn_len, "the audit log's last line was not whole: it was put into .torn");
            Event::Recovered { pid, module, certificate, torn_bytes: torn_len, torn_sha256 }
        };
        log.append_durably(&[Members::of_event(&event)])?;
        Ok(log)
    }

    /// Copies what follows the last whole line to a file of its own, and cuts it off.
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
        Ok(line::hex(context.finish().as_ref()))
    }

    fn begin(&self) -> io::Result<Members> {
        Ok(self.begin_with_id()?.0)
    }

    fn begin_with_id(&self) -> io::Result<(Members, String)> {
        let mut id = [0; 16];
        aws_lc_rs::rand::fill(&mut id).map_err(|_| io::Error::other("no random numbers"))?;
        let file = line::hex(&id);
        let (module, certificate) = library();
        let previous = line::hex(&self.hash);
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let event = Event::Begin { format: FORMAT, file: file.clone(), previous, module, certificate, name };
        Ok((Members::of_event(&event), file))
    }

    /// Appends lines, all of them or none. They may not be on the disk yet.
    ///
    /// # Errors
    /// When they were not written; the next call tries anew.
    pub(super) fn append(&mut self, lines: &[Members]) -> io::Result<()> {
        let done = self.try_append(lines);
        if done.is_err() {
            self.give_up(lines.len());
        }
        done
    }

    /// As [`LogFile::append`], and they are on the disk.
    ///
    /// # Errors
    /// When they may not be on the disk: none of them stays in the file then.
    pub(super) fn append_durably(&mut self, lines: &[Members]) -> io::Result<()> {
        let before = (self.hash, self.seq, self.len, self.refused);
        self.append(lines)?;
        let synced = self.file.sync_data();
        if synced.is_err() {
            (self.hash, self.seq, self.len, self.refused) = before;
            // What the kernel could not write it may have forgotten: it is cut off, and written anew by who tries again.
            self.is_dirty = true;
            self.give_up(lines.len());
        }
        synced
    }

    /// A descriptor by which what was appended is put on the disk.
    ///
    /// # Errors
    /// When the process is out of descriptors.
    pub(super) fn to_sync(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    fn try_append(&mut self, lines: &[Members]) -> io::Result<()> {
        self.settle()?;
        let time = iso8601(self.clock.now_ms());
        let (mut hash, mut seq) = (self.hash, self.seq);
        let mut buffer = Vec::with_capacity(512 * (lines.len() + 1));
        let resumed = (self.refused > 0).then(|| Members::of_event(&Event::Resumed { refused: self.refused }));
        for members in resumed.iter().chain(lines) {
            hash = line::push(&mut buffer, &hash, seq, &time, members);
            seq = seq.saturating_add(1);
        }
        self.is_dirty = true;
        self.file.write_all(&buffer)?;
        self.is_dirty = false;
        self.len += buffer.len() as u64;
        (self.hash, self.seq, self.refused) = (hash, seq, 0);
        Ok(())
    }

    /// Cuts off what an earlier write left behind, and looks whether the file is what it was: one that was deleted, shortened
    /// or written by somebody else would swallow the lines.
    fn settle(&mut self) -> io::Result<()> {
        if self.is_dirty {
            self.file.set_len(self.len)?;
            self.is_dirty = false;
        }
        let metadata = self.file.metadata()?;
        if metadata.nlink() == 0 {
            return Err(io::Error::other("the file was deleted; SIGHUP begins another"));
        }
        if metadata.len() != self.len {
            return Err(io::Error::other(
                "somebody else has changed the file; put it aside, and SIGHUP begins another",
            ));
        }
        Ok(())
    }

    fn give_up(&mut self, lines: usize) {
        self.refused += lines as u64;
        if self.is_dirty && self.file.set_len(self.len).is_ok() {
            self.is_dirty = false;
        }
    }

    /// Begins a new file if the path does not lead to this one any more; true if it did. The new one says which hash it goes on
    /// from, the old one which file goes on.
    ///
    /// # Errors
    /// When there is no new file: the old one stays in use.
    pub(super) fn reopen(&mut self) -> io::Result<bool> {
        let own = self.file.metadata()?;
        let found = std::fs::symlink_metadata(&self.path);
        match &found {
            Ok(there) if (there.dev(), there.ino()) == (own.dev(), own.ino()) => return Ok(false),
            Ok(there) if there.len() > 0 || !there.is_file() => {
                return Err(io::Error::other("there is something else at the log's path"));
            }
            // As logrotate's `create` leaves it.
            Ok(_) => std::fs::remove_file(&self.path)?,
            Err(err) if err.kind() == io::ErrorKind::NotFound => {}
            Err(err) => return Err(io::Error::new(err.kind(), err.to_string())),
        }
        let (mut new, id) = LogFile::make(&self.path, Arc::clone(&self.clock), self.hash, self.seq)?;
        new.refused = self.refused;
        self.refused = 0;
        // The chain holds without this line, which only says that nothing was cut off behind it.
        if let Err(err) = self.append_durably(&[Members::of_event(&Event::End { next: id })]) {
            tracing::warn!(%err, "the audit log that was put aside has no closing line");
        }
        *self = new;
        Ok(true)
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Where the whole lines of a file end.
pub(super) struct Tail {
    file_len: u64,
    whole_len: u64,
    hash: Hash,
    pub(super) seq: u64,
    pub(super) time: String,
}

impl Tail {
    /// Reads the end of a file: the last whole line has to follow from the one before it.
    pub(super) fn read(file: &mut File) -> io::Result<Tail> {
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
            (Some(previous), _) if read.head.kind == "begin" => line::unhex(previous.as_bytes()),
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

/// The length up to the last line's end, looked for from behind.
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

/// Whether only this process's user may write it.
pub(super) fn check(file: &File, path: &Path) -> io::Result<()> {
    let metadata = file.metadata()?;
    let is_ours = metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o022 == 0;
    if metadata.is_file() && is_ours {
        return Ok(());
    }
    let text = format!("{} is not a file that only this process's user may write", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

pub(super) fn nofollow() -> i32 {
    i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default()
}

fn named(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}
