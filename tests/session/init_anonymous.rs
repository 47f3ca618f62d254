//! `POST /session/init/anon` and the permissions of an anonymous session; the limits of wire 1.

use std::net::SocketAddr;
use std::sync::OnceLock;

use sealway_proto::wire::Wire;
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::Request;
use sealway_testkit::upstream::{Upstream, answer};
use sealway_testkit::wire_client::{CLIENT_ID, ORDER, PURCHASE, WireSession, init, nonce, now_ms, open, public_key};

use crate::BINARY;

const PATH: &str = "/session/init/anon";

fn config(limits: &str) -> String {
    static ECHO: OnceLock<Upstream> = OnceLock::new();
    let echo = ECHO.get_or_init(|| Upstream::answering(|_, body| answer("200 OK", &[], body)).unwrap());
    format!(
        "
listeners: [{{ address: '127.0.0.1:0' }}]
routes:
  - {{ match: {{ path_prefix: /session/ }}, sessions: {{}} }}
  - {{ match: {{ path_prefix: /echo }}, sealed: required, upstream: echo }}
  - {{ match: {{}}, sealed: required, upstream: shop }}
upstreams: {{ shop: {{ servers: ['demo:'] }}, echo: {{ servers: ['http://{}'] }} }}
sessions: {{ anonymous_paths: [{PURCHASE}, /echo], {limits} }}
",
        echo.address
    )
}

fn server() -> SocketAddr {
    static SERVER: OnceLock<Server> = OnceLock::new();
    let config = config("anonymous_inits_per_minute: 0, authenticated_inits_per_minute: 0");
    SERVER.get_or_init(|| Launch::new(BINARY, &config).start().unwrap()).address()
}

fn good() -> Request {
    init(Wire::V1, PATH, CLIENT_ID, None).1
}

#[test]
fn an_anonymous_session_lasts_two_minutes_and_has_an_id_of_its_own_kind() {
    let answer = good().send(server()).unwrap();
    let body = answer.json();
    assert_eq!(body.as_object().unwrap().len(), 4, "{body}");
    assert!(body["sessionId"].as_str().unwrap().starts_with("A-"), "{body}");
    assert_eq!((body["encAlg"].as_str(), body["expiresInSec"].as_u64()), (Some("A256GCM"), Some(120)));
    let text = format!(r#"{{"clientPublicKey":"{}","keyAgreement":"ECDH_P256","ttlSec":3600}}"#, public_key());
    assert_eq!(good().body(text).send(server()).unwrap().json()["expiresInSec"], 120);
}

#[test]
fn every_fault_is_the_same_400() {
    let (_, wire_2) = init(Wire::V2, PATH, CLIENT_ID, None);
    for (what, request) in [
        ("wire 2", wire_2),
        ("no nonce", good().without("X-Nonce")),
        ("no stamp", good().without("X-Timestamp")),
        ("nonce twice", good().header("X-Nonce", nonce())),
        ("old", good().set("X-Timestamp", (now_ms() - 303_000).to_string())),
        ("an answer's nonce", good().set("X-Nonce", format!("r-{}", nonce()))),
        ("no agreement", good().body(format!(r#"{{"clientPublicKey":"{}"}}"#, public_key()))),
        ("no key", good().body(r#"{"keyAgreement":"ECDH_P256"}"#)),
        ("bad key", good().body(r#"{"keyAgreement":"ECDH_P256","clientPublicKey":"AAAA"}"#)),
        ("junk", good().body("{")),
        ("empty", good().body("")),
    ] {
        request.send(server()).unwrap().assert_error(what, 400, "CRYPTO_ERROR");
    }
    let request = good();
    assert_eq!(request.send(server()).unwrap().status, 200);
    request.send(server()).unwrap().assert_error("again", 400, "CRYPTO_ERROR");
    request.target("/session/init").send(server()).unwrap().assert_error("one scope", 400, "CRYPTO_ERROR");
    let answer = good().method("GET").send(server()).unwrap();
    answer.assert_error("GET", 405, "METHOD_NOT_ALLOWED");
}

#[test]
fn an_anonymous_init_has_4_kib() {
    for (len, status) in [(4095, 200), (4096, 200), (4097, 413), (10 * 1024 * 1024, 413)] {
        let request = good();
        let mut body = request.body_bytes().to_vec();
        body.resize(len, b' ');
        let answer = request.without("content-type").body(body).send(server()).unwrap();
        assert_eq!(answer.status, status, "{len}: {}", answer.text());
        if status == 413 {
            answer.assert_error("too long", 413, "PAYLOAD_TOO_LARGE");
        }
    }
}

#[test]
fn an_anonymous_session_may_use_the_listed_paths_and_no_others() {
    let agreed = WireSession::open(server(), Wire::V1, PATH).unwrap();
    let (answer, plain) = agreed.call(PURCHASE, ORDER).unwrap();
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&plain));
    for path in
        ["/transaction/purchase/", "/transaction/purchase/x", "/transaction", "/x/transaction/purchase", "/other"]
    {
        let (request, _) = agreed.seal(path, ORDER);
        request.send(server()).unwrap().assert_error(path, 403, "SESSION_FORBIDDEN");
    }
    let (request, _) = agreed.seal(PURCHASE, ORDER);
    let answer = request.target(&format!("{PURCHASE}?a=1")).send(server()).unwrap();
    assert_eq!(answer.status, 200, "the query is no part of the path: {}", answer.text());
    let full = WireSession::open(server(), Wire::V1, "/session/init").unwrap();
    assert_eq!(full.call("/echo/other", b"x").unwrap().1, b"x", "other sessions are not bound by the list");
}

#[test]
fn an_anonymous_sealed_body_has_4_kib() {
    let agreed = WireSession::open(server(), Wire::V1, PATH).unwrap();
    // 3072 bytes are 4096 characters of base64.
    let (request, pending) = agreed.seal("/echo", &[b'x'; 3072]);
    assert_eq!(request.body_bytes().len(), 4096);
    assert_eq!(open(&pending, &request.send(server()).unwrap()).unwrap().len(), 3072);
    for len in [3073, 1024 * 1024] {
        let (request, _) = agreed.seal("/echo", &vec![b'x'; len]);
        request.send(server()).unwrap().assert_error("too long", 413, "PAYLOAD_TOO_LARGE");
    }
}

#[test]
fn an_address_makes_ten_anonymous_inits_a_minute_and_a_token_thirty() {
    let server = Launch::new(BINARY, &config("")).start().unwrap();
    for n in 0..10 {
        assert_eq!(good().send(server.address()).unwrap().status, 200, "{n}");
    }
    let answer = good().send(server.address()).unwrap();
    answer.assert_error("the eleventh", 429, "RATE_LIMITED");
    let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");

    let authenticated = |token: &str| {
        let (_, request) = init(Wire::V1, "/session/init", CLIENT_ID, None);
        request.header("Authorization", token).send(server.address()).unwrap()
    };
    for n in 0..30 {
        assert_eq!(authenticated("Bearer one").status, 200, "{n}");
    }
    authenticated("Bearer one").assert_error("the thirty-first", 429, "RATE_LIMITED");
    assert_eq!(authenticated("Bearer two").status, 200, "another token is another matter");
    let (_, plain) = init(Wire::V1, "/session/init", CLIENT_ID, None);
    assert_eq!(plain.send(server.address()).unwrap().status, 200);
}
