//! The history of a run of relay nodes, and the invariants over it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sealway_proto::relay::{Claims, Role, SKEW_S};
use tokio::time::{Instant, sleep};

use crate::redis::Redis;
use crate::world::World;

/// Longest time from the change of a keyset file to its use: two ticks of a relay, and the work of one.
const KEYSET_BOUND: Duration = Duration::from_millis(1300);
/// Longest time from the end of one end of a channel to that of the other, while nothing is disturbed: three connections, each with
/// its delay, in order.
const ENDED_BOUND: Duration = Duration::from_millis(2500);
/// Time for which a disturbance counts: that in which an end notices a dead connection.
const DISTURBED_FOR: Duration = Duration::from_secs(12);
/// Time after which nothing is left of a disturbance: a dead node's lease, and an announcement.
const SETTLED_AFTER: Duration = Duration::from_secs(22);
/// Time after a loss, or a step of a clock, in which a floor may reject tokens.
const FLOOR_FOR: Duration = Duration::from_secs(75);
/// Time in which the first floor rejects tokens: the difference of clocks.
const FIRST_FLOOR_FOR: Duration = Duration::from_secs(6);
/// Time in which two ends that wait for each other must meet.
const MEETING_BOUND: Duration = Duration::from_secs(4);
/// Time in which a node may start after a loss before any other has noticed the loss: the interval of announcements, and the time
/// of one.
const UNNOTICED_FOR: Duration = Duration::from_secs(8);

/// Time in which an endpoint learns that replicas did not confirm its attach in time.
const UNCONFIRMED_FOR: Duration = Duration::from_secs(1);

/// Figures of one run of a seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Ends of channels that completed their handshake.
    pub connected: u64,
    /// Channels whose ends attached to different nodes.
    pub bridged: u64,
    /// Messages that an end received.
    pub delivered: u64,
    /// Attach messages that an attacker sent again.
    pub replays: u64,
    /// Those of them that a node rejected as replayed.
    pub rejected: u64,
    /// Attaches that a node rejected because it could not know.
    pub unavailable: u64,
    /// Frames and records of TLS that an attacker dropped, duplicated, swapped or changed.
    pub tampered: u64,
}

#[derive(Debug, Default)]
struct Token {
    admitted: Vec<String>,
}

/// One end of a channel, from its handshake on.
#[derive(Debug)]
struct End {
    channel: String,
    role: Role,
    node: usize,
    /// The end whose messages it receives.
    peer: Option<u64>,
    /// Number of the last message.
    last: u64,
    is_over: bool,
}

#[derive(Debug, Default)]
struct State {
    counts: Counts,
    tokens: BTreeMap<String, Token>,
    ends: BTreeMap<u64, End>,
    /// The receiver of each end's messages.
    heard_by: BTreeMap<u64, u64>,
    /// Names of keys that were removed, each with the time.
    removed: BTreeMap<String, Instant>,
    /// Times in which a node reached no Redis.
    blind: Vec<(usize, Instant, Option<Instant>)>,
    stepped: BTreeMap<usize, Instant>,
    losses: Vec<Instant>,
    /// Tokens that were issued before this second may be used again: Redis lost its memory, and a node started before any other
    /// noticed.
    excused_s: i64,
    /// Time of the latest disturbance of networks and stores.
    disturbed: Option<Instant>,
    /// Time of the latest end or start of a node.
    restarted: Option<Instant>,
    /// Ends that wait for their peer, by channel and side, each with its begin.
    waiting: BTreeMap<(String, bool), Instant>,
    /// Channels that an attacker was admitted to.
    attacked: BTreeSet<String>,
}

/// The name of the attacker, who attaches too.
pub(super) const ATTACKER: &str = "the attacker";

/// The attempt of an endpoint to attach.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) claims: Claims,
    pub(super) node: usize,
    pub(super) begun: Instant,
    /// The node's clock then, in seconds.
    pub(super) node_s: i64,
    pub(super) by: String,
}

/// The history of a run.
pub(super) struct History {
    world: Arc<World>,
    redis: Arc<Redis>,
    state: Mutex<State>,
    begun: Instant,
    /// An attacker changes frames in this run: what an endpoint reads from a relay proves nothing of it.
    pub(super) is_tampered: bool,
}

impl History {
    pub(super) fn new(world: &Arc<World>, redis: &Arc<Redis>, is_tampered: bool) -> Arc<Self> {
        let (world, redis) = (world.clone(), redis.clone());
        Arc::new(History { world, redis, state: Mutex::default(), begun: Instant::now(), is_tampered })
    }

    pub(super) fn count(&self, add: impl FnOnce(&mut Counts)) {
        add(&mut self.state.lock().counts);
    }

    pub(super) fn counts(&self) -> Counts {
        self.state.lock().counts
    }

    /// Something was disturbed: an end may notice late that it is over.
    pub(super) fn disturb(&self) {
        self.state.lock().disturbed = Some(Instant::now());
    }

    /// A node ended, or started.
    pub(super) fn restart(&self) {
        self.state.lock().restarted = Some(Instant::now());
    }

    /// An end begins to wait for its peer.
    pub(super) fn waits(&self, channel: &str, role: Role) {
        self.state.lock().waiting.insert((channel.to_owned(), role == Role::Client), Instant::now());
    }

    /// An end waits no longer, because its peer did not come, or for another cause.
    pub(super) fn waited(&self, channel: &str, role: Role, is_in_vain: bool) {
        let fault = {
            let state = &mut *self.state.lock();
            let own = state.waiting.remove(&(channel.to_owned(), role == Role::Client));
            let peer = state.waiting.get(&(channel.to_owned(), role != Role::Client));
            let (Some(own), Some(peer)) = (own, peer) else { return };
            let is_settled = state.is_quiet(SETTLED_AFTER) && state.restarted.is_none_or(|at| at < own.min(*peer));
            let is_attacked = self.is_tampered || state.attacked.contains(channel);
            is_in_vain && is_settled && !is_attacked && peer.elapsed() >= MEETING_BOUND
        };
        if fault {
            self.world.violated(&format!("both ends of {} wait in vain", short(channel)));
        }
    }

    /// A node rejected an attach because it could not know.
    pub(super) fn unavailable(&self, by: &str, node: usize) {
        let fault = {
            let state = &mut *self.state.lock();
            state.counts.unavailable += 1;
            let has_floor = state.losses.iter().chain(state.stepped.values()).any(|at| at.elapsed() < FLOOR_FOR);
            let is_settled = state.restarted.is_none_or(|at| at.elapsed() >= SETTLED_AFTER);
            // The attacker's tokens may be as old as the first floor.
            let is_fresh = by != ATTACKER && self.begun.elapsed() >= FIRST_FLOOR_FOR;
            let is_confirmed = self.redis.unconfirmed().is_none_or(|at| at.elapsed() >= UNCONFIRMED_FOR);
            state.is_quiet(SETTLED_AFTER) && is_settled && !has_floor && is_fresh && is_confirmed
        };
        if fault {
            self.world.violated(&format!("node {node} is unavailable to {by}, and nothing was disturbed"));
        }
    }

    pub(super) fn remove_key(&self, kid: &str) {
        self.state.lock().removed.insert(kid.to_owned(), Instant::now());
    }

    pub(super) fn is_removed(&self, kid: &str) -> bool {
        self.state.lock().removed.contains_key(kid)
    }

    pub(super) fn lose(&self) {
        self.state.lock().losses.push(Instant::now());
    }

    /// The clock of a node was set.
    pub(super) fn step(&self, node: usize) {
        self.state.lock().stepped.insert(node, Instant::now());
    }

    /// A node starts; `issuer_s` is the issuer's clock.
    pub(super) fn start(&self, issuer_s: i64) {
        let state = &mut *self.state.lock();
        if state.losses.iter().any(|at| at.elapsed() < UNNOTICED_FOR) {
            state.excused_s = state.excused_s.max(issuer_s + 1);
        }
    }

    /// Notes that a node reaches no Redis from now on, or reaches it again.
    pub(super) fn set_blind(&self, node: usize, is_blind: bool) {
        let state = &mut *self.state.lock();
        if is_blind {
            state.blind.push((node, Instant::now(), None));
            return;
        }
        // Another fault may have taken Redis away too, and gives it back later.
        let first = state.blind.iter_mut().find(|(of, _, until)| *of == node && until.is_none());
        if let Some((_, _, until)) = first {
            *until = Some(Instant::now());
        }
    }

    /// Checks an attach that succeeded, or at least used its token up.
    pub(super) fn admitted(&self, attempt: &Attempt, how: &str) {
        let Attempt { claims, node, by, .. } = attempt;
        self.world.event(&format!("{by} is admitted at node {node}: {how}"));
        let faults = {
            let state = &mut *self.state.lock();
            if by == ATTACKER {
                state.attacked.insert(claims.channel_id.clone());
            }
            state.check(attempt, how)
        };
        faults.iter().for_each(|fault| self.world.violated(&format!("{fault} ({})", short(&claims.token_id))));
    }

    /// An end has completed its handshake.
    pub(super) fn connected(&self, end: u64, channel: &str, role: Role, node: usize) {
        let state = &mut *self.state.lock();
        state.counts.connected += 1;
        let end_of = End { channel: channel.to_owned(), role, node, peer: None, last: 0, is_over: false };
        state.ends.insert(end, end_of);
    }

    /// Checks a message that an end received: by its own words the `seq`th of an end of a channel.
    pub(super) fn received(&self, end: u64, channel: &str, from: u64, seq: u64, is_whole: bool) {
        let fault = {
            let state = &mut *self.state.lock();
            state.counts.delivered += 1;
            state.receive(end, channel, from, seq, is_whole)
        };
        if let Some(fault) = fault {
            self.world.violated(&fault);
        }
    }

    /// An end is over, with a code. Its peer must be over soon.
    pub(super) fn ended(self: &Arc<Self>, end: u64, code: &str) {
        self.world.event(&format!("end {end} is over: {code}"));
        let peer = {
            let state = &mut *self.state.lock();
            let Some(of) = state.ends.get_mut(&end) else { return };
            of.is_over = true;
            // A disturbance before may have cut the peer off without its notice.
            let peer = of.peer;
            peer.filter(|_| state.is_quiet(DISTURBED_FOR))
        };
        const DEFECTS: [&str; 11] = [
            "record_missing",
            "record_replayed",
            "record_unsealable",
            "record_invalid",
            "record_truncated",
            "record_flags",
            "record_content",
            "record_too_large",
            "websocket_malformed",
            "unexpected_text_frame",
            "streams_malformed",
        ];
        if !self.is_tampered && DEFECTS.contains(&code) {
            self.world.violated(&format!("end {end} received other frames than its peer sent: {code}"));
        }
        let Some(peer) = peer else { return };
        let history = self.clone();
        tokio::spawn(async move {
            sleep(ENDED_BOUND).await;
            let is_late = {
                let state = history.state.lock();
                let is_over = state.ends.get(&peer).is_none_or(|peer| peer.is_over);
                !is_over && state.is_quiet(DISTURBED_FOR)
            };
            if is_late && !history.is_tampered {
                history.world.violated(&format!("end {peer} goes on {ENDED_BOUND:?} after its peer {end}"));
            }
        });
    }

    pub(super) fn violated(&self, text: &str) {
        self.world.violated(text);
    }

    /// True if a loss of memory was at most this long ago.
    pub(super) fn has_lost(&self, within: Duration) -> bool {
        let state = self.state.lock();
        state.losses.iter().chain(state.stepped.values()).any(|at| at.elapsed() < within)
    }
}

/// The begin of a name, for messages.
pub(super) fn short(name: &str) -> &str {
    name.get(..6).unwrap_or(name)
}

impl State {
    /// Returns whether networks and stores were left alone for a time, and nodes too if it is not longer than [`DISTURBED_FOR`].
    fn is_quiet(&self, time: Duration) -> bool {
        let is_before = |at: Option<Instant>| at.is_none_or(|at| at.elapsed() >= time);
        is_before(self.disturbed) && (time > DISTURBED_FOR || is_before(self.restarted))
    }

    fn check(&mut self, attempt: &Attempt, how: &str) -> Vec<String> {
        let Attempt { claims, node, begun, node_s, by } = attempt;
        let mut faults = Vec::new();
        let token = self.tokens.entry(claims.token_id.clone()).or_default();
        token.admitted.push(format!("{by} at node {node}: {how}"));
        if token.admitted.len() > 1 && claims.iat > self.excused_s {
            faults.push(format!("a token was used {} times: {}", token.admitted.len(), token.admitted.join(", ")));
        }
        if self.removed.get(&claims.kid).is_some_and(|at| *begun > *at + KEYSET_BOUND) {
            faults.push(format!("{by} attached with a token of a key that was removed"));
        }
        let has_stepped = self.stepped.get(node).is_some_and(|at| at.elapsed() < DISTURBED_FOR);
        if *node_s > claims.exp + SKEW_S + 1 && !has_stepped {
            faults.push(format!("{by} attached {} s after its token's end", node_s - claims.exp));
        }
        let is_blind =
            |(of, from, until): &(usize, Instant, Option<Instant>)| of == node && from < begun && until.is_none();
        if self.blind.iter().any(is_blind) {
            faults.push(format!("{by} attached at a node that reached no Redis"));
        }
        faults
    }

    fn receive(&mut self, end: u64, channel: &str, from: u64, seq: u64, is_whole: bool) -> Option<String> {
        let Some(of) = self.ends.get(&end) else { return Some(format!("end {end} is unknown")) };
        let sender = self.ends.get(&from).map(|sender| (sender.channel.clone(), sender.role));
        let is_bridged = self.ends.get(&from).is_some_and(|sender| sender.node != of.node && of.role == Role::Client);
        if !is_whole || of.channel != channel {
            return Some(format!("end {end} received what nobody sent it"));
        }
        if sender.is_some_and(|(sent_in, role)| sent_in != channel || role == of.role) {
            return Some(format!("end {end} received a message of end {from}, which is not its peer"));
        }
        let hearer = *self.heard_by.entry(from).or_insert(end);
        let of = self.ends.get_mut(&end)?;
        if hearer != end || *of.peer.get_or_insert(from) != from {
            return Some(format!("end {end} and end {hearer} received messages of end {from}"));
        }
        self.counts.bridged += u64::from(seq == 1 && is_bridged);
        if seq != of.last + 1 {
            return Some(format!("end {end} received message {seq} after {}", of.last));
        }
        of.last = seq;
        None
    }
}
