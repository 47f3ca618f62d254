//! Unix sockets: a path in the file system that may be left over from a process that has ended.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};

use super::{BACKLOG, BindError};

/// A bound Unix socket. Dropping it removes its path, if the path still leads to this socket.
#[derive(Debug)]
pub struct BoundUnix {
    socket: UnixListener,
    path: PathBuf,
    /// Device and inode of the path when it was bound.
    identity: Option<(u64, u64)>,
}

impl BoundUnix {
    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the socket, to accept on.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn to_accept(&self) -> io::Result<tokio::net::UnixListener> {
        tokio::net::UnixListener::from_std(self.socket.try_clone()?)
    }
}

impl Drop for BoundUnix {
    fn drop(&mut self) {
        // Another process may have bound it anew.
        if self.identity.is_some() && identity(&self.path) == self.identity {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Binds a Unix socket at `path`, which belongs to `setting`. A left-over socket, on which no process accepts, is removed. The
/// folder and `mode` decide who may connect; the socket has its mode before anyone can connect, and without one that of the
/// process's umask. With a mode the caller must ensure that no two processes bind the same path at a time: until it is listened
/// on, a socket looks as if it were left over.
///
/// # Errors
/// [`BindError`]: another process listens there, another file is in the way, or the folder's permissions forbid it.
pub fn bind_unix(path: &Path, setting: &str, mode: Option<u32>) -> Result<BoundUnix, BindError> {
    let refused = |reason: String| BindError { setting: setting.into(), address: path.display().to_string(), reason };
    if let Ok(metadata) = std::fs::symlink_metadata(path) {
        if !metadata.file_type().is_socket() {
            return Err(refused("something that is no socket is in the way".into()));
        }
        match UnixStream::connect(path) {
            Err(err) if err.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path).map_err(|err| refused(err.to_string()))?;
            }
            Err(err) => return Err(refused(err.to_string())),
            Ok(_) => return Err(refused("another program listens there; stop it or choose another path".into())),
        }
    }
    let socket = listen(path, mode).map_err(|err| refused(err.to_string()))?;
    Ok(BoundUnix { socket, path: path.to_owned(), identity: identity(path) })
}

fn listen(path: &Path, mode: Option<u32>) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    let moded = mode.map_or(Ok(()), |mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)));
    if let Err(err) = moded.and_then(|()| socket.listen(BACKLOG)).and_then(|()| socket.set_nonblocking(true)) {
        let _ = std::fs::remove_file(path);
        return Err(err);
    }
    Ok(UnixListener::from(OwnedFd::from(socket)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_socket_is_removed_and_one_in_use_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let bound = bind_unix(&path, "x", None).unwrap();
        assert!(bind_unix(&path, "x", None).unwrap_err().to_string().contains("another program listens there"));
        drop(bound);
        assert!(!path.exists());
        // Left over: bound, and no process accepts any more.
        drop(UnixListener::bind(&path).unwrap());
        let bound = bind_unix(&path, "x", None).unwrap();
        // Another process has put its own socket there.
        std::fs::remove_file(&path).unwrap();
        let _theirs = UnixListener::bind(&path).unwrap();
        drop(bound);
        assert!(path.exists());
        let mode = |path: &Path| std::fs::symlink_metadata(path).unwrap().mode() & 0o777;
        let own = folder.path().join("own");
        let _bound = bind_unix(&own, "x", Some(0o600)).unwrap();
        assert_eq!(mode(&own), 0o600);
        drop(UnixStream::connect(&own).unwrap());
        let file = folder.path().join("file");
        std::fs::write(&file, "kept").unwrap();
        assert!(bind_unix(&file, "x", None).unwrap_err().to_string().contains("no socket"));
        assert_eq!(std::fs::read(&file).unwrap(), b"kept");
    }
}
