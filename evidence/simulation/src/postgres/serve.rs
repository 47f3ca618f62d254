//! Connections of clients: the course of a session.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::statements::{Statement, statement};
use super::wire::{self, Answers, Kind, Message, Value};
use super::{Postgres, Process, Standby, Transaction};
use crate::net::{Host, Serving};

/// Channel of the only notifications.
const CHANNEL: &str = "sealway_revoked";

/// The server as a host of the network.
pub(super) struct Door(pub(super) Arc<Postgres>);

impl Host for Door {
    fn is_up(&self) -> bool {
        self.0.state.lock().is_up
    }

    fn serve(&self, stream: DuplexStream) -> Serving {
        Box::pin(self.0.clone().serve_client(stream))
    }
}

/// The session of one client.
struct Session {
    process: Process,
    prepared: BTreeMap<String, &'static Statement>,
    bound: Option<(&'static Statement, Vec<Value>)>,
    answers: Answers,
    notes: mpsc::UnboundedSender<String>,
}

/// The connection is over, and its process ends.
struct Over;

impl Postgres {
    pub(super) async fn serve_client(self: Arc<Self>, mut stream: DuplexStream) {
        let (id, generation) = {
            let mut state = self.state.lock();
            state.processes += 1;
            (state.processes, state.generation)
        };
        if let Some(settings) = self.begin(&mut stream, id).await {
            let process = Process { id, generation, settings, transaction: None };
            self.serve_session(&mut stream, process).await;
        }
        let mut state = self.state.lock();
        state.locks.retain(|_, holder| *holder != id);
        state.listeners.retain(|(process, _)| *process != id);
    }

    /// Begins a session; returns its settings.
    async fn begin(&self, stream: &mut DuplexStream, id: i32) -> Option<Vec<(String, String)>> {
        let (mut input, mut buffer) = (Vec::new(), vec![0; 4096]);
        let given = loop {
            match stream.read(&mut buffer).await {
                Ok(len @ 1..) => input.extend_from_slice(buffer.get(..len)?),
                _ => return None,
            }
            if let Some(given) = wire::take_startup(&mut input) {
                break given;
            }
        };
        self.stands().await;
        let mut answers = Answers::default();
        if self.state.lock().is_starting {
            answers.failed("FATAL", "57P03", "the database system is starting up");
            let _ = stream.write_all(&answers.0).await;
            return None;
        }
        answers.begin(id);
        stream.write_all(&answers.0).await.ok()?;
        let standbys = if self.standby == Standby::Synchronous { "*" } else { "" };
        let mut settings = vec![("synchronous_standby_names".to_owned(), standbys.to_owned())];
        for (name, value) in given {
            let options = value.split_whitespace().filter_map(|word| word.split_once('='));
            match name.as_str() {
                "options" => settings.extend(options.map(|(name, value)| (name.to_owned(), value.to_owned()))),
                _ => settings.push((name, value)),
            }
        }
        Some(settings)
    }

    async fn serve_session(&self, stream: &mut DuplexStream, process: Process) {
        let (mut input, mut buffer) = (Vec::new(), vec![0; 16 * 1024]);
        let (notes, mut heard) = mpsc::unbounded_channel();
        let answers = Answers::default();
        let mut session = Session { process, prepared: BTreeMap::new(), bound: None, answers, notes };
        loop {
            while let Some(message) = wire::take(&mut input) {
                if self.handle(&mut session, message).await.is_err() {
                    return;
                }
                let out = std::mem::take(&mut session.answers).0;
                if stream.write_all(&out).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                biased;
                Some(note) = heard.recv() => {
                    self.stands().await;
                    let mut answers = Answers::default();
                    answers.notify(CHANNEL, &note);
                    if stream.write_all(&answers.0).await.is_err() { return }
                }
                read = stream.read(&mut buffer) => match read {
                    Ok(len @ 1..) => input.extend_from_slice(buffer.get(..len).unwrap_or_default()),
                    _ => return,
                },
            }
        }
    }

    /// Waits until the server does not stand still.
    async fn stands(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if !self.state.lock().is_hung {
                return;
            }
            changed.await;
        }
    }

    /// Works for the time that a statement takes.
    async fn work(&self) {
        let ms = {
            let mut rng = self.world.rng.lock();
            if rng.chance(15) { rng.range(5, 80) } else { rng.range(0, 2) }
        };
        if ms > 0 {
            sleep(Duration::from_millis(ms)).await;
        }
        self.stands().await;
    }

    async fn handle(&self, session: &mut Session, message: Message) -> Result<(), Over> {
        match message {
            Message::Parse { name, sql, kinds } => {
                let Some(found) = statement(&sql) else { return Err(self.lacks(&sql)) };
                let oids: Vec<u32> = found.parameters.iter().map(|kind| kind.oid()).collect();
                if !kinds.is_empty() && kinds != oids {
                    return Err(self.lacks(&format!("parameters {kinds:?} of {sql}")));
                }
                session.prepared.insert(name, found);
                session.answers.parsed();
            }
            Message::Bind { statement, values } => {
                let Some(found) = session.prepared.get(&statement).copied() else {
                    return Err(self.lacks(&format!("the prepared statement {statement}")));
                };
                let value =
                    |(at, kind): (usize, &Kind)| wire::parameter(*kind, values.get(at).and_then(Option::as_ref));
                let bound = found.parameters.iter().enumerate().map(value).collect();
                session.bound = Some((found, bound));
                session.answers.bound();
            }
            Message::Describe { name } => {
                if let Some(found) = session.prepared.get(&name) {
                    session.answers.described(found.parameters, found.columns);
                }
            }
            Message::Execute => {
                self.work().await;
                let Some((found, values)) = session.bound.take() else { return Err(Over) };
                let (rows, count) = self.run(&mut session.process, found, &values).ok_or(Over)?;
                rows.iter().for_each(|row| session.answers.row(row));
                session.answers.complete(&format!("{} {count}", found.tag));
            }
            Message::Sync => session.ready(),
            Message::Close { name } => {
                session.prepared.remove(&name);
                session.answers.closed();
            }
            Message::Query { sql } => {
                self.work().await;
                self.query(session, &sql)?;
                session.ready();
            }
            Message::Terminate => return Err(Over),
        }
        Ok(())
    }

    /// Runs commands of the simple protocol.
    fn query(&self, session: &mut Session, sql: &str) -> Result<(), Over> {
        for command in sql.split(';').map(str::trim).filter(|command| !command.is_empty()) {
            let unlocked = command.strip_prefix("SELECT pg_advisory_unlock(").and_then(|rest| rest.strip_suffix(')'));
            match command {
                "LISTEN sealway_revoked" => {
                    let mut state = self.state.lock();
                    if state.generation != session.process.generation {
                        return Err(Over);
                    }
                    state.listeners.push((session.process.id, session.notes.clone()));
                }
                "START TRANSACTION" => session.process.transaction = Some(Transaction::default()),
                "COMMIT" => self.commit(&mut session.process).ok_or(Over)?,
                "ROLLBACK" => session.process.transaction = None,
                "SET statement_timeout = 30000" | "RESET statement_timeout" => {}
                _ => {
                    let Some(lock) = unlocked.and_then(|number| number.parse().ok()) else {
                        return Err(self.lacks(command));
                    };
                    let mut state = self.state.lock();
                    if state.locks.get(&lock) == Some(&session.process.id) {
                        state.locks.remove(&lock);
                    }
                }
            }
            session.answers.complete(command.split(' ').next().unwrap_or_default());
        }
        Ok(())
    }

    /// Notes that the product has sent what the model does not know, which ends the run as a violation.
    fn lacks(&self, what: &str) -> Over {
        self.world.violated(&format!("the model of PostgreSQL lacks: {what}"));
        Over
    }
}

impl Session {
    fn ready(&mut self) {
        self.answers.ready(if self.process.transaction.is_some() { b'T' } else { b'I' });
    }
}
