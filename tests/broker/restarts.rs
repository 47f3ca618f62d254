//! The client of the broker while the broker is killed and restarted under load. Each call that fails returns a specific error,
//! and soon after the socket is back all callers are served. Also a broker that restarts itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sealway_client::broker::{Client, Code, Delivery, Options};
use sealway_testkit::broker::Broker;

use crate::BINARY;

const RESTARTS: usize = 20;
const WORKERS: usize = 8;
/// The longest time from the socket's return until every worker has had an answer.
const BACK_MAX: Duration = Duration::from_secs(2);
/// The deadline of a call, and the delay that a busy machine may add.
const DEADLINE: Duration = Duration::from_secs(5);
const SLACK: Duration = Duration::from_secs(3);

/// The counts of one worker.
#[derive(Default)]
struct Observation {
    succeeded: AtomicU64,
    failed: AtomicU64,
    unsent: AtomicU64,
}

/// Calls until the test sets `stop`. A failure that the death of a broker does not explain ends the test.
async fn work(client: Client, seen: Arc<Observation>, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let before = Instant::now();
        match client.hash("Sha256", &["one", "two"]).await {
            Ok(hashed) => {
                assert_eq!(hashed.outputs.len(), 2);
                assert_eq!(hashed.outputs[0].len(), 32);
                seen.succeeded.fetch_add(1, Ordering::Relaxed);
            }
            Err(err) => {
                assert!(matches!(err.code, Code::Unavailable | Code::DeadlineExceeded), "{err}");
                assert!(err.is_passing() && !err.text.is_empty() && err.operation == "Hash", "{err}");
                if err.sent == Delivery::No {
                    seen.unsent.fetch_add(1, Ordering::Relaxed);
                }
                seen.failed.fetch_add(1, Ordering::Relaxed);
                // A pause, so that callers of a dead broker do not spin.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        assert!(before.elapsed() < DEADLINE + SLACK, "a call took {:?}", before.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_are_back_within_two_seconds_of_each_of_twenty_crashes() {
    let folder = tempfile::tempdir().unwrap();
    let mut broker = Broker::start(BINARY, folder.path()).unwrap();
    let client = Client::new(Options::new(broker.socket()));
    let stop = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let seen = Arc::new(Observation::default());
            (seen.clone(), tokio::spawn(work(client.clone(), seen, stop.clone())))
        })
        .collect();
    let count = |pick: fn(&Observation) -> &AtomicU64| -> Vec<u64> {
        workers.iter().map(|(seen, _)| pick(seen).load(Ordering::Relaxed)).collect()
    };
    let mut slowest = Duration::ZERO;
    for restart in 0..RESTARTS {
        let before = count(|seen| &seen.succeeded);
        until(|| count(|seen| &seen.succeeded).iter().zip(&before).all(|(now, before)| now > before), BACK_MAX * 3)
            .await
            .unwrap_or_else(|| panic!("restart {restart}: the workers do not get on: {}", broker.tail()));
        broker = tokio::task::spawn_blocking(move || {
            broker.kill().unwrap();
            // Every second time the broker stays away longer than the retries of a call last, so that calls fail.
            std::thread::sleep(Duration::from_millis(if restart % 2 == 0 { 0 } else { 600 }));
            broker.start_again().unwrap();
            broker
        })
        .await
        .unwrap();
        let (back, before) = (Instant::now(), count(|seen| &seen.succeeded));
        until(|| count(|seen| &seen.succeeded).iter().zip(&before).all(|(now, before)| now > before), BACK_MAX)
            .await
            .unwrap_or_else(|| panic!("restart {restart}: not all are back after {BACK_MAX:?}: {}", broker.tail()));
        slowest = slowest.max(back.elapsed());
    }
    stop.store(true, Ordering::Relaxed);
    let (failed, unsent) = (count(|seen| &seen.failed), count(|seen| &seen.unsent));
    for (_, worker) in workers {
        worker.await.unwrap();
    }
    assert!(failed.iter().sum::<u64>() > 0, "nothing failed: it was not under load");
    assert!(unsent.iter().sum::<u64>() > 0, "an open breaker and a socket without a listener send nothing");
    println!("slowest return {slowest:?}, failed calls {}", failed.iter().sum::<u64>());
}

/// Polls until the condition holds. `None` if it does not hold in time.
async fn until(is_so: impl Fn() -> bool, time: Duration) -> Option<()> {
    let begin = Instant::now();
    while !is_so() {
        if begin.elapsed() > time {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Some(())
}

#[test]
fn a_broker_is_given_no_huge_page_and_is_still_the_process_that_was_started() {
    let folder = tempfile::tempdir().unwrap();
    let mut broker = Broker::start(BINARY, folder.path()).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/status", broker.id())).unwrap();
    // A kernel without huge pages does not report them.
    let huge = status.lines().find_map(|line| line.strip_prefix("THP_enabled:"));
    assert!(huge.is_none_or(|enabled| enabled.trim() == "0"), "{status}");
    let command = std::fs::read(format!("/proc/{}/cmdline", broker.id())).unwrap();
    assert!(command.starts_with(BINARY.as_bytes()), "{}", String::from_utf8_lossy(&command));
    broker.stop().unwrap();
}
