//! Every scenario of `vectors/session`, in both directions: this crate seals the scenario's bytes, opens its messages, and
//! rejects with the scenario's code.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod providers;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use sealway_proto::Error;
use sealway_proto::crypto::Provider;
use sealway_proto::session::{
    Claim, ClientInit, ClientSession, Family, Fresh, InitCall, InitRandoms, Laps, NonceGuard, PendingAnswer,
    PlainRequest, SealBuffer, SealRandoms, SealedCall, SealedMessage, Session, SessionKey, SessionRecord, TtlPolicy,
};
use sealway_proto::wire::{ReplayPolicy, SessionId, Wire};
use sealway_testkit::native_vectors::load_native;
use sealway_testkit::vectors::{self, Bytes, HeaderList, Hex, Message, Scenario, Sealed};
use serde_json::Value;

fn provider() -> &'static dyn Provider {
    providers::provider()
}

/// Returns the policy of the vectors: the nonce lifetime is the least that the window allows.
fn policy(window_ms: u64) -> ReplayPolicy {
    ReplayPolicy::new(window_ms, 0)
}

fn wire(number: u8) -> Wire {
    match number {
        1 => Wire::V1,
        2 => Wire::V2,
        other => panic!("wire {other}"),
    }
}

fn family(name: &str) -> Family {
    match name {
        "session" => Family::Session,
        "anonymous" => Family::Anonymous,
        "v1" => Family::V1,
        other => panic!("family {other}"),
    }
}

fn server_session(of: &vectors::Session) -> Arc<Session> {
    let record = SessionRecord {
        id: SessionId::parse(&of.id).unwrap(),
        wire: wire(of.wire),
        client_id: of.client_id.as_deref().map(Box::from),
        subject: None,
        tenant: None,
        auth: sealway_proto::session::Auth::None,
        lineage: None,
        created_ms: of.created_ms,
        expires_ms: of.expires_ms,
        key: SessionKey::from_bytes(of.key_hex.array()),
    };
    Arc::new(Session::new(provider(), record).unwrap())
}

/// Creates a client that has begun, whatever its request was.
fn begun(wire_number: u8, anonymous: bool, client_id: Option<&str>, scalar: &Hex) -> ClientInit {
    let ephemeral = provider().p256_from_scalar(&scalar.array()).unwrap();
    let client_id = client_id.unwrap_or_default();
    ClientInit::new(wire(wire_number), anonymous, client_id, None, ephemeral, &[0; 16], 0).unwrap().0
}

fn client_session(of: &vectors::Client) -> ClientSession {
    let init = begun(of.wire, of.anonymous, of.client_id.as_deref(), &of.scalar_hex);
    init.finish(provider(), of.init_answer.as_bytes(), 0, &mut |_| ()).unwrap()
}

fn seal<'a>(client: &'a ClientSession, m: &Message) -> (SealedMessage, PendingAnswer<'a>) {
    let plaintext = SealBuffer::from(m.plaintext.as_slice());
    client.seal_as(&m.path, plaintext, &m.stamp, &m.nonce, &m.iv_hex.array(), &mut |_| ()).unwrap()
}

/// Headers in any order, names without case.
fn header_set<N: AsRef<str>, V: AsRef<str>>(headers: &[(N, V)]) -> BTreeMap<String, &str> {
    let map: BTreeMap<_, _> =
        headers.iter().map(|(name, value)| (name.as_ref().to_ascii_lowercase(), value.as_ref())).collect();
    assert_eq!(map.len(), headers.len(), "a header twice");
    map
}

fn assert_same_message(made: &SealedMessage, want: &Sealed) {
    assert_eq!(header_set(&made.headers), header_set(&want.headers));
    assert_eq!(made.body, want.body.as_slice());
}

fn assert_same_claim(claim: &Claim, want: &vectors::Claim) {
    assert_eq!(claim.key().0, want.key_hex.array());
    assert_eq!(claim.is_sealed(), want.sealed);
    assert_eq!(claim.stamp_ms(), want.stamp_ms);
    assert_eq!(claim.expires_ms(), want.expires_ms);
    assert_eq!(claim.is_stamped_ahead(), want.stamp_ms > claim.now_ms());
}

fn release<T>(unreplayed: NonceGuard<T>) -> T {
    let fresh = Fresh::reserved(unreplayed.claim());
    unreplayed.release(fresh).unwrap()
}

fn open_request(
    headers: &HeaderList,
    body: &Bytes,
    path: &str,
    session: &vectors::Session,
    now_ms: u64,
    window_ms: u64,
) -> Result<NonceGuard<PlainRequest>, Error> {
    let call = SealedCall::parse(headers, path, now_ms, &policy(window_ms))?;
    call.session_id()?;
    call.open(provider(), server_session(session), body.to_vec(), &mut |_| ())
}

fn init(v: &vectors::Init) {
    let policy = policy(v.window_ms);
    let call =
        InitCall::parse(provider(), family(&v.family), &v.headers, v.body.as_slice(), v.now_ms, &policy).unwrap();
    assert_same_claim(call.claim(), &v.claim);
    let ephemeral = provider().p256_from_scalar(&v.server_scalar_hex.array()).unwrap();
    let server_public = *ephemeral.public();
    let randoms = InitRandoms { session_id: v.session_id_random_hex.array(), ephemeral };
    let draw = move |_: Laps<'_>| Ok(randoms);
    let call = release(call);
    assert_eq!(call.client_id(), v.session.client_id.as_deref());
    let (answer, session) =
        call.accept(provider(), &TtlPolicy::default(), v.authenticated, None, draw, v.now_ms, &mut |_| ()).unwrap();
    assert_eq!(answer.encode(), v.answer);
    let record = session.record();
    assert_eq!(record.id.as_str(), v.session.id);
    assert_eq!(record.wire, wire(v.session.wire));
    assert_eq!(record.client_id.as_deref(), v.session.client_id.as_deref());
    assert_eq!((record.created_ms, record.expires_ms), (v.session.created_ms, v.session.expires_ms));
    assert_eq!(record.key.expose(), &v.session.key_hex.array());

    // The same from the client's side, over the intermediate values.
    let peer = provider().p256_public(&server_public).unwrap();
    let z = provider().p256_from_scalar(&v.client_scalar_hex.array()).unwrap().agree(peer).unwrap();
    assert_eq!(*z, v.shared_secret_hex.array());
    let key = SessionKey::derive(provider(), &z, &record.id, &[v.key_info.as_bytes()]).unwrap();
    assert_eq!(key.expose(), record.key.expose());
}

fn init_refused(v: &vectors::InitRefused) -> Error {
    let policy = policy(v.window_ms);
    InitCall::parse(provider(), family(&v.family), &v.headers, v.body.as_slice(), v.now_ms, &policy)
        .and_then(|call| {
            let draw = |laps: Laps<'_>| InitRandoms::draw(provider(), laps);
            release(call).accept(provider(), &TtlPolicy::default(), false, None, draw, v.now_ms, &mut |_| ())
        })
        .map(|_| ())
        .unwrap_err()
}

fn client_init(v: &vectors::ClientInit) {
    let ephemeral = provider().p256_from_scalar(&v.scalar_hex.array()).unwrap();
    let client_id = v.client_id.as_deref().unwrap_or_default();
    let nonce = v.nonce_random_hex.array();
    let (init, request) =
        ClientInit::new(wire(v.wire), v.anonymous, client_id, v.ttl_sec, ephemeral, &nonce, v.sent_ms).unwrap();
    assert_eq!(header_set(&request.headers), header_set(&v.request.headers));
    let made: Value = serde_json::from_str(&request.body).unwrap();
    let want: Value = serde_json::from_slice(v.request.body.as_slice()).unwrap();
    assert_eq!(made, want);
    let session = init.finish(provider(), v.answer.as_slice(), v.received_ms, &mut |_| ()).unwrap();
    assert_eq!(session.id().as_str(), v.session_id);
    assert_eq!(session.expires_ms(), v.expires_ms);
    // The key itself is not accessible; its ciphertext is.
    let p = &v.probe;
    let plaintext = SealBuffer::from(p.plaintext.as_slice());
    let (sealed, _) = session.seal_as(&p.path, plaintext, &p.stamp, &p.nonce, &p.iv_hex.array(), &mut |_| ()).unwrap();
    assert_same_message(&sealed, &p.sealed);
}

fn client_init_refused(v: &vectors::ClientInitRefused) -> Error {
    let init = begun(v.wire, v.anonymous, v.client_id.as_deref(), &v.scalar_hex);
    init.finish(provider(), v.answer.as_slice(), 0, &mut |_| ()).map(|_| ()).unwrap_err()
}

fn request(v: &vectors::Request) {
    let m = &v.request;
    assert_same_message(&seal(&client_session(&v.client), m).0, &m.sealed);
    let (headers, body) = (&m.sealed.headers, &m.sealed.body);
    let opened = open_request(headers, body, &m.path, &v.session, v.now_ms, v.window_ms).unwrap();
    assert_same_claim(opened.claim(), &v.claim);
    assert_eq!(release(opened).plaintext.as_slice(), m.plaintext.as_slice());
}

fn request_refused(v: &vectors::RequestRefused) -> Error {
    open_request(&v.headers, &v.body, &v.path, &v.session, v.now_ms, v.window_ms).map(|_| ()).unwrap_err()
}

fn answer(v: &vectors::Answer) {
    let (m, a) = (&v.request, &v.answer);
    let (headers, body) = (&m.sealed.headers, &m.sealed.body);
    let opened = open_request(headers, body, &m.path, &v.session, v.now_ms, v.window_ms).unwrap();
    let randoms = SealRandoms { iv: a.iv_hex.array(), nonce: a.nonce_random_hex.array() };
    let plaintext = SealBuffer::from(a.plaintext.as_slice());
    let sealed = release(opened).reply.seal(a.status, plaintext, a.stamp_ms, &randoms, &mut |_| ()).unwrap();
    assert_same_message(&sealed, &a.sealed);

    let client = client_session(&v.client);
    let (_, pending) = seal(&client, m);
    let policy = policy(v.window_ms);
    let body = a.sealed.body.to_vec();
    let opened = pending.open(&a.sealed.headers, a.status, body, v.received_ms, &policy, &mut |_| ()).unwrap();
    assert_eq!(opened.as_slice(), a.plaintext.as_slice());
}

fn answer_refused(v: &vectors::AnswerRefused) -> Error {
    let client = client_session(&v.client);
    let (_, pending) = seal(&client, &v.request);
    let policy = policy(v.window_ms);
    pending.open(&v.headers, v.status, v.body.to_vec(), v.received_ms, &policy, &mut |_| ()).map(|_| ()).unwrap_err()
}

/// Returns the code that a scenario expects, if it is a rejection.
fn code(scenario: &Scenario) -> Option<&str> {
    match scenario {
        Scenario::InitRefused(v) => Some(&v.code),
        Scenario::ClientInitRefused(v) => Some(&v.code),
        Scenario::RequestRefused(v) => Some(&v.code),
        Scenario::AnswerRefused(v) => Some(&v.code),
        Scenario::Init(_) | Scenario::ClientInit(_) | Scenario::Request(_) | Scenario::Answer(_) => None,
    }
}

fn play(scenario: &Scenario) {
    let refusal = match scenario {
        Scenario::Init(v) => return init(v),
        Scenario::ClientInit(v) => return client_init(v),
        Scenario::Request(v) => return request(v),
        Scenario::Answer(v) => return answer(v),
        Scenario::InitRefused(v) => init_refused(v),
        Scenario::ClientInitRefused(v) => client_init_refused(v),
        Scenario::RequestRefused(v) => request_refused(v),
        Scenario::AnswerRefused(v) => answer_refused(v),
    };
    assert_eq!(Some(refusal.code()), code(scenario));
}

/// Runs every scenario that `pick` picks, and reports all failures, not the first alone.
fn play_all(pick: impl Fn(&Scenario) -> bool) {
    let (mut count, failed) = (0, RefCell::new(Vec::new()));
    for vector in vectors::load_session().unwrap().iter().filter(|vector| pick(&vector.scenario)) {
        count += 1;
        providers::with_each(|provider| {
            if catch_unwind(AssertUnwindSafe(|| play(&vector.scenario))).is_err() {
                failed.borrow_mut().push(format!("{} by {provider} ({})", vector.name, vector.comment));
            }
        });
    }
    let failed = failed.into_inner();
    assert!(count > 0, "no scenario of this type");
    assert!(failed.is_empty(), "{} of {count} failed:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn a_server_accepts_every_init_as_the_vectors_say() {
    play_all(|s| matches!(s, Scenario::Init(_)));
}

#[test]
fn a_server_refuses_every_faulty_init_with_its_code() {
    play_all(|s| matches!(s, Scenario::InitRefused(_)));
}

#[test]
fn a_client_begins_and_finishes_every_init_as_the_vectors_say() {
    play_all(|s| matches!(s, Scenario::ClientInit(_)));
}

#[test]
fn a_client_refuses_every_faulty_init_answer_with_its_code() {
    play_all(|s| matches!(s, Scenario::ClientInitRefused(_)));
}

#[test]
fn every_request_seals_to_its_bytes_and_opens_from_them() {
    play_all(|s| matches!(s, Scenario::Request(_)));
}

#[test]
fn a_server_refuses_every_faulty_request_with_its_code() {
    play_all(|s| matches!(s, Scenario::RequestRefused(_)));
}

#[test]
fn every_answer_seals_to_its_bytes_and_opens_from_them() {
    play_all(|s| matches!(s, Scenario::Answer(_)));
}

#[test]
fn a_client_refuses_every_faulty_answer_with_its_code() {
    play_all(|s| matches!(s, Scenario::AnswerRefused(_)));
}

#[test]
fn every_code_that_bytes_alone_can_cause_has_a_vector() {
    // These need a store, a caller's mistake, a failing module, or the client's identity.
    let elsewhere = ["replayed", "reservation_mismatch", "provider", "policy", "unauthenticated"];
    let (all, all_native) = (vectors::load_session().unwrap(), load_native().unwrap());
    let of_native = all_native.iter().filter_map(|vector| vector.scenario.code());
    let seen: BTreeSet<&str> = all.iter().filter_map(|vector| code(&vector.scenario)).chain(of_native).collect();
    let want: BTreeSet<&str> = Error::ALL.iter().map(Error::code).filter(|code| !elsewhere.contains(code)).collect();
    assert_eq!(seen, want);
}
