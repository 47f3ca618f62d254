//! Small HTTP/1.1 server in the test's process, with a thread for each connection and counters.
#![allow(dead_code, clippy::unwrap_used, reason = "part of tests, each of which uses its own part")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sealway_load::plan::{Arrival, Plan, Steps, Timeouts};

/// Counters of the server.
#[derive(Debug, Default)]
pub(crate) struct ServerCounts {
    pub(crate) connections: AtomicU64,
    pub(crate) requests: AtomicU64,
}

/// Starts a server that accepts for as long as the process lives. `answer` gets the number of the request, from 0, and
/// returns the answer's bytes and whether the connection stays open.
pub(crate) fn start(
    answer: impl Fn(u64) -> (Vec<u8>, bool) + Send + Sync + 'static,
) -> (SocketAddr, Arc<ServerCounts>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::new(ServerCounts::default());
    let (shown, answer) = (seen.clone(), Arc::new(answer));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            shown.connections.fetch_add(1, Ordering::SeqCst);
            let (shown, answer) = (shown.clone(), answer.clone());
            std::thread::spawn(move || serve(stream, &shown, &*answer));
        }
    });
    (address, seen)
}

fn serve(mut stream: TcpStream, seen: &ServerCounts, answer: &dyn Fn(u64) -> (Vec<u8>, bool)) {
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

/// Complete answer with this status and body.
pub(crate) fn answer(status: u16, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} Said\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Plan of `GET /` with two workers on two threads, without an end.
pub(crate) fn plan(address: SocketAddr) -> Plan {
    let mut plan = Plan::of(format!("http://{address}/").parse().unwrap());
    plan.label = "test".into();
    plan.arrival = Arrival::Closed { concurrency: Steps::constant(2.0), ramp_share: 0.0, loops: 0 };
    plan.timeouts = Timeouts { connect: Duration::from_secs(5), request: Duration::from_secs(5) };
    plan.threads = 2;
    plan
}
