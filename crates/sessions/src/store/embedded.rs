//! Sessions that survive a restart, in one file of this machine, with nothing else installed. The memory store serves
//! every read; `redb` holds what a restart needs.
//!
//! A session is on the disk before its client hears of it. A nonce need not be, if its stamp is not ahead of the clock:
//! after a restart every stamp up to the restart is refused. One that is stamped ahead is written before it is granted.
//! So that this holds when the clock steps back across the restart, a ceiling of what was granted is written ahead.

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dashmap::DashMap;
use parking_lot::Mutex;
use redb::{Database, ReadableDatabase, ReadableTable};
use sealway_proto::crypto::Provider;
use sealway_proto::limits::KEY_LEN;
use sealway_proto::session::{Claim, ClaimKey, Fresh, Session, SessionKey};
use sealway_proto::wire::SessionId;

use super::memory::{Memory, MemoryLimits};
use super::writer::{Change, KEKS, LEAD_MS, META, META_CEILING_MS, META_FORMAT, NONCES, SESSIONS, Writer};
use super::{OpenError, Pool, ReserveError, Status, Store, StoreError};
use super::{row, writer};
use crate::kek::{KeyRing, UnwrapError, Wrapped};

const FORMAT: u64 = 1;
/// How long an opening waits for the clock to pass the floor. A floor further ahead means that the clock stepped back.
const CRASH_WAIT_MAX: Duration = Duration::from_millis(2 * LEAD_MS);

/// The store.
#[derive(Debug)]
pub struct Embedded {
    memory: Memory,
    keys: Arc<KeyRing>,
    /// Stamps up to this one may have been used in an earlier life.
    floor_ms: u64,
    writer: Writer,
    /// Revoked, and by when their rows go at the latest: not yet removed from the disk.
    undeleted: DashMap<SessionId, u64>,
    /// Sessions whose rows are wrapped under another key than the first, and which key was the first when last looked.
    others: Mutex<(HashSet<SessionId>, String)>,
}

impl Embedded {
    /// Opens or makes the file at `path`, and brings back every session that is not over at `now_ms`.
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
        let fail = |reason: String| OpenError(format!("session store {}: {reason}", path.display()));
        // Made here and not by the database: it holds who has sessions, and is its owner's alone.
        let made = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
        made.map_err(|err| fail(err.to_string()))?;
        let database = writer::open(path).map_err(|err| {
            fail(match err {
                redb::DatabaseError::DatabaseAlreadyOpen => {
                    "another process uses it; a store belongs to one process".into()
                }
                err => err.to_string(),
            })
        })?;
        let memory = Memory::new(limits);
        let active_id = keys.active_id();
        let mut others = HashSet::new();
        let floor_ms = restore(provider, &database, &keys, &memory, &mut others, now_ms).map_err(fail)?;
        // After a crash the ceiling is a little ahead of the clock. Who is waited for here is not refused later.
        let ahead = Duration::from_millis(floor_ms.saturating_sub(now_ms));
        if ahead <= CRASH_WAIT_MAX {
            std::thread::sleep(ahead);
        }
        let writer = Writer::start(database, path, floor_ms).map_err(|err| fail(err.to_string()))?;
        let others = Mutex::new((others, active_id));
        Ok(Embedded { memory, keys, floor_ms, writer, undeleted: DashMap::new(), others })
    }
}

/// Brings the tables up to date, fills `memory`, and returns the floor.
fn restore(
    provider: &'static dyn Provider,
    database: &Database,
    keys: &KeyRing,
    memory: &Memory,
    others: &mut HashSet<SessionId>,
    now_ms: u64,
) -> Result<u64, String> {
    let text = |err: &dyn std::fmt::Display| err.to_string();
    let transaction = database.begin_write().map_err(|err| text(&err))?;
    let floor_ms = {
        let mut meta = transaction.open_table(META).map_err(|err| text(&err))?;
        let format = meta.get(META_FORMAT).map_err(|err| text(&err))?.map(|value| value.value());
        let ceiling_ms = meta.get(META_CEILING_MS).map_err(|err| text(&err))?.map_or(0, |value| value.value());
        let floor_ms = match format {
            // New: no earlier life, nothing to refuse.
            None => 0,
            Some(FORMAT) => now_ms.max(ceiling_ms),
            Some(other) => return Err(format!("its format is {other}, this program knows {FORMAT}")),
        };
        meta.insert(META_FORMAT, FORMAT).map_err(|err| text(&err))?;
        meta.insert(META_CEILING_MS, floor_ms).map_err(|err| text(&err))?;
        transaction.open_table(SESSIONS).map_err(|err| text(&err))?;
        transaction.open_table(NONCES).map_err(|err| text(&err))?;
        check_keks(&transaction, keys)?;
        floor_ms
    };
    transaction.commit().map_err(|err| text(&err))?;

    let transaction = database.begin_read().map_err(|err| text(&err))?;
    let start = now_ms.saturating_add(1).to_be_bytes();
    let sessions = transaction.open_table(SESSIONS).map_err(|err| text(&err))?;
    let mut restored = 0_usize;
    for entry in sessions.range(start.as_slice()..).map_err(|err| text(&err))? {
        let (key, value) = entry.map_err(|err| text(&err))?;
        match row::decode(key.value(), value.value(), keys) {
            Ok((record, kek_id)) => {
                if kek_id != keys.active_id() {
                    others.insert(record.id);
                }
                let session = Session::new(provider, record).map_err(|err| text(&err))?;
                memory.restore_session(Arc::new(session));
                restored += 1;
            }
            Err(row::RowError::Key(err @ UnwrapError::UnknownKek(_))) => {
                let file = keys.source();
                return Err(format!(
                    "a session is {err}; put that key back into {file}, or remove the store to begin anew"
                ));
            }
            Err(err) => tracing::error!(%err, "a stored session is damaged; it is left out"),
        }
    }
    let nonces = transaction.open_table(NONCES).map_err(|err| text(&err))?;
    for entry in nonces.range(start.as_slice()..).map_err(|err| text(&err))? {
        let (key, sealed) = entry.map_err(|err| text(&err))?;
        let Some((expires, claim)) = key.value().split_first_chunk::<8>() else { continue };
        let Ok(claim) = <[u8; 16]>::try_from(claim) else { continue };
        memory.restore_nonce(sealed.value() == 1, ClaimKey(claim), u64::from_be_bytes(*expires));
    }
    if floor_ms > 0 {
        tracing::info!(sessions = restored, "sessions restored; requests stamped before this start are refused");
    }
    Ok(floor_ms)
}

/// Refuses a key that bears the id of another one: every session would look damaged, and be left out. For that, a known
/// value is wrapped under each key that ever wraps.
fn check_keks(transaction: &redb::WriteTransaction, keys: &KeyRing) -> Result<(), String> {
    let text = |err: &dyn std::fmt::Display| err.to_string();
    let id = SessionId::from_random(&[0; 16], false);
    let mut known = transaction.open_table(KEKS).map_err(|err| text(&err))?;
    for entry in known.iter().map_err(|err| text(&err))? {
        let (kek_id, bytes) = entry.map_err(|err| text(&err))?;
        let Ok(bytes) = bytes.value().try_into() else { continue };
        let wrapped = Wrapped { kek_id: kek_id.value().to_owned(), bytes };
        if matches!(keys.unwrap(&id, &wrapped), Err(UnwrapError::Damaged)) {
            let (file, kek_id) = (keys.source(), kek_id.value());
            return Err(format!("key \"{kek_id}\" in {file} is another one than the store was written with"));
        }
    }
    if known.get(keys.active_id().as_str()).map_err(|err| text(&err))?.is_none() {
        let mark = keys.wrap(&id, &SessionKey::from_bytes([0; KEY_LEN])).map_err(|err| text(&err))?;
        known.insert(keys.active_id().as_str(), mark.bytes.as_slice()).map_err(|err| text(&err))?;
    }
    Ok(())
}

#[async_trait]
impl Store for Embedded {
    async fn put(&self, session: Arc<Session>) -> Result<(), StoreError> {
        // Taken first: a row that then does not fit would be on the disk and in nobody's hands.
        let room = self.memory.room()?;
        let record = session.record();
        let unavailable = |err: sealway_proto::Error| StoreError::Unavailable(err.to_string());
        let wrapped = self.keys.wrap(&record.id, &record.key).map_err(unavailable)?;
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
        // A session whose row could not be removed is gone from memory all the same; asked again, its row is tried again.
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
        self.keys.reload_if_changed();
        let batch: Vec<_> = {
            let mut others = self.others.lock();
            let active_id = self.keys.active_id();
            if others.1 != active_id {
                others.0.extend(self.memory.ids());
                others.1 = active_id;
            }
            others.0.iter().take(count_max).copied().collect()
        };
        let mut rows = Vec::with_capacity(batch.len());
        for session in batch.iter().filter_map(|id| self.memory.find(id)) {
            let record = session.record();
            let wrapped = self.keys.wrap(&record.id, &record.key);
            let wrapped = wrapped.map_err(|err| StoreError::Unavailable(err.to_string()))?;
            rows.push((row::session_key(record.expires_ms, &record.id), row::encode(record, &wrapped)));
        }
        if !rows.is_empty() {
            self.writer.commit(Change::Rewrap { rows }).await?;
        }
        let mut others = self.others.lock();
        // Another change of keys may have come meanwhile; then all of them are due again.
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
