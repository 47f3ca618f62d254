//! The closed model against a server in the test's process, which counts what came.

mod server;

use std::sync::atomic::Ordering;
use std::time::Duration;

use sealway_load::engine::{Ended, Outcome, Run};
use sealway_load::plan::{Arrival, Plan, Steps};
use sealway_load::record::{Class, Counts, Phase};

fn run(plan: Plan) -> Outcome {
    let run = Run::start(plan).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run.outcome())
}

fn workers(count: u32, loops: u64) -> Arrival {
    Arrival::Closed { concurrency: Steps::constant(f64::from(count)), ramp_share: 0.0, loops }
}

#[test]
fn so_many_requests_are_made_as_were_asked_for_over_all_threads() {
    let (address, seen) = server::start(|_| (server::answer(200, "hello"), true));
    let mut plan = server::plan(address);
    plan.stop.requests = Some(1_001);
    plan.threads = 3;
    plan.arrival = workers(7, 0);
    let outcome = run(plan);
    let counts = outcome.totals.sum.counts;
    assert_eq!(outcome.ended, Ended::Done);
    assert_eq!((counts.due, counts.started, counts.succeeded, counts.failed), (1_001, 1_001, 1_001, 0));
    assert_eq!(seen.requests.load(Ordering::SeqCst), 1_001);
    assert_eq!(counts.connections_opened, seen.connections.load(Ordering::SeqCst));
    assert_eq!(outcome.totals.sum.times(Phase::Response).len(), 1_001);
    assert_eq!(outcome.totals.sum.statuses(), [(200, 1_001)]);
}

#[test]
fn the_seconds_are_the_totals_and_what_is_under_way_at_the_end_is_told() {
    let (address, seen) = server::start(|_| {
        std::thread::sleep(Duration::from_millis(30));
        (server::answer(200, "hello"), true)
    });
    let mut plan = server::plan(address);
    plan.stop.duration = Some(Duration::from_millis(2_300));
    plan.arrival = workers(5, 0);
    let outcome = run(plan);
    let mut sum = Counts::default();
    outcome.seconds.iter().for_each(|second| sum.add(&second.counts));
    assert_eq!(sum, outcome.totals.sum.counts);
    assert_eq!(outcome.seconds.len(), 3);
    assert_eq!(sum.started, seen.requests.load(Ordering::SeqCst));
    assert_eq!(sum.started, sum.succeeded + sum.failed + sum.unfinished);
    assert!((1..=5).contains(&sum.unfinished), "{sum:?}");
    assert_eq!(outcome.totals.measured, Duration::from_millis(2_300));
}

#[test]
fn each_worker_makes_its_loops_and_no_more() {
    let (address, seen) = server::start(|_| (server::answer(204, ""), true));
    let mut plan = server::plan(address);
    plan.arrival = workers(5, 40);
    let outcome = run(plan);
    assert_eq!((outcome.ended, outcome.totals.sum.counts.succeeded), (Ended::Done, 200));
    assert_eq!(seen.connections.load(Ordering::SeqCst), 5);
}

#[test]
fn failures_are_counted_by_class_and_the_connection_is_opened_anew() {
    let (address, seen) = server::start(|number| match number % 4 {
        0 => (server::answer(500, ""), true),
        1 => (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort".to_vec(), false),
        2 => (b"SSH-2.0-other\r\n\r\n".to_vec(), false),
        _ => (server::answer(200, "hello"), true),
    });
    let mut plan = server::plan(address);
    plan.stop.requests = Some(400);
    plan.threads = 1;
    plan.arrival = workers(1, 0);
    let outcome = run(plan);
    let sum = &outcome.totals.sum;
    assert_eq!((sum.counts.succeeded, sum.counts.failed), (100, 300));
    for class in [Class::Status, Class::Closed, Class::Malformed] {
        assert_eq!(sum.faults[class.index()], 100, "{}: {:?}", class.name(), sum.faults());
    }
    assert_eq!(sum.counts.connections_opened, seen.connections.load(Ordering::SeqCst));
}

#[test]
fn a_target_that_refuses_connections_ends_the_run_with_a_reason() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut plan = server::plan(address);
    plan.stop.duration = Some(Duration::from_secs(60));
    let outcome = run(plan);
    let Ended::Failed(reason) = outcome.ended else { panic!("{:?}", outcome.ended) };
    assert!(reason.contains("refused") && reason.contains(&address.to_string()), "{reason}");
    assert!(outcome.elapsed < Duration::from_secs(10));
}
