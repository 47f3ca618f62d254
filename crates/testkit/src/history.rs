//! Histories of stores: tasks use several instances at once on few keys, the recorder notes each result with its times, and the
//! checker in `tests/linearizability` decides whether an order explains them all.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use sealway_proto::session::Session;
use sealway_sessions::store::{ReserveError, Store};
use serde::Serialize;

use crate::daemon::{program, root};
use crate::store_contract::claims::{SessionPair, agree};
use crate::wire_client::{nonce, now_ms, random};

/// Sessions in use at a time, and the number of operations of a worker before one is replaced.
const SESSIONS: usize = 4;
const NONCES: usize = 6;
/// Time for which a key is in use: many operations on a key make the checker slow, few find nothing.
const KEY_LIFE: Duration = Duration::from_millis(400);
/// Most nonces and sessions that are tried again long after.
const OLD_MAX: usize = 2000;
const OLD_SESSIONS_MAX: usize = 24;
/// Time for which a nonce is not used after its first use: a process that knows the nonce rejects it by its own memory, and
/// only one that does not shows whether the shared store remembers.
const QUIET: Duration = Duration::from_millis(2500);
/// Lifetime of a session, in seconds; longer than any test.
const TTL_SEC: u32 = 3600;

/// One operation, in the format of the checker.
#[derive(Clone, Debug, Serialize)]
struct Record {
    process: usize,
    op: &'static str,
    key: String,
    input: String,
    output: String,
    unknown: bool,
    strict: bool,
    call_ns: u64,
    return_ns: u64,
}

/// A session that workers use.
#[derive(Debug)]
struct Key {
    session: Arc<Session>,
    value: String,
    is_put: AtomicBool,
    /// The only process that deletes the session, for most: a process that deletes by itself needs no notification.
    deleter: Option<usize>,
    since: Instant,
}

/// A nonce in use: its stamp may be ahead of the clock.
#[derive(Clone, Debug)]
struct Nonce {
    text: String,
    stamp_ms: u64,
    since: Instant,
}

/// Uses stores and records their results.
#[derive(Debug)]
pub struct Recorder {
    stores: Vec<Arc<dyn Store>>,
    started: Instant,
    records: Mutex<Vec<Record>>,
    sessions: Mutex<Vec<Arc<Key>>>,
    sessions_before: Mutex<Vec<Arc<Key>>>,
    nonces: Mutex<Vec<Nonce>>,
    old: Mutex<Vec<Nonce>>,
    /// The session whose nonces are reserved.
    scope: SessionPair,
    has_failed: AtomicBool,
    stopped: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn draw(below: usize) -> usize {
    (u64::from_le_bytes(random()) % below.max(1) as u64) as usize
}

impl Recorder {
    /// Creates a recorder of these instances, which share their servers.
    pub fn new(stores: Vec<Arc<dyn Store>>) -> Arc<Self> {
        Arc::new(Recorder {
            stores,
            started: Instant::now(),
            records: Mutex::default(),
            sessions: Mutex::default(),
            sessions_before: Mutex::default(),
            nonces: Mutex::default(),
            old: Mutex::default(),
            scope: agree(Some("recorder"), TTL_SEC, now_ms()),
            has_failed: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        })
    }

    /// Notes that data may have been lost from now on: an unused nonce may be rejected.
    pub fn a_fault_begins(&self) {
        self.has_failed.store(true, Ordering::SeqCst);
    }

    /// Lets `workers` tasks work on each instance until [`Recorder::stop`].
    pub fn run(self: &Arc<Self>, workers: usize) -> Vec<tokio::task::JoinHandle<()>> {
        let each = |process| {
            (0..workers).map(move |_| {
                let recorder = self.clone();
                tokio::spawn(async move {
                    while !recorder.stopped.load(Ordering::Relaxed) {
                        recorder.step(process).await;
                        tokio::time::sleep(Duration::from_millis(2 + draw(8) as u64)).await;
                    }
                })
            })
        };
        (0..self.stores.len()).flat_map(each).collect()
    }

    /// Stops the work of all tasks.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    async fn step(&self, process: usize) {
        match draw(10) {
            0..4 => self.reserve(process).await,
            4 => self.delete(process).await,
            _ => self.put_or_get(process).await,
        }
    }

    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Records an operation; no output means that it failed.
    fn write(&self, op: &'static str, process: usize, key: &str, input: &str, output: Option<String>, call_ns: u64) {
        let return_ns = self.now_ns();
        lock(&self.records).push(Record {
            process,
            op,
            key: key.to_owned(),
            input: input.to_owned(),
            unknown: output.is_none(),
            output: output.unwrap_or_default(),
            strict: !self.has_failed.load(Ordering::SeqCst),
            call_ns,
            return_ns,
        });
    }

    /// Returns one of the sessions in use; now and then a new one.
    fn session(&self) -> Arc<Key> {
        let mut sessions = lock(&self.sessions);
        let mut old = lock(&self.sessions_before);
        let (gone, kept) = sessions.drain(..).partition(|key| key.since.elapsed() > KEY_LIFE * 4);
        *sessions = kept;
        old.extend(gone);
        let over = old.len().saturating_sub(OLD_SESSIONS_MAX);
        old.drain(..over);
        // Long after its deletion too, a session must be gone everywhere.
        if !old.is_empty() && draw(4) == 0 {
            return old[draw(old.len())].clone();
        }
        if sessions.len() < SESSIONS {
            let agreed = agree(Some(&nonce()), TTL_SEC, now_ms());
            let key = Key {
                value: agreed.server.record().client_id.as_deref().unwrap_or_default().to_owned(),
                session: agreed.server,
                is_put: AtomicBool::new(false),
                deleter: (draw(4) > 0).then(|| draw(self.stores.len())),
                since: Instant::now(),
            };
            sessions.push(Arc::new(key));
        }
        sessions[draw(sessions.len())].clone()
    }

    async fn put_or_get(&self, process: usize) {
        let key = self.session();
        let (id, store) = (*key.session.id(), &self.stores[process]);
        let call_ns = self.now_ns();
        // The first task to come puts a session, once in its lifetime; the others look for it meanwhile.
        if !key.is_put.swap(true, Ordering::SeqCst) {
            let put = store.put(key.session.clone()).await;
            return self.write("put", process, id.as_str(), &key.value, put.ok().map(|()| "ok".into()), call_ns);
        }
        let got = store.get(&id).await.ok().map(|found| match found {
            None => String::new(),
            Some(session) => value(&session, &key),
        });
        self.write("get", process, id.as_str(), "", got, call_ns);
    }

    async fn delete(&self, process: usize) {
        let key = self.session();
        // Young ones are not deleted, so that most operations find something.
        if key.since.elapsed() < KEY_LIFE || key.deleter.is_some_and(|deleter| deleter != process) {
            return;
        }
        let call_ns = self.now_ns();
        let deleted = self.stores[process].delete(key.session.id()).await;
        let output = deleted.ok().map(|was_there| was_there.to_string());
        self.write("delete", process, key.session.id().as_str(), "", output, call_ns);
    }

    /// Returns one of the nonces in use, or one of long ago.
    fn nonce(&self) -> Nonce {
        let mut nonces = lock(&self.nonces);
        let mut old = lock(&self.old);
        let (gone, kept) = nonces.drain(..).partition(|nonce| nonce.since.elapsed() > KEY_LIFE);
        *nonces = kept;
        old.extend(gone);
        let over = old.len().saturating_sub(OLD_MAX);
        old.drain(..over);
        let quiet = old.partition_point(|nonce| nonce.since.elapsed() > QUIET);
        if quiet > 0 && draw(3) == 0 {
            return old[draw(quiet)].clone();
        }
        let fresh = || {
            let stamp_ms = now_ms() + [0, 0, 20_000, 290_000][draw(4)];
            Nonce { text: nonce(), stamp_ms, since: Instant::now() }
        };
        if draw(20) == 0 {
            let once = fresh();
            old.push(once.clone());
            return once;
        }
        if nonces.len() < NONCES {
            nonces.push(fresh());
        }
        nonces[draw(nonces.len())].clone()
    }

    async fn reserve(&self, process: usize) {
        let nonce = self.nonce();
        let call = self.scope.call(&nonce.text, nonce.stamp_ms, now_ms());
        let call_ns = self.now_ns();
        let output = match self.stores[process].reserve(call.claim()).await {
            Ok(_) => Some("fresh"),
            Err(ReserveError::Replayed) => Some("replayed"),
            Err(ReserveError::Full | ReserveError::Unavailable(_)) => None,
        };
        self.write("reserve", process, &nonce.text, "", output.map(str::to_owned), call_ns);
    }

    /// Returns the counts of the recorded operations.
    pub fn counts(&self) -> Counts {
        let records = lock(&self.records);
        let of = |op, output: &str| records.iter().filter(|r| r.op == op && !r.unknown && r.output == output).count();
        Counts {
            operations: records.len(),
            unknown: records.iter().filter(|r| r.unknown).count(),
            puts: of("put", "ok"),
            found: records.iter().filter(|r| r.op == "get" && !r.output.is_empty()).count(),
            deleted: of("delete", "true"),
            fresh: of("reserve", "fresh"),
            replayed: of("reserve", "replayed"),
        }
    }

    /// Writes the history as JSON lines and runs the checker.
    ///
    /// # Errors
    /// The history is not linearizable, with the stories that no order explains; or Go is missing.
    pub fn check(&self, folder: &Path) -> anyhow::Result<String> {
        let file = folder.join("history.jsonl");
        let mut out = BufWriter::new(File::create(&file)?);
        for record in lock(&self.records).iter() {
            serde_json::to_writer(&mut out, record)?;
            out.write_all(b"\n")?;
        }
        out.flush()?;
        let checker = folder.join("linearizability");
        go(&["build", "-buildvcs=false", "-o", &checker.to_string_lossy(), "."])?;
        let output = Command::new(&checker).arg(&file).output()?;
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        ensure!(output.status.success(), "{said}");
        Ok(said)
    }
}

/// The counts of operations, so that a test can require enough of each.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// The number of all operations.
    pub operations: usize,
    /// Operations that failed, and may have happened or not.
    pub unknown: usize,
    /// Number of sessions that were put.
    pub puts: usize,
    /// Number of sessions that were found.
    pub found: usize,
    /// Sessions that were deleted and had existed.
    pub deleted: usize,
    /// Number of nonces that were granted.
    pub fresh: usize,
    /// Number of nonces that were rejected.
    pub replayed: usize,
}

/// Returns the client id of a session, if the rest of its record matches too.
fn value(found: &Session, key: &Key) -> String {
    let (found, put) = (found.record(), key.session.record());
    let is_same = found.id == put.id
        && found.expires_ms == put.expires_ms
        && found.subject == put.subject
        && found.key.expose() == put.key.expose();
    if is_same { found.client_id.as_deref().unwrap_or_default().to_owned() } else { "another record or key".into() }
}

/// Runs `go` in the checker's folder.
///
/// # Errors
/// If Go is missing or fails, with what it says.
pub fn go(arguments: &[&str]) -> anyhow::Result<String> {
    let go = program("go")?;
    let output = Command::new(go).args(arguments).current_dir(root().join("tests/linearizability")).output();
    let output = output.context("cannot start go")?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if !output.status.success() {
        bail!("go {}: {said}", arguments.join(" "));
    }
    Ok(said)
}
