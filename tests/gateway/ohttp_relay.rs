//! A relay of Oblivious HTTP before a gateway, and before servers that answer what a relay must not pass on.

use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::{Answer, Connection, Request};
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
cors: {{ origins: ['*'] }}
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
        ("Origin", "https://shop.example"),
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
    let headers = "Content-Type: message/ohttp-res\r\nSet-Cookie: a=b\r\nServer: x\r\nIncremental: ?1;of=me\r\nServer-Timing: a;dur=1";
    let answer = format!(
        "HTTP/1.1 200 OK\r\n{headers}\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nsealed\r\n0\r\nX-Behind: 1\r\n\r\n"
    );
    let gateway = Upstream::answering(move |_: &RequestHead, _: &[u8]| answer.clone().into_bytes());
    let gateway = gateway.unwrap();
    let relay = relay(&gateway.address.to_string(), "");
    let passed = talkative(b"message".to_vec()).send(relay.address()).unwrap();
    assert_eq!((passed.status, passed.text()), (200, "sealed".into()));
    for name in ["set-cookie", "server", "incremental", "server-timing", "access-control-allow-origin", "vary"] {
        assert_eq!(passed.header(name), None, "{name}");
    }
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
    assert_eq!((head.header("content-type"), head.header("incremental")), (Some("message/ohttp-req"), None));
    let plain = Request::post("/relay", b"message").set("Content-Type", "message/ohttp-req").set("Incremental", "?1");
    assert_eq!(plain.send(relay.address()).unwrap().status, 200);
    assert_eq!(gateway.next().unwrap().0.header("incremental"), Some("?1"));
}

/// Number of requests in the short form of the privacy test; `SEALWAY_PRIVACY_REQUESTS` has another, such as 10000.
const REQUESTS: usize = 300;

#[test]
fn the_gateway_receives_no_byte_that_differs_with_the_client_but_its_message() {
    let requests = std::env::var("SEALWAY_PRIVACY_REQUESTS").map_or(REQUESTS, |text| text.parse().unwrap());
    let setup = Setup::new(&["x25519"], "");
    let list = setup.keys();
    let gateway = Upstream::answering(|head: &RequestHead, _: &[u8]| {
        let kind = head.header("content-type").unwrap().replace("-req", "-res");
        answer("200 OK", &[("Content-Type", &kind)], b"sealed")
    });
    let gateway = gateway.unwrap();
    let relay = relay(&gateway.address.to_string(), "");
    let mut heads = std::collections::BTreeSet::new();
    let mut sent = std::collections::BTreeSet::new();
    for index in 0..requests {
        // A client with an address, an agent, a spelling and a framing of its own, and a message of its own length.
        let is_chunked_form = index % 2 == 1;
        let content = vec![b'x'; index % 70];
        let control = ["POST", "https", "api.example", "/pay"];
        let client = ohttp::ClientRequest::from_encoded_config_list(&list).unwrap();
        let (body, _) = client.encapsulate(&message(control, &[], &content)).unwrap();
        let kind = if is_chunked_form { "message/ohttp-chunked-req" } else { "message/ohttp-req" };
        let kind = if index % 3 == 0 { format!("{kind}; charset=c{index}") } else { kind.to_owned() };
        let own = format!(
            "Host: h{index}.example\r\nUser-Agent: agent/{index}\r\nCookie: id={index}\r\nX-Forwarded-For: 192.0.2.{}\r\n\
             Accept-Language: l{index}\r\nX-Own-{index}: 1\r\ntraceparent: 00-{index:032x}-{index:016x}-01\r\nContent-Type: {kind}\r\n",
            index % 250
        );
        let (framing, framed) = if index % 5 < 2 {
            let (first, second) = body.split_at(body.len() / 2);
            let chunk = |part: &[u8]| [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat();
            ("Transfer-Encoding: chunked".to_owned(), [&chunk(first)[..], &chunk(second), b"0\r\n\r\n"].concat())
        } else {
            (format!("Content-Length: {}", body.len()), body.clone())
        };
        let head = format!("POST /relay?c={index} HTTP/1.1\r\n{own}Connection: close\r\n{framing}\r\n\r\n");
        let mut connection = Connection::open(relay.address()).unwrap();
        connection.write(&[head.as_bytes(), &framed].concat()).unwrap();
        assert_eq!(connection.read_answer("POST").unwrap().status, 200, "{head}");
        let (mut head, received) = gateway.next().unwrap();
        assert_eq!(received, body);
        // Key id, KEM and suite: the rest of the message is the encapsulated secret and ciphertext.
        assert_eq!(body[..7], [0, 0, 0x20, 0, 1, 0, 1]);
        assert!(sent.insert(received), "two messages are alike");
        let length = head.headers.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        assert_eq!(length.is_some(), !is_chunked_form);
        if let Some((_, length)) = length {
            assert_eq!(length.parse(), Ok(body.len()));
            length.clear();
        }
        heads.insert((is_chunked_form, head.line, head.headers));
    }
    assert_eq!(heads.len(), 2, "one head for each form: {heads:?}");
}

#[test]
fn every_client_gets_the_same_bytes_of_a_key_endpoint() {
    let setup = Setup::new(&["x25519", "x-wing"], "");
    for path in ["/ohttp-keys", "/ohttp-configs", "/.well-known/ohttp-gateway"] {
        let mut answers = std::collections::BTreeSet::new();
        for index in 0..30 {
            let request = Request::get(&format!("{path}?c={index}")).set("Accept", "application/ohttp-keys");
            let own = [
                ("User-Agent", format!("agent/{index}")),
                ("Cookie", format!("id={index}")),
                ("Origin", format!("https://o{index}.example")),
                ("Accept-Language", format!("l{index}")),
                ("If-None-Match", format!("\"{index}\"")),
                ("Forwarded", format!("for=192.0.2.{index}")),
            ];
            let request = own.iter().fold(request, |request, (name, value)| request.set(name, value));
            let Answer { status, mut headers, body } = request.send(setup.server.address()).unwrap();
            // The hour is that of all clients.
            headers.retain(|(name, _)| name != "date");
            assert_eq!(status, 200, "{path}");
            answers.insert((headers, body));
        }
        let headers: Vec<_> = answers.iter().map(|(headers, _)| headers).collect();
        assert_eq!(answers.len(), 1, "{path}: {headers:?}");
    }
}

#[test]
fn trailers_of_a_message_pass_in_neither_direction() {
    let (seen, heads) = std::sync::mpsc::channel();
    let gateway = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = gateway.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (mut stream, _) = gateway.accept().unwrap();
        let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
        while !bytes.ends_with(b"\r\n0\r\n\r\n") && !bytes.ends_with(b"ehind: 1\r\n\r\n") {
            let len = stream.read(&mut part).unwrap();
            bytes.extend_from_slice(&part[..len]);
        }
        let head = "HTTP/1.1 200 OK\r\nContent-Type: message/ohttp-chunked-res\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(format!("{head}6\r\nsealed\r\n0\r\nX-Behind: 1\r\n\r\n").as_bytes()).unwrap();
        seen.send(String::from_utf8(bytes).unwrap()).unwrap();
    });
    let relay = relay(&address, "");
    let mut connection = Connection::open(relay.address()).unwrap();
    let head = "POST /relay HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: message/ohttp-chunked-req\r\nTransfer-Encoding: chunked\r\n\r\n";
    connection.write(format!("{head}7\r\nmessage\r\n0\r\nX-Behind: 1\r\n\r\n").as_bytes()).unwrap();
    let answered = connection.read_to_end().unwrap();
    let answered = String::from_utf8(answered).unwrap();
    assert!(answered.contains("sealed") && !answered.to_lowercase().contains("x-behind"), "{answered}");
    let received = heads.recv().unwrap();
    assert!(received.contains("message") && !received.to_lowercase().contains("x-behind"), "{received}");
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
