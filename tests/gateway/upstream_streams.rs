//! Data that flows through to a service without buffering: interim answers, trailers, other protocols on a connection,
//! back-pressure, and gRPC calls over HTTP/2.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sealway_testkit::process::{ADMIN_TOKEN, Launch, Server};
use sealway_testkit::raw_http::{Connection, Request, find};
use sealway_testkit::upstream::{Upstream, answer};

use crate::BINARY;

const WAIT: Duration = Duration::from_secs(20);

fn gateway(service: SocketAddr, settings: &str) -> Server {
    let config = format!(
        "
listeners: [{{ address: '127.0.0.1:0' }}]
admin: {{ address: '127.0.0.1:0', token_file: admin.token }}
routes: [{{ match: {{}}, upstream: service }}]
upstreams: {{ service: {{ servers: ['http://{service}'] {settings} }} }}
"
    );
    Launch::new(BINARY, &config).start().unwrap()
}

#[test]
fn early_hints_reach_the_client_before_the_answer() {
    let upstream = Upstream::serve(|_, connection| {
        connection.write(b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n")?;
        std::thread::sleep(Duration::from_millis(100));
        connection.write(&answer("200 OK", &[], b"page"))?;
        Ok(Vec::new())
    })
    .unwrap();
    let server = gateway(upstream.address, "");
    let mut connection = Connection::open(server.address()).unwrap();
    connection.write(&Request::get("/").bytes()).unwrap();
    let (line, headers) = connection.read_head().unwrap();
    assert!(line.starts_with("HTTP/1.1 103"), "{line}");
    assert_eq!(find(&headers, "link"), Some("</style.css>; rel=preload"));
    assert_eq!(connection.read_answer("GET").unwrap().text(), "page");
}

#[test]
fn a_body_is_sent_when_the_service_wants_it() {
    let upstream = Upstream::serve(|received, connection| {
        assert_eq!(received.header("expect"), Some("100-continue"));
        if received.method_and_target().1 == "/no" {
            connection.write(&answer("417 Expectation Failed", &[], b"no"))?;
            return Ok(Vec::new());
        }
        connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        let body = connection.read_body(&received.headers, false)?;
        connection.write(&answer("200 OK", &[], &body))?;
        Ok(body)
    })
    .unwrap();
    let server = gateway(upstream.address, "");
    let ask = |target| {
        let mut connection = Connection::open(server.address()).unwrap();
        let head = Request::post(target, "").header("Expect", "100-continue").header("Content-Length", "4").bare();
        connection.write(&head.head_bytes()).unwrap();
        let (line, _) = connection.read_head().unwrap();
        (line, connection)
    };
    let (line, mut connection) = ask("/yes");
    assert!(line.starts_with("HTTP/1.1 100"), "{line}");
    connection.write(b"body").unwrap();
    assert_eq!(connection.read_answer("POST").unwrap().text(), "body");
    assert!(ask("/no").0.starts_with("HTTP/1.1 417"));
}

#[test]
fn a_body_does_not_wait_for_a_service_that_ignores_that_it_is_asked_for_a_100() {
    let upstream = Upstream::answering(|_, body| answer("200 OK", &[], body)).unwrap();
    let server = gateway(upstream.address, "");
    let mut waits = Vec::new();
    for _ in 0..4 {
        let mut connection = Connection::open(server.address()).unwrap();
        let head = Request::post("/", "").header("Expect", "100-continue").header("Content-Length", "4").bare();
        let asked = Instant::now();
        connection.write(&head.head_bytes()).unwrap();
        assert!(connection.read_head().unwrap().0.starts_with("HTTP/1.1 100"));
        waits.push(asked.elapsed());
        connection.write(b"body").unwrap();
        assert_eq!(connection.read_answer("POST").unwrap().text(), "body");
    }
    // The first request learns that the service ignores it. A busy machine may delay the others, so the fastest counts.
    assert!(waits[1..].iter().min() < Some(&Duration::from_millis(250)), "{waits:?}");
}

#[test]
fn trailers_pass_both_ways() {
    let upstream = Upstream::serve(|received, connection| {
        assert_eq!(received.header("te"), Some("trailers"));
        assert_eq!(received.header("trailer"), Some("X-Sum"));
        let body = b"4\r\nbody\r\n0\r\nx-sum: 1\r\n\r\n";
        assert_eq!(connection.read_exactly(body.len())?, body);
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\nConnection: close\r\n\r\n";
        connection.write(head.as_bytes())?;
        connection.write(b"4\r\nback\r\n0\r\nX-Sum: 2\r\n\r\n")?;
        Ok(Vec::new())
    })
    .unwrap();
    let server = gateway(upstream.address, "");
    let mut connection = Connection::open(server.address()).unwrap();
    let head = Request::post("/", "").chunked(1).header("TE", "trailers").header("Trailer", "X-Sum");
    connection.write(&head.header("Connection", "te, close").head_bytes()).unwrap();
    connection.write(b"4\r\nbody\r\n0\r\nX-Sum: 1\r\n\r\n").unwrap();
    let (line, headers) = connection.read_head().unwrap();
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    assert_eq!(find(&headers, "trailer"), Some("X-Sum"));
    let body = b"4\r\nback\r\n0\r\nx-sum: 2\r\n\r\n";
    assert_eq!(connection.read_exactly(body.len()).unwrap(), body);
}

/// A service that speaks WebSocket (RFC 6455): it echoes text frames of at most 125 bytes.
fn echo() -> (Upstream, mpsc::Receiver<&'static str>) {
    let (ended, ends) = mpsc::channel();
    let ended = Mutex::new(ended);
    let upstream = Upstream::serve(move |received, connection| {
        if received.header("upgrade") != Some("websocket") {
            connection.write(&answer("200 OK", &[], format!("{:?}", received.headers).as_bytes()))?;
            return Ok(Vec::new());
        }
        assert_eq!(received.header("connection"), Some("upgrade"));
        // The answer to the key of RFC 6455 section 1.3, and a first frame directly after the head.
        let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: chat\r\n\r\n";
        connection.write(&[head.as_bytes(), b"\x81\x05first"].concat())?;
        while let Ok(start) = connection.read_exactly(6) {
            assert!(start[0] == 0x81 && start[1] & 0x80 != 0, "a client masks its frames: {start:?}");
            let mut text = connection.read_exactly(usize::from(start[1] & 0x7f))?;
            text.iter_mut().enumerate().for_each(|(index, byte)| *byte ^= start[2 + index % 4]);
            connection.write(&[&[0x81, text.len() as u8], text.as_slice()].concat())?;
        }
        ended.lock().unwrap().send("the client has gone")?;
        Ok(Vec::new())
    });
    (upstream.unwrap(), ends)
}

fn ask_for_websocket(server: &Server) -> Connection {
    let request = Request::get("/chat")
        .header("Connection", "keep-alive, Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
    let mut connection = Connection::open(server.address()).unwrap();
    // The first frame arrives before the answer, and belongs to the service.
    connection.write(&[request.bytes(), frame("early")].concat()).unwrap();
    let (line, headers) = connection.read_head().unwrap();
    assert!(line.starts_with("HTTP/1.1 101"), "{line}");
    assert_eq!(find(&headers, "upgrade"), Some("websocket"));
    assert!(find(&headers, "connection").unwrap().eq_ignore_ascii_case("upgrade"));
    assert_eq!(find(&headers, "sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert_eq!(find(&headers, "sec-websocket-protocol"), Some("chat"));
    assert_eq!(connection.read_exactly(7).unwrap(), b"\x81\x05first");
    assert_eq!(connection.read_exactly(7).unwrap(), b"\x81\x05early");
    connection
}

/// Returns a masked WebSocket text frame.
fn frame(text: &str) -> Vec<u8> {
    let mask = [1, 2, 3, 4];
    let masked = text.bytes().enumerate().map(|(index, byte)| byte ^ mask[index % 4]);
    [0x81, 0x80 | text.len() as u8].into_iter().chain(mask).chain(masked).collect()
}

fn metric(server: &Server, name: &str) -> Option<f64> {
    let request = Request::get("/metrics").header("Authorization", format!("Bearer {ADMIN_TOKEN}"));
    let text = request.send(server.admin()).unwrap().text();
    let line = text.lines().find(|line| line.starts_with(&format!("{name}{{")))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

#[test]
fn a_websocket_reaches_the_service_and_its_end_too() {
    let (upstream, ends) = echo();
    let server = gateway(upstream.address, "");
    let mut connection = ask_for_websocket(&server);
    for text in ["one", "and another"] {
        connection.write(&frame(text)).unwrap();
        let echoed = [&[0x81, text.len() as u8], text.as_bytes()].concat();
        assert_eq!(connection.read_exactly(echoed.len()).unwrap(), echoed);
    }
    assert_eq!(metric(&server, "sealway_tunnels"), Some(1.0));
    drop(connection);
    assert_eq!(ends.recv_timeout(WAIT).unwrap(), "the client has gone");
    let until = Instant::now() + WAIT;
    while metric(&server, "sealway_tunnels") != Some(0.0) {
        assert!(Instant::now() < until, "the tunnel stays");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(metric(&server, "sealway_tunnels_total"), Some(1.0));
}

#[test]
fn a_websocket_that_stands_still_is_ended() {
    let (upstream, ends) = echo();
    let server = gateway(upstream.address, ", timeouts: { idle_ms: 300 }");
    let mut connection = ask_for_websocket(&server);
    assert_eq!(ends.recv_timeout(WAIT).unwrap(), "the client has gone");
    assert!(connection.read_to_end().unwrap_or_default().is_empty());
}

/// A gateway with a sealed path and a plain one, which allows these upgrades.
fn gateway_with_a_seal(service: SocketAddr, protocols: &str) -> Server {
    let config = format!(
        "
listeners: [{{ address: '127.0.0.1:0' }}]
routes:
  - {{ match: {{ path_prefix: /sealed/ }}, sealed: required, upstream: service }}
  - {{ match: {{}}, upstream: service{protocols} }}
upstreams: {{ service: {{ servers: ['http://{service}'] }} }}
sessions: {{ store: 'memory:' }}
"
    );
    Launch::new(BINARY, &config).start().unwrap()
}

#[test]
fn a_protocol_that_a_route_does_not_allow_is_not_asked_for_and_a_switch_to_it_is_a_bad_gateway() {
    // The service switches to any requested protocol, and to "tls/1.0" without a request, and records the bytes that follow.
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let upstream = Upstream::serve(move |received, connection| {
        let wanted = received.header("upgrade").map(str::to_owned);
        tell.lock().unwrap().send(wanted.clone())?;
        if received.method_and_target().1 == "/unasked" || wanted.is_some() {
            let wanted = wanted.unwrap_or_else(|| "tls/1.0".into());
            let wanted = if received.method_and_target().1 == "/other" { "tls/1.0".into() } else { wanted };
            let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: ";
            connection.write(format!("{head}{wanted}\r\n\r\n").as_bytes())?;
            return Ok(connection.read_to_end().unwrap_or_default());
        }
        connection.write(&answer("200 OK", &[], b"plain"))?;
        Ok(Vec::new())
    })
    .unwrap();
    let server = gateway_with_a_seal(upstream.address, "");
    let smuggled = b"POST /sealed/pay HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nall".to_vec();
    for (target, protocol, status) in [
        ("/", "TLS/1.0", "200"),
        ("/", "h2c", "200"),
        ("/", "HTTP/2.0", "200"),
        ("/", "chat", "200"),
        ("/", "websocket, TLS/1.0", "200"),
        ("/unasked", "TLS/1.0", "502"),
        ("/other", "websocket", "502"),
    ] {
        let request = Request::get(target).header("Connection", "Upgrade").header("Upgrade", protocol);
        let mut connection = Connection::open(server.address()).unwrap();
        connection.write(&[request.bytes(), smuggled.clone()].concat()).unwrap();
        let first = connection.read_answer("GET").unwrap();
        assert_eq!(first.status.to_string(), status, "{target} {protocol}: {}", first.text());
        let asked = (protocol == "websocket").then(|| protocol.to_owned());
        assert_eq!(told.recv_timeout(WAIT).unwrap(), asked, "{protocol}");
        // The bytes after it are a new request, which the routes must judge: it never reaches the service.
        let second = connection.read_answer("POST").unwrap();
        assert_eq!(second.status, 400, "{protocol}: {}", second.text());
        let (_, reached) = upstream.next().unwrap();
        assert!(reached.is_empty(), "{protocol}: {}", String::from_utf8_lossy(&reached));
    }
    assert!(upstream.is_untouched() && told.try_recv().is_err());
}

#[test]
fn a_route_allows_the_protocols_that_it_lists_and_a_tunnel_is_used_for_nothing_else() {
    let upstream = Upstream::serve(|received, connection| {
        if received.header("upgrade").is_none() {
            connection.write(&answer("200 OK", &[], b"plain"))?;
            return Ok(Vec::new());
        }
        connection.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: Chat\r\n\r\n")?;
        let words = connection.read_exactly(5)?;
        // A second answer after the tunnel's: no client may take it for the answer to its request.
        connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong")?;
        Ok([words, connection.read_to_end().unwrap_or_default()].concat())
    })
    .unwrap();
    let server = gateway_with_a_seal(upstream.address, ", upgrade_protocols: [chat]");
    let ask = |protocol: &str| {
        let request = Request::get("/").header("Connection", "Upgrade").header("Upgrade", protocol);
        let mut connection = Connection::open(server.address()).unwrap();
        connection.write(&request.bytes()).unwrap();
        connection
    };
    assert_eq!(ask("websocket").read_answer("GET").unwrap().text(), "plain");
    assert_eq!(upstream.next().unwrap().0.header("upgrade"), None);
    let mut tunnel = ask("chat");
    assert!(tunnel.read_head().unwrap().0.starts_with("HTTP/1.1 101"));
    tunnel.write(b"words").unwrap();
    tunnel.read_exactly(10).unwrap();
    drop(tunnel);
    // No bytes of another client followed the client's.
    assert_eq!(upstream.next().unwrap().1, b"words");
    for _ in 0..3 {
        assert_eq!(Request::get("/").send(server.address()).unwrap().text(), "plain");
    }
}

#[test]
fn a_peer_that_does_not_read_slows_the_writer() {
    const BOUND: usize = 48 * 1024 * 1024;
    let written = Arc::new(AtomicUsize::new(0));
    let count = written.clone();
    let upstream = Upstream::serve(move |received, connection| {
        if received.method_and_target().0 == "POST" {
            // Reads nothing and sends nothing.
            std::thread::sleep(WAIT);
            return Ok(Vec::new());
        }
        connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n")?;
        loop {
            connection.write(&[b'x'; 64 * 1024])?;
            count.fetch_add(64 * 1024, Ordering::Relaxed);
        }
    })
    .unwrap();
    let server = gateway(upstream.address, "");
    let mut upload = Connection::open(server.address()).unwrap();
    upload.set_wait(Duration::from_millis(1500)).unwrap();
    upload.write(&Request::post("/", "").header("Content-Length", "10000000000").bare().head_bytes()).unwrap();
    let mut sent = 0;
    while upload.write(&[b'x'; 64 * 1024]).is_ok() {
        sent += 64 * 1024;
        assert!(sent < BOUND, "the service reads nothing, and the gateway goes on taking");
    }
    let mut download = Connection::open(server.address()).unwrap();
    download.write(&Request::get("/").bytes()).unwrap();
    let (line, _) = download.read_head().unwrap();
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    let until = Instant::now() + WAIT;
    let mut before = usize::MAX;
    while written.load(Ordering::Relaxed) != before {
        assert!(Instant::now() < until, "the client reads nothing, and the gateway goes on taking");
        before = written.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(700));
    }
    assert!(before < BOUND, "{before}");
}

/// Echoes messages and ends with trailers, over HTTP/2 without TLS.
async fn serve_calls(listener: tokio::net::TcpListener) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let service = hyper::service::service_fn(|request: hyper::Request<Incoming>| async move {
            assert_eq!(request.headers()["te"], "trailers");
            assert_eq!(request.headers()["content-type"], "application/grpc");
            assert_eq!(request.version(), http::Version::HTTP_2);
            let answer = hyper::Response::builder().header("content-type", "application/grpc");
            Ok::<_, Infallible>(answer.body(request.into_body()).unwrap())
        });
        let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        tokio::spawn(async move { serving.serve_connection(TokioIo::new(stream), service).await });
    }
}

#[tokio::test]
async fn a_call_as_grpc_makes_it_streams_both_ways_and_ends_in_trailers() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = gateway(listener.local_addr().unwrap(), ", protocol: http2");
    tokio::spawn(serve_calls(listener));
    let stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    for call in 0..3 {
        let (send, mut receive) = tokio::sync::mpsc::channel::<Frame<Bytes>>(1);
        let frames =
            futures_util::stream::poll_fn(move |cx| receive.poll_recv(cx).map(|frame| frame.map(Ok::<_, Infallible>)));
        let request = http::Request::post("http://calls.example/service/Method")
            .header("te", "trailers")
            .header("content-type", "application/grpc")
            .body(StreamBody::new(frames))
            .unwrap();
        let mut answer = sender.send_request(request).await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["content-type"]),
            (200, &"application/grpc".parse().unwrap())
        );
        for message in ["one", "two", "three"] {
            send.send(Frame::data(Bytes::from(message))).await.unwrap();
            let echoed = answer.body_mut().frame().await.unwrap().unwrap();
            assert_eq!(echoed.into_data().unwrap(), message, "before the next is sent");
        }
        let mut trailers = http::HeaderMap::new();
        trailers.insert("grpc-status", call.into());
        send.send(Frame::trailers(trailers)).await.unwrap();
        drop(send);
        let rest = answer.into_body().collect().await.unwrap();
        assert_eq!(rest.trailers().unwrap()["grpc-status"], call.to_string());
    }
}
