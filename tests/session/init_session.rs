//! `POST /session/init`, wires 1 and 2, over real HTTP: every row of `spec/session.md` for it.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

use sealway_proto::wire::{Wire, base64};
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::{Connection, Request};
use sealway_testkit::wire_client::{CLIENT_ID, init, nonce, now_ms, public_key};

use crate::{BINARY, BOTH};

const PATH: &str = "/session/init";

fn server() -> SocketAddr {
    static SERVER: OnceLock<Server> = OnceLock::new();
    let config = "
listeners: [{ address: '127.0.0.1:0' }]
routes: [{ match: { path_prefix: [/session/, /v1/session/] }, sessions: {} }]
sessions: { authenticated_inits_per_minute: 0 }
";
    SERVER.get_or_init(|| Launch::new(BINARY, config).start().unwrap()).address()
}

/// Returns an init that is valid in every way.
fn good(wire: Wire) -> Request {
    init(wire, PATH, CLIENT_ID, None).1
}

fn with_ttl(wire: Wire, ttl: &str) -> Request {
    let key = public_key();
    let agreement = if wire == Wire::V1 { r#""keyAgreement":"ECDH_P256","# } else { "" };
    good(wire).body(format!(r#"{{{agreement}"clientPublicKey":"{key}","ttlSec":{ttl}}}"#))
}

fn with_key(wire: Wire, key: &str) -> Request {
    let agreement = if wire == Wire::V1 { r#""keyAgreement":"ECDH_P256","# } else { "" };
    good(wire).body(format!(r#"{{{agreement}"clientPublicKey":{key}}}"#))
}

fn refused(what: &str, request: &Request) {
    request.send(server()).unwrap().assert_error(what, 400, "CRYPTO_ERROR");
}

fn accepted(what: &str, request: &Request) {
    let answer = request.send(server()).unwrap();
    assert_eq!(answer.status, 200, "{what}: {}", answer.text());
}

/// Returns the valid request with another stamp and nonce.
fn stamped(wire: Wire, stamp: &str, nonce: &str) -> Request {
    match wire {
        Wire::V1 => good(wire).set("X-Timestamp", stamp).set("X-Nonce", nonce),
        Wire::V2 | Wire::Native | Wire::OneShot => good(wire).set("X-Idempotency-Key", format!("{stamp}.{nonce}")),
    }
}

#[test]
fn the_answer_has_exactly_four_members() {
    for wire in BOTH {
        let answer = good(wire).send(server()).unwrap();
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("x-kid"), None);
        let body = answer.json();
        let names: Vec<&String> = body.as_object().unwrap().keys().collect();
        let mut sorted = names.clone();
        sorted.sort();
        assert_eq!(sorted, ["encAlg", "expiresInSec", "serverPublicKey", "sessionId"]);
        assert_eq!(body["encAlg"], "A256GCM");
        assert_eq!(body["expiresInSec"], 1800);
        let id = body["sessionId"].as_str().unwrap();
        assert!(id.len() == 34 && id.starts_with("S-"), "{id}");
        assert!(id[2..].bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)), "{id}");
        assert_eq!(body["serverPublicKey"].as_str().unwrap().len(), 88);
        assert!(body["serverPublicKey"].as_str().unwrap().starts_with('B'), "0x04 in base64");
    }
}

#[test]
fn wire_2_takes_integer_valued_ttls_alone_and_clamps_them() {
    for (ttl, granted) in [
        ("null", 1800),
        ("0", 300),
        ("-0", 300),
        ("299", 300),
        ("300", 300),
        ("301", 301),
        ("1800.0", 1800),
        ("1e3", 1000),
        ("3600", 3600),
        ("3601", 3600),
        ("4294967297", 3600),
        ("1e300", 3600),
    ] {
        let answer = with_ttl(Wire::V2, ttl).send(server()).unwrap();
        assert_eq!(answer.json()["expiresInSec"], granted, "{ttl}: {}", answer.text());
    }
    for ttl in ["-1", "1.5", "-1e300", "\"1800\"", "true", "false", "[]", "{}", "[1800]", "\"\""] {
        refused(ttl, &with_ttl(Wire::V2, ttl));
    }
}

#[test]
fn wire_1_clamps_ttls_without_looking_at_their_type() {
    for (ttl, granted) in [
        ("null", 1800),
        ("-1", 300),
        ("1.5", 300),
        ("\"1800\"", 1800),
        ("\"900\"", 900),
        ("900", 900),
        ("900.9", 900),
        ("0", 300),
        ("99999", 3600),
    ] {
        let answer = with_ttl(Wire::V1, ttl).send(server()).unwrap();
        assert_eq!(answer.json()["expiresInSec"], granted, "{ttl}: {}", answer.text());
    }
}

#[test]
fn every_fault_of_a_wire_2_header_is_the_same_400() {
    let good = || good(Wire::V2);
    let now = now_ms();
    for name in ["X-Idempotency-Key", "X-ClientId"] {
        refused(&format!("no {name}"), &good().without(name));
        refused(&format!("empty {name}"), &good().set(name, ""));
        let value = good().value(name).unwrap().to_owned();
        refused(&format!("{name} twice"), &good().set(name, value.clone()).header(name, value));
    }
    for key in [
        "abc".to_owned(),
        nonce(),
        format!("{now}"),
        format!("{now}."),
        format!(".{}", nonce()),
        format!("{now}..{}", nonce()),
        format!("{now}.{}.x", nonce()),
        format!("{now}:{}", nonce()),
    ] {
        refused(&key, &good().set("X-Idempotency-Key", key.clone()));
    }
    for id in ["a|b", "caf\u{e9}", &"x".repeat(257), "tab\tin", "|"] {
        refused(id, &good().set("X-ClientId", id));
    }
}

#[test]
fn every_fault_of_a_wire_1_header_is_the_same_400() {
    for name in ["X-Nonce", "X-Timestamp"] {
        refused(&format!("no {name}"), &good(Wire::V1).without(name));
        refused(&format!("empty {name}"), &good(Wire::V1).set(name, ""));
        let value = good(Wire::V1).value(name).unwrap().to_owned();
        refused(&format!("{name} twice"), &good(Wire::V1).set(name, value.clone()).header(name, value));
    }
    // With X-Idempotency-Key it is a request of wire 2, and lacks a client id.
    refused("both wires", &good(Wire::V1).header("X-Idempotency-Key", format!("{}.{}", now_ms(), nonce())));
}

#[test]
fn stamps_and_nonces_of_a_wrong_form_are_refused_on_both_wires() {
    let now = now_ms();
    for wire in BOTH {
        for stamp in ["x", "-1", "+1", "1e12", "0x1", "12345678901234567890", "", " "] {
            refused(&format!("stamp {stamp:?}"), &stamped(wire, stamp, &nonce()));
        }
        for stamp in [0, now - 303_000, now + 303_000, now / 1000] {
            refused(&format!("stamp {stamp}"), &stamped(wire, &stamp.to_string(), &nonce()));
        }
        let now = now.to_string();
        for bad in ["a b", "a/b", "a+b", "a=", "a,b", "\u{e9}", &"x".repeat(129), "r-", "r-0123456789abcdef", "R-1"] {
            refused(&format!("nonce {bad:?}"), &stamped(wire, &now, bad));
        }
    }
}

#[test]
fn stamps_and_nonces_at_the_edge_of_what_is_taken_are_taken() {
    let now = now_ms();
    for wire in BOTH {
        let one = if wire == Wire::V1 { "1" } else { "2" };
        for stamp in [now - 295_000, now + 295_000] {
            accepted("a stamp near the edge", &stamped(wire, &stamp.to_string(), &nonce()));
        }
        let now = now.to_string();
        accepted("a nonce of one character", &stamped(wire, &now, one));
        accepted("a long nonce", &stamped(wire, &now, &format!("{}{}", nonce(), "x".repeat(96))));
        accepted("a UUID", &stamped(wire, &now, &format!("6f1c0b1e-9d3a-4c9e-8a57-{}", &nonce()[..12])));
        accepted("underscores", &stamped(wire, &now, &format!("_{}_-", nonce())));
        accepted("almost reserved", &stamped(wire, &now, &format!("r{}", nonce())));
    }
    accepted("a client id with spaces", &good(Wire::V2).set("X-ClientId", "a client, of ours (v1)"));
    accepted("a long client id", &good(Wire::V2).set("X-ClientId", "x".repeat(256)));
}

#[test]
fn public_keys_of_any_other_form_are_refused() {
    let key = public_key();
    // A SubjectPublicKeyInfo: its 26 bytes of header, then the point that is accepted on its own.
    let header = base64::decode("MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgA=").unwrap();
    let spki = base64::encode(&[header, base64::decode(&key).unwrap()].concat());
    assert_eq!(base64::decode(&spki).unwrap().len(), 91);
    let zero = format!("B{}=", "A".repeat(86));
    for wire in BOTH {
        for bad in [
            "null".to_owned(),
            "7".into(),
            "[]".into(),
            "true".into(),
            "\"\"".into(),
            "\"AAAA\"".into(),
            format!("\"{}\"", key.trim_end_matches('=')),
            format!("\" {key}\""),
            format!("\"{key}\\n\""),
            format!("\"-{}\"", &key[1..]),
            format!("\"{spki}\""),
            // Compressed, hybrid, off the curve, all zeroes.
            "\"A2sX0fLhLEJH+Lzm5WOkQPJ3A32BLeszoPShOUXYmMKW\"".into(),
            format!("\"Bg{}\"", &key[2..]),
            format!("\"{}AAAAAAAAAAAAA=\"", &key[..74]),
            format!("\"{zero}\""),
        ] {
            refused(&bad, &with_key(wire, &bad));
        }
        refused("no key", &good(wire).body(r#"{"keyAgreement":"ECDH_P256"}"#));
    }
}

#[test]
fn wire_1_needs_its_key_agreement_named() {
    let key = public_key();
    for agreement in ["", r#""keyAgreement":"X25519","#, r#""keyAgreement":null,"#, r#""keyAgreement":"ecdh_p256","#] {
        let body = format!(r#"{{{agreement}"clientPublicKey":"{key}"}}"#);
        refused(agreement, &good(Wire::V1).body(body));
    }
}

#[test]
fn whatever_is_no_json_object_is_the_same_400() {
    for wire in BOTH {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for junk in
            ["", " ", "{", "null", "7", "\"x\"", "[]", "{\"clientPublicKey\"", "\u{0}", "<xml/>", "{'a':1}", "a=b"]
        {
            refused(junk, &good(wire).body(junk));
        }
        refused("not UTF-8", &good(wire).body(b"{\"clientPublicKey\":\"\xff\"}".as_slice()));
        refused("deep", &good(wire).body(&deep.as_bytes()[..60_000]));
        let after = format!("{} x", String::from_utf8(good(wire).body_bytes().to_vec()).unwrap());
        refused("something after the object", &good(wire).body(after));
    }
}

#[test]
fn any_content_type_any_case_and_any_framing_is_taken() {
    for wire in BOTH {
        accepted("no content type", &good(wire).without("content-type"));
        for media in ["text/plain", "application/x-www-form-urlencoded", "junk", "application/json; charset=latin1"] {
            accepted(media, &good(wire).set("Content-Type", media));
        }
        accepted("content type twice", &good(wire).header("Content-Type", "text/plain"));
        accepted("upper case", &good(wire).rename(str::to_ascii_uppercase));
        accepted("lower case", &good(wire).rename(str::to_ascii_lowercase));
        let odd = |name: &str| {
            let odd = |(i, c): (usize, char)| if i % 2 == 0 { c.to_ascii_uppercase() } else { c };
            name.chars().enumerate().map(odd).collect()
        };
        accepted("odd case", &good(wire).rename(odd));
        accepted("chunked", &good(wire).chunked(7));
        let text = String::from_utf8(good(wire).body_bytes().to_vec()).unwrap();
        let more = text.replacen('{', r#"{"unknown":{"a":[1]},"é":null,"#, 1);
        accepted("unknown members", &good(wire).body(more));
        let twice = text.replacen('{', r#"{"clientPublicKey":"junk","#, 1);
        accepted("of a repeated member the last counts", &good(wire).body(twice));
    }
}

#[test]
fn a_request_that_comes_a_byte_at_a_time_is_answered() {
    let mut connection = Connection::open(server()).unwrap();
    for byte in good(Wire::V2).bytes() {
        connection.write(&[byte]).unwrap();
        std::thread::sleep(Duration::from_micros(300));
    }
    assert_eq!(connection.read_answer("POST").unwrap().status, 200);
}

#[test]
fn bodies_up_to_64_kib_are_taken_and_longer_ones_are_413_that_the_client_can_read() {
    let padded = |wire: Wire, len: usize| {
        let request = good(wire);
        let mut body = request.body_bytes().to_vec();
        body.resize(len, b' ');
        request.body(body)
    };
    for wire in BOTH {
        accepted("64 KiB - 1", &padded(wire, 64 * 1024 - 1));
        accepted("64 KiB", &padded(wire, 64 * 1024));
        accepted("64 KiB chunked", &padded(wire, 64 * 1024).chunked(1000));
        for len in [64 * 1024 + 1, 1024 * 1024, 10 * 1024 * 1024] {
            for request in [padded(wire, len), padded(wire, len).chunked(16 * 1024)] {
                let answer = request.send(server()).unwrap();
                answer.assert_error(&format!("{len} bytes"), 413, "PAYLOAD_TOO_LARGE");
            }
        }
    }
}

#[test]
fn the_same_nonce_again_is_refused_in_the_scope_of_its_client_and_on_wire_1_in_one_scope() {
    let request = good(Wire::V2);
    accepted("first", &request);
    refused("again", &request);
    let other_body = request.clone().body(good(Wire::V2).body_bytes());
    refused("again with another key", &other_body);
    let nonce_of = request.value("x-idempotency-key").unwrap().split_once('.').unwrap().1.to_owned();
    refused("again with another stamp", &stamped(Wire::V2, &(now_ms() - 5).to_string(), &nonce_of));
    accepted("another client", &request.clone().set("X-ClientId", "someone-else"));
    let v1 = request.target("/v1/session/init").send(server()).unwrap();
    assert_eq!(v1.status, 409, "both families share the client's scope: {}", v1.text());

    let request = good(Wire::V1);
    accepted("first", &request);
    refused("again", &request);
    refused("again with another body", &request.body(good(Wire::V1).body_bytes()));
}

#[test]
fn a_request_that_fails_its_form_burns_no_nonce() {
    for wire in BOTH {
        let request = good(wire);
        refused("junk", &request.clone().body("{"));
        refused("no key", &request.clone().body("{}"));
        accepted("the real one", &request);
    }
}

#[test]
fn other_methods_are_405_and_other_paths_404() {
    for method in ["GET", "PUT", "DELETE", "PATCH"] {
        let answer = good(Wire::V2).method(method).send(server()).unwrap();
        answer.assert_error(method, 405, "METHOD_NOT_ALLOWED");
        assert_eq!(answer.header("allow"), Some("POST, OPTIONS"));
    }
    for path in ["/session/init/", "/session/init/x", "/session/inits", "/nowhere", "/"] {
        good(Wire::V2).target(path).send(server()).unwrap().assert_error(path, 404, "NOT_FOUND");
    }
}

#[test]
fn junk_instead_of_http_closes_the_connection_and_harms_nobody() {
    for junk in [&b"\r\n\r\nnonsense\r\n\r\n"[..], b"\x16\x03\x01\x00\xff", b"POST /session/init\r\n\r\n"] {
        let mut connection = Connection::open(server()).unwrap();
        connection.write(junk).unwrap();
        let text = String::from_utf8_lossy(&connection.read_to_end().unwrap_or_default()).into_owned();
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 400 "), "{text}");
    }
    // A Content-Length below the length of the body, and two that differ.
    let mut connection = Connection::open(server()).unwrap();
    connection.write(&good(Wire::V2).header("Content-Length", "3").bytes()).unwrap();
    let answer = connection.read_answer("POST").unwrap();
    answer.assert_error("a body cut by its own length", 400, "CRYPTO_ERROR");
    let answer = good(Wire::V2).header("Content-Length", "3").header("Content-Length", "4").send(server()).unwrap();
    assert_eq!(answer.status, 400);
    accepted("afterwards", &good(Wire::V2));
}
