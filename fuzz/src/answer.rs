//! `answer-open`: an input edits the server's answer in transit, and the client opens it. The same bytes are parsed as an init
//! answer.
//!
//! Input: wire (`1` or `2`), path, stamp, status, seeds of the nonce and the IV, a line each; lines of edits; an empty line; the
//! plaintext of the answer, which is also parsed as an init answer.

use std::sync::Arc;

use sealway_proto::crypto::no_security::NoSecurity;
use sealway_proto::session::{Fresh, SealBuffer, SealRandoms, SealedCall};
use sealway_proto::wire::header::{X_IDEMPOTENCY_KEY, X_IV, X_NONCE, X_TAG, X_TIMESTAMP};
use sealway_proto::wire::json::InitAnswer;
use sealway_proto::wire::{ReplayPolicy, Wire};

use crate::input::{Message, owned, padded, script};
use crate::party::{NOW_MS, client_init, no_laps, party};

/// The fuzz target for sealed answers.
pub fn answer_open(data: &[u8]) {
    let Some(input) = script(data) else { return };
    init_answer(input.body);
    let mut lines = input.lines.into_iter();
    let mut next = || lines.next().unwrap_or_default();
    let wire = if next() == "1" { Wire::V1 } else { Wire::V2 };
    let (path, stamp, status) = (next(), next(), next());
    let Ok(stamp_ms) = stamp.parse::<u64>() else { return };
    let status = status.parse().unwrap_or(200);
    let randoms = SealRandoms { nonce: padded(next()), iv: padded(next()) };

    let (party, policy) = (party(wire), ReplayPolicy::default());
    let ask =
        party.client.seal_as(path, SealBuffer::from(&b"ask"[..]), &NOW_MS.to_string(), "n", &[3; 12], &mut no_laps);
    let (request, pending) = ask.expect("sealing does not fail");
    let Ok(call) = SealedCall::parse(&request.headers, path, NOW_MS, &policy) else { return };
    let opened = call.open(&NoSecurity, Arc::clone(&party.server), request.body.clone(), &mut no_laps);
    let opened = opened.expect("an honest request opens");
    let fresh = Fresh::reserved(opened.claim());
    let reply = opened.release(fresh).expect("its own claim").reply;
    let answer = reply.seal(status, SealBuffer::from(input.body), stamp_ms, &randoms, &mut no_laps);
    let answer = answer.expect("sealing does not fail");

    // The sealed request itself never opens as an answer, with any status.
    let reflected = pending.open(&request.headers, status, request.body, NOW_MS, &policy, &mut no_laps);
    assert!(reflected.is_err(), "a request was taken for its own answer");

    let honest =
        Message { headers: owned(&answer.headers), path: path.into(), status, now_ms: NOW_MS, body: answer.body };
    let mut got = honest.clone();
    lines.for_each(|line| got.edit(line));
    let read = pending.open(&got.headers, got.status, got.body.clone(), got.now_ms, &policy, &mut no_laps);
    let Ok(read) = read else {
        let in_time = stamp.len() <= 15 && stamp_ms.abs_diff(NOW_MS) <= policy.window_ms();
        assert!(got != honest || !in_time, "an honest answer does not open");
        return;
    };
    let (stamp, nonce) = match wire {
        Wire::V1 => (got.header(X_TIMESTAMP), got.header(X_NONCE)),
        Wire::V2 | Wire::Native | Wire::OneShot => {
            got.header(X_IDEMPOTENCY_KEY).split_once('.').expect("the key was split")
        }
    };
    assert!(nonce.starts_with("r-"), "the nonce of a request opened as an answer");
    let stamp: u64 = stamp.parse().expect("digits");
    assert!(stamp.abs_diff(got.now_ms) <= policy.window_ms(), "opened outside the window");
    let sealed = |message: &Message| match wire {
        Wire::V1 => (message.header(X_TAG).to_owned(), message.header(X_IV).to_owned(), message.body.clone()),
        Wire::V2 | Wire::Native | Wire::OneShot => (String::new(), String::new(), message.body.clone()),
    };
    if sealed(&got) == sealed(&honest) {
        assert_eq!(read.as_slice(), input.body, "another plaintext");
        let context = |message: &Message| match wire {
            Wire::V1 => (message.header(X_TIMESTAMP).to_owned(), message.header(X_NONCE).to_owned(), message.status),
            Wire::V2 | Wire::Native | Wire::OneShot => (message.header(X_IDEMPOTENCY_KEY).to_owned(), String::new(), 0),
        };
        assert_eq!(context(&got), context(&honest), "opened in another context");
    }
}

/// Checks that an init answer that parses encodes to itself, and that completing the key agreement with it never panics.
fn init_answer(body: &[u8]) {
    let parsed = InitAnswer::parse(body);
    let (init, _) = client_init(Wire::V2, false);
    let finished = init.finish(&NoSecurity, body, NOW_MS, &mut no_laps);
    match parsed {
        Err(err) => assert_eq!(finished.map(|_| ()), Err(err)),
        Ok(answer) => {
            assert_eq!(InitAnswer::parse(answer.encode().as_bytes()).as_ref(), Ok(&answer));
            if let Ok(session) = finished {
                assert_eq!(session.id(), &answer.session_id);
                assert_eq!(session.expires_ms(), NOW_MS + u64::from(answer.expires_in_sec) * 1000);
            }
        }
    }
}
