//! A small HTTP/1.1 server within the test's process: a thread for each connection, and counts of its own.
#![allow(dead_code, clippy::unwrap_used, reason = "part of tests, each of which uses its own part")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sealway_load::plan::{Arrival, Connections, Plan, Protocol, Request, Steps, Stop, Target, Timeouts};

/// What the server saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) connections: AtomicU64,
    pub(crate) requests: AtomicU64,
}

/// Accepts for as long as the process lives. `answer` gets the number of the request, from 0, and gives the answer's bytes
/// and whether the connection stays open.
pub(crate) fn start(answer: impl Fn(u64) -> (Vec<u8>, bool) + Send + Sync + 'static) -> (SocketAddr, Arc<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::new(Seen::default());
    let (told, answer) = (seen.clone(), Arc::new(answer));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            told.connections.fetch_add(1, Ordering::SeqCst);
            let (told, answer) = (told.clone(), answer.clone());
            std::thread::spawn(move || serve(stream, &told, &*answer));
        }
    });
    (address, seen)
}

fn serve(mut stream: TcpStream, seen: &Seen, answer: &dyn Fn(u64) -> (Vec<u8>, bool)) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        while let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            bytes.drain(..end + 4);
            let (answer, keeps) = answer(seen.requests.fetch_add(1, Ordering::SeqCst));
            if stream.write_all(&answer).is_err() || !keeps {
                return;
            }
        }
        match stream.read(&mut buffer) {
            Ok(read @ 1..) => bytes.extend_from_slice(&buffer[..read]),
            _ => return,
        }
    }
}

/// A whole answer with this status and body.
pub(crate) fn answer(status: u16, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} Said\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// `GET /` there, by two workers on two threads, without an end.
pub(crate) fn plan(address: SocketAddr) -> Plan {
    Plan {
        label: "test".into(),
        target: Target {
            url: format!("http://{address}/").parse().unwrap(),
            addresses: Vec::new(),
            protocol: Protocol::Http1,
            tls: None,
            sealed: None,
            broker: None,
            channels: None,
        },
        request: Request {
            method: http::Method::GET,
            path: "/".into(),
            headers: Vec::new(),
            body: None,
            counter_start: 0,
        },
        arrival: Arrival::Closed { concurrency: Steps::constant(2.0), ramp_share: 0.0, loops: 0 },
        stop: Stop { duration: None, requests: None },
        warm_up: Duration::ZERO,
        connections: Connections { reuse: true, streams: 1, sources: Vec::new(), close_header: false },
        timeouts: Timeouts { connect: Duration::from_secs(5), request: Duration::from_secs(5) },
        assertions: Vec::new(),
        think: None,
        threads: 2,
        seed: 1,
    }
}
