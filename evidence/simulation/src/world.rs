//! State shared by all parts of a run: time, randomness, and the history with its invariants.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sealway_proto::wire::SessionId;
use sealway_runtime::clock::Clock;
use tokio::time::Instant;

use crate::rng::Rng;

/// The time at which every run begins, in Unix milliseconds.
const BASE_MS: u64 = 1_790_000_000_000;
/// Time for which a gateway uses a cached session without asking its store.
pub(crate) const FRESH: Duration = Duration::from_secs(3);
/// Longest time from an acknowledged revocation to the last claim that another gateway grants, while the connections are undisturbed: the
/// message's way, the store's deadline and the way of a claim's answer.
const REVOKED_BOUND: Duration = Duration::from_millis(1500);
/// The same after a disturbance: a gateway that hears no revocations may use what it has cached.
const REVOKED_BOUND_DISTURBED: Duration = Duration::from_millis(1500 + 3000);
/// Time for which a disturbance counts: a dead connection is noticed by an unanswered ping.
const DISTURBED_FOR: Duration = Duration::from_secs(8);
/// Longest time from the check of a session's end to the service: the claim lies between.
const EXPIRY_SLACK_MS: u64 = 3000;
/// Writes this long before a loss may be among the lost.
const LOSS_REACH: Duration = Duration::from_secs(8);

/// The clock of a gateway.
#[derive(Debug)]
pub(crate) struct SimulatedClock {
    start: Instant,
    pub(crate) skew_ms: AtomicI64,
}

impl Clock for SimulatedClock {
    fn now_ms(&self) -> u64 {
        let ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        (BASE_MS + ms).saturating_add_signed(self.skew_ms.load(Ordering::Relaxed))
    }
}

/// One sealed request, as its client made it.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) client: usize,
    /// The number of the client's call; attempts of one call are retries.
    pub(crate) call: u64,
    pub(crate) method: &'static str,
    pub(crate) session: SessionId,
    pub(crate) text: String,
}

#[derive(Clone, Debug)]
struct Agreement {
    root: SessionId,
    since: Instant,
    /// Unix milliseconds by the clock of the gateway that agreed it.
    expires_ms: u64,
}

#[derive(Debug, Default)]
struct Tally {
    attempts: BTreeMap<String, u64>,
    /// Number of times that an unsafe call was served.
    calls: BTreeMap<(usize, u64), u64>,
}

/// A defect planted to see that the invariants find it. Each takes away a defence that the product has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// The end of a chain of renewals is not stored.
    ChainStays,
    /// The script reserves a nonce that is reserved.
    NoncesForgotten,
    /// An epoch that takes the place of a lost one has no floor.
    NoFloor,
    /// The script does not look at the steps of its clock.
    NoClock,
    /// The script keeps a nonce for a second.
    ShortMemory,
    /// No message of a revocation is delivered.
    Mute,
    /// A session is acknowledged before it is stored.
    EarlyAnswer,
    /// Session and stamp are looked at when a request begins, and not again when its body is there.
    HeldBody,
    /// A client sends an unsafe request again when its session is said to be over.
    BuysTwice,
    /// PostgreSQL returns the row of a nonce that it has.
    RowsTwice,
    /// PostgreSQL delivers no notification of a revocation.
    Unheard,
    /// A crash of PostgreSQL takes the last commits with it.
    CommitsLost,
    /// A standby of PostgreSQL is promoted that lacks commits, and its timeline tells of no promotion.
    SameTimeline,
    /// Nonces stamped ahead of Redis's clock are not recorded in PostgreSQL.
    Unrecorded,
    /// A defect of the relay's nodes.
    Relay(crate::relay::Defect),
}

impl Defect {
    /// All of them, each with its name.
    pub const ALL: [(&'static str, Defect); 14] = [
        ("chain-stays", Defect::ChainStays),
        ("nonces-forgotten", Defect::NoncesForgotten),
        ("no-floor", Defect::NoFloor),
        ("no-clock", Defect::NoClock),
        ("short-memory", Defect::ShortMemory),
        ("mute", Defect::Mute),
        ("early-answer", Defect::EarlyAnswer),
        ("held-body", Defect::HeldBody),
        ("buys-twice", Defect::BuysTwice),
        ("rows-twice", Defect::RowsTwice),
        ("unheard", Defect::Unheard),
        ("commits-lost", Defect::CommitsLost),
        ("same-timeline", Defect::SameTimeline),
        ("unrecorded", Defect::Unrecorded),
    ];
}

/// Figures of one run of a seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Sessions that clients agreed, renewals included.
    pub sessions: u64,
    /// Requests that a service got.
    pub served: u64,
    /// Answers that clients opened as theirs.
    pub answered: u64,
    /// Requests that an attacker sent again.
    pub replays: u64,
    /// Replays and duplicates that a gateway named as such.
    pub rejected: u64,
    /// Revocations whose request was acknowledged.
    pub revocations: u64,
    /// Faults of stores, networks and clocks.
    pub faults: u64,
    /// Figures of a run of relay nodes.
    pub relay: crate::relay::Counts,
}

#[derive(Debug, Default)]
struct History {
    events: Vec<String>,
    hash: u64,
    violations: Vec<String>,
    attempts: BTreeMap<String, Attempt>,
    sessions: BTreeMap<SessionId, Agreement>,
    /// Chains by their first session, with the time of the acknowledgement.
    revoked: BTreeMap<SessionId, Instant>,
    served: Tally,
    losses: Vec<Instant>,
    disturbed: BTreeMap<usize, Instant>,
    stepped: BTreeMap<usize, Instant>,
    counts: Counts,
}

/// The shared state of a run.
pub(crate) struct World {
    pub(crate) rng: Mutex<Rng>,
    start: Instant,
    history: Mutex<History>,
    /// True if a store keeps revocations and sessions through every fault.
    pub(crate) is_durable: bool,
    pub(crate) defect: Option<Defect>,
    next: AtomicU64,
}

impl World {
    pub(crate) fn new(seed: u64, is_durable: bool, defect: Option<Defect>) -> Arc<Self> {
        let history = Mutex::new(History { hash: 0xcbf2_9ce4_8422_2325, ..History::default() });
        let rng = Mutex::new(Rng::new(seed));
        Arc::new(World { rng, start: Instant::now(), history, is_durable, defect, next: AtomicU64::new(0) })
    }

    /// Returns the true time in Unix milliseconds.
    pub(crate) fn now_ms(&self) -> u64 {
        BASE_MS + u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn clock(&self, skew_ms: i64) -> Arc<SimulatedClock> {
        Arc::new(SimulatedClock { start: self.start, skew_ms: AtomicI64::new(skew_ms) })
    }

    /// Returns a number that no other caller gets.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes part of a run's hash without a line in the history.
    pub(crate) fn note(&self, text: &str) {
        let ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut history = self.history.lock();
        for byte in ms.to_le_bytes().iter().chain(text.as_bytes()) {
            history.hash = (history.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Records an event with its simulated time.
    pub(crate) fn event(&self, text: &str) {
        self.note(text);
        let line = format!("{:>8.3} {text}", self.start.elapsed().as_secs_f64());
        self.history.lock().events.push(line);
    }

    pub(crate) fn count(&self, add: impl FnOnce(&mut Counts)) {
        add(&mut self.history.lock().counts);
    }

    /// Notes that an invariant did not hold, or that a model lacks what it needs.
    pub(crate) fn violated(&self, text: &str) {
        self.event(&format!("VIOLATION: {text}"));
        self.history.lock().violations.push(text.to_owned());
    }

    /// A store may have lost what was written a short time ago.
    pub(crate) fn store_lost(&self) {
        self.history.lock().losses.push(Instant::now());
    }

    /// The connections of a gateway are disturbed.
    pub(crate) fn disturb(&self, gateway: usize) {
        self.history.lock().disturbed.insert(gateway, Instant::now());
    }

    /// The clock of a gateway was set.
    pub(crate) fn stepped(&self, gateway: usize) {
        self.history.lock().stepped.insert(gateway, Instant::now());
    }

    /// A client has agreed a session.
    pub(crate) fn agreed(&self, client: usize, id: SessionId, root: SessionId, expires_ms: u64, is_genuine: bool) {
        if !is_genuine {
            self.violated(&format!("client {client} accepted a session of an impostor"));
        }
        let mut history = self.history.lock();
        history.counts.sessions += 1;
        history.sessions.insert(id, Agreement { root, since: Instant::now(), expires_ms });
    }

    /// A request is about to be sent.
    pub(crate) fn attempt(&self, attempt: Attempt) {
        self.history.lock().attempts.insert(attempt.text.clone(), attempt);
    }

    /// Notes an acknowledged revocation of a session and its chain.
    pub(crate) fn revoked(&self, id: &SessionId) {
        let mut history = self.history.lock();
        history.counts.revocations += 1;
        let root = history.sessions.get(id).map_or(*id, |known| known.root);
        let now = Instant::now();
        // An attempt without an acknowledgement may stand there, with a time far ahead.
        let at = history.revoked.entry(root).or_insert(now);
        *at = now.min(*at);
    }

    /// Checks a request that reached the service.
    pub(crate) fn served(&self, gateway: usize, gateway_ms: u64, session: &SessionId, method: &str, text: &str) {
        self.event(&format!("gateway {gateway} serves {method} {text}"));
        let faults = self.history.lock().check(self.is_durable, gateway, gateway_ms, session, method, text);
        faults.iter().for_each(|fault| self.violated(fault));
    }

    /// Checks an answer that a client opened.
    pub(crate) fn answered(&self, attempt: &str, answer: &[u8]) {
        self.history.lock().counts.answered += 1;
        if answer != answer_to(attempt).as_bytes() {
            let text = String::from_utf8_lossy(answer);
            self.violated(&format!("the answer to {attempt} opens to another plaintext: {text}"));
        }
    }

    /// Checks that a session may be over, as a gateway said.
    pub(crate) fn told_over(&self, client: usize, session: &SessionId) {
        let fault = {
            let history = self.history.lock();
            let Some(known) = history.sessions.get(session) else { return };
            let is_over = self.now_ms() + EXPIRY_SLACK_MS >= known.expires_ms;
            let is_revoked = history.revoked.contains_key(&known.root);
            // What Redis alone holds may be lost with it.
            let may_be_lost = !self.is_durable && history.losses.iter().any(|at| *at + LOSS_REACH >= known.since);
            let has_stepped = history.stepped.values().any(|at| at.elapsed() < DISTURBED_FOR);
            !(is_over || is_revoked || may_be_lost || has_stepped)
        };
        if fault {
            self.violated(&format!("client {client} was told that an acknowledged session is over"));
        }
    }

    /// Marks the chain of a session as revoked by a request whose acknowledgement its client has not seen.
    pub(crate) fn maybe_revoked(&self, id: &SessionId) {
        let mut history = self.history.lock();
        let root = history.sessions.get(id).map_or(*id, |known| known.root);
        // Far ahead: it may be over, and need not be.
        let later = Instant::now() + Duration::from_secs(86_400);
        history.revoked.entry(root).or_insert(later);
    }

    /// Returns events, hash, violations and figures.
    pub(crate) fn finish(&self) -> (Vec<String>, u64, Vec<String>, Counts) {
        let history = self.history.lock();
        (history.events.clone(), history.hash, history.violations.clone(), history.counts)
    }
}

/// Returns the answer of the service.
pub(crate) fn answer_to(attempt: &str) -> String {
    format!("done: {attempt}")
}

impl History {
    fn check(
        &mut self,
        is_durable: bool,
        gateway: usize,
        gateway_ms: u64,
        session: &SessionId,
        method: &str,
        text: &str,
    ) -> Vec<String> {
        self.counts.served += 1;
        let mut faults = Vec::new();
        let Some(attempt) = self.attempts.get(text).cloned() else {
            return vec![format!("a service got a plaintext that no client sent: {text}")];
        };
        if attempt.session != *session || attempt.method != method {
            faults.push(format!("{text} was served in another session or by another method"));
        }
        let times = self.served.attempts.entry(text.to_owned()).or_default();
        *times += 1;
        if *times > 1 {
            faults.push(format!("{text} was served {times} times"));
        }
        if method == "POST" {
            let times = self.served.calls.entry((attempt.client, attempt.call)).or_default();
            *times += 1;
            if *times > 1 {
                faults.push(format!("call {} of client {} was served {times} times", attempt.call, attempt.client));
            }
        }
        let Some(known) = self.sessions.get(session) else {
            faults.push(format!("{text} was served in a session that nobody agreed"));
            return faults;
        };
        let recent = |at: Option<&Instant>| at.is_some_and(|at| at.elapsed() < DISTURBED_FOR);
        if gateway_ms >= known.expires_ms + EXPIRY_SLACK_MS && !recent(self.stepped.get(&gateway)) {
            faults.push(format!("{text} was served {} ms after its session's end", gateway_ms - known.expires_ms));
        }
        if let Some(at) = self.revoked.get(&known.root) {
            let is_disturbed = recent(self.disturbed.get(&gateway));
            let bound = if is_disturbed { REVOKED_BOUND_DISTURBED } else { REVOKED_BOUND };
            // Redis alone may lose a tombstone with its memory, or with a promotion.
            let may_be_lost = !is_durable && self.losses.iter().any(|loss| *loss + LOSS_REACH >= *at);
            if at.elapsed() > bound && !may_be_lost {
                faults
                    .push(format!("{text} was served {} ms after its session's revocation", at.elapsed().as_millis()));
            }
        }
        faults
    }
}
