//! Sessions and nonces of another authority, over HTTP: the store of an API side that keeps no state itself.
//! `spec/session.md#authority-endpoints`.
//!
//! The authority decides everything: it reserves each claim, and a claim whose answer is lost is rejected and never
//! repeated, since it may have been granted. A cached session is used for less than a second without asking, so that a
//! revocation takes effect within a second. While the authority is unavailable nothing can be reserved, so nothing is
//! served; cached sessions are not used beyond their time, since a revocation might be missed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use http::{Method, StatusCode};
use metrics::{counter, histogram};
use parking_lot::Mutex;
use sealway_proto::crypto::Provider;
use sealway_proto::session::{Claim, Fresh, Session};
use sealway_proto::wire::SessionId;
use sealway_runtime::clock::Clock;
use zeroize::Zeroizing;

use super::cache::{CacheLimits, SessionCache};
use super::{OpenError, Part, ReserveError, Status, Store, StoreError};
pub(crate) use line::connector;
use line::{Answer, Line, Question};
use message::{Members, PassedClaim, State, decode_session, encode_session};

pub mod config;
mod line;
pub(crate) mod message;
mod watch;

pub use config::{RawRemote, RemoteConfig};

/// Maximum delay until a revocation takes effect.
const REVOKED_WITHIN: Duration = Duration::from_secs(1);
/// Maximum time that a session is used without asking again, in milliseconds; the rest of the second is for the
/// answer's way.
const FRESH_MS_MAX: u64 = 900;

pub(crate) const SESSIONS: &str = "/v1/authority/sessions/";
pub(crate) const NONCES: &str = "/v1/authority/nonces";
pub(crate) const STATE: &str = "/v1/authority/state";

/// Store of an API side.
pub struct Remote {
    provider: &'static dyn Provider,
    line: Line,
    cache: SessionCache,
    fresh: Duration,
    clock: Arc<dyn Clock>,
    /// True if the last request was answered.
    reachable: AtomicBool,
    seen: Mutex<Option<StateReport>>,
}

/// Last state that the authority reported.
#[derive(Clone, Copy, Debug)]
struct StateReport {
    at: Instant,
    state: State,
    /// Difference between its clock and this process's, in milliseconds.
    skew_ms: u64,
}

impl Remote {
    /// Reads the secret and the certificates, asks the authority once for its state, and repeats that every half second
    /// until the store is dropped. An unreachable authority is no error: the store is down until it can be reached.
    ///
    /// # Errors
    /// [`OpenError`] if a file is at fault, or if the authority rejects the request: the secret is wrong, or it has no
    /// endpoints for it.
    pub async fn open(
        provider: &'static dyn Provider,
        config: RemoteConfig,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, OpenError> {
        let line = Line::new(&config).map_err(|err| OpenError(err.to_string()))?;
        let fresh = config.fresh.min(Duration::from_millis(FRESH_MS_MAX));
        let remote = Arc::new(Remote {
            provider,
            line,
            cache: SessionCache::new(CacheLimits { sessions_max: config.cached_sessions_max, fresh }),
            fresh,
            clock,
            reachable: AtomicBool::new(true),
            seen: Mutex::new(None),
        });
        remote.look().await.map_err(|what| OpenError(format!("{}: {what}", config.url)))?;
        watch::spawn(&remote);
        Ok(remote)
    }

    /// Sends a request, records its duration, and remembers if there was a usable answer: `read` decodes it, or says
    /// why it does not.
    async fn ask<T>(
        &self,
        op: &'static str,
        question: Question,
        read: impl FnOnce(&Answer) -> Option<Result<T, String>>,
    ) -> Result<T, String> {
        let since = Instant::now();
        let answer = self.line.ask(&question).await;
        histogram!("sealway_store_seconds", "store" => "remote", "op" => op).record(since.elapsed().as_secs_f64());
        let told = answer.and_then(|answer| {
            let told = read(&answer).unwrap_or_else(|| Err(unexpected(answer.status)));
            told.map_err(|what| format!("{} {}: {what}", question.method, question.route))
        });
        if let Err(what) = &told {
            counter!("sealway_store_failures_total", "store" => "remote", "op" => op).increment(1);
            self.lost(what);
        } else {
            self.heard();
        }
        told
    }

    fn heard(&self) {
        if !self.reachable.swap(true, Ordering::Relaxed) {
            tracing::info!("authority available again");
        }
    }

    fn lost(&self, what: &str) {
        if self.reachable.swap(false, Ordering::Relaxed) {
            tracing::error!("authority unusable: {what}");
        }
    }

    /// Fetches a session, and caches it unless the answer came so late that a revocation would be missed.
    async fn fetch(&self, id: &SessionId) -> Result<Option<Arc<Session>>, StoreError> {
        let (ticket, since) = (self.cache.ticket(), Instant::now());
        let question = of_session(Method::GET, id, Zeroizing::default());
        let read = |answer: &Answer| match answer.status {
            StatusCode::OK => Some(self.read_session(id, answer).map(Some)),
            // Any other 404 comes from a proxy, or from an authority without this endpoint.
            StatusCode::NOT_FOUND if says(answer, "SESSION_NOT_FOUND", "id", id.as_str()) => Some(Ok(None)),
            _ => None,
        };
        let found = self.ask("get", question, read).await.map_err(StoreError::Unavailable)?;
        let Some(session) = found else {
            // Not as revoked: it may be over, and as the first of a chain of renewals it would take the others along.
            self.cache.forget(id);
            return Ok(None);
        };
        let is_prompt = since.elapsed() + self.fresh <= REVOKED_WITHIN;
        let is_good = if is_prompt { self.cache.keep(&session, ticket) } else { !self.cache.is_ended(&session) };
        Ok(is_good.then_some(session))
    }

    fn read_session(&self, id: &SessionId, answer: &Answer) -> Result<Arc<Session>, String> {
        let record = decode_session(&answer.body).map_err(|err| format!("a session cannot be read: {err}"))?;
        if record.id != *id {
            return Err("the answer is to another question".into());
        }
        Session::new(self.provider, record).map(Arc::new).map_err(|err| err.to_string())
    }
}

fn of_session(method: Method, id: &SessionId, body: Zeroizing<String>) -> Question {
    // Only the first deletion reports that the session was there.
    let repeatable = method != Method::DELETE;
    Question { method, route: SESSIONS, name: id.as_str().into(), body, repeatable, urgent: false }
}

/// Describes an unexpected answer for the log, by its status only: the body may hold anything.
fn unexpected(status: StatusCode) -> String {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            format!("answered {}: it takes another secret or certificate", status.as_u16())
        }
        StatusCode::NOT_FOUND => "answered 404: is sessions.authority_secret_file set there, and the URL right?".into(),
        StatusCode::SERVICE_UNAVAILABLE => "answered 503: its store is unavailable".into(),
        status => format!("answered {}", status.as_u16()),
    }
}

/// True if an answer has this error, and names the requested item.
fn says(answer: &Answer, error: &str, name: &str, value: &str) -> bool {
    let read = || {
        let mut members = Members::parse(&answer.body).ok()?;
        Some(members.text("error").ok()? == error && members.text(name).ok()? == value)
    };
    read().unwrap_or(false)
}

/// Checks that an answer names the requested item: a misrouted answer must grant nothing.
fn names(answer: &Answer, name: &str, value: &str) -> Result<(), String> {
    let mut members = Members::parse(&answer.body).map_err(|err| err.to_string())?;
    let told = members.text(name).map_err(|err| err.to_string())?;
    if told == value { Ok(()) } else { Err("the answer is to another question".into()) }
}

#[async_trait]
impl Store for Remote {
    async fn put(&self, session: Arc<Session>) -> Result<(), StoreError> {
        let id = *session.id();
        let (ticket, since) = (self.cache.ticket(), Instant::now());
        let question = of_session(Method::PUT, &id, encode_session(session.record()));
        let read = |answer: &Answer| match answer.status {
            StatusCode::OK => Some(names(answer, "id", id.as_str()).map(Ok)),
            StatusCode::INSUFFICIENT_STORAGE => Some(Ok(Err(StoreError::Full))),
            _ => None,
        };
        self.ask("put", question, read).await.map_err(StoreError::Unavailable)??;
        if since.elapsed() + self.fresh <= REVOKED_WITHIN {
            self.cache.keep(&session, ticket);
        }
        Ok(())
    }

    async fn get(&self, id: &SessionId) -> Result<Option<Arc<Session>>, StoreError> {
        if self.cache.is_revoked(id) {
            return Ok(None);
        }
        match self.cache.get(id) {
            Some(held) if held.is_fresh => Ok(Some(held.session)),
            _ => self.fetch(id).await,
        }
    }

    async fn delete(&self, id: &SessionId) -> Result<bool, StoreError> {
        self.cache.revoke(id);
        let read = |answer: &Answer| match answer.status {
            StatusCode::OK => Some(names(answer, "id", id.as_str()).and_then(|()| {
                let mut members = Members::parse(&answer.body).map_err(|err| err.to_string())?;
                members.flag("deleted").map_err(|err| err.to_string())
            })),
            _ => None,
        };
        let question = of_session(Method::DELETE, id, Zeroizing::default());
        self.ask("delete", question, read).await.map_err(StoreError::Unavailable)
    }

    /// Only updates the cache: the authority ends the chain when one of its sessions is deleted there.
    async fn end_chain(&self, root: &SessionId, _until_ms: u64) -> Result<(), StoreError> {
        self.cache.revoke(root);
        Ok(())
    }

    async fn reserve(&self, claim: &Claim) -> Result<Fresh, ReserveError> {
        let passed = PassedClaim { key: claim.key(), sealed: claim.is_sealed(), stamp_ms: claim.stamp_ms() };
        let key = message::hex(passed.key);
        let read = |answer: &Answer| match answer.status {
            StatusCode::CREATED => Some(names(answer, "key", &key).map(|()| Ok(Fresh::reserved(claim)))),
            StatusCode::CONFLICT => Some(names(answer, "key", &key).map(|()| Err(ReserveError::Replayed))),
            StatusCode::INSUFFICIENT_STORAGE => Some(Ok(Err(ReserveError::Full))),
            _ => None,
        };
        let question = Question {
            method: Method::POST,
            route: NONCES,
            name: String::new(),
            body: Zeroizing::new(passed.encode()),
            // A retry would meet its own first attempt.
            repeatable: false,
            urgent: false,
        };
        self.ask("reserve", question, read).await.map_err(ReserveError::Unavailable)?
    }

    /// Sweeps only the cache: the authority sweeps its own store.
    async fn sweep(&self, now_ms: u64) -> Result<usize, StoreError> {
        self.cache.sweep(now_ms);
        Ok(0)
    }

    fn status(&self) -> Status {
        let seen = *self.seen.lock();
        let pool = self.line.pool();
        let Some(StateReport { at, state, skew_ms }) = seen else {
            return Status { kind: "remote", pool, sessions: self.cache.len(), ..Status::default() };
        };
        let is_known = self.reachable.load(Ordering::Relaxed) && at.elapsed() < watch::STALE;
        // Parts behind an unavailable authority count as unavailable too.
        let part = |part| if is_known || part == Part::Unused { part } else { Part::Down };
        Status {
            kind: "remote",
            // With a skew beyond the window every stamp is rejected, there or here.
            up: is_known && state.up && skew_ms <= state.window_ms,
            postgres: part(state.postgres),
            redis: part(state.redis),
            sessions: state.sessions,
            nonces: state.nonces,
            nonces_max: 0,
            pool,
        }
    }
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("status", &self.status()).field("cache", &self.cache).finish_non_exhaustive()
    }
}
