//! The authority itself: what the endpoints and the gateway ask, with the store, the clock and the policy behind it.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::HeaderMap;
use metrics::{Counter, Gauge, counter, gauge};
use sealway_proto::Error;
use sealway_proto::crypto::Provider;
use sealway_proto::limits::ANON_BODY_MAX;
use sealway_proto::session::{
    Claim, Family, Fresh, InitCall, InitRandoms, Opened, Reply, SealBuffer, SealRandoms, SealedCall, SealedMessage,
    Session, TtlPolicy,
};
use sealway_proto::wire::json::InitAnswer;
use sealway_proto::wire::{Field, Headers, ReplayPolicy, SessionId, Wire};
use sealway_runtime::clock::Clock;
use sealway_runtime::timing::ServerTiming;
use tracing::Instrument;

use crate::answer::Refusal;
use crate::limit::{PerMinute, network};
use crate::peer::PeerSecret;
use crate::random;
use crate::store::{Part, Store, StoreError};
use crate::token::TokenVerifier;

/// Stored keys that are wrapped anew at a time, and how often in one maintenance.
const REWRAP_BATCH: usize = 500;
const REWRAP_BATCHES: usize = 40;

/// Who may read a session's key over HTTP.
pub enum KeyEndpoint {
    /// Nobody but the admin listener.
    Closed,
    /// Whoever presents this bearer secret.
    Secret(zeroize::Zeroizing<String>),
    /// Anyone who knows two public values: `compat.open_key_endpoint`.
    Open,
}

impl std::fmt::Debug for KeyEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            KeyEndpoint::Closed => "Closed",
            KeyEndpoint::Secret(_) => "Secret(redacted)",
            KeyEndpoint::Open => "Open",
        })
    }
}

/// What the authority grants, and for how long.
#[derive(Debug)]
pub struct Policy {
    /// Windows and nonce lifetimes.
    pub replay: ReplayPolicy,
    /// Session lifetimes.
    pub ttl: TtlPolicy,
    /// Exact paths that anonymous sessions may call.
    pub anonymous_paths: Vec<String>,
    /// Anonymous inits a minute and address; 0 is no limit.
    pub anonymous_inits_per_minute: u32,
    /// Wire 1 inits a minute and `Authorization`; 0 is no limit.
    pub authenticated_inits_per_minute: u32,
    /// The key endpoint on public listeners.
    pub key_endpoint: KeyEndpoint,
    /// Opens the endpoints under `/v1/authority/` to API sides that present it; without one they are closed.
    pub peer_secret: Option<PeerSecret>,
    /// Verifies `Authorization`; without one any non-empty value counts, as in the field.
    pub tokens: Option<TokenVerifier>,
    /// How long a store may take.
    pub store_deadline: Duration,
    /// How long a request's body may take.
    pub body_deadline: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            replay: ReplayPolicy::default(),
            ttl: TtlPolicy::default(),
            anonymous_paths: Vec::new(),
            anonymous_inits_per_minute: 10,
            authenticated_inits_per_minute: 30,
            key_endpoint: KeyEndpoint::Closed,
            peer_secret: None,
            tokens: None,
            store_deadline: Duration::from_secs(2),
            body_deadline: Duration::from_secs(30),
        }
    }
}

/// Headers of an HTTP library as the wires see them.
pub struct HttpHeaders<'a>(pub &'a HeaderMap);

impl Headers for HttpHeaders<'_> {
    fn field(&self, name: &'static str) -> Field<'_> {
        let mut values = self.0.get_all(name).iter();
        match (values.next(), values.next()) {
            (None, _) => Field::Absent,
            (Some(value), None) => value.to_str().map_or(Field::Malformed, Field::Value),
            _ => Field::Malformed,
        }
    }
}

struct Counters {
    inits: [Counter; 2],
    calls: [Counter; 2],
    sessions: Gauge,
    nonces: [Gauge; 2],
    up: Gauge,
    pool: [Gauge; 3],
}

/// The session authority.
pub struct Authority {
    pub(crate) policy: Policy,
    provider: &'static dyn Provider,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    anonymous: PerMinute<IpAddr>,
    authenticated: PerMinute<[u8; 32]>,
    counters: Counters,
    stopping: AtomicBool,
}

/// A sealed call whose session is known; its body comes next.
#[derive(Debug)]
pub struct PendingCall<'a> {
    call: SealedCall<'a>,
    session: Arc<Session>,
}

impl PendingCall<'_> {
    /// The longest body that may follow: the route's bound, or an anonymous session's.
    pub fn body_max(&self, route_max: usize) -> usize {
        if self.session.id().is_anonymous() { route_max.min(ANON_BODY_MAX) } else { route_max }
    }

    /// The client id that the session was agreed under; wire 1 has none.
    pub fn client_id(&self) -> Option<&str> {
        self.session.record().client_id.as_deref()
    }
}

impl Authority {
    /// Puts the parts together.
    pub fn new(provider: &'static dyn Provider, store: Arc<dyn Store>, clock: Arc<dyn Clock>, policy: Policy) -> Self {
        let of_wire = |name: &'static str| [Wire::One, Wire::Two].map(|wire| counter!(name, "wire" => wire.name()));
        let counters = Counters {
            inits: of_wire("sealway_inits_total"),
            calls: of_wire("sealway_sealed_calls_total"),
            sessions: gauge!("sealway_sessions"),
            nonces: ["sealed", "init"].map(|scope| gauge!("sealway_nonces", "scope" => scope)),
            up: gauge!("sealway_store_up"),
            pool: ["total", "idle", "waiting"].map(|state| gauge!("sealway_store_pool", "state" => state)),
        };
        Authority {
            anonymous: PerMinute::new(policy.anonymous_inits_per_minute),
            authenticated: PerMinute::new(policy.authenticated_inits_per_minute),
            policy,
            provider,
            store,
            clock,
            counters,
            stopping: AtomicBool::new(false),
        }
    }

    pub(crate) fn provider(&self) -> &'static dyn Provider {
        self.provider
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// From now on `/ready` says that this process is stopping, so that whoever balances sends its clients elsewhere;
    /// those who come all the same are served.
    pub fn announce_stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Whether it was announced.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// The store, for health and the admin listener.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// How long a request's body may take.
    pub fn body_deadline(&self) -> Duration {
        self.policy.body_deadline
    }

    /// Agrees a key.
    ///
    /// # Errors
    /// [`Refusal`].
    pub(crate) async fn init(
        &self,
        family: Family,
        headers: &HeaderMap,
        body: &[u8],
        peer: IpAddr,
        timing: &mut ServerTiming,
    ) -> Result<InitAnswer, Refusal> {
        if family == Family::Anonymous {
            self.anonymous.take(&network(peer)).map_err(Refusal::RateLimited)?;
        }
        let now_ms = self.now_ms();
        let parsed = InitCall::parse(self.provider, family, &HttpHeaders(headers), body, now_ms, &self.policy.replay)?;
        let (authenticated, subject) = self.authenticate(family, headers)?;
        let fresh = self.reserve(parsed.claim()).await?;
        let call = parsed.release(fresh)?;
        timing.lap("replay-protection");
        let wire = call.wire();
        let draw = |laps: sealway_proto::session::Laps<'_>| InitRandoms::draw(self.provider, laps);
        let (answer, session) =
            call.accept(self.provider, &self.policy.ttl, authenticated, subject, draw, now_ms, &mut |step| {
                timing.lap(step.name())
            })?;
        self.keep(session).await?;
        timing.lap("session-store");
        self.counters.inits[usize::from(wire == Wire::Two)].increment(1);
        Ok(answer)
    }

    /// Whether a token was presented and accepted, and whom it names.
    fn authenticate(&self, family: Family, headers: &HeaderMap) -> Result<(bool, Option<Box<str>>), Refusal> {
        let headers = HttpHeaders(headers);
        let authorization = match headers.field("authorization") {
            Field::Absent | Field::Value("") => return Ok((false, None)),
            Field::Malformed => return Err(Refusal::Token("repeated or not ASCII")),
            Field::Value(value) => value,
        };
        if family == Family::Session && Wire::of(&headers) == Wire::One {
            let token = self.provider.sha256(&[authorization.as_bytes()]);
            self.authenticated.take(&token).map_err(Refusal::RateLimited)?;
        }
        match &self.policy.tokens {
            Some(tokens) => Ok((true, tokens.verify(authorization)?)),
            None => Ok((true, None)),
        }
    }

    /// Begins a sealed call: headers, then the session. The body is read next, within [`PendingCall::body_max`].
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn begin<'a>(
        &self,
        headers: &'a HttpHeaders<'a>,
        path: &'a str,
        timing: &mut ServerTiming,
    ) -> Result<PendingCall<'a>, Refusal> {
        let call = SealedCall::parse(headers, path, self.now_ms(), &self.policy.replay)?;
        timing.lap("replay-protection");
        let session = self.find(call.session_id()?).await?.ok_or(Error::SessionUnknown)?;
        timing.lap("session-get");
        call.check(&session)?;
        if session.id().is_anonymous() && !self.policy.anonymous_paths.iter().any(|allowed| allowed == path) {
            return Err(Refusal::Forbidden);
        }
        Ok(PendingCall { call, session })
    }

    /// Opens a sealed call's body and reserves its nonce.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn open(
        &self,
        pending: PendingCall<'_>,
        body: Vec<u8>,
        timing: &mut ServerTiming,
    ) -> Result<Opened, Refusal> {
        timing.skip();
        let wire = pending.session.record().wire;
        let opened = pending.call.open(self.provider, pending.session, body, &mut |step| timing.lap(step.name()))?;
        let fresh = self.reserve(opened.claim()).await?;
        let opened = opened.release(fresh)?;
        timing.lap("replay-protection");
        self.counters.calls[usize::from(wire == Wire::Two)].increment(1);
        Ok(opened)
    }

    /// Seals an answer that is sent with `status`.
    ///
    /// # Errors
    /// [`Refusal`] when the crypto module fails.
    pub fn seal(
        &self,
        reply: &Reply,
        status: u16,
        answer: SealBuffer,
        timing: &mut ServerTiming,
    ) -> Result<SealedMessage, Refusal> {
        timing.skip();
        let randoms = random::with_pool(|pool| SealRandoms::from_pool(self.provider, pool))?;
        Ok(reply.seal(status, answer, self.now_ms(), &randoms, &mut |step| timing.lap(step.name()))?)
    }

    /// Puts a session into the store.
    pub(crate) async fn keep(&self, session: Session) -> Result<(), Refusal> {
        Ok(self.ask("put", self.store.put(Arc::new(session))).await?)
    }

    /// Finds a session, expired ones included.
    pub(crate) async fn find(&self, id: &SessionId) -> Result<Option<Arc<Session>>, Refusal> {
        Ok(self.ask("get", self.store.get(id)).await?)
    }

    /// Ends a session at once; whether it was there.
    ///
    /// # Errors
    /// [`Refusal`] when the store cannot make it last.
    pub async fn revoke(&self, id: &SessionId) -> Result<bool, Refusal> {
        let deleted = self.ask("delete", self.store.delete(id)).await?;
        if deleted {
            tracing::info!(session = %id, "session revoked");
        }
        Ok(deleted)
    }

    pub(crate) async fn reserve(&self, claim: &Claim) -> Result<Fresh, Refusal> {
        Ok(self.ask("reserve", self.store.reserve(claim)).await?)
    }

    /// Asks the store, which has so long to answer.
    async fn ask<T, E: From<StoreError>>(
        &self,
        op: &'static str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let work = work.instrument(tracing::debug_span!("store", op));
        let late = |_| Err(StoreError::Unavailable("it did not answer in time".into()).into());
        tokio::time::timeout(self.policy.store_deadline, work).await.unwrap_or_else(late)
    }

    /// Forgets what has expired, reads changed keys, and brings gauges up to date. To be called every few seconds.
    pub async fn maintain(&self) {
        if let Err(err) = self.store.sweep(self.now_ms()).await {
            tracing::error!(%err, "expired sessions could not be purged");
        }
        self.rewrap().await;
        self.anonymous.sweep();
        self.authenticated.sweep();
        if let Some(tokens) = &self.policy.tokens {
            tokens.reload_if_changed();
        }
        self.refresh_gauges();
    }

    /// Wraps stored keys anew after a change of the key file: some now, the rest the next time.
    async fn rewrap(&self) {
        let mut all = 0;
        for _ in 0..REWRAP_BATCHES {
            match self.store.rewrap(REWRAP_BATCH).await {
                Ok(0) => break,
                Ok(some) => all += some,
                Err(err) => {
                    tracing::error!(%err, "stored session keys could not be wrapped anew");
                    break;
                }
            }
        }
        if all > 0 {
            tracing::info!(sessions = all, "stored session keys were wrapped anew");
        }
    }

    /// Brings gauges up to date.
    pub(crate) fn refresh_gauges(&self) {
        let status = self.store.status();
        self.counters.sessions.set(status.sessions as f64);
        self.counters.nonces[0].set(status.nonces.0 as f64);
        self.counters.nonces[1].set(status.nonces.1 as f64);
        self.counters.up.set(f64::from(u8::from(status.up)));
        for (name, part) in [("postgres", status.postgres), ("redis", status.redis)] {
            // Not told at all of a part that the store has not: 0 is an alarm.
            if part != Part::Unused {
                gauge!("sealway_store_part_up", "part" => name).set(f64::from(u8::from(part == Part::Up)));
            }
        }
        for (gauge, count) in self.counters.pool.iter().zip([status.pool.total, status.pool.idle, status.pool.waiting])
        {
            gauge.set(count as f64);
        }
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("policy", &self.policy).field("store", &self.store).finish_non_exhaustive()
    }
}
