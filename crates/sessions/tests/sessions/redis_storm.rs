//! Redis dies, forgets, stalls and returns at random, and processes restart, while many clients send the same nonces to
//! all of them: none is granted twice.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::redis_desk::{Desk, claim, nonce, now, reserve};
use sealway_sessions::store::redis::Redis;
use sealway_testkit::redis::Redis as Server;
use sealway_testkit::store_contract::claims::random;

const STORM: Duration = Duration::from_secs(20);

/// Returns a random number below `end`.
fn draw(end: usize) -> usize {
    usize::from(random()[0]) * 256 % end.max(1) + usize::from(random()[1]) % end.max(1)
}

#[derive(Default)]
struct Traffic {
    /// Nonces that were sent, each with its stamp.
    nonces: Mutex<Vec<(String, u64)>>,
    granted: Mutex<HashMap<String, Vec<String>>>,
    asked: AtomicU64,
    is_over: AtomicBool,
}

async fn send(sent: &Traffic, processes: &[Mutex<Arc<Redis>>]) {
    while !sent.is_over.load(Ordering::SeqCst) {
        let known = {
            let nonces = sent.nonces.lock().unwrap();
            // Mostly recent ones; a replay is sent soon, or after a loss.
            let from = nonces.len().saturating_sub(400);
            nonces.get(from + draw(400) % 400).cloned()
        };
        let (nonce, stamp_ms) = match known {
            Some(known) if draw(3) > 0 => known,
            _ => {
                let new = (nonce(), now() - 1500 + draw(7) as u64 * 1000);
                sent.nonces.lock().unwrap().push(new.clone());
                new
            }
        };
        let index = draw(processes.len()) % processes.len();
        let store = processes[index].lock().unwrap().clone();
        sent.asked.fetch_add(1, Ordering::Relaxed);
        if reserve(&store, &claim(&nonce, stamp_ms)).await.is_ok() {
            let how = format!("by {index} ({:p}) at {}, stamped {stamp_ms}", Arc::as_ptr(&store), now());
            let mut granted = sent.granted.lock().unwrap();
            let times = granted.entry(nonce).or_default();
            times.push(how);
            assert_eq!(times.len(), 1, "granted twice: {times:#?}");
        }
        tokio::task::yield_now().await;
    }
}

async fn rage(server: &mut Server, desk: &Desk, processes: &[Mutex<Arc<Redis>>]) {
    let start = Instant::now();
    let mut turn = 0;
    while start.elapsed() < STORM {
        match turn % 7 {
            0 => drop(server.cli(&["FLUSHALL"])),
            1 => server.start_again_empty().unwrap(),
            2 => {
                let _ = server.save();
                tokio::time::sleep(Duration::from_millis(100)).await;
                server.start_again().unwrap();
            }
            3 => drop(server.cli(&["SCRIPT", "FLUSH"])),
            4 => {
                server.pause().unwrap();
                tokio::time::sleep(Duration::from_millis(700)).await;
                server.resume().unwrap();
            }
            5 => {
                server.kill().unwrap();
                tokio::time::sleep(Duration::from_millis(200)).await;
                server.start_again_empty().unwrap();
            }
            _ => drop(server.cli(&["CLIENT", "KILL", "TYPE", "normal"])),
        }
        // One process restarts: its memory is empty.
        let new = desk.open().await;
        *processes[turn % processes.len()].lock().unwrap() = new;
        tokio::time::sleep(Duration::from_millis(700)).await;
        turn += 1;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_a_storm_of_faults_no_nonce_is_granted_twice() {
    let mut server = Server::start().unwrap();
    let desk = Desk::new(&server.url()).durable();
    let mut processes = Vec::new();
    for _ in 0..3 {
        processes.push(Mutex::new(desk.open().await));
    }
    let (processes, sent) = (Arc::new(processes), Arc::new(Traffic::default()));
    let senders: Vec<_> = (0..8)
        .map(|_| {
            let (processes, sent) = (processes.clone(), sent.clone());
            tokio::spawn(async move { send(&sent, &processes).await })
        })
        .collect();
    rage(&mut server, &desk, &processes).await;
    sent.is_over.store(true, Ordering::SeqCst);
    for sender in senders {
        sender.await.unwrap();
    }
    let (granted, asked) = (sent.granted.lock().unwrap().len(), sent.asked.load(Ordering::Relaxed));
    println!("{granted} granted of {asked} asked");
    assert!(granted > 200, "too few were granted to show anything: {granted} of {asked}");
}
