//! Steady traffic while a test disturbs a server: clients that keep their connection, or open a new one for each request, and
//! count the failures.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};

use crate::raw_http::{Connection, Request};

/// Most failures that are kept as text.
const TOLD: usize = 10;

/// Running clients. They end with [`Steady::finish`], or with the process.
#[derive(Debug)]
pub struct Steady {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

/// The result of the clients.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Number of requests answered with 200.
    pub done: u64,
    /// The first few other results, a sentence each.
    pub failures: Vec<String>,
}

impl Steady {
    /// Starts `clients` that send `request` again and again. With `keep` they use a connection until the server announces its
    /// close (`Connection: close`); a connection that ends without it is a failure.
    pub fn start(to: SocketAddr, request: &Request, clients: usize, keep: bool) -> Self {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let clients = (0..clients)
            .map(|_| {
                let (stop, done, request) = (stop.clone(), done.clone(), request.clone());
                std::thread::spawn(move || client(to, &request, keep, &stop, &done))
            })
            .collect();
        Steady { stop, done, clients }
    }

    /// Returns the number of requests answered with 200 until now.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Waits until this number of further requests are answered.
    ///
    /// # Errors
    /// If they are not within half a minute.
    pub fn more(&self, count: u64) -> anyhow::Result<()> {
        let want = self.done() + count;
        let until = Instant::now() + Duration::from_secs(30);
        while self.done() < want {
            ensure!(Instant::now() < until, "{} requests are answered, and no more", self.done());
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Ends the clients, and returns the result.
    pub fn finish(self) -> Outcome {
        self.stop.store(true, Ordering::Relaxed);
        let mut failures: Vec<String> = Vec::new();
        for client in self.clients {
            failures.extend(client.join().unwrap_or_else(|_| vec!["a client panicked".into()]));
        }
        Outcome { done: self.done.load(Ordering::Relaxed), failures }
    }
}

impl Outcome {
    /// Asserts that there was no failure at all.
    pub fn assert_flawless(&self) {
        assert!(self.failures.is_empty(), "of {} requests: {:#?}", self.done, self.failures);
        assert!(self.done > 0, "nothing was asked");
    }
}

fn client(to: SocketAddr, request: &Request, keep: bool, stop: &AtomicBool, done: &AtomicU64) -> Vec<String> {
    let mut failures = Vec::new();
    let mut connection = None;
    while !stop.load(Ordering::Relaxed) && failures.len() < TOLD {
        match exchange(to, request, keep, &mut connection) {
            Ok(()) => {
                done.fetch_add(1, Ordering::Relaxed);
            }
            Err(err) => failures.push(format!("{err:#}")),
        }
    }
    failures
}

fn exchange(to: SocketAddr, request: &Request, keep: bool, kept: &mut Option<Connection>) -> anyhow::Result<()> {
    let mut connection = match kept.take() {
        Some(connection) => connection,
        None => Connection::open(to)?,
    };
    let request = request.clone().set("Connection", if keep { "keep-alive" } else { "close" });
    connection.write(&request.bytes())?;
    let answer = connection.read_answer("GET")?;
    if answer.status != 200 {
        bail!("answered {}: {}", answer.status, answer.text());
    }
    if keep && answer.header("connection").is_none_or(|value| !value.eq_ignore_ascii_case("close")) {
        *kept = Some(connection);
    }
    Ok(())
}
