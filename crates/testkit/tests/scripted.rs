//! The scripted server against plain clients: its record matches their observations.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::time::{Duration, Instant};

use sealway_testkit::certificates::Certificates;
use sealway_testkit::raw_http::{Connection, Request};
use sealway_testkit::scripted::{Latency, Script, ScriptedServer, ServerTls, Stall};

const PATIENCE: Duration = Duration::from_secs(5);

fn ask(connection: &mut Connection, path: &str) -> anyhow::Result<u16> {
    connection.write(&Request::get(path).header("Connection", "keep-alive").bytes())?;
    Ok(connection.read_answer("GET")?.status)
}

#[test]
fn answers_take_as_long_as_the_script_says_and_the_record_knows_it() {
    let server = ScriptedServer::http(Script { latency: Latency::Constant { us: 3300 }, ..Script::default() }).unwrap();
    let mut connection = Connection::open(server.address()).unwrap();
    assert_eq!(ask(&mut connection, "/warm").unwrap(), 200);
    let begin = Instant::now();
    for _ in 0..50 {
        assert_eq!(ask(&mut connection, "/").unwrap(), 200);
    }
    let seen_ms = begin.elapsed().as_secs_f64() * 1000.0 / 50.0;
    let record = server.settled(PATIENCE);
    assert_eq!((record.accepted, record.requests, record.answered, record.times.len()), (1, 50, 50, 50));
    let told_ms = record.times.mean() / 1e6;
    assert!(record.times.min() >= 3_290_000, "{} ns", record.times.min());
    assert!(told_ms <= seen_ms, "it says {told_ms} ms, its client saw {seen_ms} ms");
}

#[test]
fn each_fault_is_what_its_client_sees() {
    let server = ScriptedServer::http(Script { fault_every: 1, ..Script::default() }).unwrap();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let mut connection = Connection::open(server.address()).unwrap();
        seen.push(ask(&mut connection, "/").map_err(|err| format!("{err:#}")));
    }
    assert_eq!(seen[0], Ok(500), "{seen:?}");
    assert!(seen[1].as_ref().is_err_and(|text| text.contains("reset")), "{seen:?}");
    assert!(seen[2].is_err(), "{seen:?}");
    let record = server.settled(PATIENCE);
    assert_eq!((record.status_500, record.resets, record.truncated, record.answered), (1, 1, 1, 0));
}

#[test]
fn a_client_that_hangs_up_is_recorded_as_that() {
    let server = ScriptedServer::http(Script { latency: Latency::Never, ..Script::default() }).unwrap();
    let mut connection = Connection::open(server.address()).unwrap();
    connection.write(&Request::get("/").header("Connection", "keep-alive").bytes()).unwrap();
    while server.record().requests == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(server.record().in_flight, 1);
    drop(connection);
    let record = server.settled(PATIENCE);
    assert_eq!((record.requests, record.answered, record.abandoned, record.in_flight), (1, 0, 1, 0));
}

#[test]
fn nothing_leaves_in_a_stall() {
    let stall = Stall { first_ms: 50, every_ms: 10_000, length_ms: 300 };
    let server = ScriptedServer::http(Script { stall: Some(stall), ..Script::default() }).unwrap();
    let mut connection = Connection::open(server.address()).unwrap();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(500) {
        assert_eq!(ask(&mut connection, "/").unwrap(), 200);
    }
    let record = server.settled(PATIENCE);
    let longest_ms = record.quantile_ms(1.0);
    assert!((280.0..400.0).contains(&longest_ms), "{longest_ms} ms");
    assert!(record.quantile_ms(0.9) < 50.0, "{:?}", record.json());
}

#[test]
fn handshakes_are_counted_by_their_kind() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::make(folder.path(), "DNS:localhost,IP:127.0.0.1", "a client").unwrap();
    let server = ScriptedServer::https(Script::default(), &ServerTls::of(&certificates)).unwrap();
    let script = format!(
        "printf 'GET / HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n' | openssl s_client -quiet -connect {} \
         -CAfile {} -sess_out {dir}/session $SESSION",
        server.address(),
        certificates.ca.display(),
        dir = folder.path().display(),
    );
    for session in [String::new(), format!("-sess_in {}/session", folder.path().display())] {
        let said = std::process::Command::new("sh").args(["-c", &script]).env("SESSION", session).output().unwrap();
        assert!(String::from_utf8_lossy(&said.stdout).contains("200 OK"), "{said:?}");
    }
    let record = server.settled(PATIENCE);
    assert_eq!((record.accepted, record.handshakes_full, record.handshakes_resumed), (2, 1, 1));
    assert_eq!((record.handshakes_failed, record.answered), (0, 2));
}
