//! Eleven faults of Lite Gateway, by their number in its list. The gateway, started with the same environment, must have none of
//! them. All variants of bodies, heads and attacks are in http1_corpus.rs, http_attacks.rs and upstreams.rs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use sealway_testkit::daemon::free_port;
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::{Connection, Request};
use sealway_testkit::upstream::{RequestHead, Upstream, answer};

use crate::BINARY;

/// The listener without TLS in front of an upstream, without a delay.
fn in_front_of(upstream: SocketAddr) -> (Server, SocketAddr) {
    let server = launch(&format!("http://{upstream}")).start().unwrap();
    let address = (std::net::Ipv4Addr::LOCALHOST, server.address().port()).into();
    (server, address)
}

fn launch(upstream: &str) -> Launch<'static> {
    let variables = [
        ("EnableHttps", "false"),
        ("EnableMtls", "false"),
        ("SleepDurationMs", "0"),
        ("UpstreamUrl", upstream),
        ("HttpPort", &free_port().unwrap().to_string()),
    ];
    let launch = Launch::litegateway(BINARY);
    variables.iter().fold(launch, |launch, (name, value)| launch.env(&format!("LITEGATEWAY_Proxy__{name}"), value))
}

/// Sends bytes and reads until the connection ends.
fn exchange(to: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(bytes).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    String::from_utf8_lossy(&all).into_owned()
}

fn ok(_: &RequestHead, body: &[u8]) -> Vec<u8> {
    answer("200 OK", &[], body)
}

#[test]
fn fault_1_a_request_with_both_lengths_is_400_and_reaches_nobody() {
    let upstream = Upstream::answering(ok).unwrap();
    let (_server, address) = in_front_of(upstream.address);
    let smuggled = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG";
    let text = exchange(address, smuggled);
    assert!(text.starts_with("HTTP/1.1 400 "), "{text}");
    assert_eq!(text.matches("HTTP/1.1").count(), 1, "{text}");
    assert!(upstream.is_untouched());
}

#[test]
fn fault_2_a_path_arrives_as_it_was_sent() {
    let upstream = Upstream::answering(ok).unwrap();
    let (_server, address) = in_front_of(upstream.address);
    for path in ["/head/a%2fb/../c/./d//e", "/%7e?x=%20&y=/../", "//", "/a;b=c"] {
        Request::get(path).send(address).unwrap();
        assert_eq!(upstream.next().unwrap().0.method_and_target(), ("GET", path));
    }
}

#[test]
fn fault_3_neither_body_is_held_back_until_it_is_whole() {
    // The service answers after the first byte, before the second was sent.
    let upstream = Upstream::serve(|_, connection| {
        let first = connection.read_chunk()?;
        connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n")?;
        connection.write(&first)?;
        connection.write(b"\r\n")?;
        let second = connection.read_chunk()?;
        connection.write(b"1\r\n")?;
        connection.write(&second)?;
        connection.write(b"\r\n0\r\n\r\n")?;
        Ok([first, second].concat())
    })
    .unwrap();
    let (_server, address) = in_front_of(upstream.address);
    let mut connection = Connection::open(address).unwrap();
    connection.write(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n").unwrap();
    let (line, _) = connection.read_head().unwrap();
    assert!(line.starts_with("HTTP/1.1 200 "), "{line}");
    assert_eq!(connection.read_chunk().unwrap(), b"a");
    connection.write(b"1\r\nb\r\n0\r\n\r\n").unwrap();
    assert_eq!(connection.read_chunk().unwrap(), b"b");
    assert_eq!(upstream.next().unwrap().1, b"ab");
}

#[test]
fn fault_4_head_has_the_length_of_the_upstreams_answer() {
    let upstream = Upstream::answering(|_, _| b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n".to_vec()).unwrap();
    let (_server, address) = in_front_of(upstream.address);
    let mut connection = Connection::open(address).unwrap();
    connection.write(&Request::new("HEAD", "/").header("Connection", "keep-alive").bytes()).unwrap();
    let head = connection.read_answer("HEAD").unwrap();
    assert_eq!((head.status, head.header("content-length")), (200, Some("1234")));
}

#[test]
fn fault_5_the_process_outlives_the_end_of_its_descriptors() {
    let upstream = Upstream::answering(ok).unwrap();
    let server = launch(&format!("http://{}", upstream.address)).descriptors_max(64).start().unwrap();
    let address: SocketAddr = (std::net::Ipv4Addr::LOCALHOST, server.address().port()).into();
    let held: Vec<_> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
    // Long enough for each connection to be accepted or rejected.
    std::thread::sleep(Duration::from_millis(500));
    drop(held);
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match Request::get("/").send(address) {
            Ok(answer) if answer.status == 200 => break,
            other => assert!(Instant::now() < until, "it does not recover: {other:?}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn fault_6_neither_a_slow_head_nor_a_silent_upstream_holds_a_connection_for_ever() {
    let upstream = Upstream::serve(|_, _| {
        std::thread::sleep(Duration::from_secs(3600));
        Ok(Vec::new())
    })
    .unwrap();
    let server = launch(&format!("http://{}", upstream.address))
        .env("SEALWAY_LIMITS__HEADER_TIMEOUT_MS", "500")
        .env("SEALWAY_UPSTREAMS__UPSTREAM__TIMEOUTS__RESPONSE_MS", "700")
        .start()
        .unwrap();
    let address = (std::net::Ipv4Addr::LOCALHOST, server.address().port()).into();
    let begun = Instant::now();
    let text = exchange(address, b"GET / HTTP/1.1\r\nHost: h\r\n");
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 408 "), "{text}");
    assert_eq!(Request::get("/hang").send(address).unwrap().status, 504);
}

#[test]
fn fault_7_the_upstream_is_shown_our_certificate_and_verified_by_our_authority() {
    let certificates = tempfile::tempdir().unwrap();
    let stranger = tempfile::tempdir().unwrap();
    for folder in [&certificates, &stranger] {
        let made = Command::new(BINARY).arg("certs").arg(folder.path()).arg("--force").output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    let file = |folder: &tempfile::TempDir, name: &str| folder.path().join(name).display().to_string();
    // An upstream that requires certificates: another Sealway gateway.
    let mtls = Launch::litegateway(BINARY)
        .env("LITEGATEWAY_Proxy__EnableHttp", "false")
        .env("LITEGATEWAY_Proxy__EnableHttps", "false")
        .env("LITEGATEWAY_Proxy__MtlsPort", &free_port().unwrap().to_string())
        .env("LITEGATEWAY_Proxy__SleepDurationMs", "0")
        .env("LITEGATEWAY_Proxy__ServerCertificatePath", &file(&certificates, "server.pfx"))
        .env("LITEGATEWAY_Proxy__TrustedCaPath", &file(&certificates, "ca.cert.pem"))
        .start()
        .unwrap();
    let url = format!("https://localhost:{}", mtls.address().port());
    let through = |own: &tempfile::TempDir, trusted: &tempfile::TempDir| {
        let server = launch(&url)
            .env("LITEGATEWAY_Proxy__OutboundClientCertificatePath", &file(own, "client.pfx"))
            .env("LITEGATEWAY_Proxy__TrustedCaPath", &file(trusted, "ca.cert.pem"))
            .start()
            .unwrap();
        Request::get("/").send((std::net::Ipv4Addr::LOCALHOST, server.address().port()).into()).unwrap().status
    };
    assert_eq!(through(&certificates, &certificates), 200);
    assert_eq!(through(&stranger, &certificates), 502, "a certificate of another authority was taken");
    assert_eq!(through(&certificates, &stranger), 502, "a server of another authority was trusted");
}

#[test]
fn fault_8_neither_nominated_nor_spoofed_headers_pass() {
    let upstream = Upstream::answering(ok).unwrap();
    let server = launch(&format!("http://{}", upstream.address)).env("SEALWAY_CUSTOMER_ID", "plant-7").start().unwrap();
    let address = (std::net::Ipv4Addr::LOCALHOST, server.address().port()).into();
    Request::get("/")
        .header("Connection", "close, X-Hop, HTTP2-Settings")
        .header("X-Hop", "1")
        .header("HTTP2-Settings", "AAMAAABkAARAAAAAAAIAAAAA")
        .header("Upgrade", "h2c")
        .header("X-Forwarded-For", "6.6.6.6")
        .header("Forwarded", "for=6.6.6.6")
        .header("X-Customer-Id", "somebody-else")
        .header("X-Kept", "1")
        .send(address)
        .unwrap();
    let (received, _) = upstream.next().unwrap();
    for name in ["x-hop", "http2-settings", "upgrade", "x-forwarded-for", "forwarded"] {
        assert_eq!(received.header(name), None, "{name}");
    }
    let all: Vec<_> = received.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("x-customer-id")).collect();
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!((received.header("x-customer-id"), received.header("x-kept")), (Some("plant-7"), Some("1")));
}

#[test]
fn fault_9_no_host_or_two_are_400_and_a_websocket_is_opened() {
    let upstream = Upstream::serve(|received, connection| {
        assert_eq!(received.header("upgrade"), Some("websocket"));
        connection.write(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n",
        )?;
        let frame = connection.read_exactly(4)?;
        connection.write(&frame)?;
        Ok(frame)
    })
    .unwrap();
    let (_server, address) = in_front_of(upstream.address);
    for heads in ["GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"] {
        assert!(exchange(address, heads.as_bytes()).starts_with("HTTP/1.1 400 "), "{heads}");
    }
    assert!(upstream.is_untouched());
    let mut connection = Connection::open(address).unwrap();
    let open = Request::get("/chat")
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
    // The first frame follows the head immediately.
    connection.write(&[open.bytes(), b"ping".to_vec()].concat()).unwrap();
    let (line, headers) = connection.read_head().unwrap();
    assert!(line.starts_with("HTTP/1.1 101 "), "{line}");
    assert!(headers.iter().any(|(name, value)| name.eq_ignore_ascii_case("upgrade") && value == "websocket"));
    assert_eq!(connection.read_exactly(4).unwrap(), b"ping");
}

#[test]
fn fault_10_connect_is_answered_and_trailers_arrive() {
    let upstream = Upstream::serve(|_, connection| {
        let mut seen = Vec::new();
        while !seen.to_ascii_lowercase().ends_with(b"\r\nx-sum: 6\r\n\r\n") {
            seen.extend(connection.read_exactly(1)?);
        }
        connection.write(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n",
        )?;
        Ok(seen)
    })
    .unwrap();
    let (_server, address) = in_front_of(upstream.address);
    let text = exchange(address, b"CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\nConnection: close\r\n\r\n");
    assert!(text.starts_with("HTTP/1.1 405 "), "{text}");
    let text = exchange(
        address,
        b"POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 6\r\n\r\n",
    );
    assert!(text.to_ascii_lowercase().contains("\r\n0\r\nx-sum: 7\r\n\r\n"), "{text}");
    assert!(upstream.next().is_ok());
}

#[test]
fn fault_11_sigterm_drains_certificates_reload_and_an_address_can_be_chosen() {
    let upstream = Upstream::answering(|_, _| {
        std::thread::sleep(Duration::from_millis(700));
        answer("200 OK", &[], b"late")
    })
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let certs = |arguments: &[&str]| {
        let made = Command::new(BINARY).arg("certs").args(arguments).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    let path = folder.path().display().to_string();
    certs(&[&path, "--force"]);
    // The configuration file has the address, which the environment lacks.
    let config = format!(
        "
listeners:
  - {{ address: '127.0.0.1:0' }}
  - {{ address: '127.0.0.1:0', tls: {{ cert: '{path}/server.cert.pem', key: '{path}/server.key.pem' }} }}
routes: [{{ match: {{}}, upstream: service }}]
upstreams: {{ service: {{ servers: ['http://{}'] }} }}
",
        upstream.address
    );
    let mut server = Launch::new(BINARY, &config).start().unwrap();
    assert!(server.addresses.iter().all(|address| address.ip().is_loopback()));
    let before = presented(server.addresses[1], folder.path());
    certs(&["rotate", &path]);
    let until = Instant::now() + Duration::from_secs(20);
    while presented(server.addresses[1], folder.path()) == before {
        assert!(Instant::now() < until, "the new certificate is not presented");
        std::thread::sleep(Duration::from_millis(100));
    }
    let address = server.address();
    let asking = std::thread::spawn(move || Request::get("/").send(address));
    std::thread::sleep(Duration::from_millis(200));
    server.terminate().unwrap();
    let answer = asking.join().unwrap().unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (200, "late"));
    assert!(server.wait().unwrap().success());
}

/// Returns the serial number of the certificate that a listener presents.
fn presented(address: SocketAddr, folder: &Path) -> String {
    let script = format!(
        "openssl s_client -connect {address} -servername localhost -CAfile {}/ca.cert.pem -verify_return_error </dev/null \
         2>/dev/null | openssl x509 -noout -serial",
        folder.display()
    );
    let done = Command::new("sh").args(["-c", &script]).output().unwrap();
    let serial = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(serial.starts_with("serial="), "{serial:?} {}", String::from_utf8_lossy(&done.stderr));
    serial
}
