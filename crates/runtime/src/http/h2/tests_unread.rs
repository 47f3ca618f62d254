//! Peers that do not read, or read a little now and then.

use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};

use super::tests::{CONFIG, cx, output};
use super::{Connection, PREFACE, Reason, Role, StreamError, UNREAD_LEN};

const TIME: Duration = Duration::from_secs(60);
const LARGE: usize = 200_000;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, high, middle, low] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[high, middle, low, kind, flags], &stream.to_be_bytes()[..], payload].concat()
}

/// A server, and the frames of a client that decides by hand what it reads.
struct Server {
    connection: Connection,
    now: Duration,
}

impl Server {
    /// Begins with a client whose streams have a window of this length.
    fn new(window: u32) -> Server {
        let mut server = Server { connection: Connection::new(Role::Server, CONFIG), now: Duration::ZERO };
        let setting = [&[0, 4][..], &window.to_be_bytes()].concat();
        server.receive(&[&PREFACE[..], &frame(4, 0, 0, &setting)].concat());
        server
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.connection.receive(&mut BytesMut::from(bytes), self.now).unwrap();
    }

    /// Answers a new request on a stream with this number of bytes.
    fn answer(&mut self, stream: u32, len: usize) {
        self.receive(&frame(1, 5, stream, &[0x82, 0x86, 0x84, 0x41, 1, b'h']));
        assert_eq!(self.connection.next_request().unwrap().stream, stream);
        self.connection.respond(stream, StatusCode::OK, &HeaderMap::new(), false);
        self.connection.send(stream, Bytes::from(vec![b'x'; len]), true);
        output(&mut self.connection);
    }

    /// Gives the peer's window of a stream, or of the connection, and writes what it allows.
    fn update(&mut self, stream: u32, by: u32) {
        self.receive(&frame(8, 0, stream, &by.to_be_bytes()));
        output(&mut self.connection);
    }

    /// Lets a second pass. Returns whether the connection is still read, and the output.
    fn second(&mut self) -> (bool, Vec<u8>) {
        self.now += Duration::from_secs(1);
        self.connection.set_now(self.now);
        (self.connection.end_unread(TIME), output(&mut self.connection))
    }

    fn ended(&mut self, stream: u32) -> Option<StreamError> {
        match self.connection.poll_ended(stream, &cx()) {
            Poll::Ready(error) => Some(error),
            Poll::Pending => None,
        }
    }
}

#[test]
fn a_stream_that_is_not_read_is_reset_alone_and_its_memory_is_free() {
    let mut server = Server::new(1_000);
    server.answer(1, LARGE);
    server.answer(3, LARGE);
    for second in 1..60 {
        server.update(3, 1_000);
        server.update(0, 1_000);
        assert_eq!(server.second(), (true, Vec::new()), "after {second} s");
    }
    assert!(server.connection.held() > LARGE);
    server.update(3, 1_000);
    assert_eq!(server.second(), (true, frame(3, 0, 1, &Reason::Cancel.code().to_be_bytes())));
    assert_eq!(server.ended(1), Some(StreamError::GivenUp(Reason::Cancel)));
    assert_eq!(server.ended(3), None);
    assert!(server.connection.held() < LARGE);
    // The other stream goes on to its end.
    server.update(0, 1_000_000);
    server.update(3, 1_000_000);
    assert_eq!(server.connection.held(), 0);
}

#[test]
fn a_stream_that_is_read_by_a_few_bytes_now_and_then_is_reset_and_one_at_the_lowest_rate_is_not() {
    let a_second = u32::try_from(UNREAD_LEN.div_ceil(60)).unwrap();
    for (by, is_reset) in [(1, true), (a_second - 2, true), (a_second + 1, false)] {
        let mut server = Server::new(0);
        server.answer(1, LARGE);
        let mut reset_at = None;
        for second in 1..=600 {
            server.update(1, by);
            assert!(server.second().0, "the connection is read");
            if server.ended(1).is_some() {
                reset_at = Some(second);
                break;
            }
        }
        assert_eq!(reset_at, is_reset.then_some(60), "{by} bytes a second");
    }
}

#[test]
fn a_stream_that_waits_for_its_answer_is_not_unread_however_long_it_takes() {
    let mut server = Server::new(1_000);
    server.receive(&frame(1, 5, 1, &[0x82, 0x86, 0x84, 0x41, 1, b'h']));
    server.connection.respond(1, StatusCode::OK, &HeaderMap::new(), false);
    server.connection.send(1, Bytes::from(vec![b'x'; 1_000]), false);
    output(&mut server.connection);
    for _ in 0..600 {
        assert_eq!(server.second(), (true, Vec::new()));
    }
    // From now on the peer is awaited.
    server.connection.send(1, Bytes::from_static(b"more"), true);
    for _ in 0..59 {
        assert_eq!(server.second(), (true, Vec::new()));
    }
    server.second();
    assert!(server.ended(1).is_some());
}

#[test]
fn a_connection_whose_window_stays_closed_is_not_read() {
    let mut server = Server::new(1_000_000);
    server.answer(1, LARGE);
    server.answer(3, LARGE);
    for second in 1..60 {
        assert_eq!(server.second(), (true, Vec::new()), "after {second} s");
    }
    assert!(!server.second().0);
    // The window of the connection was taken by a stream whose reader has gone: its reset gives the peer a reason to open it.
    let mut server = Server::new(65_535);
    server.answer(1, LARGE);
    server.answer(3, LARGE);
    (0..60).for_each(|_| assert!(server.second().0));
    assert!(server.ended(1).is_some() && server.ended(3).is_none());
    server.update(0, 65_535);
    (0..59).for_each(|_| assert!(server.second().0));
    assert!(server.ended(3).is_none());
}

#[test]
fn data_that_waits_for_the_transport_is_not_unread() {
    let mut server = Server::new(1_000_000);
    server.answer(1, 60_000);
    server.update(0, 1_000_000);
    server.receive(&frame(1, 5, 3, &[0x82, 0x86, 0x84, 0x41, 1, b'h']));
    server.connection.respond(3, StatusCode::OK, &HeaderMap::new(), false);
    server.connection.send(3, Bytes::from(vec![b'x'; LARGE]), true);
    for _ in 0..200 {
        server.now += Duration::from_secs(1);
        server.connection.set_now(server.now);
        assert!(server.connection.end_unread(TIME));
    }
    assert!(server.ended(3).is_none());
    output(&mut server.connection);
    assert_eq!(server.connection.held(), 0);
}
