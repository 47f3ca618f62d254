//! Concurrent requests: of equal requests one wins, foreign clients use up no nonce, and a stop under load.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, OnceLock};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sealway_proto::wire::Wire;
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::{Connection, Request};
use sealway_testkit::upstream::{Upstream, answer};
use sealway_testkit::wire_client::{CLIENT_ID, ORDER, PURCHASE, WireSession, init, nonce, now_ms};

use crate::{BINARY, BOTH};

/// A body that is not quite 16 MiB when it is sealed.
const LARGE: usize = 16 * 1024 * 1024 - 1024;
const AT_ONCE: usize = 64;

fn config(store: &str) -> String {
    format!(
        "
listeners: [{{ address: '127.0.0.1:0' }}]
routes:
  - {{ match: {{ path_prefix: [/session/, /v1/session/] }}, sessions: {{}} }}
  - {{ match: {{}}, sealed: required, upstream: shop }}
upstreams: {{ shop: {{ servers: ['demo:'] }} }}
sessions: {{ {store} }}
"
    )
}

fn servers() -> &'static [Server; 2] {
    static SERVERS: OnceLock<[Server; 2]> = OnceLock::new();
    SERVERS.get_or_init(|| {
        ["store: 'memory:'", "store: 'file:sessions.redb', allow_generated_kek: true"]
            .map(|store| Launch::new(BINARY, &config(store)).start().unwrap())
    })
}

/// Sends one request over 64 connections at once. Returns the statuses.
fn at_once(server: &Server, request: &Request) -> Vec<u16> {
    let bytes: Arc<[u8]> = request.bytes().into();
    let barrier = Arc::new(Barrier::new(AT_ONCE));
    let threads: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            let (bytes, barrier, to) = (bytes.clone(), barrier.clone(), server.address());
            std::thread::spawn(move || {
                let mut connection = Connection::open(to).unwrap();
                let (most, last) = bytes.split_at(bytes.len() - 1);
                connection.write(most).unwrap();
                // All but one byte is sent: the last bytes go out together.
                barrier.wait();
                connection.write(last).unwrap();
                connection.read_answer("POST").unwrap().status
            })
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

fn count(statuses: &[u16], status: u16) -> usize {
    statuses.iter().filter(|seen| **seen == status).count()
}

#[test]
fn of_64_equal_sealed_requests_exactly_one_wins() {
    for server in servers() {
        for wire in BOTH {
            let agreed = WireSession::open(server.address(), wire, "/session/init").unwrap();
            for ahead in [0, 60_000] {
                let stamp = (now_ms() + ahead).to_string();
                let request = agreed.seal_as(PURCHASE, ORDER, &stamp, &nonce()).0;
                let statuses = at_once(server, &request);
                assert_eq!((count(&statuses, 200), count(&statuses, 400)), (1, AT_ONCE - 1), "{statuses:?}");
            }
        }
    }
}

#[test]
fn of_64_equal_inits_exactly_one_wins() {
    for server in servers() {
        for (wire, path, refused) in
            [(Wire::V1, "/session/init", 400), (Wire::V2, "/session/init", 400), (Wire::V2, "/v1/session/init", 409)]
        {
            let statuses = at_once(server, &init(wire, path, CLIENT_ID, None).1);
            assert_eq!((count(&statuses, 200), count(&statuses, refused)), (1, AT_ONCE - 1), "{statuses:?}");
        }
    }
}

#[test]
fn strangers_without_the_key_burn_no_nonce_however_many() {
    for server in servers() {
        for wire in BOTH {
            let agreed = WireSession::open(server.address(), wire, "/session/init").unwrap();
            let request = agreed.seal(PURCHASE, ORDER).0;
            let mut body = request.body_bytes().to_vec();
            // Still base64 on wire 1, still a message on wire 2: only the tag fails.
            body[3] = if body[3] == b'A' { b'B' } else { b'A' };
            let statuses = at_once(server, &request.clone().body(body));
            assert_eq!(count(&statuses, 400), AT_ONCE, "{statuses:?}");
            assert_eq!(request.send(server.address()).unwrap().status, 200, "the owner's own request");
            assert_eq!(request.send(server.address()).unwrap().status, 400);
        }
    }
}

#[test]
fn a_stop_under_load_answers_every_request_in_flight_and_resets_none() {
    let upstream = Upstream::answering(|_, body| {
        std::thread::sleep(Duration::from_millis(500));
        answer("200 OK", &[], body)
    });
    let upstream = upstream.unwrap();
    let config = format!(
        "{}\nlimits: {{ drain_ms: 10000 }}\n",
        config("store: 'memory:'").replace("'demo:'", &format!("'http://{}'", upstream.address))
    );
    let mut server = Launch::new(BINARY, &config).start().unwrap();
    let to = server.address();
    let sent = Arc::new(AtomicUsize::new(0));
    let answered = Arc::new(AtomicUsize::new(0));
    let stopping = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..32)
        .map(|n| {
            let (sent, answered, stopping) = (sent.clone(), answered.clone(), stopping.clone());
            std::thread::spawn(move || {
                let agreed = WireSession::open(to, BOTH[n % 2], "/session/init").unwrap();
                let mut connection = Connection::open(to).unwrap();
                loop {
                    let request = agreed.seal("/x", b"x").0.header("Connection", "keep-alive");
                    connection.write(&request.bytes()).unwrap();
                    sent.fetch_add(1, Ordering::SeqCst);
                    let answer = connection.read_answer("POST").expect("a request in flight was not answered");
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    answered.fetch_add(1, Ordering::SeqCst);
                    // A stopping server sends `Connection: close`, and its client then goes to another server.
                    if answer.header("connection") == Some("close") || stopping.load(Ordering::SeqCst) {
                        return;
                    }
                }
            })
        })
        .collect();
    // All sessions are open, all requests in flight or at the service.
    while sent.load(Ordering::SeqCst) < 64 {
        std::thread::sleep(Duration::from_millis(5));
    }
    // From here on no client sends a new request, and requests in flight have time to arrive: a request that meets the closing of
    // its own idle connection is a race of HTTP/1.1 and not of the server.
    stopping.store(true, Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(150));
    let started = Instant::now();
    server.terminate().unwrap();
    assert!(answered.load(Ordering::SeqCst) < sent.load(Ordering::SeqCst), "some are in flight");
    for client in clients {
        client.join().unwrap();
    }
    assert_eq!(server.wait().unwrap().code(), Some(0));
    assert!(started.elapsed() < Duration::from_secs(10), "within drain_ms");
    assert_eq!(sent.load(Ordering::SeqCst), answered.load(Ordering::SeqCst));
    assert!(Connection::open(to).is_err(), "nobody listens any more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_stop_answers_http_2_streams_in_flight() {
    let upstream = Upstream::answering(|_, body| {
        std::thread::sleep(Duration::from_millis(500));
        answer("200 OK", &[], body)
    });
    let config = config("store: 'memory:'").replace("'demo:'", &format!("'http://{}'", upstream.unwrap().address));
    let mut server = Launch::new(BINARY, &config).start().unwrap();
    let agreed = WireSession::open(server.address(), Wire::V2, "/session/init").unwrap();
    let stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    let connection = tokio::spawn(connection);
    let streams: Vec<_> = (0..16)
        .map(|_| {
            let sealed = agreed.seal("/x", b"x").0;
            let request = http::Request::post("http://shop.example/x");
            let request = sealed.headers().iter().fold(request, |request, (name, value)| request.header(name, value));
            tokio::spawn(
                sender.send_request(request.body(Full::new(Bytes::from(sealed.body_bytes().to_vec()))).unwrap()),
            )
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(250)).await;
    server.terminate().unwrap();
    for stream in streams {
        let answer = stream.await.unwrap().unwrap();
        assert_eq!(answer.status().as_u16(), 200);
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes().len(), 29);
    }
    assert!(connection.await.unwrap().is_ok(), "closed in order");
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn draining_ends_at_its_bound_though_requests_remain() {
    let upstream = Upstream::answering(|_, body| {
        std::thread::sleep(Duration::from_secs(20));
        answer("200 OK", &[], body)
    });
    let upstream = upstream.unwrap();
    let config = format!(
        "{}\nlimits: {{ drain_ms: 300 }}\n",
        config("store: 'memory:'").replace("'demo:'", &format!("'http://{}'", upstream.address))
    );
    let mut server = Launch::new(BINARY, &config).start().unwrap();
    let agreed = WireSession::open(server.address(), Wire::V2, "/session/init").unwrap();
    let mut stuck = Connection::open(server.address()).unwrap();
    stuck.write(&agreed.seal("/x", b"x").0.bytes()).unwrap();
    let _idle = Connection::open(server.address()).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let started = Instant::now();
    assert_eq!(server.stop().unwrap().code(), Some(0));
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(5), "{took:?}");
    assert!(server.log().iter().any(|line| line.contains("still busy")));
}

#[test]
fn bodies_that_are_held_whole_have_one_bound_together_and_each_address_a_share() {
    let config = "
listeners: [{ address: '127.0.0.1:0' }]
routes:
  - { match: { path_prefix: /session/ }, sessions: {} }
  - { match: { path_prefix: /transaction/ }, sealed: required, upstream: shop, sealed_body_max: 16777216 }
upstreams: { shop: { servers: ['demo:'] } }
limits: { buffered_bytes_max: 134217728 }
";
    let server = Launch::new(BINARY, config).start().unwrap();
    let agreed = WireSession::open(server.address(), Wire::V2, "/session/init").unwrap();
    let large = || agreed.seal("/transaction/purchase", &vec![b'x'; LARGE]).0.send(server.address()).unwrap();
    let small = || agreed.call("/transaction/purchase", br#"{"schemeCode":"A","amount":1}"#).unwrap().0.status;
    // Announces 16 MiB and sends this much of it.
    let slow = |len: usize| {
        let head = agreed.seal("/transaction/purchase", b"x").0.bare().set("Content-Length", "16777216");
        let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
        std::io::Write::write_all(&mut stream, &[head.head_bytes(), vec![b'x'; len]].concat()).unwrap();
        stream
    };
    let until = |what: &str, is: &dyn Fn() -> bool| {
        let since = Instant::now();
        while !is() {
            assert!(since.elapsed() < Duration::from_secs(30), "{what}");
        }
    };
    // Announced bytes that are not sent use no memory.
    let announced: Vec<_> = (0..16).map(|_| slow(0)).collect();
    assert_ne!(large().status, 503);
    // Sent bytes do: one address may use a quarter, which is 32 MiB.
    let sent = [slow(LARGE), slow(LARGE - 1024 * 1024)];
    until("the share of the address is taken", &|| large().status == 503);
    assert_eq!(large().header("retry-after"), Some("1"));
    // A small request still fits beside them.
    assert_eq!(small(), 200);
    drop((announced, sent));
    until("the share is free again", &|| large().status != 503);
}
