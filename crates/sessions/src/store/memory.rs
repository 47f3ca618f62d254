//! Sessions and nonces in this process's memory alone. A restart loses all of it, so nothing can be replayed into it: a
//! sealed call finds no session, and an init is useless to a sender without the private key.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use dashmap::DashMap;
use sealway_proto::session::{Claim, Fresh, Session};
use sealway_proto::wire::{SessionId, Wire};

use super::nonces::Nonces;
use super::{Pool, ReserveError, Status, Store, StoreError};

/// Bounds of a store in memory.
#[derive(Clone, Copy, Debug)]
pub struct MemoryLimits {
    /// Maximum number of sessions; about 1 KiB each.
    pub sessions_max: usize,
    /// Maximum number of nonces of sealed calls, and as many of inits; about 60 bytes each.
    pub nonces_max: usize,
    /// Number of nonces from which all expired ones are removed before a new one is taken.
    pub nonces_cleanup_from: usize,
}

impl MemoryLimits {
    /// Bounds that apply if none are configured.
    pub const DEFAULT: Self =
        MemoryLimits { sessions_max: 1_000_000, nonces_max: 4_000_000, nonces_cleanup_from: 3_200_000 };
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Store in the memory of this process.
#[derive(Debug)]
pub struct Memory {
    sessions: DashMap<SessionId, Arc<Session>>,
    len: AtomicUsize,
    /// Ended chains of renewals: the root of each, and the time until which it is remembered. Bounded like the
    /// sessions.
    ended: DashMap<SessionId, u64>,
    sealed: Nonces,
    inits: Nonces,
    limits: MemoryLimits,
}

impl Memory {
    /// Creates an empty store that holds at most as many sessions and nonces as `limits` allows.
    pub fn new(limits: MemoryLimits) -> Self {
        let nonces = || Nonces::new(limits.nonces_max, limits.nonces_cleanup_from);
        Memory {
            sessions: DashMap::new(),
            len: AtomicUsize::new(0),
            ended: DashMap::new(),
            sealed: nonces(),
            inits: nonces(),
            limits,
        }
    }

    /// Reserves room for one session, within the bound.
    pub(crate) fn room(&self) -> Result<Room<'_>, StoreError> {
        if self.len.fetch_add(1, Ordering::Relaxed) >= self.limits.sessions_max {
            self.len.fetch_sub(1, Ordering::Relaxed);
            return Err(StoreError::Full);
        }
        Ok(Room { memory: self, filled: false })
    }

    /// Restores a session from before a restart. It ignores the bound: an existing session stays valid even if the
    /// bound was lowered since.
    pub(crate) fn restore_session(&self, session: Arc<Session>) {
        self.len.fetch_add(1, Ordering::Relaxed);
        Room { memory: self, filled: false }.fill(session);
    }

    pub(crate) fn find(&self, id: &SessionId) -> Option<Arc<Session>> {
        let session = self.sessions.get(id).map(|session| session.clone())?;
        let record = session.record();
        let is_ended = record.wire == Wire::Native && self.ended.contains_key(record.root());
        (!is_ended).then_some(session)
    }

    /// Ends a chain of renewals. If too many ended chains are remembered, its sessions are searched and removed
    /// instead.
    pub(crate) fn end(&self, root: SessionId, until_ms: u64) {
        if self.ended.len() < self.limits.sessions_max || self.ended.contains_key(&root) {
            let mut end = self.ended.entry(root).or_insert(until_ms);
            *end = until_ms.max(*end);
            return;
        }
        self.drop_sessions(|session| *session.record().root() != root);
    }

    /// Drops all sessions except those to keep; returns the number of dropped ones.
    fn drop_sessions(&self, keep: impl Fn(&Session) -> bool) -> usize {
        let mut gone = 0;
        self.sessions.retain(|_, session| {
            let keep = keep(session);
            gone += usize::from(!keep);
            keep
        });
        self.len.fetch_sub(gone, Ordering::Relaxed);
        gone
    }

    pub(crate) fn ids(&self) -> Vec<SessionId> {
        self.sessions.iter().map(|entry| *entry.key()).collect()
    }

    pub(crate) fn remove(&self, id: &SessionId) -> Option<Arc<Session>> {
        let (_, session) = self.sessions.remove(id)?;
        self.len.fetch_sub(1, Ordering::Relaxed);
        Some(session)
    }

    pub(crate) fn reserve_claim(&self, claim: &Claim) -> Result<Fresh, ReserveError> {
        let nonces = if claim.is_sealed() { &self.sealed } else { &self.inits };
        nonces.reserve(claim.key(), claim.stamp_ms(), claim.now_ms(), claim.expires_ms())?;
        Ok(Fresh::reserved(claim))
    }

    /// Restores a nonce from before a restart.
    pub(crate) fn restore_nonce(&self, sealed: bool, key: sealway_proto::session::ClaimKey, expires_ms: u64) {
        let nonces = if sealed { &self.sealed } else { &self.inits };
        nonces.restore(key, expires_ms);
    }

    pub(crate) fn sweep_all(&self, now_ms: u64) -> usize {
        let gone = self.drop_sessions(|session| !session.is_expired(now_ms));
        self.ended.retain(|_, until_ms| *until_ms > now_ms);
        self.sealed.sweep(now_ms);
        self.inits.sweep(now_ms);
        gone
    }
}

/// Reserved room for one session, released on drop unless it is filled.
pub(crate) struct Room<'a> {
    memory: &'a Memory,
    filled: bool,
}

impl Room<'_> {
    /// Stores a session in the reserved room.
    pub(crate) fn fill(mut self, session: Arc<Session>) {
        self.filled = self.memory.sessions.insert(*session.id(), session).is_none();
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        if !self.filled {
            self.memory.len.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[async_trait]
impl Store for Memory {
    async fn put(&self, session: Arc<Session>) -> Result<(), StoreError> {
        self.room()?.fill(session);
        Ok(())
    }

    async fn get(&self, id: &SessionId) -> Result<Option<Arc<Session>>, StoreError> {
        Ok(self.find(id))
    }

    async fn delete(&self, id: &SessionId) -> Result<bool, StoreError> {
        Ok(self.remove(id).is_some())
    }

    async fn end_chain(&self, root: &SessionId, until_ms: u64) -> Result<(), StoreError> {
        self.end(*root, until_ms);
        Ok(())
    }

    async fn reserve(&self, claim: &Claim) -> Result<Fresh, ReserveError> {
        self.reserve_claim(claim)
    }

    async fn sweep(&self, now_ms: u64) -> Result<usize, StoreError> {
        Ok(self.sweep_all(now_ms))
    }

    fn status(&self) -> Status {
        Status {
            kind: "memory",
            up: true,
            sessions: self.len.load(Ordering::Relaxed),
            nonces: (self.sealed.len(), self.inits.len()),
            nonces_max: self.limits.nonces_max,
            pool: Pool { total: 1, idle: 1, waiting: 0 },
            ..Status::default()
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
