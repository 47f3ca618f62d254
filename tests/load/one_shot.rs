//! `sealway load` with requests that are sealed without a session, against a real gateway and a real relay, and through a proxy that
//! changes what it passes.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Method;
use sealway_client::OneShotTrust;
use sealway_client::one_shot::{Kem, KeyConfig, KeyDocument};
use sealway_load::plan::{Assertion, OneShotProtocol, OneShotRequests, Plan, Protocol, Text};
use sealway_load::record::{Class, Phase};
use sealway_proto::crypto::default_provider;
use sealway_proto::hpke::{Aead, PrivateKey};
use sealway_proto::wire::base64;
use sealway_testkit::daemon::clear_environment;
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::{Answer, Request};
use sealway_testkit::upstream::{RequestHead, Upstream, answer};

use crate::BINARY;
use crate::ground::{fault, plan, run, run_well, workers};

const PROTOCOLS: [OneShotProtocol; 4] = OneShotProtocol::ALL;
const MASTER: [u8; 32] = [7; 32];

struct Setup {
    server: Server,
    relay: Server,
    _echo: Upstream,
    folder: tempfile::TempDir,
}

/// Makes a key in the folder's `keys.json`.
fn make_key(folder: &Path, purpose: &str, kem: &str) {
    let mut command = Command::new(BINARY);
    clear_environment(&mut command).args(["one-shot-keys", "add"]).arg(folder.join("keys.json"));
    let made = command.args(["--use", purpose, "--kem", kem, "--days", "7"]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

fn setup() -> &'static Setup {
    static SETUP: OnceLock<Setup> = OnceLock::new();
    SETUP.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        for kem in ["x25519", "p256", "x-wing", "mlkem768-p256"] {
            make_key(folder.path(), "hpke", kem);
        }
        make_key(folder.path(), "ehbp", "x25519");
        ["x25519", "p256"].iter().for_each(|kem| make_key(folder.path(), "ohttp", kem));
        std::fs::write(folder.path().join("master"), base64::encode(&MASTER)).unwrap();
        let echo =
            Upstream::answering(|_, body| answer("200 OK", &[("Content-Type", "application/json")], body)).unwrap();
        let config = format!(
            "
listeners: [{{ address: '127.0.0.1:0' }}]
one_shot: {{ keys: keys.json, psk: {{ master: master }} }}
routes:
  - {{ match: {{ path_prefix: /hpke }}, upstream: echo, sealed: hpke }}
  - {{ match: {{ path_prefix: /known }}, upstream: echo, sealed: hpke, one_shot: {{ client: psk }} }}
  - {{ match: {{ path_prefix: /ehbp }}, upstream: echo, sealed: ehbp }}
  - {{ match: {{ path: /gateway }}, ohttp: {{ role: gateway, targets: {{ 'api.example': echo }} }} }}
upstreams: {{ echo: {{ servers: ['http://{}'] }} }}
sessions: {{ store: 'file:sessions.redb', allow_generated_kek: true }}
",
            echo.address
        );
        let server = Launch::new(BINARY, &config).folder(folder.path()).start().unwrap();
        let config = format!(
            "
listeners: [{{ address: '127.0.0.1:0' }}]
routes:
  - {{ match: {{ path: /relay }}, upstream: gateway, ohttp: {{ role: relay, gateway_path: /gateway }} }}
upstreams: {{ gateway: {{ servers: ['http://{}'] }} }}
sessions: {{ store: 'memory:' }}
",
            server.address()
        );
        Setup { relay: Launch::new(BINARY, &config).start().unwrap(), server, _echo: echo, folder }
    })
}

/// The key configurations of wire 4 that the server publishes.
fn published() -> Vec<KeyConfig> {
    let document = Request::get("/.well-known/sealway-hpke-keys").send(setup().server.address()).unwrap();
    let document = KeyDocument::parse(default_provider(), &document.body).unwrap();
    let configs = document.keys.iter().map(|key| KeyConfig::decode(default_provider(), &key.config).unwrap());
    configs.collect()
}

/// A key that no server has, in the form of the protocol.
fn strange(protocol: OneShotProtocol) -> KeyConfig {
    let private = PrivateKey::derive(default_provider(), Kem::X25519, &[1; 32]).unwrap().1;
    let aead = if protocol.is_ohttp() { Aead::Aes128Gcm } else { Aead::Aes256Gcm };
    KeyConfig::new(1, private.public_key().clone(), &[aead]).unwrap()
}

/// Two workers seal so many numbered requests, and check the echo.
fn sealed(protocol: OneShotProtocol, at: std::net::SocketAddr, requests: u64) -> Plan {
    let path = match protocol {
        OneShotProtocol::Hpke => "/hpke/pay",
        OneShotProtocol::Ehbp => "/ehbp/pay",
        _ => "/gateway",
    };
    let mut plan = plan(&format!("http://{at}{path}"), None, requests);
    plan.request.method = Method::POST;
    let body = r#"{"n":"{{counter}}","id":"{{uuid}}"}"#;
    plan.request.body = Some(Text::Template(body.into()));
    let inner = protocol.is_ohttp().then(|| "https://api.example".parse().unwrap());
    if inner.is_some() {
        plan.request.path = "/pay?n={{counter}}".into();
    }
    let kids = published().iter().map(|config| config.kid(default_provider())).collect();
    let trust = (protocol == OneShotProtocol::Hpke).then_some(OneShotTrust::Kids(kids));
    plan.target.one_shot = Some(OneShotRequests { protocol, trust, kems: Vec::new(), psk: None, inner });
    plan.assertions =
        vec![Assertion::JsonPath { path: "$.n".into(), equals: "{{counter}}".into() }, Assertion::BodyIs(body.into())];
    workers(&mut plan, 2);
    plan
}

fn one_shot(plan: &mut Plan) -> &mut OneShotRequests {
    plan.target.one_shot.as_mut().unwrap()
}

/// Runs the plan without a failure, and checks that each request was sealed and each answer opened.
fn check_well(plan: Plan, fetches: u64, what: &str) {
    let requests = plan.stop.requests.unwrap();
    // An encapsulation that was sent before is rejected, so that a run without failures reused none.
    let sum = run_well(plan).totals.sum;
    assert_eq!((sum.counts.succeeded, sum.counts.keys_fetched, sum.counts.repeats), (requests, fetches, 0), "{what}");
    assert_eq!((sum.times(Phase::Seal).len(), sum.times(Phase::Open).len()), (requests, requests), "{what}");
}

#[test]
fn every_request_of_each_protocol_is_sealed_anew_and_its_answer_is_opened_and_checked() {
    for protocol in PROTOCOLS {
        for http in [Protocol::Http1, Protocol::Http2] {
            let mut plan = sealed(protocol, setup().server.address(), 20);
            plan.target.protocol = http;
            check_well(plan, 1, &format!("{} over {}", protocol.name(), http.name()));
        }
    }
    let mut plan = sealed(OneShotProtocol::Ohttp, setup().server.address(), 8);
    (plan.connections.reuse, plan.connections.close_header) = (false, true);
    check_well(plan, 1, "without reuse");
}

#[test]
fn wire_4_has_each_kem_a_pinned_key_and_a_pre_shared_one() {
    let configs = published();
    for kem in [Kem::X25519, Kem::P256, Kem::XWing, Kem::MlKem768P256] {
        let mut plan = sealed(OneShotProtocol::Hpke, setup().server.address(), 6);
        (one_shot(&mut plan).kems, plan.request.path) = (vec![kem], "/hpke/{{uuid}}".into());
        check_well(plan, 1, &format!("{kem:?}"));
    }
    let mut plan = sealed(OneShotProtocol::Hpke, setup().server.address(), 6);
    one_shot(&mut plan).trust = Some(OneShotTrust::Configs(configs));
    check_well(plan, 0, "a pinned configuration");
    let file = setup().folder.path().join("psk");
    let psk = default_provider().hkdf_sha256(b"partner-7", &MASTER, &[b"sealway/4 psk"]).unwrap();
    std::fs::write(&file, base64::encode(&*psk)).unwrap();
    let mut plan = sealed(OneShotProtocol::Hpke, setup().server.address(), 6);
    plan.request.path = "/known/pay".into();
    let (class, example) = fault(&run(plan.clone()));
    assert_eq!(class, Class::Status);
    assert!(example.contains("policy"), "{example}");
    one_shot(&mut plan).psk = Some(("partner-7".into(), file.clone()));
    check_well(plan.clone(), 1, "a pre-shared key");
    one_shot(&mut plan).psk = Some(("partner-8".into(), file));
    let (class, example) = fault(&run(plan));
    assert_eq!(class, Class::Status);
    assert!(example.contains("unsealable"), "{example}");
}

#[test]
fn requests_go_through_a_relay_with_the_gateways_key() {
    let keys = Request::get("/gateway").set("Accept", "application/ohttp-keys").send(setup().server.address()).unwrap();
    let configs = KeyConfig::decode_list(default_provider(), &keys.body).unwrap();
    for protocol in [OneShotProtocol::Ohttp, OneShotProtocol::OhttpChunked] {
        for config in &configs {
            let mut plan = sealed(protocol, setup().relay.address(), 6);
            plan.target.url = format!("http://{}/relay", setup().relay.address()).parse().unwrap();
            one_shot(&mut plan).trust = Some(OneShotTrust::Configs(vec![config.clone()]));
            check_well(plan, 0, protocol.name());
        }
    }
}

/// Passes a request on to the server.
fn passed_on(head: &RequestHead, body: &[u8]) -> Answer {
    let (method, target) = head.method_and_target();
    let mut request = Request::new(method, target).body(body);
    for name in ["content-type", "accept", "x-seal", "x-kid", "x-idempotency-key", "x-sealed", "ehbp-encapsulated-key"]
    {
        if let Some(value) = head.header(name) {
            request = request.set(name, value);
        }
    }
    request.send(setup().server.address()).unwrap()
}

/// A proxy before the server, which changes each answer.
fn proxy(change: impl Fn(&RequestHead, &[u8], &mut Answer) + Send + Sync + 'static) -> Upstream {
    let proxy = move |head: &RequestHead, body: &[u8]| {
        let mut passed = passed_on(head, body);
        change(head, body, &mut passed);
        let framing = ["content-length", "transfer-encoding", "connection"];
        let headers = passed.headers.iter().filter(|(name, _)| !framing.contains(&&*name.to_lowercase()));
        let headers: Vec<_> = headers.map(|(name, value)| (name.as_str(), value.as_str())).collect();
        answer(&format!("{} X", passed.status), &headers, &passed.body)
    };
    Upstream::answering(proxy).unwrap()
}

fn is_call(head: &RequestHead) -> bool {
    head.method_and_target().0 == "POST"
}

#[test]
fn an_answer_that_was_changed_cut_or_given_in_clear_is_a_failure_and_no_success() {
    type Change = fn(&mut Answer);
    let changes: [(&str, Change); 3] = [
        ("a flipped bit", |answer| *answer.body.last_mut().unwrap() ^= 1),
        ("a cut", |answer| answer.body.truncate(answer.body.len() - 1)),
        ("in clear", |answer| {
            answer.headers.retain(|(name, _)| name.eq_ignore_ascii_case("date"));
            answer.body = br#"{"n":"0"}"#.to_vec();
        }),
    ];
    for (name, change) in changes {
        let proxy = proxy(move |head, _, answer| {
            if is_call(head) {
                change(answer);
            }
        });
        for protocol in PROTOCOLS {
            let outcome = run(sealed(protocol, proxy.address, 4));
            let (class, example) = fault(&outcome);
            assert_eq!((class, outcome.totals.sum.counts.failed), (Class::Unsealed, 4), "{name}: {example}");
        }
    }
}

#[test]
fn a_key_that_the_server_does_not_have_is_a_failure_of_its_own_class() {
    for protocol in PROTOCOLS {
        let mut plan = sealed(protocol, setup().server.address(), 4);
        one_shot(&mut plan).trust = Some(OneShotTrust::Configs(vec![strange(protocol)]));
        let (class, example) = fault(&run(plan));
        assert_eq!(class, Class::KeyRetired, "{}: {example}", protocol.name());
    }
    // A kid that is in no document.
    let mut plan = sealed(OneShotProtocol::Hpke, setup().server.address(), 4);
    one_shot(&mut plan).trust = Some(OneShotTrust::Kids(vec![format!("hpke:{}", "0".repeat(32))]));
    let (class, example) = fault(&run(plan));
    assert_eq!(class, Class::Session);
    assert!(example.contains("no trusted key"), "{example}");
}

#[test]
fn a_request_that_was_received_before_is_a_failure_of_its_own_class() {
    let proxy = proxy(|head, body, answer| {
        if is_call(head) {
            *answer = passed_on(head, body);
        }
    });
    for protocol in PROTOCOLS {
        let (class, example) = fault(&run(sealed(protocol, proxy.address, 4)));
        assert_eq!(class, Class::Replayed, "{}: {example}", protocol.name());
    }
}

#[test]
fn after_a_retired_key_a_safe_request_is_sent_once_more_and_another_is_a_failure() {
    for (method, failed) in [(Method::GET, 0), (Method::POST, 1)] {
        // The list that is fetched first has a key from before.
        let is_stale = AtomicBool::new(true);
        let proxy = proxy(move |head, _, answer| {
            if !is_call(head) && is_stale.swap(false, Ordering::SeqCst) {
                answer.body = KeyConfig::encode_list([&strange(OneShotProtocol::Ohttp)]).unwrap();
            }
        });
        let mut plan = sealed(OneShotProtocol::Ohttp, proxy.address, 10);
        workers(&mut plan, 1);
        if method == Method::GET {
            (plan.request.body, plan.assertions) = (None, Vec::new());
        }
        plan.request.method = method.clone();
        let sum = run(plan).totals.sum;
        let counts = sum.counts;
        assert_eq!((counts.failed, counts.succeeded), (failed, 10 - failed), "{method} {:?}", sum.faults());
        assert_eq!((counts.keys_fetched, counts.repeats), (2, 1 - failed), "{method}");
        assert!(sum.faults().iter().all(|fault| fault.class == Class::KeyRetired), "{method}");
    }
}

#[test]
fn flags_make_the_plan_and_name_what_is_wrong() {
    let setup = setup();
    let at = setup.server.address();
    let load = |path: &str, flags: &[&str]| {
        let mut command = Command::new(BINARY);
        let url = if path.starts_with("https:") { path.to_owned() } else { format!("http://{at}{path}") };
        let common = ["--no-tui", "--requests", "4", "--concurrency", "1", "--body", r#"{"pan":"4111"}"#];
        clear_environment(&mut command).args(["load", &url]).args(common).args(flags);
        let output = command.current_dir(setup.folder.path()).output().unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.code(), text)
    };
    let (gateway, relay) = (format!("http://{at}/gateway"), format!("http://{}/relay", setup.relay.address()));
    let config = published().first().map(|config| base64::encode(&config.encode())).unwrap();
    let [config, gateway, relay] = [&config, &gateway, &relay].map(String::as_str);
    let report = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(setup.folder.path().join(name)).unwrap()).unwrap()
    };
    for (path, protocol, more, summary) in [
        ("/hpke/pay", "hpke", vec!["--one-shot-key", config], ("configs", None)),
        ("/ehbp/pay", "ehbp", vec![], ("fetched", None)),
        (
            "https://api.example/pay",
            "ohttp",
            vec!["--one-shot-gateway", gateway],
            ("fetched", Some("https://api.example")),
        ),
        (
            "https://api.example/pay",
            "ohttp-chunked",
            vec!["--one-shot-gateway", gateway, "--one-shot-kem", "p256"],
            ("fetched", Some("https://api.example")),
        ),
    ] {
        let flags = ["--one-shot", protocol, "--assert-body-holds", "4111", "--out", "one-shot.json"];
        let (code, text) = load(path, &[&flags[..], &more].concat());
        assert_eq!(code, Some(0), "{protocol}: {text}");
        let (trust, inner) = summary;
        let expected = serde_json::json!({ "protocol": protocol, "trust": trust, "psk": false, "inner": inner });
        assert_eq!(report("one-shot.json")["asked"]["one_shot"], expected);
    }
    for (flags, words) in [
        (vec!["--one-shot-kem", "p256"], "--one-shot-kem: applies to requests without a session only: add --one-shot"),
        (vec!["--one-shot", "hpke"], "--one-shot hpke: give the service's key with --one-shot-key"),
        (vec!["--one-shot", "ehbp", "--sealed", "3"], "--one-shot with --sealed or --mle: "),
        (vec!["--one-shot", "ehbp", "--one-shot-psk", "a"], "--one-shot-psk: applies to --one-shot hpke only"),
        (vec!["--one-shot", "hpke", "--one-shot-key", "hpke:zz"], "--one-shot-key: "),
        (
            vec!["--one-shot", "ohttp", "--one-shot-key", config, "--one-shot-relay", "gopher://a"],
            "--one-shot-relay gopher",
        ),
        (vec!["--one-shot", "ohttp", "--one-shot-relay", relay], "--one-shot-relay: a relay publishes no keys"),
    ] {
        let (code, text) = load("/", &flags);
        assert!(code == Some(2) && text.contains(words), "{words}: {code:?} {text}");
    }
}
