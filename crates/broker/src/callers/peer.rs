//! Who is at the other end of a Unix socket, as the kernel says it.

use std::io;
use std::sync::Arc;

use tokio::net::UnixStream;

/// The most groups that a process can have (`NGROUPS_MAX` of Linux).
const GROUPS_MAX: usize = 65_536;

/// A caller, as it was when it connected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Its user. One of another user namespace that this one does not know is the overflow user, 65534.
    pub uid: u32,
    /// Its primary group.
    pub gid: u32,
    /// Its supplementary groups; none where its process cannot be looked at.
    pub groups: Arc<[u32]>,
    /// Its process; none in another pid namespace. The process may have gone and its number be another's by now: nothing but
    /// shares of connections, and groups of a process of the same user, are decided by it.
    pub pid: Option<i32>,
}

impl Peer {
    /// Asks the kernel (SO_PEERCRED), once a connection.
    ///
    /// # Errors
    /// The kernel does not say: the connection is to be dropped.
    pub fn of(socket: &UnixStream) -> io::Result<Peer> {
        let known = socket.peer_cred()?;
        let pid = known.pid().filter(|pid| *pid > 0);
        let groups = pid.and_then(|pid| supplementary(known.uid(), pid)).unwrap_or_default();
        Ok(Peer { uid: known.uid(), gid: known.gid(), groups, pid })
    }

    /// Whether it is in a group, primary or supplementary.
    pub fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

/// The supplementary groups of a process by `/proc`, if the process is of this user alone. Its number could be another's by now,
/// who then is a process of the same user: what that may do, the caller could have done through it.
fn supplementary(uid: u32, pid: i32) -> Option<Arc<[u32]>> {
    groups_of(uid, &std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn groups_of(uid: u32, status: &str) -> Option<Arc<[u32]>> {
    let numbers = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let numbers: Result<Vec<u32>, _> = line.split_ascii_whitespace().take(GROUPS_MAX).map(str::parse).collect();
        numbers.ok()
    };
    // Real, effective, saved and of the file system.
    let is_its = numbers("Uid:")? == [uid; 4];
    is_its.then(|| numbers("Groups:").map(Arc::from)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_peer_is_who_has_connected() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = Peer::of(&one).unwrap();
        assert_eq!(peer.uid, rustix::process::getuid().as_raw());
        assert_eq!(peer.gid, rustix::process::getgid().as_raw());
        assert_eq!(peer.pid, i32::try_from(std::process::id()).ok());
        let mut groups: Vec<u32> = rustix::process::getgroups().unwrap().iter().map(|group| group.as_raw()).collect();
        groups.sort_unstable();
        assert_eq!(*peer.groups, *groups);
    }

    #[test]
    fn groups_are_those_of_a_process_of_the_same_user_and_of_no_other() {
        let status = |uids: &str| format!("Name:\tGroups: 7\nUid:\t{uids}\nGid:\t5\t5\t5\t5\nGroups:\t27 100 \n");
        assert_eq!(groups_of(1000, &status("1000\t1000\t1000\t1000")).as_deref(), Some(&[27, 100][..]));
        assert_eq!(groups_of(1000, "Uid:\t1000 1000 1000 1000\nGroups:\t \n").as_deref(), Some(&[][..]));
        // Another user's, one that has changed or can change its user, and what is no status.
        for uids in ["1001\t1001\t1001\t1001", "1000\t0\t0\t0", "1000\t1000\t0\t1000", "1000", ""] {
            assert_eq!(groups_of(1000, &status(uids)), None, "{uids}");
        }
        assert_eq!(groups_of(1000, "Uid:\t1000 1000 1000 1000\nGroups:\tx\n"), None);
        assert_eq!(groups_of(1000, ""), None);
    }
}
