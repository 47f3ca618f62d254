//! Plan of a conversation, decided by its seed alone: both sides derive the same plan.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, COOKIE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

/// End of the path of a first request that is not part of the plan. Its answer follows the server's settings: before these, a client
/// may send more requests than the server allows, and hyper ends the connection of one whose trailers follow then.
pub(crate) const FIRST: &str = "/first";

/// A xorshift generator of random numbers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        let mut random = Random((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (0..4).for_each(|_| _ = random.next());
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((self.next() >> 32) as usize) % end
    }

    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// True in one of `of` cases.
    pub(crate) fn one_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }
}

/// A body as its sender produces it.
#[derive(Clone, Debug, Default)]
pub(crate) struct BodyPlan {
    /// Lengths of the pieces of the body.
    pub(crate) pieces: Vec<usize>,
    pub(crate) is_announced: bool,
    pub(crate) trailers: Option<HeaderMap>,
    /// Number of pieces after which it fails.
    pub(crate) fails_after: Option<usize>,
    /// True if the sender waits before each piece.
    pub(crate) is_slow: bool,
    /// True if the body says before its end is polled that it is there.
    pub(crate) says_end: bool,
    /// Makes its bytes differ from those of other bodies.
    pub(crate) salt: u8,
}

impl BodyPlan {
    fn new(random: &mut Random) -> BodyPlan {
        let len = match random.below(16) {
            0..4 => 0,
            4..10 => random.below(2_000),
            10..13 => random.below(20_000),
            13..15 => random.below(70_000),
            _ => random.below(200 * 1024),
        };
        let piece_max = random.pick(&[7, 1_000, 16_384, 16_385, 100_000]).max(len / 300);
        let (mut pieces, mut left) = (Vec::new(), len);
        while left > 0 {
            let piece = (1 + random.below(piece_max)).min(left);
            pieces.push(piece);
            left -= piece;
        }
        BodyPlan {
            pieces,
            is_announced: random.one_in(2),
            trailers: random.one_in(4).then(|| fields(random, 4)),
            fails_after: None,
            is_slow: random.one_in(3),
            says_end: random.one_in(2),
            salt: random.next() as u8,
        }
    }

    /// Joins small pieces: hyper ends a connection with about a hundred small DATA frames that it has not read.
    fn join_small_pieces(&mut self) {
        const SMALL: usize = 256;
        let mut pieces: Vec<usize> = Vec::new();
        for piece in self.pieces.drain(..) {
            match pieces.last_mut() {
                Some(last) if *last < SMALL => *last += piece,
                _ => pieces.push(piece),
            }
        }
        self.fails_after = self.fails_after.map(|after| after.min(pieces.len()));
        self.pieces = pieces;
    }

    pub(crate) fn len(&self) -> usize {
        self.pieces.iter().sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.trailers.is_none() && self.fails_after.is_none()
    }

    /// Returns the bytes at `at`.
    pub(crate) fn bytes(&self, at: usize, len: usize) -> Bytes {
        (at..at + len).map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ self.salt).collect()
    }
}

/// Time at which the server reads the body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// All of it before it answers.
    First,
    /// The body is read while the server answers.
    Meanwhile,
    /// The body is not read at all.
    Never,
}

/// One request and its answer.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: BodyPlan,
    /// Number of times that the client is polled until it gives the request up.
    pub(crate) given_up_after: Option<usize>,
    pub(crate) reading: Reading,
    pub(crate) interim: Vec<(StatusCode, HeaderMap)>,
    pub(crate) status: StatusCode,
    pub(crate) answer_headers: HeaderMap,
    pub(crate) answer: BodyPlan,
    /// True if each side waits before it reads a piece.
    pub(crate) reads_slowly: bool,
}

impl Exchange {
    /// Returns the first request of a conversation.
    pub(crate) fn first(seed: u64) -> Exchange {
        Exchange {
            method: Method::GET,
            path: format!("/{seed}{FIRST}"),
            headers: HeaderMap::new(),
            body: BodyPlan::default(),
            given_up_after: None,
            reading: Reading::Never,
            interim: Vec::new(),
            status: StatusCode::OK,
            answer_headers: HeaderMap::new(),
            answer: BodyPlan::default(),
            reads_slowly: false,
        }
    }
}

/// Windows and other settings of one side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) streams_max: u32,
    pub(crate) stream_window: u32,
    pub(crate) connection_window: u32,
    pub(crate) frame_max: u32,
    pub(crate) table_size: u32,
    pub(crate) send_max: usize,
}

impl Settings {
    fn new(random: &mut Random) -> Settings {
        Settings {
            streams_max: random.pick(&[1, 2, 5, 100]),
            stream_window: random.pick(&[100, 5_000, 65_535, 300_000]),
            connection_window: random.pick(&[65_535, 70_000, 500_000]),
            frame_max: random.pick(&[16_384, 20_000, 100_000]),
            table_size: random.pick(&[0, 100, 4_096, 20_000]),
            send_max: random.pick(&[1_000, 16_000, 100_000]),
        }
    }
}

/// A conversation: one connection with several exchanges.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) client: Settings,
    pub(crate) server: Settings,
    /// Largest number of bytes in one read or write of the transport.
    pub(crate) cut_max: usize,
    /// Number of bytes that are on their way at most.
    pub(crate) pipe_len: usize,
    pub(crate) exchanges: Vec<Exchange>,
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Plan {
        let random = &mut Random::new(seed);
        let (client, server) = (Settings::new(random), Settings::new(random));
        let cut_max = random.pick(&[40, 500, 9_000, 70_000, 70_000]);
        let pipe_len = random.pick(&[1_000, 20_000, 300_000]);
        let count = 1 + random.below(8);
        let mut exchanges: Vec<_> = (0..count).map(|number| exchange(random, seed, number)).collect();
        if cut_max < 1_000 || client.stream_window < 1_000 || server.stream_window < 1_000 {
            // Otherwise these few take most of the time.
            for exchange in &mut exchanges {
                shorten(&mut exchange.body);
                shorten(&mut exchange.answer);
            }
        }
        Plan { seed, client, server, cut_max, pipe_len, exchanges }
    }

    /// Makes a plan in which the server sends interim answers as well.
    pub(crate) fn with_interim(seed: u64) -> Plan {
        let mut plan = Plan::new(seed);
        let random = &mut Random::new(!seed);
        for exchange in &mut plan.exchanges {
            let interim = (0..random.below(4).saturating_sub(1))
                .map(|_| (random.pick(&[StatusCode::PROCESSING, StatusCode::EARLY_HINTS]), fields(random, 3)));
            exchange.interim = interim.collect();
        }
        plan
    }

    /// Makes a plan for the server of hyper. It reads the requests that are given up: otherwise h2 0.4.20 resets a stream of an
    /// early answer while the client resets it, never frees its place, and refuses further requests.
    pub(crate) fn for_hyper_server(seed: u64) -> Plan {
        let mut plan = Plan::new(seed);
        for exchange in &mut plan.exchanges {
            exchange.body.join_small_pieces();
            if exchange.given_up_after.is_some() || exchange.body.fails_after.is_some() {
                exchange.reading = Reading::First;
            }
        }
        plan
    }

    /// Makes a plan for the client of hyper.
    pub(crate) fn for_hyper_client(seed: u64) -> Plan {
        let mut plan = Plan::new(seed);
        plan.exchanges.iter_mut().for_each(|exchange| exchange.answer.join_small_pieces());
        plan
    }

    /// Returns the exchange of a request's path.
    pub(crate) fn at(&self, path: &str) -> (usize, &Exchange) {
        let number = path.rsplit('/').next().unwrap().split('?').next().unwrap().parse().unwrap();
        (number, &self.exchanges[number])
    }
}

fn shorten(body: &mut BodyPlan) {
    let mut left = 8_000;
    for piece in &mut body.pieces {
        *piece = (*piece).min(left);
        left -= *piece;
    }
    body.pieces.retain(|piece| *piece > 0);
    body.fails_after = body.fails_after.map(|pieces| pieces.min(body.pieces.len()));
}

fn exchange(random: &mut Random, seed: u64, number: usize) -> Exchange {
    let methods = [
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::HEAD,
        Method::OPTIONS,
        Method::from_bytes(b"QUERY").unwrap(),
    ];
    let method = methods[random.below(methods.len())].clone();
    let mut body = if matches!(method, Method::GET | Method::HEAD) && random.below(4) > 0 {
        BodyPlan::default()
    } else {
        BodyPlan::new(random)
    };
    if random.one_in(20) {
        fail(random, &mut body);
    }
    let mut headers = fields(random, 12);
    for _ in 0..random.below(5).saturating_sub(2) {
        let len = random.pick(&[3, 30]);
        headers.append(COOKIE, value(random, len));
    }
    let status = random.pick(&[200, 200, 200, 201, 404, 503, 204, 304, 299]);
    let status = StatusCode::from_u16(status).unwrap();
    let has_body = method != Method::HEAD && status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED;
    let mut answer = if has_body { BodyPlan::new(random) } else { BodyPlan::default() };
    if has_body && random.one_in(20) {
        fail(random, &mut answer);
    }
    Exchange {
        method,
        path: format!("/{seed}/{number}{}", random.pick(&["", "?a=b", "?a=%20;b=c,d&e"])),
        headers,
        body,
        given_up_after: random.one_in(12).then(|| random.below(60)),
        reading: random.pick(&[Reading::First, Reading::First, Reading::Meanwhile, Reading::Never]),
        interim: Vec::new(),
        status,
        answer_headers: fields(random, 10),
        answer,
        reads_slowly: random.one_in(3),
    }
}

fn value(random: &mut Random, len_max: usize) -> HeaderValue {
    let len = random.below(len_max + 1);
    // Neither blanks at an end, which are no part of a value, nor a comma or semicolon of lists.
    let bytes: Vec<u8> = (0..len).map(|_| random.pick(b"abcXYZ0189-_.=/%~\"'\xe9")).collect();
    HeaderValue::from_bytes(&bytes).unwrap()
}

/// Makes fields, some of a name that occurs often, so that tables have something to hold.
fn fields(random: &mut Random, count_max: usize) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for _ in 0..random.below(count_max + 1) {
        let name = match random.below(3) {
            0 => random.pick(&["accept", "etag", "server", "x-request-id", "user-agent", "vary"]).to_owned(),
            1 => format!("x-{}", random.below(8)),
            _ => format!("x-long-{}-{}", random.below(1_000), "n".repeat(random.below(60))),
        };
        let len = random.pick(&[0, 3, 20, 20, 100, 1_000, 4_000]);
        let mut value = if random.one_in(2) { HeaderValue::from_static("again") } else { value(random, len) };
        value.set_sensitive(random.one_in(10));
        headers.append(HeaderName::try_from(name).unwrap(), value);
    }
    headers
}

/// Lets a body fail after some of its pieces. One that is announced as empty has ended with its head.
fn fail(random: &mut Random, body: &mut BodyPlan) {
    if !(body.is_announced && body.pieces.is_empty()) {
        body.fails_after = Some(random.below(body.pieces.len() + 1));
    }
}

/// Adds the announced length to the fields of a message.
pub(crate) fn announce(headers: &mut HeaderMap, body: &BodyPlan) {
    if body.is_announced && !body.is_empty() {
        headers.insert(CONTENT_LENGTH, body.len().into());
    }
}
