//! The keyset file: read at the start, and again on request or when it has changed. An invalid one leaves the one before in
//! force.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use sealway_proto::crypto::signature::default_signatures;
use sealway_proto::relay::{KEYSET_LEN_MAX, Keyset};

/// The metadata that reveals a changed file without reading it: its time of change, its length, its inode.
type Stamp = Option<(SystemTime, u64, u64)>;

/// Keys of issuers, from a file.
pub(crate) struct Keys {
    path: PathBuf,
    tenancy: Tenancy,
    keys: ArcSwap<Keyset>,
    seen: Mutex<Stamp>,
}

/// Number of tenants of a relay, by its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tenancy {
    /// One audience and one issuer.
    One,
    /// One audience, and any issuer.
    Open,
    /// Several audiences or issuers, all named.
    Several,
}

impl Tenancy {
    pub(crate) fn of(aud: &[String], iss: &[String]) -> Self {
        match (aud.len(), iss.len()) {
            (1, 1) => Tenancy::One,
            (0 | 1, 0) => Tenancy::Open,
            _ => Tenancy::Several,
        }
    }

    /// Checks the bindings: a key without one signs for every tenant, so with several of both, one tenant's issuer could mint
    /// for another.
    fn judge(self, keys: &Keyset) -> Result<(), String> {
        let unbound: Vec<&str> = keys.unbound().collect();
        if keys.kids().count() == 1 || unbound.is_empty() || self == Tenancy::One {
            return Ok(());
        }
        let first = unbound[0].escape_debug();
        let text = format!(
            "{} of its keys sign for every tenant, \"{first}\" among them: give each key its \"iss\" and \"aud\"",
            unbound.len()
        );
        match self {
            Tenancy::Several => Err(text),
            _ => {
                tracing::warn!("--issuer-keys-file: {text}, or give --iss");
                Ok(())
            }
        }
    }
}

impl Keys {
    /// Reads the file, which must be valid.
    pub(crate) fn open(path: PathBuf, tenancy: Tenancy) -> Result<Self, String> {
        let seen = stamp(&path);
        let keys = read(&path, tenancy)?;
        Ok(Keys { path, tenancy, keys: ArcSwap::from_pointee(keys), seen: Mutex::new(seen) })
    }

    pub(crate) fn load(&self) -> Guard<Arc<Keyset>> {
        self.keys.load()
    }

    /// Reads it again. It logs the defect of an invalid one.
    pub(crate) fn reload(&self) {
        *self.seen.lock() = stamp(&self.path);
        match read(&self.path, self.tenancy) {
            Ok(keys) => {
                tracing::info!(kids = ?keys, "issuer keys reloaded");
                self.keys.store(Arc::new(keys));
            }
            Err(err) => tracing::error!(err, "issuer keys not reloaded: the loaded ones stay in use"),
        }
    }

    /// Reads it again if it has changed.
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

fn read(path: &PathBuf, tenancy: Tenancy) -> Result<Keyset, String> {
    let explain = |err: &dyn std::fmt::Display| format!("{}: {err}", path.display());
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(|err| explain(&err))?;
    file.take(KEYSET_LEN_MAX as u64 + 1).read_to_end(&mut bytes).map_err(|err| explain(&err))?;
    let keys = Keyset::parse(&bytes, default_signatures()).map_err(|err| explain(&err))?;
    tenancy.judge(&keys).map_err(|err| explain(&err))?;
    Ok(keys)
}
