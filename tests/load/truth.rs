//! The load generator compared with the truth: its report about a scripted server must equal what that server recorded. Times are
//! compared within 1 % or 0.5 ms; counts must be equal.
#![allow(clippy::print_stdout, reason = "a test says what it does meanwhile")]

use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sealway_testkit::certificates::Certificates;
use sealway_testkit::generator::{Generator, Ran};
use sealway_testkit::scripted::{Latency, Record, Script, ScriptedServer, ServerTls, Stall};

use crate::BINARY;

const PATIENCE: Duration = Duration::from_secs(10);

/// The number of attempts of a comparison of times: a fault of the generator shows in each, a disturbance by a busy machine does
/// not.
const ATTEMPTS: usize = 8;

fn plain(script: Script) -> (ScriptedServer, String) {
    let server = ScriptedServer::http(script).unwrap();
    let url = format!("http://{}/", server.address());
    (server, url)
}

/// Serializes the tests of times as far as this file can: two at a time would measure each other.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn load(arguments: &[&str]) -> Ran {
    Generator::new(BINARY).run(arguments).unwrap()
}

/// Compares the times of one run, in several attempts until they agree. On a machine too busy for that, the attempt with the
/// least timer lag must agree within that lag, and the test prints it.
fn compare(attempt: impl Fn() -> Comparison) {
    let mut calmest: Option<Comparison> = None;
    for _ in 0..ATTEMPTS {
        let compared = attempt();
        if compared.differences(0.5).is_empty() {
            return;
        }
        if calmest.as_ref().is_none_or(|so_far| compared.lag_ms() < so_far.lag_ms()) {
            calmest = Some(compared);
        }
    }
    let calmest = calmest.expect("an attempt");
    let bound_ms = 0.5 + 2.0 * calmest.lag_ms();
    println!("a busy machine: its timers are late, and the times are held to {bound_ms:.1} ms");
    let differences = calmest.differences(bound_ms);
    assert!(differences.is_empty(), "{differences:#?}\nserver: {:#}\n{}", calmest.record.json(), calmest.ran.told());
}

/// A run, the record of its server, and the phases whose times are the server's own.
struct Comparison {
    ran: Ran,
    record: Record,
    phases: &'static [&'static str],
}

impl Comparison {
    /// Returns the 99th percentile of the timer lag of server and generator together, in ms.
    fn lag_ms(&self) -> f64 {
        self.record.lag_p99_ms() + self.ran.lag_p99_ms()
    }

    /// Returns the generator's percentiles that differ from the server's by more than 1 % and more than so many milliseconds.
    fn differences(&self, bound_ms: f64) -> Vec<String> {
        let mut differences = Vec::new();
        for phase in self.phases {
            for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
                let (told, truth) = (self.ran.ms(phase, name), self.record.quantile_ms(share));
                if (told - truth).abs() > (truth / 100.0).max(bound_ms) {
                    differences
                        .push(format!("{phase} {name}: {told:.3} ms is reported, the server's is {truth:.3} ms"));
                }
            }
        }
        differences
    }
}

fn assert_counts(ran: &Ran, record: &Record) {
    let told =
        (ran.count("started"), ran.count("succeeded") + ran.count("unfinished"), ran.count("connections_opened"));
    // A request that was cut off at the end may have been answered at that moment.
    let truth = (record.requests, record.answered + record.abandoned, record.accepted);
    assert_eq!(told, truth, "(requests, answered or cut, connections): {}\nserver: {:#}", ran.told(), record.json());
}

#[test]
fn percentiles_of_a_constant_latency_are_the_servers_own() {
    let _alone = alone();
    compare(|| {
        let (server, url) = plain(Script { latency: Latency::Constant { us: 8_000 }, ..Script::default() });
        let ran = load(&["--concurrency", "4", "--duration", "2", &url]);
        let record = server.settled(PATIENCE);
        assert_eq!(ran.code, Some(0), "{}", ran.told());
        assert_counts(&ran, &record);
        Comparison { ran, record, phases: &["service", "response"] }
    });
}

#[test]
fn percentiles_of_two_latencies_are_the_servers_own_in_an_open_loop() {
    let _alone = alone();
    let latency = Latency::Bimodal { fast_us: 3_000, slow_us: 40_000, slow_percent: 20 };
    compare(|| {
        let (server, url) = plain(Script { latency, ..Script::default() });
        let ran = load(&["--rate", "200", "--duration", "3", &url]);
        let record = server.settled(PATIENCE);
        assert_eq!(ran.code, Some(0), "{}", ran.told());
        assert_counts(&ran, &record);
        let due = ran.count("due");
        assert!((598..=602).contains(&due), "{due} requests were due");
        Comparison { ran, record, phases: &["service", "response"] }
    });
}

#[test]
fn percentiles_over_tls_are_the_servers_own() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::make(folder.path(), "DNS:localhost,IP:127.0.0.1", "a client").unwrap();
    let latency = Latency::Bimodal { fast_us: 5_000, slow_us: 20_000, slow_percent: 30 };
    compare(|| {
        let script = Script { latency, ..Script::default() };
        let server = ScriptedServer::https(script, &ServerTls::of(&certificates)).unwrap();
        let (url, ca) = (format!("https://{}/", server.address()), certificates.ca.display().to_string());
        let ran = load(&["--concurrency", "4", "--duration", "2", "--ca", &ca, &url]);
        let record = server.settled(PATIENCE);
        assert_eq!(ran.code, Some(0), "{}", ran.told());
        assert_counts(&ran, &record);
        Comparison { ran, record, phases: &["service"] }
    });
}

/// With the library's own start, every first handshake would take at least 40 ms. One attempt below 25 ms is enough.
#[test]
fn the_first_handshake_of_a_run_is_without_the_generators_own_start() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::make(folder.path(), "DNS:localhost,IP:127.0.0.1", "a client").unwrap();
    let server = ScriptedServer::https(Script::default(), &ServerTls::of(&certificates)).unwrap();
    let (url, ca) = (format!("https://{}/", server.address()), certificates.ca.display().to_string());
    let mut first_ms = Vec::new();
    // The first run does not count, because it includes the server's own first handshake.
    for _ in 0..20 {
        let ran = load(&["--concurrency", "1", "--requests", "1", "--ca", &ca, &url]);
        assert_eq!(ran.code, Some(0), "{}", ran.told());
        first_ms.push(ran.ms("tls", "max"));
        if first_ms.len() > 1 && first_ms[first_ms.len() - 1] < 25.0 {
            return;
        }
    }
    panic!("the first handshakes took {first_ms:?} ms");
}

#[test]
fn an_open_loop_shows_a_stall_that_a_closed_loop_hides() {
    let _alone = alone();
    let stall = Stall { first_ms: 2_000, every_ms: 10_000, length_ms: 1_000 };
    let script = Script { latency: Latency::Constant { us: 5_000 }, stall: Some(stall), ..Script::default() };
    let ((open_server, open_url), (closed_server, closed_url)) = (plain(script.clone()), plain(script));
    let (open, closed) = std::thread::scope(|scope| {
        let open = scope.spawn(|| load(&["--rate", "300", "--in-flight-max", "8", "--duration", "5", &open_url]));
        let closed = scope.spawn(|| load(&["--concurrency", "4", "--duration", "5", &closed_url]));
        (open.join().unwrap(), closed.join().unwrap())
    });
    for (ran, server) in [(&open, &open_server), (&closed, &closed_server)] {
        assert_eq!(ran.code, Some(0), "{}", ran.told());
        // The server stalled: the longest time in its record and in the client's shows it.
        let (truth, told) = (server.record().quantile_ms(1.0), ran.ms("service", "max"));
        assert!((900.0..1_300.0).contains(&truth) && (told - truth).abs() < 100.0, "{told} ms, {truth} ms");
    }
    // Open-loop users: a fifth of them came in that second or in its wake.
    for figure in ["p95", "p99", "p999", "max"] {
        let ms = open.ms("response", figure);
        assert!((500.0..1_500.0).contains(&ms), "{figure}: {ms} ms\n{}", open.told());
    }
    assert!(open.ms("response", "p999") > 900.0, "{}", open.told());
    assert!(open.ms("response", "p50") < 50.0, "{}", open.told());
    // Closed-loop workers: each was delayed once, and counts that once.
    for (ran, phase) in [(&open, "service"), (&closed, "service"), (&closed, "response")] {
        let ms = ran.ms(phase, "p99");
        assert!(ms < 100.0, "{phase} p99: {ms} ms\n{}", ran.told());
    }
    // The report states the difference.
    let note = open.report["omission"]["note"].as_str().unwrap_or_default();
    assert!(note.contains("service") || note.contains("sent"), "{}", open.told());
    assert!(open.report["omission"]["response_p99_ns"].as_u64() > open.report["omission"]["service_p99_ns"].as_u64());
}

#[test]
fn every_error_is_counted_in_its_class_and_only_there() {
    let _alone = alone();
    let (server, url) = plain(Script { fault_every: 100, ..Script::default() });
    let ran = load(&["--concurrency", "10", "--requests", "3000", &url]);
    let record = server.settled(PATIENCE);
    assert_eq!(ran.code, Some(1), "failed requests are said by the exit code: {}", ran.told());
    assert_eq!((record.requests, record.status_500, record.resets, record.truncated), (3000, 10, 10, 10));
    assert_eq!((ran.count("started"), ran.count("succeeded"), ran.count("failed")), (3000, 2970, 30), "{}", ran.told());
    let classes = [("closed", 10), ("reset", 10), ("status", 10)].map(|(class, count)| (class.to_owned(), count));
    assert_eq!(ran.fault_classes(), classes, "{}", ran.told());
    assert!(ran.example("status").contains("500"), "{}", ran.told());
    assert_eq!(ran.count("connections_opened"), record.accepted, "{}", ran.told());
    let statuses = &ran.report["statuses"];
    let of = |code: u64| {
        let found = statuses.as_array().unwrap().iter().find(|one| one["status"] == code);
        found.map_or(0, |one| one["count"].as_u64().unwrap())
    };
    // The head of a truncated answer has status 200.
    assert!(of(200) == 2970 || of(200) == 2980, "{statuses}");
    assert_eq!(of(500), 10, "{statuses}");
}

#[test]
fn answers_that_come_too_late_are_timeouts() {
    let _alone = alone();
    let script = Script { late_every: 2, late_ms: 4_000, ..Script::default() };
    let (server, url) = plain(script);
    let ran = load(&["--concurrency", "8", "--requests", "80", "--timeout", "800ms", &url]);
    let record = server.settled(PATIENCE);
    assert_eq!((record.requests, record.late), (80, 40));
    assert_eq!((ran.count("succeeded"), ran.count("failed")), (40, 40), "{}", ran.told());
    assert_eq!(ran.fault_classes(), [("timeout".to_owned(), 40)], "{}", ran.told());
    assert_eq!((record.answered, record.abandoned), (40, 40), "{:#}", record.json());
    // A connection whose answer is still pending cannot be reused.
    assert_eq!(ran.count("connections_opened"), record.accepted, "{}", ran.told());
    assert!((800.0..1_600.0).contains(&ran.ms("failed", "p50")), "{}", ran.told());
}

#[test]
fn requests_under_way_at_the_end_are_counted_as_unfinished() {
    let _alone = alone();
    let (server, url) = plain(Script { latency: Latency::Never, ..Script::default() });
    let ran = load(&["--concurrency", "16", "--duration", "1", &url]);
    let record = server.settled(PATIENCE);
    assert_eq!((record.requests, record.abandoned), (16, 16));
    assert_eq!((ran.count("started"), ran.count("unfinished")), (16, 16), "{}", ran.told());
    assert_eq!((ran.count("succeeded"), ran.count("failed")), (0, 0), "{}", ran.told());

    let (server, url) = plain(Script { latency: Latency::Never, ..Script::default() });
    let ran = load(&["--rate", "50", "--in-flight-max", "20", "--duration", "1", &url]);
    let record = server.settled(PATIENCE);
    assert_eq!(record.requests, 20);
    assert_eq!((ran.count("started"), ran.count("unfinished")), (20, 20), "{}", ran.told());
    // No server answers, so no place for the other requests becomes free.
    let (due, unsent) = (ran.count("due"), ran.count("unsent"));
    assert!((49..=51).contains(&due) && unsent == due - 20, "{due} were due, {unsent} unsent\n{}", ran.told());
}

#[test]
fn connections_and_handshakes_are_those_that_the_server_counted() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::make(folder.path(), "DNS:localhost,IP:127.0.0.1", "a client").unwrap();
    let ca = certificates.ca.display().to_string();
    let cases: [(&[&str], &str, Option<bool>); 5] = [
        (&["--no-reuse"], "without a word", Some(false)),
        (&["--no-reuse", "--tls-resume", "off"], "off", Some(false)),
        (&["--no-reuse", "--tls-resume", "on"], "on", Some(true)),
        (&["--no-reuse", "--tls-resume", "both"], "both", Some(true)),
        (&["--tls-resume", "on"], "on, over kept connections", None),
    ];
    for (arguments, name, resumes) in cases {
        let server = ScriptedServer::https(Script::default(), &ServerTls::of(&certificates)).unwrap();
        let url = format!("https://{}/", server.address());
        let ran = load(&[&["--concurrency", "4", "--requests", "120", "--ca", &ca, &url], arguments].concat());
        let record = server.settled(PATIENCE);
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.told());
        let told = (
            ran.count("connections_opened"),
            ran.count("handshakes_full"),
            ran.count("handshakes_resumed"),
            ran.count("succeeded"),
        );
        let truth = (record.accepted, record.handshakes_full, record.handshakes_resumed, record.answered);
        assert_eq!(told, truth, "{name}: (connections, full, resumed, answered)\n{}", ran.told());
        assert_eq!(record.answered, 120, "{name}");
        match resumes {
            Some(false) => assert_eq!((told.1, told.2), (120, 0), "{name}"),
            Some(true) => assert!(told.2 >= 100, "{name}: {} were resumed", told.2),
            None => assert!(told.0 <= 8, "{name}: {} connections", told.0),
        }
    }
}

#[test]
fn the_warm_up_is_in_no_total() {
    let _alone = alone();
    let (server, url) = plain(Script { latency: Latency::Constant { us: 10_000 }, ..Script::default() });
    let ran = load(&["--rate", "100", "--warm-up", "1", "--duration", "1", &url]);
    let record = server.settled(PATIENCE);
    assert!((190..=202).contains(&record.requests), "{:#}", record.json());
    let told = ran.count("succeeded") + ran.count("unfinished");
    assert!((90..=110).contains(&told), "{told} of {} requests\n{}", record.requests, ran.told());
}

/// Runs `sealway load` on a core that another program nearly fills, with a server on the other core: the report must not draw
/// conclusions about the server.
fn crowded(arguments: &[&str]) -> Ran {
    let busy = "taskset -c 1 sh -c 'while :; do :; done' & read _; kill $!";
    let mut other = Command::new("sh").args(["-c", busy]).stdin(Stdio::piped()).spawn().unwrap();
    let ran = Generator::new(BINARY).by(&["nice", "-n", "10", "taskset", "-c", "1"]).run(arguments);
    // The other program ends when its input does, also if this test ends first.
    drop(other.stdin.take());
    let _ = other.wait();
    ran.unwrap()
}

#[test]
fn a_generator_without_time_of_its_own_says_so() {
    let _alone = alone();
    let (_server, url) = plain(Script::default());
    let ran = crowded(&["--concurrency", "64", "--threads", "1", "--duration", "2", &url]);
    assert_eq!(ran.report["limit"]["what"], "generator", "{}", ran.told());
    assert!(ran.out.contains("generator"), "{}", ran.told());
}

/// A server with a limit of so many requests per second, each in 50 ms below it: 400/s are the load of 20 workers.
fn bounded(rate: f64) -> (ScriptedServer, String) {
    plain(Script { latency: Latency::Constant { us: 50_000 }, rate_max: Some(rate), ..Script::default() })
}

/// Searches, and compares the result with the truth: the rate and the load of the knee. It repeats a search that a busy machine
/// disturbed, twice.
fn tune(url: &str, rate: f64, more: &[&str]) -> (f64, f64) {
    let mut said = String::new();
    for _ in 0..3 {
        let ran = load(&[&["autotune", "--repeats", "3"], more, &[url]].concat());
        let points = ran.report["points"].as_array().unwrap();
        assert!((3..=12).contains(&points.len()), "{} points: {}", points.len(), ran.told());
        assert!(points.iter().all(|point| point["repeats_per_s"].as_array().unwrap().len() == 3), "{}", ran.told());
        let knee = &ran.report["knee"];
        let found = knee["succeeded_per_s"]["mean"].as_f64().unwrap_or_default();
        let is_targets = ran.code == Some(0) && ran.report["limit"]["what"] == "target";
        if is_targets && (found / rate - 1.0).abs() <= 0.05 {
            let offered = &knee["offered"];
            return (found, offered["concurrency"].as_f64().or_else(|| offered["rate"].as_f64()).unwrap());
        }
        said = format!("{found}/s and not {rate}/s: {}", ran.told());
        println!("{said}");
    }
    panic!("{said}");
}

#[test]
fn a_search_finds_the_knee() {
    let _alone = alone();
    let (_server, url) = bounded(400.0);
    let times = ["--warm-up", "250ms", "--run-time", "400ms", "--search-min", "8"];
    let (_, workers) = tune(&url, 400.0, &times);
    // Fewer than 19 workers cannot reach it; more than 30 only wait, though a busy machine may need some of them.
    assert!((19.0..=40.0).contains(&workers), "{workers} workers");
}

#[test]
#[ignore = "minutes; make load-long runs it"]
fn a_search_finds_the_same_knee_three_times_in_a_row() {
    let _alone = alone();
    for rate in [250.0, 1000.0] {
        let (_server, url) = bounded(rate);
        let found: Vec<_> = (0..3).map(|_| tune(&url, rate, &["--warm-up", "500ms", "--run-time", "2s"])).collect();
        let least = rate * 0.05;
        for (_, workers) in &found {
            assert!((least * 0.95..=least * 1.3).contains(workers), "{found:?}: {least} workers are enough");
        }
        let found: Vec<_> =
            (0..3).map(|_| tune(&url, rate, &["--search", "rate", "--warm-up", "500ms", "--run-time", "2s"])).collect();
        for (_, offered) in &found {
            assert!((offered / rate - 1.0).abs() <= 0.05, "{found:?}: {rate}/s can be offered");
        }
    }
}

#[test]
fn a_search_that_the_generator_holds_back_says_so() {
    let _alone = alone();
    let (_server, url) = plain(Script::default());
    let times = ["--warm-up", "200ms", "--run-time", "500ms", "--repeats", "1", "--search-min", "64"];
    let ran = crowded(&[&["autotune", "--threads", "1", "--search-max", "128", &url], &times[..]].concat());
    assert_eq!(ran.report["limit"]["what"], "generator", "{}", ran.told());
}
