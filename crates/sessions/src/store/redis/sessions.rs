//! Sessions in Redis until they expire, in the same row format as in the embedded store, with a wrapped key; or a
//! tombstone.

use std::sync::Arc;

use futures_util::future::join_all;
use sealway_proto::session::Session;
use sealway_proto::wire::SessionId;
use sealway_runtime::redis::{Link, Trouble};
use tokio::sync::mpsc;

use super::{Inner, Live, Redis, measured, script};
use crate::kek::UnwrapError;
use crate::store::{StoreError, row};

/// Value of a revoked session, shorter than any row.
const TOMBSTONE: &[u8] = b"x";
const BEHIND_AT_ONCE: usize = 256;

/// Result of looking up a session in Redis.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// The session, with its key unwrapped.
    Session(Arc<Session>),
    /// A tombstone says that the session was revoked.
    Revoked,
    /// The session is absent or cannot be read; a caller with another source asks that one.
    Absent,
}

/// A row is damaged, or its key cannot be unwrapped. It was logged.
struct Unreadable;

fn unavailable(err: impl std::fmt::Display) -> StoreError {
    StoreError::Unavailable(format!("Redis: {err}"))
}

fn refused(err: Trouble) -> StoreError {
    match err {
        Trouble::Full => StoreError::Full,
        err => unavailable(err),
    }
}

impl Redis {
    /// Looks up a session in Redis.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn find(&self, id: &SessionId) -> Result<Lookup, StoreError> {
        let read = async { self.shared.read(id).await.map_err(refused) };
        match measured("get", read, |_| true).await? {
            None => Ok(Lookup::Absent),
            Some(value) if value == TOMBSTONE => Ok(Lookup::Revoked),
            Some(value) => match self.shared.decode(id, &value).await {
                Ok(Some(session)) if self.shared.is_ended(&session).await? => Ok(Lookup::Revoked),
                Ok(Some(session)) => Ok(Lookup::Session(session)),
                Ok(None) | Err(Unreadable) => Ok(Lookup::Absent),
            },
        }
    }

    /// Stores a session, unless it is there or was revoked.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn save(&self, session: &Arc<Session>) -> Result<(), StoreError> {
        let write = async {
            let live = self.shared.live()?;
            self.shared.call(&live, self.shared.write(&live.link, session)).await.map_err(refused)
        };
        measured("put", write, |_| true).await
    }

    /// Queues a session to be stored, if there is room in the queue; does not wait. The session is dropped if Redis is
    /// away.
    pub fn save_later(&self, session: Arc<Session>) {
        if self.shared.behind.try_send(session).is_err() {
            dropped();
        }
    }

    /// Revokes a session until its end, here and, by a message, in every process.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]; the session is then revoked in this process only.
    pub async fn revoke(&self, id: &SessionId, expires_ms: u64) -> Result<(), StoreError> {
        self.shared.cache.revoke(id);
        let keep_ms = expires_ms.saturating_sub(self.shared.clock.now_ms()).max(1000);
        let bury = async {
            let live = self.shared.live()?;
            self.shared.call(&live, self.shared.bury(&live.link, id, keep_ms)).await.map(drop).map_err(refused)
        };
        measured("delete", bury, |_| true).await
    }

    /// Writes many revocations, each with its session's end; with `publish` also notifies every process.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: some may not have been written.
    pub async fn tell_revoked(&self, revoked: &[(SessionId, u64)], publish: bool) -> Result<(), StoreError> {
        let live = self.shared.live()?;
        for chunk in revoked.chunks(BEHIND_AT_ONCE) {
            let writes = chunk.iter().map(|(id, expires_ms)| async {
                if publish {
                    return self.revoke(id, *expires_ms).await;
                }
                self.shared.write_tombstone(&live.link, id, *expires_ms).await.map_err(refused)
            });
            join_all(writes).await.into_iter().collect::<Result<(), _>>()?;
        }
        Ok(())
    }

    pub(super) async fn put_session(&self, session: Arc<Session>) -> Result<(), StoreError> {
        let ticket = self.shared.cache.ticket();
        self.save(&session).await?;
        self.shared.cache.keep(&session, ticket);
        Ok(())
    }

    pub(super) async fn get_session(&self, id: &SessionId) -> Result<Option<Arc<Session>>, StoreError> {
        if let Some(held) = self.shared.cache.get(id)
            && held.is_fresh
        {
            return Ok(Some(held.session));
        }
        let ticket = self.shared.cache.ticket();
        let Some(value) = self.shared.read(id).await.map_err(refused)? else { return Ok(None) };
        if value == TOMBSTONE {
            self.shared.cache.revoke(id);
            return Ok(None);
        }
        // There is no other source: an unreadable session is an error, not an absent one.
        let Ok(session) = self.shared.decode(id, &value).await else {
            return Err(unavailable("a session cannot be read"));
        };
        let Some(session) = session else { return Ok(None) };
        if self.shared.is_ended(&session).await? {
            return Ok(None);
        }
        Ok(self.shared.cache.keep(&session, ticket).then_some(session))
    }

    pub(super) async fn delete_session(&self, id: &SessionId) -> Result<bool, StoreError> {
        self.shared.cache.revoke(id);
        let live = self.shared.live()?;
        self.shared.call(&live, self.shared.bury(&live.link, id, 0)).await.map_err(refused)
    }
}

impl Inner {
    fn live(&self) -> Result<Arc<Live>, StoreError> {
        self.live.load_full().ok_or_else(|| unavailable("it is away"))
    }

    fn session_key(&self, id: &SessionId) -> String {
        format!("{}:s:{}", self.config.prefix, id.as_str())
    }

    async fn read(&self, id: &SessionId) -> Result<Option<Vec<u8>>, Trouble> {
        let live = self.live.load_full().ok_or_else(|| Trouble::Away("it is away".into()))?;
        let mut cmd = redis::cmd("GET");
        cmd.arg(self.session_key(id));
        self.call(&live, live.link.get(&cmd)).await
    }

    /// True if another session of its chain was revoked. The message of that revocation removes cached sessions.
    async fn is_ended(&self, session: &Session) -> Result<bool, StoreError> {
        let Some(root) = &session.record().lineage else { return Ok(false) };
        let is_ended = self.read(root).await.map_err(refused)?.is_some_and(|value| value == TOMBSTONE);
        if is_ended {
            self.cache.revoke(root);
        }
        Ok(is_ended)
    }

    /// Decodes the session in a row; `None` for a row of an earlier release if those are not accepted.
    async fn decode(&self, id: &SessionId, value: &[u8]) -> Result<Option<Arc<Session>>, Unreadable> {
        let (expires, row) = value.split_first_chunk::<8>().ok_or(Unreadable)?;
        let row = row::Row::parse(u64::from_be_bytes(*expires), *id, row).map_err(row::RowError::from);
        let opened = match row {
            Ok(row) => row::open(self.keys.as_ref(), row).await,
            Err(err) => Err(err),
        };
        match opened {
            Ok(record) => {
                Session::new(self.provider, record).map(|session| Some(Arc::new(session))).map_err(|_| Unreadable)
            }
            Err(row::RowError::Row(row::RowFault::Unauthenticated(_))) => Ok(None),
            Err(err) => {
                let is_unknown = matches!(err, row::RowError::Key(UnwrapError::UnknownKek(_)));
                tracing::error!(%err, is_unknown, "a session in Redis cannot be read");
                Err(Unreadable)
            }
        }
    }

    async fn write(&self, link: &Link, session: &Arc<Session>) -> Result<(), Trouble> {
        let record = session.record();
        let keep_ms = record.expires_ms.saturating_sub(self.clock.now_ms());
        if keep_ms == 0 {
            return Ok(());
        }
        let wrapped = row::seal(self.keys.as_ref(), record).await.map_err(|err| Trouble::Refused(err.to_string()))?;
        let mut value = record.expires_ms.to_be_bytes().to_vec();
        value.extend_from_slice(&row::encode(record, &wrapped));
        let mut cmd = redis::cmd("SET");
        // NX: a tombstone is never overwritten.
        cmd.arg(self.session_key(&record.id)).arg(value).arg("NX").arg("PX").arg(keep_ms);
        link.get::<Option<String>>(&cmd).await.map(drop)
    }

    /// Writes a tombstone with a lifetime in ms, or with 0 for the remaining lifetime of the session, and notifies
    /// every process; returns true if a session was there.
    async fn bury(&self, link: &Link, id: &SessionId, keep_ms: u64) -> Result<bool, Trouble> {
        let mut cmd = redis::cmd("EVAL");
        cmd.arg(script::REVOKE).arg(1).arg(self.session_key(id));
        cmd.arg(TOMBSTONE).arg(keep_ms).arg(self.channel()).arg(id.as_str());
        link.get(&cmd).await
    }

    /// Writes a tombstone without a message: all processes were notified when the session was revoked.
    pub(super) async fn write_tombstone(&self, link: &Link, id: &SessionId, expires_ms: u64) -> Result<(), Trouble> {
        let keep_ms = expires_ms.saturating_sub(self.clock.now_ms()).max(1000);
        let mut cmd = redis::cmd("SET");
        cmd.arg(self.session_key(id)).arg(TOMBSTONE).arg("PX").arg(keep_ms);
        self.within(link.get::<Option<String>>(&cmd)).await.map(drop)
    }

    /// Runs each kind of command that this user needs once, so that a missing right shows at the start.
    pub(super) async fn try_rights(&self, link: &Link) -> Result<(), Trouble> {
        let key = format!("{}:s:probe", self.config.prefix);
        let mut set = redis::cmd("SET");
        set.arg(&key).arg(TOMBSTONE).arg("NX").arg("PX").arg(1);
        match self.within(link.get::<Option<String>>(&set)).await {
            Ok(_) | Err(Trouble::Full) => {}
            Err(err) => return Err(err),
        }
        let mut get = redis::cmd("GET");
        self.within(link.get::<Option<Vec<u8>>>(get.arg(&key))).await?;
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(self.channel()).arg("");
        self.within(link.get::<u64>(&publish)).await.map(drop)
    }
}

fn dropped() {
    metrics::counter!("sealway_store_failures_total", "store" => "redis", "op" => "put").increment(1);
}

/// Writes the sessions queued by [`Redis::save_later`], many at once. Sessions that cannot be written are dropped:
/// their source is elsewhere.
pub(super) async fn write_behind(shared: Arc<Inner>, mut queue: mpsc::Receiver<Arc<Session>>) {
    let mut batch = Vec::with_capacity(BEHIND_AT_ONCE);
    while queue.recv_many(&mut batch, BEHIND_AT_ONCE).await > 0 {
        let live = shared.live.load_full();
        let writes = batch.drain(..).map(|session| {
            let (shared, live) = (&shared, &live);
            async move {
                let Some(live) = live else { return dropped() };
                if shared.call(live, shared.write(&live.link, &session)).await.is_err() {
                    dropped();
                }
            }
        });
        join_all(writes).await;
    }
}
