//! Channels: two places for endpoints, the data that waits until both have attached, replacement of an endpoint, and the end.
//! SPEC relay.md#pairing

use std::collections::HashMap;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use sealway_proto::relay::{CloseCause, Profile, Role};

use crate::budget::Budget;
use crate::conn::Conn;

const SHARDS: usize = 16;
/// Most replacements of an endpoint in a window of the length below; grants do not state it.
pub(crate) const REPLACEMENTS_MAX: u32 = 5;
const REPLACEMENT_WINDOW_MS: u64 = 10_000;

/// The tenant of a channel: a fingerprint of audience and issuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tenant(pub(crate) [u8; 8]);

/// A channel's name; equal names of two tenants are two channels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ChannelKey {
    pub(crate) tenant: Tenant,
    pub(crate) id: Box<str>,
}

/// An endpoint that may attach, as its token describes it.
#[derive(Clone, Debug)]
pub(crate) struct AttachRequest {
    pub(crate) key: ChannelKey,
    pub(crate) role: Role,
    pub(crate) init_exp_s: i64,
    /// The idle time of the token, in seconds.
    pub(crate) idle_s: Option<u32>,
    pub(crate) eid: Box<str>,
    pub(crate) profile: Profile,
}

/// Number of replacements of an endpoint in a window of time.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    since_ms: u64,
    count: u32,
}

impl Window {
    fn allows(&mut self, now_ms: u64) -> bool {
        if self.count == 0 || now_ms.saturating_sub(self.since_ms) >= REPLACEMENT_WINDOW_MS {
            *self = Window { since_ms: now_ms, count: 0 };
        }
        self.count += 1;
        self.count <= REPLACEMENTS_MAX
    }
}

struct End {
    conn: Arc<Conn>,
    eid: Box<str>,
    profile: Profile,
    /// Frames for the other end, which has not attached yet.
    pending: Vec<u8>,
    /// Sum of their payloads alone, in bytes.
    pending_len: usize,
}

#[derive(Default)]
struct State {
    ends: [Option<End>; 2],
    windows: [Window; 2],
    is_over: bool,
}

/// A channel, with places for two endpoints.
pub(crate) struct Channel {
    key: ChannelKey,
    init_exp_s: i64,
    /// Idle time in seconds; 0 for the relay's own bound.
    idle_s: AtomicU64,
    first_ms: u64,
    active_ms: AtomicU64,
    /// A bit for each end from which a record was forwarded.
    records: AtomicU8,
    state: Mutex<State>,
}

/// The result of an offer of frames to a channel.
pub(crate) enum OfferOutcome {
    /// The frames wait for the other end.
    Kept,
    /// The other end has attached: from now on its connection receives the frames.
    Paired(Arc<Conn>),
    /// The channel has already ended.
    Over,
    /// Too much data waits in this channel.
    Overflow,
    /// Too much data waits in the whole relay.
    Full,
}

/// The place of an endpoint that has attached.
pub(crate) struct Attachment {
    pub(crate) channel: Arc<Channel>,
    /// The endpoint's end, 0 or 1.
    pub(crate) side: usize,
    /// The other end, if it has attached, and the time that it has waited, in milliseconds.
    pub(crate) paired: Option<(Arc<Conn>, u64)>,
    pub(crate) has_replaced: bool,
}

pub(crate) fn side(role: Role) -> usize {
    match role {
        Role::Client => 0,
        Role::Server => 1,
    }
}

impl Channel {
    fn new(request: &AttachRequest, now_ms: u64, windows: [Window; 2]) -> Self {
        Channel {
            key: request.key.clone(),
            init_exp_s: request.init_exp_s,
            idle_s: AtomicU64::new(request.idle_s.map_or(0, u64::from)),
            first_ms: now_ms,
            active_ms: AtomicU64::new(now_ms),
            records: AtomicU8::new(0),
            state: Mutex::new(State { windows, ..State::default() }),
        }
    }

    /// Records the time of a message.
    pub(crate) fn touch(&self, now_ms: u64) {
        self.active_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Records that a record was forwarded from an end. Returns true for the first from the second end: from then on the
    /// channel may outlive `init_exp`.
    pub(crate) fn note_record(&self, side: usize) -> bool {
        let bit = 1 << side;
        if self.records.load(Ordering::Relaxed) & bit != 0 {
            return false;
        }
        self.records.fetch_or(bit, Ordering::Relaxed) | bit == 3
    }

    /// Returns the cause if the channel's time is over.
    pub(crate) fn outlived(&self, now_ms: u64, now_s: i64, idle_ms: u64) -> Option<CloseCause> {
        if self.records.load(Ordering::Relaxed) != 3 && now_s > self.init_exp_s {
            return Some(CloseCause::InitExpired);
        }
        let idle_ms = match self.idle_s.load(Ordering::Relaxed) {
            0 => idle_ms,
            own => own.saturating_mul(1000),
        };
        let idled = now_ms.saturating_sub(self.active_ms.load(Ordering::Relaxed));
        (idled > idle_ms).then_some(CloseCause::IdleTimeout)
    }

    /// Offers frames from an end that does not know the other one yet. `payload` is the sum of their payloads.
    pub(crate) fn offer(
        &self,
        side: usize,
        frames: &[IoSlice<'_>],
        payload: usize,
        max: usize,
        budget: &Budget,
    ) -> OfferOutcome {
        let state = &mut *self.state.lock();
        if state.is_over {
            return OfferOutcome::Over;
        }
        if let Some(other) = &state.ends[1 - side] {
            return OfferOutcome::Paired(other.conn.clone());
        }
        let Some(end) = &mut state.ends[side] else { return OfferOutcome::Over };
        if end.pending_len + payload > max {
            return OfferOutcome::Overflow;
        }
        let len = frames.iter().map(|frame| frame.len()).sum();
        // Empty messages only cost their heads, which the bound on payloads does not count.
        if end.pending.len() + len > max.saturating_mul(2) {
            return OfferOutcome::Overflow;
        }
        if !budget.take(len) {
            return OfferOutcome::Full;
        }
        end.pending_len += payload;
        frames.iter().for_each(|frame| end.pending.extend_from_slice(frame));
        OfferOutcome::Kept
    }

    /// Ends it. `of` returns the cause for each end. Returns false if it had ended.
    fn end(&self, budget: &Budget, of: impl Fn(usize) -> CloseCause) -> bool {
        let ends = {
            let state = &mut *self.state.lock();
            if std::mem::replace(&mut state.is_over, true) {
                return false;
            }
            std::mem::take(&mut state.ends)
        };
        for (side, end) in ends.into_iter().enumerate() {
            let Some(end) = end else { continue };
            budget.give_back(end.pending.len());
            end.conn.close(of(side));
        }
        true
    }
}

type Shard = Mutex<HashMap<ChannelKey, Arc<Channel>, RandomState>>;

/// All channels of the relay.
pub(crate) struct Channels {
    shards: Vec<Shard>,
    hasher: RandomState,
    len: AtomicUsize,
    max: usize,
    tenant_max: usize,
    tenants: Mutex<HashMap<Tenant, usize, RandomState>>,
    budget: Arc<Budget>,
}

impl Channels {
    /// Creates an empty set; `tenant_max` of 0 is no bound.
    pub(crate) fn new(max: usize, tenant_max: usize, budget: Arc<Budget>) -> Self {
        Channels {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::default(),
            len: AtomicUsize::new(0),
            max,
            tenant_max,
            tenants: Mutex::default(),
            budget,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    fn shard(&self, key: &ChannelKey) -> &Shard {
        use std::hash::BuildHasher;
        let hash = self.hasher.hash_one(key);
        &self.shards[usize::try_from(hash % SHARDS as u64).unwrap_or_default()]
    }

    /// Attaches an endpoint to its channel.
    pub(crate) fn attach(
        &self,
        request: &AttachRequest,
        conn: &Arc<Conn>,
        now_ms: u64,
    ) -> Result<Attachment, CloseCause> {
        let side = side(request.role);
        let mut shard = self.shard(&request.key).lock();
        let Some(channel) = shard.get(&request.key).cloned() else {
            let channel = self.add(request, now_ms)?;
            channel.put(side, request, conn);
            shard.insert(request.key.clone(), channel.clone());
            return Ok(Attachment { channel, side, paired: None, has_replaced: false });
        };
        let mut guard = channel.state.lock();
        let state = &mut *guard;
        if state.is_over {
            // The task that ended it is about to remove it: its replacement is another channel.
            let fresh = Arc::new(Channel::new(request, now_ms, [Window::default(); 2]));
            fresh.put(side, request, conn);
            shard.insert(request.key.clone(), fresh.clone());
            self.count(request.key.tenant);
            return Ok(Attachment { channel: fresh, side, paired: None, has_replaced: false });
        }
        if let Some(holder) = &state.ends[side] {
            let is_native = holder.profile == Profile::Native || request.profile == Profile::Native;
            if is_native && holder.eid != request.eid {
                return Err(CloseCause::ReplaceRefused);
            }
            if !state.windows[side].allows(now_ms) {
                return Err(CloseCause::ReplaceRateLimited);
            }
            channel.fits(request)?;
            let fresh = Arc::new(Channel::new(request, now_ms, state.windows));
            fresh.put(side, request, conn);
            state.is_over = true;
            for (at, end) in std::mem::take(&mut state.ends).into_iter().enumerate() {
                let Some(end) = end else { continue };
                self.budget.give_back(end.pending.len());
                end.conn.close(if at == side { CloseCause::Replaced } else { CloseCause::PeerClosed });
            }
            shard.insert(request.key.clone(), fresh.clone());
            return Ok(Attachment { channel: fresh, side, paired: None, has_replaced: true });
        }
        channel.fits(request)?;
        let paired = channel.pair(state, side, request, conn, now_ms, &self.budget);
        drop(guard);
        drop(shard);
        match paired {
            Some(paired) => Ok(Attachment { channel, side, paired: Some(paired), has_replaced: false }),
            None => {
                self.end(&channel, |at| if at == side { CloseCause::AttachFailed } else { CloseCause::PeerClosed });
                Err(CloseCause::AttachFailed)
            }
        }
    }

    /// Adds a channel, within the bounds.
    fn add(&self, request: &AttachRequest, now_ms: u64) -> Result<Arc<Channel>, CloseCause> {
        if self.len.load(Ordering::Relaxed) >= self.max {
            return Err(CloseCause::AttachFailed);
        }
        if self.tenant_max > 0
            && self.tenants.lock().get(&request.key.tenant).is_some_and(|len| *len >= self.tenant_max)
        {
            return Err(CloseCause::AttachFailed);
        }
        self.count(request.key.tenant);
        Ok(Arc::new(Channel::new(request, now_ms, [Window::default(); 2])))
    }

    fn count(&self, tenant: Tenant) {
        self.len.fetch_add(1, Ordering::Relaxed);
        if self.tenant_max > 0 {
            *self.tenants.lock().entry(tenant).or_default() += 1;
        }
    }

    /// Removes a channel that has ended.
    fn remove(&self, channel: &Arc<Channel>) {
        {
            let mut shard = self.shard(&channel.key).lock();
            if shard.get(&channel.key).is_some_and(|there| Arc::ptr_eq(there, channel)) {
                shard.remove(&channel.key);
            }
        }
        self.len.fetch_sub(1, Ordering::Relaxed);
        if self.tenant_max > 0 {
            let mut tenants = self.tenants.lock();
            if let Some(len) = tenants.get_mut(&channel.key.tenant) {
                *len -= 1;
                if *len == 0 {
                    tenants.remove(&channel.key.tenant);
                }
            }
        }
    }

    /// Ends a channel; each end gets its cause. Returns false if it had ended before.
    pub(crate) fn end(&self, channel: &Arc<Channel>, of: impl Fn(usize) -> CloseCause) -> bool {
        let ended = channel.end(&self.budget, of);
        if ended {
            self.remove(channel);
        }
        ended
    }

    /// Returns the names of all channels.
    pub(crate) fn keys(&self) -> Vec<ChannelKey> {
        self.shards.iter().flat_map(|shard| shard.lock().keys().cloned().collect::<Vec<_>>()).collect()
    }

    /// Ends the channels whose time is over; returns the causes.
    pub(crate) fn sweep(&self, now_ms: u64, now_s: i64, idle_ms: u64) -> Vec<CloseCause> {
        let mut over = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            let all = shard.values();
            over.extend(all.filter_map(|channel| Some((channel.outlived(now_ms, now_s, idle_ms)?, channel.clone()))));
        }
        // By name: the maps have another order in each process.
        over.sort_by(|(_, one), (_, other)| one.key.id.cmp(&other.key.id));
        over.retain(|(cause, channel)| self.end(channel, |_| *cause));
        over.into_iter().map(|(cause, _)| cause).collect()
    }
}

impl Channel {
    fn put(&self, side: usize, request: &AttachRequest, conn: &Arc<Conn>) {
        self.state.lock().ends[side] = Some(End::new(request, conn));
    }

    /// Pairs an endpoint with the other, and queues the data that has waited. `None` if that failed.
    fn pair(
        &self,
        state: &mut State,
        side: usize,
        request: &AttachRequest,
        conn: &Arc<Conn>,
        now_ms: u64,
        budget: &Budget,
    ) -> Option<(Arc<Conn>, u64)> {
        let other = state.ends[1 - side].as_mut()?;
        if let Some(idle) = request.idle_s {
            self.idle_s.store(u64::from(idle), Ordering::Relaxed);
        }
        let (peer, pending) = (other.conn.clone(), std::mem::take(&mut other.pending));
        state.ends[side] = Some(End::new(request, conn));
        self.touch(now_ms);
        budget.give_back(pending.len());
        if !pending.is_empty() && conn.queue(&pending, now_ms).is_err() {
            return None;
        }
        Some((peer, now_ms.saturating_sub(self.first_ms)))
    }

    /// Checks that an endpoint's token agrees with the first one's on the channel.
    fn fits(&self, request: &AttachRequest) -> Result<(), CloseCause> {
        if self.init_exp_s != request.init_exp_s {
            return Err(CloseCause::InitExpMismatch);
        }
        match (self.idle_s.load(Ordering::Relaxed), request.idle_s) {
            (0, _) | (_, None) => Ok(()),
            (first, Some(second)) if first == u64::from(second) => Ok(()),
            _ => Err(CloseCause::IdleTimeoutMismatch),
        }
    }
}

impl End {
    fn new(request: &AttachRequest, conn: &Arc<Conn>) -> Self {
        End {
            conn: conn.clone(),
            eid: request.eid.clone(),
            profile: request.profile,
            pending: Vec::new(),
            pending_len: 0,
        }
    }
}
