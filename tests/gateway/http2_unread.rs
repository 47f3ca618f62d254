//! Answers over HTTP/2 that their client leaves unread, or takes a byte of now and then: the stream ends, its connection to the
//! service is free, and the client's other streams go on.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use sealway_testkit::process::Launch;
use sealway_testkit::upstream::Upstream;

use crate::BINARY;
use crate::raw_http2::{
    DATA, END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE, Wire, block, frame,
};

/// A window for all that the client reads in this test.
const LARGE: u32 = 1 << 30;

#[test]
#[ignore = "takes 75 seconds; `make e2e-faults` runs it"]
fn a_stream_that_is_not_read_frees_its_connection_to_the_service_and_the_others_go_on() {
    let (ended, ends) = channel();
    let ended = Mutex::new(ended);
    let upstream = Upstream::serve(move |received, connection| {
        let path = received.method_and_target().1.to_owned();
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n";
        let mut written = connection.write(head);
        connection.set_wait(Duration::from_secs(300))?;
        while written.is_ok() {
            std::thread::sleep(Duration::from_millis(5));
            written = connection.write(&[b'x'; 4096]);
        }
        ended.lock().unwrap().send(path)?;
        Ok(Vec::new())
    })
    .unwrap();
    let config = format!(
        "
listeners: [{{ address: '127.0.0.1:0' }}]
routes: [{{ match: {{}}, upstream: service }}]
upstreams: {{ service: {{ servers: ['http://{}'] }} }}
",
        upstream.address
    );
    let server = Launch::new(BINARY, &config).start().unwrap();
    // Streams begin without a window.
    let mut wire = Wire::open(server.address(), &[0, 4, 0, 0, 0, 0]).unwrap();
    let update = |stream: u32, by: u32| frame(WINDOW_UPDATE, 0, stream, &by.to_be_bytes());
    for (stream, path) in [(1, "/unread"), (3, "/slow"), (5, "/read")] {
        let fields = [(":method", "GET"), (":scheme", "http"), (":path", path), (":authority", "h")];
        wire.write(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&fields))).unwrap();
    }
    wire.write(&[update(0, LARGE), update(5, LARGE)].concat()).unwrap();
    let (begun, mut resets, mut read, mut updated) = (Instant::now(), Vec::new(), 0, Instant::now());
    while resets.len() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(150), "only {resets:?} were reset");
        let received = wire.next().unwrap().expect("the connection goes on");
        match (received.kind, received.stream) {
            (DATA, 5) => read += received.payload.len(),
            (RST_STREAM, stream) => {
                println!("stream {stream} was reset after {:.1?}", begun.elapsed());
                assert!(received.payload == [0, 0, 0, 8] && begun.elapsed() > Duration::from_secs(45));
                resets.push(stream);
            }
            (DATA, 3) | (HEADERS | PING | SETTINGS | WINDOW_UPDATE, _) => {}
            other => panic!("{other:?}"),
        }
        if updated.elapsed() > Duration::from_secs(1) {
            updated = Instant::now();
            wire.write(&update(3, 10)).unwrap();
        }
    }
    let wait = Duration::from_secs(10);
    let mut paths = [ends.recv_timeout(wait).unwrap(), ends.recv_timeout(wait).unwrap()];
    paths.sort();
    assert_eq!(paths, ["/slow", "/unread"], "their connections to the service are free");
    // The third stream goes on.
    let until = read + 100_000;
    while read < until {
        let received = wire.next().unwrap().expect("the connection goes on");
        assert_eq!((received.kind, received.stream), (DATA, 5));
        read += received.payload.len();
    }
    assert!(ends.try_recv().is_err());
}
