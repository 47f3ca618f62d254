//! Attacks that hold connections, memory or descriptors. Each has a bound, other clients are served meanwhile, and afterwards the
//! gateway is in its original state.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sealway_testkit::daemon::program;
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::{Connection, Request};
use sealway_testkit::usage;

use crate::BINARY;
use crate::upstreams::until;

const CONFIG: &str = "
listeners: [{ name: main, address: '127.0.0.1:0' }]
routes:
  - { match: { path_prefix: /large/ }, upstream: large }
  - { match: { path_prefix: / }, standalone: echo }
upstreams: { large: { servers: ['http://UPSTREAM'] } }
admin: { address: '127.0.0.1:0', token_file: admin.token }
limits: { header_timeout_ms: 1500, idle_timeout_ms: 1500, body_idle_ms: 1500, connections_max: 2000 }
";
/// The longest wait for a condition that only has to hold at some time.
const PATIENCE: Duration = Duration::from_secs(30);

fn is_served(to: SocketAddr) -> bool {
    Request::post("/x", "hello").send(to).is_ok_and(|answer| answer.status == 200 && answer.body == b"hello")
}

/// Returns a metric of the listener, summed over its other labels.
fn metric(server: &Server, name: &str) -> f64 {
    let asked =
        Request::get("/metrics").header("Authorization", format!("Bearer {}", sealway_testkit::process::ADMIN_TOKEN));
    let text = asked.send(server.admin()).unwrap().text();
    let lines = text.lines().filter(|line| line.starts_with(name) && line.contains("listener=\"main\""));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Returns the resident memory of the server, in KiB.
fn memory_kib(server: &Server) -> u64 {
    usage::status(server.id(), "VmRSS:").unwrap()
}

/// A service whose answers are practically endless.
fn endless() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
                while stream.write_all(&[b'x'; 64 * 1024]).is_ok() {}
            });
        }
    });
    address
}

fn attacked() -> Server {
    let config = CONFIG.replace("UPSTREAM", &endless().to_string());
    Launch::new(BINARY, &config).start().unwrap()
}

/// Runs slowhttptest for some seconds with 200 connections. Other clients are served all the while.
fn slowly(server: &Server, path: &str, mode: &[&str]) {
    let url = format!("http://{}{path}", server.address());
    let mut attack = Command::new(program("slowhttptest").unwrap())
        .args(mode)
        .args(["-c", "200", "-r", "100", "-l", "6", "-p", "3", "-u", &url])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut most = 0.0_f64;
    while attack.try_wait().unwrap().is_none() {
        assert!(is_served(server.address()), "{mode:?}");
        most = most.max(metric(server, "sealway_connections{"));
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(most >= 20.0, "{mode:?}: the attack held {most} connections at most: it did not take place");
    until("the connections of the attack are gone", || metric(server, "sealway_connections{") == 0.0);
    assert!(is_served(server.address()));
}

#[test]
fn heads_bodies_and_readers_that_are_slow_hold_nobody_up() {
    let server = attacked();
    slowly(&server, "/x", &["-H", "-i", "2"]);
    slowly(&server, "/x", &["-B", "-i", "2", "-s", "8192"]);
    let before = memory_kib(&server);
    slowly(&server, "/large/x", &["-X", "-w", "512", "-y", "1024", "-n", "2", "-z", "32"]);
    let grown = memory_kib(&server).saturating_sub(before);
    // 200 connections, each with an answer of up to a billion bytes.
    assert!(grown < 200 * 1024, "{grown} KiB for answers that nobody reads");
}

#[test]
fn a_slow_head_is_cut_by_its_own_deadline_however_it_trickles() {
    let server = attacked();
    let mut connection = Connection::open(server.address()).unwrap();
    connection.set_wait(PATIENCE).unwrap();
    let started = Instant::now();
    connection.write(b"GET /x HTTP/1.1\r\nHost: h\r\nX: ").unwrap();
    let mut writes = 0;
    while started.elapsed() < Duration::from_secs(20) && connection.write(b"x").is_ok() {
        writes += 1;
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(started.elapsed() < Duration::from_secs(20), "{writes} bytes were taken");
    let answer = connection.read_answer("GET");
    assert!(answer.map_or(true, |answer| answer.status == 408));
}

#[test]
fn a_process_without_descriptors_sheds_and_recovers() {
    let config = CONFIG.replace("UPSTREAM", "127.0.0.1:9").replace("1500", "60000");
    let mut server = Launch::new(BINARY, &config).descriptors_max(256).start().unwrap();
    let (mut answered, mut shed) = (Vec::new(), 0);
    for number in 0..1000 {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // The gateway may have closed it already.
        let _ = stream.write_all(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n");
        let mut read = [0; 512];
        match stream.read(&mut read) {
            Ok(len) if read[..len].starts_with(b"HTTP/1.1 200") => answered.push(stream),
            Ok(len) if len == 0 || read[..len].starts_with(b"HTTP/1.1 503") => shed += 1,
            Ok(len) => panic!("{number}: {}", String::from_utf8_lossy(&read[..len])),
            Err(err) if err.kind() == std::io::ErrorKind::ConnectionReset => shed += 1,
            Err(err) => panic!("{number} hangs: {err}"),
        }
    }
    assert!(answered.len() > 100 && shed > 300, "{} answered, {shed} shed", answered.len());
    let warnings = server.log().iter().filter(|line| line.contains("no descriptors left")).count();
    assert!((1..100).contains(&warnings), "{warnings} warnings for {shed} connections");
    drop(answered);
    until("all is as before", || is_served(server.address()));
    assert!(metric(&server, "sealway_connections_refused_total") >= 1.0);
    assert!(server.stop().unwrap().success());
}

#[test]
fn one_address_has_its_share_of_connections_and_no_more() {
    let config = CONFIG
        .replace("UPSTREAM", "127.0.0.1:9")
        .replace("connections_max: 2000", "connections_max: 2000, connections_per_address_max: 3");
    let server = Launch::new(BINARY, &config.replace("1500", "60000")).start().unwrap();
    let held: Vec<_> = (0..3).map(|_| Connection::open(server.address()).unwrap()).collect();
    let mut over = Connection::open(server.address()).unwrap();
    let answer = over.read_answer("GET").unwrap();
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    let url = format!("http://{}/x", server.address());
    let other = Command::new("curl").args(["-s", "-S", "--interface", "127.0.0.2", "-d", "hello", &url]).output();
    assert_eq!(String::from_utf8_lossy(&other.unwrap().stdout), "hello", "another address");
    drop(held);
    until("its places are free again", || is_served(server.address()));
}

#[test]
fn a_unix_socket_is_served_and_gone_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.sock");
    // A socket left by a process that was killed.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let config = CONFIG
        .replace("UPSTREAM", "127.0.0.1:9")
        .replace("listeners: [", &format!("listeners: [{{ name: local, address: 'unix:{}' }}, ", path.display()));
    let mut server = Launch::new(BINARY, &config).start().unwrap();
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nhello"), "{answer}");
    assert!(server.stop().unwrap().success());
    assert!(!path.exists());
}
