//! The open loop and bursts against a server in the test's process.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod server;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use sealway_load::engine::{EndReason, Limit, Outcome, Run};
use sealway_load::plan::{Arrival, Plan, Spacing, Stage, Steps};
use sealway_load::record::{Counts, Phase};

fn run(plan: Plan) -> Outcome {
    let run = Run::start(plan).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run.outcome())
}

fn rate(steps: Steps, spacing: Spacing, in_flight_max: usize) -> Arrival {
    Arrival::Open { rate: steps, spacing, in_flight_max }
}

/// Sum of the counts of all seconds.
fn sum(outcome: &Outcome) -> Counts {
    let mut sum = Counts::default();
    outcome.seconds.iter().for_each(|second| sum.add(&second.counts));
    sum
}

#[test]
fn a_ramp_offers_the_area_under_it() {
    let (address, seen) = server::start(|_| (server::answer(200, "hello"), true));
    let mut plan = server::plan(address);
    let second = Duration::from_secs(1);
    let up = Stage { value: 200.0, length: second, ramp: true };
    let stay = Stage { value: 200.0, length: second, ramp: false };
    plan.arrival = rate(Steps(vec![up, stay]), Spacing::Even, 1000);
    plan.stop.duration = Some(second * 2);
    let outcome = run(plan);
    let counts = outcome.totals.sum.counts;
    // A thread delayed at the very end may leave some requests unsent: they are reported.
    assert_eq!((counts.due, counts.started + counts.unsent), (300, 300), "{counts:?}");
    assert!(counts.unsent < 10, "{counts:?}");
    assert_eq!(counts.started, counts.succeeded + counts.unfinished);
    assert!(seen.requests.load(Ordering::SeqCst) <= counts.started);
    assert_eq!(sum(&outcome), counts);
    assert_eq!(outcome.seconds.len(), 2);
    assert_ne!(outcome.limit, Limit::Target, "{:?}", outcome.warnings);
}

#[test]
fn a_stall_is_in_the_response_time_of_all_that_were_due_meanwhile_and_in_the_service_time_of_few() {
    // Request 100 delays the only worker for a second, in which 200 requests are due.
    let (address, _) = server::start(|number| {
        std::thread::sleep(Duration::from_millis(if number == 100 { 1000 } else { 0 }));
        (server::answer(200, "hello"), true)
    });
    let mut plan = server::plan(address);
    plan.threads = 1;
    plan.arrival = rate(Steps::constant(200.0), Spacing::Even, 1);
    plan.stop.requests = Some(400);
    let outcome = run(plan);
    let (response, service) = (outcome.totals.sum.times(Phase::Response), outcome.totals.sum.times(Phase::Service));
    let beyond = |times: &sealway_load::record::Times| times.histogram().count_between(300_000_000, u64::MAX);
    assert_eq!((outcome.totals.sum.counts.succeeded, response.len()), (400, 400));
    assert_eq!(beyond(service), 1);
    assert!(beyond(response) >= 130, "{}", beyond(response));
}

#[test]
fn an_exact_number_is_sent_over_all_threads_and_a_poisson_process_takes_its_time() {
    let (address, seen) = server::start(|_| (server::answer(200, "hello"), true));
    let mut plan = server::plan(address);
    plan.arrival = rate(Steps::constant(500.0), Spacing::Poisson, 1000);
    plan.stop.requests = Some(501);
    plan.threads = 3;
    let outcome = run(plan);
    assert_eq!(outcome.totals.sum.counts.succeeded, 501);
    assert_eq!(seen.requests.load(Ordering::SeqCst), 501);
    // 501 gaps of 2 ms with a deviation of 45 ms in all.
    assert!((0.75..1.6).contains(&outcome.elapsed.as_secs_f64()), "{:?}", outcome.elapsed);
}

#[test]
fn unsent_requests_are_counted_and_the_started_rate_is_reported() {
    let (address, seen) = server::start(|_| {
        std::thread::sleep(Duration::from_millis(100));
        (server::answer(200, "hello"), true)
    });
    let mut plan = server::plan(address);
    plan.arrival = rate(Steps::constant(400.0), Spacing::Even, 4);
    plan.stop.duration = Some(Duration::from_secs(1));
    let outcome = run(plan);
    let counts = outcome.totals.sum.counts;
    assert_eq!((counts.due, counts.due - counts.started), (400, counts.unsent));
    assert!(seen.requests.load(Ordering::SeqCst) <= counts.started);
    assert!(outcome.seconds.iter().all(|second| second.in_flight <= 4));
    // On a machine busy with other work, the limit names that instead of the bound.
    assert!(matches!(outcome.limit, Limit::Generator(_)), "{:?}", outcome.limit);
    assert!(outcome.warnings.iter().any(|warning| warning.contains("400.0 requests/s were due")));
}

#[test]
fn the_warm_up_is_in_the_seconds_and_not_in_the_totals() {
    let (address, seen) = server::start(|_| (server::answer(200, "hello"), true));
    let mut plan = server::plan(address);
    plan.arrival = rate(Steps::constant(100.0), Spacing::Even, 100);
    plan.warm_up = Duration::from_millis(1_500);
    plan.stop.requests = Some(70);
    let outcome = run(plan);
    assert_eq!(outcome.totals.sum.counts.succeeded, 70);
    assert_eq!(outcome.totals.sum.times(Phase::Response).len(), 70);
    assert_eq!((sum(&outcome).due, seen.requests.load(Ordering::SeqCst)), (220, 220));
    let warm: Vec<_> = outcome.seconds.iter().map(|second| second.warm_up).collect();
    assert_eq!(&warm[..3], [true, true, false]);
    assert_eq!(outcome.seconds[1].length, Duration::from_millis(500));
    assert_eq!(outcome.seconds[1].at, Duration::from_millis(1_500));
}

#[test]
fn bursts_open_a_connection_for_each_request_and_end_when_all_are_answered() {
    let (address, seen) = server::start(|_| {
        std::thread::sleep(Duration::from_millis(200));
        (server::answer(200, "hello"), false)
    });
    let mut plan = server::plan(address);
    plan.arrival = Arrival::Bursts { burst: 31, every: Duration::from_millis(400), times: 3 };
    plan.connections.reuse = false;
    let before = Instant::now();
    let outcome = run(plan);
    assert!(before.elapsed() > Duration::from_millis(1_000));
    let counts = outcome.totals.sum.counts;
    assert_eq!((outcome.ended, counts.due, counts.succeeded, counts.connections_opened), (EndReason::Done, 93, 93, 93));
    assert_eq!(seen.connections.load(Ordering::SeqCst), 93);
}

#[test]
fn a_late_answer_is_a_timeout_however_late() {
    let (address, _) = server::start(|number| {
        std::thread::sleep(Duration::from_millis(if number % 2 == 0 { 300 } else { 0 }));
        (server::answer(200, "hello"), true)
    });
    let mut plan = server::plan(address);
    plan.arrival = rate(Steps::constant(50.0), Spacing::Even, 100);
    plan.timeouts.request = Duration::from_millis(150);
    plan.stop.requests = Some(60);
    let outcome = run(plan);
    let sum = &outcome.totals.sum;
    assert_eq!((sum.counts.succeeded, sum.counts.failed), (30, 30), "{:?}", sum.faults());
    let failed = sum.times(Phase::Failed).quantiles();
    assert!(failed.min_ns >= 150_000_000 && failed.p50_ns < 160_000_000, "{failed:?}");
}

#[test]
fn a_connection_that_the_server_closed_between_requests_is_opened_anew_without_a_failure() {
    // The server closes after each answer without announcing it.
    let (address, seen) = server::start(|_| (server::answer(200, "hello"), false));
    let mut plan = server::plan(address);
    plan.threads = 1;
    plan.request.method = http::Method::POST;
    plan.arrival = rate(Steps::constant(20.0), Spacing::Even, 1);
    plan.stop.requests = Some(20);
    let outcome = run(plan);
    let counts = outcome.totals.sum.counts;
    assert_eq!((counts.succeeded, counts.connections_opened, counts.reconnections), (20, 20, 19));
    assert_eq!(seen.connections.load(Ordering::SeqCst), 20);
}

#[test]
fn a_pause_starts_nothing_and_is_not_made_up_for_and_a_stop_ends_the_run() {
    let (address, seen) = server::start(|_| (server::answer(200, "hello"), true));
    let mut plan = server::plan(address);
    plan.arrival = rate(Steps::constant(200.0), Spacing::Even, 100);
    let run = Run::start(plan).unwrap();
    let control = run.control();
    let before = Instant::now();
    std::thread::sleep(Duration::from_millis(300));
    control.pause(true);
    let mut active = before.elapsed();
    std::thread::sleep(Duration::from_millis(100));
    let at_pause = seen.requests.load(Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(seen.requests.load(Ordering::SeqCst), at_pause);
    control.pause(false);
    let before = Instant::now();
    std::thread::sleep(Duration::from_millis(500));
    control.stop();
    active += before.elapsed();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(run.outcome());
    let all = outcome.totals.sum.counts.due;
    assert_eq!(outcome.ended, EndReason::Stopped);
    let paused = 0.6 * 200.0;
    let planned = active.as_secs_f64() * 200.0;
    assert!((all as f64) < planned + paused / 2.0 && all > 50, "{all} in {active:?} at 200 a second");
}

#[test]
fn a_stop_ends_a_run_that_is_paused_and_starts_nothing_more() {
    let closed = Arrival::Closed { concurrency: Steps::constant(8.0), ramp_share: 0.0, loops: 0 };
    for arrival in [rate(Steps::constant(200.0), Spacing::Even, 100), closed] {
        let (address, seen) = server::start(|_| {
            std::thread::sleep(Duration::from_millis(5));
            (server::answer(200, "hello"), true)
        });
        let mut plan = server::plan(address);
        // Each thread has to leave the pause by itself.
        plan.threads = 4;
        plan.arrival = arrival;
        let run = Run::start(plan).unwrap();
        let control = run.control();
        std::thread::sleep(Duration::from_millis(200));
        control.pause(true);
        std::thread::sleep(Duration::from_millis(300));
        let at_pause = seen.requests.load(Ordering::SeqCst);
        control.stop();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ended = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(10), run.outcome()).await });
        let outcome = ended.expect("it ends");
        let counts = outcome.totals.sum.counts;
        assert_eq!((outcome.ended, counts.unfinished), (EndReason::Stopped, 0), "{counts:?}");
        assert_eq!((counts.started, seen.requests.load(Ordering::SeqCst)), (at_pause, at_pause));
    }
}

#[test]
fn a_pause_between_two_bursts_takes_nothing_from_the_next() {
    let (address, _) = server::start(|_| (server::answer(200, "hello"), true));
    let mut plan = server::plan(address);
    plan.arrival = Arrival::Bursts { burst: 4, every: Duration::from_millis(900), times: 2 };
    let run = Run::start(plan).unwrap();
    let control = run.control();
    std::thread::sleep(Duration::from_millis(200));
    control.pause(true);
    std::thread::sleep(Duration::from_millis(200));
    control.pause(false);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let counts = runtime.block_on(run.outcome()).totals.sum.counts;
    assert_eq!((counts.due, counts.succeeded), (8, 8));
}

#[test]
fn a_burst_waits_for_none_of_an_earlier_one_however_unevenly_threads_share_it() {
    let (address, _) = server::start(|_| {
        std::thread::sleep(Duration::from_millis(1_000));
        (server::answer(200, "hello"), true)
    });
    let mut plan = server::plan(address);
    // One thread has two of three, so six of nine, which is more than half.
    plan.arrival = Arrival::Bursts { burst: 3, every: Duration::from_millis(100), times: 3 };
    let outcome = run(plan);
    let response = outcome.totals.sum.times(Phase::Response).quantiles();
    assert_eq!(response.count, 9);
    assert!(response.max_ns < 1_500_000_000, "{response:?}");
}

#[test]
fn a_rate_that_goes_down_to_nothing_is_measured_to_the_end_of_its_stage() {
    let (address, _) = server::start(|_| (server::answer(200, "hello"), true));
    let mut plan = server::plan(address);
    let stage = |value| Stage { value, length: Duration::from_millis(500), ramp: false };
    plan.arrival = rate(Steps(vec![stage(100.0), stage(0.0)]), Spacing::Even, 100);
    plan.stop.duration = Some(Duration::from_secs(1));
    let outcome = run(plan);
    assert_eq!((outcome.totals.sum.counts.due, outcome.totals.measured), (50, Duration::from_secs(1)));
}

#[test]
fn a_run_ends_with_the_last_of_its_requests_though_a_thread_has_none_before_the_end() {
    let (address, _) = server::start(|_| (server::answer(200, "hello"), true));
    let mut plan = server::plan(address);
    // The first thread's request is due after half a second, the second thread's after one and a half.
    plan.arrival = rate(Steps::constant(1.0), Spacing::Even, 100);
    plan.stop.requests = Some(1);
    plan.stop.duration = Some(Duration::from_millis(1_400));
    plan.timeouts.request = Duration::from_millis(500);
    let outcome = run(plan);
    assert_eq!(outcome.totals.sum.counts.due, 1);
    assert!(outcome.elapsed < Duration::from_millis(1_390), "{:?}", outcome.elapsed);
}
