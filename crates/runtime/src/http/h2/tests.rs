//! Two connections of this engine that talk to each other in memory, and peers that break the rules.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};

use super::frame::{END_HEADERS, END_STREAM, put_head};
use super::{Arrival, Config, Connection, Fault, FieldLimits, PREFACE, Reason, RequestHead, Role, StreamError};

const CONFIG: Config = Config {
    streams_max: 100,
    stream_window: 70_000,
    connection_window: 100_000,
    fields: FieldLimits { bytes_max: 4000, fields_max: 20 },
    pending_max: 10_000,
};

fn cx() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// Returns the output, all of it.
fn output(connection: &mut Connection) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert!(connection.poll_write(&mut bytes, &mut cx()).is_ready());
    bytes
}

fn post(path: &str) -> RequestHead {
    let uri: Uri = format!("https://a.example{path}").parse().unwrap();
    RequestHead { method: Method::POST, uri, headers: HeaderMap::new(), protocol: None }
}

/// A client and a server of this engine.
struct Pair {
    client: Connection,
    server: Connection,
    /// Bytes on their way to each.
    to_client: BytesMut,
    to_server: BytesMut,
}

impl Pair {
    fn new() -> Pair {
        let client = Connection::new(Role::Client, CONFIG);
        let server = Connection::new(Role::Server, CONFIG);
        Pair { client, server, to_client: BytesMut::new(), to_server: BytesMut::new() }
    }

    /// Passes everything on, until neither has more to say.
    fn talk(&mut self) {
        loop {
            let (up, down) = (output(&mut self.client), output(&mut self.server));
            if up.is_empty() && down.is_empty() {
                return;
            }
            self.to_server.extend_from_slice(&up);
            self.to_client.extend_from_slice(&down);
            self.server.receive(&mut self.to_server, Duration::ZERO).unwrap();
            self.client.receive(&mut self.to_client, Duration::ZERO).unwrap();
        }
    }
}

/// Reads what is there of a message. Returns the data, the trailers and whether the end has come.
fn read(connection: &mut Connection, id: u32) -> (Vec<u8>, Option<HeaderMap>, Result<bool, StreamError>) {
    let (mut data, mut trailers) = (Vec::new(), None);
    loop {
        match connection.poll_piece(id, &mut cx()) {
            Poll::Pending => return (data, trailers, Ok(false)),
            Poll::Ready(None) => return (data, trailers, Ok(true)),
            Poll::Ready(Some(Err(err))) => return (data, trailers, Err(err)),
            Poll::Ready(Some(Ok(piece))) => match piece.into_data() {
                Ok(part) => data.extend_from_slice(&part),
                Err(piece) => trailers = piece.into_trailers().ok(),
            },
        }
    }
}

#[test]
fn a_request_and_its_answer_cross_with_bodies_trailers_and_interim_answers() {
    let mut pair = Pair::new();
    let id = pair.client.open(&post("/x?y"), false);
    pair.client.send(id, Bytes::from_static(b"ask"), false);
    let trailers = HeaderMap::from_iter([(http::header::ETAG, HeaderValue::from_static("t"))]);
    pair.client.send_trailers(id, trailers.clone());
    pair.talk();
    let Arrival { stream, head, is_whole } = pair.server.next_request().unwrap();
    let head = head.unwrap();
    assert_eq!((stream, head.uri.to_string(), is_whole), (1, "https://a.example/x?y".into(), false));
    assert_eq!(read(&mut pair.server, id), (b"ask".to_vec(), Some(trailers.clone()), Ok(true)));
    pair.server.interim(id, StatusCode::EARLY_HINTS, &HeaderMap::new());
    pair.server.respond(id, StatusCode::OK, &HeaderMap::new(), false);
    pair.server.send(id, Bytes::from_static(b"answer"), true);
    pair.talk();
    for status in [103, 200] {
        let Poll::Ready(Ok(head)) = pair.client.poll_response(id, &mut cx()) else { panic!("no {status}") };
        assert_eq!(head.status, status);
    }
    assert_eq!(read(&mut pair.client, id), (b"answer".to_vec(), None, Ok(true)));
    for connection in [&mut pair.client, &mut pair.server] {
        assert_eq!(connection.open_streams(), 0);
        connection.drop_reader(id);
        connection.drop_writer(id, Reason::Cancel);
        assert!(connection.at(id).is_none(), "it is forgotten");
    }
}

#[test]
fn a_body_longer_than_the_windows_crosses_as_it_is_read_and_no_faster() {
    let mut pair = Pair::new();
    let id = pair.client.open(&post("/"), false);
    let body: Vec<u8> = (0..1_000_000_u32).map(|number| number as u8).collect();
    let (mut sent, mut got) = (0, Vec::new());
    while got.len() < body.len() {
        while sent < body.len() && pair.client.poll_room(id, &cx()).is_ready() {
            let part = &body[sent..body.len().min(sent + 7000)];
            sent += part.len();
            pair.client.send(id, Bytes::copy_from_slice(part), sent == body.len());
        }
        pair.talk();
        let unread: usize = pair.server.stream(id).unwrap().data.iter().map(Bytes::len).sum();
        assert!(unread > 0 && unread <= 70_000, "{unread}");
        got.extend_from_slice(&read(&mut pair.server, id).0);
    }
    assert!(got == body);
    assert_eq!(read(&mut pair.server, id).2, Ok(true));
}

#[test]
fn streams_take_turns_and_one_that_is_not_read_stops_no_other() {
    let mut pair = Pair::new();
    let ids = [(); 3].map(|()| pair.client.open(&post("/"), true));
    pair.talk();
    for id in ids {
        pair.server.respond(id, StatusCode::OK, &HeaderMap::new(), false);
        pair.server.send(id, Bytes::from(vec![0; 40_000]), true);
    }
    pair.talk();
    // 100,000 bytes of the connection: each has got its turns.
    let got = ids.map(|id| pair.client.stream(id).unwrap().data.iter().map(Bytes::len).sum::<usize>());
    assert!(got.iter().all(|len| *len > 10_000), "{got:?}");
    // The first is not read, and the others end.
    for _ in 0..4 {
        ids[1..].iter().for_each(|id| drop(read(&mut pair.client, *id)));
        pair.talk();
    }
    assert!(ids[1..].iter().all(|id| read(&mut pair.client, *id).2 == Ok(true)));
    assert!(!pair.client.is_read(ids[0]));
}

#[test]
fn an_answer_before_the_end_of_its_request_stops_the_request() {
    let mut pair = Pair::new();
    let id = pair.client.open(&post("/"), false);
    pair.client.send(id, Bytes::from(vec![0; 200_000]), true);
    pair.talk();
    pair.server.drop_reader(id);
    pair.server.respond(id, StatusCode::FORBIDDEN, &HeaderMap::new(), true);
    pair.server.drop_writer(id, Reason::InternalError);
    pair.talk();
    let Poll::Ready(Ok(head)) = pair.client.poll_response(id, &mut cx()) else { panic!("no answer") };
    assert_eq!(head.status, 403);
    assert_eq!(read(&mut pair.client, id).2, Ok(true));
    assert_eq!((pair.client.open_streams(), pair.server.open_streams()), (0, 0));
    // What was on its way is given back: the next request has all of the window.
    let next = pair.client.open(&post("/"), false);
    pair.client.send(next, Bytes::from(vec![0; 60_000]), true);
    pair.talk();
    assert_eq!(read(&mut pair.server, next).0.len(), 60_000);
}

#[test]
fn a_stream_that_the_peer_resets_ends_both_its_directions() {
    let mut pair = Pair::new();
    let id = pair.client.open(&post("/"), false);
    pair.talk();
    pair.client.reset(id, Reason::Cancel);
    pair.talk();
    assert_eq!(read(&mut pair.server, id).2, Err(StreamError::Reset(Reason::Cancel)));
    assert!(pair.server.poll_ended(id, &cx()).is_ready());
    assert_eq!(pair.server.open_streams(), 0);
    pair.server.respond(id, StatusCode::OK, &HeaderMap::new(), true);
    assert!(output(&mut pair.server).is_empty(), "nothing is sent on it");
}

#[test]
fn requests_behind_a_go_away_are_unprocessed_and_those_before_it_are_answered() {
    let mut pair = Pair::new();
    let first = pair.client.open(&post("/"), true);
    pair.talk();
    pair.server.say_go_away(true);
    let second = pair.client.open(&post("/"), true);
    pair.talk();
    assert!(matches!(pair.client.poll_response(second, &mut cx()), Poll::Ready(Err(StreamError::Unprocessed))));
    assert!(matches!(pair.client.poll_can_open(&cx()), Poll::Ready(Err(StreamError::Unprocessed))));
    pair.server.respond(first, StatusCode::OK, &HeaderMap::new(), true);
    pair.talk();
    assert!(matches!(pair.client.poll_response(first, &mut cx()), Poll::Ready(Ok(_))));
}

#[test]
fn a_client_opens_no_more_streams_than_the_server_allows() {
    let mut pair = Pair::new();
    pair.talk();
    let ids: Vec<u32> = (0..100).map(|_| pair.client.open(&post("/"), true)).collect();
    assert!(pair.client.poll_can_open(&cx()).is_pending());
    pair.talk();
    pair.server.respond(ids[7], StatusCode::OK, &HeaderMap::new(), true);
    pair.talk();
    assert!(pair.client.poll_can_open(&cx()).is_ready());
}

/// A server, and what a client with other manners sends.
struct Hostile {
    server: Connection,
    input: BytesMut,
}

impl Hostile {
    fn new() -> Hostile {
        let mut hostile = Hostile { server: Connection::new(Role::Server, CONFIG), input: BytesMut::new() };
        hostile.input.extend_from_slice(PREFACE);
        hostile.send(4, 0, 0, &[]).unwrap();
        output(&mut hostile.server);
        hostile
    }

    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<(), Reason> {
        put_head(&mut self.input, payload.len(), kind, flags, stream);
        self.input.extend_from_slice(payload);
        self.server.receive(&mut self.input, Duration::ZERO).map_err(|err| err.reason)
    }

    /// Opens a stream with a POST, whose block has these fields besides.
    fn post(&mut self, stream: u32, flags: u8, more: &[u8]) -> Result<(), Reason> {
        let block = [&[0x83, 0x86, 0x84, 0x41, 1, b'h'], more].concat();
        self.send(1, flags | END_HEADERS, stream, &block)
    }

    /// Returns the reason of the RST_STREAM of a stream, if there is one in the output.
    fn reset(&mut self, stream: u32) -> Option<Reason> {
        let bytes = output(&mut self.server);
        let mut rest = &bytes[..];
        while let Some((head, after)) = rest.split_first_chunk::<9>() {
            let (payload, after) = after.split_at(usize::from(head[1]) << 8 | usize::from(head[2]));
            if head[3] == 3 && head[5..] == stream.to_be_bytes() {
                return Some(Reason::from(u32::from_be_bytes(payload.try_into().unwrap())));
            }
            rest = after;
        }
        None
    }
}

/// A literal field without indexing: a name and a value of fewer than 127 bytes each.
fn literal(name: &str, value: &str) -> Vec<u8> {
    let len = |text: &str| u8::try_from(text.len()).unwrap();
    [&[0, len(name)], name.as_bytes(), &[len(value)], value.as_bytes()].concat()
}

#[test]
fn frames_that_no_state_allows_end_the_connection_with_the_reason_of_the_rfc() {
    type Case = (&'static str, fn(&mut Hostile) -> Result<(), Reason>, Reason);
    let cases: &[Case] = &[
        ("DATA on an idle stream", |h| h.send(0, 0, 1, b"x"), Reason::ProtocolError),
        ("DATA on the connection", |h| h.send(0, 0, 0, b"x"), Reason::ProtocolError),
        ("RST_STREAM on an idle stream", |h| h.send(3, 0, 1, &[0; 4]), Reason::ProtocolError),
        ("WINDOW_UPDATE on an idle stream", |h| h.send(8, 0, 1, &[0, 0, 0, 1]), Reason::ProtocolError),
        ("WINDOW_UPDATE by nothing", |h| h.send(8, 0, 0, &[0; 4]), Reason::ProtocolError),
        ("WINDOW_UPDATE over its bound", |h| h.send(8, 0, 0, &[0x7f, 0xff, 0xff, 0xff]), Reason::FlowControlError),
        ("an even stream", |h| h.post(2, END_STREAM, &[]), Reason::ProtocolError),
        ("CONTINUATION alone", |h| h.send(9, END_HEADERS, 1, &[]), Reason::ProtocolError),
        (
            "another frame within a block",
            |h| h.send(1, 0, 1, &[0x83]).and_then(|()| h.send(6, 0, 0, &[0; 8])),
            Reason::ProtocolError,
        ),
        (
            "another stream within a block",
            |h| h.send(1, 0, 1, &[0x83]).and_then(|()| h.send(9, END_HEADERS, 3, &[0x86])),
            Reason::ProtocolError,
        ),
        ("an index of no field", |h| h.send(1, 5, 1, &[0xff, 0x7f]), Reason::CompressionError),
        ("PUSH_PROMISE", |h| h.send(5, END_HEADERS, 1, &[0; 8]), Reason::ProtocolError),
        ("SETTINGS on a stream", |h| h.send(4, 0, 1, &[]), Reason::ProtocolError),
        ("SETTINGS cut short", |h| h.send(4, 0, 0, &[0; 5]), Reason::FrameSizeError),
        ("an acknowledgement with settings", |h| h.send(4, 1, 0, &[0; 6]), Reason::FrameSizeError),
        ("PING of 7 bytes", |h| h.send(6, 0, 0, &[0; 7]), Reason::FrameSizeError),
        ("PING on a stream", |h| h.send(6, 0, 1, &[0; 8]), Reason::ProtocolError),
        ("GOAWAY of 7 bytes", |h| h.send(7, 0, 0, &[0; 7]), Reason::FrameSizeError),
        ("GOAWAY on a stream", |h| h.send(7, 0, 1, &[0; 8]), Reason::ProtocolError),
        ("PRIORITY of 4 bytes", |h| h.send(2, 0, 1, &[0; 4]), Reason::FrameSizeError),
        ("RST_STREAM of 3 bytes", |h| h.send(3, 0, 1, &[0; 3]), Reason::FrameSizeError),
        ("a frame over its bound", |h| h.send(0x42, 0, 0, &[0; 16_385]), Reason::FrameSizeError),
        (
            "DATA on a stream that both have ended",
            |h| {
                h.post(1, END_STREAM, &[])?;
                h.server.respond(1, StatusCode::OK, &HeaderMap::new(), true);
                h.server.drop_writer(1, Reason::Cancel);
                h.send(0, 0, 1, b"x")
            },
            Reason::StreamClosed,
        ),
        (
            "HEADERS on a stream that the client has reset",
            |h| {
                h.post(1, 0, &[])?;
                h.send(3, 0, 1, &[0, 0, 0, 8])?;
                h.post(1, END_STREAM, &[])
            },
            Reason::StreamClosed,
        ),
        ("HEADERS on an earlier stream", |h| h.post(5, 1, &[]).and_then(|()| h.post(3, 1, &[])), Reason::StreamClosed),
        (
            "more data than the connection's window",
            |h| {
                (0..2).try_for_each(|number| h.post(1 + 2 * number, 0, &[]))?;
                (0..8).try_for_each(|number| h.send(0, 0, 1 + 2 * (number % 2), &[0; 16_384]))
            },
            Reason::FlowControlError,
        ),
        (
            "a field block over its bound",
            |h| {
                h.send(1, 0, 1, &[0x83])?;
                (0..10).try_for_each(|_| h.send(9, 0, 1, &[0x86; 1000]))
            },
            Reason::EnhanceYourCalm,
        ),
    ];
    for (what, act, expected) in cases {
        assert_eq!(act(&mut Hostile::new()), Err(*expected), "{what}");
    }
}

#[test]
fn a_malformed_message_ends_its_stream_alone() {
    type Case = (&'static str, fn(&mut Hostile) -> Result<(), Reason>, Reason);
    let cases: &[Case] = &[
        ("a connection's field", |h| h.post(1, 1, &literal("connection", "close")), Reason::ProtocolError),
        ("a name in upper case", |h| h.post(1, 1, &literal("X-A", "b")), Reason::ProtocolError),
        ("a value with a line break", |h| h.post(1, 1, &literal("x-a", "b\r\nc: d")), Reason::ProtocolError),
        ("a second method", |h| h.post(1, 1, &[0x82]), Reason::ProtocolError),
        ("a status", |h| h.post(1, 1, &[0x88]), Reason::ProtocolError),
        ("an announced body that is missing", |h| h.post(1, 1, &literal("content-length", "1")), Reason::ProtocolError),
        (
            "a body longer than announced",
            |h| h.post(1, 0, &literal("content-length", "1")).and_then(|()| h.send(0, 0, 1, b"xy")),
            Reason::ProtocolError,
        ),
        (
            "a body shorter than announced",
            |h| h.post(1, 0, &literal("content-length", "3")).and_then(|()| h.send(0, END_STREAM, 1, b"xy")),
            Reason::ProtocolError,
        ),
        (
            "trailers in place of an announced body",
            |h| h.post(1, 0, &literal("content-length", "3")).and_then(|()| h.send(1, 5, 1, &literal("x", "y"))),
            Reason::ProtocolError,
        ),
        (
            "HEADERS within a body",
            |h| h.post(1, 0, &[]).and_then(|()| h.send(1, 4, 1, &literal("x", "y"))),
            Reason::ProtocolError,
        ),
        (
            "more data than the stream's window",
            |h| h.post(1, 0, &[]).and_then(|()| (0..5).try_for_each(|_| h.send(0, 0, 1, &[0; 16_384]))),
            Reason::FlowControlError,
        ),
        ("DATA behind the end", |h| h.post(1, 1, &[]).and_then(|()| h.send(0, 0, 1, b"x")), Reason::StreamClosed),
        (
            "WINDOW_UPDATE over its bound",
            |h| h.post(1, 1, &[]).and_then(|()| h.send(8, 0, 1, &[0x7f, 0xff, 0xff, 0xff])),
            Reason::FlowControlError,
        ),
        (
            "a stream over their number",
            |h| (0..101).try_for_each(|number| h.post(201 - 2 * (100 - number), 1, &[])),
            Reason::RefusedStream,
        ),
    ];
    for (what, act, expected) in cases {
        let mut hostile = Hostile::new();
        act(&mut hostile).unwrap_or_else(|reason| panic!("{what}: the connection ended: {reason}"));
        let stream = if *expected == Reason::RefusedStream { 201 } else { 1 };
        assert_eq!(hostile.reset(stream), Some(*expected), "{what}");
        if *expected != Reason::RefusedStream {
            hostile.post(3, END_STREAM, &[]).unwrap();
            assert!(std::iter::from_fn(|| hostile.server.next_request()).any(|arrival| arrival.stream == 3), "{what}");
        }
    }
}

#[test]
fn a_head_over_its_bound_is_an_arrival_with_that_fault_and_the_table_stays_in_step() {
    let mut hostile = Hostile::new();
    // Incremental indexing: the field enters the table although its head is over the bound.
    let indexed = [&[0x40, 3][..], b"x-a", &[1], b"b"].concat();
    let many: Vec<u8> = (0..21).flat_map(|_| literal("x", "y")).collect();
    hostile.post(1, END_STREAM, &[many, indexed].concat()).unwrap();
    // The entry behind that of this head's own `:authority`.
    hostile.post(3, END_STREAM, &[0xbf]).unwrap();
    assert_eq!(hostile.server.next_request().unwrap().head.unwrap_err(), Fault::TooLarge);
    assert_eq!(hostile.server.next_request().unwrap().head.unwrap().headers["x-a"], "b");
}

#[test]
fn bytes_in_any_pieces_are_received_as_the_same_messages() {
    let mut client = Connection::new(Role::Client, CONFIG);
    for number in 0..20 {
        let id = client.open(&post(&format!("/{number}")), false);
        client.send(id, Bytes::from(vec![7; number * 50]), true);
    }
    let bytes = output(&mut client);
    for cut in [1, 2, 9, 10, 1000, bytes.len()] {
        let (mut server, mut input) = (Connection::new(Role::Server, CONFIG), BytesMut::new());
        for part in bytes.chunks(cut) {
            input.extend_from_slice(part);
            server.receive(&mut input, Duration::ZERO).unwrap();
        }
        let arrived: Vec<_> = std::iter::from_fn(|| server.next_request()).collect();
        assert_eq!(arrived.len(), 20, "{cut}");
        for (number, arrival) in arrived.into_iter().enumerate() {
            assert_eq!(arrival.head.unwrap().uri.path(), format!("/{number}"));
            assert_eq!(read(&mut server, arrival.stream).0.len(), number * 50);
        }
    }
}

#[test]
fn data_that_the_peer_never_takes_is_seen_and_progress_counts() {
    let mut pair = Pair::new();
    let id = pair.client.open(&post("/"), true);
    pair.talk();
    pair.server.respond(id, StatusCode::OK, &HeaderMap::new(), false);
    pair.server.send(id, Bytes::from(vec![0; 200_000]), true);
    pair.talk();
    pair.server.set_now(Duration::from_secs(9));
    assert_eq!(pair.server.unread_for(), Duration::from_secs(9));
    let _ = read(&mut pair.client, id);
    pair.talk();
    pair.server.set_now(Duration::from_secs(9));
    let _ = read(&mut pair.client, id);
    pair.talk();
    assert!(pair.server.unread_for() < Duration::from_secs(10));
    pair.server.drop_writer(id, Reason::Cancel);
}

#[test]
fn unread_data_in_small_pieces_takes_no_more_memory_than_its_window_explains() {
    let mut hostile = Hostile::new();
    hostile.post(1, 0, &[]).unwrap();
    hostile.post(3, 0, &[]).unwrap();
    // A byte for the stream that nobody reads, in a read that is otherwise read, or padding, and so costs the peer no window.
    for _ in 0..2000 {
        let mut frames = BytesMut::new();
        put_head(&mut frames, 1, 0, 0, 1);
        frames.extend_from_slice(b"x");
        put_head(&mut frames, 16_384, 0, 0, 3);
        frames.resize(frames.len() + 16_384, 0);
        hostile.input = frames;
        hostile.server.receive(&mut hostile.input, Duration::ZERO).unwrap();
        let _ = read(&mut hostile.server, 3);
        let _ = output(&mut hostile.server);
    }
    let pieces = hostile.server.stream(1).unwrap().data.len();
    assert!(pieces <= 2, "{pieces} pieces, each of which keeps what was read with it");
    assert_eq!(read(&mut hostile.server, 1).0, vec![b'x'; 2000]);
}

#[test]
fn streams_that_end_while_they_wait_for_the_connections_window_are_forgotten() {
    let mut hostile = Hostile::new();
    for number in 0..500 {
        let id = number * 2 + 1;
        hostile.post(id, END_STREAM, &[]).unwrap();
        hostile.server.respond(id, StatusCode::OK, &HeaderMap::new(), false);
        hostile.server.send(id, Bytes::from(vec![0; 60_000]), true);
        output(&mut hostile.server);
        hostile.send(3, 0, id, &[0, 0, 0, 8]).unwrap();
        hostile.server.drop_writer(id, Reason::Cancel);
    }
    assert!(hostile.server.blocked.len() < 10, "{} streams wait", hostile.server.blocked.len());
}

#[test]
fn requests_ignored_behind_a_go_away_never_end_those_before_it() {
    let mut hostile = Hostile::new();
    hostile.post(1, 0, &[]).unwrap();
    hostile.server.say_go_away(true);
    for number in 1..600 {
        hostile.post(number * 2 + 1, 0, &[]).unwrap();
    }
    for number in 1..600 {
        hostile.send(0, END_STREAM, number * 2 + 1, b"x").unwrap();
    }
    hostile.send(0, END_STREAM, 1, b"y").unwrap();
    assert_eq!(read(&mut hostile.server, 1).0, b"y");
}

#[test]
fn answers_to_any_number_of_requests_that_were_given_up_are_dropped() {
    let mut pair = Pair::new();
    pair.server.config.streams_max = 1000;
    pair.talk();
    let ids: Vec<u32> = (0..600).map(|_| pair.client.open(&post("/"), true)).collect();
    let bytes = output(&mut pair.client);
    pair.to_server.extend_from_slice(&bytes);
    pair.server.receive(&mut pair.to_server, Duration::ZERO).unwrap();
    for id in &ids {
        pair.server.respond(*id, StatusCode::OK, &HeaderMap::new(), false);
        pair.server.send(*id, Bytes::from_static(b"x"), true);
    }
    for id in ids {
        pair.client.drop_reader(id);
        pair.client.drop_writer(id, Reason::Cancel);
    }
    pair.talk();
    let next = pair.client.open(&post("/"), true);
    pair.talk();
    pair.server.respond(next, StatusCode::OK, &HeaderMap::new(), true);
    pair.talk();
    assert!(matches!(pair.client.poll_response(next, &mut cx()), Poll::Ready(Ok(_))));
}

#[test]
fn an_extended_connect_that_was_never_allowed_is_malformed() {
    let mut hostile = Hostile::new();
    let block = [&[0x02, 7][..], b"CONNECT", &[0x86, 0x84, 0x41, 1, b'h'], &literal(":protocol", "websocket")].concat();
    hostile.send(1, END_HEADERS, 1, &block).unwrap();
    assert_eq!(hostile.reset(1), Some(Reason::ProtocolError));
    assert!(hostile.server.next_request().is_none());
}

#[test]
fn a_request_that_is_reset_before_it_is_taken_never_arrives() {
    let mut hostile = Hostile::new();
    hostile.post(1, END_STREAM, &[]).unwrap();
    hostile.post(3, 0, &[]).unwrap();
    hostile.send(0, 0, 3, &[0; 1000]).unwrap();
    hostile.send(3, 0, 3, &[0, 0, 0, 8]).unwrap();
    let arrived: Vec<u32> =
        std::iter::from_fn(|| hostile.server.next_request()).map(|arrival| arrival.stream).collect();
    assert_eq!(arrived, [1]);
    assert!(hostile.server.at(3).is_none(), "it is forgotten");
}

#[test]
fn small_pieces_that_wait_share_a_frame() {
    let mut pair = Pair::new();
    let id = pair.client.open(&post("/"), false);
    pair.talk();
    for number in 0..300_u32 {
        pair.client.send(id, Bytes::from(vec![number as u8; 100]), number == 299);
    }
    let bytes = output(&mut pair.client);
    assert_eq!(bytes.len(), 30_000 + 2 * 9, "two frames");
    pair.to_server.extend_from_slice(&bytes);
    pair.server.receive(&mut pair.to_server, Duration::ZERO).unwrap();
    let (data, _, is_end) = read(&mut pair.server, id);
    assert_eq!(is_end, Ok(true));
    assert!(data.chunks(100).enumerate().all(|(number, piece)| piece == vec![number as u8; 100]));
}

#[test]
fn padding_alone_is_a_flood_like_empty_data() {
    let mut hostile = Hostile::new();
    hostile.post(1, 0, &[]).unwrap();
    let flood = (0..3000).try_for_each(|_| hostile.send(0, super::frame::PADDED, 1, &[2, 0, 0]));
    assert_eq!(flood, Err(Reason::EnhanceYourCalm));
}

/// A transport that flushes nothing until it has been read from often enough, as TLS does while the peer does not read.
struct Flushing<IO> {
    io: IO,
    reads_left: u32,
}

impl<IO: tokio::io::AsyncRead + Unpin> tokio::io::AsyncRead for Flushing<IO> {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut Context<'_>,
        read: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        std::task::ready!(std::pin::Pin::new(&mut self.io).poll_read(cx, read))?;
        self.reads_left = self.reads_left.saturating_sub(1);
        Poll::Ready(Ok(()))
    }
}

impl<IO: tokio::io::AsyncWrite + Unpin> tokio::io::AsyncWrite for Flushing<IO> {
    fn poll_write(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        std::pin::Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(self: std::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        if self.reads_left > 0 { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    fn poll_shutdown(mut self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        std::pin::Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// Serves a connection of this engine: each request is answered with 200 as soon as it has arrived.
async fn answering(mut io: tokio::io::DuplexStream, config: Config) {
    use tokio::io::AsyncReadExt;
    let (mut server, mut input) = (Connection::new(Role::Server, config), BytesMut::new());
    loop {
        std::future::poll_fn(|cx| server.poll_write(&mut io, cx)).await.unwrap();
        if io.read_buf(&mut input).await.unwrap() == 0 {
            return;
        }
        server.receive(&mut input, Duration::ZERO).unwrap();
        while let Some(arrival) = server.next_request() {
            server.respond(arrival.stream, StatusCode::OK, &HeaderMap::new(), true);
        }
    }
}

type NoBody = http_body_util::Empty<Bytes>;

#[tokio::test]
async fn a_client_reads_while_the_transport_cannot_flush() {
    let (near, far) = tokio::io::duplex(100_000);
    let (sender, drive) = super::connect(Flushing { io: near, reads_left: 2 }, CONFIG, None);
    let _serving = tokio::spawn(answering(far, CONFIG));
    let _driving = tokio::spawn(drive);
    let talk = async {
        let mut exchange = sender.send(post("/"), None::<NoBody>).await.unwrap();
        std::future::poll_fn(|cx| exchange.poll_response(cx)).await.unwrap().status
    };
    assert_eq!(tokio::time::timeout(Duration::from_secs(5), talk).await.unwrap(), 200);
}

#[tokio::test]
async fn a_request_that_gives_up_its_wait_for_a_stream_leaves_the_stream_to_the_next() {
    let (near, far) = tokio::io::duplex(100_000);
    let (sender, drive) = super::connect(near, CONFIG, None);
    let _driving = tokio::spawn(drive);
    let (mut server, mut input) = (Connection::new(Role::Server, Config { streams_max: 1, ..CONFIG }), BytesMut::new());
    let mut far = far;
    std::future::poll_fn(|cx| server.poll_write(&mut far, cx)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let first = sender.send(post("/"), None::<NoBody>).await.unwrap();
    let waits = || {
        let sender = sender.clone();
        tokio::spawn(async move { sender.send(post("/"), None::<NoBody>).await.map(drop).map_err(drop) })
    };
    let gives_up = waits();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let next = waits();
    tokio::time::sleep(Duration::from_millis(20)).await;
    gives_up.abort();
    let _ = gives_up.await;
    let arrival = loop {
        tokio::io::AsyncReadExt::read_buf(&mut far, &mut input).await.unwrap();
        server.receive(&mut input, Duration::ZERO).unwrap();
        if let Some(arrival) = server.next_request() {
            break arrival;
        }
    };
    server.respond(arrival.stream, StatusCode::OK, &HeaderMap::new(), true);
    std::future::poll_fn(|cx| server.poll_write(&mut far, cx)).await.unwrap();
    tokio::time::timeout(Duration::from_secs(5), next).await.expect("it is sent").unwrap().unwrap();
    drop(first);
}

#[tokio::test]
async fn a_connection_ends_with_whole_frames_however_slowly_they_are_read() {
    let (near, mut far) = tokio::io::duplex(10);
    let (sender, drive) = super::connect(near, CONFIG, None);
    let driving = tokio::spawn(drive);
    drop(sender.send(post("/"), None::<NoBody>).await.unwrap());
    drop(sender);
    let mut bytes = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut far, &mut bytes).await.unwrap();
    driving.await.unwrap().unwrap();
    let (mut rest, mut kinds) = (bytes.strip_prefix(PREFACE).unwrap(), Vec::new());
    while let Some((head, behind)) = rest.split_first_chunk::<9>() {
        kinds.push(head[3]);
        rest = behind.get(usize::from(head[1]) << 8 | usize::from(head[2])..).expect("a whole frame");
    }
    assert!(rest.is_empty() && kinds.ends_with(&[1, 3, 7]), "{kinds:?}");
}
