//! HTTP/2 against a server in the test's process, which breaks off as the test wants.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod server;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, StatusCode};
use sealway_load::engine::{Outcome, Run};
use sealway_load::plan::{Arrival, Assertion, Plan, Protocol, Steps, Text};
use sealway_load::record::{Class, Phase};
use sealway_runtime::http::h2::{Config, Connection, FieldLimits, Reason, RequestHead, Role, StreamError};

const CONFIG: Config = Config {
    streams_max: 100,
    stream_window: 65_535,
    connection_window: 65_535,
    fields: FieldLimits { bytes_max: 16_384, fields_max: 100 },
    pending_max: 65_536,
    connect_protocol: false,
};

/// Action of the server at a request.
enum Act {
    /// Answers with this body once the request has arrived.
    Answer(Bytes),
    /// The server does nothing at all.
    Ignore,
    Reset(Reason),
    /// Ends the connection after a `GOAWAY`, which names this request as processed or not.
    GoAway {
        is_processed: bool,
    },
    /// Sends these bytes, whatever they mean, and ends the connection.
    Raw(&'static [u8]),
}

/// Counts of what the server saw.
#[derive(Default)]
struct Counts {
    connections: AtomicU64,
    requests: AtomicU64,
    /// Streams that the client reset with CANCEL.
    cancelled: AtomicU64,
    /// Sum of the lengths of requests' bodies.
    body_len: AtomicU64,
}

fn cx() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// Starts a server. `act` gets the number of the request on all connections, from 0, and its head.
fn start(act: impl Fn(u64, &RequestHead) -> Act + Send + Sync + 'static) -> (SocketAddr, Arc<Counts>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let counts = Arc::new(Counts::default());
    let (shared, act) = (counts.clone(), Arc::new(act));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            shared.connections.fetch_add(1, Ordering::SeqCst);
            let (counts, act) = (shared.clone(), act.clone());
            std::thread::spawn(move || serve(stream, &counts, &*act));
        }
    });
    (address, counts)
}

fn serve(mut stream: TcpStream, counts: &Counts, act: &dyn Fn(u64, &RequestHead) -> Act) {
    let mut connection = Connection::new(Role::Server, CONFIG);
    let (mut input, mut buffer, mut open) = (BytesMut::new(), vec![0; 65_536], Vec::new());
    loop {
        let mut output = Vec::new();
        assert!(connection.poll_write(&mut output, &mut cx()).is_ready());
        if stream.write_all(&output).is_err() {
            return;
        }
        let Ok(len @ 1..) = stream.read(&mut buffer) else { return };
        input.extend_from_slice(&buffer[..len]);
        connection.receive(&mut input, Duration::ZERO).unwrap();
        while let Some(arrival) = connection.next_request() {
            let id = arrival.stream;
            let mut answer = None;
            match act(counts.requests.fetch_add(1, Ordering::SeqCst), &arrival.head.unwrap()) {
                Act::Answer(body) => answer = Some(body),
                Act::Ignore => {}
                Act::Reset(reason) => connection.reset(id, reason),
                Act::GoAway { is_processed } => {
                    let last = if is_processed { id } else { id.saturating_sub(2) };
                    let mut frame = vec![0, 0, 8, 7, 0, 0, 0, 0, 0];
                    frame.extend_from_slice(&last.to_be_bytes());
                    frame.extend_from_slice(&[0; 4]);
                    return end(&mut stream, &frame);
                }
                Act::Raw(bytes) => return end(&mut stream, bytes),
            }
            open.push((id, answer));
        }
        open.retain_mut(|(id, answer)| {
            loop {
                match connection.poll_piece(*id, &mut cx()) {
                    Poll::Ready(Some(Ok(piece))) => {
                        let len = piece.data_ref().map_or(0, Bytes::len);
                        counts.body_len.fetch_add(len as u64, Ordering::SeqCst);
                    }
                    Poll::Ready(Some(Err(err))) => {
                        let is_cancel = err == StreamError::Reset(Reason::Cancel);
                        counts.cancelled.fetch_add(u64::from(is_cancel), Ordering::SeqCst);
                        return false;
                    }
                    Poll::Ready(None) => {
                        if let Some(body) = answer.take() {
                            connection.respond(*id, StatusCode::OK, &HeaderMap::new(), false);
                            connection.send(*id, body, true);
                        }
                        let ended = connection.poll_ended(*id, &cx());
                        let is_cancel = ended == Poll::Ready(StreamError::Reset(Reason::Cancel));
                        counts.cancelled.fetch_add(u64::from(is_cancel), Ordering::SeqCst);
                        return ended.is_pending();
                    }
                    Poll::Pending => return true,
                }
            }
        });
    }
}

/// Sends the last bytes, and reads until the client has closed: unread input would reset the connection.
fn end(stream: &mut TcpStream, last: &[u8]) {
    stream.write_all(last).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let _ = std::io::copy(stream, &mut std::io::sink());
}

fn plan(address: SocketAddr, workers: u32, requests: u64) -> Plan {
    let mut plan = server::plan(address);
    plan.target.protocol = Protocol::Http2;
    plan.connections.streams = 10;
    plan.threads = 1;
    plan.arrival = Arrival::Closed { concurrency: Steps::constant(f64::from(workers)), ramp_share: 0.0, loops: 0 };
    plan.stop.requests = Some(requests);
    plan
}

fn run(plan: Plan) -> Outcome {
    let run = Run::start(plan).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run.outcome())
}

/// Returns the only class of failures, their number and an example.
fn fault(outcome: &Outcome) -> (Class, u64, String) {
    let faults = outcome.totals.sum.faults();
    assert_eq!(faults.len(), 1, "{faults:?}");
    (faults[0].class, faults[0].count, faults[0].example.clone())
}

fn hello() -> Act {
    Act::Answer(Bytes::from_static(b"hello"))
}

#[test]
fn answers_are_timed_counted_and_checked_and_bodies_cross_however_long() {
    let (address, counts) = start(|number, head| {
        assert_eq!((&head.method, head.uri.path()), (&Method::POST, "/"));
        assert_eq!(head.headers["content-length"], "300000");
        Act::Answer(Bytes::from(vec![b'a'; if number % 2 == 0 { 3_000_000 } else { 5 }]))
    });
    for keeps_bodies in [false, true] {
        let mut plan = plan(address, 4, 20);
        plan.request.method = Method::POST;
        plan.request.body = Some(Text::Fixed(vec![b'x'; 300_000]));
        if keeps_bodies {
            plan.assertions = vec![Assertion::BodyHolds("aaaaa".into())];
        }
        let sum = run(plan).totals.sum;
        assert_eq!((sum.counts.succeeded, sum.counts.connections_opened), (20, 1), "{:?}", sum.faults());
        assert!(sum.counts.bytes_received > 30_000_000 && sum.counts.bytes_sent > 6_000_000, "{:?}", sum.counts);
        assert_eq!((sum.times(Phase::FirstByte).len(), sum.statuses()), (20, vec![(200, 20)]));
    }
    assert_eq!(counts.body_len.load(Ordering::SeqCst), 12_000_000);
}

#[test]
fn a_reset_stream_is_reported_with_its_reason_and_costs_no_other_request() {
    let (address, _) = start(|number, _| if number % 10 == 9 { Act::Reset(Reason::InternalError) } else { hello() });
    let outcome = run(plan(address, 4, 100));
    assert_eq!(fault(&outcome), (Class::Reset, 10, format!("{address} reset the stream: INTERNAL_ERROR")));
    assert_eq!(outcome.totals.sum.counts.succeeded, 90);
}

#[test]
fn a_request_that_the_server_did_not_process_is_sent_again_over_another_connection() {
    for unprocessed in [|| Act::Reset(Reason::RefusedStream), || Act::GoAway { is_processed: false }] {
        let (address, counts) = start(move |number, _| if number % 20 == 19 { unprocessed() } else { hello() });
        let outcome = run(plan(address, 1, 100));
        assert_eq!(outcome.totals.sum.counts.succeeded, 100, "{:?}", outcome.totals.sum.faults());
        assert_eq!(counts.requests.load(Ordering::SeqCst), 105);
        // The first request of a connection is not sent again.
        let (address, _) = start(move |_, _| unprocessed());
        assert_eq!(fault(&run(plan(address, 1, 5))).1, 5);
    }
}

#[test]
fn a_connection_that_ends_within_a_request_says_how() {
    let ends = |act: fn() -> Act| {
        let (address, _) = start(move |_, _| act());
        let (class, count, words) = fault(&run(plan(address, 1, 6)));
        assert_eq!(count, 6);
        (class, words.replace(&address.to_string(), "SERVER"))
    };
    let closed = "SERVER closed the connection before its response was complete";
    assert_eq!(ends(|| Act::GoAway { is_processed: true }), (Class::Closed, closed.to_owned()));
    assert_eq!(ends(|| Act::Raw(b"")), (Class::Closed, closed.to_owned()));
    let (class, words) = ends(|| Act::GoAway { is_processed: false });
    assert_eq!((class, words.as_str()), (Class::Closed, "SERVER closed the connection (GOAWAY): NO_ERROR"));
    // A GOAWAY with ENHANCE_YOUR_CALM, which is one for all requests.
    let (class, words) = ends(|| Act::Raw(b"\0\0\x08\x07\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\x0b"));
    assert_eq!((class, words.as_str()), (Class::Closed, "SERVER closed the connection (GOAWAY): ENHANCE_YOUR_CALM"));
    let (class, words) = ends(|| Act::Raw(b"\0\0\x01\x06\0\0\0\0\0\0"));
    assert!(class == Class::Malformed && words.starts_with("SERVER violated HTTP/2: "), "{words}");
}

#[test]
fn a_request_without_an_answer_ends_by_its_deadline_and_its_stream_is_reset() {
    let (address, counts) = start(|number, _| if number == 2 { Act::Ignore } else { hello() });
    let mut plan = plan(address, 2, 200);
    plan.timeouts.request = Duration::from_secs(3);
    plan.think = Some((Duration::from_millis(5), Duration::from_millis(5)));
    let outcome = run(plan);
    assert_eq!((fault(&outcome).0, fault(&outcome).1), (Class::Timeout, 1));
    assert_eq!(outcome.totals.sum.counts.succeeded, 199);
    assert_eq!(counts.cancelled.load(Ordering::SeqCst), 1);
}

#[test]
fn more_workers_than_the_server_allows_streams_wait_their_turn() {
    let (address, counts) = start(|_, _| hello());
    let mut plan = plan(address, 250, 5_000);
    plan.connections.streams = 250;
    let outcome = run(plan);
    assert_eq!(outcome.totals.sum.counts.succeeded, 5_000, "{:?}", outcome.totals.sum.faults());
    assert_eq!(counts.connections.load(Ordering::SeqCst), 1);
}

#[test]
fn a_server_that_stops_reading_ends_requests_by_their_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().collect::<Vec<_>>());
    let mut plan = plan(address, 3, 9);
    plan.timeouts.request = Duration::from_millis(200);
    plan.request.method = Method::POST;
    plan.request.body = Some(Text::Fixed(vec![b'x'; 10_000_000]));
    assert_eq!((fault(&run(plan.clone())).0, fault(&run(plan)).1), (Class::Timeout, 9));
}
