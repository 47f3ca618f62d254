//! The files of an inventory: one a process, in a folder that processes share.
//!
//! A process takes the first file whose lock is free and goes on with its counts, so the number of files is that of the
//! processes that run at a time. Each write replaces the whole file. A process that is killed loses what it counted since the
//! last write; the next one finds the file still open, and records the gap.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::OFlags;

use super::document::{DOCUMENT_LEN_MAX, Document};
use super::{Earlier, Inventory};
use crate::clock::Clock;
use crate::shutdown::Shutdown;

/// Time between two writes, and the longest time whose counts a killed process loses.
pub const WRITE_INTERVAL: Duration = Duration::from_secs(5);
/// Most processes of one kind in a folder.
const FILES_MAX: usize = 64;

/// Reason why a folder cannot keep an inventory.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {reason}", place = path.display())]
pub struct KeepError {
    path: PathBuf,
    reason: String,
}

fn failed(path: &Path, reason: impl ToString) -> KeepError {
    KeepError { path: path.to_owned(), reason: reason.to_string() }
}

/// Keeps an inventory in a file.
#[derive(Debug)]
pub struct Keeper {
    inventory: Arc<Inventory>,
    clock: Arc<dyn Clock>,
    folder: PathBuf,
    name: String,
    /// Sum of all counts in the last document.
    written: Mutex<Option<u64>>,
    /// Held until this process ends.
    _lock: File,
}

impl Keeper {
    /// Takes a file of the folder, and adds the counts in it to `inventory`, which has counted nothing yet. `kind` is the
    /// service's name, a part of the file's. A folder that is missing is made, for its owner only. A damaged file is set aside
    /// under another name, with an error in the log.
    ///
    /// # Errors
    /// [`KeepError`]: the folder cannot be written, or its 64 files are all in use.
    pub fn open(
        folder: &Path,
        kind: &str,
        inventory: Arc<Inventory>,
        clock: Arc<dyn Clock>,
    ) -> Result<Keeper, KeepError> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|err| failed(folder, err))?;
        for number in 1..=FILES_MAX {
            let name = format!("{kind}-{number}");
            let place = folder.join(format!("{name}.lock"));
            let lock = options().create(true).truncate(false).open(&place).map_err(|err| failed(&place, err))?;
            match lock.try_lock() {
                Err(fs::TryLockError::WouldBlock) => continue,
                Err(fs::TryLockError::Error(err)) => return Err(failed(&place, err)),
                Ok(()) => {}
            }
            let keeper =
                Keeper { inventory, clock, folder: folder.to_owned(), name, written: Mutex::default(), _lock: lock };
            keeper.carry()?;
            keeper.write(true)?;
            return Ok(keeper);
        }
        Err(failed(folder, format!("{FILES_MAX} processes keep their inventory here; name another folder")))
    }

    /// Returns the path of the document.
    pub fn path(&self) -> PathBuf {
        self.folder.join(format!("{}.json", self.name))
    }

    /// Adds the counts of the file, if there is one.
    fn carry(&self) -> Result<(), KeepError> {
        let path = self.path();
        let file = match OpenOptions::new().read(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(&path) {
            Ok(file) => file,
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => {
                let carried = Earlier { since_ms: self.clock.now_ms(), ..Earlier::default() };
                let _ = self.inventory.carried.set(carried);
                return Ok(());
            }
            Err(err) => return Err(failed(&path, err)),
        };
        let mut bytes = Vec::new();
        file.take(DOCUMENT_LEN_MAX + 1).read_to_end(&mut bytes).map_err(|err| failed(&path, err))?;
        let parsed = match bytes.len() as u64 <= DOCUMENT_LEN_MAX {
            true => Document::parse(&bytes).map_err(|err| err.to_string()),
            false => Err(format!("longer than {DOCUMENT_LEN_MAX} bytes")),
        };
        match parsed {
            Ok(mut document) => {
                if document.is_open {
                    document.gaps.count += 1;
                    document.gaps.after_ms = document.until_ms;
                }
                self.inventory.carry(&document);
            }
            Err(err) => {
                let aside = self.folder.join(format!("{}.damaged", self.name));
                fs::rename(&path, &aside).map_err(|err| failed(&path, err))?;
                tracing::error!(file = %path.display(), aside = %aside.display(), %err, "the inventory begins anew: its file is damaged");
            }
        }
        Ok(())
    }

    /// Writes the document, if a count has changed or the process ends. A crash leaves the document before it.
    pub(super) fn write(&self, is_open: bool) -> Result<(), KeepError> {
        let mut written = self.written.lock();
        let document = self.inventory.document(&self.name, self.clock.now_ms());
        let sum = document.rows.iter().map(|row| row.count).fold(document.overflow.count, u64::wrapping_add);
        if is_open && *written == Some(sum) {
            return Ok(());
        }
        let interval_ms = u64::try_from(WRITE_INTERVAL.as_millis()).unwrap_or(u64::MAX);
        let document = Document { is_open, interval_ms, ..document };
        let path = self.path();
        let beside = self.folder.join(format!("{}.new", self.name));
        let bytes = serde_json::to_vec(&document).map_err(|err| failed(&path, err))?;
        let write = || {
            let mut file = options().create(true).truncate(true).open(&beside)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&beside, &path)?;
            File::open(&self.folder)?.sync_all()
        };
        write().map_err(|err| failed(&path, err))?;
        *written = Some(sum);
        Ok(())
    }

    /// Writes the document of an orderly end: the next process finds no gap.
    ///
    /// # Errors
    /// [`KeepError`].
    pub fn close(&self) -> Result<(), KeepError> {
        self.write(false)
    }

    /// Writes every [`WRITE_INTERVAL`] until shutdown begins. A write that fails is logged, and tried again.
    pub async fn run(self: Arc<Keeper>, shutdown: Shutdown) {
        let mut tick = tokio::time::interval(WRITE_INTERVAL);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                () = shutdown.begun() => return,
            }
            let keeper = self.clone();
            let written = tokio::task::spawn_blocking(move || keeper.write(true)).await;
            if let Ok(Err(err)) = written {
                tracing::error!(%err, "the inventory was not written");
            }
        }
    }
}

/// A file for its owner only; no link is followed.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    options
}
