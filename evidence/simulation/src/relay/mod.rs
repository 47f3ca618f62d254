//! The relay's nodes in one run: the product's servers share the model of Redis, and bridge endpoints to each other over the simulated
//! network. Peers of the product's client meet at them, while an attacker has the network of the endpoints, and faults befall all.
//!
//! A connection begins as a WebSocket: the upgrade before it, and TLS below it, are left out. Bridges have their TLS.

mod attacker;
mod defect;
mod history;
mod keys;
mod link;
mod node;
mod peer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::net::Network;
use crate::provider;
use crate::redis::{self, Redis, Restart};
use crate::scenario::{Outcome, alone};
use crate::world::{self, World};
use attacker::Attacker;
pub use defect::Defect;
pub use history::Counts;
use history::History;
use keys::{Issuers, KIDS};
use node::{Fleet, RelayNode, socket_host};
use peer::{Meeting, PLACES, Pair};

/// Distance of the simulated time from the other runs', in milliseconds: a channel's client reads the machine's clock, and so far
/// ahead no grant ends for it.
const FAR_MS: i64 = 3_000_000_000_000;
/// Most seconds by which a clock steps: with the skew of nodes and issuer it stays within the difference that the relay allows.
const STEP_MAX_MS: u64 = 24_000;
/// Longest time from the end of the faults until every pair has exchanged messages: a dead node's lease, attempts in vain, and the
/// time to notice dead connections.
const RECOVERY: Duration = Duration::from_secs(60);
/// The same after a loss of memory: the floor rejects tokens for the skew, by a clock that may have been ahead.
const RECOVERY_OF_LOSS: Duration = Duration::from_secs(120);
/// Time for which some runs go on with the attacker alone: until old tokens do not verify any more.
const REPLAYED_FOR: Duration = Duration::from_secs(16);
/// Time in which a loss still keeps tokens from being used.
const LOSS_COUNTS_FOR: Duration = Duration::from_secs(75);

/// Runs the simulation of a seed with a planted defect, or with none.
pub fn run_with(seed: u64, time: Duration, defect: Option<Defect>) -> Outcome {
    alone(seed, move || {
        // The first run of a process makes the certificates, and must not draw from its own seed for them.
        drop(keys::node_files());
        provider::seed(seed);
        simulate(seed, time, defect)
    })
}

/// A kind of fault that a run may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Cut,
    Connection,
    Blind,
    Crash,
    Stop,
    Clock,
    Restart,
    Flush,
    Silence,
    FailOver,
    RemoveKey,
}

const FAULTS: [Fault; 11] = [
    Fault::Cut,
    Fault::Connection,
    Fault::Blind,
    Fault::Crash,
    Fault::Stop,
    Fault::Clock,
    Fault::Restart,
    Fault::Flush,
    Fault::Silence,
    Fault::FailOver,
    Fault::RemoveKey,
];

struct Run {
    world: Arc<World>,
    network: Arc<Network>,
    history: Arc<History>,
    redis: Arc<Redis>,
    issuers: Arc<Issuers>,
    nodes: Vec<Arc<RelayNode>>,
    pairs: usize,
    has_sentinels: bool,
    /// Hosts of Redis and its Sentinels.
    stores: Vec<String>,
    /// All clocks step in one direction.
    steps_ahead: bool,
    /// A fail-over is in progress.
    fails_over: AtomicBool,
}

async fn simulate(seed: u64, time: Duration, defect: Option<Defect>) -> Outcome {
    let world = World::new(seed, false, defect.map(world::Defect::Relay));
    let network = Network::new(world.clone());
    let (has_sentinels, count, pairs, tampering, steps_ahead, moves) = {
        let mut rng = world.rng.lock();
        let tampering = [0, 0, 20, 100][rng.index(4)];
        (rng.chance(500), 2 + rng.index(2), 2 + rng.index(2), tampering, rng.chance(500), rng.chance(500))
    };
    let (replicas, sentinels) = if has_sentinels { (2, 3) } else { (0, 0) };
    let redis = Redis::start(&world, &network, replicas, sentinels);
    let history = History::new(&world, &redis, tampering > 0);
    let issuers = Issuers::new(&world);
    let fleet = Fleet {
        world: world.clone(),
        network: network.clone(),
        history: history.clone(),
        issuers: issuers.clone(),
        has_sentinels,
        moves,
        files: keys::node_files(),
        defect,
    };
    let nodes: Vec<_> = (0..count).map(|index| RelayNode::new(index, &fleet)).collect();
    let starting: Vec<_> = nodes.iter().map(|node| tokio::spawn(node.clone().start_owned())).collect();
    for start in starting {
        let _ = start.await;
    }
    let until = Instant::now() + time;
    let attacker = Attacker::new(&world, &network, &history, &nodes);
    let meeting = Arc::new(Meeting {
        world: world.clone(),
        network: network.clone(),
        history: history.clone(),
        attacker: attacker.clone(),
        issuers: issuers.clone(),
        nodes: nodes.clone(),
        tampering,
        until,
    });
    let all: Vec<_> = (0..pairs).map(|index| Pair::new(index, &meeting)).collect();
    let running: Vec<_> = all.iter().map(|pair| tokio::spawn(pair.clone().run())).collect();
    tokio::spawn(attacker.clone().replay(until + Duration::from_secs(8)));
    let stores = (0..=replicas).map(redis::host).chain((0..sentinels).map(redis::sentinel)).collect();
    let run = Arc::new(Run {
        world: world.clone(),
        network,
        history: history.clone(),
        redis,
        issuers,
        nodes,
        pairs,
        has_sentinels,
        stores,
        steps_ahead,
        fails_over: AtomicBool::new(false),
    });
    run.clone().disturb(until).await;
    run.heal().await;
    run.recover(&all).await;
    if run.chance(500) {
        sleep(REPLAYED_FOR).await;
    }
    for task in running {
        task.abort();
        match task.await {
            Err(err) if err.is_panic() => std::panic::resume_unwind(err.into_panic()),
            _ => {}
        }
    }
    let (events, hash, violations, mut counts) = world.finish();
    counts.relay = history.counts();
    Outcome { seed, hash, events, violations, counts }
}

impl Run {
    fn range(&self, low: u64, high: u64) -> u64 {
        self.world.rng.lock().range(low, high)
    }

    fn chance(&self, per_mille: u64) -> bool {
        self.world.rng.lock().chance(per_mille)
    }

    fn event(&self, text: &str) {
        self.history.disturb();
        self.world.event(text);
    }

    /// Brings faults over the parts of the run until a time. Each run has some kinds of faults and not the others.
    async fn disturb(self: Arc<Self>, until: Instant) {
        let (pause, kinds) = {
            let mut rng = self.world.rng.lock();
            let pause = [600, 2500, 6000][rng.index(3)];
            // One run in eight is quiet, and in two of eight one kind comes alone.
            let kinds = match rng.index(8) {
                0 => Vec::new(),
                1 | 2 => FAULTS.get(rng.index(FAULTS.len())).copied().into_iter().collect(),
                _ => FAULTS.into_iter().filter(|_| rng.chance(350)).collect(),
            };
            (pause, kinds)
        };
        self.world.event(&format!("faults: {kinds:?}, about every {pause} ms"));
        while Instant::now() < until {
            sleep(Duration::from_millis(self.range(pause / 3, pause))).await;
            let choice = self.range(0, 63) as usize;
            let Some(kind) = choice.checked_rem(kinds.len()).and_then(|index| kinds.get(index)) else { continue };
            if Instant::now() >= until {
                break;
            }
            self.world.count(|counts| counts.faults += 1);
            match kind {
                Fault::Cut => self.cut(until),
                Fault::Connection => self.disturb_one(),
                Fault::Blind => self.blind(until),
                Fault::Crash => self.crash(),
                Fault::Stop => self.stop(),
                Fault::Clock => self.step(until),
                Fault::Restart => self.restart(),
                Fault::Flush => {
                    self.event("Redis is flushed");
                    self.history.lose();
                    self.redis.flush(self.redis.master());
                }
                Fault::Silence => self.silence(until),
                Fault::FailOver if self.has_sentinels => self.fail_over(),
                Fault::FailOver => {}
                Fault::RemoveKey => self.remove_key(),
            }
        }
    }

    fn node(&self) -> Option<Arc<RelayNode>> {
        let index = self.world.rng.lock().index(self.nodes.len());
        self.nodes.get(index).cloned()
    }

    /// Returns the places of the network that dial: nodes, and ends of pairs.
    fn place(&self) -> usize {
        let choice = self.world.rng.lock().index(self.nodes.len() + 2 * self.pairs);
        if choice < self.nodes.len() { choice } else { PLACES + choice - self.nodes.len() }
    }

    /// Returns a host that a place connects to.
    fn host(&self, place: usize) -> String {
        let index = self.world.rng.lock().index(self.nodes.len());
        if place >= PLACES {
            return socket_host(index);
        }
        let store = self.world.rng.lock().index(self.stores.len());
        let node = self.nodes.get(index).map(|node| node.bridge_host()).unwrap_or_default();
        if self.chance(500) { node } else { self.stores.get(store).cloned().unwrap_or_default() }
    }

    /// Does something after a while, at the latest at a time.
    fn later(self: &Arc<Self>, wait: Duration, until: Instant, what: impl FnOnce(Arc<Self>) + Send + 'static) {
        let (run, at) = (self.clone(), (Instant::now() + wait).min(until));
        tokio::spawn(async move {
            tokio::time::sleep_until(at).await;
            what(run);
        });
    }

    fn wait(&self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.range(low, high))
    }

    fn cut(self: &Arc<Self>, until: Instant) {
        let place = self.place();
        let (host, choice) = (self.host(place), self.range(0, 2));
        let directions = [choice != 1, choice != 0];
        self.event(&format!("cut: place {place} and {host} {directions:?}"));
        self.network.cut(place, &host, directions);
        self.later(self.wait(100, 8000), until, move |run| {
            run.event(&format!("healed: place {place} and {host}"));
            run.network.heal(place, &host, directions);
        });
    }

    fn disturb_one(&self) {
        let place = self.place();
        let (choice, stalls) = (self.range(0, 63) as usize, self.chance(500));
        if let Some(host) = self.network.disturb_one(place, choice, stalls) {
            let how = if stalls { "stalls" } else { "is reset" };
            self.event(&format!("a connection of place {place} to {host} {how}"));
        }
    }

    /// Cuts a node off from all of Redis.
    fn blind(self: &Arc<Self>, until: Instant) {
        let Some(index) = self.node().map(|node| node.index) else { return };
        self.event(&format!("node {index} reaches no Redis"));
        self.stores.iter().for_each(|host| self.network.cut(index, host, [true, true]));
        self.history.set_blind(index, true);
        self.later(self.wait(500, 20_000), until, move |run| {
            run.event(&format!("node {index} reaches Redis again"));
            run.history.set_blind(index, false);
            run.stores.iter().for_each(|host| run.network.heal(index, host, [true, true]));
        });
    }

    fn crash(self: &Arc<Self>) {
        let (node, wait, run) = (self.node(), self.wait(50, 4000), self.clone());
        let Some(node) = node.filter(|node| node.crash(&self.hosts())) else { return };
        self.history.restart();
        tokio::spawn(async move {
            sleep(wait).await;
            node.start().await;
            run.history.restart();
        });
    }

    /// Returns the hosts that a node dials.
    fn hosts(&self) -> Vec<String> {
        self.stores.iter().cloned().chain(self.nodes.iter().map(|node| node.bridge_host())).collect()
    }

    fn stop(self: &Arc<Self>) {
        let (node, wait, run) = (self.node(), self.wait(50, 2000), self.clone());
        let Some((node, life)) = node.and_then(|node| Some((node.clone(), node.leave()?))) else { return };
        run.history.restart();
        tokio::spawn(async move {
            life.stop().await;
            sleep(wait).await;
            node.start().await;
            run.history.restart();
        });
    }

    fn step(self: &Arc<Self>, until: Instant) {
        let Some(node) = self.node() else { return };
        let small = self.range(200, 3000);
        let ms = if self.chance(500) { small } else { self.range(10_000, STEP_MAX_MS) } as i64;
        let ms = if self.steps_ahead { ms } else { -ms };
        // One step at a time, so that the difference of two clocks stays within the bound.
        if !node.set_step(ms) {
            return;
        }
        self.event(&format!("the clock of node {} steps by {ms} ms", node.index));
        self.history.step(node.index);
        self.later(self.wait(300, 15_000), until, move |run| {
            run.event(&format!("the clock of node {} is right again", node.index));
            run.history.step(node.index);
            node.set_step(0);
        });
    }

    fn restart(&self) {
        let age = self.world.rng.lock().index(6);
        let how = if self.chance(300) { Restart::Empty } else { Restart::Snapshot(age) };
        self.history.disturb();
        self.history.lose();
        self.redis.restart(self.redis.master(), how);
    }

    /// Stops the master for a while; it comes back with its data.
    fn silence(self: &Arc<Self>, until: Instant) {
        let index = self.redis.master();
        self.history.disturb();
        self.redis.set_up(index, false);
        self.later(self.wait(100, 8000), until, move |run| {
            run.history.disturb();
            run.redis.set_up(index, true);
        });
    }

    fn fail_over(self: &Arc<Self>) {
        // Sentinels vote on one at a time.
        if self.fails_over.swap(true, Ordering::Relaxed) {
            return;
        }
        let master = self.redis.master();
        let (is_planned, down, isolated) = (self.chance(300), self.wait(200, 1500), self.wait(500, 6000));
        let run = self.clone();
        tokio::spawn(async move {
            run.history.disturb();
            if !is_planned {
                run.redis.isolate(master, true);
                sleep(down).await;
            }
            run.history.lose();
            run.redis.clone().fail_over().await;
            run.history.disturb();
            if !is_planned {
                sleep(isolated).await;
                run.redis.isolate(master, false);
                run.history.disturb();
            }
            run.fails_over.store(false, Ordering::Relaxed);
        });
    }

    fn remove_key(&self) {
        let Some(kid) = KIDS.last().filter(|kid| !self.history.is_removed(kid)) else { return };
        self.event(&format!("the key {kid} is removed from the keyset"));
        self.issuers.remove();
        self.history.remove_key(kid);
    }

    /// Ends the faults that end by themselves later.
    async fn heal(&self) {
        // Fail-overs and starts of nodes have their own time.
        sleep(Duration::from_secs(8)).await;
        // A stalled connection stays one: those who use it have to notice.
        self.world.event("the faults are over");
        for node in &self.nodes {
            if !node.is_running() {
                self.world.event(&format!("node {} does not run yet", node.index));
            }
        }
    }

    /// Waits until every pair has exchanged messages, at most for the bound.
    async fn recover(&self, pairs: &[Arc<Pair>]) {
        let bound = if self.history.has_lost(LOSS_COUNTS_FOR) { RECOVERY_OF_LOSS } else { RECOVERY };
        let until = Instant::now() + bound;
        while Instant::now() < until && !pairs.iter().all(|pair| pair.has_recovered()) {
            sleep(Duration::from_millis(200)).await;
        }
        for (index, pair) in pairs.iter().enumerate() {
            if !pair.has_recovered() {
                self.history.violated(&format!("pair {index} has no channel {bound:?} after the faults"));
            }
        }
    }
}
