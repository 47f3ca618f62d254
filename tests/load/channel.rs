//! `sealway load channel` against real relays: its counts equal theirs, each failure is named by its stage, invalid combinations
//! are rejected, and a sweep stops at the configured limit.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use rustix::process::{Pid, Signal, kill_process};
use sealway_client::channel::mint::{self, encode_pair};
use sealway_proto::relay::IssuerKey;
use sealway_testkit::daemon::root;
use sealway_testkit::relay::{AUD, ISS, Issuer, Relay};
use serde_json::Value;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use crate::BINARY;
use crate::ground::text;

const LONG: Duration = Duration::from_secs(60);

const VALIDATE: &str = "
import json, sys
from jsonschema import Draft202012Validator as Validator
schema = json.load(open(sys.argv[1]))
Validator.check_schema(schema)
Validator(schema).validate(json.load(sys.stdin))
";

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(["load", "channel", "--output", "json"]).args(arguments).stdin(Stdio::null());
    command
}

/// Returns the report, validated against its schema, and the exit code.
fn read(ran: &Output) -> (Value, Option<i32>) {
    let document: Value = serde_json::from_slice(&ran.stdout)
        .unwrap_or_else(|err| panic!("{err}\n{}{}", text(&ran.stdout), text(&ran.stderr)));
    let python = root().join(".venv/bin/python");
    assert!(python.exists(), "the validator is missing: run scripts/setup-tests.sh");
    let mut validator = Command::new(python);
    validator.arg("-c").arg(VALIDATE).arg(root().join("spec/load-channel.schema.json"));
    let mut validator = validator.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut validator.stdin.take().unwrap(), &ran.stdout).unwrap();
    let valid = validator.wait_with_output().unwrap();
    assert!(valid.status.success(), "{}\n{document:#}", text(&valid.stderr));
    (document, ran.status.code())
}

fn load(arguments: &[&str]) -> (Value, Option<i32>) {
    read(&command(arguments).output().unwrap())
}

/// Returns the stages at which channels failed, with the counts and the codes.
fn failures(document: &Value) -> Vec<(String, u64, Vec<String>)> {
    let all = document["failures"].as_object().unwrap().iter();
    let failed = all.filter(|(_, failed)| failed["count"] != 0);
    failed
        .map(|(stage, failed)| {
            let codes = failed["codes"].as_object().unwrap().keys().cloned().collect();
            (stage.clone(), failed["count"].as_u64().unwrap(), codes)
        })
        .collect()
}

fn count(document: &Value, name: &str) -> u64 {
    document["summary"][name].as_u64().unwrap()
}

fn limits(document: &Value) -> String {
    document["summary"]["limits"].to_string()
}

/// A relay, the key of its issuer, and its metrics.
struct Ground {
    folder: tempfile::TempDir,
    relay: Relay,
}

impl Ground {
    fn new(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Issuer::new(folder.path()).unwrap();
        std::fs::write(folder.path().join("key.json"), IssuerKey::encode_seed("k1", &[1; 32]).as_bytes()).unwrap();
        let relay = Relay::start(BINARY, folder.path(), arguments).unwrap();
        Ground { folder, relay }
    }

    fn url(&self) -> String {
        format!("ws://{}/ws", self.relay.address)
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn load(&self, arguments: &[&str]) -> (Value, Option<i32>) {
        let (url, key, pid) = (self.url(), self.path("key.json"), self.relay.pid().to_string());
        let all = ["--relay", &url, "--issuer-key", &key, "--aud", AUD, "--iss", ISS, "--watch-pid", &pid];
        load(&[&all, arguments].concat())
    }

    /// Returns the sum of all series of a metric whose labels contain this text.
    fn metric(&self, name: &str, label: &str) -> u64 {
        let page = get(self.relay.address, "/metrics");
        let is_it = |line: &&str| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])) && line.contains(label)
        };
        page.lines().filter(is_it).map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64).sum()
    }
}

fn get(address: SocketAddr, path: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: relay\r\nconnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}

#[test]
fn every_mode_of_both_profiles_counts_what_the_relay_counts() {
    let ground = Ground::new(&[]);
    let mut attached = 0;
    for (mode, stages, suites) in [
        ("attach", &["ws_open", "attach_send", "pair_ready"][..], ["0x100", "2"]),
        ("handshake", &["ws_open", "attach_send", "pair_ready", "handshake"], ["0x105", "2"]),
        ("full", &["ws_open", "attach_send", "pair_ready", "handshake", "rpc_open", "rpc_call"], ["0x100", "1"]),
    ] {
        for (profile, suite) in ["native", "flowersec-v1"].into_iter().zip(suites) {
            let asked = ["--mode", mode, "--profile", profile, "--suite", suite, "--channels", "12", "--rate", "100"];
            let (document, code) = ground.load(&[&asked[..], &["--steady", "300ms"]].concat());
            let what = format!("{mode} {profile} {suite}: {document:#}");
            assert_eq!(code, Some(0), "{what}");
            assert_eq!((count(&document, "succeeded"), count(&document, "attempted")), (12, 12), "{what}");
            assert_eq!((count(&document, "connections_opened"), count(&document, "failed")), (24, 0), "{what}");
            assert_eq!(document["config"]["profile"], profile);
            attached += 24;
            assert_eq!(ground.metric("sealway_relay_attach_total", "reason=\"ok\""), attached, "{what}");
            for (stage, times) in document["latency"]["stages"].as_object().unwrap() {
                let wanted = if stages.contains(&stage.as_str()) { 12 } else { 0 };
                assert_eq!(times["count"], wanted, "{stage} of {what}");
                assert_eq!(times["p50"].is_null(), wanted == 0, "{stage} of {what}");
            }
            let is_open = mode != "attach";
            let open = if is_open { 12 } else { 0 };
            assert_eq!((count(&document, "active_peak"), count(&document, "active_at_end")), (open, open), "{what}");
            let relay = &document["resources"]["relay"];
            assert!(relay["rss_max_bytes"].as_u64().unwrap() > 1 << 20, "{what}");
            assert_eq!(relay["rss_steady_bytes"].is_u64(), is_open, "{what}");
        }
    }
}

#[test]
fn a_relay_of_the_run_has_room_for_it_and_is_gone_after_it() {
    let asked = ["--channels", "40", "--rate", "0", "--steady", "1s", "--ping-every", "200ms"];
    let (document, code) = load(&asked);
    assert_eq!(code, Some(0), "{document:#}");
    assert_eq!((count(&document, "succeeded"), count(&document, "active_at_end")), (40, 40), "{document:#}");
    let started = &document["config"]["relay_started"];
    assert_eq!((&started["max_channels"], &started["max_conns"]), (&72.into(), &144.into()));
    assert!(document["resources"]["relay"]["descriptors_max"].as_u64().unwrap() >= 80, "{document:#}");
    assert!(document["resources"]["relay_rss_per_channel_bytes"].is_number(), "{document:#}");
    is_gone(&document);
}

/// No process listens any more on the address of the run's relay.
fn is_gone(document: &Value) {
    let url = document["config"]["relay_url"].as_str().unwrap();
    let address: SocketAddr = url.strip_prefix("ws://").unwrap().strip_suffix("/ws").unwrap().parse().unwrap();
    assert!(std::net::TcpStream::connect(address).is_err(), "something listens at {address} still");
}

#[test]
fn an_interrupted_run_reports_its_figures_and_stops_its_relay() {
    let ran = command(&["--channels", "5", "--rate", "100", "--steady", "10m", "--report-interval", "100ms"]);
    let mut ran = { ran }.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(ran.stderr.take().unwrap()));
    assert!(lines.any(|line| line.unwrap().contains("5 open, idle")), "the channels are never idle");
    // Reads on, so that the process can continue to write.
    let reading = std::thread::spawn(move || lines.for_each(drop));
    kill_process(Pid::from_child(&ran), Signal::INT).unwrap();
    let output = ran.wait_with_output().unwrap();
    reading.join().unwrap();
    let (document, code) = read(&output);
    assert_eq!((document["summary"]["ended"].as_str(), code), (Some("stopped"), Some(0)), "{document:#}");
    assert_eq!(count(&document, "active_at_end"), 5, "{document:#}");
    is_gone(&document);
}

#[test]
fn a_key_that_the_relay_does_not_know_is_a_failure_of_the_attach() {
    let ground = Ground::new(&[]);
    std::fs::write(ground.path("other.json"), IssuerKey::encode_seed("k1", &[2; 32]).as_bytes()).unwrap();
    let (url, key) = (ground.url(), ground.path("other.json"));
    let asked = ["--relay", &url, "--issuer-key", &key, "--aud", AUD, "--iss", ISS, "--channels", "6", "--rate", "0"];
    let (document, code) = load(&[&asked[..], &["--steady", "0"]].concat());
    assert_eq!(code, Some(1), "{document:#}");
    let failed = failures(&document);
    assert!(
        failed.iter().all(|(stage, ..)| ["client_attach", "server_attach"].contains(&stage.as_str())),
        "{failed:?}"
    );
    assert!(failed.iter().all(|(_, _, codes)| codes == &["invalid_token"]), "{failed:?}");
    assert_eq!(failed.iter().map(|(_, count, _)| count).sum::<u64>(), 6, "{failed:?}");
    assert!(limits(&document).contains("the relay rejects the tokens"), "{document:#}");
    assert_eq!(document["latency"]["stages"]["ws_open"]["count"], 0, "a failed channel has a time");
    assert!(ground.metric("sealway_relay_attach_total", "invalid_token") >= 6);
}

#[test]
fn channels_without_a_relay_fail_at_the_connection() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let ground = Ground::new(&[]);
    let (url, key) = (format!("ws://{address}/ws"), ground.path("key.json"));
    let (document, code) = load(&["--relay", &url, "--issuer-key", &key, "--channels", "5", "--rate", "0"]);
    assert_eq!((code, document["summary"]["ended"].as_str()), (Some(1), Some("failed")), "{document:#}");
    let (stage, _, codes) = failures(&document).remove(0);
    assert!(["ws_open", "server_attach"].contains(&stage.as_str()) && codes == ["refused"], "{document:#}");
    assert!(limits(&document).contains("nothing listens"), "{document:#}");
}

/// The reaction of a scripted relay to a connection that has attached.
#[derive(Clone, Copy)]
enum Then {
    Nothing,
    Close,
}

/// A scripted relay, which runs until the end of the test.
fn scripted(then: Then) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
                    let _attach = socket.next().await;
                    if matches!(then, Then::Close) {
                        let frame = CloseFrame { code: 1011.into(), reason: "attach failed".into() };
                        let _ = socket.send(Message::Close(Some(frame))).await;
                    }
                    while let Some(Ok(_)) = socket.next().await {}
                });
            }
        });
    });
    address
}

#[test]
fn a_relay_that_does_not_pair_or_closes_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key.json");
    std::fs::write(&key, IssuerKey::encode_seed("k1", &[1; 32]).as_bytes()).unwrap();
    for (then, stages, code, limit) in [
        (Then::Nothing, &["handshake"][..], "peer_absent", "time:"),
        (Then::Close, &["client_attach", "server_attach"], "attach_failed", "--max-channels"),
    ] {
        let url = format!("ws://{}/ws", scripted(then));
        let asked = ["--relay", &url, "--issuer-key", key.to_str().unwrap(), "--channels", "4", "--rate", "0"];
        let (document, exit) = load(&[&asked[..], &["--conn-timeout", "2s"]].concat());
        assert_eq!(exit, Some(1), "{document:#}");
        for (stage, _, codes) in failures(&document) {
            assert!(stages.contains(&stage.as_str()) && codes == [code], "{document:#}");
        }
        assert_eq!((count(&document, "failed"), count(&document, "succeeded")), (4, 0), "{document:#}");
        assert!(limits(&document).contains(limit), "{document:#}");
    }
}

#[test]
fn a_size_beyond_the_descriptors_is_refused_before_it_starts() {
    let script = format!("ulimit -n 300; exec {BINARY} load channel --channels 100 --steady 0");
    let ran = Command::new("bash").args(["-c", &script]).stdin(Stdio::null()).output().unwrap();
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(
        said.contains("rejected before the start: 100 channels need 328 file descriptors in the generator"),
        "{said}"
    );
    assert!(said.contains("which may open 300: raise ulimit -n"), "{said}");
}

#[test]
fn a_sweep_goes_on_until_the_limit_that_was_set_and_names_it() {
    let asked = ["--sweep", "--channels", "5,40,60", "--rate", "0", "--steady", "0", "--max-channels", "10"];
    let (document, code) = load(&asked);
    assert_eq!((code, document["kind"].as_str()), (Some(1), Some("channel_sweep")), "{document:#}");
    let points = document["points"].as_array().unwrap();
    assert_eq!(points.len(), 2, "{document:#}");
    assert_eq!((count(&points[0], "succeeded"), count(&points[0], "failed")), (5, 0), "{document:#}");
    assert_eq!(count(&points[1], "succeeded"), 10, "{document:#}");
    let stopped = &document["stopped"][0];
    assert_eq!((&stopped["size"], &stopped["is_refused"]), (&"40 channels at full speed".into(), &false.into()));
    assert!(stopped["limits"].to_string().contains("it accepts no more channels (--max-channels)"), "{document:#}");
}

#[test]
fn channels_that_the_relay_closes_while_idle_are_reported_as_lost() {
    let asked = ["--channels", "6", "--rate", "0", "--ping-every", "0", "--idle-timeout", "1s", "--steady", "4s"];
    let (document, code) = load(&asked);
    assert_eq!(code, Some(1), "{document:#}");
    assert_eq!((count(&document, "succeeded"), count(&document, "lost_in_steady")), (6, 6), "{document:#}");
    assert_eq!((count(&document, "active_at_end"), failures(&document)[0].0.as_str()), (0, "steady"), "{document:#}");
    assert!(document["summary"]["warnings"].to_string().contains("Idle channels send nothing"), "{document:#}");
}

#[test]
fn two_generators_share_the_ends_of_the_grants_of_one_file() {
    let ground = Ground::new(&[]);
    let (url, key, file) = (ground.url(), ground.path("key.json"), ground.path("grants"));
    let signed = ["--relay", &url, "--issuer-key", &key, "--aud", AUD, "--iss", ISS, "--channels", "15"];
    let wrote = command(&[&signed[..], &["--grants-out", &file]].concat()).output().unwrap();
    assert!(wrote.status.success(), "{}", text(&wrote.stderr));
    let asked = |role| ["--grants-in", &file, "--role", role, "--channels", "15", "--rate", "50", "--steady", "1s"];
    let server = command(&asked("server")).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let client = command(&asked("client")).output().unwrap();
    let server = server.wait_with_output().unwrap();
    for (role, ran) in [("client", &client), ("server", &server)] {
        let (document, code) = read(ran);
        assert_eq!((code, count(&document, "succeeded")), (Some(0), 15), "{role}: {document:#}");
        assert_eq!(count(&document, "connections_opened"), 15, "{role}: {document:#}");
    }
    assert_eq!(ground.metric("sealway_relay_attach_total", "reason=\"ok\""), 30);
    // A token is accepted once.
    let (document, code) = load(&["--grants-in", &file, "--channels", "15", "--rate", "0", "--steady", "0"]);
    assert_eq!((code, count(&document, "failed")), (Some(1), 15), "{document:#}");
    assert!(failures(&document).iter().all(|(_, _, codes)| codes == &["token_replay"]), "{document:#}");
}

/// A control plane that mints grants for one bearer token.
fn control(url: &str) -> SocketAddr {
    use std::io::{BufRead, BufReader, Read, Write};
    let key = mint::parse_key(IssuerKey::encode_seed("k1", &[1; 32]).as_bytes()).unwrap();
    let issuer = mint::issuer(key, mint::minting(url, AUD, ISS, 0x100).unwrap()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let (mut head, mut len) = (String::new(), 0);
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
            for line in head.lines() {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    len = value.trim().parse().unwrap();
                }
            }
            reader.read_exact(&mut vec![0; len]).unwrap();
            let (client, server) = mint::pair(&issuer).unwrap();
            let is_known = head.contains("Bearer a-token") && head.starts_with("POST /v1/channel/init ");
            let body = if is_known { encode_pair(&client, &server).to_string() } else { String::new() };
            let status = if is_known { "200 OK" } else { "401 Unauthorized" };
            let length = body.len();
            write!(reader.get_mut(), "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
        }
    });
    address
}

#[test]
fn grants_come_from_a_control_plane_to_callers_with_its_token() {
    let ground = Ground::new(&[]);
    let url = format!("http://{}", control(&ground.url()));
    let token = ground.path("token");
    std::fs::write(&token, "a-token\n").unwrap();
    let asked = ["--control", &url, "--channels", "8", "--rate", "0", "--steady", "0"];
    let (document, code) = load(&[&asked[..], &["--token-file", &token]].concat());
    assert_eq!((code, count(&document, "succeeded")), (Some(0), 8), "{document:#}");
    let ran = command(&asked).output().unwrap();
    assert_eq!(ran.status.code(), Some(1));
    assert!(text(&ran.stderr).contains("responded with status 401"), "{}", text(&ran.stderr));
}

#[test]
fn wrong_flags_are_named_together_and_reports_of_the_usual_forms_are_written() {
    let asked = ["--channels", "1,2", "--suite", "0x110", "--mode", "half", "--role", "client", "--max-conns", "5"];
    let ran = command(&[&asked[..], &["--relay", "http://x/", "--preset", "none"]].concat()).output().unwrap();
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{said}");
    for flag in
        ["--channels", "--suite 0x110", "--mode half", "--role client", "--max-conns", "--relay", "--preset none"]
    {
        assert!(said.contains(flag), "{flag} is not named: {said}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let mut command = Command::new(BINARY);
    command.args(["load", "channel", "--channels", "5", "--rate", "0", "--steady", "0", "--no-tui"]);
    let forms = ["run.json", "run.html", "run.md", "run.csv"];
    forms.iter().for_each(|name| _ = command.arg("--out").arg(file(name)));
    let begun = Instant::now();
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{}{}", text(&ran.stdout), text(&ran.stderr));
    assert!(text(&ran.stdout).contains("5 of 5 succeeded"), "{}", text(&ran.stdout));
    assert!(forms.iter().all(|name| file(name).metadata().unwrap().len() > 100));
    valid_report(&file("run.json"));
    println!("{:?}", begun.elapsed());
}

fn valid_report(file: &Path) {
    let check = VALIDATE.replace("sys.stdin", "open(sys.argv[2])");
    let mut validator = Command::new(root().join(".venv/bin/python"));
    validator.arg("-c").arg(check).arg(root().join("spec/load-report.schema.json")).arg(file);
    let valid = validator.output().unwrap();
    assert!(valid.status.success(), "{}", text(&valid.stderr));
}
