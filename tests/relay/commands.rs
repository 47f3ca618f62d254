//! `sealway relay` and `sealway channel` with wrong arguments, and the bounds of the control plane.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use sealway_testkit::certificates::Certificates;
use sealway_testkit::daemon::{Daemon, clear_environment, free_port};
use sealway_testkit::raw_http::{Answer, Connection, Request};
use sealway_testkit::relay::NODE_NAME;

use crate::BINARY;

pub(crate) fn sealway(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    clear_environment(&mut command).current_dir(folder).args(arguments);
    command
}

/// Starts a control plane in a folder that has the keys of an issuer.
fn control_plane(folder: &Path, more: &[&str]) -> (Daemon, SocketAddr) {
    let address = format!("127.0.0.1:{}", free_port().unwrap());
    let arguments = ["relay", "control", "--listen", &address, "--tunnel-url", "ws://relay.example/ws", "--aud", "a"];
    let command = sealway(folder, &[&arguments[..], &["--issuer-key-file", "issuer-key.json"], more].concat());
    let mut control = Daemon::start(command, &folder.join("control.log")).unwrap();
    let address = address.parse().unwrap();
    control.wait_for(address).unwrap();
    (control, address)
}

fn folder_with_keys() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    assert!(sealway(folder.path(), &["relay", "keys"]).output().unwrap().status.success());
    folder
}

#[test]
fn the_control_plane_takes_4_kib_of_a_body_and_waits_10_seconds_for_it() {
    let folder = folder_with_keys();
    let token = "a-token-of-the-control-plane";
    std::fs::write(folder.path().join("token"), token).unwrap();
    let (_control, address) = control_plane(folder.path(), &["--token-file", "token"]);
    let grant = |body: Vec<u8>| {
        let request = Request::post("/v1/grant", body);
        request.header("Authorization", format!("Bearer {token}"))
    };
    let mut body = br#"{"name":"n","role":"server"}"#.to_vec();
    body.resize(4096, b' ');
    assert_eq!(grant(body.clone()).send(address).unwrap().status, 200);
    body.push(b' ');
    assert_eq!(grant(body.clone()).send(address).unwrap().status, 413);
    // Without a length, the bytes are counted as they arrive.
    assert_eq!(grant(body).chunked(512).send(address).unwrap().status, 413);

    let start = Instant::now();
    let mut slow = Connection::open(address).unwrap();
    slow.set_wait(Duration::from_secs(30)).unwrap();
    let whole = grant(br#"{"name":"n","role":"server"}"#.to_vec()).bytes();
    slow.write(&whole[..whole.len() - 1]).unwrap();
    assert_eq!(grant(b"{}".to_vec()).send(address).unwrap().status, 400, "others are served meanwhile");
    assert_eq!(slow.read_answer("POST").unwrap().status, 408);
    assert!((9..25).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
}

#[test]
fn a_client_of_the_control_plane_has_a_share_of_its_names() {
    let folder = folder_with_keys();
    let tokens = ["the-first-token-of-two", "the-second-token-of-two"];
    std::fs::write(folder.path().join("one"), tokens[0]).unwrap();
    std::fs::write(folder.path().join("two"), tokens.join("\n")).unwrap();
    // With one bearer token, each address counts as a client; with several, each token does.
    for (file, shares) in [("one", 1), ("two", 2)] {
        let (_control, address) = control_plane(folder.path(), &["--token-file", file, "--max-names-per-client", "2"]);
        let ask = |token: &str, name: &str| -> Answer {
            let body = format!(r#"{{"name":"{name}","role":"server"}}"#);
            let request = Request::post("/v1/grant", body).header("Authorization", format!("Bearer {token}"));
            request.send(address).unwrap()
        };
        for token in &tokens[..shares] {
            for name in ["a", "b"] {
                assert_eq!(ask(token, &format!("{name} of {token}")).status, 200);
            }
            let refused = ask(token, "one more");
            assert_eq!(refused.status, 429);
            let told = refused.json()["error"].as_str().unwrap().to_owned();
            assert_eq!(
                told,
                "too many names of one client: this one may hold 2 at present; see --max-names-per-client of the control plane"
            );
            assert_eq!(ask(token, &format!("a of {token}")).status, 200, "a name that is there takes no place");
        }
    }
}

/// A command line, its exit code, and the start of its error message.
const WRONG: &[(&str, i32, &str)] = &[
    ("relay serve --aud a", 2, "error: the following required arguments were not provided:"),
    ("relay serve --aud a --issuer-keys-file none", 1, "sealway: --issuer-keys-file: none: No such file"),
    ("relay serve --aud a --issuer-keys-file token", 1, "sealway: --issuer-keys-file: token: is not JSON of the form"),
    (
        "relay serve --aud a --issuer-keys-file issuer-keys.json --listen IN_USE",
        1,
        "sealway: --listen: cannot listen on IN_USE: port ",
    ),
    (
        "relay serve --aud a --issuer-keys-file issuer-keys.json --tls-cert none --tls-key none",
        1,
        "sealway: --tls-cert: none: cannot be read: No such file",
    ),
    (
        "relay serve --aud a --issuer-keys-file issuer-keys.json --log-level verbose",
        2,
        "sealway: --log-level: \"verbose\" is no level; expected off, error",
    ),
    (
        "relay serve --aud a --issuer-keys-file issuer-keys.json --redis-url redis://127.0.0.1",
        2,
        "error: the following required arguments were not provided:\n  --node-cert <FILE>\n  --node-key <FILE>",
    ),
    ("NODE --redis-url http://u:secret@r", 1, "sealway: --redis-url: its scheme is none of redis, rediss"),
    (
        "NODE --redis-url redis://r --redis-ca node.pem",
        1,
        "sealway: --redis-ca: the connection is not encrypted; write",
    ),
    ("NODE --redis-url rediss://r --redis-ca none", 1, "sealway: --redis-ca: none: No such file"),
    (
        "NODE --redis-url redis://u:secret@127.0.0.1:1",
        1,
        "sealway: --redis-url: Redis at 127.0.0.1:1: Connection refused",
    ),
    (
        "NODE --redis-url redis://127.0.0.1:1 --redis-prefix {",
        1,
        "sealway: --redis-prefix: Redis prefix: expected 1 to 64",
    ),
    ("relay serve --listen here", 2, "error: invalid value 'here' for '--listen <ADDRESS>': \"here\" is no address"),
    ("relay serve --ws-path ws", 2, "error: invalid value 'ws' for '--ws-path <PATH>': expected a path"),
    (
        "relay serve --max-conns -5",
        2,
        "error: invalid value '-5' for '--max-conns <COUNT>': expected a whole number from 0",
    ),
    (
        "relay serve --keepalive-s -1",
        2,
        "error: invalid value '-1' for '--keepalive-s <SECONDS>': expected a whole number from 1 to 3600",
    ),
    (
        "relay serve --allow-origin htt:p//",
        2,
        "error: invalid value 'htt:p//' for '--allow-origin <ORIGIN>': expected an origin",
    ),
    (
        "relay serve --node-listen x",
        2,
        "error: invalid value 'x' for '--node-listen <ADDRESS>': expected an address and port",
    ),
    (
        "relay mint --tunnel-url http://r/ws",
        2,
        "error: invalid value 'http://r/ws' for '--tunnel-url <URL>': expected ws://",
    ),
    (
        "relay mint --suite 0x9999",
        2,
        "error: invalid value '0x9999' for '--suite <NUMBER>': expected the number of a suite",
    ),
    ("relay mint --suite -1", 2, "error: invalid value '-1' for '--suite <NUMBER>': expected the number of a suite"),
    ("relay mint --noise-pattern NK", 2, "error: invalid value 'NK' for '--noise-pattern <NOISE_PATTERN>'"),
    ("MINT --suite 0x114 --noise-pattern NNpsk0", 2, "sealway: --noise-pattern: suite 0x114 has the pattern KKpsk0"),
    ("MINT --suite 0x104 --suite 0x114", 2, "sealway: --suite 0x114: has another Noise pattern"),
    ("MINT --suite 0x104 --suite 1", 2, "sealway: --suite: the suites of a grant are 1 to 64, of one profile"),
    (
        "relay mint --tunnel-url ws://r/ws --aud a --issuer-key-file token",
        1,
        "sealway: --issuer-key-file: token: is not JSON of the form",
    ),
    ("relay keys", 1, "sealway: issuer-key.json: the file must not exist yet"),
    ("relay keys --issuer-key-file k --issuer-keys-file no/where", 1, "sealway: no/where: No such file"),
    ("CONTROL", 2, "sealway: --token-file or --tls-client-ca: one of them is needed"),
    ("CONTROL --token-file none", 1, "sealway: --token-file: cannot read none: No such file"),
    ("CONTROL --token-file short", 1, "sealway: --token-file: short:1: expected a token a line"),
    ("CONTROL --token-file empty", 1, "sealway: --token-file: empty: holds no token; expected a token a line"),
    (
        "CONTROL --max-names-per-client -3",
        2,
        "error: invalid value '-3' for '--max-names-per-client <COUNT>': expected a whole",
    ),
    (
        "channel connect --listen IN_USE --control http://127.0.0.1:1",
        1,
        "sealway: --listen: cannot listen on IN_USE: port ",
    ),
    ("channel connect --listen 127.0.0.1:0", 2, "sealway: --control URL or --grant FILE: one of them is needed"),
    ("channel listen --forward udp://a:1", 2, "error: invalid value 'udp://a:1' for '--forward <TARGET>': "),
    (
        "channel listen --forward tcp://a:1 --grant short --control http://a",
        2,
        "error: the argument '--grant <FILE>' cannot be used with '--control <URL>'",
    ),
    ("CHANNEL --control ftp://u:secret@a", 2, "sealway: --control: expected http://HOST:PORT or https://HOST:PORT"),
    ("CHANNEL --control http://a --token-file none", 1, "sealway: --token-file: cannot read none: No such file"),
    ("CHANNEL --control http://a --identity none", 1, "sealway: --identity: cannot read none: No such file"),
    ("CHANNEL --control http://a --ca token", 1, "sealway: --ca: token: holds no certificate in PEM"),
    (
        "CHANNEL --pad-to -4",
        2,
        "error: invalid value '-4' for '--pad-to <BYTES>': expected a whole number from 0 to 65536",
    ),
    (
        "CHANNEL --ping-every 0",
        2,
        "error: invalid value '0' for '--ping-every <S>': expected a whole number from 1 to 3600",
    ),
    ("channel cat --grant token", 1, "sealway: grant: token: "),
    ("channel key issuer-key.json", 1, "sealway: issuer-key.json: the file must not exist yet"),
];

#[test]
fn wrong_arguments_end_with_a_line_that_names_the_flag_or_the_file() {
    let folder = tempfile::tempdir().unwrap();
    assert!(sealway(folder.path(), &["relay", "keys"]).output().unwrap().status.success());
    for (name, text) in [("token", "a-token-of-the-tests-0123456789"), ("short", "short"), ("empty", "# nothing\n")] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let names = format!("subjectAltName=DNS:{NODE_NAME}");
    let authority = Certificates::make(folder.path(), "DNS:localhost", "client").unwrap();
    authority.issue("node", "/CN=a node", &[&names, "extendedKeyUsage=serverAuth,clientAuth"], 2).unwrap();
    let node = format!("--node-cert node.pem --node-key node.key --node-ca ca.pem --node-name {NODE_NAME}");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let in_use = listener.local_addr().unwrap().to_string();
    for (line, code, begins) in WRONG {
        let line = line.replace("IN_USE", &in_use).replace("CHANNEL", "channel listen --forward tcp://127.0.0.1:1");
        let line =
            line.replace("CONTROL", "relay control --tunnel-url ws://r/ws --aud a --issuer-key-file issuer-key.json");
        let line = line.replace("MINT", "relay mint --tunnel-url ws://r/ws --aud a --issuer-key-file issuer-key.json");
        let line = line.replace("NODE ", &format!("relay serve --aud a --issuer-keys-file issuer-keys.json {node} "));
        let arguments: Vec<_> = line.split(' ').collect();
        let output = sealway(folder.path(), &arguments).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(*code), "{line}: {told}");
        assert!(told.starts_with(&begins.replace("IN_USE", &in_use)), "{line}: {told}");
        assert!(!told.contains("secret@"), "{line}: {told}");
        assert!(told.starts_with("error: ") || told.lines().count() == 1, "{line}: {told}");
        assert!(output.stdout.is_empty(), "{line}");
    }
    assert!(!folder.path().join("k").exists(), "a key without its keyset is removed");
}
