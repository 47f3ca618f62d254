//! Reports of real runs: every format is written, the JSON fits the published schema, `load compare` detects a slower server, and
//! Prometheus is served while the run continues.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sealway_testkit::daemon::root;
use sealway_testkit::scripted::{Latency, Script, ScriptedServer};

use crate::BINARY;
use crate::ground::{load, text};

const VALIDATE: &str = "
import json, sys
from jsonschema import Draft202012Validator as Validator
Validator(json.load(open(sys.argv[1]))).validate(json.load(open(sys.argv[2])))
";

fn server(us: u64) -> (ScriptedServer, String) {
    let server = ScriptedServer::http(Script { latency: Latency::Constant { us }, ..Script::default() }).unwrap();
    let url = format!("http://{}/", server.address());
    (server, url)
}

/// Runs for ten seconds, long enough for a comparison, and returns the report.
fn measured(us: u64, report: &Path) {
    let (_server, url) = server(us);
    let ran = load(&["--rate", "100", "--duration", "10", "--label", "same", "--out", report.to_str().unwrap(), &url]);
    assert!(ran.status.success(), "{}{}", text(&ran.stdout), text(&ran.stderr));
}

#[test]
fn every_form_is_written_by_a_real_run_and_a_missed_threshold_is_in_all_that_judge() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, url) = server(5_000);
    let forms = ["json", "csv", "hlog", "xml", "md", "html", "txt"];
    let files = forms.map(|form| folder.path().join("run").with_extension(form));
    let mut arguments = vec!["--concurrency", "4", "--requests", "400", "--threshold", "p50<1ms,errors<1%", &url];
    files.iter().for_each(|file| arguments.extend(["--out", file.to_str().unwrap()]));
    let ran = load(&arguments);
    assert_eq!(ran.status.code(), Some(1), "{}{}", text(&ran.stdout), text(&ran.stderr));
    assert!(text(&ran.stderr).contains("missed: p50<1ms"), "{}", text(&ran.stderr));
    let read = |form: &str| std::fs::read_to_string(folder.path().join("run").with_extension(form)).unwrap();
    let report: serde_json::Value = serde_json::from_str(&read("json")).unwrap();
    assert_eq!((&report["counts"]["succeeded"], &report["passed"]), (&400.into(), &false.into()));
    assert!(read("xml").contains("<failure type=\"threshold\" message=\"p50&lt;1ms was missed: "));
    assert!(read("md").contains("**missed**") && read("html").contains(">failed</span>"));
    assert!(read("hlog").contains("\nTag=response,") && read("csv").starts_with("at_s,length_s,"));
    assert!(read("txt").contains("MISSED  p50<1ms"));
    let python = root().join(".venv/bin/python");
    assert!(python.exists(), "the validator is missing: run scripts/setup-tests.sh");
    let schema = root().join("spec/load-report.schema.json");
    let valid = Command::new(python).arg("-c").arg(VALIDATE).arg(schema).arg(&files[0]).output().unwrap();
    assert!(valid.status.success(), "{}", text(&valid.stderr));
}

#[test]
fn a_comparison_finds_a_slower_server_and_no_difference_of_equal_ones() {
    let folder = tempfile::tempdir().unwrap();
    let [before, again, slower] =
        ["before", "again", "slower"].map(|name| folder.path().join(name).with_extension("json"));
    measured(10_000, &before);
    measured(10_000, &again);
    measured(30_000, &slower);
    let compare = |after: &Path, more: &[&str]| {
        let files = [before.to_str().unwrap(), after.to_str().unwrap()];
        load(&[&["compare"], &files[..], more].concat())
    };
    // Another run on a busy machine may be slower by some per cent, but not by half.
    let same = compare(&again, &["--regression", "50%"]);
    assert!(same.status.success(), "{}{}", text(&same.stdout), text(&same.stderr));
    let worse = compare(&slower, &["--regression", "50%"]);
    assert_eq!(worse.status.code(), Some(1), "{}{}", text(&worse.stdout), text(&worse.stderr));
    assert!(text(&worse.stderr).contains("response_p50"), "{}", text(&worse.stderr));
    let json = compare(&slower, &["--format", "json"]);
    assert_eq!(json.status.code(), Some(0), "without a bar nothing fails");
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&json.stdout).unwrap()["kind"], "comparison");
    let wrong = compare(&slower, &["--regression", "much", "--format", "pdf"]);
    assert_eq!((wrong.status.code(), text(&wrong.stderr).lines().count()), (Some(2), 2), "{}", text(&wrong.stderr));
    let missing = load(&["compare", before.to_str().unwrap(), "no-such-file.json"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("cannot read no-such-file.json"), "{}", text(&missing.stderr));
}

/// Returns the metrics that a server at this address returns, if one listens.
fn scraped(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn prometheus_is_answered_while_a_run_goes_on() {
    let (_server, url) = server(5_000);
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut ran = Command::new(BINARY)
        .args(["load", "--rate", "50", "--duration", "60", "--prometheus", &address.to_string(), &url])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(40);
    let mut answer = String::new();
    while Instant::now() < end && !answer.contains("sealway_load_seconds_bucket{run=") {
        std::thread::sleep(Duration::from_millis(200));
        answer = scraped(address).unwrap_or_default();
    }
    ran.kill().unwrap();
    ran.wait().unwrap();
    assert!(answer.contains("sealway_load_seconds_bucket{run="), "{answer}");
}
