//! A relay of Oblivious HTTP before a gateway, and before servers that answer what a relay must not pass on.

use std::path::Path;
use std::time::{Duration, Instant};

use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::Request;
use sealway_testkit::upstream::{RequestHead, Upstream, answer};

use crate::BINARY;
use crate::ohttp::{Setup, message};

fn relay(gateway: &str, more: &str) -> Server {
    let config = format!(
        "
listeners: [{{ name: main, address: '127.0.0.1:0' }}]
access_log: {{ file: access.log, fields: [time, peer, client, user_agent, route, status] }}
routes:
  - {{ match: {{ path: /relay }}, upstream: gateway, ohttp: {{ role: relay, gateway_path: /gateway }}{more} }}
upstreams: {{ gateway: {{ servers: ['http://{gateway}'] }} }}
sessions: {{ store: 'memory:' }}
"
    );
    Launch::new(BINARY, &config).start().unwrap()
}

fn sealed(setup: &Setup, control: [&str; 4], content: &[u8]) -> (Vec<u8>, ohttp::ClientResponse) {
    let client = ohttp::ClientRequest::from_encoded_config_list(&setup.keys()).unwrap();
    client.encapsulate(&message(control, &[], content)).unwrap()
}

/// A request of a client that says much about itself.
fn talkative(body: Vec<u8>) -> Request {
    let request = Request::post("/relay", body).set("Content-Type", "message/ohttp-req").set("Incremental", "?0");
    let headers = [
        ("Cookie", "a=b"),
        ("User-Agent", "curl/8"),
        ("Forwarded", "for=192.0.2.1"),
        ("Via", "1.1 x"),
        ("X-Forwarded-For", "192.0.2.1"),
        ("Authorization", "Bearer x"),
        ("X-Unknown", "1"),
        ("Accept-Language", "de"),
        ("traceparent", "00-1-2-3"),
    ];
    headers.iter().fold(request, |request, (name, value)| request.set(name, *value))
}

#[test]
fn a_request_reaches_its_target_through_relay_and_gateway() {
    let setup = Setup::new(&["x25519"], "");
    let relay = relay(&setup.server.address().to_string(), "");
    let (body, opener) = sealed(&setup, ["POST", "https", "api.example", "/pay"], b"content");
    let outer = talkative(body).send(relay.address()).unwrap();
    assert_eq!((outer.status, outer.header("content-type")), (200, Some("message/ohttp-res")));
    let inner = opener.decapsulate(&outer.body).unwrap();
    let inner = bhttp::Message::read_bhttp(&mut std::io::Cursor::new(inner)).unwrap();
    assert_eq!((inner.control().status().unwrap().code(), inner.content()), (201, &b"content"[..]));
    let log = lines_of(&relay.folder.join("access.log"));
    assert!(log.contains(r#""peer":null,"client":null,"user_agent":null,"route":"routes[0]""#), "{log}");
}

/// Returns the text of a log that a thread of its own writes, once it has a line.
fn lines_of(path: &Path) -> String {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if text.ends_with('\n') || Instant::now() > end {
            return text;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_gateway_receives_nothing_of_the_client_but_the_message() {
    let gateway = Upstream::answering(|_: &RequestHead, _: &[u8]| {
        answer("200 OK", &[("Content-Type", "message/ohttp-res"), ("Set-Cookie", "a=b"), ("Server", "x")], b"sealed")
    });
    let gateway = gateway.unwrap();
    let relay = relay(&gateway.address.to_string(), "");
    let passed = talkative(b"message".to_vec()).send(relay.address()).unwrap();
    assert_eq!((passed.status, passed.text()), (200, "sealed".into()));
    assert_eq!((passed.header("set-cookie"), passed.header("server")), (None, None));
    let (head, body) = gateway.next().unwrap();
    assert_eq!((head.method_and_target(), &body[..]), (("POST", "/gateway"), &b"message"[..]));
    for name in [
        "cookie",
        "user-agent",
        "forwarded",
        "via",
        "x-forwarded-for",
        "x-forwarded-proto",
        "x-forwarded-host",
        "authorization",
        "x-unknown",
        "accept-language",
        "traceparent",
        "x-real-ip",
    ] {
        assert_eq!(head.header(name), None, "{name}");
    }
    assert_eq!((head.header("content-type"), head.header("incremental")), (Some("message/ohttp-req"), Some("?0")));
}

#[test]
fn what_a_relay_must_not_pass_on_is_refused() {
    let gateway = Upstream::answering(|_: &RequestHead, body: &[u8]| match body {
        b"redirect" => answer("307 Temporary Redirect", &[("Location", "http://evil.example/")], b""),
        b"html" => answer("200 OK", &[("Content-Type", "text/html")], b"<p>"),
        b"chunked" => answer("200 OK", &[("Content-Type", "message/ohttp-chunked-res")], b"x"),
        b"long" => answer("200 OK", &[("Content-Type", "message/ohttp-res")], &[7; 2000]),
        _ => answer("400 Bad Request", &[("Content-Type", "application/problem+json"), ("X-More", "1")], b"{}"),
    });
    let gateway = gateway.unwrap();
    let relay = relay(&gateway.address.to_string(), ", body_max: 1000");
    let post = |body: &[u8]| Request::post("/relay", body).set("Content-Type", "message/ohttp-req");
    for body in [&b"redirect"[..], b"html", b"chunked", b"long"] {
        let refused = post(body).send(relay.address()).unwrap();
        assert_eq!((refused.status, refused.header("location")), (502, None), "{}", String::from_utf8_lossy(body));
        assert!(gateway.next().is_ok());
    }
    let passed = post(b"bad key").send(relay.address()).unwrap();
    assert_eq!((passed.status, passed.text(), passed.header("x-more")), (400, "{}".into(), None));
    assert!(gateway.next().is_ok());
    assert_eq!(post(&[7; 2000]).send(relay.address()).unwrap().status, 413);
    assert_eq!(Request::get("/relay").send(relay.address()).unwrap().status, 405);
    assert_eq!(post(b"x").set("Content-Type", "text/plain").send(relay.address()).unwrap().status, 415);
    assert!(gateway.is_untouched(), "the gateway was asked");
}
