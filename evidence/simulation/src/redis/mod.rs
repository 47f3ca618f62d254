//! A model of Redis 7 and its Sentinels: the product's own client speaks RESP to it, and its scripts run in Lua.
//!
//! It keeps what Redis promises and no more. A command is atomic on its server. Replication is asynchronous: a replica has a prefix of
//! its master's writes, and a promotion loses the rest. WAIT counts the replicas that have the writes so far. A restart loses all, or
//! what came after a snapshot, and every script. A master that is cut off from the others goes on serving who reaches it, until it
//! learns of its successor. Clocks of servers differ and step.

mod db;
mod faults;
mod resp;
mod script;
mod serve;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, timeout_at};

use crate::net::Network;
use crate::world::World;
use db::{Context, Keys, Write, text};
use resp::Reply;
use script::Interpreter;

/// Snapshots that are kept, one a second.
const SNAPSHOTS_MAX: usize = 6;
/// The name of the master, as Sentinels know it.
pub(crate) const MASTER: &str = "main";

/// The way in which a server restarts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Restart {
    /// The server has lost all data.
    Empty,
    /// With the data of a snapshot, a number of seconds old.
    Snapshot(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Master,
    /// A replica of a server, whose writes it has up to a number; `None` before it has its data.
    Replica(usize, Option<usize>),
}

struct Node {
    is_up: bool,
    /// Cut off from the other servers and from the Sentinels.
    is_isolated: bool,
    role: Role,
    keys: Keys,
    scripts: BTreeMap<String, String>,
    replication_id: String,
    skew_ms: i64,
    /// Writes since it became master.
    log: Vec<Write>,
    snapshots: Vec<Keys>,
    /// Listeners: the channel, and the connection's queue.
    listeners: Vec<(Vec<u8>, mpsc::UnboundedSender<Vec<u8>>)>,
}

#[derive(Clone, Copy, Debug)]
struct View {
    master: usize,
    term: u64,
}

struct State {
    nodes: Vec<Node>,
    views: Vec<View>,
    ids: u64,
    /// Time of the latest WAIT that too few replicas answered.
    unconfirmed: Option<Instant>,
}

/// The servers of a run.
pub(crate) struct Redis {
    world: Arc<World>,
    network: Arc<Network>,
    state: Mutex<State>,
    lua: Mutex<Interpreter>,
    changed: Notify,
}

/// A server, or a Sentinel, as a host of the network.
struct Door(Arc<Redis>, Kind);

#[derive(Clone, Copy)]
enum Kind {
    Server(usize),
    Sentinel(usize),
}

pub(crate) fn host(node: usize) -> String {
    format!("redis-{node}")
}

pub(crate) fn sentinel(number: usize) -> String {
    format!("sentinel-{number}")
}

impl Redis {
    /// Starts a master with its replicas, and Sentinels.
    pub(crate) fn start(world: &Arc<World>, network: &Arc<Network>, replicas: usize, sentinels: usize) -> Arc<Self> {
        let node = |index: usize| {
            let skew_ms = world.rng.lock().range(0, 300) as i64 - 150;
            Node {
                is_up: true,
                is_isolated: false,
                role: if index == 0 { Role::Master } else { Role::Replica(0, Some(0)) },
                keys: Keys::new(),
                scripts: BTreeMap::new(),
                replication_id: format!("{index:040x}"),
                skew_ms,
                log: Vec::new(),
                snapshots: Vec::new(),
                listeners: Vec::new(),
            }
        };
        let nodes = (0..=replicas).map(node).collect();
        let views = vec![View { master: 0, term: 0 }; sentinels];
        let redis = Arc::new(Redis {
            world: world.clone(),
            network: network.clone(),
            state: Mutex::new(State { nodes, views, ids: 100, unconfirmed: None }),
            lua: Mutex::new(Interpreter::new()),
            changed: Notify::new(),
        });
        for index in 0..=replicas {
            network.add(&host(index), Arc::new(Door(redis.clone(), Kind::Server(index))));
            tokio::spawn(redis.clone().replicate(index));
        }
        for number in 0..sentinels {
            network.add(&sentinel(number), Arc::new(Door(redis.clone(), Kind::Sentinel(number))));
        }
        tokio::spawn(redis.clone().keep_snapshots());
        redis
    }

    fn now_ms(&self, node: &Node) -> u64 {
        self.world.now_ms().saturating_add_signed(node.skew_ms)
    }

    /// Returns the server that most recently became master.
    pub(crate) fn master(&self) -> usize {
        let state = self.state.lock();
        state.views.iter().max_by_key(|view| view.term).map_or(0, |view| view.master)
    }

    fn event(&self, text: &str) {
        self.world.event(&format!("redis: {text}"));
    }

    /// Runs a command that waits for nothing; returns the number of writes of the server's log behind it too.
    fn run(&self, index: usize, arguments: &[Vec<u8>]) -> (Reply, usize) {
        let mut state = self.state.lock();
        let replication = replication(&state, index);
        let Some(node) = state.nodes.get_mut(index) else { return (Reply::Bulk(None), 0) };
        let now_ms = self.now_ms(node);
        let is_replica = node.role != Role::Master;
        let (name, rest) = arguments
            .split_first()
            .map_or((String::new(), arguments), |(name, rest)| (text(name).to_ascii_uppercase(), rest));
        let mut context = Context {
            keys: &mut node.keys,
            now_ms,
            is_replica,
            replication,
            writes: Vec::new(),
            defect: self.world.defect,
        };
        let reply = match (name.as_str(), rest) {
            ("SCRIPT", [load, source]) if text(load) == "LOAD" => {
                let hash = redis::Script::new(&text(source)).get_hash().to_owned();
                node.scripts.insert(hash.clone(), text(source));
                Reply::text(hash)
            }
            ("EVAL" | "EVALSHA", [source, count, rest @ ..]) => {
                let source = match name.as_str() {
                    "EVAL" => Some(text(source)),
                    _ => node.scripts.get(&text(source)).cloned(),
                };
                let keys = text(count).parse::<usize>().unwrap_or(0).min(rest.len());
                let (keys, arguments) = rest.split_at(keys);
                match source {
                    Some(source) => self.lua.lock().run(&source, keys, arguments, &mut context),
                    None => Reply::Error("NOSCRIPT No matching script. Please use EVAL.".into()),
                }
            }
            _ => context.run(arguments),
        };
        let writes = std::mem::take(&mut context.writes);
        let is_error = matches!(reply, Reply::Error(_));
        self.world.note(&format!("{index} {name} {is_error}"));
        if !writes.is_empty() {
            writes.iter().for_each(|write| deliver(node, write));
            if !is_replica {
                node.log.extend(writes);
            }
            self.changed.notify_waiters();
        }
        (reply, node.log.len())
    }

    /// Serves WAIT: the number of replicas that have the writes up to `written`, as soon as it is reached or the time is over.
    async fn wait(&self, index: usize, written: usize, needed: usize, ms: u64) -> Reply {
        let until = Instant::now() + Duration::from_millis(ms);
        let reached = |state: &State| {
            let has = |node: &&Node| match node.role {
                Role::Replica(of, Some(applied)) => {
                    of == index && applied >= written && node.is_up && !node.is_isolated
                }
                _ => false,
            };
            let is_master = state.nodes.get(index).is_some_and(|node| node.role == Role::Master && !node.is_isolated);
            if is_master { state.nodes.iter().filter(has).count() } else { 0 }
        };
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let count = reached(&self.state.lock());
            if count >= needed {
                return Reply::Int(count as i64);
            }
            if timeout_at(until, changed).await.is_err() {
                self.state.lock().unconfirmed = Some(Instant::now());
                return Reply::Int(count as i64);
            }
        }
    }

    /// Returns the time of the latest WAIT that too few replicas answered: they lag by more than it waits.
    pub(crate) fn unconfirmed(&self) -> Option<Instant> {
        self.state.lock().unconfirmed
    }

    /// Brings a replica up to date with its master, always a little late.
    async fn replicate(self: Arc<Self>, index: usize) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if !self.is_behind(index) {
                changed.await;
                continue;
            }
            let lag = {
                let mut rng = self.world.rng.lock();
                if rng.chance(20) { rng.range(50, 900) } else { rng.range(1, 8) }
            };
            sleep(Duration::from_millis(lag)).await;
            self.apply(index);
        }
    }

    fn is_behind(&self, index: usize) -> bool {
        let state = self.state.lock();
        let Some(node) = state.nodes.get(index) else { return false };
        let Role::Replica(of, applied) = node.role else { return false };
        let Some(master) = state.nodes.get(of) else { return false };
        let is_linked = node.is_up && master.is_up && !node.is_isolated && !master.is_isolated;
        is_linked && master.role == Role::Master && applied.is_none_or(|applied| applied < master.log.len())
    }

    fn apply(&self, index: usize) {
        if !self.is_behind(index) {
            return;
        }
        let mut state = self.state.lock();
        let Some(Role::Replica(of, applied)) = state.nodes.get(index).map(|node| node.role) else { return };
        let Some(master) = state.nodes.get(of) else { return };
        let (len, id) = (master.log.len(), master.replication_id.clone());
        let whole = applied.is_none().then(|| master.keys.clone());
        let writes = master.log.get(applied.unwrap_or(len)..).unwrap_or_default().to_vec();
        let Some(node) = state.nodes.get_mut(index) else { return };
        if let Some(keys) = whole {
            node.keys = keys;
        }
        for write in &writes {
            match write {
                Write::Key(key, Some(entry)) => drop(node.keys.insert(key.clone(), entry.clone())),
                Write::Key(key, None) => drop(node.keys.remove(key)),
                Write::Publish(..) => deliver(node, write),
            }
        }
        (node.role, node.replication_id) = (Role::Replica(of, Some(len)), id);
        drop(state);
        self.changed.notify_waiters();
    }

    async fn keep_snapshots(self: Arc<Self>) {
        loop {
            sleep(Duration::from_secs(1)).await;
            for node in &mut self.state.lock().nodes {
                node.snapshots.insert(0, node.keys.clone());
                node.snapshots.truncate(SNAPSHOTS_MAX);
            }
        }
    }
}

/// Returns INFO's section `replication` of a server.
fn replication(state: &State, index: usize) -> String {
    let Some(node) = state.nodes.get(index) else { return String::new() };
    let role = if node.role == Role::Master { "master" } else { "slave" };
    format!("role:{role}\r\nmaster_replid:{}\r\n", node.replication_id)
}

/// Hands a message to the listeners of a server.
fn deliver(node: &mut Node, write: &Write) {
    let Write::Publish(channel, message) = write else { return };
    let mut out = Vec::new();
    Reply::Array(vec![Reply::text("message"), Reply::text(channel.clone()), Reply::text(message.clone())])
        .encode(&mut out);
    node.listeners.retain(|(listened, queue)| listened != channel || queue.send(out.clone()).is_ok());
}
