//! The session authority: entry points for the endpoints and the gateway, with store, clock and policy.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use http::HeaderMap;
use metrics::{Gauge, gauge};
use parking_lot::Mutex;
use sealway_exchange::Sessions;
use sealway_exchange::headers::HttpHeaders;
use sealway_exchange::timing::ServerTiming;
use sealway_proto::Error;
use sealway_proto::crypto::agreement::AgreementProvider;
use sealway_proto::session::{Claim, Family, Fresh, InitCall, InitRandoms, SealRandoms, Session, TtlPolicy};
use sealway_proto::wire::json::InitAnswer;
use sealway_proto::wire::{ReplayPolicy, SessionId, Wire};
use sealway_runtime::clock::Clock;
use sealway_runtime::http::share::network;
use sealway_runtime::inventory::{Party, Use, count_now};
use tracing::Instrument;

use crate::answer::{Refusal, report};
use crate::authentication::{Authentication, AuthenticationOutcome};
use crate::identity::Identity;
use crate::limit::PerMinute;
use crate::native::Wire3Policy;
use crate::peer::PeerSecret;
use crate::policies::{PolicyTable, Wires};
use crate::random;
use crate::share::{Holder, Shares};
use crate::store::{Part, Store, StoreError};
use crate::usage::{Usage, WireUse};

/// Stored keys that are rewrapped per batch, and batches per maintenance run.
const REWRAP_BATCH: usize = 500;
const REWRAP_BATCHES: usize = 40;

/// Maximum time in seconds that a renewal may take, its body included.
const RENEWAL_SEC: u32 = 120;

/// Access to session keys over HTTP.
pub enum KeyEndpoint {
    /// Closed on every listener, the admin listener included.
    Closed,
    /// Open to callers that present this bearer secret.
    Secret(zeroize::Zeroizing<String>),
    /// Open to callers that know two public values: `compat.open_key_endpoint`.
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

/// Limits and permissions of everything that the authority grants.
#[derive(Debug)]
pub struct Policy {
    /// Time windows and lifetimes of nonces.
    pub replay: ReplayPolicy,
    /// Lifetimes of sessions on wires 1 and 2.
    pub ttl: TtlPolicy,
    /// Exact paths that anonymous sessions may call.
    pub anonymous_paths: Vec<String>,
    /// Anonymous inits a minute and address; 0 means no limit.
    pub anonymous_inits_per_minute: u32,
    /// Wire 1 inits a minute and `Authorization`; 0 means no limit.
    pub authenticated_inits_per_minute: u32,
    /// Access to the key endpoint, on public listeners and the admin listener.
    pub key_endpoint: KeyEndpoint,
    /// Secret of the endpoints under `/v1/authority/`; `None` closes them.
    pub peer_secret: Option<PeerSecret>,
    /// Authentication of clients. If it accepts no tokens, wires 1 and 2 take any non-empty `Authorization`, as
    /// existing deployments do.
    pub authentication: Authentication,
    /// Permissions of clients, by their identity.
    pub policies: PolicyTable,
    /// Enabled wires; inits and sealed calls of other wires are rejected.
    pub wires: Wires,
    /// Identity of the service; without it wire 3 is off.
    pub identity: Option<Arc<Identity>>,
    /// Suites, lifetimes and limits of wire 3.
    pub wire3: Wire3Policy,
    /// Maximum time of a store operation.
    pub store_deadline: Duration,
    /// Maximum time for reading a request's body.
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
            authentication: Authentication::default(),
            policies: PolicyTable::default(),
            wires: Wires::ALL,
            identity: None,
            wire3: Wire3Policy::default(),
            store_deadline: Duration::from_secs(2),
            body_deadline: Duration::from_secs(30),
        }
    }
}

struct Counters {
    sessions: Gauge,
    nonces: [Gauge; 2],
    up: Gauge,
    pool: [Gauge; 3],
}

/// The session authority of one process.
pub struct Authority {
    pub(crate) policy: Policy,
    provider: &'static dyn AgreementProvider,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    anonymous: PerMinute<IpAddr>,
    authenticated: PerMinute<[u8; 32]>,
    pub(crate) native_inits: PerMinute<IpAddr>,
    pub(crate) shares: Shares,
    counters: Counters,
    usage: Usage,
    stopping: AtomicBool,
    /// Earliest end of a certificate, in Unix milliseconds; 0 without one.
    mle_certificates_end_ms: AtomicU64,
    /// Earliest time without a published key of a one-shot mode, in Unix milliseconds; 0 without such keys.
    one_shot_keys_end_ms: AtomicU64,
    listener_key_faults: Mutex<Vec<ListenerKeyFault>>,
}

/// A listener whose key is on a token and does not sign.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ListenerKeyFault {
    /// Name of the listener in the configuration.
    pub listener: String,
    /// A short name for the reason.
    pub reason: &'static str,
}

impl Authority {
    /// Builds an authority from its parts.
    pub fn new(
        provider: &'static dyn AgreementProvider,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        policy: Policy,
    ) -> Self {
        crate::answer::register();
        let counters = Counters {
            sessions: gauge!("sealway_sessions"),
            nonces: ["sealed", "init"].map(|scope| gauge!("sealway_nonces", "scope" => scope)),
            up: gauge!("sealway_store_up"),
            pool: ["total", "idle", "waiting"].map(|state| gauge!("sealway_store_pool", "state" => state)),
        };
        Authority {
            anonymous: PerMinute::new(policy.anonymous_inits_per_minute),
            authenticated: PerMinute::new(policy.authenticated_inits_per_minute),
            native_inits: PerMinute::new(policy.wire3.inits_per_minute),
            shares: Shares::new(store.status().nonces_max, &policy.replay),
            policy,
            provider,
            store,
            clock,
            counters,
            usage: Usage::new(),
            stopping: AtomicBool::new(false),
            mle_certificates_end_ms: AtomicU64::new(0),
            one_shot_keys_end_ms: AtomicU64::new(0),
            listener_key_faults: Mutex::default(),
        }
    }

    /// Makes `/ready` report from now on that this process stops, so that load balancers send clients elsewhere.
    /// Requests that still arrive are served.
    pub fn announce_stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Returns true once [`Authority::announce_stop`] was called.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Makes `/ready` report the earliest end of the certificates of keys of messages, in Unix milliseconds; `None` if there are none.
    pub fn set_mle_certificates_end(&self, end_ms: Option<u64>) {
        self.mle_certificates_end_ms.store(end_ms.unwrap_or_default(), Ordering::Relaxed);
    }

    /// Returns the end that [`Authority::set_mle_certificates_end`] set.
    pub(crate) fn mle_certificates_end_ms(&self) -> Option<u64> {
        Some(self.mle_certificates_end_ms.load(Ordering::Relaxed)).filter(|end_ms| *end_ms > 0)
    }

    /// Makes `/ready` report the earliest time at which a one-shot mode has no published key any more, in Unix milliseconds; `None`
    /// if no mode has keys.
    pub fn set_one_shot_keys_end(&self, end_ms: Option<u64>) {
        self.one_shot_keys_end_ms.store(end_ms.unwrap_or_default(), Ordering::Relaxed);
    }

    /// Returns the end that [`Authority::set_one_shot_keys_end`] set.
    pub(crate) fn one_shot_keys_end_ms(&self) -> Option<u64> {
        Some(self.one_shot_keys_end_ms.load(Ordering::Relaxed)).filter(|end_ms| *end_ms > 0)
    }

    /// Makes `/ready` report listeners whose keys do not sign; 503 unless there are none.
    pub fn set_listener_key_faults(&self, faults: Vec<ListenerKeyFault>) {
        *self.listener_key_faults.lock() = faults;
    }

    /// Returns the faults that [`Authority::set_listener_key_faults`] set.
    pub fn listener_key_faults(&self) -> Vec<ListenerKeyFault> {
        self.listener_key_faults.lock().clone()
    }

    /// Returns the store, for health and the admin listener.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns the service's identity for wire 3, if it has one.
    pub fn identity(&self) -> Option<&Arc<Identity>> {
        self.policy.identity.as_ref()
    }

    /// Returns the maximum time for reading a request's body.
    pub fn body_deadline(&self) -> Duration {
        self.policy.body_deadline
    }

    /// Agrees a session key with a client of wire 1 or 2.
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
        self.check_wire(match family {
            Family::Session => Wire::of(&HttpHeaders(headers)),
            Family::Anonymous => Wire::V1,
            Family::V1 => Wire::V2,
        })?;
        let parsed = InitCall::parse(self.provider, family, &HttpHeaders(headers), body, now_ms, &self.policy.replay)?;
        let AuthenticationOutcome { accepted, who } = self.authenticate(family, headers).await?;
        let fresh = self.reserve_for(Holder::Address(peer), parsed.claim()).await?;
        let call = parsed.release(fresh)?;
        timing.lap("replay-protection");
        let wire = call.wire();
        let policy = self.policy.policies.find(call.client_id(), who.subject.as_deref(), who.tenant.as_deref());
        if !policy.allows_wire(wire) {
            return Err(Error::Policy.into());
        }
        let ttl = policy.clamp_all(&self.policy.ttl);
        let draw = |laps: sealway_proto::session::Laps<'_>| InitRandoms::draw(self.provider, laps);
        let (answer, session) =
            call.accept(self.provider, &ttl, accepted, who.subject, draw, now_ms, &mut |step| timing.lap(step.name()))?;
        self.keep(session.recognised(who.auth, who.tenant)).await?;
        timing.lap("session-store");
        self.note_init(wire);
        let protocol = if wire == Wire::V1 { "wire-1" } else { "wire-2" };
        let party = Party::Named("sessions", "init");
        count_now(&Use { operation: "session-init", algorithm: "P256", size: 256, key: "", party, protocol }, 1);
        Ok(answer)
    }

    /// Returns the permissions of clients.
    pub fn policies(&self) -> &PolicyTable {
        &self.policy.policies
    }

    /// Returns the usage of a wire since the process started.
    pub fn wire_use(&self, wire: Wire) -> WireUse {
        self.usage.of(wire)
    }

    /// Returns the wires that `sessions.wires` enables; all by default.
    pub fn wires(&self) -> Wires {
        self.policy.wires
    }

    /// Counts a session granted on this wire.
    pub fn note_init(&self, wire: Wire) {
        self.usage.init(wire, self.now_ms());
    }

    /// Counts an init of wire 1 against the limit per minute of its `Authorization`.
    pub(crate) fn take_authenticated(&self, authorization: &str) -> Result<(), Refusal> {
        let token = self.provider.sha256(&[authorization.as_bytes()]);
        self.authenticated.take(&token).map_err(Refusal::RateLimited)
    }

    /// Checks that a session may be used on a route's path.
    ///
    /// # Errors
    /// [`Refusal::Forbidden`], [`Error::Policy`].
    pub fn allows(&self, session: &Session, path: &str) -> Result<(), Refusal> {
        if session.id().is_anonymous() && !self.policy.anonymous_paths.iter().any(|allowed| allowed == path) {
            return Err(Refusal::Forbidden);
        }
        let policy = self.policy.policies.of(session.record());
        let is_allowed = policy.allows_wire(session.record().wire) && policy.allows_path(path);
        if is_allowed { Ok(()) } else { Err(Error::Policy.into()) }
    }

    /// Puts a session into the store.
    pub(crate) async fn keep(&self, session: Session) -> Result<(), Refusal> {
        Ok(self.ask("put", self.store.put(Arc::new(session))).await?)
    }

    /// Ends a session and its whole chain of renewals at once; returns true if the session was there. If a session is
    /// gone but was the first of its chain, its renewals end all the same.
    ///
    /// # Errors
    /// [`Refusal`] if the store cannot make the revocation durable, or cannot read the session, whose record names its chain.
    /// In the latter case nothing has ended. The caller should retry.
    // SPEC session-3.md#renew-and-end
    pub async fn revoke(&self, id: &SessionId) -> Result<bool, Refusal> {
        // Deleting a session that cannot be read would lose the name of its chain, also for the retry.
        let found = self.find(id).await?;
        if found.as_ref().is_none_or(|session| session.record().wire == Wire::Native) {
            let root = found.as_ref().map_or(*id, |session| *session.record().root());
            // Longer than the lifetime of any session in the chain, including one whose renewal is in progress.
            let longest_sec = self.policies().longest_ttl_sec(self.policy.ttl.max_sec).saturating_add(RENEWAL_SEC);
            let until_ms = self.now_ms().saturating_add(u64::from(longest_sec) * 1000);
            self.ask("delete", self.store.end_chain(&root, until_ms)).await?;
        }
        // The end of a chain also removes its first session, so `delete` may find nothing.
        Ok(self.ask("delete", self.store.delete(id)).await? || found.is_some())
    }

    /// Awaits a store operation within the store deadline.
    pub(crate) async fn ask<T, E: From<StoreError>>(
        &self,
        op: &'static str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let work = work.instrument(tracing::debug_span!("store", op));
        let late = |_| Err(StoreError::Unavailable("it did not answer in time".into()).into());
        tokio::time::timeout(self.policy.store_deadline, work).await.unwrap_or_else(late)
    }

    /// Removes expired state, reads changed keys and updates gauges. To be called every few seconds.
    pub async fn maintain(&self) {
        if let Err(err) = self.store.sweep(self.now_ms()).await {
            tracing::error!(%err, "purging expired sessions failed");
        }
        self.rewrap().await;
        self.anonymous.sweep();
        self.authenticated.sweep();
        self.native_inits.sweep();
        self.shares.sweep(self.now_ms());
        if let Some(tokens) = &self.policy.authentication.tokens {
            tokens.reload_if_changed();
        }
        if let Some(identity) = &self.policy.identity {
            identity.reload_if_changed(self.now_ms());
        }
        self.refresh_gauges();
    }

    /// Rewraps stored keys after a change of the key file: some now, the rest in later runs.
    async fn rewrap(&self) {
        let mut all = 0;
        for _ in 0..REWRAP_BATCHES {
            match self.store.rewrap(REWRAP_BATCH).await {
                Ok(0) => break,
                Ok(some) => all += some,
                Err(err) => {
                    tracing::error!(%err, "rewrapping stored session keys failed");
                    break;
                }
            }
        }
        if all > 0 {
            tracing::info!(sessions = all, "stored session keys rewrapped");
        }
    }

    /// Updates the gauges of sessions, nonces and store parts.
    pub(crate) fn refresh_gauges(&self) {
        let status = self.store.status();
        self.counters.sessions.set(status.sessions as f64);
        self.counters.nonces[0].set(status.nonces.0 as f64);
        self.counters.nonces[1].set(status.nonces.1 as f64);
        if status.nonces_max > 0 {
            gauge!("sealway_nonces_max").set(status.nonces_max as f64);
        }
        self.usage.refresh();
        if let Some(identity) = &self.policy.identity {
            identity.set_gauges();
        }
        self.counters.up.set(f64::from(u8::from(status.up)));
        for (name, part) in [("postgres", status.postgres), ("redis", status.redis)] {
            // Parts that the store does not have get no gauge: 0 would be an alarm.
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

impl Sessions for Authority {
    fn provider(&self) -> &'static dyn AgreementProvider {
        self.provider
    }

    fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    fn replay(&self) -> &ReplayPolicy {
        &self.policy.replay
    }

    fn check_wire(&self, wire: Wire) -> Result<(), Refusal> {
        if self.policy.wires.has(wire) { Ok(()) } else { Err(Refusal::WireOff(wire)) }
    }

    async fn find(&self, id: &SessionId) -> Result<Option<Arc<Session>>, Refusal> {
        Ok(self.ask("get", self.store.get(id)).await?)
    }

    async fn reserve(&self, session: &Session, claim: &Claim) -> Result<Fresh, Refusal> {
        self.reserve_for(Holder::Session(*session.id()), claim).await
    }

    fn randoms(&self) -> Result<SealRandoms, Error> {
        random::with_pool(|pool| SealRandoms::from_pool(self.provider, pool))
    }

    fn report(&self, refusal: &Refusal, what: &'static str) {
        report(refusal, what);
    }

    fn admitted(&self, wire: Wire) {
        self.usage.call(wire, self.clock.now_ms());
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("policy", &self.policy).field("store", &self.store).finish_non_exhaustive()
    }
}
