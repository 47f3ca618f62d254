//! Costs of hostile peers of HTTP/2: frames that carry nothing, heads that grow when they are decoded, heads that never end. Each
//! test states a bound and shows its figures.

#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use http::Response;
use hyper::service::service_fn;
use sealway_runtime::http::h2::{Config, Connection, ConnectionError, Fault, FieldLimits, PREFACE, Reason, Role};
use sealway_runtime::http::{Body, HttpLimits, Listening, full, serve};
use sealway_runtime::listener::Socket;
use sealway_runtime::shutdown::Shutdown;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const PATIENCE: Duration = Duration::from_secs(60);
/// As a listener configures a connection by default.
const CONFIG: Config = Config {
    streams_max: 256,
    stream_window: 1024 * 1024,
    connection_window: 1024 * 1024,
    fields: FieldLimits { bytes_max: 32 * 1024, fields_max: 128 },
    pending_max: 64 * 1024,
    connect_protocol: false,
};
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// The block of a GET of `/` from `h`.
const GET: &[u8] = &[0x82, 0x86, 0x84, 0x41, 1, b'h'];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, high, middle, low] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[high, middle, low, kind, flags], &stream.to_be_bytes()[..], payload].concat()
}

fn begin() -> Vec<u8> {
    [&PREFACE[..], &frame(4, 0, 0, &[])].concat()
}

/// A server, as a value, to which a hostile client sends.
struct Victim {
    server: Connection,
    input: BytesMut,
    held_max: usize,
}

impl Victim {
    fn new() -> Victim {
        let mut victim = Victim { server: Connection::new(Role::Server, CONFIG), input: BytesMut::new(), held_max: 0 };
        victim.send(&begin()).unwrap();
        victim
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), ConnectionError> {
        self.input.extend_from_slice(bytes);
        let received = self.server.receive(&mut self.input, Duration::ZERO);
        self.held_max = self.held_max.max(self.server.held() + self.input.len());
        received
    }

    fn write(&mut self) {
        let _ = self.server.poll_write(&mut tokio::io::sink(), &mut Context::from_waker(Waker::noop()));
    }

    /// Sends frames until the connection ends. Returns their number.
    fn flood(&mut self, next: impl Fn(u32) -> Vec<u8>) -> u32 {
        for number in 0.. {
            if let Err(error) = self.send(&next(number)) {
                assert_eq!(error.reason, Reason::EnhanceYourCalm);
                return number;
            }
        }
        unreachable!("a flood ends")
    }
}

#[test]
fn a_flood_ends_after_some_thousand_frames_and_holds_little_memory_even_if_nothing_is_read() {
    type Flood = (&'static str, fn(u32) -> Vec<u8>, usize);
    let floods: &[Flood] = &[
        ("SETTINGS", |_| frame(4, 0, 0, &[0, 4, 0, 0, 0xff, 0xff]), 64 * 1024),
        ("SETTINGS of many values", |_| frame(4, 0, 0, &[0, 4, 0, 0, 0xff, 0xff].repeat(2_700)), 64 * 1024),
        ("PING", |_| frame(6, 0, 0, &[0; 8]), 64 * 1024),
        ("empty DATA", |number| if number == 0 { frame(1, END_HEADERS, 1, GET) } else { frame(0, 0, 1, &[]) }, 1024),
        ("empty CONTINUATION", |number| if number == 0 { frame(1, 0, 1, GET) } else { frame(9, 0, 1, &[]) }, 1024),
        (
            "CONTINUATION",
            |number| if number == 0 { frame(1, 0, 1, GET) } else { frame(9, 0, 1, &[0x86; 1000]) },
            2 * 32 * 1024 + 2048,
        ),
        (
            "CONTINUATION of the largest size",
            |number| if number == 0 { frame(1, 0, 1, GET) } else { frame(9, 0, 1, &[0x86; 16_384]) },
            2 * 32 * 1024 + 2 * 16_500,
        ),
        ("malformed requests", |number| frame(1, END_STREAM | END_HEADERS, 2 * number + 1, &[0x88]), 16 * 1024),
        (
            "resets that the client causes",
            |number| match number % 2 {
                0 => frame(1, END_HEADERS, number + 1, GET),
                _ => frame(8, 0, number, &[0; 4]),
            },
            16 * 1024,
        ),
    ];
    for (name, next, held_max) in floods {
        let mut victim = Victim::new();
        let began = Instant::now();
        let count = victim.flood(next);
        let bytes = count as usize * next(1).len();
        eprintln!("{name}: ends after {count} frames, {bytes} bytes, {} held, {:?}", victim.held_max, began.elapsed());
        assert!(count <= 3_000, "{name}: {count} frames");
        assert!(victim.held_max <= *held_max, "{name}: {} bytes held", victim.held_max);
    }
}

#[test]
fn a_block_that_decodes_to_thousands_of_times_its_size_costs_time_for_its_bytes_and_no_memory() {
    let mut victim = Victim::new();
    // One entry fills the table, and each byte of the next blocks refers to it.
    let value = [b'v'; 4_000];
    let large = [&[0x40, 1, b'x', 0x7f, 0xa1, 0x1e], &value[..]].concat();
    victim.send(&frame(1, END_STREAM | END_HEADERS, 1, &[GET, &large].concat())).unwrap();
    let bomb = [&GET[..3], &[0x01, 1, b'h'], &[0xbe; 16_000]].concat();
    let mut longest = Duration::ZERO;
    const BLOCKS: u32 = 200;
    let mut arrived = 0;
    let began = Instant::now();
    for number in 1..=BLOCKS {
        let since = Instant::now();
        victim.send(&frame(1, END_STREAM | END_HEADERS, 2 * number + 1, &bomb)).unwrap();
        longest = longest.max(since.elapsed());
        while let Some(arrival) = victim.server.next_request() {
            arrived += usize::from(matches!(arrival.head, Err(Fault::TooLarge)));
            victim.server.respond(arrival.stream, http::StatusCode::OK, &http::HeaderMap::new(), true);
            victim.server.drop_writer(arrival.stream, Reason::Cancel);
        }
        victim.write();
    }
    let per_byte = began.elapsed().as_nanos() / (u128::from(BLOCKS) * bomb.len() as u128);
    let decoded = 16_000 * 4_033 / 1024 / 1024;
    eprintln!(
        "a block of 16 KB for {decoded} MiB: {per_byte} ns a byte, at most {longest:?}, {} held",
        victim.held_max
    );
    assert_eq!(arrived, BLOCKS as usize, "each head is over its bound");
    assert!(victim.held_max < 40_000, "{} bytes held", victim.held_max);
    assert!(longest < Duration::from_millis(500), "{longest:?} for one block");
}

/// Begins a listener whose service counts its calls, and answers none at once.
async fn listener(limits: HttpLimits) -> (SocketAddr, Arc<AtomicUsize>, Shutdown) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let service = service_fn(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok::<Response<Body>, Infallible>(Response::new(full("hello")))
        }
    });
    let (shutdown, listening) = (Shutdown::new(), Arc::new(Listening::plain("test", limits)));
    shutdown.spawn(serve(Socket::Tcp(listener), listening, service, shutdown.clone()));
    (address, calls, shutdown)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rapid_resets_end_their_connection_and_few_of_them_reach_the_service() {
    let (address, calls, _shutdown) = listener(HttpLimits::DEFAULT).await;
    for batch in [1, 50, 1000] {
        let before = calls.load(Ordering::Relaxed);
        let (mut read, mut write) = TcpStream::connect(address).await.unwrap().into_split();
        write.write_all(&begin()).await.unwrap();
        let reading = tokio::spawn(async move { tokio::io::copy(&mut read, &mut tokio::io::sink()).await });
        let (mut sent, began) = (0_u32, Instant::now());
        while !reading.is_finished() && began.elapsed() < PATIENCE {
            let one = |number: u32| {
                let id = 2 * number + 1;
                [frame(1, END_STREAM | END_HEADERS, id, GET), frame(3, 0, id, &[0, 0, 0, 8])].concat()
            };
            let frames: Vec<u8> = (sent..sent + batch).flat_map(one).collect();
            if write.write_all(&frames).await.is_err() {
                break;
            }
            sent += batch;
        }
        let reached = calls.load(Ordering::Relaxed) - before;
        eprintln!("{batch} resets a write: {sent} sent, {reached} reached the service, {:?}", began.elapsed());
        // A thousand at once, a hundred a second, and what the sockets hold.
        assert!(sent < 20_000 + 100 * began.elapsed().as_secs() as u32, "{sent} resets");
        assert!(reached <= 1_100 + 100 * began.elapsed().as_secs() as usize, "{reached} calls of the service");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_never_ends_ends_its_connection_in_time() {
    let limits = HttpLimits { header_timeout: Duration::from_millis(600), ..HttpLimits::DEFAULT };
    let (address, _, _shutdown) = listener(limits).await;
    let dripped = |kind: u8, payload: &[u8]| frame(kind, 0, 1, payload);
    type Slow = (&'static str, Vec<u8>, Vec<u8>);
    let slow: [Slow; 5] = [
        ("a preface", PREFACE[..10].to_vec(), vec![]),
        ("no SETTINGS", PREFACE.to_vec(), vec![]),
        ("a HEADERS frame, byte by byte", [begin(), frame(1, 5, 1, &[0x82; 200])[..9].to_vec()].concat(), vec![0x82]),
        ("CONTINUATION without end", [begin(), dripped(1, GET)].concat(), dripped(9, &[0x86])),
        ("the head of a frame", [begin(), vec![0, 0, 8]].concat(), vec![]),
    ];
    for (name, first, next) in slow {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&first).await.unwrap();
        let began = Instant::now();
        let (mut read, mut write) = stream.split();
        let mut scrap = Vec::new();
        let dripping = async {
            while write.write_all(&next).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::select! {
            _ = read.read_to_end(&mut scrap) => {}
            () = dripping => {}
            () = tokio::time::sleep(PATIENCE) => panic!("{name}: the connection goes on"),
        }
        eprintln!("{name}: ended after {:?}", began.elapsed());
        assert!(began.elapsed() < Duration::from_millis(3_000), "{name}: {:?}", began.elapsed());
    }
}
