//! HTTP/1 as attackers and old programs send it. The gateway rejects ambiguous requests and does not answer the bytes after them;
//! all other requests reach the service as they were sent, over HTTP/1 and over HTTP/2.
#![allow(clippy::print_stdout, reason = "the output of a failed test names the service's protocol")]

pub(crate) mod cases;
mod service;

use std::net::SocketAddr;
use std::time::Duration;

use cases::{Case, Want};
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::{Connection, Request};
use sealway_testkit::upstream::RequestHead;
pub(crate) use service::{Http1Service, Recorder};

use crate::{BINARY, raw_http2};

/// A second request on the connection, which is answered only if the gateway reads on.
const TAIL: &[u8] = b"GET /tail HTTP/1.1\r\nHost: tail.example\r\n\r\n";

/// Starts a gateway in front of a service.
pub(crate) fn gateway(service: &dyn Recorder) -> Server {
    let config = format!(
        "
listeners: [{{ address: '127.0.0.1:0' }}]
routes: [{{ match: {{ path_prefix: / }}, upstream: service }}]
upstreams: {{ service: {{ servers: ['http://{}'], protocol: {} }} }}
limits: {{ header_timeout_ms: 5000, idle_timeout_ms: 5000, header_bytes_max: 16384 }}
",
        service.address(),
        service.protocol()
    );
    Launch::new(BINARY, &config).start().unwrap()
}

/// Runs a test with a service behind the gateway that speaks HTTP/1, and with one that speaks HTTP/2.
pub(crate) fn with(run: impl Fn(SocketAddr, &dyn Recorder)) {
    let services: [Box<dyn Recorder>; 2] =
        [Box::new(Http1Service::start().unwrap()), Box::new(raw_http2::Service::start().unwrap())];
    for service in services {
        println!("towards {}", service.protocol());
        let server = gateway(&*service);
        run(server.address(), &*service);
        // A request that reached the service late, or twice.
        assert!(service.is_untouched(), "towards {}", service.protocol());
    }
}

fn open(to: SocketAddr) -> Connection {
    let mut connection = Connection::open(to).unwrap();
    connection.set_wait(Duration::from_secs(20)).unwrap();
    connection
}

/// Returns all values under a name, joined.
pub(crate) fn values(received: &RequestHead, name: &str) -> Option<String> {
    let all = received.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
    let all: Vec<&str> = all.map(|(_, value)| value.as_str()).collect();
    (!all.is_empty()).then(|| all.join("|"))
}

fn check(to: SocketAddr, upstream: &dyn Recorder, case: &Case) -> Result<(), String> {
    let (_, _, sent, want) = case;
    let mut connection = open(to);
    let with_tail = matches!(want, Want::Refused(_));
    let bytes = if with_tail { [*sent, TAIL].concat() } else { sent.to_vec() };
    // A client that is rejected early may be cut off while it still sends.
    let written = connection.write(&bytes);
    let read = connection.read_answer("GET").map_err(|err| format!("no answer: {err:#}, {written:?}"))?;
    match want {
        Want::Refused(status) => {
            expect("status", read.status, *status)?;
            expect("connection", read.header("connection"), Some("close"))?;
            let rest = connection.read_to_end().map_err(|err| format!("not closed: {err:#}"))?;
            expect("after the answer", String::from_utf8_lossy(&rest).as_ref(), "")?;
            if upstream.is_untouched() { Ok(()) } else { Err("it reached the service".into()) }
        }
        Want::Answered(status) => {
            expect("status", read.status, *status)?;
            if upstream.is_untouched() { Ok(()) } else { Err("it reached the service".into()) }
        }
        Want::Passed(line, fields, body) => {
            expect("status", read.status, 200)?;
            let (received, got) = upstream.next().map_err(|err| err.to_string())?;
            expect("line", received.line.as_str(), *line)?;
            for (name, value) in *fields {
                let want = (*value != "!").then(|| (*value).to_owned());
                expect(name, values(&received, name), want)?;
            }
            expect("body", String::from_utf8_lossy(&got).as_ref(), *body)
        }
    }
}

pub(crate) fn expect<T: PartialEq + std::fmt::Debug>(what: &str, got: T, want: T) -> Result<(), String> {
    if got == want { Ok(()) } else { Err(format!("{what} is {got:?}, not {want:?}")) }
}

fn check_all(cases: &[Case]) {
    with(|to, upstream| {
        let failed: Vec<_> = cases
            .iter()
            .filter_map(|case| {
                let failed = check(to, upstream, case).err()?;
                // Requests that a failed case let through must not count for the next case.
                while !upstream.is_untouched() {}
                Some(format!("{} ({}): {failed}", case.0, case.1))
            })
            .collect();
        assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), cases.len(), failed.join("\n"));
    });
}

#[test]
fn a_request_of_two_lengths_is_refused_and_nothing_after_it_answered() {
    check_all(cases::LENGTHS);
}

#[test]
fn chunks_that_can_be_read_in_two_ways_are_refused() {
    check_all(cases::CHUNKS);
}

#[test]
fn lines_end_in_crlf_and_hold_what_they_may() {
    check_all(cases::LINES);
}

#[test]
fn targets_have_one_of_four_forms_and_pass_as_sent() {
    check_all(cases::TARGETS);
}

#[test]
fn hosts_are_one_and_fields_of_a_hop_end_here() {
    check_all(cases::FIELDS);
}

#[test]
fn heads_over_their_bounds_are_refused_with_the_status_that_says_so() {
    let long_target = format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(20_000));
    let long_field = format!("GET / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    let many_fields = format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "X: 1\r\n".repeat(128));
    let enough_fields = format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "X: 1\r\n".repeat(127));
    with(|to, upstream| {
        for (sent, status) in [(&long_target, 414), (&long_field, 431), (&many_fields, 431)] {
            let mut connection = open(to);
            let _ = connection.write(&[sent.as_bytes(), TAIL].concat());
            assert_eq!(connection.read_answer("GET").unwrap().status, status);
            assert_eq!(connection.read_to_end().unwrap(), b"");
            assert!(upstream.is_untouched());
        }
        let mut connection = open(to);
        connection.write(enough_fields.as_bytes()).unwrap();
        assert_eq!(connection.read_answer("GET").unwrap().status, 200);
        assert_eq!(upstream.next().unwrap().0.headers.iter().filter(|(name, _)| name == "x").count(), 127);
    });
}

#[test]
fn a_head_may_come_in_any_pieces() {
    let sent = b"\r\nPOST /pieces HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\n\r\n";
    with(|to, upstream| {
        for len in [1, 2, 3, 7, 16] {
            let mut connection = open(to);
            for piece in sent.chunks(len) {
                connection.write(piece).unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(connection.read_answer("POST").unwrap().status, 200);
            let (received, body) = upstream.next().unwrap();
            assert_eq!((received.line.as_str(), body.as_slice()), ("POST /pieces HTTP/1.1", &b"abc"[..]));
        }
    });
}

#[test]
fn requests_sent_ahead_are_answered_in_their_order() {
    with(|to, upstream| {
        let mut connection = open(to);
        let one = b"POST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";
        let two = b"POST /2 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n0\r\n\r\n";
        let three = b"GET /3 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        connection.write(&[&one[..], two, three, TAIL].concat()).unwrap();
        let sent = [("POST /1", "abc"), ("POST /2", "de"), ("GET /3", "")];
        for (line, _) in sent {
            let answer = connection.read_answer("GET").unwrap();
            assert_eq!((answer.status, answer.text().as_str()), (200, "served"));
            assert_eq!(answer.header("connection"), (line == "GET /3").then_some("close"));
        }
        // The service names a request after it has answered it, and then the next one may be on its way.
        let mut served: Vec<_> = sent.iter().map(|_| upstream.next().unwrap()).collect();
        served.sort_by(|(one, _), (other, _)| one.line.split(' ').nth(1).cmp(&other.line.split(' ').nth(1)));
        for ((line, body), (received, got)) in sent.into_iter().zip(served) {
            assert!(received.line.starts_with(line), "{}", received.line);
            assert_eq!(String::from_utf8_lossy(&got), body);
        }
        assert_eq!(connection.read_to_end().unwrap(), b"");
        assert!(upstream.is_untouched());
    });
}

#[test]
fn a_connection_stays_and_ends_as_its_client_says() {
    with(|to, upstream| {
        for (version, connection_field, stays) in [
            ("1.1", None, true),
            ("1.1", Some("close"), false),
            ("1.1", Some("Keep-Alive, CLOSE"), false),
            ("1.1", Some("x-close"), true),
            ("1.0", None, false),
            ("1.0", Some("keep-alive"), true),
        ] {
            let mut connection = open(to);
            let field = connection_field.map(|value| format!("Connection: {value}\r\n")).unwrap_or_default();
            let sent = format!("GET /x HTTP/{version}\r\nHost: h\r\n{field}\r\n");
            for _ in 0..if stays { 2 } else { 1 } {
                connection.write(sent.as_bytes()).unwrap();
                let answer = connection.read_answer("GET").unwrap();
                let said = if !stays { Some("close") } else { (version == "1.0").then_some("keep-alive") };
                assert_eq!((answer.status, answer.header("connection")), (200, said), "{sent}");
                upstream.next().unwrap();
            }
            if !stays {
                assert_eq!(connection.read_to_end().unwrap(), b"", "{sent}");
            }
        }
    });
}

#[test]
fn a_client_that_expects_100_continue_gets_it_when_the_body_is_read() {
    with(|to, upstream| {
        let head = "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-Continue\r\n\r\n";
        let mut connection = open(to);
        connection.write(head.as_bytes()).unwrap();
        assert_eq!(connection.read_head().unwrap().0, "HTTP/1.1 100 Continue");
        connection.write(b"abc").unwrap();
        assert_eq!(connection.read_answer("POST").unwrap().status, 200);
        assert_eq!(upstream.next().unwrap().1, b"abc");
        // Rejected without `100 Continue`: the answer is final, and the gateway cannot know whether a body follows.
        let mut connection = open(to);
        let refused = head.replace("POST /x", "CONNECT h:1");
        connection.write(refused.as_bytes()).unwrap();
        let (line, headers) = connection.read_head().unwrap();
        assert_eq!(line, "HTTP/1.1 405 Method Not Allowed");
        assert_eq!(sealway_testkit::raw_http::find(&headers, "connection"), Some("close"));
    });
}

#[test]
fn options_of_the_whole_server_is_an_answer_and_no_panic() {
    with(|to, upstream| {
        let answer = Request::new("OPTIONS", "*").send(to).unwrap();
        assert!((200..500).contains(&answer.status), "{answer:?}");
        while !upstream.is_untouched() {}
    });
}
