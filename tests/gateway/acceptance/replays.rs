//! CapturedRequest requests of every mode, sent again and again to every process that shares their store. The service counts what it receives:
//! each body once.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sealway_testkit::fleet::is_full;
use sealway_testkit::raw_http::Answer;
use sealway_testkit::wire_client::{now_ms, random};

use super::modes::{Keys, Message, Mode, PublishedKeys};
use super::{Fleet, Store, exchange};

/// Time after which a stamp may be outside the window of the default configuration, less what a round takes, in milliseconds.
const OLD_MS: u64 = 240_000;
/// Number of connections to each gateway.
const LANES: usize = 2;
/// New requests of a round, at most.
const ROUND: usize = 700;

/// A captured request, with what became of it.
pub(super) struct CapturedRequest {
    message: Message,
    pub(super) bytes: Vec<u8>,
    body: String,
    sealed_ms: u64,
    /// Number of times that it was served.
    served: AtomicU64,
}

impl CapturedRequest {
    /// Seals a request whose body no other one has.
    pub(super) fn new(keys: &Keys, mode: Mode, stamp_ms: u64) -> CapturedRequest {
        let body = format!("{:016x}", u64::from_le_bytes(random()));
        let message = keys.seal(mode, &[&body.as_bytes()[..3], &body.as_bytes()[3..]], stamp_ms);
        CapturedRequest { bytes: message.bytes(), message, body, sealed_ms: now_ms(), served: AtomicU64::new(0) }
    }

    /// Returns the status of an answer, under the seal where the mode has it there.
    pub(super) fn status(&self, answer: &Answer) -> u16 {
        self.message.status(answer)
    }

    /// Records an answer, and returns whether it was a refusal. Nothing but a decision is one: a store that is away refuses nothing.
    fn answered(&self, answer: &Answer) -> bool {
        let (mode, status) = (self.message.mode, self.status(answer));
        let may_be_late = mode.is_stamped() && now_ms() - self.sealed_ms > OLD_MS;
        match status {
            200 => self.served.fetch_add(1, Ordering::SeqCst),
            409 => 0,
            400 if may_be_late => 0,
            _ => panic!("{mode:?}: {status} {}", answer.text()),
        };
        status != 200
    }
}

impl AsRef<[u8]> for CapturedRequest {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Sends each list to its gateway over several connections, all at the same time. Returns the number of refusals.
fn fire(lists: &[(SocketAddr, Vec<&CapturedRequest>)]) -> u64 {
    let refused = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for (to, list) in lists {
            for lane in list.chunks(list.len().div_ceil(LANES).max(1)) {
                let refused = &refused;
                scope.spawn(move || {
                    exchange(*to, lane, |index, answer| {
                        refused.fetch_add(u64::from(lane[index].answered(&answer)), Ordering::SeqCst);
                    });
                });
            }
        }
    });
    refused.into_inner()
}

/// A generator of the order of requests.
struct Order(u64);

impl Order {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at + 1));
        }
    }
}

/// Seals `fresh` requests and sends each to every gateway at once: one of the copies is served. Between them goes every request captured
/// before, until there were `replays`. Half way the last gateway is killed and starts again. Returns a line for the record.
fn run(mut fleet: Fleet, (fresh, replays): (usize, usize)) -> String {
    let (mut order, began) = (Order(u64::from_le_bytes(random()) | 1), Instant::now());
    let rounds = fresh.div_ceil(ROUND).max(4);
    let (mut captured, mut refused): (Vec<CapturedRequest>, u64) = (Vec::new(), 0);
    for round in 0..rounds {
        if round == rounds / 2 {
            fleet.restart(fleet.servers.len() - 1);
        }
        let targets = fleet.addresses();
        let keys = PublishedKeys::fetch(targets[0]).choose(now_ms(), 0);
        let first = captured.len();
        let modes = Mode::ALL.into_iter().cycle().take((fresh - first).div_ceil(rounds - round));
        captured.extend(modes.map(|mode| CapturedRequest::new(&keys, mode, now_ms())));
        let copies = (targets.len() - 1) * (captured.len() - first);
        let wanted = (replays as u64 - refused).div_ceil((rounds - round) as u64) as usize;
        let again = wanted.saturating_sub(copies).div_ceil(targets.len());
        let lists = targets.iter().map(|target| {
            let mut list: Vec<_> = captured[first..].iter().collect();
            list.extend((0..again).map(|_| &captured[order.below(captured.len())]));
            order.shuffle(&mut list);
            (*target, list)
        });
        refused += fire(&lists.collect::<Vec<_>>());
        for one in &captured[first..] {
            let (times, mode) = (fleet.service.times(one.body.as_bytes()), one.message.mode);
            assert_eq!((one.served.load(Ordering::SeqCst), times), (1, 1), "{mode:?} at {} gateways", targets.len());
        }
    }
    assert!(captured.iter().all(|one| one.served.load(Ordering::SeqCst) == 1), "a replay was served");
    assert_eq!((fleet.service.most(), fleet.service.total()), (1, fresh as u64), "each body arrives once");
    let rate = (refused + fresh as u64) as f64 / began.elapsed().max(Duration::from_millis(1)).as_secs_f64();
    assert!(refused >= replays as u64);
    let gateways = fleet.servers.len();
    format!(
        "{refused} replays, 0 served, and {fresh} new requests, 0 refused, at {gateways} gateways: {rate:.0} a second"
    )
}

/// Returns the number of new requests and of replays: a share of the whole.
fn share(percent: usize) -> (usize, usize) {
    let (fresh, replays) = if is_full() { (100_000, 1_000_000) } else { (420, 3_000) };
    (fresh * percent / 100, replays * percent / 100)
}

#[test]
fn no_replay_is_served_by_three_processes_on_postgresql() {
    println!("{}", run(Fleet::start(3, Store::postgres()), share(40)));
}

#[test]
fn no_replay_is_served_by_three_processes_on_postgresql_and_redis() {
    println!("{}", run(Fleet::start(3, Store::tiered()), share(40)));
}

#[test]
fn no_replay_is_served_by_a_process_that_starts_again_with_its_embedded_store() {
    println!("{}", run(Fleet::start(1, Store::Embedded), share(20)));
}

/// Sends everything captured to all gateways once more, and checks that nothing was served twice.
pub(super) fn assert_served_at_most_once(fleet: &Fleet, captured: &[CapturedRequest], when: &str) {
    let list = |to| (to, captured.iter().collect::<Vec<_>>());
    std::thread::scope(|scope| {
        for (to, list) in fleet.addresses().into_iter().map(list) {
            // A clock that is wrong refuses for other reasons too: the service's count alone is held to the rule.
            scope.spawn(move || exchange(to, &list, |_, _| {}));
        }
    });
    for one in captured {
        assert!(fleet.service.times(one.body.as_bytes()) <= 1, "{:?} was served again: {when}", one.message.mode);
    }
}

/// Sends a new request to one gateway, and returns it with the status.
pub(super) fn capture(to: SocketAddr, keys: &Keys, mode: Mode, stamp_ms: u64) -> (CapturedRequest, u16) {
    let (captured, mut status) = (CapturedRequest::new(keys, mode, stamp_ms), 0);
    exchange(to, &[&captured.bytes], |_, answer| status = captured.status(&answer));
    (captured, status)
}
