//! `sealway call --mle` against a route of a real gateway: what it prints, and what its errors name.

use std::path::Path;
use std::process::{Command, Output};

use sealway_testkit::process::{Launch, Server};
use sealway_testkit::rsa::make_pair;
use sealway_testkit::upstream::{Upstream, answer};

use crate::BINARY;

struct Setup {
    server: Server,
    _service: Upstream,
    folder: tempfile::TempDir,
}

fn setup() -> Setup {
    let folder = tempfile::tempdir().unwrap();
    for name in ["service", "caller", "stranger"] {
        make_pair(folder.path(), name).unwrap();
    }
    let service = Upstream::answering(|head, body| {
        let status = if head.line.contains("/missing") { "404 Not Found" } else { "200 OK" };
        answer(status, &[("Content-Type", "application/json")], body)
    });
    let service = service.unwrap();
    let config = format!(
        "
listeners: [{{ address: '127.0.0.1:0' }}]
mle_keys:
  service: {{ file: service.key.pem, kid: kid-service }}
  caller: {{ certificate: caller.cert.pem, kid: kid-caller, enc: A128GCM }}
routes:
  - match: {{ path_prefix: /visa }}
    upstream: service
    mle: {{ direction: inbound, profile: visa, caller: anybody, open: [service], seal: [{{ keys: [caller] }}] }}
  - {{ match: {{}}, upstream: service }}
upstreams: {{ service: {{ servers: ['http://{}'] }} }}
sessions: {{ store: 'memory:' }}
",
        service.address
    );
    let server = Launch::new(BINARY, &config).folder(folder.path()).start().unwrap();
    Setup { server, _service: service, folder }
}

impl Setup {
    /// Calls a path with these flags besides those of the profile.
    fn call(&self, path: &str, flags: &[&str]) -> Output {
        let mut command = Command::new(BINARY);
        command.args(["call", "POST", &format!("http://{}{path}", self.server.address()), "--mle", "visa"]);
        command.args(flags).current_dir(self.folder.path()).output().unwrap()
    }
}

const KEYS: [&str; 8] =
    ["--certificate", "service.cert.pem", "--kid", "kid-service", "--key", "caller.key.pem", "--key-kid", "kid-caller"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    KEYS.into_iter().chain(more.iter().copied()).collect()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_call_prints_the_opened_answer() {
    let setup = setup();
    let body = r#"{"pan":"4111111111111111","n":12345678901234567890}"#;
    for enc in ["A128GCM", "A256GCM"] {
        let output = setup.call("/visa/pay", &with(&["--data", body, "--enc", enc, "--verbose"]));
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout), body);
        assert!(
            said(&output).contains(&format!("sealed as visa with {enc} to the key \"kid-service\"")),
            "{}",
            said(&output)
        );
        assert!(!said(&output).contains("4111"), "{}", said(&output));
    }
    // A status of the service comes with its sealed body, which is opened all the same.
    let output = setup.call("/visa/missing", &with(&["--data", body]));
    assert!(!output.status.success() && said(&output).contains("the service answered 404 Not Found"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), body);
}

#[test]
fn an_answer_in_clear_is_an_error_unless_it_reports_one() {
    let setup = setup();
    // The route without MLE echoes the token of the request, which is in another direction and to another key.
    let output = setup.call("/plain", &with(&["--data", "{}"]));
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(said(&output).contains("the answer does not open with --key caller.key.pem: kid: "), "{}", said(&output));
    let output = setup.call("/plain", &KEYS);
    assert!(output.status.success() && output.stdout.is_empty(), "{}", said(&output));
    // The gateway rejects a key that it does not have in clear, and alike for every fault.
    let mut flags = with(&["--data", "{}"]);
    flags[3] = "kid-other";
    let output = setup.call("/visa/pay", &flags);
    assert_eq!(String::from_utf8_lossy(&output.stdout), r#"{"error":"CRYPTO_ERROR"}"#);
    assert!(said(&output).contains("the service answered 400 Bad Request, in clear"), "{}", said(&output));
}

#[test]
fn errors_name_the_flag_and_the_file() {
    let setup = setup();
    let exchanged = |at: usize, value: &'static str| {
        let mut flags = with(&["--data", "{}"]);
        flags[at] = value;
        flags
    };
    for (flags, words) in [
        (exchanged(1, "absent.pem"), "--certificate: absent.pem: "),
        (exchanged(1, "caller.key.pem"), "--certificate: caller.key.pem: a certificate or a public key is due"),
        (exchanged(5, "caller.cert.pem"), "--key: caller.cert.pem: "),
        (with(&["--enc", "A192GCM"]), "--enc: visa allows A128GCM, A256GCM"),
        (KEYS[..6].to_vec(), "--key-kid: the name of the key is missing"),
        ([&KEYS[..6], &["--kid-from", "spki"]].concat(), "--kid-from: \"spki\" is none of spki_sha256_hex"),
        (KEYS[..4].to_vec(), "--key <FILE>"),
        (with(&["--wire", "3"]), "--wire"),
    ] {
        let output = setup.call("/visa/pay", &flags);
        assert!(!output.status.success() && said(&output).contains(words), "{words}: {}", said(&output));
    }
    let output = setup.call("/visa/pay", &with(&["--data", "{}", "--key", "stranger.key.pem"]));
    assert!(!output.status.success(), "a flag twice");
    let mut flags = with(&["--data", "{}"]);
    flags[5] = "stranger.key.pem";
    let output = setup.call("/visa/pay", &flags);
    assert!(said(&output).contains("with --key stranger.key.pem: unwrap: "), "{}", said(&output));
    assert!(Path::new(setup.folder.path()).join("stranger.key.pem").is_file() && output.stdout.is_empty());
}
