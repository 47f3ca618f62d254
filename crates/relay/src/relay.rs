//! The relay itself: the state of all connections, and the admission of endpoints. SPEC relay.md#attach

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use foldhash::fast::{FixedState, RandomState};
use parking_lot::Mutex;
use sealway_proto::relay::{Attach, Claims, CloseCause, Requirements, verify};
use sealway_runtime::clock::Clock;
use tokio::time::Instant;

use crate::budget::Budget;
use crate::channel::{AttachRequest, Attachment, ChannelKey, Channels, Tenant};
use crate::conn::Conn;
use crate::keyset::Keys;
use crate::measure::Measures;
use crate::nodes::Nodes;
use crate::replay::{Replays, TokenKey, TokenUse, fingerprint};
use crate::settings::Settings;

const SHARDS: u64 = 16;

/// Connections by number. The relay counts them itself, so that nobody can choose numbers that collide.
type ConnMap = HashMap<u64, Arc<Conn>, FixedState>;

/// The open connections, by number and by address.
pub(crate) struct Conns {
    shards: Vec<Mutex<ConnMap>>,
    addresses: Mutex<HashMap<IpAddr, usize, RandomState>>,
    last_id: AtomicU64,
    len: AtomicUsize,
}

impl Conns {
    fn new() -> Self {
        Conns {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            addresses: Mutex::default(),
            last_id: AtomicU64::new(0),
            len: AtomicUsize::new(0),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed)
    }

    fn shard(&self, id: u64) -> &Mutex<ConnMap> {
        &self.shards[usize::try_from(id % SHARDS).unwrap_or_default()]
    }

    /// Adds a connection. Returns false if it is one too many; it is listed all the same, since it must get a close frame.
    pub(crate) fn enter(&self, conn: &Arc<Conn>, max: usize, address_max: usize) -> bool {
        self.shard(conn.id).lock().insert(conn.id, conn.clone());
        let fits = self.len.fetch_add(1, Ordering::Relaxed) < max;
        let Some(address) = conn.address.filter(|_| address_max > 0) else { return fits };
        let mut addresses = self.addresses.lock();
        let count = addresses.entry(address).or_default();
        *count += 1;
        fits && *count <= address_max
    }

    pub(crate) fn leave(&self, conn: &Conn, address_max: usize) {
        self.shard(conn.id).lock().remove(&conn.id);
        self.len.fetch_sub(1, Ordering::Relaxed);
        let Some(address) = conn.address.filter(|_| address_max > 0) else { return };
        let mut addresses = self.addresses.lock();
        if let Some(count) = addresses.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                addresses.remove(&address);
            }
        }
    }

    /// Calls `look` for every connection; some shards at a time are locked.
    pub(crate) fn each(&self, mut look: impl FnMut(&Arc<Conn>)) {
        for shard in &self.shards {
            shard.lock().values().for_each(&mut look);
        }
    }
}

/// The state that all connections of a relay share.
pub(crate) struct Relay {
    pub(crate) settings: Settings,
    pub(crate) keys: Keys,
    pub(crate) channels: Channels,
    pub(crate) conns: Conns,
    pub(crate) replays: Replays,
    pub(crate) budget: Arc<Budget>,
    pub(crate) measures: Measures,
    pub(crate) clock: Arc<dyn Clock>,
    /// The other nodes, if there are any.
    pub(crate) nodes: Option<Nodes>,
    pub(crate) is_draining: AtomicBool,
    pub(crate) shows_metrics: AtomicBool,
    expected: Requirements,
    started: Instant,
}

impl Relay {
    pub(crate) fn new(settings: Settings, keys: Keys, nodes: Option<Nodes>, clock: Arc<dyn Clock>) -> Self {
        let limits = &settings.limits;
        let budget = Arc::new(Budget::new(limits.waiting_bytes_max));
        Relay {
            channels: Channels::new(limits.channels_max, limits.channels_per_tenant_max, budget.clone()),
            conns: Conns::new(),
            replays: Replays::new(limits.replays_max),
            measures: Measures::new(settings.metrics_compat, limits),
            expected: Requirements {
                aud: settings.aud.clone(),
                iss: settings.iss.clone(),
                lifetime_max_s: limits.token_lifetime_max_s,
            },
            is_draining: AtomicBool::new(false),
            shows_metrics: AtomicBool::new(!settings.metrics_compat),
            started: Instant::now(),
            nodes,
            settings,
            keys,
            budget,
            clock,
        }
    }

    /// Returns the time since the start in milliseconds, never 0. Monotonic: it does not jump with the time of day.
    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// Returns the time of day, in seconds.
    pub(crate) fn now_s(&self) -> i64 {
        now_s(&*self.clock)
    }

    /// Counts an endpoint that is rejected.
    pub(crate) fn refuse(&self, cause: CloseCause) -> CloseCause {
        self.measures.attach(Some(cause));
        cause
    }

    /// Checks everything that an attach message alone can show. The order of the checks is the spec's.
    pub(crate) fn judge(&self, message: &[u8]) -> Result<(AttachRequest, Claims), CloseCause> {
        let attach = Attach::parse(message).map_err(|_| CloseCause::InvalidAttach)?;
        let claims = verify(&attach.token, &self.keys.load(), &self.expected, self.now_s()).map_err(|err| {
            tracing::debug!(code = err.code(), "token rejected");
            CloseCause::InvalidToken
        })?;
        if claims.channel_id != attach.channel_id {
            return Err(CloseCause::ChannelMismatch);
        }
        if claims.role != i64::from(attach.role.number()) {
            return Err(CloseCause::RoleMismatch);
        }
        if claims.token_id.is_empty() {
            return Err(CloseCause::TokenReplay);
        }
        let request = AttachRequest {
            key: ChannelKey {
                tenant: Tenant(fingerprint(&[&claims.aud, &claims.iss])),
                id: claims.channel_id.as_str().into(),
            },
            role: attach.role,
            init_exp_s: claims.init_exp,
            idle_s: claims.idle_timeout_s,
            eid: attach.endpoint_instance_id.into(),
            profile: attach.profile,
        };
        Ok((request, claims))
    }

    /// Takes the token, once. For a relay without other nodes.
    pub(crate) fn burn(&self, claims: &Claims) -> Result<(), CloseCause> {
        match self.replays.burn(TokenKey::of(claims), claims.exp, self.now_s()) {
            TokenUse::Fresh => Ok(()),
            TokenUse::Replayed => Err(CloseCause::TokenReplay),
            TokenUse::Full => Err(CloseCause::ReplayFull),
        }
    }

    /// Attaches an endpoint whose token was taken, and counts it.
    pub(crate) fn place(&self, request: &AttachRequest, conn: &Arc<Conn>) -> Result<Attachment, CloseCause> {
        match self.channels.attach(request, conn, self.now_ms()) {
            Ok(attached) => {
                self.measures.attach(None);
                if attached.has_replaced {
                    self.measures.replace("ok");
                }
                if let Some((_, waited_ms)) = &attached.paired {
                    self.measures.paired(*waited_ms);
                }
                Ok(attached)
            }
            Err(cause) => {
                if matches!(cause, CloseCause::ReplaceRateLimited | CloseCause::ReplaceRefused) {
                    self.measures.replace(cause.token());
                }
                Err(self.refuse(cause))
            }
        }
    }
}

/// Returns the time of day of a clock, in seconds.
pub(crate) fn now_s(clock: &dyn Clock) -> i64 {
    i64::try_from(clock.now_ms() / 1000).unwrap_or(i64::MAX)
}
