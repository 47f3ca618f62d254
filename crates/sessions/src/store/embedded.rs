//! Sessions that survive a restart, in one file on this machine, without a database server. The memory store serves
//! every read; `redb` holds the data for a restart.
//!
//! A session is on the disk before its client gets the answer. A nonce need not be, if its stamp is not ahead of the
//! clock: after a restart every stamp up to the restart is rejected. A nonce stamped ahead is written before it is
//! granted. So that this holds when the clock steps back across the restart, a ceiling of the granted stamps is written
//! ahead.

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dashmap::DashMap;
use futures_util::FutureExt;
use parking_lot::Mutex;
use sealway_proto::crypto::Provider;
use sealway_proto::session::{Claim, Fresh, Session, SessionRecord};
use sealway_proto::wire::SessionId;

use super::memory::{Memory, MemoryLimits};
use super::writer::{Change, LEAD_MS, Writer};
use super::{OpenError, Pool, ReserveError, Status, Store, StoreError};
use super::{row, writer};
use crate::kek::{KeyRing, KeyWrap, WRAP_MAX, WrapError, WrappedKey};

mod restore;

/// Maximum time that opening waits for the clock to pass the floor. A floor further ahead means that the clock stepped
/// back.
const CRASH_WAIT_MAX: Duration = Duration::from_millis(2 * LEAD_MS);

/// Store in one file, with all data in memory too.
#[derive(Debug)]
pub struct Embedded {
    memory: Memory,
    keys: Arc<dyn KeyWrap>,
    /// Stamps up to this one may have been used before the restart.
    floor_ms: u64,
    writer: Writer,
    /// Revoked sessions whose rows are still on the disk, each with the latest time at which its row goes.
    undeleted: DashMap<SessionId, u64>,
    /// Sessions whose rows are not wrapped under the active key, and the id of the key that was active at the last
    /// check.
    others: Mutex<(HashSet<SessionId>, String)>,
}

impl Embedded {
    /// Opens or creates the file at `path`, and restores every session that is not over at `now_ms`.
    ///
    /// # Errors
    /// [`OpenError`]: the file is in use, damaged, of another format, or wrapped under a key that `keys` lacks.
    pub fn open(
        provider: &'static dyn Provider,
        path: &Path,
        keys: Arc<KeyRing>,
        limits: MemoryLimits,
        now_ms: u64,
    ) -> Result<Self, OpenError> {
        let opened = Embedded::open_with(provider, path, keys, limits, now_ms).now_or_never();
        opened.unwrap_or_else(|| Err(OpenError("session store: a key ring that waits".into())))
    }

    /// Opens the store as [`Embedded::open`] does, with any key wrap.
    ///
    /// # Errors
    /// As [`Embedded::open`]; or the key wrap is unavailable.
    pub async fn open_with(
        provider: &'static dyn Provider,
        path: &Path,
        keys: Arc<dyn KeyWrap>,
        limits: MemoryLimits,
        now_ms: u64,
    ) -> Result<Self, OpenError> {
        let fail = |reason: String| OpenError(format!("session store {}: {reason}", path.display()));
        // Created here, not by the database: it lists the holders of sessions, so only its owner may read it.
        let made = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
        made.map_err(|err| fail(err.to_string()))?;
        let database = writer::open(path).map_err(|err| {
            fail(match err {
                redb::DatabaseError::DatabaseAlreadyOpen => {
                    "another process uses it, and a file serves one: stop that process first, or use a store that \
                     processes share (PostgreSQL, Redis) to replace it without a pause"
                        .into()
                }
                err => err.to_string(),
            })
        })?;
        let memory = Memory::new(limits);
        let active_id = keys.active_id();
        let restored = restore::restore(provider, &database, keys.as_ref(), &memory, now_ms).await.map_err(fail)?;
        // After a crash the ceiling is a little ahead of the clock. Waiting here avoids rejections later.
        let ahead = Duration::from_millis(restored.floor_ms.saturating_sub(now_ms));
        if ahead <= CRASH_WAIT_MAX {
            std::thread::sleep(ahead);
        }
        let writer = Writer::start(database, path, restored.floor_ms).map_err(|err| fail(err.to_string()))?;
        let others = Mutex::new((restored.others, active_id));
        Ok(Embedded { memory, keys, floor_ms: restored.floor_ms, writer, undeleted: DashMap::new(), others })
    }
}

fn unavailable(err: WrapError) -> StoreError {
    StoreError::Unavailable(err.to_string())
}

#[async_trait]
impl Store for Embedded {
    async fn put(&self, session: Arc<Session>) -> Result<(), StoreError> {
        // Reserved first: otherwise a row that does not fit would be on the disk and not in memory.
        let room = self.memory.room()?;
        let record = session.record();
        let wrapped = row::seal(self.keys.as_ref(), record).await.map_err(unavailable)?;
        let key = row::session_key(record.expires_ms, &record.id);
        self.writer.commit(Change::PutSession { key, row: row::encode(record, &wrapped) }).await?;
        let id = record.id;
        room.fill(session);
        let mut others = self.others.lock();
        if wrapped.kek_id != others.1 {
            others.0.insert(id);
        }
        Ok(())
    }

    async fn get(&self, id: &SessionId) -> Result<Option<Arc<Session>>, StoreError> {
        Ok(self.memory.find(id))
    }

    async fn delete(&self, id: &SessionId) -> Result<bool, StoreError> {
        // If the row could not be removed, the session is still gone from memory; a second call tries the row again.
        let expires_ms = match self.memory.remove(id) {
            Some(session) => session.record().expires_ms,
            None => match self.undeleted.get(id) {
                Some(expires_ms) => *expires_ms,
                None => return Ok(false),
            },
        };
        self.undeleted.insert(*id, expires_ms);
        self.writer.commit(Change::DeleteSession { key: row::session_key(expires_ms, id) }).await?;
        self.undeleted.remove(id);
        Ok(true)
    }

    async fn end_chain(&self, root: &SessionId, until_ms: u64) -> Result<(), StoreError> {
        self.memory.end(*root, until_ms);
        self.writer.commit(Change::EndChain { key: row::session_key(until_ms, root) }).await
    }

    async fn reserve(&self, claim: &Claim) -> Result<Fresh, ReserveError> {
        if claim.stamp_ms() <= self.floor_ms {
            return Err(ReserveError::Replayed);
        }
        let fresh = self.memory.reserve_claim(claim)?;
        if claim.is_stamped_ahead() {
            let mut key = claim.expires_ms().to_be_bytes().to_vec();
            key.extend_from_slice(&claim.key().0);
            let change = Change::PutNonce { key, sealed: claim.is_sealed() };
            self.writer.commit(change).await.map_err(|err| ReserveError::Unavailable(err.to_string()))?;
        } else {
            self.writer.cover(claim.stamp_ms());
        }
        Ok(fresh)
    }

    async fn sweep(&self, now_ms: u64) -> Result<usize, StoreError> {
        let gone = self.memory.sweep_all(now_ms);
        self.undeleted.retain(|_, expires_ms| *expires_ms > now_ms);
        self.writer.commit(Change::Sweep { now_ms }).await?;
        Ok(gone)
    }

    async fn rewrap(&self, count_max: usize) -> Result<usize, StoreError> {
        self.keys.refresh().await;
        let batch: Vec<_> = {
            let mut others = self.others.lock();
            let active_id = self.keys.active_id();
            if others.1 != active_id {
                others.0.extend(self.memory.ids());
                others.1 = active_id;
            }
            others.0.iter().take(count_max).copied().collect()
        };
        let sessions: Vec<Arc<Session>> = batch.iter().filter_map(|id| self.memory.find(id)).collect();
        let mut rows = Vec::with_capacity(sessions.len());
        for chunk in sessions.chunks(WRAP_MAX) {
            let records: Vec<&SessionRecord> = chunk.iter().map(|session| session.record()).collect();
            let wrapped = row::seal_all(self.keys.as_ref(), &records).await.map_err(unavailable)?;
            let row = |(record, wrapped): (&SessionRecord, &WrappedKey)| {
                (row::session_key(record.expires_ms, &record.id), row::encode(record, wrapped))
            };
            rows.extend(records.into_iter().zip(&wrapped).map(row));
        }
        if !rows.is_empty() {
            self.writer.commit(Change::Rewrap { rows }).await?;
        }
        let mut others = self.others.lock();
        // The active key may have changed again meanwhile; then all of them are due again.
        if others.1 == self.keys.active_id() {
            batch.iter().for_each(|id| {
                others.0.remove(id);
            });
        }
        Ok(batch.len())
    }

    fn status(&self) -> Status {
        let memory = self.memory.status();
        let waiting = self.writer.waiting();
        let pool = Pool { total: 1, idle: usize::from(waiting == 0), waiting };
        Status { kind: "embedded", up: self.writer.is_up(), pool, ..memory }
    }
}

#[cfg(test)]
mod tests;
