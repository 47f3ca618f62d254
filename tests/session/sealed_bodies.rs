//! Accepted sealed calls: sizes, content types, framing, and the requests that the service behind receives, on both wires.

use std::net::SocketAddr;
use std::sync::{Mutex, OnceLock};

use sealway_proto::wire::{Wire, base64};
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::Request;
use sealway_testkit::upstream::{RequestHead, Upstream, answer};
use sealway_testkit::wire_client::{CLIENT_ID, ORDER, PURCHASE, WireSession, nonce, now_ms, open};

use crate::{BINARY, BOTH, MIB};

struct Setup {
    server: Server,
    upstream: Upstream,
}

fn setup() -> &'static Setup {
    static SETUP: OnceLock<Setup> = OnceLock::new();
    SETUP.get_or_init(|| {
        let upstream = Upstream::answering(|received, body| {
            let body = if received.line.contains("/len") { body.len().to_string().into_bytes() } else { body.to_vec() };
            answer("200 OK", &[], &body)
        });
        let upstream = upstream.unwrap();
        let config = format!(
            "
listeners: [{{ address: '127.0.0.1:0' }}]
routes:
  - {{ match: {{ path_prefix: [/session/, /v1/session/] }}, sessions: {{}} }}
  - {{ match: {{ path_prefix: /transaction/ }}, sealed: required, upstream: shop }}
  - {{ match: {{ path_prefix: /xml/ }}, sealed: required, upstream: service, content_type: application/xml }}
  - {{ match: {{ path_prefix: /small/ }}, sealed: required, upstream: service, sealed_body_max: 100 }}
  - {{ match: {{}}, sealed: required, upstream: service }}
upstreams: {{ shop: {{ servers: ['demo:'] }}, service: {{ servers: ['http://{}'] }} }}
",
            upstream.address
        );
        Setup { server: Launch::new(BINARY, &config).start().unwrap(), upstream }
    })
}

fn server() -> SocketAddr {
    setup().server.address()
}

fn agreed(wire: Wire) -> WireSession {
    WireSession::open(server(), wire, "/session/init").unwrap()
}

/// Sends a request to the service behind, and returns the received request, which a header distinguishes from those of other
/// tests.
fn received(request: &Request) -> (RequestHead, Vec<u8>) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mark = nonce();
    let answer = request.clone().header("X-Mark", mark.clone()).send(server()).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    loop {
        let (received, body) = setup().upstream.next().unwrap();
        if received.header("x-mark") == Some(&mark) {
            return (received, body);
        }
    }
}

#[test]
fn a_purchase_goes_through_on_every_family_and_wire() {
    for (wire, path) in [(Wire::V1, "/session/init"), (Wire::V2, "/session/init"), (Wire::V2, "/v1/session/init")] {
        let agreed = WireSession::open(server(), wire, path).unwrap();
        let (answer, plain) = agreed.call(PURCHASE, ORDER).unwrap();
        assert_eq!(answer.status, 200);
        let receipt: serde_json::Value = serde_json::from_slice(&plain).unwrap();
        assert_eq!(receipt.as_object().unwrap().len(), 6, "{receipt}");
        assert_eq!(receipt["status"], "SUCCESS");
        assert_eq!((receipt["schemeCode"].as_str(), receipt["amount"].as_u64()), (Some("AEF"), Some(5000)));
        assert_eq!(receipt["message"], "Purchase of 5000 in scheme AEF completed successfully");
        let id = receipt["transactionId"].as_str().unwrap().strip_prefix("TXN-").unwrap();
        assert!(id.len() == 16 && id.bytes().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b)), "{id}");
        let at = receipt["timestamp"].as_str().unwrap();
        assert!(at.len() == 24 && at.ends_with('Z') && at.as_bytes()[19] == b'.', "{at}");
    }
}

#[test]
fn a_plaintext_that_the_demo_service_does_not_take_is_400() {
    for wire in BOTH {
        let agreed = agreed(wire);
        for text in [
            "",
            "{",
            "[]",
            "null",
            "{}",
            r#"{"schemeCode":"AEF"}"#,
            r#"{"amount":1}"#,
            r#"{"schemeCode":1,"amount":1}"#,
            r#"{"schemeCode":"AEF","amount":"5000"}"#,
            r#"{"schemeCode":null,"amount":1}"#,
            "\u{0}",
        ] {
            let answer = agreed.seal(PURCHASE, text.as_bytes()).0.send(server()).unwrap();
            answer.assert_error(text, 400, "CRYPTO_ERROR");
        }
        let (_, plain) = agreed.call(PURCHASE, br#"{"schemeCode":"A","amount":12.5,"more":1}"#).unwrap();
        assert!(String::from_utf8_lossy(&plain).contains("Purchase of 12.5 in scheme A completed"));
    }
}

#[test]
fn a_wire_2_answer_has_its_headers_and_a_fresh_key() {
    let agreed = agreed(Wire::V2);
    let before = now_ms();
    let (first, _) = agreed.call(PURCHASE, ORDER).unwrap();
    let (second, _) = agreed.call(PURCHASE, ORDER).unwrap();
    assert_eq!(first.header("x-kid"), Some(format!("session:{}", agreed.id()).as_str()));
    assert_eq!(first.header("content-type"), Some("application/octet-stream"));
    let key = first.header("x-idempotency-key").unwrap();
    assert!(key.len() >= 30 && key.matches('.').count() == 1, "{key}");
    let (stamp, nonce) = key.split_once('.').unwrap();
    assert!((before..=now_ms()).contains(&stamp.parse().unwrap()), "{stamp}");
    assert!(nonce.starts_with("r-"), "{nonce}");
    assert_ne!(first.header("x-idempotency-key"), second.header("x-idempotency-key"));
    assert_ne!(first.body[..12], second.body[..12], "an IV is used once");
    assert!(first.header("x-nonce").is_none() && first.header("x-clientid").is_none());
}

#[test]
fn a_wire_1_answer_has_the_seven_headers_and_text() {
    let agreed = agreed(Wire::V1);
    let (answer, _) = agreed.call(PURCHASE, ORDER).unwrap();
    let header = |name| answer.header(name).unwrap();
    let aad = String::from_utf8(base64::decode(header("x-aad")).unwrap()).unwrap();
    let kid = format!("session:{}", agreed.id());
    assert_eq!(aad, format!("200|{PURCHASE}|{}|{}|{kid}", header("x-timestamp"), header("x-nonce")));
    assert_eq!((header("x-kid"), header("x-enc-alg")), (kid.as_str(), "A256GCM"));
    assert_eq!(
        (base64::decode(header("x-iv")).unwrap().len(), base64::decode(header("x-tag")).unwrap().len()),
        (12, 16)
    );
    assert!(header("x-nonce").starts_with("r-"));
    assert!(answer.text().is_ascii() && base64::decode(&answer.body).is_ok());
    assert!(answer.header("x-idempotency-key").is_none());
}

#[test]
fn wire_2_bodies_from_28_bytes_to_1_mib_are_taken() {
    let agreed = agreed(Wire::V2);
    let (request, _) = agreed.seal("/len", b"");
    assert_eq!(request.body_bytes().len(), 28);
    for len in [0, 1, 12, 27] {
        let short = request.clone().body(&request.body_bytes()[..len]);
        short.send(server()).unwrap().assert_error(&format!("{len} bytes"), 400, "CRYPTO_ERROR");
    }
    for len in [28, 29, MIB - 1, MIB] {
        let (request, pending) = agreed.seal("/len", &vec![7; len - 28]);
        assert_eq!(request.body_bytes().len(), len);
        let opened = open(&pending, &request.send(server()).unwrap()).unwrap();
        assert_eq!(String::from_utf8_lossy(&opened), (len - 28).to_string());
    }
    for len in [MIB + 1, 10 * MIB] {
        for request in
            [agreed.seal("/len", &vec![7; len - 28]).0, agreed.seal("/len", &vec![7; len - 28]).0.chunked(MIB)]
        {
            request.send(server()).unwrap().assert_error(&format!("{len} bytes"), 413, "PAYLOAD_TOO_LARGE");
        }
    }
}

#[test]
fn wire_1_bodies_up_to_1_mib_of_text_are_taken() {
    let agreed = agreed(Wire::V1);
    for (len, text) in [(0, 0), (1, 4), (MIB / 4 * 3 - 1, MIB), (MIB / 4 * 3, MIB)] {
        let (request, pending) = agreed.seal("/len", &vec![7; len]);
        assert_eq!(request.body_bytes().len(), text);
        let opened = open(&pending, &request.send(server()).unwrap()).unwrap();
        assert_eq!(String::from_utf8_lossy(&opened), len.to_string());
    }
    for len in [MIB / 4 * 3 + 1, 7 * MIB] {
        let (request, _) = agreed.seal("/len", &vec![7; len]);
        request.send(server()).unwrap().assert_error(&format!("{len} bytes"), 413, "PAYLOAD_TOO_LARGE");
    }
    let (request, _) = agreed.seal("/len", &vec![7; MIB / 4 * 3]);
    let cut = request.clone().body(&request.body_bytes()[1..]);
    cut.send(server()).unwrap().assert_error("1 MiB - 1 is no base64", 400, "CRYPTO_ERROR");
}

#[test]
fn a_route_may_have_a_bound_of_its_own() {
    let agreed = agreed(Wire::V2);
    let (request, pending) = agreed.seal("/small/len", &[0; 72]);
    open(&pending, &request.send(server()).unwrap()).unwrap();
    let (request, _) = agreed.seal("/small/len", &[0; 73]);
    request.send(server()).unwrap().assert_error("101 bytes", 413, "PAYLOAD_TOO_LARGE");
}

#[test]
fn any_content_type_case_and_framing_is_taken() {
    for wire in BOTH {
        let agreed = agreed(wire);
        let good = || agreed.seal(PURCHASE, ORDER).0;
        for (what, request) in [
            ("none", good().without("content-type")),
            ("JSON", good().set("Content-Type", "application/json")),
            ("text", good().set("Content-Type", "text/plain")),
            ("junk", good().set("Content-Type", "junk")),
            ("two", good().header("Content-Type", "text/plain")),
            ("upper case", good().rename(str::to_ascii_uppercase)),
            ("lower case", good().rename(str::to_ascii_lowercase)),
            ("chunked", good().chunked(5)),
            ("expect", good().header("Expect", "100-continue")),
        ] {
            let answer = request.send(server()).unwrap();
            assert_eq!(answer.status, 200, "{what}: {}", answer.text());
        }
    }
}

#[test]
fn the_service_receives_the_plaintext_as_json_and_no_trace_of_the_seal() {
    for wire in BOTH {
        let agreed = agreed(wire);
        let path = "/anything/at%20all";
        let request = agreed.seal(path, b"plain text").0;
        let request = request
            .target(&format!("{path}?a=1&b=%2F&a=2"))
            .header("X-Forwarded-For", "6.6.6.6")
            .header("Forwarded", "for=6.6.6.6")
            .header("X-Forwarded-Proto", "https")
            .header("X-Forwarded-Host", "evil.example")
            .header("Host", "shop.example")
            .header("Connection", "close, X-Nominated")
            .header("X-Nominated", "1")
            .header("Keep-Alive", "timeout=5")
            .header("TE", "trailers")
            .header("Proxy-Authorization", "Basic eDp5")
            .header("Proxy-Connection", "keep-alive")
            // X-Seal would make it a request of wire 3.
            .header("X-Sealed", "x")
            .header("X-Request-Id", "kept")
            .header("Authorization", "Bearer kept")
            .header("Cookie", "a=b");
        let request = if wire == Wire::V1 { request.header("X-ClientId", CLIENT_ID) } else { request };
        let (received, body) = received(&request);
        assert_eq!(received.method_and_target(), ("POST", format!("{path}?a=1&b=%2F&a=2").as_str()));
        assert_eq!(body, b"plain text");
        assert_eq!(received.header("content-type"), Some("application/json"));
        assert_eq!(received.header("content-length"), Some("10"));
        for name in [
            "x-kid",
            "x-idempotency-key",
            "x-clientid",
            "x-nonce",
            "x-timestamp",
            "x-enc-alg",
            "x-iv",
            "x-tag",
            "x-aad",
            "x-seal",
            "x-sealed",
            "x-nominated",
            "connection",
            "keep-alive",
            "te",
            "proxy-authorization",
            "proxy-connection",
            "transfer-encoding",
            "upgrade",
        ] {
            assert_eq!(received.header(name), None, "{name}");
        }
        let all = |name: &str| {
            let named = received.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
            named.map(|(_, value)| value.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(all("forwarded"), ["for=127.0.0.1;host=\"shop.example\";proto=http"]);
        assert_eq!(all("x-forwarded-for"), ["127.0.0.1"]);
        assert_eq!(all("x-forwarded-proto"), ["http"]);
        assert_eq!(all("x-forwarded-host"), ["shop.example"]);
        assert_eq!(all("host"), [setup().upstream.address.to_string()]);
        assert_eq!((all("x-request-id"), all("authorization")), (vec!["kept"], vec!["Bearer kept"]));
        assert_eq!(all("cookie"), ["a=b"]);
        assert_eq!(all("content-type").len(), 1);
    }
}

#[test]
fn a_route_may_say_another_content_type() {
    let agreed = agreed(Wire::V2);
    let (seen, body) = received(&agreed.seal("/xml/a", b"<a/>").0.set("Content-Type", "text/plain"));
    assert_eq!((seen.header("content-type"), body.as_slice()), (Some("application/xml"), &b"<a/>"[..]));
}

#[test]
fn conditions_and_ranges_on_the_sealed_body_do_not_reach_the_service() {
    let agreed = agreed(Wire::V2);
    let request = agreed.seal("/x", b"x").0;
    let request = request.header("Range", "bytes=0-1").header("If-None-Match", "*").header("Accept-Encoding", "gzip");
    let (seen, _) = received(&request.header("Content-Encoding", "identity"));
    for name in ["range", "if-none-match", "accept-encoding", "content-encoding"] {
        assert_eq!(seen.header(name), None, "{name}");
    }
}

#[test]
fn a_refused_request_does_not_reach_the_service() {
    let silent = Upstream::answering(|_, body| answer("200 OK", &[], body)).unwrap();
    let config = format!(
        "
listeners: [{{ address: '127.0.0.1:0' }}]
routes:
  - {{ match: {{ path_prefix: /session/ }}, sessions: {{}} }}
  - {{ match: {{}}, sealed: required, upstream: service }}
upstreams: {{ service: {{ servers: ['http://{}'] }} }}
",
        silent.address
    );
    let server = Launch::new(BINARY, &config).start().unwrap();
    for wire in BOTH {
        let agreed = WireSession::open(server.address(), wire, "/session/init").unwrap();
        let good = agreed.seal("/x", b"x").0;
        let stale = agreed.seal_as("/x", b"x", &(now_ms() - 400_000).to_string(), &nonce()).0;
        for bad in [good.clone().body("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"), good.clone().without("x-kid"), stale] {
            assert_eq!(bad.send(server.address()).unwrap().status, 400);
        }
        Request::post("/x", "{}").send(server.address()).unwrap().assert_error("plain", 400, "CRYPTO_ERROR");
        assert!(silent.is_untouched());
        assert_eq!(good.send(server.address()).unwrap().status, 200);
        silent.next().unwrap();
        assert_eq!(good.send(server.address()).unwrap().status, 400);
        assert!(silent.is_untouched(), "a replay reached the service");
    }
}
