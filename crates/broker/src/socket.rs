//! The broker's Unix socket: in a folder that only its owner can write, accessible to its owner only, and never bound
//! over a live socket.
//!
//! The process must set its umask before the bind ([`keep_others_out`]): the socket has its mode before anybody can
//! connect. For a moment, only its owner could see another mode.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use sealway_runtime::listener::{BoundUnix, bind_unix};

use crate::folders::weak_above;

/// Default path of the socket for clients of the wires W1 to W4.
pub const DEFAULT_PATH: &str = "/tmp/open-crypto-broker/crypto-broker-server.sock";

/// Path of the socket for clients of the wire W0.
pub const W0_PATH: &str = "/tmp/cryptobroker.sock";

/// Path of a socket, and the rules for its folder.
#[derive(Clone, Debug)]
pub struct Place {
    /// Path of the socket, in a folder that other users may not write unless `is_folder_shared`.
    pub path: PathBuf,
    /// Symbolic link to the socket, made if nothing or an own link is at its path.
    pub link: Option<PathBuf>,
    /// Other users may write the socket's folder and those above the key store: volumes that the containers of one pod
    /// share, and nobody else reaches.
    pub is_folder_shared: bool,
}

/// Error of a socket that could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("--socket: {path}: {reason}")]
pub struct SocketError {
    path: String,
    reason: String,
}

/// A listening socket. Dropping it removes the socket and its link.
#[derive(Debug)]
pub struct BrokerSocket {
    bound: BoundUnix,
    link: Option<Link>,
    /// Lock held as long as the socket. The lock file stays: removing it could remove another process's.
    _lock: File,
}

impl BrokerSocket {
    /// Returns the path at which the socket listens.
    pub fn path(&self) -> &Path {
        self.bound.path()
    }

    /// Returns a listener of the runtime.
    ///
    /// # Errors
    /// The process is out of file descriptors.
    pub fn to_accept(&self) -> io::Result<tokio::net::UnixListener> {
        self.bound.to_accept()
    }
}

/// Sets the umask so that other users can access nothing that this process creates from now on.
pub fn keep_others_out() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
}

/// Binds the socket of a broker. A socket left by an ended process is removed.
///
/// # Errors
/// [`SocketError`]: another broker has the socket, something else is in the way, or others may write the folder.
pub fn bind(place: &Place) -> Result<BrokerSocket, SocketError> {
    let refused = |reason: String| SocketError { path: place.path.display().to_string(), reason };
    let folder = match place.path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) => Path::new("."),
        None => return Err(refused("expected a path of a socket".into())),
    };
    check_folder(folder, place.is_folder_shared).map_err(refused)?;
    if let Some(weak) = weak_above(folder).filter(|_| !place.is_folder_shared) {
        tracing::warn!(
            folder = %weak.display(),
            "others may write this folder above the socket's: who can rename what is in it is taken for the broker"
        );
    }
    let lock = lock(&place.path).map_err(refused)?;
    let bound = bind_unix(&place.path, "--socket", Some(0o600)).map_err(|err| refused(err.to_string()))?;
    let metadata = std::fs::symlink_metadata(&place.path).map_err(|err| refused(err.to_string()))?;
    if !metadata.file_type().is_socket() || metadata.mode() & 0o7777 != 0o600 || metadata.uid() != geteuid().as_raw() {
        return Err(refused(format!(
            "it is not ours alone: mode {:04o}, uid {}",
            metadata.mode() & 0o7777,
            metadata.uid()
        )));
    }
    let link = place.link.as_deref().and_then(|link| Link::make(link, &place.path));
    Ok(BrokerSocket { bound, link, _lock: lock })
}

impl BrokerSocket {
    /// True if the link for clients of the wire W0 exists.
    pub fn is_linked(&self) -> bool {
        self.link.is_some()
    }
}

/// Creates the folder if it is missing; rejects one in which another user could place a socket.
fn check_folder(folder: &Path, is_shared: bool) -> Result<(), String> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(err) if err.kind() != io::ErrorKind::AlreadyExists => {
            return Err(format!("cannot make the folder {}: {err}", folder.display()));
        }
        _ => {}
    }
    let metadata = std::fs::symlink_metadata(folder).map_err(|err| format!("{}: {err}", folder.display()))?;
    if !metadata.is_dir() {
        return Err(format!("{} is no folder", folder.display()));
    }
    if is_shared {
        return Ok(());
    }
    if ![0, geteuid().as_raw()].contains(&metadata.uid()) {
        return Err(format!("the folder {} belongs to another user, uid {}", folder.display(), metadata.uid()));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(format!(
            "others may write the folder {} (mode {:04o}): who can put a socket there is taken for the broker. Use one of mode \
             0700, or --shared-folder where only trusted containers reach it",
            folder.display(),
            metadata.mode() & 0o7777
        ));
    }
    Ok(())
}

fn lock(socket: &Path) -> Result<File, String> {
    let mut path = socket.as_os_str().to_owned();
    path.push(".lock");
    let path = PathBuf::from(path);
    let nofollow = rustix::fs::OFlags::NOFOLLOW.bits();
    let opened = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .custom_flags(i32::try_from(nofollow).unwrap_or_default())
        .open(&path);
    let file = opened.map_err(|err| format!("cannot open the lock {}: {err}", path.display()))?;
    file.try_lock().map(|()| file).map_err(|err| match err {
        TryLockError::WouldBlock => "another broker serves there; stop it or choose another path".into(),
        TryLockError::Error(err) => format!("cannot lock {}: {err}", path.display()),
    })
}

/// An own symbolic link, removed when this is dropped.
#[derive(Debug)]
struct Link {
    path: PathBuf,
    to: PathBuf,
}

impl Link {
    fn make(path: &Path, to: &Path) -> Option<Link> {
        let made = match symlink(to, path) {
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists && is_ours(path, to) => Ok(()),
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists && is_dead_socket(path) => {
                // Left by an ended server of v0.1, whose clients would find no server.
                tracing::info!(link = %path.display(), "removing the socket of an earlier server");
                std::fs::remove_file(path).and_then(|()| symlink(to, path))
            }
            made => made,
        };
        if let Err(err) = made {
            tracing::warn!(link = %path.display(), %err, "the link for clients of the wire W0 was not created");
            return None;
        }
        Some(Link { path: path.to_owned(), to: to.to_owned() })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if is_ours(&self.path, &self.to) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// True for a socket of this process's user without a listener.
fn is_dead_socket(path: &Path) -> bool {
    let is_own = std::fs::symlink_metadata(path)
        .is_ok_and(|metadata| metadata.file_type().is_socket() && metadata.uid() == geteuid().as_raw());
    let connected = is_own.then(|| std::os::unix::net::UnixStream::connect(path));
    connected.is_some_and(|connected| connected.is_err_and(|err| err.kind() == io::ErrorKind::ConnectionRefused))
}

fn is_ours(link: &Path, to: &Path) -> bool {
    let is_own = std::fs::symlink_metadata(link).is_ok_and(|metadata| metadata.uid() == geteuid().as_raw());
    is_own && std::fs::read_link(link).is_ok_and(|target| target == to)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn place(path: PathBuf) -> Place {
        Place { path, link: None, is_folder_shared: false }
    }

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    #[tokio::test]
    async fn the_socket_is_private_and_removed_on_drop() {
        let ground = tempfile::tempdir().unwrap();
        let path = ground.path().join("made/broker.sock");
        let socket = bind(&place(path.clone())).unwrap();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let again = bind(&place(path.clone())).unwrap_err().to_string();
        assert!(again.contains("another broker serves there"), "{again}");
        drop(socket);
        assert!(!path.exists());
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        bind(&place(path)).unwrap();
    }

    #[tokio::test]
    async fn sockets_and_files_of_others_stay() {
        let ground = tempfile::tempdir().unwrap();
        let path = ground.path().join("broker.sock");
        let theirs = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(bind(&place(path.clone())).unwrap_err().to_string().contains("another program listens there"));
        drop(theirs);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "kept").unwrap();
        assert!(bind(&place(path.clone())).unwrap_err().to_string().contains("no socket"));
        assert_eq!(std::fs::read(&path).unwrap(), b"kept");
    }

    #[tokio::test]
    async fn missing_and_foreign_folders_and_invalid_paths_are_rejected() {
        let ground = tempfile::tempdir().unwrap();
        let refused = |path: &Path| bind(&place(path.to_owned())).unwrap_err().to_string();
        assert!(refused(Path::new("/")).contains("expected a path of a socket"));
        let file = ground.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(refused(&file.join("broker.sock")).contains("is no folder"));
        assert!(refused(&ground.path().join("a/b/broker.sock")).contains("cannot make the folder"));
        let link = ground.path().join("link");
        std::os::unix::fs::symlink(ground.path(), &link).unwrap();
        assert!(refused(&link.join("broker.sock")).contains("is no folder"));
        // Only root can give a folder away.
        if geteuid().is_root() {
            let theirs = ground.path().join("theirs");
            std::fs::create_dir(&theirs).unwrap();
            std::os::unix::fs::chown(&theirs, Some(4711), None).unwrap();
            assert!(refused(&theirs.join("broker.sock")).contains("belongs to another user, uid 4711"));
        }
    }

    #[tokio::test]
    async fn a_folder_that_others_may_write_is_rejected_unless_shared_folder_is_set() {
        let ground = tempfile::tempdir().unwrap();
        let folder = ground.path().join("open");
        std::fs::create_dir(&folder).unwrap();
        let mut place = place(folder.join("broker.sock"));
        for open in [0o777, 0o1777, 0o770] {
            std::fs::set_permissions(&folder, PermissionsExt::from_mode(open)).unwrap();
            assert!(bind(&place).unwrap_err().to_string().contains("others may write the folder"), "{open:o}");
        }
        place.is_folder_shared = true;
        bind(&place).unwrap();
        std::os::unix::fs::symlink(&folder, ground.path().join("aside")).unwrap();
        place.path = ground.path().join("aside/broker.sock");
        assert!(bind(&place).unwrap_err().to_string().contains("is no folder"));
    }

    #[tokio::test]
    async fn the_link_never_replaces_a_foreign_file() {
        let ground = tempfile::tempdir().unwrap();
        let link = ground.path().join("link.sock");
        let place = Place { link: Some(link.clone()), ..place(ground.path().join("broker.sock")) };
        let socket = bind(&place).unwrap();
        assert!(socket.is_linked());
        std::os::unix::net::UnixStream::connect(&link).unwrap();
        drop(socket);
        assert!(std::fs::symlink_metadata(&link).is_err());
        // Like a link left by a killed process.
        std::os::unix::fs::symlink(&place.path, &link).unwrap();
        assert!(bind(&place).unwrap().is_linked());
        std::fs::write(&link, "theirs").unwrap();
        assert!(!bind(&place).unwrap().is_linked());
        assert_eq!(std::fs::read(&link).unwrap(), b"theirs");
    }

    #[tokio::test]
    async fn the_link_replaces_a_stale_socket_and_not_a_live_one() {
        let ground = tempfile::tempdir().unwrap();
        let link = ground.path().join("link.sock");
        let place = Place { link: Some(link.clone()), ..place(ground.path().join("broker.sock")) };
        let older = std::os::unix::net::UnixListener::bind(&link).unwrap();
        assert!(!bind(&place).unwrap().is_linked());
        std::os::unix::net::UnixStream::connect(&link).unwrap();
        drop(older);
        let socket = bind(&place).unwrap();
        assert!(socket.is_linked());
        std::os::unix::net::UnixStream::connect(&link).unwrap();
    }
}
