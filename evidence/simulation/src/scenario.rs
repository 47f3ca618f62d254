//! One run: gateways, clients and stores, and the faults that befall them.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sealway_proto::crypto::identity::default_identity_library;
use sealway_proto::session::native::KeySet;
use sealway_sessions::identity::Identity;
use sealway_sessions::kek::KeyRing;
use tokio::time::{Instant, sleep};

use crate::attacker::Attacker;
use crate::client::Client;
use crate::gateway::{Backing, Gateway};
use crate::net::Network;
use crate::postgres::{self, Postgres, Standby, Trouble};
use crate::provider::{self, SeedProvider};
use crate::redis::{self, Redis, Restart};
use crate::rng::Rng;
use crate::world::{Counts, Defect, World};

/// Time after the last fault for the calls in progress.
const REST: Duration = Duration::from_millis(500);

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed that gave it.
    pub seed: u64,
    /// A hash over all events, commands of stores included, with their times.
    pub hash: u64,
    /// Events in their order, each with its time.
    pub events: Vec<String>,
    /// Invariants that did not hold.
    pub violations: Vec<String>,
    /// Figures of the run, which can be summed.
    pub counts: Counts,
}

/// Runs the simulation of a seed for a simulated time.
pub fn run(seed: u64, time: Duration) -> Outcome {
    run_with(seed, time, None)
}

/// Runs the simulation of a seed with a planted defect.
pub fn run_with(seed: u64, time: Duration, defect: Option<Defect>) -> Outcome {
    alone(seed, move || {
        // The first run of a process makes the ring, and must not draw from its own seed for it.
        drop(ring());
        provider::seed(seed);
        simulate(seed, time, defect)
    })
}

/// Runs a simulation with simulated time, in a thread of its own: what the product keeps for each thread begins anew.
pub(crate) fn alone<F>(seed: u64, begin: impl FnOnce() -> F + Send + 'static) -> Outcome
where
    F: Future<Output = Outcome>,
{
    let running = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.map(|runtime| runtime.block_on(begin()))
    });
    match running.join() {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(err)) => failed(seed, &err.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            failed(seed, &format!("panicked: {}", text.unwrap_or_default()))
        }
    }
}

fn failed(seed: u64, text: &str) -> Outcome {
    Outcome { seed, hash: 0, events: Vec::new(), violations: vec![text.to_owned()], counts: Counts::default() }
}

/// Returns the ring of key-encryption keys, made once for the process.
fn ring() -> Arc<KeyRing> {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let make = || {
        let folder = tempfile::tempdir().unwrap_or_else(|err| panic!("no temporary folder: {err}"));
        let made = KeyRing::generate(&SeedProvider, &folder.path().join("kek"));
        made.unwrap_or_else(|err| panic!("no key-encryption key: {err}"));
        folder
    };
    let path: &Path = FOLDER.get_or_init(make).path();
    Arc::new(KeyRing::load(&SeedProvider, &path.join("kek")).unwrap_or_else(|err| panic!("no key ring: {err}")))
}

fn identity(now_ms: u64) -> (Arc<Identity>, KeySet) {
    let made = Identity::in_memory(&SeedProvider, default_identity_library(), now_ms - 1000);
    let identity = made.unwrap_or_else(|err| panic!("no identity: {err}"));
    let set = KeySet::parse(&SeedProvider, &identity.key_set(now_ms)).unwrap_or_else(|err| panic!("no key set: {err}"));
    (Arc::new(identity), set)
}

/// A kind of fault that a run may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Cut,
    Connection,
    Crash,
    GatewayClock,
    ServerClock,
    Restart,
    Flush,
    Stop,
    FailOver,
    Postgres(Trouble),
}

const FAULTS: [Fault; 13] = [
    Fault::Cut,
    Fault::Connection,
    Fault::Crash,
    Fault::GatewayClock,
    Fault::ServerClock,
    Fault::Restart,
    Fault::Flush,
    Fault::Stop,
    Fault::FailOver,
    Fault::Postgres(Trouble::Crash),
    Fault::Postgres(Trouble::Hang),
    Fault::Postgres(Trouble::Clock),
    Fault::Postgres(Trouble::FailOver),
];

impl Fault {
    /// True if a server may come back without nonces that it had.
    fn loses_nonces(self) -> bool {
        matches!(self, Fault::Restart | Fault::Flush | Fault::FailOver | Fault::Postgres(Trouble::FailOver))
    }

    /// True if the parts of a run with this store can have it.
    fn befalls(self, backing: Backing) -> bool {
        let has_redis = !matches!(backing, Backing::Postgres(_));
        match self {
            Fault::Cut | Fault::Connection | Fault::Crash => true,
            // What is promised for an asynchronous standby is a promise of clocks that agree.
            Fault::GatewayClock => backing.standby() != Some(Standby::Asynchronous),
            Fault::ServerClock => has_redis && backing.standby() != Some(Standby::Asynchronous),
            Fault::Restart | Fault::Flush | Fault::Stop => has_redis,
            Fault::FailOver => backing.has_sentinels(),
            Fault::Postgres(_) => backing.standby().is_some(),
        }
    }
}

/// Returns the kind of store of a seed.
fn backing(seed: u64) -> Backing {
    let mut rng = Rng::new(!seed);
    let standby = if rng.chance(300) { Standby::Asynchronous } else { Standby::Synchronous };
    match rng.index(10) {
        0 => Backing::Local,
        1 | 2 => Backing::Single,
        3 | 4 => Backing::Sentinel,
        5..=7 => Backing::Postgres(standby),
        8 => Backing::Tiered { standby, has_sentinels: false },
        _ => Backing::Tiered { standby, has_sentinels: true },
    }
}

struct Run {
    world: Arc<World>,
    network: Arc<Network>,
    redis: Arc<Redis>,
    postgres: Option<Arc<Postgres>>,
    gateways: Vec<Arc<Gateway>>,
    wire: Arc<Attacker>,
    backing: Backing,
    hosts: Vec<String>,
}

async fn simulate(seed: u64, time: Duration, defect: Option<Defect>) -> Outcome {
    let backing = backing(seed);
    let world = World::new(seed, backing.standby() == Some(Standby::Synchronous), defect);
    let network = Network::new(world.clone());
    let (replicas, sentinels) = if backing.has_sentinels() { (2, 3) } else { (0, 0) };
    let redis = Redis::start(&world, &network, replicas, sentinels);
    let ring = ring();
    let (service, keys) = identity(world.now_ms());
    let (other, other_keys) = identity(world.now_ms());
    let count = if backing == Backing::Local { 1 } else { 2 + world.rng.lock().index(2) };
    let postgres = backing.standby().map(|standby| Postgres::start(&world, &network, standby, count));
    let gateway =
        |index, backing, identity: &Arc<Identity>| Gateway::new(index, &world, &network, backing, &ring, identity);
    let gateways: Vec<_> = (0..count).map(|index| gateway(index, backing, &service)).collect();
    let impostor = gateway(99, Backing::Impostor, &other);
    for gateway in gateways.iter().chain([&impostor]) {
        gateway.start().await;
    }
    let id = |set: &KeySet| set.keys.first().map(|key| key.key_id.to_string()).unwrap_or_default();
    let wire = Attacker::new(&world, &gateways, &impostor, [id(&keys), id(&other_keys)]);
    let until = Instant::now() + time;
    let clients: Vec<_> =
        (0..3).map(|index| tokio::spawn(Client::new(index, &world, &wire, keys.clone()).run(until))).collect();
    tokio::spawn(wire.clone().replay(until));
    tokio::spawn(wire.clone().revoke(until));
    let servers = (0..=replicas).map(redis::host).chain((0..sentinels).map(redis::sentinel));
    let has_redis = !matches!(backing, Backing::Postgres(_));
    let hosts = servers.filter(|_| has_redis).chain(postgres.iter().map(|_| postgres::HOST.to_owned())).collect();
    let run = Run { world: world.clone(), network, redis, postgres, gateways, wire: wire.clone(), backing, hosts };
    let run = Arc::new(run);
    run.clone().disturb(until).await;
    // A call in progress has a moment to end; one whose body dribbles is given up.
    sleep(REST).await;
    for client in clients {
        client.abort();
        match client.await {
            Err(err) if err.is_panic() => std::panic::resume_unwind(err.into_panic()),
            _ => {}
        }
    }
    wire.replay_all().await;
    let (events, hash, violations, counts) = world.finish();
    Outcome { seed, hash, events, violations, counts }
}

impl Run {
    fn range(&self, low: u64, high: u64) -> u64 {
        self.world.rng.lock().range(low, high)
    }

    /// Brings faults over the parts of the run until a time, and heals all. Each run has some kinds of faults and not the others, so that
    /// a run of clocks alone, or a quiet one, is met as well as one in which everything fails at once.
    async fn disturb(self: Arc<Self>, until: Instant) {
        let (pause, kinds) = {
            let mut rng = self.world.rng.lock();
            let pause = [500, 2500, 6000][rng.index(3)];
            let kinds = FAULTS.into_iter().filter(|kind| kind.befalls(self.backing));
            (pause, kinds.filter(|_| rng.chance(400)).collect::<Vec<_>>())
        };
        self.world.event(&format!("store: {:?}, faults: {kinds:?}, about every {pause} ms", self.backing));
        while Instant::now() < until {
            sleep(Duration::from_millis(self.range(pause / 3, pause))).await;
            let choice = self.range(0, 63) as usize;
            let Some(kind) = choice.checked_rem(kinds.len()).and_then(|index| kinds.get(index)) else { continue };
            self.world.count(|counts| counts.faults += 1);
            if kind.loses_nonces() {
                // The attacker, too, learns of it. Once a gateway has seen a nonce, its own memory has it: the attacker waits for the next
                // epoch, and does not know for how long.
                let (wire, wait) = (self.wire.clone(), self.range(200, 3500));
                tokio::spawn(async move {
                    sleep(Duration::from_millis(wait)).await;
                    wire.replay_all().await;
                });
            }
            match kind {
                Fault::Cut => self.cut(),
                Fault::Connection => self.disturb_one(),
                Fault::Crash => self.crash(),
                Fault::GatewayClock => self.step_gateway(),
                Fault::ServerClock => self.step_server(),
                Fault::Restart => self.restart(),
                Fault::Flush => self.redis.flush(self.redis.master()),
                Fault::Stop => self.stop_server(),
                Fault::FailOver => self.fail_over(),
                Fault::Postgres(trouble) => self.postgres.iter().for_each(|postgres| postgres.strike(*trouble)),
            }
        }
    }

    fn gateway(&self) -> usize {
        self.world.rng.lock().index(self.gateways.len())
    }

    fn host(&self) -> String {
        let index = self.world.rng.lock().index(self.hosts.len());
        self.hosts.get(index).cloned().unwrap_or_default()
    }

    fn cut(self: &Arc<Self>) {
        let (gateway, host, choice) = (self.gateway(), self.host(), self.range(0, 2));
        let directions = [choice != 1, choice != 0];
        self.world.event(&format!("cut: gateway {gateway} and {host} {directions:?}"));
        self.network.cut(gateway, &host, directions);
        self.world.disturb(gateway);
        let (run, ms) = (self.clone(), self.range(100, 4000));
        tokio::spawn(async move {
            sleep(Duration::from_millis(ms)).await;
            run.world.event(&format!("healed: gateway {gateway} and {host}"));
            run.network.heal(gateway, &host, directions);
            run.world.disturb(gateway);
        });
    }

    fn disturb_one(&self) {
        let gateway = self.gateway();
        let (choice, stalls) = (self.range(0, 63) as usize, self.range(0, 1) == 0);
        if let Some(host) = self.network.disturb_one(gateway, choice, stalls) {
            let how = if stalls { "stalls" } else { "is reset" };
            self.world.event(&format!("a connection of gateway {gateway} to {host} {how}"));
            self.world.disturb(gateway);
        }
    }

    fn crash(self: &Arc<Self>) {
        let (index, ms) = (self.gateway(), self.range(50, 2000));
        let Some(gateway) = self.gateways.get(index).cloned() else { return };
        gateway.crash();
        tokio::spawn(async move {
            sleep(Duration::from_millis(ms)).await;
            gateway.start().await;
        });
    }

    fn step_gateway(self: &Arc<Self>) {
        let (index, ms) = (self.gateway(), self.step());
        let Some(gateway) = self.gateways.get(index).cloned() else { return };
        gateway.step_clock(ms);
        let wait = self.range(200, 4000);
        tokio::spawn(async move {
            sleep(Duration::from_millis(wait)).await;
            gateway.step_clock(-ms);
        });
    }

    fn step(&self) -> i64 {
        let (small, large) = (self.range(200, 3000) as i64, self.range(15_000, 40_000) as i64);
        let ms = if self.world.rng.lock().chance(500) { small } else { large };
        if self.world.rng.lock().chance(500) { ms } else { -ms }
    }

    fn step_server(self: &Arc<Self>) {
        let (index, ms, wait) = (self.redis.master(), self.step(), self.range(100, 4000));
        self.redis.step_clock(index, ms);
        // Keys may end early by a clock that is ahead.
        self.world.store_lost();
        let run = self.clone();
        tokio::spawn(async move {
            sleep(Duration::from_millis(wait)).await;
            run.redis.step_clock(index, -ms);
        });
    }

    fn restart(&self) {
        let age = self.world.rng.lock().index(6);
        let how = if self.world.rng.lock().chance(300) { Restart::Empty } else { Restart::Snapshot(age) };
        self.redis.restart(self.redis.master(), how);
        self.disturb_all();
    }

    fn stop_server(self: &Arc<Self>) {
        let (index, ms) = (self.redis.master(), self.range(100, 4000));
        self.redis.set_up(index, false);
        self.disturb_all();
        let run = self.clone();
        tokio::spawn(async move {
            sleep(Duration::from_millis(ms)).await;
            run.redis.set_up(index, true);
            run.disturb_all();
        });
    }

    fn fail_over(self: &Arc<Self>) {
        let master = self.redis.master();
        let (is_planned, down, isolated) = (self.range(0, 2) == 0, self.range(200, 1500), self.range(500, 6000));
        let run = self.clone();
        tokio::spawn(async move {
            if !is_planned {
                run.redis.isolate(master, true);
                sleep(Duration::from_millis(down)).await;
            }
            run.redis.clone().fail_over().await;
            run.disturb_all();
            if !is_planned {
                sleep(Duration::from_millis(isolated)).await;
                run.redis.isolate(master, false);
                run.disturb_all();
            }
        });
    }

    fn disturb_all(&self) {
        (0..self.gateways.len()).for_each(|gateway| self.world.disturb(gateway));
    }
}
