//! Memory of idle connections over HTTP/2, of the real binary.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use sealway_testkit::process::Launch;
use sealway_testkit::usage;

use crate::BINARY;

const CONFIG: &str = "
listeners: [{ address: '127.0.0.1:0' }]
routes: [{ match: { path_prefix: / }, standalone: ok }]
limits: { connections_max: 20000, connections_per_address_max: 0, header_timeout_ms: 120000, idle_timeout_ms: 120000 }
";
/// The client's preface, its SETTINGS, and a GET of `/`.
const GET: &[u8] =
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01h";
const CONNECTIONS: usize = 9_000;
/// Most memory that an idle connection may take, in KiB.
const KIB_MAX: f64 = 8.0;
/// The binary looks every 30 seconds for memory that an idle connection does not need, with these limits after 15 at the latest.
const LOOK: Duration = Duration::from_secs(20);

fn open(server: &sealway_testkit::process::Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(GET).unwrap();
    let (mut read, mut part) = (Vec::new(), [0; 1024]);
    // The head of the answer: HEADERS on stream 1.
    while !read.windows(6).any(|bytes| bytes[0] == 1 && bytes[2..] == [0, 0, 0, 1]) {
        let len = stream.read(&mut part).unwrap();
        assert!(len > 0, "the connection has ended");
        read.extend_from_slice(&part[..len]);
    }
    stream
}

#[test]
#[ignore = "takes a minute, and 9,000 descriptors of this process and of the gateway"]
fn an_idle_connection_takes_few_kib() {
    let server = Launch::new(BINARY, CONFIG).start().unwrap();
    // What the first connections allocate for all.
    drop((0..500).map(|_| open(&server)).collect::<Vec<_>>());
    std::thread::sleep(Duration::from_secs(3));
    let before = usage::status(server.id(), "RssAnon:").unwrap();
    let held: Vec<_> = (0..CONNECTIONS).map(|_| open(&server)).collect();
    let at_once = usage::status(server.id(), "RssAnon:").unwrap();
    std::thread::sleep(LOOK);
    let rested = usage::status(server.id(), "RssAnon:").unwrap();
    let each = |kib: u64| (kib.saturating_sub(before)) as f64 / CONNECTIONS as f64;
    println!("{CONNECTIONS} idle connections: {:.1} KiB each at once, {:.1} after a rest", each(at_once), each(rested));
    assert!(each(rested) <= KIB_MAX, "{:.1} KiB each", each(rested));
    drop(held);
}
