//! `sealway load` with messages of card schemes against a real gateway, over HTTP/1.1 and HTTP/2.

use std::process::Command;
use std::sync::OnceLock;

use sealway_load::plan::{Assertion, MessageSettings, Plan, Protocol, Text};
use sealway_load::record::{Class, Phase};
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::rsa::make_pair;
use sealway_testkit::upstream::{Upstream, answer};

use crate::BINARY;
use crate::ground::{fault, plan, run, run_well, workers};

struct Setup {
    server: Server,
    _echo: Upstream,
    folder: tempfile::TempDir,
}

fn setup() -> &'static Setup {
    static SETUP: OnceLock<Setup> = OnceLock::new();
    SETUP.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        ["service", "caller", "stranger"].iter().for_each(|name| make_pair(folder.path(), name).unwrap());
        let echo =
            Upstream::answering(|_, body| answer("200 OK", &[("Content-Type", "application/json")], body)).unwrap();
        let route = |path: &str, profile: &str| {
            format!(
                "  - match: {{ path_prefix: {path} }}
    upstream: echo
    mle: {{ direction: inbound, profile: {profile}, caller: anybody, open: [service], seal: [{{ keys: [caller] }}] }}
"
            )
        };
        let config = format!(
            "
listeners: [{{ address: '127.0.0.1:0' }}]
mle_keys:
  service: {{ file: service.key.pem, kid_from: spki_sha256_hex }}
  caller: {{ certificate: caller.cert.pem, kid_from: spki_sha256_hex }}
routes:
{}{}{}{}  - {{ match: {{ path: /nothing }}, standalone: ok }}
  - {{ match: {{}}, upstream: echo }}
upstreams: {{ echo: {{ servers: ['http://{}'] }} }}
sessions: {{ store: 'memory:' }}
",
            route("/mastercard-jwe", "mastercard-jwe"),
            route("/visa/", "visa"),
            route("/visa-acceptance", "visa-acceptance"),
            route("/generic-jwe", "generic-jwe"),
            echo.address
        );
        let server = Launch::new(BINARY, &config).folder(folder.path()).start().unwrap();
        Setup { server, _echo: echo, folder }
    })
}

/// Two workers seal so many numbered requests to a path, and check the echo.
fn sealed(profile: &str, path: &str, requests: u64) -> Plan {
    let setup = setup();
    let mut plan = plan(&format!("http://{}/", setup.server.address()), None, requests);
    plan.request.method = http::Method::POST;
    plan.request.path = path.into();
    let body = r#"{"n":"{{counter}}","id":"{{uuid}}"}"#;
    plan.request.body = Some(Text::Template(body.into()));
    plan.target.mle = Some(MessageSettings {
        profile: profile.into(),
        certificate: setup.folder.path().join("service.cert.pem"),
        kid_from: Some("spki_sha256_hex".into()),
        key: setup.folder.path().join("caller.key.pem"),
        ..MessageSettings::default()
    });
    plan.assertions =
        vec![Assertion::JsonPath { path: "$.n".into(), equals: "{{counter}}".into() }, Assertion::BodyIs(body.into())];
    workers(&mut plan, 2);
    plan
}

#[test]
fn every_request_is_sealed_anew_and_its_answer_is_opened_and_checked() {
    let requests = 20;
    for (profile, path) in [
        ("mastercard-jwe", "/mastercard-jwe/pay"),
        ("visa", "/visa/pay"),
        ("visa-acceptance", "/visa-acceptance/pay"),
        ("generic-jwe", "/generic-jwe/pay"),
    ] {
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let mut plan = sealed(profile, path, requests);
            plan.target.protocol = protocol;
            // A token that was sent before is rejected, so that a run without failures reused none.
            let sum = run_well(plan).totals.sum;
            let what = format!("{profile} over {}", protocol.name());
            assert_eq!(sum.counts.succeeded, requests, "{what}");
            assert_eq!((sum.times(Phase::Seal).len(), sum.times(Phase::Open).len()), (requests, requests), "{what}");
        }
    }
}

#[test]
fn requests_over_connections_without_reuse_are_sealed_too() {
    let mut plan = sealed("visa", "/visa/pay", 8);
    (plan.connections.reuse, plan.connections.close_header) = (false, true);
    let sum = run_well(plan).totals.sum;
    assert_eq!((sum.counts.succeeded, sum.counts.connections_opened), (8, 8));
}

#[test]
fn an_answer_that_is_plain_or_of_another_key_is_a_failure() {
    // Echoed in clear, the token is one of the other direction and for another key.
    let outcome = run(sealed("visa", "/plain", 4));
    let (class, example) = fault(&outcome);
    assert_eq!(class, Class::Unsealed);
    assert!(example.starts_with("kid: "), "{example}");
    let (class, example) = fault(&run(sealed("visa", "/nothing", 4)));
    assert_eq!(class, Class::Unsealed);
    assert!(example.starts_with("the response is in clear: "), "{example}");
    let mut plan = sealed("visa", "/visa/pay", 4);
    let mle = plan.target.mle.as_mut().unwrap();
    (mle.key, mle.key_kid) = (setup().folder.path().join("stranger.key.pem"), Some(caller_kid()));
    let (class, example) = fault(&run(plan));
    assert_eq!(class, Class::Unsealed);
    assert!(example.starts_with("unwrap: "), "{example}");
}

/// Returns the name of the caller's key, as `sealway mle keys` prints it.
fn caller_kid() -> String {
    let file = setup().folder.path().join("caller.cert.pem");
    let output = Command::new(BINARY).args(["mle", "keys"]).arg(file).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|line| line.trim().strip_prefix("spki_sha256_hex: ")).unwrap();
    line.to_owned()
}

#[test]
fn a_rejected_request_is_a_failure_of_its_status() {
    let mut plan = sealed("visa", "/visa/pay", 4);
    plan.target.mle.as_mut().unwrap().kid = Some("unknown".into());
    let (class, example) = fault(&run(plan));
    assert_eq!(class, Class::Status);
    assert!(
        example.contains("the request was rejected in clear: 400") && example.contains("CRYPTO_ERROR"),
        "{example}"
    );
}

#[test]
fn flags_make_the_plan_and_name_what_is_wrong() {
    let setup = setup();
    let url = format!("http://{}/visa/pay", setup.server.address());
    let load = |flags: &[&str]| {
        let mut command = Command::new(BINARY);
        command.args([
            "load",
            &url,
            "--no-tui",
            "--requests",
            "4",
            "--concurrency",
            "1",
            "--body",
            r#"{"pan":"4111"}"#,
        ]);
        let output = command.args(flags).current_dir(setup.folder.path()).output().unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.code(), text)
    };
    let keys =
        ["--mle-certificate", "service.cert.pem", "--mle-key", "caller.key.pem", "--mle-kid-from", "spki_sha256_hex"];
    let with = |more: &[&'static str]| [&keys[..], more].concat();
    let (code, text) = load(&with(&["--mle", "visa", "--assert-body-holds", "4111", "--out", "report.json"]));
    assert_eq!(code, Some(0), "{text}");
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(setup.folder.path().join("report.json")).unwrap()).unwrap();
    assert_eq!(report["asked"]["mle"], serde_json::json!({ "profile": "visa", "enc": null }));
    for (flags, words) in [
        (with(&[]), "--mle-certificate: applies to messages of card schemes only: add --mle PROFILE"),
        (with(&["--mle", "amex"]), "--mle: \"amex\" is none of mastercard-jwe"),
        (with(&["--mle", "visa", "--sealed", "3"]), "--mle with --sealed: "),
        (with(&["--mle", "visa", "--mle-enc", "A192GCM"]), "--mle-enc: visa allows A128GCM, A256GCM"),
        (vec!["--mle", "visa"], "--mle-key: missing"),
        (
            vec![
                "--mle",
                "visa",
                "--mle-certificate",
                "caller.key.pem",
                "--mle-key",
                "caller.key.pem",
                "--mle-kid",
                "k",
            ],
            "--mle-certificate: caller.key.pem: ",
        ),
    ] {
        let (code, text) = load(&flags);
        assert!(code == Some(2) && text.contains(words), "{words}: {code:?} {text}");
    }
}
