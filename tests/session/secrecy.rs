//! Secrets that must not be visible: keys, plaintexts and tokens in logs, and differences between opening failures in answers.

use base64::Engine;
use sealway_proto::wire::{Wire, base64 as wire_base64};
use sealway_testkit::process::{ADMIN_TOKEN, Launch, Server};
use sealway_testkit::raw_http::{Answer, Request};
use sealway_testkit::upstream::{Upstream, answer};
use sealway_testkit::wire_client::{CLIENT_ID, PURCHASE, WireSession, init, nonce, now_ms};

use crate::{BINARY, BOTH};

fn start(upstream: &str, level: &'static str) -> Server {
    let config = format!(
        "
listeners: [{{ address: '127.0.0.1:0' }}]
routes:
  - {{ match: {{ path_prefix: [/session/, /v1/session/], path: [/health, /ready] }}, sessions: {{}} }}
  - {{ match: {{ path_prefix: /transaction/ }}, sealed: required, upstream: shop }}
  - {{ match: {{ path_prefix: /service/ }}, sealed: required, upstream: service }}
  - {{ match: {{}}, upstream: service }}
upstreams: {{ shop: {{ servers: ['demo:'] }}, service: {{ servers: ['{upstream}'] }} }}
sessions: {{ store: 'file:sessions.redb', allow_generated_kek: true, anonymous_paths: [{PURCHASE}] }}
compat: {{ open_key_endpoint: true }}
admin: {{ address: '127.0.0.1:0', token_file: admin.token }}
"
    );
    Launch::new(BINARY, &config).log_level(level).start().unwrap()
}

#[test]
fn after_all_kinds_of_traffic_the_log_at_its_loudest_holds_nothing_secret() {
    const ASKED: &str = "PLAINTEXT-OF-THE-REQUEST";
    const TOLD: &str = "PLAINTEXT-OF-THE-ANSWER";
    const TOKEN: &str = "bearer-token-of-a-client-5d41";
    let upstream = Upstream::answering(|received, _| match received.line.contains("cut") {
        true => format!("HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{TOLD}").into_bytes(),
        false => answer("200 OK", &[], TOLD.as_bytes()),
    });
    let mut server = start(&format!("http://{}", upstream.unwrap().address), "trace");
    let to = server.address();
    let mut secrets: Vec<Vec<u8>> = [ASKED, TOLD, TOKEN, ADMIN_TOKEN].map(|text| text.as_bytes().to_vec()).into();
    let order = format!(r#"{{"schemeCode":"{ASKED}","amount":5000}}"#);
    for (wire, path) in [
        (Wire::V1, "/session/init"),
        (Wire::V2, "/session/init"),
        (Wire::V2, "/v1/session/init"),
        (Wire::V1, "/session/init/anon"),
    ] {
        let agreed = WireSession::open(to, wire, path).unwrap();
        let (finish, request) = init(wire, path, CLIENT_ID, None);
        let answer = request.header("Authorization", format!("Bearer {TOKEN}")).send(to).unwrap();
        assert_eq!(answer.status, 200);
        drop(finish);
        if wire == Wire::V2 {
            let key = Request::get(&format!("/v1/session/{}", agreed.id())).header("X-ClientId", CLIENT_ID);
            let text = key.send(to).unwrap().json()["sessionKey"].as_str().unwrap().to_owned();
            let by_admin = key.header("Authorization", format!("Bearer {ADMIN_TOKEN}")).send(server.admin()).unwrap();
            assert_eq!(by_admin.json()["sessionKey"], text);
            let key = wire_base64::decode(&text).unwrap();
            let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
            secrets.extend([text[..20].into(), hex[..16].into(), hex[48..].into(), key[..16].to_vec()]);
            let url = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(&key);
            // The format of bytes with `{:?}`.
            let debug = format!("{}, {}, {}, {}, {}", key[0], key[1], key[2], key[3], key[4]);
            secrets.extend([url[..20].into(), hex.to_uppercase()[..16].into(), debug.into_bytes()]);
        }
        agreed.call(PURCHASE, order.as_bytes()).unwrap();
        let again = agreed.seal(PURCHASE, order.as_bytes()).0;
        for _ in 0..2 {
            again.send(to).unwrap();
        }
        agreed.seal(PURCHASE, format!("{{{ASKED}").as_bytes()).0.send(to).unwrap();
        for path in ["/service/x", "/service/cut", "/service/x?q=1"] {
            agreed.seal(path.split('?').next().unwrap(), ASKED.as_bytes()).0.target(path).send(to).unwrap();
        }
        for name in ["X-Kid", "X-Nonce", "X-Idempotency-Key", "X-Tag"] {
            agreed.seal(PURCHASE, order.as_bytes()).0.set(name, "broken").send(to).unwrap();
        }
        let delete = Request::new("DELETE", &format!("/admin/sessions/{}", agreed.id()));
        delete.header("Authorization", format!("Bearer {ADMIN_TOKEN}")).send(server.admin()).unwrap();
        agreed.seal(PURCHASE, order.as_bytes()).0.send(to).unwrap();
    }
    Request::post("/plain", ASKED).header("Authorization", format!("Bearer {TOKEN}")).send(to).unwrap();
    Request::post("/session/init", format!("{{\"clientPublicKey\":\"{ASKED}\"}}")).send(to).unwrap();
    let kek = std::fs::read_to_string(server.folder.join("sessions.kek")).unwrap();
    secrets.push(kek.trim().split(' ').next_back().unwrap()[..20].into());
    assert_eq!(server.stop().unwrap().code(), Some(0));

    let log = server.log();
    assert!(log.len() > 30 && log.iter().any(|line| line.contains("refused")), "{} lines", log.len());
    assert!(log.iter().any(|line| line.contains("\"TRACE\"")), "it is at its loudest");
    for line in &log {
        for secret in &secrets {
            let found = line.as_bytes().windows(secret.len()).any(|window| window == secret);
            assert!(!found, "{:?} is in the log:\n{line}", String::from_utf8_lossy(secret));
        }
    }
}

/// Returns the visible parts of an answer, without those that always differ: the date, and the times of the steps.
fn visible(answer: &Answer) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let headers = answer.headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("date"));
    let headers = headers.map(|(name, value)| {
        let timing = name.eq_ignore_ascii_case("server-timing");
        let value = if timing { value.chars().filter(|c| !c.is_ascii_digit()).collect() } else { value.clone() };
        (name.clone(), value)
    });
    (answer.status, headers.collect(), answer.body.clone())
}

#[test]
fn all_opening_failures_look_alike_from_outside_and_log_and_metrics_have_their_class() {
    let mut server = start("demo:", "info");
    let to = server.address();
    let wire_2 = WireSession::open(to, Wire::V2, "/session/init").unwrap().id();
    for wire in BOTH {
        let agreed = WireSession::open(to, wire, "/session/init").unwrap();
        let other = WireSession::open(to, wire, "/session/init").unwrap();
        let others = || other.seal(PURCHASE, b"{}").0;
        let good = || agreed.seal(PURCHASE, b"{}").0;
        let flipped = |at: usize| {
            let request = good();
            let mut body = request.body_bytes().to_vec();
            let at = if at < body.len() { at } else { body.len() - 1 };
            body[at] = if body[at] == b'A' { b'B' } else { b'A' };
            request.body(body)
        };
        let replayed = {
            let request = agreed.seal(PURCHASE, br#"{"schemeCode":"A","amount":1}"#).0;
            assert_eq!(request.send(to).unwrap().status, 200);
            request
        };
        let old = (now_ms() - 400_000).to_string();
        let now = now_ms().to_string();
        let mut faults = vec![
            ("unsealable", flipped(0)),
            ("replayed", replayed),
            ("nonce_reserved", agreed.seal_as(PURCHASE, b"{}", &now, "r-1").0),
            ("nonce_invalid", agreed.seal_as(PURCHASE, b"{}", &now, "a/b").0),
            ("timestamp_outside_window", agreed.seal_as(PURCHASE, b"{}", &old, &nonce()).0),
            ("timestamp_invalid", agreed.seal_as(PURCHASE, b"{}", "x", &nonce()).0),
            ("kid_prefix", good().set("X-Kid", agreed.id())),
            ("header_missing", good().without("X-Kid")),
            ("header_invalid", good().header("X-Kid", format!("session:{}", agreed.id()))),
        ];
        match wire {
            Wire::V1 => faults.extend([
                ("base64_invalid", good().body("*")),
                ("aad_mismatch", good().set("X-AAD", wire_base64::encode(b"x"))),
                ("wire_mismatch", good().set("X-Kid", format!("session:{wire_2}"))),
                ("aad_mismatch", others().set("X-Kid", format!("session:{}", agreed.id()))),
            ]),
            Wire::V2 | Wire::Native | Wire::OneShot => faults.extend([
                ("unsealable", flipped(usize::MAX)),
                ("unsealable", others().set("X-Kid", format!("session:{}", agreed.id()))),
                ("body_too_short", good().body("x")),
                ("client_mismatch", good().set("X-ClientId", "another")),
                ("idempotency_key_shape", good().set("X-Idempotency-Key", "x")),
                ("unsealable", good().set("X-Idempotency-Key", format!("{now}.{}", nonce()))),
            ]),
        }
        let mut first = None;
        for (class, request) in &faults {
            let logged = server.log().len();
            let answer = visible(&request.send(to).unwrap());
            assert_eq!(&answer, first.get_or_insert_with(|| answer.clone()), "wire {}: {class}", wire.name());
            // The only line that appears belongs to this rejection.
            let line = server.wait_for_log(logged, |line| line["on"] == "call").unwrap();
            assert_eq!(line["class"], *class, "wire {}: {line}", wire.name());
        }
        let metrics = Request::get("/metrics").header("Authorization", format!("Bearer {ADMIN_TOKEN}"));
        let metrics = metrics.send(server.admin()).unwrap().text();
        for (class, _) in &faults {
            let name = format!("sealway_refusals_total{{on=\"call\",class=\"{class}\"}}");
            assert!(metrics.contains(&name), "{name} is not in:\n{metrics}");
        }
    }
}

#[test]
fn an_init_that_fails_looks_the_same_whatever_the_reason() {
    let server = start("demo:", "info");
    let to = server.address();
    for wire in BOTH {
        let good = || init(wire, "/session/init", CLIENT_ID, None).1;
        let used = good();
        assert_eq!(used.send(to).unwrap().status, 200);
        let first = good().body("{").send(to).unwrap();
        for request in [used, good().body("{}"), good().body("[]"), good().without("X-Nonce").without("X-ClientId")] {
            assert_eq!(visible(&request.send(to).unwrap()), visible(&first));
        }
    }
}
