//! Folder of keys' files: private to its owner, and used by one process at a time. A file is replaced as a whole or not
//! at all, whatever happens to the process or the disk.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use sealway_runtime::config::ConfigError;

use super::faults::Faults;
use super::{KEYS_MAX, is_key_id};
use crate::folders::{folder_of, weak_above};

const LOCK: &str = "lock";
const SUFFIX: &str = ".key";
/// Suffix of unfinished files. No key's file has it: all end in [`SUFFIX`].
const UNFINISHED: &str = ".unfinished";
/// Longest file: that of the largest key with the most versions.
const FILE_LEN_MAX: u64 = 32 * 1024 * 1024;
/// Most unknown files named in the log; the others are counted.
const STRANGERS_TOLD_MAX: usize = 16;

/// Storage of a store's files. Their content is wrapped: a storage may lose files, and cannot read keys.
pub trait Backend: Send + Sync {
    /// Loads the ids and files of all keys.
    ///
    /// # Errors
    /// The cause, naming each invalid file: a store that opens without one of its keys would lose it.
    fn load(&self) -> io::Result<Vec<(String, Vec<u8>)>>;

    /// Creates or replaces a key's file. On success the file is durable; on failure the old one remains.
    ///
    /// # Errors
    /// The cause, such as a full disk.
    fn replace(&self, id: &str, bytes: &[u8]) -> io::Result<()>;

    /// Removes a key's file. On success its absence is durable.
    ///
    /// # Errors
    /// The cause, such as a folder that cannot be written.
    fn remove(&self, id: &str) -> io::Result<()>;
}

/// A folder of this machine as storage.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Lock on the folder; the system releases it at the end of the process.
    _lock: File,
}

impl Folder {
    /// Opens the folder, creates it if missing, and locks it. Removes unfinished files of interrupted writes.
    ///
    /// # Errors
    /// [`ConfigError`], naming the folder: other users can access it or put another one in its place, another user owns
    /// it, or another process uses it.
    pub fn open(path: &Path) -> Result<Folder, ConfigError> {
        let folder = Folder::open_below_shared(path)?;
        match weak_above(path) {
            None => Ok(folder),
            Some(above) => Err(ConfigError(format!(
                "key store {}: others can put another folder in its place: they may write {}; chmod go-w it, or use \
                 --shared-folder where only trusted containers reach it",
                path.display(),
                above.display()
            ))),
        }
    }

    /// Opens the folder like [`Folder::open`], also below a folder that others may write: a volume of trusted containers.
    ///
    /// # Errors
    /// As of [`Folder::open`].
    pub fn open_below_shared(path: &Path) -> Result<Folder, ConfigError> {
        let fail = |why: &dyn std::fmt::Display| ConfigError(format!("key store {}: {why}", path.display()));
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => sync_parent(path).map_err(|err| fail(&err))?,
            Err(err) if err.kind() != io::ErrorKind::AlreadyExists => return Err(fail(&err)),
            Err(_) => {}
        }
        let meta = std::fs::symlink_metadata(path).map_err(|err| fail(&err))?;
        if !meta.is_dir() {
            return Err(fail(&"it is not a folder"));
        }
        if meta.mode() & 0o077 != 0 {
            return Err(fail(&"others than its owner can use it; chmod 700 it"));
        }
        if meta.uid() != rustix::process::geteuid().as_raw() {
            return Err(fail(&"it belongs to another user"));
        }
        let lock = lock(path).map_err(|err| fail(&format!("{LOCK}: {err}")))?;
        lock.try_lock().map_err(|err| match err {
            std::fs::TryLockError::WouldBlock => fail(&"another process uses it; a store belongs to one process"),
            std::fs::TryLockError::Error(err) => fail(&err),
        })?;
        let folder = Folder { path: path.to_owned(), _lock: lock };
        folder.clean().map_err(|err| fail(&err))?;
        Ok(folder)
    }

    /// Removes unfinished files of interrupted writes.
    fn clean(&self) -> io::Result<()> {
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(|name| name.ends_with(UNFINISHED)) {
                std::fs::remove_file(entry.path()).map_err(|err| named(&entry.path(), &err))?;
                tracing::warn!(file = %entry.path().display(), "removed the partial file of an interrupted key write");
            }
        }
        Ok(())
    }

    fn write(&self, unfinished: &Path, finished: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(unfinished)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(unfinished, finished)?;
        File::open(&self.path)?.sync_all()
    }
}

/// Opens the lock file of the folder. Non-blocking: a pipe in its place must not block the start.
fn lock(folder: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(folder.join(LOCK), flags, Mode::RUSR | Mode::WUSR)?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a file")) }
}

fn named(path: &Path, why: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {why}", path.display()))
}

/// Reads a key's file with checks of its kind, owner and length.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let refused = |why: &str| Err(named(path, &why));
    // Checked before opening: opening a device can have effects.
    let kind = std::fs::symlink_metadata(path).map_err(|err| named(path, &err))?.file_type();
    if kind.is_symlink() {
        return refused("it is a symbolic link");
    }
    if !kind.is_file() {
        return refused("it is not a file");
    }
    // A file that replaced it since must not lead out of the folder or block the start.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|err| named(path, &err))?;
    let file = File::from(file);
    let meta = file.metadata().map_err(|err| named(path, &err))?;
    if !meta.is_file() {
        return refused("it is not a file");
    }
    if meta.mode() & 0o077 != 0 {
        return refused("others than its owner can use it; chmod 600 it");
    }
    if meta.uid() != 0 && meta.uid() != rustix::process::geteuid().as_raw() {
        return refused("it belongs to another user");
    }
    let mut bytes = Vec::new();
    if meta.len() <= FILE_LEN_MAX {
        file.take(FILE_LEN_MAX + 1).read_to_end(&mut bytes).map_err(|err| named(path, &err))?;
    }
    if meta.len().max(bytes.len() as u64) > FILE_LEN_MAX {
        return refused("longer than a key's file can be");
    }
    Ok(bytes)
}

/// Syncs the parent folder: a new folder lost at a power failure would lose every key in it.
fn sync_parent(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

impl Backend for Folder {
    fn load(&self) -> io::Result<Vec<(String, Vec<u8>)>> {
        let (mut found, mut faults, mut strangers) = (Vec::new(), Faults::default(), 0);
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(id) = name.to_str().and_then(|name| name.strip_suffix(SUFFIX)).filter(|id| is_key_id(id)) else {
                strangers += usize::from(name != LOCK);
                if name != LOCK && strangers <= STRANGERS_TOLD_MAX {
                    tracing::warn!(file = %entry.path().display(), "not a key file: ignored");
                }
                continue;
            };
            match read(&entry.path()) {
                Ok(bytes) => found.push((id.to_owned(), bytes)),
                Err(err) => faults.add(err.to_string()),
            }
            if found.len() > KEYS_MAX {
                return Err(io::Error::other(format!("more than {KEYS_MAX} keys")));
            }
        }
        if strangers > STRANGERS_TOLD_MAX {
            tracing::warn!(files = strangers, "total of files that are not key files: ignored");
        }
        if faults.is_empty() { Ok(found) } else { Err(io::Error::other(faults.to_string())) }
    }

    fn replace(&self, id: &str, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() as u64 > FILE_LEN_MAX {
            return Err(io::Error::other("longer than a key's file can be"));
        }
        let unfinished = self.path.join(format!("{id}{UNFINISHED}"));
        let written = self.write(&unfinished, &self.path.join(format!("{id}{SUFFIX}")), bytes);
        if written.is_err() {
            // On a full disk it would waste space.
            let _ = std::fs::remove_file(&unfinished);
        }
        written
    }

    fn remove(&self, id: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(format!("{id}{SUFFIX}")))?;
        File::open(&self.path)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn refused(path: &Path) -> String {
        Folder::open(path).unwrap_err().0
    }

    #[test]
    fn a_folder_that_others_can_access_is_rejected_and_a_new_one_is_private() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("keys");
        drop(Folder::open(&path).unwrap());
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        for mode in [0o750, 0o705, 0o711, 0o777] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert!(refused(&path).contains("chmod 700"), "{mode:o}");
        }
        std::fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        std::fs::set_permissions(place.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(refused(&path).contains("others can put another folder in its place"));
        drop(Folder::open_below_shared(&path).unwrap());
        std::fs::set_permissions(place.path(), Permissions::from_mode(0o700)).unwrap();
        let link = place.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(refused(&link).contains("not a folder"));
        assert!(refused(&place.path().join("none/keys")).contains("none/keys"));
    }

    #[test]
    fn only_one_process_at_a_time_opens_the_folder() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("keys");
        let first = Folder::open(&path).unwrap();
        assert!(refused(&path).contains("another process"));
        drop(first);
        Folder::open(&path).unwrap();
    }

    #[test]
    fn remains_of_an_interrupted_write_are_removed_and_foreign_files_are_kept() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("keys");
        let folder = Folder::open(&path).unwrap();
        folder.replace("one", b"1").unwrap();
        // Another key's id could look like an unfinished file of this one.
        folder.replace("one.unfinished", b"2").unwrap();
        drop(folder);
        std::fs::write(path.join("one.unfinished"), b"half").unwrap();
        std::fs::write(path.join("notes.txt"), b"mine").unwrap();
        let folder = Folder::open(&path).unwrap();
        let mut found = folder.load().unwrap();
        found.sort();
        assert_eq!(found, [("one".into(), b"1".to_vec()), ("one.unfinished".into(), b"2".to_vec())]);
        assert!(!path.join("one.unfinished").exists() && path.join("notes.txt").exists());
        assert_eq!(std::fs::metadata(path.join("one.key")).unwrap().mode() & 0o777, 0o600);
    }
}
