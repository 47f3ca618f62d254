//! The service behind the gateway: it records every received byte, and answers a request when it is complete.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sealway_testkit::raw_http::{Connection, find};
use sealway_testkit::upstream::{RequestHead, Upstream, answer};

/// The path whose answer is sent in [`CHUNKS`].
pub(crate) const FRAMES: &str = "/frames";
/// An answer in parts, each of which becomes a frame.
pub(crate) const CHUNKS: [&[u8]; 5] = [&[b'a'; 1000], &[b'b'; 700], &[b'c'; 1], &[b'd'; 2000], &[b'e'; 333]];
/// The header within the seal that names the test case of a request.
pub(crate) const CASE: &str = "x-case";

/// The bodies that reached the service under one case.
#[derive(Debug, Default)]
struct Recording {
    bodies: Vec<(Vec<u8>, bool)>,
}

#[derive(Default)]
struct Book {
    seen: Mutex<HashMap<String, Recording>>,
    begun: AtomicUsize,
    open: AtomicUsize,
}

pub(crate) struct Recorder {
    pub(crate) address: SocketAddr,
    book: Arc<Book>,
}

impl Recorder {
    pub(crate) fn start() -> Self {
        let book = Arc::new(Book::default());
        let kept = book.clone();
        let upstream = Upstream::serve(move |received, connection| {
            kept.open.fetch_add(1, Ordering::SeqCst);
            kept.begun.fetch_add(1, Ordering::SeqCst);
            let served = serve(&kept, received, connection);
            kept.open.fetch_sub(1, Ordering::SeqCst);
            served
        });
        Recorder { address: upstream.unwrap().address, book }
    }

    /// Waits until so many requests have begun to arrive.
    pub(crate) fn wait_for(&self, begun: usize) {
        let until = Instant::now() + Duration::from_secs(30);
        while self.book.begun.load(Ordering::SeqCst) < begun {
            assert!(Instant::now() < until, "the service was not asked");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Compares the received bodies with the sent ones: for each case a prefix of its plaintext, and completely only as often as
    /// permitted; for no other case anything. Waits for bodies in transit. Returns the numbers of partial and of complete bodies.
    pub(crate) fn check(&self, sent: &HashMap<String, (Vec<u8>, usize)>) -> (usize, usize) {
        let until = Instant::now() + Duration::from_secs(30);
        while self.book.open.load(Ordering::SeqCst) > 0 {
            assert!(Instant::now() < until, "the service still waits for a request's end");
            std::thread::sleep(Duration::from_millis(10));
        }
        let (mut parts, mut whole) = (0, 0);
        for (case, seen) in &*self.book.seen.lock().unwrap() {
            let (truth, wholes_max) = sent.get(case).unwrap_or_else(|| panic!("nobody sent case {case}"));
            let wholes = seen.bodies.iter().filter(|(_, is_whole)| *is_whole).count();
            assert!(wholes <= *wholes_max, "case {case} reached the service {wholes} times");
            for (body, is_whole) in &seen.bodies {
                assert!(truth.starts_with(body), "case {case}: the service got what nobody sent");
                assert!(!is_whole || body == truth, "case {case}: a part was taken for the whole");
            }
            parts += seen.bodies.len() - wholes;
            whole += wholes;
        }
        (parts, whole)
    }
}

fn serve(book: &Book, received: &RequestHead, connection: &mut Connection) -> anyhow::Result<Vec<u8>> {
    let (body, is_whole) = read(received, connection);
    let case = received.header(CASE).unwrap_or("none").to_owned();
    book.seen.lock().unwrap().entry(case.clone()).or_default().bodies.push((body.clone(), is_whole));
    if !is_whole {
        return Ok(body);
    }
    if received.method_and_target().1 != FRAMES {
        connection.write(&answer("200 OK", &[("X-Answer", &case)], &body))?;
        return Ok(body);
    }
    connection.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nX-Answer: 1\r\n\r\n")?;
    for chunk in CHUNKS {
        connection.write_chunk(chunk)?;
        // A pause, so that each part becomes a frame. Tests accept any number of frames above one.
        std::thread::sleep(Duration::from_millis(50));
    }
    connection.write_chunk(&[])?;
    Ok(body)
}

/// Returns the received part of a body, and whether it is complete.
fn read(received: &RequestHead, connection: &mut Connection) -> (Vec<u8>, bool) {
    if find(&received.headers, "transfer-encoding").is_none() {
        return match connection.read_body(&received.headers, false) {
            Ok(body) => (body, true),
            Err(_) => (connection.read_to_end().unwrap_or_default(), false),
        };
    }
    let mut body = Vec::new();
    loop {
        match connection.read_chunk() {
            Ok(chunk) if chunk.is_empty() => return (body, true),
            Ok(chunk) => body.extend_from_slice(&chunk),
            Err(_) => {
                // The part of an unfinished chunk that arrived.
                body.append(&mut connection.read_to_end().unwrap_or_default());
                return (body, false);
            }
        }
    }
}
