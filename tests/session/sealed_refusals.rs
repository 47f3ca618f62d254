//! Sealed calls that must be rejected, on both wires, over real HTTP: every row of `spec/session.md#open` and its order.

use std::net::SocketAddr;
use std::sync::OnceLock;

use sealway_proto::wire::{Wire, base64};
use sealway_testkit::process::{ADMIN_TOKEN, Launch, Server};
use sealway_testkit::raw_http::{Answer, Request};
use sealway_testkit::wire_client::{CLIENT_ID, ORDER, PURCHASE, WireSession, nonce, now_ms, open};

use crate::{BINARY, BOTH};

const CONFIG: &str = "
listeners: [{ address: '127.0.0.1:0' }]
routes:
  - { match: { path_prefix: /session/ }, sessions: {} }
  - { match: {}, sealed: required, upstream: shop }
upstreams: { shop: { servers: ['demo:'] } }
admin: { address: '127.0.0.1:0', token_file: admin.token }
";

fn server() -> SocketAddr {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Launch::new(BINARY, CONFIG).start().unwrap()).address()
}

fn agreed(wire: Wire) -> WireSession {
    WireSession::open(server(), wire, "/session/init").unwrap()
}

fn refused(what: &str, request: &Request) {
    request.send(server()).unwrap().assert_error(what, 400, "CRYPTO_ERROR");
}

fn expired(what: &str, request: &Request) {
    request.send(server()).unwrap().assert_error(what, 401, "SESSION_EXPIRED");
}

fn headers_of(wire: Wire) -> &'static [&'static str] {
    match wire {
        Wire::V1 => &["X-Kid", "X-Nonce", "X-Timestamp", "X-Enc-Alg", "X-IV", "X-Tag", "X-AAD"],
        Wire::V2 | Wire::Native | Wire::OneShot => &["X-Kid", "X-Idempotency-Key", "X-ClientId"],
    }
}

#[test]
fn a_header_that_is_missing_empty_or_repeated_is_400() {
    for wire in BOTH {
        let agreed = agreed(wire);
        for name in headers_of(wire) {
            let good = agreed.seal(PURCHASE, ORDER).0;
            let value = good.value(name).unwrap().to_owned();
            refused(&format!("no {name}"), &good.clone().without(name));
            refused(&format!("empty {name}"), &good.clone().set(name, ""));
            refused(&format!("{name} twice"), &good.clone().header(name, value.clone()));
            refused(&format!("{name} twice, in two cases"), &good.clone().header(&name.to_lowercase(), value));
            refused(&format!("{name} not ASCII"), &good.clone().set(name, "\u{e9}"));
            assert_eq!(good.send(server()).unwrap().status, 200, "none of it burned the nonce");
        }
        refused("no header at all", &Request::post(PURCHASE, ORDER));
    }
}

#[test]
fn a_stamp_or_nonce_of_a_wrong_form_or_time_is_400() {
    for wire in BOTH {
        let agreed = agreed(wire);
        let sealed = |stamp: &str, nonce: &str| agreed.seal_as(PURCHASE, ORDER, stamp, nonce).0;
        let now = now_ms();
        for stamp in [0, now - 303_000, now + 303_000, now / 1000] {
            refused(&format!("{stamp}"), &sealed(&stamp.to_string(), &nonce()));
        }
        for stamp in ["abc", "-5", "1e12", "1234567890123456"] {
            refused(stamp, &sealed(stamp, &nonce()));
        }
        for bad in ["a.b", "a b", "a|b", &"x".repeat(129), "\u{e9}"] {
            refused(bad, &sealed(&now.to_string(), bad));
        }
        for stamp in [now - 295_000, now + 295_000] {
            let (request, pending) = agreed.seal_as(PURCHASE, ORDER, &stamp.to_string(), &nonce());
            open(&pending, &request.send(server()).unwrap()).unwrap();
        }
        for good in ["1", "_-", &"y".repeat(128), "6f1c0b1e-9d3a-4c9e-8a57-0123456789ab"] {
            let (request, pending) = agreed.seal_as(PURCHASE, ORDER, &now.to_string(), good);
            open(&pending, &request.send(server()).unwrap()).unwrap();
        }
    }
}

#[test]
fn a_kid_without_its_prefix_is_400_and_an_unknown_or_malformed_session_401() {
    for wire in BOTH {
        let agreed = agreed(wire);
        let with = |kid: String| agreed.seal(PURCHASE, ORDER).0.set("X-Kid", kid);
        for kid in [agreed.id(), format!("Session:{}", agreed.id()), format!("session{}", agreed.id()), "x".into()] {
            refused(&kid, &with(kid.clone()));
        }
        let upper = format!("session:S-{}", "A".repeat(32));
        let unknown = format!("session:S-{}", "0".repeat(32));
        let long = format!("session:{}0", agreed.id());
        let spaced = format!("session: {}", agreed.id());
        let nested = format!("session:session:{}", agreed.id());
        for kid in [unknown, upper, long, spaced, nested, "session:".into(), "session:x".into()] {
            expired(&kid, &with(kid.clone()));
        }
    }
}

#[test]
fn the_session_is_looked_up_before_client_body_and_tag_and_after_all_headers() {
    for wire in BOTH {
        let agreed = agreed(wire);
        let unknown = format!("session:S-{}", "1".repeat(32));
        let lost = || agreed.seal(PURCHASE, ORDER).0.set("X-Kid", unknown.clone());
        expired("body too short", &lost().body("x"));
        expired("empty body", &lost().body(""));
        expired("body too long", &lost().body(vec![b'A'; 2 * 1024 * 1024]));
        for name in headers_of(wire) {
            if *name != "X-Kid" {
                refused(&format!("no {name}"), &lost().without(name));
            }
        }
        let old = (now_ms() - 400_000).to_string();
        let stale = agreed.seal_as(PURCHASE, ORDER, &old, &nonce()).0.set("X-Kid", unknown.clone());
        refused("old and unknown", &stale);
        let reserved = agreed.seal_as(PURCHASE, ORDER, &now_ms().to_string(), "r-1").0.set("X-Kid", unknown.clone());
        refused("an answer's nonce and unknown", &reserved);
        if wire == Wire::V2 {
            expired("another client", &lost().set("X-ClientId", "another"));
            refused("shape", &lost().set("X-Idempotency-Key", "x"));
        }
    }
}

#[test]
fn a_session_opens_for_its_own_client_and_wire_alone() {
    let (one, two) = (agreed(Wire::V1), agreed(Wire::V2));
    refused("another client id", &two.seal(PURCHASE, ORDER).0.set("X-ClientId", "another"));
    refused("the id in another case", &two.seal(PURCHASE, ORDER).0.set("X-ClientId", CLIENT_ID.to_uppercase()));
    let other = WireSession::open_as(server(), Wire::V2, "/session/init", "another", None).unwrap();
    refused("another's session", &other.seal(PURCHASE, ORDER).0.set("X-Kid", format!("session:{}", two.id())));
    refused("wire 1 on a wire 2 session", &one.seal(PURCHASE, ORDER).0.set("X-Kid", format!("session:{}", two.id())));
    refused("wire 2 on a wire 1 session", &two.seal(PURCHASE, ORDER).0.set("X-Kid", format!("session:{}", one.id())));
    let sealed = one.seal(PURCHASE, ORDER).0;
    let stamp = sealed.value("x-timestamp").unwrap().to_owned();
    let key = format!("{stamp}.{}", sealed.value("x-nonce").unwrap());
    refused("headers of both wires", &sealed.header("X-Idempotency-Key", key).header("X-ClientId", CLIENT_ID));
}

#[test]
fn a_changed_bit_anywhere_is_400() {
    let agreed = agreed(Wire::V2);
    let (request, _) = agreed.seal(PURCHASE, ORDER);
    for at in [0, 11, 12, 20, request.body_bytes().len() - 16, request.body_bytes().len() - 1] {
        let mut body = request.body_bytes().to_vec();
        body[at] ^= 1;
        refused(&format!("byte {at}"), &request.clone().body(body));
    }
    let text = request.value("x-idempotency-key").unwrap().to_owned();
    let (stamp, nonce_sent) = text.split_once('.').unwrap();
    refused("another stamp", &request.clone().set("X-Idempotency-Key", format!("0{stamp}.{nonce_sent}")));
    refused("another nonce", &request.clone().set("X-Idempotency-Key", format!("{stamp}.{nonce_sent}0")));
    let mut longer = request.body_bytes().to_vec();
    longer.push(0);
    refused("a byte more", &request.clone().body(longer));
    refused("a byte less", &request.clone().body(&request.body_bytes()[1..]));
    assert_eq!(request.send(server()).unwrap().status, 200, "a stranger's tries burned no nonce");
}

#[test]
fn wire_1_holds_every_header_to_what_was_sealed() {
    let agreed = agreed(Wire::V1);
    let (request, _) = agreed.seal(PURCHASE, ORDER);
    let aad = String::from_utf8(base64::decode(request.value("x-aad").unwrap()).unwrap()).unwrap();
    let iv = base64::decode(request.value("x-iv").unwrap()).unwrap();
    let tag = base64::decode(request.value("x-tag").unwrap()).unwrap();
    let flipped = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes[0] ^= 1;
        base64::encode(&bytes)
    };
    for (name, value) in [
        ("X-AAD", base64::encode(aad.replace("POST", "post").as_bytes())),
        ("X-AAD", base64::encode(format!("{aad} ").as_bytes())),
        ("X-AAD", base64::encode(b"")),
        ("X-AAD", aad.clone()),
        ("X-AAD", "*".into()),
        ("X-Enc-Alg", "A128GCM".into()),
        ("X-Enc-Alg", "a256gcm".into()),
        ("X-IV", flipped(&iv)),
        ("X-IV", base64::encode(&iv[1..])),
        ("X-IV", base64::encode(&[iv.clone(), vec![0]].concat())),
        ("X-IV", "*".into()),
        ("X-Tag", flipped(&tag)),
        ("X-Tag", base64::encode(&tag[..15])),
        ("X-Tag", base64::encode(&tag[..12])),
        ("X-Tag", "*".into()),
        ("X-Timestamp", (now_ms() + 1).to_string()),
        ("X-Nonce", nonce()),
    ] {
        refused(&format!("{name}: {value}"), &request.clone().set(name, value.clone()));
    }
    refused("another path", &request.clone().target("/transaction/other"));
    refused("another spelling", &request.clone().target("/transaction/./purchase"));
    for body in ["", "*", "AAAA", "AA A", &String::from_utf8_lossy(request.body_bytes()).replace('=', "")] {
        if body.as_bytes() != request.body_bytes() {
            refused(body, &request.clone().body(body));
        }
    }
    let mut line = request.body_bytes().to_vec();
    line.extend_from_slice(b"\r\n");
    refused("a line end", &request.clone().body(line));
    assert_eq!(request.send(server()).unwrap().status, 200);
}

#[test]
fn a_replayed_request_is_400_also_with_another_iv_and_body() {
    for wire in BOTH {
        let agreed = agreed(wire);
        let (stamp, nonce) = (now_ms().to_string(), nonce());
        let request = agreed.seal_as(PURCHASE, ORDER, &stamp, &nonce).0;
        assert_eq!(request.send(server()).unwrap().status, 200);
        refused("again", &request);
        refused("sealed anew", &agreed.seal_as(PURCHASE, ORDER, &stamp, &nonce).0);
        let later = (now_ms() + 10).to_string();
        refused("stamped anew", &agreed.seal_as(PURCHASE, ORDER, &later, &nonce).0);
        let other = self::agreed(wire);
        let elsewhere = other.seal_as(PURCHASE, ORDER, &stamp, &nonce).0;
        assert_eq!(elsewhere.send(server()).unwrap().status, 200, "another session has a scope of its own");
    }
}

/// The answer, sent back as the request that it resembles.
fn reflected(answer: &Answer, wire: Wire) -> Request {
    let mut request = Request::post(PURCHASE, answer.body.clone());
    for name in headers_of(wire) {
        if *name != "X-ClientId" {
            request = request.header(name, answer.header(name).unwrap());
        }
    }
    if wire == Wire::V2 { request.header("X-ClientId", CLIENT_ID) } else { request }
}

#[test]
fn an_answer_sent_back_as_a_request_is_refused_for_its_nonce() {
    for wire in BOTH {
        // A separate server, so that the class in the metrics is this request's.
        let server = Launch::new(BINARY, CONFIG).start().unwrap();
        let agreed = WireSession::open(server.address(), wire, "/session/init").unwrap();
        let (answer, _) = agreed.call(PURCHASE, ORDER).unwrap();
        reflected(&answer, wire).send(server.address()).unwrap().assert_error("reflected", 400, "CRYPTO_ERROR");
        let metrics = Request::get("/metrics").header("Authorization", format!("Bearer {ADMIN_TOKEN}"));
        let metrics = metrics.send(server.admin()).unwrap().text();
        let line = "sealway_refusals_total{on=\"call\",class=\"nonce_reserved\"} 1";
        assert!(metrics.contains(line), "refused before it was opened:\n{metrics}");
    }
    // No Sealway client sends this, but a client with the key could: sealed as a request under a reserved nonce.
    for wire in BOTH {
        let agreed = agreed(wire);
        for bad in [format!("r-{}", nonce()), format!("R-{}", nonce()), "r-".into()] {
            refused(&bad, &agreed.seal_as(PURCHASE, ORDER, &now_ms().to_string(), &bad).0);
        }
    }
}

#[test]
fn other_methods_are_405_and_options_answers() {
    for wire in BOTH {
        let agreed = agreed(wire);
        for method in ["GET", "PUT", "DELETE", "PATCH", "PURGE"] {
            let request = agreed.seal(PURCHASE, ORDER).0.method(method);
            let answer = request.send(server()).unwrap();
            answer.assert_error(method, 405, "METHOD_NOT_ALLOWED");
            assert_eq!(answer.header("allow"), Some("POST, OPTIONS"));
            assert_eq!(request.method("POST").send(server()).unwrap().status, 200, "{method} burned nothing");
        }
    }
    assert_eq!(Request::new("HEAD", PURCHASE).send(server()).unwrap().status, 405);
    assert_eq!(Request::new("OPTIONS", PURCHASE).send(server()).unwrap().status, 204);
}

#[test]
fn a_full_nonce_store_is_400_on_sealed_calls() {
    let config = format!("{CONFIG}replay: {{ nonces_max: 1000 }}\n");
    let server = Launch::new(BINARY, &config).start().unwrap();
    let agreed = WireSession::open(server.address(), Wire::V2, "/session/init").unwrap();
    let mut connection = sealway_testkit::raw_http::Connection::open(server.address()).unwrap();
    let first = agreed.seal(PURCHASE, ORDER).0;
    assert_eq!(first.send(server.address()).unwrap().status, 200);
    // One session uses the rest of the first half, and then many use their share.
    let others: Vec<_> =
        (0..101).map(|_| WireSession::open(server.address(), Wire::V2, "/session/init").unwrap()).collect();
    for n in 0..999 {
        let agreed = if n < 495 { &agreed } else { &others[(n - 495) / 5] };
        connection.write(&agreed.seal(PURCHASE, b"{}").0.header("Connection", "keep-alive").bytes()).unwrap();
        assert_eq!(connection.read_answer("POST").unwrap().status, 400, "the demo service takes no such purchase");
    }
    let last = WireSession::open(server.address(), Wire::V2, "/session/init").unwrap();
    let refused = last.seal(PURCHASE, ORDER).0.send(server.address()).unwrap();
    refused.assert_error("full", 400, "CRYPTO_ERROR");
    first.send(server.address()).unwrap().assert_error("nothing was evicted", 400, "CRYPTO_ERROR");
    assert_eq!(
        WireSession::open(server.address(), Wire::V2, "/session/init").unwrap().answer.status,
        200,
        "inits go on"
    );
}
