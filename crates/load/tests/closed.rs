//! The closed loop against a server in the test's process, which counts its requests.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod server;

use std::sync::atomic::Ordering;
use std::time::Duration;

use sealway_load::engine::{EndReason, Limit, Outcome, Run};
use sealway_load::plan::{Arrival, Plan, Stage, Steps};
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
fn the_requested_number_of_requests_is_sent_over_all_threads() {
    let (address, seen) = server::start(|_| (server::answer(200, "hello"), true));
    let mut plan = server::plan(address);
    plan.stop.requests = Some(1_001);
    plan.threads = 3;
    plan.arrival = workers(7, 0);
    let outcome = run(plan);
    let counts = outcome.totals.sum.counts;
    assert_eq!(outcome.ended, EndReason::Done);
    assert_eq!((counts.due, counts.started, counts.succeeded, counts.failed), (1_001, 1_001, 1_001, 0));
    assert_eq!(seen.requests.load(Ordering::SeqCst), 1_001);
    assert_eq!(counts.connections_opened, seen.connections.load(Ordering::SeqCst));
    assert_eq!(outcome.totals.sum.times(Phase::Response).len(), 1_001);
    assert_eq!(outcome.totals.sum.statuses(), [(200, 1_001)]);
}

#[test]
fn the_seconds_are_the_totals_and_what_is_under_way_at_the_end_is_reported() {
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
    assert_eq!((outcome.seconds[2].in_flight, outcome.seconds[2].connections), (sum.unfinished, 5));
    assert_eq!(outcome.totals.measured, Duration::from_millis(2_300));
}

#[test]
fn each_worker_makes_its_loops_and_no_more() {
    let (address, seen) = server::start(|_| (server::answer(204, ""), true));
    let mut plan = server::plan(address);
    plan.arrival = workers(5, 40);
    let outcome = run(plan);
    assert_eq!((outcome.ended, outcome.totals.sum.counts.succeeded), (EndReason::Done, 200));
    assert_eq!(seen.connections.load(Ordering::SeqCst), 5);
}

#[test]
fn failures_are_counted_by_class_and_a_complete_response_keeps_its_connection() {
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
    // Of four answers two cost their connection; the 500 does not.
    assert_eq!(sum.counts.connections_opened, 201);
}

#[test]
fn a_target_that_refuses_connections_ends_the_run_with_a_reason() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut plan = server::plan(address);
    plan.stop.duration = Some(Duration::from_secs(60));
    let outcome = run(plan);
    let EndReason::Failed(reason) = outcome.ended else { panic!("{:?}", outcome.ended) };
    assert!(reason.contains("refused") && reason.contains(&address.to_string()), "{reason}");
    assert!(outcome.elapsed < Duration::from_secs(10));
}

/// Requests under way at the end of each second.
fn in_flight(outcome: &Outcome) -> Vec<u64> {
    outcome.seconds.iter().map(|second| second.in_flight).collect()
}

/// Server that answers after 20 ms.
fn slow() -> (std::net::SocketAddr, std::sync::Arc<server::ServerCounts>) {
    server::start(|_| {
        std::thread::sleep(Duration::from_millis(20));
        (server::answer(200, "hello"), true)
    })
}

#[test]
fn workers_come_and_go_as_stages_say_and_each_keeps_one_request_under_way() {
    let (address, seen) = slow();
    let mut plan = server::plan(address);
    let stage = |value| Stage { value, length: Duration::from_millis(1_500), ramp: false };
    plan.arrival =
        Arrival::Closed { concurrency: Steps(vec![stage(3.0), stage(8.0), stage(1.0)]), ramp_share: 0.0, loops: 0 };
    plan.stop.duration = Some(Duration::from_millis(4_600));
    let outcome = run(plan);
    // The first second ends within the first stage, the second within the second, the fourth within the third.
    let shown = in_flight(&outcome);
    assert!(shown[0] <= 3 && shown[1] <= 8 && shown[3] <= 1, "{shown:?}");
    let workers: Vec<_> = outcome.seconds.iter().map(|second| second.connections).collect();
    assert_eq!((workers[0], workers[1], workers[3]), (3, 8, 1), "{workers:?}");
    let counts = outcome.totals.sum.counts;
    // Five more than the three of the first stage; all are open at once, none is opened twice.
    assert_eq!((counts.connections_opened, seen.connections.load(Ordering::SeqCst)), (8, 8));
}

#[test]
fn a_ramp_lets_a_share_of_the_workers_begin_each_second() {
    let (address, _) = slow();
    let mut plan = server::plan(address);
    plan.arrival = Arrival::Closed { concurrency: Steps::constant(10.0), ramp_share: 0.25, loops: 0 };
    plan.stop.duration = Some(Duration::from_millis(4_500));
    let outcome = run(plan);
    assert_eq!(outcome.totals.sum.counts.connections_opened, 10);
    let opened: Vec<_> = outcome.seconds.iter().map(|second| second.connections).collect();
    // A quarter of ten is rounded up; each second ends as the next workers begin.
    for (second, (opened, least)) in opened.iter().zip([3, 6, 9, 10]).enumerate() {
        assert!((least..=least + 3).contains(opened), "second {second}: {opened}");
    }
}

#[test]
fn a_scale_changes_the_number_of_workers_while_the_run_goes_on() {
    let (address, _) = slow();
    let mut plan = server::plan(address);
    plan.arrival = workers(4, 0);
    plan.stop.duration = Some(Duration::from_millis(3_000));
    let run = Run::start(plan).unwrap();
    let control = run.control();
    control.scale(2.5);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(async {
        let mut run = run;
        let first = run.tick().await.unwrap();
        assert_eq!(first.second.connections, 10);
        control.scale(0.5);
        run.tick().await.unwrap();
        run.outcome().await
    });
    assert_eq!(outcome.seconds[1].connections, 2);
}

#[test]
fn a_worker_thinks_between_its_requests() {
    let (address, _) = server::start(|_| (server::answer(200, "hello"), true));
    let mut plan = server::plan(address);
    plan.think = Some((Duration::from_millis(40), Duration::from_millis(60)));
    plan.arrival = workers(2, 20);
    let outcome = run(plan);
    assert_eq!(outcome.totals.sum.counts.succeeded, 40);
    // Of 40 timers one that a busy machine fires late is already over the generator's bound: that limit is rightly reported.
    assert!(matches!(outcome.limit, Limit::Offered | Limit::Generator(_)), "{:?}", outcome.limit);
    // 20 pauses of at least 40 ms.
    assert!(outcome.elapsed >= Duration::from_millis(800), "{:?}", outcome.elapsed);
}

#[test]
fn a_head_has_no_body_and_a_connection_without_reuse_serves_one_request() {
    let (address, seen) = server::start(|_| (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n".to_vec(), true));
    let mut plan = server::plan(address);
    plan.request.method = http::Method::HEAD;
    plan.connections.reuse = false;
    plan.stop.requests = Some(50);
    let outcome = run(plan);
    assert_eq!(outcome.totals.sum.counts.succeeded, 50);
    assert_eq!(outcome.totals.sum.times(Phase::Connect).len(), 50);
    assert_eq!(seen.connections.load(Ordering::SeqCst), 50);
}
