//! A model of PostgreSQL: the product's own client speaks the protocol to it, and sends its statements unchanged.
//!
//! It keeps what PostgreSQL promises and no more. A statement, or the statements of a transaction, take effect at one moment, in one order
//! for all clients; no other sees a part of them. What is committed survives a crash; a statement whose answer is lost has been committed
//! or not. Notifications reach the clients that listen at that moment, after the commit. Locks and listeners end with their connection. A
//! standby that is promoted has another timeline and another clock; a synchronous one has every commit, an asynchronous one lacks the last.
//! Row locks that outlive a statement are not modelled: no statement of a run waits for one.

mod faults;
mod serve;
mod statements;
mod tables;
mod wire;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{DuplexStream, duplex};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::net::Network;
use crate::world::{Defect, World};
pub(crate) use faults::Trouble;
use statements::{Answer, Context, Statement};
use tables::{Tables, Write};
use wire::Value;

/// The server's name in the network.
pub(crate) const HOST: &str = "postgres";
/// Identifier of the cluster of servers, which a promotion keeps.
const SYSTEM: i64 = 7_400_000_000_000_000_001;
/// Time for which commits can be taken back.
const KEPT: Duration = Duration::from_secs(3);

/// The standby of a run's server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standby {
    /// It has every commit that was acknowledged.
    Synchronous,
    /// It lacks the last commits.
    Asynchronous,
}

/// A commit, with the writes that take it back.
struct Commit {
    at: Instant,
    undo: Vec<Write>,
}

struct State {
    tables: Tables,
    locks: BTreeMap<i64, i32>,
    /// Listeners: the server's process, and the queue of its connection.
    listeners: Vec<(i32, mpsc::UnboundedSender<String>)>,
    /// The commits of the last seconds, which a promotion may lose.
    log: VecDeque<Commit>,
    /// The number of starts; a process of an earlier one runs nothing any more.
    generation: u64,
    timeline: i64,
    xids: u32,
    processes: i32,
    skew_ms: i64,
    is_up: bool,
    /// It accepts connections, and rejects every session.
    is_starting: bool,
    /// It stands still, and answers nothing.
    is_hung: bool,
}

/// A transaction of several statements.
#[derive(Default)]
struct Transaction {
    redo: Vec<Write>,
    notes: Vec<String>,
}

/// A server's process for one client.
struct Process {
    id: i32,
    generation: u64,
    settings: Vec<(String, String)>,
    transaction: Option<Transaction>,
}

/// The server of a run, and its standby.
pub(crate) struct Postgres {
    world: Arc<World>,
    network: Arc<Network>,
    standby: Standby,
    gateways: usize,
    state: Mutex<State>,
    changed: Notify,
}

impl Postgres {
    /// Starts a server with empty tables, for a number of gateways.
    pub(crate) fn start(world: &Arc<World>, network: &Arc<Network>, standby: Standby, gateways: usize) -> Arc<Self> {
        let skew_ms = world.rng.lock().range(0, 300) as i64 - 150;
        let state = State {
            tables: Tables::new(),
            locks: BTreeMap::new(),
            listeners: Vec::new(),
            log: VecDeque::new(),
            generation: 0,
            timeline: 1,
            xids: 1000,
            processes: 100,
            skew_ms,
            is_up: true,
            is_starting: false,
            is_hung: false,
        };
        let (world, network) = (world.clone(), network.clone());
        let changed = Notify::new();
        let postgres = Arc::new(Postgres { world, network, standby, gateways, state: Mutex::new(state), changed });
        postgres.network.add(HOST, Arc::new(serve::Door(postgres.clone())));
        postgres
    }

    fn event(&self, text: &str) {
        self.world.event(&format!("postgres: {text}"));
    }

    /// Runs a statement in a process's transaction, or in one of its own; `None` if the server has started again since.
    fn run(&self, process: &mut Process, statement: &Statement, values: &[Value]) -> Option<Answer> {
        let mut state = self.state.lock();
        if state.generation != process.generation {
            return None;
        }
        state.xids += 1;
        let State { tables, locks, timeline, xids, skew_ms, .. } = &mut *state;
        let earlier = process.transaction.iter().flat_map(|transaction| transaction.redo.iter().cloned());
        let undo = earlier.map(|write| tables.apply(write)).collect();
        let mut context = Context {
            tables,
            locks,
            now_ms: self.world.now_ms().cast_signed() + *skew_ms,
            system: SYSTEM,
            timeline: *timeline,
            xid: *xids,
            process: process.id,
            settings: &process.settings,
            defect: self.world.defect,
            redo: Vec::new(),
            undo,
            notes: Vec::new(),
        };
        let answer = (statement.run)(&mut context, values);
        let Context { redo, undo, notes, .. } = context;
        match &mut process.transaction {
            None => commit(&mut state, undo, &notes, self.world.defect),
            // No other process sees its writes before the commit.
            Some(transaction) => {
                take_back(&mut state.tables, undo);
                transaction.redo.extend(redo);
                transaction.notes.extend(notes);
            }
        }
        drop(state);
        self.world.note(&format!("postgres {} {}", statement.name, answer.1));
        Some(answer)
    }

    /// Commits the transaction of a process; `None` if the server has started again since.
    fn commit(&self, process: &mut Process) -> Option<()> {
        let mut state = self.state.lock();
        let transaction = process.transaction.take().unwrap_or_default();
        if state.generation != process.generation {
            return None;
        }
        let undo = transaction.redo.into_iter().map(|write| state.tables.apply(write)).collect();
        commit(&mut state, undo, &transaction.notes, self.world.defect);
        Some(())
    }
}

fn commit(state: &mut State, undo: Vec<Write>, notes: &[String], defect: Option<Defect>) {
    if !undo.is_empty() {
        let at = Instant::now();
        while state.log.front().is_some_and(|commit| commit.at + KEPT < at) {
            state.log.pop_front();
        }
        state.log.push_back(Commit { at, undo });
    }
    if defect != Some(Defect::Unheard) {
        let sends = |queue: &mpsc::UnboundedSender<String>| notes.iter().all(|note| queue.send(note.clone()).is_ok());
        state.listeners.retain(|(_, queue)| sends(queue));
    }
}

fn take_back(tables: &mut Tables, undo: Vec<Write>) {
    undo.into_iter().rev().for_each(|write| drop(tables.apply(write)));
}

/// A model of PostgreSQL alone, with empty tables and real time: for the comparison with a real server.
pub struct PostgresModel(Arc<Postgres>);

impl PostgresModel {
    /// Starts a server, in a runtime.
    pub fn start() -> Self {
        let world = World::new(1, true, None);
        let network = Network::new(world.clone());
        PostgresModel(Postgres::start(&world, &network, Standby::Synchronous, 0))
    }

    /// Connects a client; returns its stream.
    pub fn connect(&self) -> DuplexStream {
        let (ours, theirs) = duplex(64 * 1024);
        tokio::spawn(self.0.clone().serve_client(theirs));
        ours
    }

    /// Changes the timeline, as the promotion of a standby does.
    pub fn change_timeline(&self) {
        self.0.state.lock().timeline += 1;
    }
}

/// Returns the name and the text of each statement that the model knows.
pub fn known_statements() -> Vec<(&'static str, &'static str)> {
    statements::all().map(|statement| (statement.name, statement.sql)).collect()
}
