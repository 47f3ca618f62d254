//! The files of TLS material: read together, within bounds, and watched for changes.

use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use zeroize::Zeroizing;

use super::TlsError;

/// Largest file of a certificate chain, a key or an OCSP answer, in bytes.
pub(super) const FILE_LEN_MAX: u64 = 1024 * 1024;
/// Largest file of authorities or of revoked certificates, in bytes.
pub(super) const LIST_LEN_MAX: u64 = 32 * 1024 * 1024;

/// Number of attempts to read files that do not fit together, and the pause between them: an operator who replaces a key and
/// its certificate renames one, then the other.
const AGAIN: usize = 3;
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// A file that the configuration names.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) field: &'static str,
    pub(super) path: PathBuf,
    pub(super) len_max: u64,
}

impl Source {
    pub(super) fn new(field: &'static str, path: &std::path::Path, len_max: u64) -> Self {
        Source { field, path: path.to_owned(), len_max }
    }
}

/// The content of a file. No `Debug`: it may be a key.
pub(super) struct Content {
    pub(super) field: &'static str,
    pub(super) path: PathBuf,
    pub(super) bytes: Zeroizing<Vec<u8>>,
}

impl Content {
    pub(super) fn fault(&self, message: impl Into<String>) -> TlsError {
        TlsError::new(self.field, &self.path, message)
    }

    pub(super) fn digest(&self) -> [u8; 32] {
        sha256(&self.bytes)
    }

    /// Returns whether it is PEM, not DER.
    pub(super) fn is_pem(&self) -> bool {
        self.bytes.windows(11).any(|window| window == b"-----BEGIN ")
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref());
    out
}

/// The metadata that reveals the replacement of a file, without reading it.
#[derive(Clone, Debug, PartialEq)]
struct Stamp {
    modified: Option<SystemTime>,
    len: u64,
    inode: u64,
}

/// Files and their metadata at the last reading.
#[derive(Debug)]
pub(super) struct FileWatch {
    sources: Vec<Source>,
    seen: Mutex<Vec<Option<Stamp>>>,
}

impl FileWatch {
    pub(super) fn new(sources: Vec<Source>) -> Self {
        FileWatch { sources, seen: Mutex::default() }
    }

    /// Returns whether a file has changed since the last reading, which may have failed.
    pub(super) fn changed(&self) -> bool {
        *self.seen.lock() != self.stamps()
    }

    fn stamps(&self) -> Vec<Option<Stamp>> {
        self.sources.iter().map(stamp).collect()
    }

    /// Reads all files and calls `make`, again if they do not fit together.
    pub(super) fn load<T>(&self, make: impl Fn(&[Content]) -> Result<T, TlsError>) -> Result<T, TlsError> {
        let mut again = 0;
        loop {
            // Before the reading: a file that changes meanwhile counts as changed afterwards.
            *self.seen.lock() = self.stamps();
            let contents = self.sources.iter().map(read).collect::<Result<Vec<_>, _>>();
            match contents.and_then(|contents| make(&contents)) {
                Err(err) if err.is_transient && again < AGAIN => {
                    again += 1;
                    std::thread::sleep(AGAIN_AFTER);
                }
                done => return done,
            }
        }
    }
}

fn stamp(source: &Source) -> Option<Stamp> {
    let metadata = std::fs::metadata(&source.path).ok()?;
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let inode = 0;
    Some(Stamp { modified: metadata.modified().ok(), len: metadata.len(), inode })
}

fn read(source: &Source) -> Result<Content, TlsError> {
    let fault = |message: String| TlsError::new(source.field, &source.path, message);
    // The whole capacity at once: a buffer that grows leaves copies of a key behind.
    let file = std::fs::File::open(&source.path).map_err(|err| fault(format!("cannot be read: {err}")))?;
    let len = file.metadata().map(|metadata| metadata.len().min(source.len_max)).unwrap_or_default();
    let mut bytes = Zeroizing::new(Vec::with_capacity(usize::try_from(len).unwrap_or_default() + 64));
    file.take(source.len_max + 1).read_to_end(&mut bytes).map_err(|err| fault(format!("cannot be read: {err}")))?;
    if bytes.len() as u64 > source.len_max {
        return Err(fault(format!("is longer than {} bytes", source.len_max)));
    }
    if bytes.is_empty() {
        return Err(fault("is empty".into()));
    }
    Ok(Content { field: source.field, path: source.path.clone(), bytes })
}

/// Iterates over the contents of one field.
pub(super) fn of<'a>(contents: &'a [Content], field: &'static str) -> impl Iterator<Item = &'a Content> {
    contents.iter().filter(move |content| content.field == field)
}
