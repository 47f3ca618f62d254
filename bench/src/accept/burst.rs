//! The client: opens many new connections at once, each for one request.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::task::spawn_local;

use super::service::COUNTS_PATH;
use crate::client::{Fault, H1, Tally, Target};

/// The longest time that an answer may take beyond the service's delay.
const PATIENCE: Duration = Duration::from_secs(60);

const REQUEST: &[u8] =
    b"GET /accept HTTP/1.1\r\nHost: localhost\r\nUser-Agent: sealway-bench\r\nAccept: */*\r\nConnection: close\r\n\r\n";

/// The result of one burst.
pub(super) struct Burst {
    pub(super) tally: Tally,
    /// Time of the last handshake, in milliseconds from the start of the burst.
    pub(super) connected_ms: f64,
}

/// The load that the client sends.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) bursts: usize,
    /// Number of requests in each burst.
    pub(super) size: usize,
    /// Concurrent handshakes of a burst.
    pub(super) opening: usize,
    /// Interval between the starts of two bursts.
    pub(super) every: Duration,
    /// The shortest time that an answer takes.
    pub(super) delay: Duration,
}

/// Sends all bursts and waits for all answers.
pub(super) async fn run(target: &Target, plan: &Plan) -> Vec<Burst> {
    let begin = tokio::time::Instant::now();
    let mut tasks = Vec::new();
    for index in 0..plan.bursts {
        tokio::time::sleep_until(begin + plan.every * index as u32).await;
        tasks.push(spawn_local(one(target.clone(), *plan)));
    }
    let mut done = Vec::new();
    for task in tasks {
        done.push(task.await.expect("a burst does not panic"));
    }
    done
}

async fn one(target: Target, plan: Plan) -> Burst {
    let burst = Rc::new(RefCell::new(Burst { tally: Tally::new(), connected_ms: 0.0 }));
    let turns = Rc::new(Semaphore::new(plan.opening));
    let start = Instant::now();
    let tasks: Vec<_> = (0..plan.size)
        .map(|_| {
            let (target, burst, turns) = (target.clone(), burst.clone(), turns.clone());
            spawn_local(async move {
                let request = request(&target, &burst, &turns, start);
                let done = tokio::time::timeout(plan.delay + PATIENCE, request).await;
                let done = done.unwrap_or_else(|_| Err(Fault::of("timeout", &"no answer in time")));
                if let Err(fault) = done {
                    burst.borrow_mut().tally.failed(fault);
                }
            })
        })
        .collect();
    for task in tasks {
        let _ = task.await;
    }
    burst.replace(Burst { tally: Tally::new(), connected_ms: 0.0 })
}

async fn request(target: &Target, burst: &RefCell<Burst>, turns: &Semaphore, start: Instant) -> Result<(), Fault> {
    let turn = turns.acquire().await.map_err(|error| Fault::of("turn", &error))?;
    let (stream, kind) = target.open().await?;
    drop(turn);
    {
        let mut burst = burst.borrow_mut();
        burst.tally.connected(kind);
        burst.connected_ms = start.elapsed().as_secs_f64() * 1000.0;
    }
    let mut connection = H1::new(stream);
    connection.exchange(REQUEST).await?;
    burst.borrow_mut().tally.answered(start.elapsed());
    connection.finish().await;
    Ok(())
}

/// Fetches the counts of the service.
pub(super) async fn counts(target: &Target) -> anyhow::Result<String> {
    let (mut stream, _) = target.open().await.map_err(|fault| anyhow::anyhow!("{fault}"))?;
    let request = format!("GET {COUNTS_PATH} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    let (_, body) = text.split_once("\r\n\r\n").context("the service's counts have no body")?;
    Ok(body.to_owned())
}
