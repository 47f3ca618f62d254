//! A gateway: the product's authority over the product's store, and its exchange in front of a service.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderValue;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use sealway_exchange::body::{Body, Incoming, full};
use sealway_exchange::timing::ServerTiming;
use sealway_exchange::{Rules, serve};
use sealway_proto::exchange::{BodyBounds, BodyFault};
use sealway_proto::session::native::Suite;
use sealway_proto::session::{Session, TtlPolicy};
use sealway_proto::wire::{ReplayPolicy, SessionId};
use sealway_runtime::clock::Clock;
use sealway_runtime::dial::Dialer;
use sealway_runtime::redis::{Node, Settings};
use sealway_sessions::identity::Identity;
use sealway_sessions::kek::KeyRing;
use sealway_sessions::native::Wire3Policy;
use sealway_sessions::store::cache::CacheLimits;
use sealway_sessions::store::postgres::{Postgres, PostgresConfig};
use sealway_sessions::store::redis::{OnLoss, Redis, RedisConfig};
use sealway_sessions::store::tiered::TieredStore;
use sealway_sessions::store::{Durable, Memory, MemoryLimits, SessionCache, Store};
use sealway_sessions::{Authority, Policy, endpoint};
use tokio::sync::Notify;
use tokio::time::{Sleep, sleep};

use crate::net::{Network, Outlet};
use crate::planted::{FaultyStore, LooksOnce, RecordsNothing};
use crate::postgres::{self, Standby};
use crate::provider::SeedProvider;
use crate::redis;
use crate::world::{Defect, FRESH, SimulatedClock, World, answer_to};

/// Window of stamps, small so that a run is many windows long.
pub(crate) const WINDOW_MS: u64 = 4000;
/// Number of nonces of each kind in a gateway's memory.
const NONCES_MAX: usize = 64;

/// A request on the wire: its head, and the parts of its body with the pauses before them.
#[derive(Clone, Debug)]
pub(crate) struct WireRequest {
    pub(crate) method: &'static str,
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Pauses before the parts of the body.
    pub(crate) pauses: Vec<Duration>,
}

/// An answer on the wire.
#[derive(Clone, Debug)]
pub(crate) struct WireAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// The kind of store behind the gateways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backing {
    /// One server, which several gateways share.
    Single,
    /// One server and one gateway, which decides alone while Redis is away.
    Local,
    /// A master and replicas that Sentinels watch.
    Sentinel,
    /// PostgreSQL without Redis in front of it.
    Postgres(Standby),
    /// PostgreSQL with Redis in front of it: one server, or a master and replicas that Sentinels watch.
    Tiered { standby: Standby, has_sentinels: bool },
    /// Another's service with a memory of its own.
    Impostor,
}

impl Backing {
    /// True if Sentinels watch its Redis.
    pub(crate) fn has_sentinels(self) -> bool {
        matches!(self, Backing::Sentinel | Backing::Tiered { has_sentinels: true, .. })
    }

    /// Returns the kind of PostgreSQL's standby, if it has PostgreSQL.
    pub(crate) fn standby(self) -> Option<Standby> {
        match self {
            Backing::Postgres(standby) | Backing::Tiered { standby, .. } => Some(standby),
            _ => None,
        }
    }
}

/// One gateway, which may crash and start again.
pub(crate) struct Gateway {
    index: usize,
    world: Arc<World>,
    network: Arc<Network>,
    backing: Backing,
    pub(crate) clock: Arc<SimulatedClock>,
    keys: Arc<KeyRing>,
    identity: Arc<Identity>,
    authority: Mutex<Option<Arc<Authority>>>,
    crashed: Notify,
}

impl Gateway {
    pub(crate) fn new(
        index: usize,
        world: &Arc<World>,
        network: &Arc<Network>,
        backing: Backing,
        keys: &Arc<KeyRing>,
        identity: &Arc<Identity>,
    ) -> Arc<Self> {
        let skew_ms = world.rng.lock().range(0, 300) as i64 - 150;
        Arc::new(Gateway {
            index,
            world: world.clone(),
            network: network.clone(),
            backing,
            clock: world.clock(skew_ms),
            keys: keys.clone(),
            identity: identity.clone(),
            authority: Mutex::new(None),
            crashed: Notify::new(),
        })
    }

    /// Starts the gateway, with an empty memory.
    pub(crate) async fn start(self: &Arc<Self>) {
        let cache = Arc::new(SessionCache::new(CacheLimits { sessions_max: 1000, fresh: FRESH }));
        let dialer = Some(Dialer(Arc::new(Outlet { network: self.network.clone(), gateway: self.index })));
        let limits =
            MemoryLimits { sessions_max: 1000, nonces_max: NONCES_MAX, nonces_cleanup_from: NONCES_MAX * 4 / 5 };
        if self.backing == Backing::Impostor {
            return self.begin(Arc::new(Memory::new(MemoryLimits::DEFAULT)));
        }
        let postgres = match self.backing.standby() {
            Some(standby) => Some(self.open_postgres(standby, dialer.clone(), &cache).await),
            None => None,
        };
        if let (Backing::Postgres(_), Some(store)) = (self.backing, &postgres) {
            return self.begin(store.clone());
        }
        let (nodes, sentinel) = if self.backing.has_sentinels() {
            let nodes = (0..3).map(|number| Node::Tcp(redis::sentinel(number), 26379)).collect();
            (nodes, Some(redis::MASTER.to_owned()))
        } else {
            (vec![Node::Tcp(redis::host(0), 6379)], None)
        };
        let on_loss = if self.backing == Backing::Local { OnLoss::Local } else { OnLoss::FailClosed };
        let server = Settings { nodes, sentinel, dialer, ..Settings::default() };
        let config = RedisConfig { server, on_loss, window_ms: WINDOW_MS, ..RedisConfig::default() };
        let durable = postgres.clone().map(|postgres| self.durable(postgres));
        let (keys, clock) = (self.keys.clone(), self.clock.clone());
        let opened = Redis::open(&SeedProvider, config, keys, cache.clone(), limits, clock.clone(), durable).await;
        match (opened, postgres) {
            (Ok(redis), Some(postgres)) => {
                self.begin(Arc::new(TieredStore::new(postgres, redis, cache, clock, on_loss)));
            }
            (Ok(store), None) => self.begin(store),
            (Err(err), _) => panic!("the store does not open: {err}"),
        }
    }

    async fn open_postgres(
        &self,
        standby: Standby,
        dialer: Option<Dialer>,
        cache: &Arc<SessionCache>,
    ) -> Arc<Postgres> {
        let url = format!("postgres://sealway@{}/sealway?sslmode=disable", postgres::HOST);
        let mut config = PostgresConfig::new(&url).unwrap_or_else(|err| panic!("{url}: {err}"));
        (config.dialer, config.window_ms) = (dialer, WINDOW_MS);
        config.synchronous = standby == Standby::Synchronous;
        let (keys, clock) = (self.keys.clone(), self.clock.clone());
        let opened = Postgres::open(&SeedProvider, config, keys, cache.clone(), clock).await;
        opened.unwrap_or_else(|err| panic!("the store does not open: {err}"))
    }

    fn durable(&self, postgres: Arc<Postgres>) -> Arc<dyn Durable> {
        match self.world.defect {
            Some(Defect::Unrecorded) => Arc::new(RecordsNothing(postgres)),
            _ => postgres,
        }
    }

    fn begin(&self, store: Arc<dyn Store>) {
        let store = match self.world.defect {
            Some(defect @ (Defect::ChainStays | Defect::EarlyAnswer)) => {
                Arc::new(FaultyStore { store, defect }) as Arc<dyn Store>
            }
            _ => store,
        };
        let authority = Arc::new(Authority::new(&SeedProvider, store, self.clock.clone(), self.policy()));
        *self.authority.lock() = Some(authority.clone());
        self.world.event(&format!("gateway {} is up", self.index));
        let weak = Arc::downgrade(&authority);
        tokio::spawn(async move {
            loop {
                sleep(Duration::from_secs(2)).await;
                let Some(authority) = weak.upgrade() else { return };
                authority.maintain().await;
            }
        });
    }

    fn policy(&self) -> Policy {
        let replay = ReplayPolicy::new(WINDOW_MS, 2 * WINDOW_MS);
        let ttl = TtlPolicy { min_sec: 2, max_sec: 30, default_sec: 10, ..TtlPolicy::default() };
        Policy {
            replay,
            ttl,
            identity: Some(self.identity.clone()),
            wire3: Wire3Policy { suites: vec![Suite::P256], renew_max_sec: 40, inits_per_minute: 0 },
            body_deadline: Duration::from_secs(12),
            ..Policy::default()
        }
    }

    /// Ends the process without any order.
    pub(crate) fn crash(&self) {
        self.world.event(&format!("gateway {} crashes", self.index));
        drop(self.authority.lock().take());
        self.crashed.notify_waiters();
    }

    /// Answers a request; `None` if the gateway is down or crashes meanwhile.
    pub(crate) async fn answer(&self, request: WireRequest) -> Option<WireAnswer> {
        let authority = self.authority.lock().clone()?;
        tokio::select! {
            biased;
            () = self.crashed.notified() => None,
            answer = self.process(&authority, request) => answer,
        }
    }

    async fn process(&self, authority: &Arc<Authority>, request: WireRequest) -> Option<WireAnswer> {
        let mut timing = ServerTiming::start();
        let path = request.target.clone();
        let mut head = Request::builder().method(request.method).uri(&request.target).body(()).ok()?;
        *head.headers_mut() = request.headers;
        let body = SlowBody { rest: request.body, pauses: request.pauses, pause: None };
        let (status, headers, body) = if path.starts_with("/v3/") {
            let response = endpoint::handle(authority, head.map(|()| body), &mut timing).await;
            let (parts, body) = response.into_parts();
            (parts.status, parts.headers, body.collect().await.ok()?.to_bytes())
        } else {
            let response = self.exchange(authority, head, body, &mut timing).await?;
            let (parts, body) = response.into_parts();
            (parts.status, parts.headers, body.collect().await.ok()?.to_bytes())
        };
        Some(WireAnswer { status, headers, body })
    }

    async fn exchange(
        &self,
        authority: &Arc<Authority>,
        head: Request<()>,
        body: SlowBody,
        timing: &mut ServerTiming,
    ) -> Option<Response<Body>> {
        let (parts, ()) = head.into_parts();
        let allows = |session: &Session| authority.allows(session, parts.uri.path());
        let parts = parts.clone();
        let content_type = HeaderValue::from_static("application/json");
        let rules = Rules {
            allows: &allows,
            content_type: &content_type,
            unsealed_headers: &[],
            trusts_origin: false,
            body: BodyBounds { whole: 64 * 1024, stream: 64 * 1024 },
            first_time: Duration::from_secs(12),
            answer_time: Duration::from_secs(5),
            kept: None,
            ends_with_session: true,
            serves_sessions: true,
            one_shot: None,
        };
        let service = |request: Request<Body>| self.serve(request);
        // A service or an answer that fails ends the connection.
        let served = if self.world.defect == Some(Defect::HeldBody) {
            let now_ms = self.clock.now_ms();
            let once = LooksOnce { authority: authority.clone(), now_ms, found: Mutex::new(None) };
            serve(&Arc::new(once), rules, parts, body, timing, service).await
        } else {
            serve(authority, rules, parts, body, timing, service).await
        };
        served.ok()
    }

    /// The service behind the gateway: it works for a while.
    async fn serve(&self, request: Request<Body>) -> Result<Response<Body>, ()> {
        let session = request.extensions().get::<Arc<Session>>().cloned().ok_or(())?;
        let method = request.method().clone();
        let body = request.into_body().collect().await.map_err(|_| ())?.to_bytes();
        let text = String::from_utf8_lossy(&body).into_owned();
        self.world.served(self.index, self.clock.now_ms(), session.id(), method.as_str(), &text);
        let ms = self.world.rng.lock().range(0, 40);
        sleep(Duration::from_millis(ms)).await;
        Ok(Response::new(full(answer_to(&text))))
    }

    /// Revokes a session as an operator does; returns true if that was acknowledged. The answer that there is no such session is no
    /// acknowledgement: one that is over does not tell the chain in which it was renewed.
    pub(crate) async fn revoke(&self, id: &SessionId) -> bool {
        let authority = self.authority.lock().clone();
        let Some(authority) = authority else { return false };
        tokio::select! {
            biased;
            () = self.crashed.notified() => false,
            revoked = authority.revoke(id) => matches!(revoked, Ok(true)),
        }
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Sets the clock forward or back.
    pub(crate) fn step_clock(&self, ms: i64) {
        self.world.event(&format!("the clock of gateway {} steps by {ms} ms", self.index));
        self.clock.skew_ms.fetch_add(ms, Ordering::Relaxed);
        self.world.stepped(self.index);
    }
}

/// A body that comes in parts, with a pause before each.
struct SlowBody {
    rest: Bytes,
    pauses: Vec<Duration>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl HttpBody for SlowBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let body = &mut *self;
        if body.rest.is_empty() {
            return Poll::Ready(None);
        }
        if body.pause.is_none()
            && let Some(pause) = body.pauses.pop()
        {
            body.pause = Some(Box::pin(sleep(pause)));
        }
        if let Some(pause) = &mut body.pause {
            if pause.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            body.pause = None;
        }
        let len = if body.pauses.is_empty() { body.rest.len() } else { body.rest.len().div_ceil(2) };
        Poll::Ready(Some(Ok(Frame::data(body.rest.split_to(len)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

impl Incoming for SlowBody {
    fn fault(_: &Self::Error) -> BodyFault {
        BodyFault::Broken
    }
}
