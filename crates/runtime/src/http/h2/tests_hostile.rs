//! Peers that break the rules, and that flood: each gets the answer of RFC 9113, and no other stream suffers.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};

use super::frame::{END_HEADERS, END_STREAM, put_head};
use super::tests::{CONFIG, output, read};
use super::{Config, Connection, Fault, PREFACE, Reason, Role};

/// A server, and what a client with other manners sends.
pub(super) struct Hostile {
    pub(super) server: Connection,
    input: BytesMut,
}

impl Hostile {
    fn new() -> Hostile {
        Hostile::with(CONFIG)
    }

    pub(super) fn with(config: Config) -> Hostile {
        let mut hostile = Hostile { server: Connection::new(Role::Server, config), input: BytesMut::new() };
        hostile.input.extend_from_slice(PREFACE);
        hostile.send(4, 0, 0, &[]).unwrap();
        output(&mut hostile.server);
        hostile
    }

    pub(super) fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<(), Reason> {
        put_head(&mut self.input, payload.len(), kind, flags, stream);
        self.input.extend_from_slice(payload);
        self.server.receive(&mut self.input, Duration::ZERO).map_err(|err| err.reason)
    }

    /// Opens a stream with a POST, whose block has these fields besides.
    pub(super) fn post(&mut self, stream: u32, flags: u8, more: &[u8]) -> Result<(), Reason> {
        let block = [&[0x83, 0x86, 0x84, 0x41, 1, b'h'], more].concat();
        self.send(1, flags | END_HEADERS, stream, &block)
    }

    /// Returns the reason of the RST_STREAM of a stream, if there is one in the output.
    pub(super) fn reset(&mut self, stream: u32) -> Option<Reason> {
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
pub(super) fn literal(name: &str, value: &str) -> Vec<u8> {
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
fn padding_alone_is_a_flood_like_empty_data() {
    let mut hostile = Hostile::new();
    hostile.post(1, 0, &[]).unwrap();
    let flood = (0..3000).try_for_each(|_| hostile.send(0, super::frame::PADDED, 1, &[2, 0, 0]));
    assert_eq!(flood, Err(Reason::EnhanceYourCalm));
}
