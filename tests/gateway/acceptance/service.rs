//! A service that counts how many times each body arrived whole. It keeps its connections open.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sealway_testkit::raw_http::Connection;

/// Longest time that a connection is idle: longer than any test.
const IDLE: Duration = Duration::from_secs(7200);
/// Length of a chunk of an answer, in bytes.
const CHUNK_LEN: usize = 16;

type Counts = HashMap<Vec<u8>, u64>;

pub(super) struct Service {
    pub(super) address: SocketAddr,
    counts: Arc<Mutex<Counts>>,
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Service {
    pub(super) fn start() -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, counts) = (listener.local_addr().unwrap(), Arc::<Mutex<Counts>>::default());
        let counted = counts.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counts = counted.clone();
                std::thread::spawn(move || {
                    // A gateway that ends its connection, in the middle of a body too, is not a failure here.
                    let _ = Connection::over(stream).and_then(|connection| serve(connection, &counts));
                });
            }
        });
        Service { address, counts }
    }

    /// Returns how many times a body arrived.
    pub(super) fn times(&self, body: &[u8]) -> u64 {
        lock(&self.counts).get(body).copied().unwrap_or_default()
    }

    /// Returns the number of all bodies that arrived.
    pub(super) fn total(&self) -> u64 {
        lock(&self.counts).values().sum()
    }

    /// Returns the largest count of a body.
    pub(super) fn most(&self) -> u64 {
        lock(&self.counts).values().copied().max().unwrap_or_default()
    }

    /// Forgets a body that a test sends to wait for something.
    pub(super) fn forget(&self, body: &[u8]) {
        lock(&self.counts).remove(body);
    }
}

/// Answers each request of a connection with its body, in chunks.
fn serve(mut connection: Connection, counts: &Mutex<Counts>) -> anyhow::Result<()> {
    connection.set_wait(IDLE)?;
    loop {
        let (_, headers) = connection.read_head()?;
        let (body, _) = connection.read_body_and_trailers(&headers)?;
        connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        for chunk in body.chunks(CHUNK_LEN) {
            connection.write_chunk(chunk)?;
        }
        *lock(counts).entry(body).or_default() += 1;
        connection.write_chunk(b"")?;
    }
}
