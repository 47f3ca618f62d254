//! Answers of services that a client must not see as they are: of HTTP/1 to a client of HTTP/2, and of HTTP/2 to clients of both.
//! A broken answer is an error of the gateway or an incomplete answer, never a complete one, and nothing of it is taken for the
//! answer to the next request.

use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::Request;
use sealway_testkit::upstream::{Upstream, answer};

use super::{headers, owned};
use crate::BINARY;
use crate::raw_http2::{
    DATA, END_HEADERS, END_STREAM, HEADERS, Message, Outcome, Service, Wire, block, frame, outcome,
};

/// The answer that the client gets for a broken or unusual one.
enum Want {
    /// This status, these fields (a value that begins with `!` must not occur) and this body; trailers as `trailer NAME`.
    Answer(&'static str, &'static [(&'static str, &'static str)], &'static str),
    /// A 502 of the gateway.
    BadGateway,
    /// A 502, or an answer that is cut off.
    Broken,
}

use Want::{Answer, BadGateway, Broken};

/// A name, the method, the bytes that the service sends, whether it closes then, and the answer that the client gets.
type Case = (&'static str, &'static str, &'static [u8], bool, Want);

const OF_HTTP1: &[Case] = &[
    ("an answer", "GET", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX-Loud: 1\r\n\r\nabc", false, Answer("200", &[("content-length", "3"), ("x-loud", "1")], "abc")),
    ("an answer without a reason", "GET", b"HTTP/1.1 200\r\nContent-Length: 3\r\n\r\nabc", false, Answer("200", &[], "abc")),
    ("an answer that ends with the connection", "GET", b"HTTP/1.1 200 OK\r\n\r\nabc", true, Answer("200", &[("content-length", "!")], "abc")),
    ("an answer of HTTP/1.0", "GET", b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc", false, Answer("200", &[("connection", "!")], "abc")),
    ("two lengths", "GET", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", false, BadGateway),
    ("one length twice", "GET", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", false, BadGateway),
    ("a list of lengths", "GET", b"HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n\r\nabc", false, BadGateway),
    ("a length with a sign", "GET", b"HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\nabc", false, BadGateway),
    ("a length that overflows", "GET", b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551619\r\n\r\nabc", false, BadGateway),
    ("a length and chunks", "GET", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false, BadGateway),
    ("an unknown coding", "GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", false, BadGateway),
    ("chunked twice", "GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", false, BadGateway),
    ("chunks in HTTP/1.0", "GET", b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", true, BadGateway),
    ("chunks", "GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\n\r\n", false, Answer("200", &[("transfer-encoding", "!")], "abc")),
    ("a size with a sign", "GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+3\r\nabc\r\n0\r\n\r\n", false, Broken),
    ("a size before a bare LF", "GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n", false, Broken),
    ("a size that overflows", "GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000003\r\nabc\r\n0\r\n\r\n", false, Broken),
    ("a chunk longer than its size", "GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", false, Broken),
    ("chunks without an end", "GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", true, Broken),
    ("a body shorter than its length", "GET", b"HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\nabc", true, Broken),
    ("a second answer behind the body", "GET", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong", false, Answer("200", &[], "abc")),
    ("a second answer behind the last chunk", "GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong", false, Answer("200", &[], "abc")),
    ("a body of a 204", "GET", b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nwrong", false, Answer("204", &[("content-length", "!")], "")),
    ("a body of a 304", "GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nwrong", false, Answer("304", &[], "")),
    ("a body of a HEAD", "HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong", false, Answer("200", &[("content-length", "5")], "")),
    ("chunks of a HEAD", "HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nwrong\r\n0\r\n\r\n", false, Answer("200", &[("transfer-encoding", "!")], "")),
    ("a bare LF behind the status", "GET", b"HTTP/1.1 200 OK\nContent-Length: 3\r\n\r\nabc", false, BadGateway),
    ("a bare LF in a value", "GET", b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\nX: y\r\nContent-Length: 3\r\n\r\nabc", false, BadGateway),
    ("a bare CR in a value", "GET", b"HTTP/1.1 200 OK\r\nX: a\rb\r\nContent-Length: 3\r\n\r\nabc", false, BadGateway),
    ("NUL in a value", "GET", b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 3\r\n\r\nabc", false, BadGateway),
    ("a folded value", "GET", b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 3\r\n\r\nabc", false, BadGateway),
    ("a blank before the colon", "GET", b"HTTP/1.1 200 OK\r\nContent-Length : 3\r\n\r\nabc", false, BadGateway),
    ("a name that is no token", "GET", b"HTTP/1.1 200 OK\r\nX(y): a\r\nContent-Length: 3\r\n\r\nabc", false, BadGateway),
    ("a pseudo-header", "GET", b"HTTP/1.1 200 OK\r\n:status: 404\r\nContent-Length: 3\r\n\r\nabc", false, BadGateway),
    ("no colon", "GET", b"HTTP/1.1 200 OK\r\nX\r\nContent-Length: 3\r\n\r\nabc", false, BadGateway),
    ("blanks around a value", "GET", b"HTTP/1.1 200 OK\r\nX: \t a  b \t\r\nContent-Length: 3\r\n\r\nabc", false, Answer("200", &[("x", "a  b")], "abc")),
    ("a value beyond ASCII", "GET", b"HTTP/1.1 200 OK\r\nX: \xe9\r\nContent-Length: 3\r\n\r\nabc", false, Answer("200", &[("x", "\u{e9}")], "abc")),
    ("a status of two digits", "GET", b"HTTP/1.1 20 OK\r\nContent-Length: 3\r\n\r\nabc", false, BadGateway),
    ("a status of four digits", "GET", b"HTTP/1.1 2000 OK\r\nContent-Length: 3\r\n\r\nabc", false, BadGateway),
    ("a status of letters", "GET", b"HTTP/1.1 2xx OK\r\nContent-Length: 3\r\n\r\nabc", false, BadGateway),
    ("HTTP/2.0 in a status line", "GET", b"HTTP/2.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", false, BadGateway),
    ("an answer of HTTP/0.9", "GET", b"<html>this is a page</html>\r\n\r\n", true, BadGateway),
    ("no answer", "GET", b"", true, BadGateway),
    ("a 101 that was not asked for", "GET", b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n", false, BadGateway),
    ("fields of the connection", "GET", b"HTTP/1.1 200 OK\r\nConnection: X-Hop, close\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nProxy-Connection: x\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\nabc", true, Answer("200", &[("x-hop", "!"), ("connection", "!"), ("keep-alive", "!"), ("proxy-connection", "!"), ("upgrade", "!")], "abc")),
    ("interim answers", "GET", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", false, Answer("200", &[("link", "!")], "abc")),
    ("an interim answer with a bare LF", "GET", b"HTTP/1.1 103 Early Hints\r\nLink: x\ny: z\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", false, BadGateway),
    ("an interim answer alone", "GET", b"HTTP/1.1 103 Early Hints\r\n\r\n", true, BadGateway),
    ("trailers", "GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n", false, Answer("200", &[("trailer x-sum", "1")], "abc")),
    ("trailers that may not be there", "GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nContent-Length: 9\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nX-Sum: 1\r\n\r\n", false, Answer("200", &[("trailer content-length", "!"), ("trailer connection", "!"), ("trailer transfer-encoding", "!"), ("trailer x-sum", "1")], "abc")),
    ("a pseudo-header in trailers", "GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n:status: 404\r\n\r\n", false, Broken),
    ("a bare LF in trailers", "GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: 1\ny: 2\r\n\r\n", false, Broken),
];

/// Begins a gateway in front of a service.
fn gateway(service: std::net::SocketAddr, protocol: &str) -> Server {
    let config = format!(
        "
listeners: [{{ address: '127.0.0.1:0' }}]
routes: [{{ match: {{ path_prefix: / }}, upstream: service }}]
upstreams: {{ service: {{ servers: ['http://{service}'], protocol: {protocol} }} }}
"
    );
    Launch::new(BINARY, &config).start().unwrap()
}

fn ask(wire: &mut Wire, stream: u32, method: &str, path: &str) -> Outcome {
    let fields = owned(&[(":method", method), (":scheme", "http"), (":path", path), (":authority", "h")]);
    wire.write(&headers(END_STREAM, stream, &fields)).unwrap();
    outcome(wire, stream).unwrap()
}

/// Returns all values of a name, joined; of trailers as `trailer NAME`.
fn values(message: &Message, name: &str) -> Option<String> {
    let (fields, name) = name.strip_prefix("trailer ").map_or((&message.head, name), |name| (&message.trailers, name));
    let all: Vec<&str> = fields.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect();
    (!all.is_empty()).then(|| all.join("|"))
}

fn check(got: &Outcome, want: &Want) -> Result<(), String> {
    let is_right = match (want, got) {
        (Answer(status, fields, body), Outcome::Answered(message)) => {
            let body = body.chars().map(|c| c as u8).eq(message.body.iter().copied());
            let has_fields = fields
                .iter()
                .all(|(name, value)| values(message, name) == (*value != "!").then(|| (*value).to_owned()));
            message.value(":status") == Some(status) && body && has_fields
        }
        (BadGateway | Broken, Outcome::Answered(message)) => message.value(":status") == Some("502"),
        (Broken, Outcome::Reset(code, _)) => *code != 0,
        _ => false,
    };
    if is_right { Ok(()) } else { Err(format!("{got:?}")) }
}

#[test]
fn hostile_answers_of_http1_are_errors_or_cut_off_over_http2_and_never_answer_the_next_request() {
    let upstream = Upstream::serve(|received, connection| {
        let number = received.method_and_target().1.trim_start_matches('/');
        if let Ok(number) = number.parse::<usize>() {
            let (_, _, bytes, closes, _) = &OF_HTTP1[number];
            connection.write(bytes)?;
            if *closes {
                return Ok(Vec::new());
            }
            // The next request, if the gateway uses the connection again.
            connection.read_head()?;
        }
        connection.write(&answer("200 OK", &[], b"next"))?;
        Ok(Vec::new())
    });
    let server = gateway(upstream.unwrap().address, "http1");
    let mut failed = Vec::new();
    for (number, (name, method, _, _, want)) in OF_HTTP1.iter().enumerate() {
        let mut wire = Wire::open(server.address(), &[]).unwrap();
        let got = ask(&mut wire, 1, method, &format!("/{number}"));
        failed.extend(check(&got, want).err().map(|got| format!("{name}: {got}")));
        let next = ask(&mut wire, 3, "GET", "/next");
        failed.extend(check(&next, &Answer("200", &[], "next")).err().map(|got| format!("behind {name}: {got}")));
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

/// A name, and the frames of an answer on stream 1 as kinds, flags and payloads; a block is made of fields.
type Frames = (&'static str, &'static [Part]);

enum Part {
    Head(u8, &'static [(&'static str, &'static str)]),
    Data(u8, &'static [u8]),
}

use Part::{Data, Head};

const OF_HTTP2: &[Frames] = &[
    (
        "an answer in a value",
        &[Head(0, &[(":status", "200"), ("x", "1\r\n\r\nHTTP/1.1 200 OK\r\n\r\n")]), Data(END_STREAM, b"abc")],
    ),
    ("LF in a value", &[Head(0, &[(":status", "200"), ("set-cookie", "a=b\nx: y")]), Data(END_STREAM, b"abc")]),
    ("NUL in a value", &[Head(0, &[(":status", "200"), ("x", "a\0")]), Data(END_STREAM, b"abc")]),
    ("a blank before a value", &[Head(0, &[(":status", "200"), ("x", " a")]), Data(END_STREAM, b"abc")]),
    ("a line in a name", &[Head(0, &[(":status", "200"), ("x: 1\r\ny", "a")]), Data(END_STREAM, b"abc")]),
    ("a capital in a name", &[Head(0, &[(":status", "200"), ("Content-length", "3")]), Data(END_STREAM, b"abc")]),
    ("a coding", &[Head(0, &[(":status", "200"), ("transfer-encoding", "chunked")]), Data(END_STREAM, b"0\r\n\r\n")]),
    ("Connection", &[Head(0, &[(":status", "200"), ("connection", "x-hop")]), Data(END_STREAM, b"abc")]),
    (
        "two lengths",
        &[Head(0, &[(":status", "200"), ("content-length", "3"), ("content-length", "4")]), Data(END_STREAM, b"abc")],
    ),
    ("a length with a sign", &[Head(0, &[(":status", "200"), ("content-length", "+3")]), Data(END_STREAM, b"abc")]),
    (
        "a body longer than its length",
        &[Head(0, &[(":status", "200"), ("content-length", "3")]), Data(END_STREAM, b"abcHTTP/1.1 200 OK\r\n\r\n")],
    ),
    (
        "a body shorter than its length",
        &[Head(0, &[(":status", "200"), ("content-length", "30")]), Data(END_STREAM, b"abc")],
    ),
    ("a length without a body", &[Head(END_STREAM, &[(":status", "200"), ("content-length", "3")])]),
    ("no status", &[Head(0, &[("x", "1")]), Data(END_STREAM, b"abc")]),
    ("two statuses", &[Head(0, &[(":status", "200"), (":status", "200")]), Data(END_STREAM, b"abc")]),
    ("a status of letters", &[Head(0, &[(":status", "2xx")]), Data(END_STREAM, b"abc")]),
    ("a line in the status", &[Head(0, &[(":status", "200 OK\r\nX: y")]), Data(END_STREAM, b"abc")]),
    ("a status behind a field", &[Head(0, &[("x", "1"), (":status", "200")]), Data(END_STREAM, b"abc")]),
    ("a status of 101", &[Head(0, &[(":status", "101")]), Data(END_STREAM, b"abc")]),
    ("an interim answer that ends the stream", &[Head(END_STREAM, &[(":status", "103")])]),
    ("a path in an answer", &[Head(0, &[(":status", "200"), (":path", "/x")]), Data(END_STREAM, b"abc")]),
    ("data before the head", &[Data(0, b"abc"), Head(END_STREAM, &[(":status", "200")])]),
    ("a second head", &[Head(0, &[(":status", "200")]), Head(0, &[(":status", "200")]), Data(END_STREAM, b"abc")]),
    (
        "a status in trailers",
        &[Head(0, &[(":status", "200")]), Data(0, b"abc"), Head(END_STREAM, &[(":status", "200")])],
    ),
    ("a line in trailers", &[Head(0, &[(":status", "200")]), Data(0, b"abc"), Head(END_STREAM, &[("x", "1\r\ny: 2")])]),
    (
        "a coding in trailers",
        &[Head(0, &[(":status", "200")]), Data(0, b"abc"), Head(END_STREAM, &[("transfer-encoding", "chunked")])],
    ),
];

#[test]
fn hostile_answers_of_http2_are_errors_or_cut_off_and_never_answer_the_next_request() {
    let service = Service::answering(|request, id| {
        let path: String = request.value(":path").unwrap_or_default().into();
        let number = path.trim_start_matches('/').parse::<usize>();
        let parts =
            number.map_or(&[Head(0, &[(":status", "200")]), Data(END_STREAM, b"next")][..], |at| OF_HTTP2[at].1);
        parts
            .iter()
            .flat_map(|part| match part {
                Head(flags, fields) => frame(HEADERS, END_HEADERS | flags, id, &block(fields)),
                Data(flags, data) => frame(DATA, *flags, id, data),
            })
            .collect()
    })
    .unwrap();
    let server = gateway(service.address, "http2");
    let mut failed = Vec::new();
    for (number, (name, _)) in OF_HTTP2.iter().enumerate() {
        let path = format!("/{number}");
        let mut wire = Wire::open(server.address(), &[]).unwrap();
        let got = ask(&mut wire, 1, "GET", &path);
        failed.extend(check(&got, &Broken).err().map(|got| format!("{name}: {got}")));
        let next = ask(&mut wire, 3, "GET", "/next");
        failed.extend(check(&next, &Answer("200", &[], "next")).err().map(|got| format!("behind {name}: {got}")));
        match Request::get(&path).send(server.address()) {
            Ok(answer) if answer.status != 502 => failed.push(format!("{name}, over HTTP/1: {answer:?}")),
            _ => {}
        }
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}
