//! `wire1-open`, `wire2-open`: the client seals a request, an input edits it in transit, and the server opens it.
//!
//! Input: path, stamp, nonce and IV of the honest request, a line each; lines of edits; an empty line; the plaintext.

use std::sync::Arc;

use sealway_proto::Error;
use sealway_proto::crypto::no_security::NoSecurity;
use sealway_proto::session::{Fresh, NonceGuard, PlainRequest, SealBuffer, SealRandoms, SealedCall};
use sealway_proto::wire::header::{X_CLIENT_ID, X_IDEMPOTENCY_KEY, X_IV, X_NONCE, X_TAG, X_TIMESTAMP};
use sealway_proto::wire::{Field, Headers, ReplayPolicy, Wire, base64};

use crate::input::{Message, owned, padded, script};
use crate::party::{CLIENT_ID, NOW_MS, Party, no_laps, party};

/// The fuzz target for sealed requests of wire 1.
pub fn wire1_open(data: &[u8]) {
    run(Wire::V1, data);
}

/// The fuzz target for sealed requests of wire 2.
pub fn wire2_open(data: &[u8]) {
    run(Wire::V2, data);
}

fn run(wire: Wire, data: &[u8]) {
    let Some(input) = script(data) else { return };
    let mut lines = input.lines.into_iter();
    let mut next = || lines.next().unwrap_or_default();
    let (path, stamp, nonce, iv) = (next(), next(), next(), padded::<12>(next()));
    let party = party(wire);
    let sealed = party.client.seal_as(path, SealBuffer::from(input.body), stamp, nonce, &iv, &mut no_laps);
    let (sealed, _) = sealed.expect("sealing does not fail");
    let honest =
        Message { headers: owned(&sealed.headers), path: path.into(), status: 0, now_ms: NOW_MS, body: sealed.body };
    let mut sent = honest.clone();
    lines.for_each(|line| sent.edit(line));

    let policy = ReplayPolicy::default();
    let Ok(call) = SealedCall::parse(&sent.headers, &sent.path, sent.now_ms, &policy) else { return };
    let opened = open(call, party, &sent);
    assert!(opened.is_ok() || sent != honest, "an honest request does not open: {opened:?}");
    let Ok(unreplayed) = opened else { return };

    // Only its own reservation releases it.
    let again = SealedCall::parse(&sent.headers, &sent.path, sent.now_ms, &policy).and_then(|c| open(c, party, &sent));
    let other = foreign_claim(party);
    let again = again.expect("what opened once opens twice");
    assert_eq!(again.claim(), unreplayed.claim());
    let fresh = Fresh::reserved(unreplayed.claim());
    if other.claim().key() != again.claim().key() {
        assert!(again.release(Fresh::reserved(other.claim())).is_err(), "released by another's reservation");
    }
    let opened = unreplayed.release(fresh).expect("its own reservation");
    check_opened(wire, party, &honest, &sent, opened, &policy);
}

fn open(call: SealedCall<'_>, party: &Party, sent: &Message) -> Result<NonceGuard<PlainRequest>, Error> {
    call.open(&NoSecurity, Arc::clone(&party.server), sent.body.clone(), &mut no_laps)
}

/// A claim of a request that no input produces.
fn foreign_claim(party: &Party) -> NonceGuard<PlainRequest> {
    let randoms = SealRandoms { iv: [1; 12], nonce: *b"\0another request" };
    let sealed = party.client.seal("/", SealBuffer::from(&[][..]), NOW_MS, &randoms, &mut no_laps);
    let (sealed, _) = sealed.expect("sealing does not fail");
    let call = SealedCall::parse(&sealed.headers, "/", NOW_MS, &ReplayPolicy::default());
    let opened = call.and_then(|call| call.open(&NoSecurity, party.server.clone(), sealed.body, &mut no_laps));
    opened.expect("an honest request opens")
}

/// The stamp, nonce and IV of an opened message.
fn parts(wire: Wire, message: &Message) -> (&str, &str, [u8; 12]) {
    match wire {
        Wire::V1 => {
            let iv = base64::decode_array(message.header(X_IV)).expect("the IV was read");
            (message.header(X_TIMESTAMP), message.header(X_NONCE), iv)
        }
        Wire::V2 | Wire::Native | Wire::OneShot => {
            let (stamp, nonce) = message.header(X_IDEMPOTENCY_KEY).split_once('.').expect("the key was split");
            (stamp, nonce, *message.body.first_chunk().expect("the IV was read"))
        }
    }
}

fn check_opened(
    wire: Wire,
    party: &Party,
    honest: &Message,
    sent: &Message,
    opened: PlainRequest,
    policy: &ReplayPolicy,
) {
    let (stamp, nonce, iv) = parts(wire, sent);
    let lower = nonce.to_ascii_lowercase();
    assert!(!lower.starts_with("r-"), "a nonce of an answer opened as a request");
    let stamp_ms: u64 = stamp.parse().expect("digits");
    assert!(stamp_ms.abs_diff(sent.now_ms) <= policy.window_ms(), "opened outside the window");
    assert!(sent.now_ms < party.client.expires_ms(), "opened after the session's end");

    // An opened message is byte for byte what the client seals under these header values.
    let plaintext = opened.plaintext.as_slice();
    let sealed = party.client.seal_as(&sent.path, SealBuffer::from(plaintext), stamp, nonce, &iv, &mut no_laps);
    let (sealed, pending) = sealed.expect("sealing does not fail");
    for (name, value) in &sealed.headers {
        assert_eq!(sent.headers.field(name), Field::Value(value), "{name} is not what was sealed");
    }
    assert_eq!(sent.body, sealed.body, "the body is not what was sealed");

    // An unchanged body and tag open only in the context in which they were sealed.
    let detached = |message: &Message| match wire {
        Wire::V1 => Some((message.header(X_TAG).to_owned(), message.header(X_IV).to_owned())),
        Wire::V2 | Wire::Native | Wire::OneShot => None,
    };
    if sent.body == honest.body && detached(sent) == detached(honest) {
        let context = |message: &Message| match wire {
            Wire::V1 => Some((message.path.clone(), message.header(X_TIMESTAMP).to_owned())),
            Wire::V2 | Wire::Native | Wire::OneShot => {
                Some((String::new(), message.header(X_IDEMPOTENCY_KEY).to_owned()))
            }
        };
        assert_eq!(context(sent), context(honest), "opened in another context");
    }

    // The client opens the answer to it; no server opens that answer as a request.
    let randoms = SealRandoms { iv, nonce: padded(nonce) };
    let answer = opened.reply.seal(200, SealBuffer::from(plaintext), sent.now_ms, &randoms, &mut no_laps);
    let answer = answer.expect("sealing does not fail");
    let mut reflected = owned(&answer.headers);
    if wire == Wire::V2 {
        reflected.push((X_CLIENT_ID.to_owned(), CLIENT_ID.to_owned()));
    }
    let back = SealedCall::parse(&reflected, &sent.path, sent.now_ms, policy);
    assert_eq!(back.map(|_| ()), Err(Error::NonceReserved), "an answer came back as a request");
    let read = pending.open(&answer.headers, 200, answer.body, sent.now_ms, policy, &mut no_laps);
    assert_eq!(read.expect("an honest answer opens").as_slice(), plaintext);
}
