//! The keyset file: read at the start, and again when told to or when it looks other than before. One that cannot be used
//! leaves the one before in force.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use sealway_proto::crypto::signature::default_signatures;
use sealway_proto::relay::{KEYSET_LEN_MAX, Keyset};

/// What tells a file from the one before without reading it: when it was changed, its length, its inode.
type Stamp = Option<(SystemTime, u64, u64)>;

/// Keys of issuers, from a file.
pub(crate) struct Keys {
    path: PathBuf,
    keys: ArcSwap<Keyset>,
    seen: Mutex<Stamp>,
}

impl Keys {
    /// Reads the file.
    pub(crate) fn open(path: PathBuf) -> Result<Self, String> {
        let seen = stamp(&path);
        let keys = read(&path)?;
        Ok(Keys { path, keys: ArcSwap::from_pointee(keys), seen: Mutex::new(seen) })
    }

    pub(crate) fn load(&self) -> Guard<Arc<Keyset>> {
        self.keys.load()
    }

    /// Reads it again. What is wrong with it is in the log.
    pub(crate) fn reload(&self) {
        *self.seen.lock() = stamp(&self.path);
        match read(&self.path) {
            Ok(keys) => {
                tracing::info!(kids = ?keys, "keys of issuers read again");
                self.keys.store(Arc::new(keys));
            }
            Err(err) => tracing::error!(err, "keys of issuers not read again: those before stay in force"),
        }
    }

    /// Reads it again if it looks other than before.
    pub(crate) fn reload_if_changed(&self) {
        if *self.seen.lock() != stamp(&self.path) {
            self.reload();
        }
    }
}

fn stamp(path: &PathBuf) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len(), std::os::unix::fs::MetadataExt::ino(&metadata)))
}

fn read(path: &PathBuf) -> Result<Keyset, String> {
    let explain = |err: &dyn std::fmt::Display| format!("{}: {err}", path.display());
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(|err| explain(&err))?;
    file.take(KEYSET_LEN_MAX as u64 + 1).read_to_end(&mut bytes).map_err(|err| explain(&err))?;
    Keyset::parse(&bytes, default_signatures()).map_err(|err| explain(&err))
}
