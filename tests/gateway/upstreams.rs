//! Several servers under one name: the distribution of requests, the requests that the gateway retries or never retries, and
//! every bound.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sealway_testkit::process::{ADMIN_TOKEN, Launch, Server};
use sealway_testkit::raw_http::{Answer, Connection, Request};
use sealway_testkit::upstream::{Upstream, answer};

use crate::BINARY;

const WAIT: Duration = Duration::from_secs(30);

/// A gateway in front of one upstream with these settings.
fn gateway(settings: &str) -> Server {
    let config = format!(
        "
listeners: [{{ address: '127.0.0.1:0' }}]
admin: {{ address: '127.0.0.1:0', token_file: admin.token }}
routes: [{{ match: {{}}, upstream: service }}]
upstreams: {{ service: {{ {settings} }} }}
"
    );
    Launch::new(BINARY, &config).start().unwrap()
}

fn servers(addresses: &[SocketAddr]) -> String {
    let list: Vec<String> = addresses.iter().map(|address| format!("'http://{address}'")).collect();
    format!("servers: [{}]", list.join(", "))
}

/// Returns an address on which no process listens.
fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Returns the sum of a metric over all label values that contain `label`.
fn metric(server: &Server, name: &str, label: &str) -> f64 {
    let request = Request::get("/metrics").header("Authorization", format!("Bearer {ADMIN_TOKEN}"));
    let text = request.send(server.admin()).unwrap().text();
    let lines = text.lines().filter(|line| line.starts_with(&format!("{name}{{")) && line.contains(label));
    lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
}

/// Waits until the condition holds.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + WAIT;
    while !is_so() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A server that returns its name, and keeps its connections open.
fn named(name: &'static str) -> Upstream {
    Upstream::serve(move |first, connection| {
        let mut received = Some(first.headers.clone());
        while let Some(headers) = received {
            connection.read_body(&headers, false)?;
            connection.write(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len()).as_bytes())?;
            received = connection.read_head().ok().map(|(_, headers)| headers);
        }
        Ok(Vec::new())
    })
    .unwrap()
}

/// Returns how many of `count` requests each server answered.
fn spread(server: &Server, count: usize) -> HashMap<String, usize> {
    let mut spread = HashMap::new();
    for _ in 0..count {
        *spread.entry(Request::get("/").send(server.address()).unwrap().text()).or_default() += 1;
    }
    spread
}

#[test]
fn requests_go_round_all_servers() {
    let all = [named("a"), named("b"), named("c")];
    let server = gateway(&servers(&all.each_ref().map(|upstream| upstream.address)));
    let spread = spread(&server, 30);
    assert_eq!(spread, ["a", "b", "c"].map(|name| (name.to_owned(), 10)).into());
    assert_eq!(metric(&server, "sealway_upstream_requests_total", "service"), 30.0);
}

#[test]
fn the_server_with_fewer_requests_is_asked() {
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let slow = Upstream::serve(move |_, connection| {
        let _ = released.lock().unwrap().recv_timeout(WAIT);
        connection.write(&answer("200 OK", &[], b"slow"))?;
        Ok(Vec::new())
    })
    .unwrap();
    let fast = named("fast");
    let server = gateway(&format!("{}, balance: least_requests", servers(&[slow.address, fast.address])));
    // The first request goes to the first server, which holds it; no other request waits for it.
    let mut held = Connection::open(server.address()).unwrap();
    let mut before = 0;
    loop {
        held.write(&Request::get("/").header("Connection", "keep-alive").bytes()).unwrap();
        held.set_wait(Duration::from_millis(700)).unwrap();
        if held.read_answer("GET").is_err() {
            break;
        }
        before += 1;
        assert!(before < 5, "the slow server is never asked");
    }
    assert_eq!(spread(&server, 20), [("fast".to_owned(), 20)].into());
    release.send(()).unwrap();
}

#[test]
fn a_server_that_is_not_well_is_taken_out_and_comes_back() {
    let is_well = Arc::new(AtomicBool::new(true));
    let (asked, wellness) = (Arc::new(AtomicUsize::new(0)), is_well.clone());
    let sick = Upstream::answering(move |received, _| {
        if received.method_and_target().1 != "/health" {
            return answer("200 OK", &[], b"sick");
        }
        asked.fetch_add(1, Ordering::Relaxed);
        if wellness.load(Ordering::Relaxed) {
            answer("204 No Content", &[], b"")
        } else {
            answer("503 Busy", &[], b"x")
        }
    })
    .unwrap();
    let well = named("well");
    let health = "health: { path: /health, interval_ms: 50, timeout_ms: 5000, healthy: 2, unhealthy: 2 }";
    let server = gateway(&format!("{}, {health}", servers(&[sick.address, well.address])));
    assert_eq!(spread(&server, 10).len(), 2);
    is_well.store(false, Ordering::Relaxed);
    let up = |server: &Server| metric(server, "sealway_upstream_up", &sick.address.to_string());
    until("taken out", || spread(&server, 10) == [("well".to_owned(), 10)].into());
    until("the metric says so", || up(&server) == 0.0);
    is_well.store(true, Ordering::Relaxed);
    until("back", || spread(&server, 10).len() == 2);
    until("the metric says so", || up(&server) == 1.0);
}

#[test]
fn a_server_that_cannot_be_reached_is_passed_over_and_no_request_lost() {
    let live = named("live");
    let dead = nobody();
    let server = gateway(&servers(&[dead, live.address]));
    for count in 0..40 {
        let request = if count % 2 == 0 { Request::get("/") } else { Request::post("/", "nothing of it was sent") };
        assert_eq!(request.send(server.address()).unwrap().text(), "live");
    }
    let tried = metric(&server, "sealway_upstream_connect_failures_total", &dead.to_string());
    assert!((1.0..20.0).contains(&tried), "asked every time: {tried}");
}

/// A server that answers the first request of a connection and closes on the second after reading it. It counts the requests that
/// it read, by target.
fn closing() -> (Upstream, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = seen.clone();
    let upstream = Upstream::serve(move |first, connection| {
        note.lock().unwrap().push(first.line.clone());
        connection.read_body(&first.headers, false)?;
        if first.method_and_target().1.starts_with("/never") {
            return Ok(Vec::new());
        }
        connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
        let (line, headers) = connection.read_head()?;
        connection.read_body(&headers, false)?;
        note.lock().unwrap().push(line);
        Ok(Vec::new())
    });
    (upstream.unwrap(), seen)
}

#[test]
fn a_request_that_may_have_been_served_is_not_retried() {
    let (upstream, seen) = closing();
    let server = gateway(&servers(&[upstream.address]));
    let count = |line: &str| seen.lock().unwrap().iter().filter(|seen| seen.starts_with(line)).count();
    let send = |request: Request| request.send(server.address()).unwrap().status;
    let warm = || assert_eq!(send(Request::get("/warm")), 200);
    // On a new connection, a missing answer is an error.
    for (method, body) in [("GET", ""), ("PUT", "x"), ("POST", "x"), ("POST", "")] {
        let target = format!("/never/{method}{body}");
        assert_eq!(send(Request::new(method, &target).body(body)), 502);
        assert_eq!(count(&format!("{method} {target} ")), 1);
    }
    // On a reused connection, the server may have closed it before it read the request.
    for (method, body, status, times) in [
        ("GET", "", 200, 2),
        ("DELETE", "", 200, 2),
        ("PUT", "x", 502, 1),
        ("POST", "x", 502, 1),
        ("POST", "", 502, 1),
        ("PATCH", "", 502, 1),
    ] {
        warm();
        let target = format!("/again/{method}{body}");
        let got = send(Request::new(method, &target).body(body));
        assert_eq!((got, count(&format!("{method} {target} "))), (status, times), "{method} {body:?}");
        if status == 200 {
            // That connection has had one answer: the next request ends it.
            assert_eq!(send(Request::post("/end", "x")), 502);
        }
    }
}

#[test]
fn a_connection_that_the_server_closed_is_not_used_again() {
    let upstream = Upstream::serve(|first, connection| {
        connection.read_body(&first.headers, false)?;
        connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
        // Closed without an answer.
        Ok(Vec::new())
    })
    .unwrap();
    let talkative = Upstream::serve(|first, connection| {
        connection.read_body(&first.headers, false)?;
        connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
        std::thread::sleep(Duration::from_millis(50));
        connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")?;
        connection.set_wait(WAIT)?;
        let _ = connection.read_head();
        Ok(Vec::new())
    })
    .unwrap();
    for upstream in [upstream, talkative] {
        let server = gateway(&servers(&[upstream.address]));
        for _ in 0..10 {
            let answer = Request::post("/", "x").send(server.address()).unwrap();
            assert_eq!((answer.status, answer.text().as_str()), (200, "ok"));
            std::thread::sleep(Duration::from_millis(150));
        }
    }
}

#[test]
fn connections_are_used_again_and_counted() {
    let upstream = named("x");
    let server = gateway(&servers(&[upstream.address]));
    assert_eq!(spread(&server, 50).len(), 1);
    assert_eq!(metric(&server, "sealway_upstream_connects_total", "service"), 1.0);
    assert_eq!(metric(&server, "sealway_upstream_requests_total", "service"), 50.0);
}

#[test]
fn requests_wait_for_a_connection_within_a_bound_and_the_rest_is_shed() {
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let count = Arc::new(AtomicUsize::new(0));
    let seen = count.clone();
    let upstream = Upstream::serve(move |_, connection| {
        seen.fetch_add(1, Ordering::SeqCst);
        released.lock().unwrap().recv_timeout(WAIT)?;
        connection.write(&answer("200 OK", &[], b"done"))?;
        Ok(Vec::new())
    })
    .unwrap();
    let bounds = "connections_max: 1, queue_max: 1, timeouts: { connect_ms: 5000 }";
    let server = gateway(&format!("{}, {bounds}", servers(&[upstream.address])));
    let address = server.address();
    let ask = move || std::thread::spawn(move || Request::get("/").send(address).unwrap());
    let first = ask();
    until("the first is with the server", || count.load(Ordering::SeqCst) == 1);
    let second = ask();
    let shed = |answer: &Answer| answer.status == 503 && answer.header("retry-after") == Some("1");
    // While the second request waits, there is no place for a third.
    until("the second waits", || metric(&server, "sealway_upstream_in_flight", "service") == 2.0);
    assert!(shed(&Request::get("/").send(address).unwrap()));
    release.send(()).unwrap();
    assert_eq!(first.join().unwrap().text(), "done");
    release.send(()).unwrap();
    assert_eq!(second.join().unwrap().text(), "done");
    // A request that waits too long is rejected too.
    let third = ask();
    until("the third is with the server", || count.load(Ordering::SeqCst) == 3);
    assert!(shed(&Request::get("/").send(address).unwrap()));
    release.send(()).unwrap();
    assert_eq!(third.join().unwrap().text(), "done");
}

#[test]
fn a_server_that_does_not_take_connections_is_504() {
    // A full backlog: the kernel lets further connections hang.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    socket.listen(1).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let mut held = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
        held.push(stream);
        assert!(held.len() < 64, "the backlog never fills");
    }
    let server = gateway(&format!("{}, timeouts: {{ connect_ms: 300 }}", servers(&[address])));
    Request::get("/").send(server.address()).unwrap().assert_error("connect", 504, "SERVICE_UNAVAILABLE");
    // Another server answers it nevertheless.
    let live = named("live");
    let settings = format!("{}, timeouts: {{ connect_ms: 300 }}", servers(&[address, live.address]));
    assert_eq!(spread(&gateway(&settings), 4), [("live".to_owned(), 4)].into());
}

#[test]
fn a_long_upload_is_no_slow_answer() {
    let upstream = Upstream::answering(|_, body| answer("200 OK", &[], body.len().to_string().as_bytes())).unwrap();
    let server = gateway(&format!("{}, timeouts: {{ response_ms: 600 }}", servers(&[upstream.address])));
    let mut connection = Connection::open(server.address()).unwrap();
    connection.write(&Request::post("/", "").chunked(1).head_bytes()).unwrap();
    for _ in 0..10 {
        connection.write_chunk(b"part").unwrap();
        std::thread::sleep(Duration::from_millis(150));
    }
    connection.write_chunk(b"").unwrap();
    assert_eq!(connection.read_answer("POST").unwrap().text(), "40");
}

#[test]
fn an_answer_that_can_be_read_in_two_ways_reaches_nobody() {
    let faulty: &[&str] = &[
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nSECRET",
        "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nContent-Length: 7\r\n\r\nSECRET",
        "HTTP/1.1 200 OK\r\nContent-Length: 6, 6\r\n\r\nSECRET",
        "HTTP/1.1 200 OK\r\nContent-Length: +6\r\n\r\nSECRET",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\nSECRET",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\nSECRET",
        "HTTP/1.1 200 OK\r\nX-A: 1\r\n SECRET\r\nContent-Length: 6\r\n\r\nSECRET",
        "HTTP/1.1 200 OK\r\nX-A : SECRET\r\nContent-Length: 6\r\n\r\nSECRET",
        "HTTP/1.1 200 OK\nContent-Length: 6\n\nSECRET",
        "HTTP/1.1 2000 OK\r\nContent-Length: 6\r\n\r\nSECRET",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nSECRET",
        "HTTP/2.0 200 OK\r\nContent-Length: 6\r\n\r\nSECRET",
        "SSH-2.0-SECRET\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nX-A: SECRET",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nSECRET",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6 \r\nSECRET\r\n0\r\n\r\n",
    ];
    let texts = faulty.to_vec();
    let upstream = Upstream::answering(move |received, _| {
        let index: usize = received.method_and_target().1.trim_start_matches('/').parse().unwrap();
        texts[index].as_bytes().to_vec()
    })
    .unwrap();
    let server = gateway(&servers(&[upstream.address]));
    for (index, text) in faulty.iter().enumerate() {
        let answer = Request::get(&format!("/{index}")).send(server.address()).unwrap();
        answer.assert_error(text, 502, "SERVICE_UNAVAILABLE");
        assert!(!format!("{answer:?}").contains("SECRET"), "{text}");
    }
}

#[test]
fn an_answer_whose_chunks_break_off_or_are_none_is_no_whole_answer() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let parts =
        ["3\r\nabc\r\n", "3\r\nab", "3\r\nabc\r\nzz\r\n", "3\r\nabcd\r\n0\r\n\r\n", "3\r\nabc\r\n0\r\nX: 1\n\r\n"];
    let upstream = Upstream::answering(move |received, _| {
        let index: usize = received.method_and_target().1.trim_start_matches('/').parse().unwrap();
        format!("{head}{}", parts[index]).into_bytes()
    })
    .unwrap();
    let server = gateway(&servers(&[upstream.address]));
    for (index, part) in parts.iter().enumerate() {
        let answer = Request::get(&format!("/{index}")).send(server.address());
        assert!(answer.as_ref().map_or(true, |answer| answer.status == 502), "{part:?}: {answer:?}");
    }
}

#[test]
fn a_server_on_a_unix_socket_is_asked_too() {
    use std::io::{Read, Write};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("service.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut seen = [0; 4096];
            let len = stream.read(&mut seen).unwrap_or_default();
            let host = String::from_utf8_lossy(&seen[..len]).to_lowercase().contains("\r\nhost: localhost\r\n");
            let body = if host { "unix" } else { "no host" };
            let _ = stream.write_all(&answer("200 OK", &[], body.as_bytes()));
        }
    });
    let server = gateway(&format!("servers: ['unix:{}']", path.display()));
    assert_eq!(Request::get("/").send(server.address()).unwrap().text(), "unix");
}

#[test]
fn settings_that_make_no_sense_are_named() {
    for (settings, named) in [
        ("servers: []", "upstreams.service.servers"),
        ("servers: ['ftp://x']", "upstreams.service.servers[0]"),
        ("servers: ['http://x/path']", "upstreams.service.servers[0]"),
        ("servers: ['demo:', 'http://x']", "upstreams.service.servers[0]"),
        ("servers: ['http://x', 'http://x']", "upstreams.service.servers[1]"),
        ("servers: ['http://x'], connections_max: 0", "upstreams.service.connections_max"),
        ("servers: ['http://x'], timeouts: { connect_ms: 0 }", "upstreams.service.timeouts.connect_ms"),
        ("servers: ['http://x'], health: { path: health }", "upstreams.service.health.path"),
        ("servers: ['http://x'], health: { path: /h, interval_ms: 1 }", "upstreams.service.health.interval_ms"),
        ("servers: ['http://x'], tls: { ca: none.pem }", "upstreams.service.tls"),
        ("servers: ['https://x'], tls: { ca: none.pem }", "upstreams.service.tls.ca"),
        ("servers: ['https://x'], tls: { key: none.pem }", "upstreams.service.tls.cert"),
        ("servers: ['http://x'], balance: random", "random"),
    ] {
        let config = format!(
            "listeners: [{{ address: '127.0.0.1:0' }}]\nroutes: [{{ match: {{}}, upstream: service }}]\nupstreams: {{ service: {{ {settings} }} }}\n"
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("serve.yaml");
        std::fs::write(&file, config).unwrap();
        let done = std::process::Command::new(BINARY).arg("serve").arg("--config").arg(&file).output().unwrap();
        let refused = String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success() && refused.contains(named), "{settings}: {refused}");
    }
}
