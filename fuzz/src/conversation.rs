//! `wire3-conversation`: a client, a server and an attacker between them, on one session of wire 3.
//!
//! Input: actions of three bytes each: the action, the number of a call, an argument. The client seals requests, the server answers
//! them, the clock moves, and the attacker delivers messages unchanged, again, changed, in parts, or in the place of others.

use std::collections::HashSet;
use std::sync::Arc;

use sealway_proto::crypto::no_security::NoSecurity;
use sealway_proto::session::Fresh;
use sealway_proto::session::native::{
    FrameOpener, FrameSealer, InnerHeaders, PendingAnswer, Read, Reply, RequestLine, SealedRequest,
};
use sealway_proto::wire::ReplayPolicy;

use crate::input::{Message, owned};
use crate::native::party;
use crate::party::NOW_MS;

/// Bounds of an input: more cover no more code.
const ACTIONS_MAX: usize = 48;
const CALLS_MAX: usize = 6;
/// The clock stays before the end of the session, 1,800 s after its start.
const CLOCK_MAX_MS: u64 = 1_700_000;
const METHODS: [&str; 2] = ["GET", "POST"];
const TARGETS: [&str; 4] = ["/", "/a", "/a?b=1", "/b"];
const OCTETS: &str = "application/octet-stream";

/// A sealed message as its sender wrote it.
struct SealedMessage {
    message: Message,
    /// Offsets in the body at which frames end.
    ends: Vec<usize>,
    plaintext: Vec<u8>,
}

struct Call {
    method: &'static str,
    pending: PendingAnswer<'static>,
    request: SealedMessage,
    /// The context of the answer, once the server has the request.
    reply: Option<Reply>,
    answer: Option<SealedMessage>,
}

/// The end of a delivery, as its receiver sees it.
#[derive(Debug, PartialEq)]
enum Outcome {
    Rejected,
    /// The nonce was reserved before: nothing is passed on.
    Replayed,
    /// A beginning, which an error or a missing end follows.
    Part(Vec<u8>),
    Whole(Vec<u8>),
}

struct Network {
    now_ms: u64,
    calls: Vec<Call>,
    reserved: HashSet<[u8; 16]>,
    policy: ReplayPolicy,
}

/// The fuzz target for conversations on wire 3.
pub fn wire3_conversation(data: &[u8]) {
    let mut network =
        Network { now_ms: NOW_MS, calls: Vec::new(), reserved: HashSet::new(), policy: ReplayPolicy::default() };
    for action in data.chunks_exact(3).take(ACTIONS_MAX) {
        let [action, call, argument] = [action[0], action[1], action[2]].map(usize::from);
        network.act(action, call, argument);
    }
    // Whatever was done to one call, the next one works.
    network.send(7);
    let last = network.calls.len() - 1;
    network.deliver_request(last, last, &network.calls[last].request.message.clone());
    network.answer(last, 5);
    let answer = network.calls[last].answer.as_ref().expect("the server has the request").message.clone();
    network.deliver_answer(last, &answer);
}

impl Network {
    fn act(&mut self, action: usize, call: usize, argument: usize) {
        let is_send = action.is_multiple_of(16);
        if is_send || self.calls.is_empty() {
            // There is room for one more at the end.
            if self.calls.len() + 1 < CALLS_MAX {
                self.send(argument);
            }
            return;
        }
        let at = call % self.calls.len();
        let other = argument % self.calls.len();
        let request = self.calls[at].request.message.clone();
        let answer = self.calls[at].answer.as_ref().map(|answer| answer.message.clone());
        match (action % 16, answer) {
            (1, _) => self.deliver_request(at, at, &request),
            (2, _) => {
                let changed = changed(&self.calls[at].request, call, argument);
                self.deliver_request(at, at, &changed);
            }
            // The headers of one call and the body of another.
            (3, _) => {
                let body = self.calls[other].request.message.body.clone();
                self.deliver_request(at, at, &Message { body, ..request });
            }
            // A request under the line of another.
            (4, _) => self.deliver_request(at, other, &request),
            (5 | 6, _) => self.answer(at, argument),
            (7 | 8, Some(answer)) => self.deliver_answer(at, &answer),
            (9 | 10, Some(_)) => {
                let changed = changed(self.calls[at].answer.as_ref().expect("it is there"), call, argument);
                self.deliver_answer(at, &changed);
            }
            // An answer to another request.
            (11, Some(answer)) => self.deliver_answer(other, &answer),
            (12, Some(answer)) => {
                let status = [200, 204, 404, 500][argument % 4];
                self.deliver_answer(at, &Message { status, ..answer });
            }
            // Reflected: a request as an answer, an answer as a request.
            (13, _) => self.deliver_answer(at, &Message { status: 200, ..request }),
            (14, Some(answer)) => self.deliver_request(at, at, &answer),
            _ => self.now_ms = (self.now_ms + argument as u64 * 1000).min(NOW_MS + CLOCK_MAX_MS),
        }
    }

    fn send(&mut self, argument: usize) {
        let (method, target) = (METHODS[argument % 2], TARGETS[argument / 2 % 4]);
        let mut nonce = [0; 16];
        nonce[0] = self.calls.len() as u8;
        let call = party().0.seal(&NoSecurity, RequestLine { method, target }, OCTETS, self.now_ms, &nonce);
        let call = call.expect("sealing does not fail");
        let message = message(owned(&call.headers), target, 0);
        let request = sealed(call.sealer, message, self.calls.len(), argument);
        self.calls.push(Call { method, pending: call.pending, request, reply: None, answer: None });
    }

    fn answer(&mut self, at: usize, argument: usize) {
        let now_ms = self.now_ms;
        let call = &mut self.calls[at];
        if call.answer.is_some() {
            return;
        }
        let Some(reply) = &call.reply else { return };
        let status = [200, 204, 404, 500][argument % 4];
        let nonce = [at as u8 ^ 0x80; 16];
        let (headers, sealer) = reply.seal(&NoSecurity, status, OCTETS, now_ms, &nonce).expect("sealing does not fail");
        let message = message(owned(&headers), "", status);
        call.answer = Some(sealed(sealer, message, at, argument));
    }

    /// Delivers a message to the server as a request of call `at`, under the request line of call `line`.
    fn deliver_request(&mut self, at: usize, line: usize, message: &Message) {
        let (outcome, reply) = self.open_request(line, message);
        let call = &self.calls[at];
        let honest = &call.request;
        let is_same_line =
            (call.method, &honest.message.path) == (self.calls[line].method, &self.calls[line].request.message.path);
        let is_honest = is_same_line && *message == honest.message;
        self.check(honest, is_honest && self.is_timely(message), outcome);
        if let Some(reply) = reply {
            assert!(is_same_line, "a request was taken under another line");
            assert!(self.is_timely(message), "a stale request was taken");
            self.calls[at].reply.get_or_insert(reply);
        }
    }

    /// Delivers a message to the client as the answer to call `at`.
    fn deliver_answer(&mut self, at: usize, message: &Message) {
        let call = &self.calls[at];
        let outcome = match call.pending.open(&NoSecurity, &message.headers, message.status) {
            Err(_) => Outcome::Rejected,
            Ok((sealed, opener)) => {
                assert!(sealed.is_none(), "no answer came in a header");
                without_headers(frames(opener, &message.body))
            }
        };
        match &call.answer {
            Some(answer) => self.check(answer, *message == answer.message, outcome),
            None => assert_eq!(outcome, Outcome::Rejected, "an answer that the server did not give"),
        }
    }

    fn check(&self, honest: &SealedMessage, is_honest: bool, outcome: Outcome) {
        match outcome {
            Outcome::Whole(plaintext) => {
                assert!(is_honest, "a changed message is whole");
                assert_eq!(plaintext, honest.plaintext);
            }
            Outcome::Part(plaintext) => {
                assert!(!is_honest, "an honest message is not whole");
                assert!(honest.plaintext.starts_with(&plaintext), "a part of another plaintext");
            }
            Outcome::Rejected => assert!(!is_honest, "an honest message is rejected"),
            Outcome::Replayed => {}
        }
    }

    /// Returns whether the stamp of a message is within the window.
    fn is_timely(&self, message: &Message) -> bool {
        let (stamp, _) = message.header("x-idempotency-key").split_once('.').expect("the key was split");
        let stamp: u64 = stamp.parse().expect("a stamp that was taken is digits");
        self.now_ms.abs_diff(stamp) <= self.policy.window_ms()
    }

    fn open_request(&mut self, line: usize, message: &Message) -> (Outcome, Option<Reply>) {
        let line = RequestLine { method: self.calls[line].method, target: &self.calls[line].request.message.path };
        let Ok(request) = SealedRequest::parse(&message.headers, line) else { return (Outcome::Rejected, None) };
        let Ok((opener, opening)) = request.open(&NoSecurity, Arc::clone(&party().1), self.now_ms, &self.policy) else {
            return (Outcome::Rejected, None);
        };
        let (mut frames, is_whole) = frames(opener, &message.body);
        if frames.is_empty() {
            return (Outcome::Rejected, None);
        }
        let Ok(guard) = opening.first(frames.remove(0)) else { return (Outcome::Rejected, None) };
        if !self.reserved.insert(guard.claim().key().0) {
            return (Outcome::Replayed, None);
        }
        let fresh = Fresh::reserved(guard.claim());
        let opened = guard.release(fresh).expect("its own reservation");
        let (first, at) = opened.first;
        let plaintext = [&first[at..], &frames.concat()].concat();
        let outcome = if is_whole { Outcome::Whole(plaintext) } else { Outcome::Part(plaintext) };
        (outcome, Some(opened.reply))
    }
}

/// Returns the plaintexts of the frames that open, and whether the last one is the end of the body and of the stream.
fn frames(mut opener: FrameOpener, body: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let (mut frames, mut frame, mut rest) = (Vec::new(), Vec::new(), body);
    while !rest.is_empty() {
        match opener.read(&mut rest, &mut frame) {
            Ok(Read::More) => {}
            Ok(Read::Frame | Read::Last) => frames.push(std::mem::take(&mut frame)),
            Err(_) => return (frames, false),
        }
    }
    let is_whole = opener.end().is_ok();
    (frames, is_whole)
}

/// Returns the outcome of an answer, whose first frame begins with inner headers.
fn without_headers((frames, is_whole): (Vec<Vec<u8>>, bool)) -> Outcome {
    let Some(first) = frames.first() else { return Outcome::Rejected };
    let Ok((_, at)) = InnerHeaders::parse(first) else { return Outcome::Rejected };
    let plaintext = frames.concat()[at..].to_vec();
    if is_whole { Outcome::Whole(plaintext) } else { Outcome::Part(plaintext) }
}

fn message(mut headers: Vec<(String, String)>, target: &str, status: u16) -> Message {
    headers.push(("content-type".into(), OCTETS.into()));
    Message { headers, path: target.into(), status, now_ms: NOW_MS, body: Vec::new() }
}

/// Seals one to three frames, whose lengths the argument chooses.
fn sealed(mut sealer: FrameSealer, mut message: Message, call: usize, argument: usize) -> SealedMessage {
    let count = argument % 3 + 1;
    let (mut ends, mut plaintext) = (Vec::new(), Vec::new());
    for number in 0..count {
        let begun = sealer.begin(&mut message.body);
        if number == 0 {
            InnerHeaders::new().encode(&mut message.body);
        }
        // Only the last frame may be empty.
        let len = if number + 1 == count { argument / 16 } else { argument % 16 + 1 };
        let piece = vec![(call * 16 + number) as u8; len];
        message.body.extend_from_slice(&piece);
        plaintext.extend_from_slice(&piece);
        sealer.seal(&mut message.body, begun, number + 1 == count).expect("a short frame");
        ends.push(message.body.len());
    }
    SealedMessage { message, ends, plaintext }
}

/// Returns a message that the attacker changed: a bit, a cut, or its frames.
fn changed(sent: &SealedMessage, how: usize, argument: usize) -> Message {
    let mut message = sent.message.clone();
    let body = &mut message.body;
    let starts: Vec<usize> = std::iter::once(0).chain(sent.ends.iter().copied()).collect();
    let frame = |index: usize| sent.message.body[starts[index]..starts[index + 1]].to_vec();
    let count = sent.ends.len();
    match how % 6 {
        0 => {
            let at = argument % body.len();
            body[at] ^= 1 << (how / 6 % 8);
        }
        1 => body.truncate(argument % body.len()),
        2 => body.truncate(starts[argument % count]),
        // A frame is left out, one comes twice, two are swapped.
        3 => *body = (0..count).filter(|index| *index != argument % count).flat_map(frame).collect(),
        4 => *body = (0..count).chain([argument % count]).flat_map(frame).collect(),
        _ => *body = (0..count).rev().flat_map(frame).collect(),
    }
    message
}
