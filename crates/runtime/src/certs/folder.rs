//! Files of a folder that change together: all are first written beside their places, then renamed into them, and the old
//! content comes back if a rename fails. One process at a time.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::{CertsError, fault};

/// Largest file that is read, in bytes.
const FILE_LEN_MAX: u64 = 1024 * 1024;

/// A folder that is locked against changes by other processes.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// The lock, held until it is dropped.
    _lock: File,
}

impl Folder {
    /// Opens an existing folder and locks it.
    pub(super) fn open(path: &Path) -> Result<Self, CertsError> {
        let lock = File::open(path).map_err(|err| fault(format!("{}: {err}", path.display())))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(fault(format!("{}: another process is changing it", path.display())));
            }
            Err(std::fs::TryLockError::Error(err)) => {
                return Err(fault(format!("{}: cannot be locked: {err}", path.display())));
            }
        }
        Ok(Folder { path: path.to_owned(), _lock: lock })
    }

    /// Opens a folder, and creates it if it is missing, for its owner only.
    pub(super) fn make(path: &Path) -> Result<Self, CertsError> {
        if !path.exists() {
            let made = match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => std::fs::create_dir_all(parent),
                _ => Ok(()),
            };
            let mut builder = std::fs::DirBuilder::new();
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            made.and_then(|()| builder.create(path))
                .map_err(|err| fault(format!("cannot make the folder {}: {err}", path.display())))?;
        }
        Self::open(path)
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.file(name).symlink_metadata().is_ok()
    }

    /// Reads a text file, which may be a key.
    pub(super) fn read(&self, name: &str) -> Result<Zeroizing<String>, CertsError> {
        let bytes = self.read_bytes(name)?;
        let text = std::str::from_utf8(&bytes);
        let text = text.map_err(|_| fault(format!("{}: is not text", self.file(name).display())))?;
        Ok(Zeroizing::new(text.to_owned()))
    }

    pub(super) fn read_bytes(&self, name: &str) -> Result<Zeroizing<Vec<u8>>, CertsError> {
        use std::io::Read;
        let path = self.file(name);
        let fail = |err: std::io::Error| fault(format!("cannot read {}: {err}", path.display()));
        let file = File::open(&path).map_err(fail)?;
        let len = file.metadata().map_err(fail)?.len().min(FILE_LEN_MAX);
        let mut bytes = Zeroizing::new(Vec::with_capacity(usize::try_from(len).unwrap_or_default() + 64));
        file.take(FILE_LEN_MAX + 1).read_to_end(&mut bytes).map_err(fail)?;
        if bytes.len() as u64 > FILE_LEN_MAX {
            return Err(fault(format!("{}: is longer than {FILE_LEN_MAX} bytes", path.display())));
        }
        Ok(bytes)
    }
}

/// Changes that take effect together, in the order in which they were added.
#[derive(Default)]
pub(super) struct Changes(Vec<Change>);

struct Change {
    name: String,
    /// The new content; `None` removes the file.
    content: Option<Zeroizing<Vec<u8>>>,
    is_secret: bool,
}

impl Changes {
    /// Adds a file that every user may read.
    pub(super) fn public(&mut self, name: &str, content: impl Into<Vec<u8>>) {
        self.push(name, Some(content.into()), false);
    }

    /// Adds a file for its owner only.
    pub(super) fn secret(&mut self, name: &str, content: impl Into<Vec<u8>>) {
        self.push(name, Some(content.into()), true);
    }

    /// Adds the removal of a file, if it exists.
    pub(super) fn remove(&mut self, name: &str) {
        self.push(name, None, false);
    }

    fn push(&mut self, name: &str, content: Option<Vec<u8>>, is_secret: bool) {
        let change = Change { name: name.to_owned(), content: content.map(Zeroizing::new), is_secret };
        // The later of two contents of one file counts.
        match self.0.iter_mut().find(|known| known.name == name) {
            Some(known) => *known = change,
            None => self.0.push(change),
        }
    }

    /// Iterates over the names, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|change| change.name.as_str())
    }

    /// Applies all changes, or none.
    pub(super) fn apply(&self, folder: &Folder) -> Result<(), CertsError> {
        let done = self.stage(folder).and_then(|()| self.swap(folder));
        // No temporary file remains, in success or failure; a missing one needs no removal.
        for change in &self.0 {
            let _ = std::fs::remove_file(folder.file(&staged(&change.name)));
            let _ = std::fs::remove_file(folder.file(&kept(&change.name)));
        }
        done
    }

    /// Writes each file beside its place, to the disk, and keeps a second name of the old content.
    fn stage(&self, folder: &Folder) -> Result<(), CertsError> {
        for change in &self.0 {
            // Left over from a process that was killed.
            let _ = std::fs::remove_file(folder.file(&staged(&change.name)));
            let _ = std::fs::remove_file(folder.file(&kept(&change.name)));
            let path = folder.file(&change.name);
            let fail = |err: std::io::Error| fault(format!("cannot write {}: {err}", path.display()));
            if folder.has(&change.name) {
                let kept = folder.file(&kept(&change.name));
                // Not every file system supports hard links.
                std::fs::hard_link(&path, &kept).or_else(|_| std::fs::copy(&path, &kept).map(drop)).map_err(fail)?;
            }
            if let Some(content) = &change.content {
                write_new(&folder.file(&staged(&change.name)), content, change.is_secret).map_err(fail)?;
            }
        }
        Ok(())
    }

    fn swap(&self, folder: &Folder) -> Result<(), CertsError> {
        for (at, change) in self.0.iter().enumerate() {
            let path = folder.file(&change.name);
            let done = match &change.content {
                Some(_) => std::fs::rename(folder.file(&staged(&change.name)), &path),
                None if !folder.has(&change.name) => Ok(()),
                None => std::fs::remove_file(&path),
            };
            if let Err(err) = done {
                self.undo(folder, at);
                return Err(fault(format!("cannot replace {}: {err}; nothing was changed", path.display())));
            }
        }
        // The names must survive a loss of power too. Not every file system can promise it.
        let _ = File::open(&folder.path).and_then(|folder| folder.sync_all());
        Ok(())
    }

    /// Restores the content that the first `count` changes replaced.
    fn undo(&self, folder: &Folder, count: usize) {
        for change in self.0[..count].iter().rev() {
            let path = folder.file(&change.name);
            if folder.has(&kept(&change.name)) {
                let _ = std::fs::rename(folder.file(&kept(&change.name)), &path);
            } else {
                let _ = std::fs::remove_file(&path);
            }
        }
    }
}

fn staged(name: &str) -> String {
    format!(".{name}.new")
}

fn kept(name: &str) -> String {
    format!(".{name}.old")
}

/// Writes a file that must not exist yet: nobody can have put a link in its place.
fn write_new(path: &Path, content: &[u8], is_secret: bool) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, if is_secret { 0o600 } else { 0o644 });
    #[cfg(not(unix))]
    let _ = is_secret;
    let mut file = options.open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_change_that_fails_halfway_leaves_everything_as_it_was() {
        let ground = tempfile::tempdir().unwrap();
        std::fs::write(ground.path().join("a"), "old a").unwrap();
        std::fs::write(ground.path().join("gone"), "old gone").unwrap();
        let folder = Folder::open(ground.path()).unwrap();
        let mut changes = Changes::default();
        changes.secret("a", "new a");
        changes.public("fresh", "new");
        changes.remove("gone");
        changes.public("b", "not this");
        changes.public("b", "new b");
        changes.stage(&folder).unwrap();
        // A folder cannot be replaced by a file.
        std::fs::create_dir(ground.path().join("b")).unwrap();
        let err = changes.swap(&folder).unwrap_err().to_string();
        assert!(err.contains("nothing was changed"), "{err}");
        std::fs::remove_dir(ground.path().join("b")).unwrap();
        assert_eq!(std::fs::read_to_string(ground.path().join("a")).unwrap(), "old a");
        assert_eq!(std::fs::read_to_string(ground.path().join("gone")).unwrap(), "old gone");
        assert!(!ground.path().join("fresh").exists());

        changes.apply(&folder).unwrap();
        assert_eq!(names(ground.path()), ["a", "b", "fresh"]);
        assert_eq!(std::fs::read_to_string(ground.path().join("a")).unwrap(), "new a");
        assert_eq!(std::fs::read_to_string(ground.path().join("b")).unwrap(), "new b");
    }

    #[test]
    fn a_folder_is_changed_by_one_at_a_time() {
        let ground = tempfile::tempdir().unwrap();
        let folder = Folder::open(ground.path()).unwrap();
        assert!(Folder::open(ground.path()).unwrap_err().to_string().contains("another process"));
        drop(folder);
        Folder::open(ground.path()).unwrap();
    }
}
