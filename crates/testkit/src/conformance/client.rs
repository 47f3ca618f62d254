//! The client's operations of the driver.

use std::rc::Rc;

use sealway_proto::Error;
use sealway_proto::hpke::Kem;
use sealway_proto::limits::KEY_LEN;
use sealway_proto::one_shot::{self, ClientPsk, KeyConfig};
use sealway_proto::session::native::{self, ClientOffer, InnerHeaders, KeyId, PendingAnswer, RequestLine, ShareKey};
use sealway_proto::session::{self, SealBuffer, SealRandoms};
use sealway_proto::wire::header::X_IDEMPOTENCY_KEY;
use sealway_proto::wire::nonce::PROBLEM_PREFIX;
use sealway_proto::wire::{ReplayPolicy, Wire};
use serde_json::{Value, json};

use super::member::{Members, Pairs, hex, pairs};
use super::stream::Envelope;
use super::{Handles, Outcome, Refusal, provider, stream};

/// A public identity key, uncompressed.
type PublicKey = [u8; 65];

/// An init or a renewal without its answer.
pub(super) enum Init {
    Old(session::ClientInit),
    Native(Box<native::ClientInit>, Vec<PublicKey>),
}

/// An agreed session, of any wire, or a key of a service and the pre-shared key of its client.
#[derive(Clone)]
pub(super) enum Session {
    Old(Rc<session::ClientSession>),
    Native(Rc<native::ClientSession>, Vec<PublicKey>),
    Key(Rc<KeyConfig>, Option<(String, [u8; KEY_LEN])>),
}

/// A request without its answer.
pub(super) enum ClientCall {
    Old {
        session: Rc<session::ClientSession>,
        target: String,
    },
    /// The stamp and the nonce of the request, as sent.
    Native {
        session: Rc<native::ClientSession>,
        method: String,
        target: String,
        stamp: String,
        nonce: String,
    },
    OneShot(PendingAnswer<'static>),
}

impl std::fmt::Debug for Init {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Init")
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Session")
    }
}

impl std::fmt::Debug for ClientCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientCall")
    }
}

fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    provider().fill_random(&mut bytes)?;
    Ok(bytes)
}

pub(super) fn init(inits: &mut Handles<Init>, members: &Members<'_>) -> Outcome {
    let wire = u8::try_from(members.number("wire")?).ok().and_then(Wire::from_number);
    let wire = wire.ok_or_else(|| Refusal::fault("wire: expected 1, 2 or 3"))?;
    let (path, ttl_sec, now_ms) = (members.text("path")?, members.optional_u32("ttl_sec")?, members.number("now_ms")?);
    if wire == Wire::Native {
        let trusted = members.arrays("trusted_hex")?;
        let client_id = members.text("client_id")?;
        let (init, body) = begin_native(members, client_id, ttl_sec, trusted, None)?;
        let headers = [["content-type", "application/json"]];
        return Ok(json!({
            "handle": inits.put(init), "method": "POST", "headers": headers, "body_hex": hex(body.as_bytes()),
        }));
    }
    let anonymous = path.split('?').next().is_some_and(|path| path.ends_with("/anon"));
    let client_id = if wire == Wire::V1 { "" } else { members.text("client_id")? };
    let ephemeral = provider().p256_generate()?;
    let begun = session::ClientInit::new(wire, anonymous, client_id, ttl_sec, ephemeral, &random()?, now_ms);
    let (init, request) = begun?;
    let mut headers = vec![json!(["content-type", "application/json"])];
    headers.extend(request.headers.iter().map(|(name, value)| json!([name, value])));
    Ok(json!({
        "handle": inits.put(Init::Old(init)), "method": "POST", "headers": headers, "body_hex": hex(request.body.as_bytes()),
    }))
}

fn begin_native(
    members: &Members<'_>,
    client_id: &str,
    ttl_sec: Option<u32>,
    trusted: Vec<PublicKey>,
    renewed: Option<&native::ClientSession>,
) -> Result<(Init, String), Refusal> {
    let share = ShareKey::generate(provider(), members.suite("suite")?)?;
    let offer = ClientOffer {
        suites: members.suites("suites")?,
        client_id: client_id.into(),
        ttl_sec,
        pinned_key_ids: trusted.iter().map(|key| KeyId::of(provider(), key.as_slice())).collect(),
        signature_algorithms: Vec::new(),
        credential: None,
    };
    let init = native::ClientInit::new(offer, share, renewed)?;
    let body = init.body();
    Ok((Init::Native(Box::new(init), trusted), body))
}

pub(super) fn renew(inits: &mut Handles<Init>, sessions: &Handles<Session>, members: &Members<'_>) -> Outcome {
    let Session::Native(old, trusted) = sessions.get(members, "session")? else {
        return Err(Error::WireMismatch.into());
    };
    let (init, body) = begin_native(members, old.client_id(), None, trusted.clone(), Some(old))?;
    Ok(json!({"handle": inits.put(init), "body_hex": hex(body.as_bytes())}))
}

pub(super) fn finish(inits: &mut Handles<Init>, sessions: &mut Handles<Session>, members: &Members<'_>) -> Outcome {
    let init = inits.take(members, "handle")?;
    let (status, body, now_ms) = (members.status()?, members.bytes("body_hex")?, members.number("now_ms")?);
    let (session, id) = match init {
        Init::Old(_) if status != 200 => return Err(Error::AnswerMismatch.into()),
        Init::Old(init) => {
            let session = init.finish(provider(), &body, now_ms, &mut |_| ())?;
            let id = session.id().to_string();
            (Session::Old(Rc::new(session)), id)
        }
        Init::Native(..) if status != 201 => return Err(Error::AnswerMismatch.into()),
        Init::Native(init, trusted) => {
            let claimed = init.claimed(&body)?.key_id;
            let key = trusted.iter().find(|key| KeyId::of(provider(), key.as_slice()) == claimed);
            let key = match key {
                Some(key) => Some(sealway_proto::crypto::identity::default_identity_library().public(key)?),
                None => None,
            };
            let session = init.finish(provider(), key.as_ref(), &body)?;
            let id = session.id().to_string();
            (Session::Native(Rc::new(session), trusted), id)
        }
    };
    Ok(json!({"session": sessions.put(session), "session_id": id}))
}

/// Names of the mechanisms of wire 4.
pub(super) const KEMS: [(Kem, &str); 4] =
    [(Kem::XWing, "X-Wing"), (Kem::MlKem768P256, "MLKEM768-P256"), (Kem::X25519, "X25519"), (Kem::P256, "P-256")];

pub(super) fn key(sessions: &mut Handles<Session>, members: &Members<'_>) -> Outcome {
    let config = KeyConfig::decode(provider(), &members.bytes("config_hex")?);
    let config = config.map_err(|_| Error::FieldInvalid("config"))?;
    let psk = match members.optional_text("psk_id")? {
        Some(id) => Some((id.to_owned(), members.array("psk_hex")?)),
        None => None,
    };
    let kid = config.kid(provider());
    Ok(json!({"session": sessions.put(Session::Key(Rc::new(config), psk)), "kid": kid}))
}

pub(super) fn seal(sessions: &Handles<Session>, calls: &mut Handles<ClientCall>, members: &Members<'_>) -> Outcome {
    let (method, target) = (members.text("method")?.to_owned(), members.text("target")?.to_owned());
    let (body, now_ms) = (members.bytes("body_hex")?, members.number("now_ms")?);
    let is_bodyless = body.is_empty() && ["GET", "HEAD", "DELETE"].contains(&method.as_str());
    let content_type = if is_bodyless { "" } else { stream::OCTETS };
    let line = RequestLine { method: &method, target: &target };
    let (call, (headers, body_hex)) = match sessions.get(members, "session")? {
        Session::Old(session) => {
            let randoms = SealRandoms::draw(provider())?;
            let sealed =
                session.seal(path_of(&target), SealBuffer::from(body.as_slice()), now_ms, &randoms, &mut |_| ());
            let (message, _) = sealed?;
            let mut headers: Vec<Value> = message.headers.iter().map(|(name, value)| json!([name, value])).collect();
            headers.push(json!(["content-type", message.content_type]));
            let message = (headers, hex(&message.body));
            (ClientCall::Old { session: session.clone(), target }, message)
        }
        Session::Native(session, _) => {
            let call = session.seal(provider(), line, content_type, now_ms, &random()?)?;
            let (stamp, nonce) = call.pending.stamp_and_nonce();
            let (stamp, nonce) = (stamp.to_owned(), nonce.to_owned());
            let sealed = Envelope { prefix: Vec::new(), headers: call.headers, sealer: call.sealer };
            let message = stream::message(sealed, &members.inner_headers()?, &body, is_bodyless)?;
            (ClientCall::Native { session: session.clone(), method, target, stamp, nonce }, message)
        }
        Session::Key(config, psk) => {
            let (stamp, nonce) = (now_ms.to_string(), hex(&random::<16>()?));
            let psk = psk.as_ref().map(|(id, key)| ClientPsk { id, key });
            let call = one_shot::seal(provider(), config, psk, line, content_type, (&stamp, &nonce), None)?;
            let sealed = Envelope { prefix: call.prefix, headers: call.headers, sealer: call.sealer };
            let message = stream::message(sealed, &members.inner_headers()?, &body, is_bodyless)?;
            (ClientCall::OneShot(call.pending), message)
        }
    };
    Ok(json!({"call": calls.put(call), "headers": headers, "body_hex": body_hex}))
}

pub(super) fn open(calls: &mut Handles<ClientCall>, members: &Members<'_>) -> Outcome {
    let call = calls.take(members, "call")?;
    let (status, headers, body) = (members.status()?, members.headers()?, members.bytes("body_hex")?);
    match &call {
        ClientCall::Old { session, target } => {
            let now_ms = members.number("now_ms")?;
            let body = open_compat(session, path_of(target), status, &headers, body, now_ms)?;
            Ok(json!({"headers": [], "body_hex": hex(&body)}))
        }
        ClientCall::Native { session, method, target, stamp, nonce } => {
            // A pending answer borrows its session; it is created anew from the stored request.
            let pending = session.seal_as(provider(), RequestLine { method, target }, "", stamp, nonce)?.pending;
            open_frames(&pending, status, &headers, body)
        }
        ClientCall::OneShot(pending) => {
            let mut opened = open_frames(pending, status, &headers, body)?;
            let is_own = |(name, value): &(String, String)| {
                name.eq_ignore_ascii_case(X_IDEMPOTENCY_KEY)
                    && value.split_once('.').is_some_and(|(_, nonce)| nonce.starts_with(PROBLEM_PREFIX))
            };
            opened["is_problem"] = headers.iter().any(is_own).into();
            Ok(opened)
        }
    }
}

fn open_frames(pending: &PendingAnswer<'_>, status: u16, headers: &Pairs, body: Vec<u8>) -> Outcome {
    let (header, opener) = pending.open(provider(), headers, status)?;
    let (first, rest) = stream::open(opener, &stream::place(header, body)?)?;
    let (inner, len) = InnerHeaders::parse(&first)?;
    let body = [first.get(len..).unwrap_or_default(), &rest].concat();
    Ok(json!({"headers": pairs(&inner), "body_hex": hex(&body)}))
}

fn open_compat(
    session: &session::ClientSession,
    path: &str,
    status: u16,
    headers: &Pairs,
    body: Vec<u8>,
    now_ms: u64,
) -> Result<Vec<u8>, Error> {
    // As above: from a request that is never sent, with an IV of its own.
    let randoms = SealRandoms::draw(provider())?;
    let (_, pending) = session.seal(path, SealBuffer::with_capacity(0), now_ms, &randoms, &mut |_| ())?;
    let opened = pending.open(headers, status, body, now_ms, &ReplayPolicy::default(), &mut |_| ())?;
    Ok(opened.as_slice().to_vec())
}

fn path_of(target: &str) -> &str {
    target.split('?').next().unwrap_or_default()
}
