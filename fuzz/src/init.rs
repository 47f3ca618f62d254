//! `init-json`: an init of any family with edited headers and any body, up to the key that both sides derive.
//!
//! Input: family (`session 1`, `session 2`, `anon` or `v1`), followed by `token` if a token was accepted; lines of edits; an
//! empty line; the body. The body `{}` stands for an honest client's body.

use std::sync::Arc;

use sealway_proto::crypto::no_security::NoSecurity;
use sealway_proto::session::{
    ClientSession, Family, Fresh, InitCall, InitRandoms, SealBuffer, SealRandoms, SealedCall, Session, Step, TtlPolicy,
};
use sealway_proto::wire::header::{X_CLIENT_ID, X_IDEMPOTENCY_KEY, X_NONCE};
use sealway_proto::wire::json::{InitAnswer, InitBody};
use sealway_proto::wire::{ReplayPolicy, Wire};

use crate::input::{Message, owned, script};
use crate::party::{CLIENT_ID, NOW_MS, client_init, no_laps};

/// The fuzz target for session inits.
pub fn init_json(data: &[u8]) {
    let Some(input) = script(data) else { return };
    let mut lines = input.lines.into_iter();
    let first = lines.next().unwrap_or_default();
    let (name, authenticated) = first.strip_suffix(" token").map_or((first, false), |name| (name, true));
    let (family, wire) = match name {
        "session 1" => (Family::Session, Wire::V1),
        "session 2" => (Family::Session, Wire::V2),
        "anon" => (Family::Anonymous, Wire::V1),
        "v1" => (Family::V1, Wire::V2),
        _ => return,
    };
    ttl(input.body);
    let (client, request) = client_init(wire, family == Family::Anonymous);
    let body = if input.body == b"{}" { request.body.as_bytes() } else { input.body };
    let honest = Message {
        headers: owned(&request.headers),
        path: String::new(),
        status: 0,
        now_ms: NOW_MS,
        body: body.to_vec(),
    };
    let mut sent = honest.clone();
    lines.for_each(|line| sent.edit(line));

    let (policy, ttl) = (ReplayPolicy::default(), TtlPolicy::default());
    let call = InitCall::parse(&NoSecurity, family, &sent.headers, &sent.body, sent.now_ms, &policy);
    let Ok(call) = call else {
        assert!(sent != honest || input.body != b"{}", "an honest init is refused: {call:?}");
        return;
    };
    let nonce = match Wire::of(&sent.headers) {
        Wire::V1 => sent.header(X_NONCE),
        Wire::V2 if family == Family::Anonymous => sent.header(X_NONCE),
        Wire::V2 | Wire::Native | Wire::OneShot => {
            sent.header(X_IDEMPOTENCY_KEY).split_once('.').expect("the key was split").1
        }
    };
    assert!(!nonce.to_ascii_lowercase().starts_with("r-"), "a nonce of an answer on an init");
    assert!(!call.claim().is_sealed() && call.claim().expires_ms() > sent.now_ms);
    let fresh = Fresh::reserved(call.claim());
    let call = call.release(fresh).expect("its own claim");
    let agreed_on = call.wire();
    let randoms = |laps: &mut dyn FnMut(Step)| InitRandoms::draw(&NoSecurity, laps);
    let accepted = call.accept(&NoSecurity, &ttl, authenticated, None, randoms, sent.now_ms, &mut no_laps);
    let Ok((answer, session)) = accepted else { return };
    check_ttl(family, authenticated, &ttl, &answer);
    assert_eq!(answer.session_id.is_anonymous(), family == Family::Anonymous);
    assert_eq!(InitAnswer::parse(answer.encode().as_bytes()).as_ref(), Ok(&answer));
    let record = session.record();
    assert_eq!((record.wire, record.id), (agreed_on, answer.session_id));
    assert_eq!(record.expires_ms, sent.now_ms.saturating_add(u64::from(answer.expires_in_sec) * 1000));
    assert_eq!(record.client_id.is_some(), agreed_on == Wire::V2);
    if agreed_on == Wire::V2 {
        assert_eq!(record.client_id.as_deref(), Some(sent.header(X_CLIENT_ID)));
    }

    // If the client's key share arrived unchanged, the client derives the same key.
    let same_share = shares_key(&sent.body, request.body.as_bytes());
    let same_client = agreed_on == Wire::V1 || sent.header(X_CLIENT_ID) == CLIENT_ID;
    if same_share && same_client && agreed_on == wire {
        let client = client.finish(&NoSecurity, answer.encode().as_bytes(), sent.now_ms, &mut no_laps);
        talk(&client.expect("an honest answer is taken"), session, sent.now_ms);
    }
}

fn check_ttl(family: Family, authenticated: bool, ttl: &TtlPolicy, answer: &InitAnswer) {
    let sec = answer.expires_in_sec;
    match family {
        Family::Session => assert!((ttl.min_sec..=ttl.max_sec).contains(&sec), "ttl {sec} is out of bounds"),
        Family::Anonymous => assert_eq!(sec, ttl.wire1_anonymous_sec),
        Family::V1 if authenticated => assert_eq!(sec, ttl.v1_authenticated_sec),
        Family::V1 => assert_eq!(sec, ttl.v1_anonymous_sec),
    }
}

/// Checks that the lax parser returns the same lifetime as the strict one, if the strict one accepts it.
fn ttl(body: &[u8]) {
    let Ok(body) = InitBody::parse(body) else { return };
    if let Ok(Some(sec)) = body.ttl_strict() {
        assert_eq!(body.ttl_lax(), Some(sec));
    }
}

fn shares_key(sent: &[u8], honest: &[u8]) -> bool {
    match (InitBody::parse(sent), InitBody::parse(honest)) {
        (Ok(sent), Ok(honest)) => sent.client_public_key() == honest.client_public_key(),
        _ => false,
    }
}

/// Sends a request through the new session.
fn talk(client: &ClientSession, server: Session, now_ms: u64) {
    // Stamps have at most 15 digits, so a session whose clock is later accepts no message.
    if now_ms >= 1_000_000_000_000_000 {
        return;
    }
    let randoms = SealRandoms { iv: [9; 12], nonce: [9; 16] };
    let sealed = client.seal("/probe", SealBuffer::from(&b"probe"[..]), now_ms, &randoms, &mut no_laps);
    let (sealed, _) = sealed.expect("sealing does not fail");
    let call = SealedCall::parse(&sealed.headers, "/probe", now_ms, &ReplayPolicy::default());
    let opened = call.and_then(|call| call.open(&NoSecurity, Arc::new(server), sealed.body, &mut no_laps));
    assert!(opened.is_ok(), "both sides hold different keys: {opened:?}");
}
