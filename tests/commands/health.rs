//! `sealway health`, as the health check of a container runs it.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use sealway_testkit::process::Launch;

use crate::BINARY;
use crate::command_line::{run, text};

const CONFIG: &str = "
listeners: [{ address: '127.0.0.1:0' }]
routes: [{ match: { path: [/health, /ready] }, sessions: {} }]
limits: { stop_delay_ms: 60000 }
";

/// Runs the command and returns its exit code and what it printed on both outputs.
fn health(url: &str) -> (Option<i32>, String) {
    let output = run(&["health", url, "--timeout-ms", "1500"]);
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

/// Serves one connection: reads the request and answers with these bytes.
fn answering(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/ready", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        let _ = peer.read(&mut [0; 1024]);
        let _ = peer.write_all(bytes);
        // Open until the client leaves.
        let _ = peer.read(&mut [0; 1024]);
    });
    url
}

#[test]
fn health_succeeds_while_a_gateway_is_ready_and_fails_while_it_stops() {
    let server = Launch::new(BINARY, CONFIG).start().unwrap();
    let ready = format!("http://{}/ready", server.address());
    assert_eq!(health(&ready), (Some(0), "200\n".into()));
    assert_eq!(health(&format!("http://{}/nothing", server.address())).0, Some(1));
    server.terminate().unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    let (code, said) = loop {
        let (code, said) = health(&ready);
        if code != Some(0) || Instant::now() > end {
            break (code, said);
        }
    };
    assert!(code == Some(1) && said.contains("/ready answered 503") && said.contains("stopping"), "{code:?}: {said}");
    assert_eq!(health(&format!("http://{}/health", server.address())).0, Some(0));
}

#[test]
fn health_ends_in_time_and_says_why_it_failed() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (url, code, reason) in [
        (format!("http://{closed}/ready"), 1, "refused"),
        (answering(b""), 1, "within 1500 ms"),
        (answering(b"SSH-2.0-OpenSSH_9.2\r\n"), 1, "in HTTP/1"),
        (answering(b"HTTP/1.1 500 Oh\r\n\r\nno disk"), 1, "answered 500 no disk"),
        (answering(b"HTTP/1.1 204 No Content\r\n\r\n"), 0, "204"),
        ("https://127.0.0.1:1/ready".into(), 2, "http://HOST:PORT/PATH"),
        ("127.0.0.1:3000".into(), 2, "http://HOST:PORT/PATH"),
    ] {
        let begin = Instant::now();
        let (ended, said) = health(&url);
        assert_eq!(ended, Some(code), "{url}: {said}");
        assert!(said.contains(reason), "{url}: {said}");
        assert!(begin.elapsed() < Duration::from_secs(5), "{url}: {:?}", begin.elapsed());
    }
}
