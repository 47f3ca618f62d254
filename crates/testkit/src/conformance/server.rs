//! The server's operations. Its bounds and lifetimes of sessions are the spec's defaults.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sealway_proto::Error;
use sealway_proto::crypto::agreement::Curve;
use sealway_proto::crypto::identity::{IdentityPair, default_identity_library};
use sealway_proto::session::native::{
    self, InitRequest, KeyId, OpenedRequest, RequestLine, SealedRequest, ServerRandoms, Terms, agree, choose,
};
use sealway_proto::session::{
    Auth, Claim, Family, Fresh, InitCall, InitRandoms, Laps, NonceGuard, SealBuffer, SealRandoms, SealedCall, Session,
    SessionKey, SessionRecord, TtlPolicy,
};
use sealway_proto::wire::header::X_SEAL;
use sealway_proto::wire::{Field, Headers, ReplayPolicy, SessionId, Wire};
use serde_json::{Value, json};

use super::member::{Members, hex, pairs};
use super::stream::Envelope;
use super::{Handles, Outcome, Refusal, provider, stream};

/// Longest lifetime of a chain of renewals.
const CHAIN_MS_MAX: u64 = 86_400_000;

/// A request without its answer.
pub(super) enum ServerCall {
    Old(sealway_proto::session::Reply),
    Native { reply: native::Reply, is_head: bool },
}

impl std::fmt::Debug for ServerCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerCall")
    }
}

fn release<T>(unreplayed: NonceGuard<T>) -> Result<T, Error> {
    let fresh = Fresh::reserved(unreplayed.claim());
    unreplayed.release(fresh)
}

pub(super) fn init(members: &Members<'_>) -> Outcome {
    let (path, headers, body) = (members.text("path")?, members.headers()?, members.bytes("body_hex")?);
    let now_ms = members.number("now_ms")?;
    let family = match path.split('?').next().unwrap_or_default() {
        "/session/init" => Family::Session,
        "/session/init/anon" => Family::Anonymous,
        "/v1/session/init" => Family::V1,
        "/v3/sessions" => {
            let request = InitRequest::parse(&body)?;
            let credential = match headers.field("authorization") {
                Field::Value(value) if !value.is_empty() => Some(provider().sha256(&[value.as_bytes()])),
                _ => None,
            };
            let (answer, session) = agree_native(members, &request, credential.as_ref(), None, now_ms)?;
            return Ok(json!({
                "status": 201,
                "headers": [["content-type", "application/json"], ["cache-control", "no-store"]],
                "body_hex": hex(answer.as_bytes()),
                "session": of_session(&session),
            }));
        }
        other => return Err(Refusal::fault(format!("path: there is no init at {other:?}"))),
    };
    let call = InitCall::parse(provider(), family, &headers, &body, now_ms, &ReplayPolicy::default())?;
    let authenticated = matches!(headers.field("authorization"), Field::Value(value) if !value.is_empty());
    let draw = |laps: Laps<'_>| InitRandoms::draw(provider(), laps);
    let accepted =
        release(call)?.accept(provider(), &TtlPolicy::default(), authenticated, None, draw, now_ms, &mut |_| ());
    let (answer, session) = accepted?;
    let mut headers = vec![json!(["content-type", "application/json"])];
    if family == Family::V1 {
        headers.push(json!(["x-kid", session.id().as_str()]));
    }
    Ok(json!({
        "status": 200, "headers": headers, "body_hex": hex(answer.encode().as_bytes()), "session": of_session(&session),
    }))
}

pub(super) fn renew(members: &Members<'_>) -> Outcome {
    let (old, now_ms) = (session(members.get("session")?)?, members.number("now_ms")?);
    let request = InitRequest::parse(&members.bytes("body_hex")?)?;
    if old.record().wire != Wire::Native {
        return Err(Error::WireMismatch.into());
    }
    if old.record().client_id.as_deref() != Some(&*request.client_id) {
        return Err(Error::Policy.into());
    }
    if request.proof.is_some() {
        return Err(Error::FieldInvalid("proof").into());
    }
    let (answer, session) = agree_native(members, &request, None, Some(&old), now_ms)?;
    Ok(json!({"status": 201, "body_hex": hex(answer.as_bytes()), "session": of_session(&session)}))
}

fn agree_native(
    members: &Members<'_>,
    request: &InitRequest,
    credential: Option<&[u8; 32]>,
    renewed: Option<&Session>,
    now_ms: u64,
) -> Result<(String, Session), Refusal> {
    let suites = members.suites("suites")?;
    let key = identity(&members.array("identity_hex")?)?;
    let chosen = choose(&request.suites, &suites);
    if chosen.is_none_or(|suite| suite.name() != &*request.suite) {
        return Err(Error::SuiteRequired.into());
    }
    let key_id = KeyId::of(provider(), key.public());
    if !request.pinned_key_ids.is_empty() && !request.pinned_key_ids.contains(&key_id) {
        return Err(Error::KeyRetired.into());
    }
    let ttl = TtlPolicy::default();
    let mut ttl_sec = request.ttl_sec.map_or(ttl.default_sec, |sec| sec.clamp(ttl.min_sec, ttl.max_sec));
    if let Some(old) = renewed {
        let left_ms = old.record().created_ms.saturating_add(CHAIN_MS_MAX).saturating_sub(now_ms);
        ttl_sec = ttl_sec.min(u32::try_from(left_ms / 1000).unwrap_or(u32::MAX));
        if ttl_sec == 0 {
            return Err(Error::Policy.into());
        }
    }
    let old = renewed.map(Session::record);
    let terms = Terms {
        suites,
        expires_in_sec: ttl_sec,
        key_id,
        key_ids: vec![key_id],
        auth: old.map_or(Auth::None, |old| old.auth),
        subject: old.and_then(|old| old.subject.clone()),
        tenant: old.and_then(|old| old.tenant.clone()),
        credential,
    };
    let mut id = [0; 16];
    provider().fill_random(&mut id)?;
    let agreed = agree(provider(), request, terms, renewed, &id, ServerRandoms::Draw, now_ms, &mut |_| ())?;
    let signature = key.sign(&agreed.message())?;
    Ok(agreed.signed(provider(), signature)?)
}

/// Returns the identity key of a scalar: the seam reads PKCS #8 (RFC 5958), so this wraps the scalar.
fn identity(scalar: &[u8; 32]) -> Result<IdentityPair, Error> {
    const BEFORE: &[u8] = &[
        0x30, 0x81, 0x87, 0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06,
        0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x04, 0x6d, 0x30, 0x6b, 0x02, 0x01, 0x01, 0x04, 0x20,
    ];
    const BETWEEN: &[u8] = &[0xa1, 0x44, 0x03, 0x42, 0x00];
    let pair = provider().agreement_from_private(Curve::P256, scalar)?;
    default_identity_library().from_pkcs8(&[BEFORE, scalar, BETWEEN, pair.public()].concat())
}

pub(super) fn open(calls: &mut Handles<ServerCall>, members: &Members<'_>) -> Outcome {
    let session = Arc::new(session(members.get("session")?)?);
    let (method, target) = (members.text("method")?, members.text("target")?);
    let (headers, body) = (members.headers()?, members.bytes("body_hex")?);
    let (now_ms, policy) = (members.number("now_ms")?, ReplayPolicy::default());
    if headers.field(X_SEAL) != Field::Absent {
        let mut request = SealedRequest::parse(&headers, RequestLine { method, target })?;
        request.check(&session, now_ms, &policy)?;
        let stream = stream::place(request.take_sealed(), body)?;
        let (opener, opening) = request.open(provider(), session, now_ms, &policy)?;
        let (first, rest) = stream::open(opener, &stream)?;
        let opened = opening.first(first)?;
        let claim = claim_hex(opened.claim());
        let OpenedRequest { headers: inner, first: (frame, len), reply } = release(opened)?;
        let body = [frame.get(len..).unwrap_or_default(), &rest].concat();
        let call = calls.put(ServerCall::Native { reply, is_head: method == "HEAD" });
        return Ok(json!({"call": call, "headers": pairs(&inner), "body_hex": hex(&body), "claim_hex": claim}));
    }
    if method != "POST" {
        return Err(Refusal::fault("method: wires 1 and 2 seal POST alone"));
    }
    let path = target.split('?').next().unwrap_or_default();
    let call = SealedCall::parse(&headers, path, now_ms, &policy)?;
    let opened = call.open(provider(), session, body, &mut |_| ())?;
    let claim = claim_hex(opened.claim());
    let opened = release(opened)?;
    let body_hex = hex(opened.plaintext.as_slice());
    let call = calls.put(ServerCall::Old(opened.reply));
    Ok(json!({"call": call, "headers": [], "body_hex": body_hex, "claim_hex": claim}))
}

pub(super) fn seal(calls: &mut Handles<ServerCall>, members: &Members<'_>) -> Outcome {
    let call = calls.take(members, "call")?;
    let (status, body, now_ms) = (members.status()?, members.bytes("body_hex")?, members.number("now_ms")?);
    let (headers, body_hex) = match call {
        ServerCall::Old(reply) => {
            let randoms = SealRandoms::draw(provider())?;
            let message = reply.seal(status, SealBuffer::from(body.as_slice()), now_ms, &randoms, &mut |_| ())?;
            let mut headers: Vec<Value> = message.headers.iter().map(|(name, value)| json!([name, value])).collect();
            headers.push(json!(["content-type", message.content_type]));
            (headers, hex(&message.body))
        }
        ServerCall::Native { reply, is_head } => {
            let inner = members.inner_headers()?;
            let is_bodyless = is_head || matches!(status, 204 | 205 | 304);
            if is_bodyless && !body.is_empty() {
                return Err(Refusal::fault("body_hex: there is no body here"));
            }
            let content_type = if is_bodyless { "" } else { stream::OCTETS };
            let mut nonce = [0; 16];
            provider().fill_random(&mut nonce)?;
            let (headers, sealer) = reply.seal(provider(), status, content_type, now_ms, &nonce)?;
            stream::message(Envelope { prefix: Vec::new(), headers, sealer }, &inner, &body, is_bodyless)?
        }
    };
    Ok(json!({"status": status, "headers": headers, "body_hex": body_hex}))
}

fn claim_hex(claim: &Claim) -> String {
    hex(&claim.key().0)
}

/// Returns a record in the form of the authority endpoints.
fn of_session(session: &Session) -> Value {
    let record = session.record();
    json!({
        "id": record.id.as_str(),
        "wire": record.wire.number(),
        "client_id": record.client_id,
        "subject": record.subject,
        "created_ms": record.created_ms,
        "expires_ms": record.expires_ms,
        "key": BASE64_STANDARD.encode(record.key.expose()),
        "tenant": record.tenant,
        "auth": record.auth.name(),
    })
}

fn session(value: &Value) -> Result<Session, Refusal> {
    let fault = |name: &str| Refusal::fault(format!("session.{name} is missing or malformed"));
    let text = |name| value.get(name).and_then(Value::as_str);
    let number = |name| value.get(name).and_then(Value::as_u64).ok_or_else(|| fault(name));
    let wire = u8::try_from(number("wire")?).ok().and_then(Wire::from_number).ok_or_else(|| fault("wire"))?;
    let key = text("key").and_then(|key| BASE64_STANDARD.decode(key).ok()).and_then(|key| key.try_into().ok());
    let record = SessionRecord {
        id: text("id").and_then(|id| SessionId::parse(id).ok()).ok_or_else(|| fault("id"))?,
        wire,
        client_id: text("client_id").map(Box::from),
        subject: text("subject").map(Box::from),
        tenant: text("tenant").map(Box::from),
        auth: text("auth").map_or(Some(Auth::None), Auth::from_name).ok_or_else(|| fault("auth"))?,
        lineage: None,
        created_ms: number("created_ms")?,
        expires_ms: number("expires_ms")?,
        key: SessionKey::from_bytes(key.ok_or_else(|| fault("key"))?),
    };
    Ok(Session::new(provider(), record)?)
}
