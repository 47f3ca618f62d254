//! A store in this process's memory: for tests, and for a process that agrees its sessions itself. A restart loses all
//! of it, sessions too, so no sealed request is ever admitted twice.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use sealway_proto::session::{Claim, ClaimKey, Fresh, Session};
use sealway_proto::wire::SessionId;

use super::{ReserveError, Store, StoreError};

/// Default maximum number of sessions, and of claims.
const ENTRIES_MAX: usize = 100_000;

/// Store in the memory of this process.
pub struct Memory {
    entries_max: usize,
    sessions: Mutex<HashMap<SessionId, Arc<Session>>>,
    /// Claims, and the first millisecond at which each may be forgotten.
    claims: Mutex<HashMap<ClaimKey, u64>>,
}

impl Memory {
    /// Creates a store of at most `entries_max` sessions, and as many claims.
    pub fn new(entries_max: usize) -> Self {
        Memory { entries_max, sessions: Mutex::default(), claims: Mutex::default() }
    }

    /// Stores a session; returns false if there is no room even without the sessions that are over at `now_ms`.
    pub fn put(&self, session: Session, now_ms: u64) -> bool {
        let mut sessions = self.sessions.lock();
        if sessions.len() >= self.entries_max {
            sessions.retain(|_, session| !session.is_expired(now_ms));
        }
        let has_room = sessions.len() < self.entries_max;
        if has_room {
            sessions.insert(*session.id(), Arc::new(session));
        }
        has_room
    }

    /// Ends a session; returns true if it was there.
    pub fn delete(&self, id: &SessionId) -> bool {
        self.sessions.lock().remove(id).is_some()
    }
}

impl Default for Memory {
    fn default() -> Self {
        Memory::new(ENTRIES_MAX)
    }
}

#[async_trait]
impl Store for Memory {
    async fn get(&self, id: &SessionId) -> Result<Option<Arc<Session>>, StoreError> {
        Ok(self.sessions.lock().get(id).cloned())
    }

    async fn reserve(&self, claim: &Claim) -> Result<Fresh, ReserveError> {
        let (mut claims, now_ms) = (self.claims.lock(), claim.now_ms());
        if claims.len() >= self.entries_max {
            claims.retain(|_, expires_ms| now_ms < *expires_ms);
        }
        match claims.get(&claim.key()) {
            Some(expires_ms) if now_ms < *expires_ms => return Err(ReserveError::Replayed),
            None if claims.len() >= self.entries_max => return Err(ReserveError::Full),
            _ => {}
        }
        claims.insert(claim.key(), claim.expires_ms());
        Ok(Fresh::reserved(claim))
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("sessions", &self.sessions.lock().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use sealway_proto::wire::ReplayPolicy;

    use super::*;

    fn claim(key: u8, now_ms: u64) -> Claim {
        Claim::passed_on(ClaimKey([key; 16]), true, now_ms, now_ms, &ReplayPolicy::new(1000, 0)).unwrap()
    }

    #[tokio::test]
    async fn a_claim_is_granted_once_and_none_is_evicted_before_its_time() {
        let store = Memory::new(2);
        assert!(store.reserve(&claim(1, 10_000)).await.is_ok());
        assert_eq!(store.reserve(&claim(1, 10_500)).await.err(), Some(ReserveError::Replayed));
        assert!(store.reserve(&claim(2, 10_000)).await.is_ok());
        assert_eq!(store.reserve(&claim(3, 12_000)).await.err(), Some(ReserveError::Full));
        // Twice the window later, plus a millisecond.
        assert!(store.reserve(&claim(3, 12_001)).await.is_ok());
        assert!(store.reserve(&claim(1, 12_001)).await.is_ok());
    }
}
