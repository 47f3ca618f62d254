//! Two peers of the product's channel client, which meet at relay nodes again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sealway_client::channel::{
    Channel, Connecting, Grant, Hello, Instance, Liveness, Options, Role, Stage, Step, Stream, attach_on,
};
use sealway_proto::relay::Claims;
use sealway_runtime::dial::Dial;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::time::{Instant, sleep, timeout};

use super::attacker::Attacker;
use super::history::{Attempt, History};
use super::keys::{Issuers, KIDS};
use super::link::Link;
use super::node::{RelayNode, socket_host};
use crate::net::{Network, Outlet};
use crate::rng::Rng;
use crate::world::World;

/// The peers' first place in the network.
pub(super) const PLACES: usize = 100;
/// Length of a message's head, in bytes.
const HEAD_LEN: usize = 64;
/// Time in which an end attaches to one channel again and again.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// The parts that the peers of a run share.
pub(super) struct Meeting {
    pub(super) world: Arc<World>,
    pub(super) network: Arc<Network>,
    pub(super) history: Arc<History>,
    pub(super) attacker: Arc<Attacker>,
    pub(super) issuers: Arc<Issuers>,
    pub(super) nodes: Vec<Arc<RelayNode>>,
    /// In 1000 frames of a disturbed connection, those that the attacker changes.
    pub(super) tampering: u64,
    /// The end of the faults: a channel that begins after it counts as a recovery.
    pub(super) until: Instant,
}

/// A channel of a pair.
struct Round {
    /// The issuer's key, and the profile.
    key: usize,
    profile: usize,
    /// An end has used the channel, and the other one need not come any more.
    is_over: AtomicBool,
}

/// A client and a server.
pub(super) struct Pair {
    index: usize,
    meeting: Arc<Meeting>,
    instances: [Instance; 2],
    rng: Mutex<Rng>,
    /// Number of ends that have received a message since the faults have ended, in the latest channel.
    recovered: AtomicU64,
}

impl Pair {
    pub(super) fn new(index: usize, meeting: &Arc<Meeting>) -> Arc<Self> {
        let instance = || Instance::draw().unwrap_or_else(|err| panic!("no instance: {err}"));
        let rng = Rng::new(meeting.world.rng.lock().bits());
        Arc::new(Pair {
            index,
            meeting: meeting.clone(),
            instances: [instance(), instance()],
            rng: Mutex::new(rng),
            recovered: AtomicU64::new(0),
        })
    }

    pub(super) fn has_recovered(&self) -> bool {
        self.recovered.load(Ordering::Relaxed) >= 2
    }

    fn range(&self, low: u64, high: u64) -> u64 {
        self.rng.lock().range(low, high)
    }

    async fn pause(&self, low: u64, high: u64) {
        sleep(Duration::from_millis(self.range(low, high))).await;
    }

    /// Meets in one channel after the other.
    pub(super) async fn run(self: Arc<Self>) {
        loop {
            let (profile, mut key) = (self.range(0, 2) as usize, self.range(0, 1) as usize);
            if self.meeting.history.is_removed(KIDS.get(key).copied().unwrap_or_default()) {
                key = 0;
            }
            let grants = self.meeting.issuers.pair(key, profile);
            if Instant::now() >= self.meeting.until {
                self.recovered.store(0, Ordering::Relaxed);
            }
            let round = Round { key, profile, is_over: AtomicBool::new(false) };
            let [client, server] = grants.map(|grant| self.meet(grant, &round));
            tokio::join!(client, server);
            if self.has_recovered() {
                return;
            }
            self.pause(20, 400).await;
        }
    }

    /// Attaches an end to a channel, and uses the channel until it is over; with a fresh token and at any node, if that fails.
    async fn meet(&self, mut grant: Grant, round: &Round) {
        let first = Instant::now();
        while first.elapsed() < PATIENCE && !round.is_over.load(Ordering::Relaxed) {
            let begun = Instant::now();
            if let Some((channel, node)) = self.attach(&grant).await {
                self.talk(channel, &grant.channel_id, node, begun).await;
                round.is_over.store(true, Ordering::Relaxed);
                return;
            }
            self.pause(50, 900).await;
            match self.meeting.issuers.reissue(round.key, round.profile, &grant) {
                Some(fresh) => grant = fresh,
                None => return,
            }
        }
    }

    fn side(&self, role: Role) -> usize {
        2 * self.index + usize::from(role == Role::Server)
    }

    async fn attach(&self, grant: &Grant) -> Option<(Channel, usize)> {
        let meeting = &self.meeting;
        let (index, per_mille, seed, tail) = {
            let mut rng = self.rng.lock();
            let per_mille = if rng.chance(500) { meeting.tampering } else { 0 };
            (rng.index(meeting.nodes.len()), per_mille, rng.bits(), Instant::now() >= meeting.until)
        };
        let node = meeting.nodes.get(index)?;
        let outlet = Outlet { network: meeting.network.clone(), gateway: PLACES + self.side(grant.role) };
        let dialed = timeout(Duration::from_secs(3), outlet.dial(&socket_host(index), 80)).await;
        let io = dialed.ok()?.ok()?;
        let link = Link::new(Rng::new(seed), if tail { 0 } else { per_mille });
        let io = link.tap(io, &meeting.attacker, index);
        let by = format!("{} {}", if grant.role == Role::Client { "client" } else { "server" }, self.index);
        let attempt = Attempt {
            claims: Claims::read_unverified(&grant.token)?,
            node: index,
            begun: Instant::now(),
            node_s: node.now_s(),
            by: by.clone(),
        };
        let mut was_heard = false;
        let instance = self.instances.get(usize::from(grant.role == Role::Server))?;
        meeting.history.waits(&grant.channel_id, grant.role);
        let attached = attach_on(io, grant, instance, &options(), |step| was_heard |= step == Step::Heard).await;
        let is_in_vain = !was_heard && attached.as_ref().is_err_and(|err| err.code == "timeout");
        meeting.history.waited(&grant.channel_id, grant.role, is_in_vain);
        match attached {
            Ok(channel) => {
                meeting.history.admitted(&attempt, "connected");
                Some((channel, index))
            }
            Err(err) => {
                meeting.world.event(&format!("{by} at node {index}: {} {}", err.stage, err.code));
                if err.code == "node_unavailable" {
                    meeting.history.unavailable(&by, index);
                }
                const ADMITTED: [&str; 8] = [
                    "peer_closed",
                    "replaced",
                    "pending_overflow",
                    "replace_refused",
                    "replace_rate_limited",
                    "attach_failed",
                    "init_expired",
                    "idle_timeout",
                ];
                let is_told = err.stage == Stage::Attach && ADMITTED.contains(&err.code.as_ref());
                if was_heard || (is_told && !link.is_tampered()) {
                    meeting.history.admitted(&attempt, &err.code);
                }
                None
            }
        }
    }

    /// Sends messages and checks those of the peer, until the channel is over.
    async fn talk(&self, channel: Channel, id: &str, node: usize, begun: Instant) {
        let meeting = &self.meeting;
        let end = meeting.world.number();
        meeting.history.connected(end, id, channel.role(), node);
        meeting.world.event(&format!("end {end} of pair {} is connected", self.index));
        let is_late = begun >= meeting.until;
        let talking = async {
            let stream = match channel.role() {
                Role::Client => channel.open(&hello()).await.ok(),
                Role::Server => channel.accept().await.map(|incoming| incoming.stream),
            };
            let Some(stream) = stream else { return };
            let (read, write) = split(stream);
            tokio::select! {
                biased;
                () = self.read(read, end, id, is_late) => {}
                () = self.write(write, end, id, is_late, channel.role()) => {}
            }
        };
        tokio::select! {
            biased;
            () = talking => {}
            _ = channel.over() => {}
        }
        let (is_orderly, wait) = (self.range(0, 9) < 6, self.range(0, 300));
        if !channel.is_over() {
            if channel.role() == Role::Server {
                // The client ends channels.
                let _ = timeout(Duration::from_secs(20), channel.over()).await;
            } else {
                sleep(Duration::from_millis(wait)).await;
            }
        }
        let code = if channel.is_over() { channel.over().await.code.into_owned() } else { "ended here".to_owned() };
        meeting.history.ended(end, &code);
        if is_orderly {
            channel.close(0, "done").await;
        }
    }

    async fn write(&self, mut stream: WriteHalf<Stream>, end: u64, channel: &str, is_late: bool, role: Role) {
        let count = if is_late { 4 } else { self.range(1, 25) };
        for seq in 1..=count {
            let len = match self.range(0, 19) {
                0 => self.range(20_000, 150_000),
                1..6 => self.range(500, 4000),
                _ => self.range(0, 200),
            };
            let mut message = format!("{channel} {end} {seq} {len} ").into_bytes();
            message.resize(HEAD_LEN, b'.');
            message.extend(body(end, seq, usize::try_from(len).unwrap_or(0)));
            if stream.write_all(&message).await.is_err() || stream.flush().await.is_err() {
                return;
            }
            self.pause(10, 700).await;
            if !is_late && Instant::now() >= self.meeting.until {
                break;
            }
        }
        if role == Role::Server {
            std::future::pending::<()>().await;
        }
    }

    async fn read(&self, mut stream: ReadHalf<Stream>, end: u64, channel: &str, is_late: bool) {
        let history = &self.meeting.history;
        let mut is_first = true;
        loop {
            let mut head = [0; HEAD_LEN];
            if stream.read_exact(&mut head).await.is_err() {
                return;
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let mut words = head.split(' ');
            let (said, numbers) = (words.next().unwrap_or_default(), words.take(3).map(str::parse::<u64>));
            let numbers = numbers.collect::<Result<Vec<_>, _>>().unwrap_or_default();
            let [from, seq, len] = *numbers.as_slice() else {
                return history.violated(&format!("end {end} received what is no message"));
            };
            let mut content = vec![0; usize::try_from(len).unwrap_or(0)];
            if stream.read_exact(&mut content).await.is_err() {
                return;
            }
            let is_whole = content == body(from, seq, content.len()) && said == channel;
            history.received(end, channel, from, seq, is_whole);
            if is_late && std::mem::take(&mut is_first) {
                self.recovered.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn body(end: u64, seq: u64, len: usize) -> Vec<u8> {
    let mut body = vec![0; len];
    Rng::new(end * 1000 + seq).fill(&mut body);
    body
}

fn hello() -> Hello {
    Hello::new("simulated").unwrap_or_else(|err| panic!("no hello: {err}"))
}

fn options() -> Options {
    Options {
        connecting: Connecting { timeout: Duration::from_secs(4), ..Connecting::default() },
        handshake_timeout: Duration::from_secs(4),
        peer_timeout: Some(Duration::from_secs(6)),
        liveness: Liveness { ping_every: Duration::from_secs(2), silent_max: Duration::from_secs(6) },
        ..Options::default()
    }
}
