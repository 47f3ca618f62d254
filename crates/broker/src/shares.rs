//! A bounded number of places that callers share, such as those of connections. One user has three quarters of them at most, one
//! process a quarter, so that neither takes all.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::callers::Peer;

/// A holder of places. Processes of another pid namespace have no number here, and their user's share alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Holder {
    Everybody,
    User(u32),
    Process(i32),
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoPlace {
    /// All are taken.
    #[error("all {0} places are taken")]
    All(usize),
    /// The caller's user has its share.
    #[error("user {uid} has its share of places, {max}")]
    User { uid: u32, max: usize },
    /// The caller's process has its share.
    #[error("process {pid} has its share of places, {max}")]
    Process { pid: i32, max: usize },
}

/// A bounded number of places.
#[derive(Debug)]
pub(crate) struct Shares {
    max: usize,
    /// Places of each holder that has any.
    taken: Mutex<HashMap<Holder, usize>>,
}

/// A place, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    shares: Arc<Shares>,
    holders: [Option<Holder>; 3],
}

impl Shares {
    /// So many places, none of them taken.
    pub(crate) fn new(max: usize) -> Arc<Shares> {
        Arc::new(Shares { max, taken: Mutex::default() })
    }

    /// A place for a caller.
    ///
    /// # Errors
    /// All are taken, or the caller's share of them.
    pub(crate) fn place(self: &Arc<Self>, peer: &Peer) -> Result<Place, NoPlace> {
        let holders = [Some(Holder::Everybody), Some(Holder::User(peer.uid)), peer.pid.map(Holder::Process)];
        let mut taken = self.taken.lock();
        for holder in holders.iter().flatten() {
            let count = taken.get(holder).copied().unwrap_or_default();
            match *holder {
                Holder::Everybody if count >= self.max => return Err(NoPlace::All(self.max)),
                Holder::User(uid) if count >= self.of_user() => return Err(NoPlace::User { uid, max: self.of_user() }),
                Holder::Process(pid) if count >= self.of_process() => {
                    return Err(NoPlace::Process { pid, max: self.of_process() });
                }
                _ => {}
            }
        }
        for holder in holders.into_iter().flatten() {
            *taken.entry(holder).or_default() += 1;
        }
        Ok(Place { shares: self.clone(), holders })
    }

    fn of_user(&self) -> usize {
        self.max - self.max / 4
    }

    fn of_process(&self) -> usize {
        self.max.div_ceil(4)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.shares.taken.lock();
        for holder in self.holders.into_iter().flatten() {
            if let Entry::Occupied(mut count) = taken.entry(holder) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(uid: u32, pid: i32) -> Peer {
        Peer { uid, pid: Some(pid), ..Peer::default() }
    }

    #[test]
    fn a_user_and_a_process_have_a_share_each_and_others_have_theirs() {
        let shares = Shares::new(1024);
        let mut held = Vec::new();
        for pid in 1..=3 {
            held.extend((0..256).map(|_| shares.place(&peer(1, pid)).unwrap()));
            let full = shares.place(&peer(1, pid)).unwrap_err();
            let user_full = NoPlace::User { uid: 1, max: 768 };
            assert_eq!(full, if pid == 3 { user_full } else { NoPlace::Process { pid, max: 256 } });
        }
        let nameless = Peer { uid: 1, ..Peer::default() };
        assert_eq!(shares.place(&nameless).unwrap_err(), NoPlace::User { uid: 1, max: 768 });
        held.extend((0..256).map(|_| shares.place(&peer(2, 4)).unwrap()));
        assert_eq!(shares.place(&peer(3, 5)).unwrap_err(), NoPlace::All(1024));
        drop(held.pop());
        held.push(shares.place(&peer(3, 5)).unwrap());
        drop(held);
        assert!(shares.taken.lock().is_empty(), "a holder of none is not remembered");
    }
}
