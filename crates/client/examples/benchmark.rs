//! `benchmark N [--json]`: N sealed purchases after a warm-up, `BENCHMARK_CONCURRENCY` (default 1) at a time;
//! throughput and percentiles. Progress goes to standard error.

#[path = "purchase/mod.rs"]
mod purchase;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use purchase::{Setup, fail, milliseconds, number, say, warn};
use sealway_client::Client;
use serde_json::json;

const CALLS_MAX: usize = 10_000_000;
const CONCURRENCY_MAX: usize = 1000;
/// Interval of progress messages on standard error.
const PROGRESS: Duration = Duration::from_secs(1);

/// Results of a number of calls.
struct Outcome {
    /// Durations of the successful calls, sorted.
    took: Vec<Duration>,
    failed: usize,
    elapsed: Duration,
}

#[tokio::main]
async fn main() -> ExitCode {
    let (setup, arguments) = match Setup::read() {
        Ok(setup) => setup,
        Err(what) => return fail(2, &what),
    };
    let plan = match &arguments[..] {
        [count] => number("N", count, 1..=CALLS_MAX),
        _ => Err("usage: benchmark N [--json]".into()),
    };
    let concurrency = std::env::var("BENCHMARK_CONCURRENCY").unwrap_or_else(|_| "1".into());
    let concurrency = number("BENCHMARK_CONCURRENCY", &concurrency, 1..=CONCURRENCY_MAX);
    let (count, concurrency) = match plan.and_then(|count| Ok((count, concurrency?))) {
        Ok(plan) => plan,
        Err(what) => return fail(2, &what),
    };
    let client = match setup.client() {
        Ok(client) => client,
        Err(err) => return fail(2, &err.to_string()),
    };
    let setup = Arc::new(setup);
    let warmup = (count / 10).clamp(1, 100);
    if let Err(err) = setup.whole(&client).await {
        return fail(1, &format!("the first call failed: {err}"));
    }
    run(&setup, &client, warmup - 1, concurrency, false).await;
    let outcome = run(&setup, &client, count, concurrency, true).await;
    report(&setup, &outcome, count, concurrency, warmup);
    if outcome.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn run(setup: &Arc<Setup>, client: &Client, count: usize, concurrency: usize, is_told: bool) -> Outcome {
    let (begun, done, start) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Instant::now());
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..concurrency {
        let (setup, client, begun, done) = (setup.clone(), client.clone(), begun.clone(), done.clone());
        workers.spawn(async move {
            let (mut took, mut failed) = (Vec::new(), 0);
            while begun.fetch_add(1, Ordering::Relaxed) < count {
                let sent = Instant::now();
                match setup.whole(&client).await {
                    Ok(answer) if answer.status().is_success() => took.push(sent.elapsed()),
                    Ok(answer) => {
                        failed += 1;
                        warn(&format!("a call was answered {}", answer.status()));
                    }
                    Err(err) => {
                        failed += 1;
                        warn(&format!("a call failed: {err}"));
                    }
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
            (took, failed)
        });
    }
    let (mut took, mut failed) = (Vec::with_capacity(count), 0);
    let mut ticks = tokio::time::interval(PROGRESS);
    ticks.tick().await;
    loop {
        tokio::select! {
            joined = workers.join_next() => match joined {
                Some(Ok((mut times, failures))) => {
                    took.append(&mut times);
                    failed += failures;
                }
                Some(Err(err)) => warn(&format!("a worker ended: {err}")),
                None => break,
            },
            _ = ticks.tick() => if is_told {
                warn(&format!("{} of {count}", done.load(Ordering::Relaxed)));
            },
        }
    }
    let elapsed = start.elapsed();
    took.sort_unstable();
    Outcome { took, failed, elapsed }
}

/// Smallest value that `percent` % of all values do not exceed.
fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    milliseconds(sorted.get(rank - 1).copied().unwrap_or_default())
}

fn report(setup: &Setup, outcome: &Outcome, count: usize, concurrency: usize, warmup: usize) {
    let Outcome { took, failed, elapsed } = outcome;
    let sum: Duration = took.iter().sum();
    let mean = milliseconds(sum) / (took.len().max(1) as f64);
    let throughput = took.len() as f64 / elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let [p50, p90, p95, p99] = [50, 90, 95, 99].map(|percent| percentile(took, percent));
    let (min, max) = (percentile(took, 0), percentile(took, 100));
    setup.narrate(&format!("{count} calls, {concurrency} at a time, {failed} failed: {throughput:.0} a second"));
    setup.narrate(&format!(
        "latency in ms: min {min:.3}, mean {mean:.3}, p50 {p50:.3}, p90 {p90:.3}, p95 {p95:.3}, p99 {p99:.3}, max {max:.3}"
    ));
    if setup.is_json {
        let line = json!({
            "program": "benchmark",
            "language": "rust",
            "wire": setup.wire.number(),
            "n": count,
            "concurrency": concurrency,
            "warmup": warmup,
            "failed": failed,
            "seconds": elapsed.as_secs_f64(),
            "throughput_per_s": throughput,
            "latency_ms": {"min": min, "mean": mean, "p50": p50, "p90": p90, "p95": p95, "p99": p99, "max": max},
        });
        say(&line.to_string());
    }
}
