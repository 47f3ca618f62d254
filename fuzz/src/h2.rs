//! `h2-server`, `h2-client`: a connection of HTTP/2 against a peer that sends any bytes, in any pieces, while its own side acts.
//!
//! Input: the number of actions, the actions, a byte each, then what the peer sends; the preface of a client is not part of it.
//! The lowest three bits of an action say what happens, the others to which stream, or how much of it. After the last action the
//! rest arrives at once.

use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use sealway_runtime::http::h2::hpack::Decoder;
use sealway_runtime::http::h2::{Config, Connection, FieldLimits, PREFACE, Reason, RequestHead, Role};

const CONFIG: Config = Config {
    streams_max: 5,
    stream_window: 1000,
    connection_window: 65_535,
    fields: FieldLimits { bytes_max: 1000, fields_max: 16 },
    pending_max: 100,
    connect_protocol: true,
};
/// Longest piece of a body that this side sends, in bytes.
const PIECE_MAX: usize = 300;
/// Largest output that waits while input is still taken, with what one read may add to it, in bytes.
const OUTPUT_MAX: usize = 512 * 1024;
/// Memory of a field block that has not arrived whole, in bytes: one frame over the bound.
const BLOCK_MAX: usize = 2 * 1000 + 16 * 1024;
const FRAME_MAX: usize = 16 * 1024;

/// The fuzz target for a server.
pub fn h2_server(data: &[u8]) {
    run(Role::Server, data);
}

/// The fuzz target for a client.
pub fn h2_client(data: &[u8]) {
    run(Role::Client, data);
}

fn run(role: Role, data: &[u8]) {
    let Some((count, rest)) = data.split_first() else { return };
    let (actions, sent) = rest.split_at(rest.len().min(usize::from(*count)));
    let mut side = Side::new(role, sent);
    for action in actions {
        side.act(action & 7, usize::from(action >> 3));
        side.is_bounded();
    }
    side.feed(usize::MAX);
    side.read_all();
    side.write();
    side.is_bounded();
    side.connection.close();
    side.read_all();
    side.is_bounded();
    assert_eq!(side.connection.open_streams(), 0);
}

/// One side of a connection and what it has done.
struct Side<'a> {
    role: Role,
    connection: Connection,
    input: BytesMut,
    /// Message that the peer will send.
    rest: &'a [u8],
    has_failed: bool,
    now: Duration,
    ids: Vec<u32>,
    output: Output,
}

impl<'a> Side<'a> {
    fn new(role: Role, rest: &'a [u8]) -> Side<'a> {
        let mut input = BytesMut::new();
        if role == Role::Server {
            input.extend_from_slice(PREFACE);
        }
        let connection = Connection::new(role, CONFIG);
        let output = Output::new(role, rest);
        Side { role, connection, input, rest, has_failed: false, now: Duration::ZERO, ids: Vec::new(), output }
    }

    fn act(&mut self, what: u8, how: usize) {
        if self.has_failed && !matches!(what, 1 | 4) {
            // A driver writes the GOAWAY, and its readers read what is there.
            return;
        }
        let id = self.ids.get(how % self.ids.len().max(1)).copied().unwrap_or(1);
        let cx = &mut cx();
        match what {
            0 => self.feed([1, 2, 8, 9, 10, 20, 100, 1000][how % 8]),
            1 => self.write(),
            2 if self.role == Role::Client => self.open(how),
            2 => self.respond(id, how),
            3 => self.send(id, how),
            4 => drop(self.connection.poll_piece(id, cx)),
            5 => match how % 4 {
                0 => self.connection.reset(id, Reason::Cancel),
                1 => self.connection.drop_reader(id),
                2 => self.connection.drop_writer(id, Reason::InternalError),
                _ => {
                    self.connection.drop_reader(id);
                    self.connection.drop_writer(id, Reason::Cancel);
                }
            },
            6 => match how % 4 {
                0 => self.connection.say_go_away(false),
                1 => self.connection.say_go_away(true),
                2 => self.connection.ping(),
                _ => drop(self.connection.poll_response(id, cx)),
            },
            _ => {
                self.now += Duration::from_millis(how as u64 * 100);
                self.connection.set_now(self.now);
                assert!(self.connection.end_unread(Duration::from_secs(60)) || self.now >= Duration::from_secs(60));
                self.connection.rest();
            }
        }
    }

    /// Lets a part of the peer's bytes arrive.
    fn feed(&mut self, len: usize) {
        if self.has_failed || !self.connection.takes_input() {
            return;
        }
        let (part, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        self.input.extend_from_slice(part);
        if let Err(error) = self.connection.receive(&mut self.input, self.now) {
            self.has_failed = true;
            self.connection.fail(error);
        } else {
            let _ = self.connection.is_amid_head(&self.input);
            // What is left is less than a frame.
            assert!(self.input.len() < 9 + FRAME_MAX);
        }
        while let Some(arrival) = self.connection.next_request() {
            assert!(arrival.stream % 2 == 1 && self.ids.last().is_none_or(|last| *last < arrival.stream));
            if let Ok(head) = &arrival.head {
                assert!(head.headers.len() <= CONFIG.fields.fields_max);
                assert!(head.headers.iter().all(|(name, value)| {
                    name != "connection" && !value.as_bytes().iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0))
                }));
            }
            self.ids.push(arrival.stream);
        }
        assert!(self.connection.open_streams() <= 1 + self.ids.len());
        if self.role == Role::Server {
            assert!(self.connection.open_streams() <= CONFIG.streams_max as usize);
        }
    }

    fn open(&mut self, how: usize) {
        if let Poll::Ready(Ok(())) = self.connection.poll_can_open(&cx()) {
            let method = if how & 8 == 0 { Method::POST } else { Method::HEAD };
            // One long head is enough: it takes most of the time.
            let headers = fields(if self.ids.is_empty() { how } else { how % 16 });
            let uri = Uri::from_static("http://a.example/x");
            let id = self.connection.open(&RequestHead { method, uri, headers, protocol: None }, how & 4 != 0);
            assert!(self.ids.last().is_none_or(|last| *last < id));
            self.ids.push(id);
        }
    }

    fn respond(&mut self, id: u32, how: usize) {
        // A service answers once; that a stream has not been opened is not for the engine to find out.
        if !self.ids.contains(&id) || self.output.answered.contains(&id) {
            return;
        }
        match how % 8 {
            0 => self.connection.interim(id, StatusCode::EARLY_HINTS, &fields(how)),
            1..4 => {
                self.output.answered.push(id);
                self.connection.respond(id, StatusCode::OK, &fields(how), true);
            }
            _ => {
                self.output.answered.push(id);
                self.connection.respond(id, StatusCode::NOT_FOUND, &fields(how), false);
            }
        }
    }

    fn send(&mut self, id: u32, how: usize) {
        let may_send = self.role == Role::Client || self.output.answered.contains(&id);
        if !may_send || !self.connection.poll_room(id, &cx()).is_ready() {
            return;
        }
        match how % 4 {
            0 => self.connection.send_trailers(id, fields(how)),
            1 => self.connection.send(id, Bytes::new(), how & 4 != 0),
            _ => self.connection.send(id, Bytes::from(vec![b'x'; PIECE_MAX * (how % 5) / 4]), how & 4 != 0),
        }
    }

    fn write(&mut self) {
        let mut bytes = Vec::new();
        assert!(self.connection.poll_write(&mut bytes, &mut cx()).is_ready());
        self.output.take(&bytes);
    }

    fn read_all(&mut self) {
        for id in self.ids.clone() {
            let mut read = 0;
            while let Poll::Ready(Some(Ok(piece))) = self.connection.poll_piece(id, &mut cx()) {
                read += piece.data_ref().map_or(0, Bytes::len);
            }
            assert!(read <= CONFIG.stream_window as usize, "{read} bytes were not read before");
        }
    }

    fn is_bounded(&self) {
        let streams = self.ids.len().max(1);
        let held = self.connection.held();
        let bound =
            2 * CONFIG.connection_window as usize + streams * (CONFIG.pending_max + PIECE_MAX) + BLOCK_MAX + OUTPUT_MAX;
        assert!(held <= bound, "{held} bytes are held");
    }
}

fn cx() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn fields(how: usize) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for number in 0..how % 3 {
        headers.append("x-a", HeaderValue::from(number));
    }
    if how == 31 {
        headers.append("x-long", HeaderValue::from_bytes(&[b'\xfe'; 20_000]).expect("a value"));
    }
    headers
}

/// Output of the connection, as its peer reads it.
struct Output {
    role: Role,
    bytes: Vec<u8>,
    expects_preface: bool,
    decoder: Decoder,
    /// The block that has not ended, and its stream.
    block: Option<(u32, Vec<u8>)>,
    streams: BTreeMap<u32, StreamOutput>,
    answered: Vec<u32>,
    last: u32,
    is_over: bool,
    /// Number of bytes that the peer allows at most, of the connection and of each stream: all of its updates, whenever they come.
    window: u64,
    windows: BTreeMap<u32, u64>,
    first_window: u64,
    sent: u64,
}

/// Frames that were written on one stream, so far.
#[derive(Default)]
struct StreamOutput {
    has_head: bool,
    is_ended: bool,
    is_reset: bool,
    len: u64,
}

impl Output {
    fn new(role: Role, input: &[u8]) -> Output {
        let mut output = Output {
            role,
            bytes: Vec::new(),
            expects_preface: role == Role::Client,
            // The peer's setting may be smaller or larger; this side never uses more than the default.
            decoder: Decoder::new(4096),
            block: None,
            streams: BTreeMap::new(),
            answered: Vec::new(),
            last: u32::MAX,
            is_over: false,
            window: 65_535,
            windows: BTreeMap::new(),
            first_window: 65_535,
            sent: 0,
        };
        output.allow(input);
        output
    }

    /// Adds up what the peer's frames allow.
    fn allow(&mut self, mut input: &[u8]) {
        while let Some((head, rest)) = input.split_first_chunk::<9>() {
            let len = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            let Some((payload, rest)) = rest.split_at_checked(len) else { return };
            input = rest;
            let id = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
            match (head[3], payload.first_chunk::<4>()) {
                (8, Some(increment)) => {
                    let increment = u64::from(u32::from_be_bytes(*increment) & 0x7fff_ffff);
                    if id == 0 {
                        self.window += increment;
                    } else {
                        *self.windows.entry(id).or_default() += increment;
                    }
                }
                (4, _) => {
                    for setting in payload.as_chunks::<6>().0 {
                        if setting[..2] == [0, 4] {
                            let window = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
                            self.first_window = self.first_window.max(u64::from(window));
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Takes what was written, which must be whole frames.
    fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.bytes);
        let mut rest = &bytes[..];
        if self.expects_preface && !rest.is_empty() {
            rest = rest.strip_prefix(PREFACE).expect("the preface");
            self.expects_preface = false;
        }
        while !rest.is_empty() {
            let (head, behind) = rest.split_first_chunk::<9>().expect("the head of a frame");
            let len = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            assert!(len <= FRAME_MAX);
            let (payload, behind) = behind.split_at_checked(len).expect("a whole frame");
            let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            self.frame(head[3], head[4], id, payload);
            rest = behind;
        }
    }

    fn frame(&mut self, kind: u8, flags: u8, id: u32, payload: &[u8]) {
        assert!(!self.is_over, "a frame of type {kind} behind the last GOAWAY");
        assert!(self.block.is_none() || kind == 9, "a frame of type {kind} within a block");
        let len = payload.len();
        match kind {
            0 => {
                let sent = self.streams.get_mut(&id).expect("DATA behind a head");
                assert!(sent.has_head && !sent.is_ended && !sent.is_reset, "DATA on {id}");
                sent.is_ended = flags & 1 != 0;
                sent.len += len as u64;
                self.sent += len as u64;
                let allowed = self.first_window + self.windows.get(&id).copied().unwrap_or_default();
                assert!(sent.len <= allowed, "{} bytes on {id}, {allowed} are allowed", sent.len);
                assert!(self.sent <= self.window, "{} bytes, {} are allowed", self.sent, self.window);
                assert!(len > 0 || sent.is_ended, "empty DATA that ends nothing");
            }
            1 => {
                assert!(id % 2 == 1);
                let sent = self.streams.entry(id).or_default();
                assert!(!sent.is_ended && !sent.is_reset, "HEADERS on {id}");
                sent.has_head = true;
                sent.is_ended = flags & 1 != 0;
                self.block(id, flags, payload.to_vec());
            }
            3 => {
                assert!(len == 4 && id != 0);
                let sent = self.streams.entry(id).or_default();
                assert!(!sent.is_reset, "a second RST_STREAM on {id}");
                assert!(sent.has_head || self.role == Role::Server, "RST_STREAM before the head of {id}");
                sent.is_reset = true;
            }
            4 => assert!(id == 0 && (len == 0) == (flags & 1 != 0)),
            6 => assert!(id == 0 && len == 8),
            7 => {
                assert!(id == 0 && len == 8);
                let last = u32::from_be_bytes([payload[0], payload[1], payload[2], payload[3]]);
                assert!(last <= self.last, "GOAWAY names {last} behind {}", self.last);
                self.last = last;
                // Nothing follows one that tells an error.
                self.is_over = payload[4..] != [0; 4];
            }
            8 => {
                assert!(len == 4 && payload.iter().any(|byte| *byte != 0));
                assert!(id == 0 || self.streams.get(&id).is_none_or(|sent| !sent.is_reset), "WINDOW_UPDATE on {id}");
            }
            9 => {
                let (stream, mut block) = self.block.take().expect("CONTINUATION behind HEADERS");
                assert_eq!(id, stream);
                block.extend_from_slice(payload);
                self.block(id, flags, block);
            }
            other => panic!("a frame of type {other}"),
        }
    }

    fn block(&mut self, id: u32, flags: u8, block: Vec<u8>) {
        if flags & 4 == 0 {
            self.block = Some((id, block));
            return;
        }
        self.decoder.decode(&block, &mut |_, _| {}).expect("a block that decodes");
    }
}
