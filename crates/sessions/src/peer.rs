//! The endpoints under `/v1/authority/`, for API sides that keep no state themselves: the store, exposed over HTTP.
//! Closed unless a secret is configured. `spec/session.md#authority-endpoints`.
//!
//! Session keys travel in these messages: no body is logged or quoted in an error. An API side is trusted with keys and
//! with the verification of tags; its clock and its settings do not decide how long a nonce is remembered.

use http::header::{CACHE_CONTROL, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use hyper::body::Body as HttpBody;
use sealway_exchange::Sessions;
use sealway_proto::Error;
use sealway_proto::limits::TTL_SEC_CONFIG_MAX;
use sealway_proto::session::{Claim, Session, SessionRecord};
use sealway_proto::wire::SessionId;
use sealway_runtime::http::{Body, BodyRefusal, discard, read_body};
use zeroize::Zeroizing;

use crate::answer::{Form, Refusal, busy, json, method_not_allowed, plain_error, report};
use crate::authority::Authority;
use crate::endpoint::bearer_is;
use crate::store::remote::message::{
    MESSAGE_LEN_MAX, MessageError, PassedClaim, State, decode_session, encode_session, hex,
};
use crate::store::remote::{NONCES, SESSIONS, STATE};

/// Prefix of all paths of this module.
pub(crate) const PREFIX: &str = "/v1/authority/";

/// Secret that API sides present. Wiped when dropped, never printed.
pub struct PeerSecret(Zeroizing<String>);

impl PeerSecret {
    /// Wraps a secret that [`strong_secret`](crate::config::strong_secret) read.
    pub fn new(secret: Zeroizing<String>) -> Self {
        PeerSecret(secret)
    }
}

impl std::fmt::Debug for PeerSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PeerSecret(redacted)")
    }
}

/// Answers a request whose path begins with [`PREFIX`].
// SPEC session.md#authority-endpoints
pub(crate) async fn handle<B>(authority: &Authority, parts: &Parts, body: B) -> Response<Body>
where
    B: HttpBody + Unpin + 'static,
{
    let Some(secret) = &authority.policy.peer_secret else {
        discard(body).await;
        return plain_error(StatusCode::NOT_FOUND, "NOT_FOUND");
    };
    let mut response = if bearer_is(&parts.headers, &secret.0) {
        dispatch(authority, parts, body).await
    } else {
        discard(body).await;
        metrics::counter!("sealway_refusals_total", "on" => "authority", "class" => "bearer").increment(1);
        let mut response = plain_error(StatusCode::UNAUTHORIZED, "UNAUTHORIZED");
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        response
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn dispatch<B>(authority: &Authority, parts: &Parts, body: B) -> Response<Body>
where
    B: HttpBody + Unpin + 'static,
{
    let (method, path) = (&parts.method, parts.uri.path());
    let body = match read_body(body, MESSAGE_LEN_MAX, authority.policy.body_deadline).await {
        Ok(body) => Zeroizing::new(body),
        Err(refusal) => return body_refused(refusal),
    };
    let answered = match (path, path.strip_prefix(SESSIONS)) {
        (STATE, _) if method == Method::GET => Ok(state(authority)),
        (STATE, _) => return method_not_allowed("GET", Form::Plain),
        (NONCES, _) if method == Method::POST => reserve(authority, &body).await,
        (NONCES, _) => return method_not_allowed("POST", Form::Plain),
        (_, Some(id)) => match (SessionId::parse(id), method) {
            (Err(_), _) => Err(MessageError("id: expected S- or A- and 32 of 0-9a-f".into()).into()),
            (Ok(id), &Method::PUT) => put(authority, &id, &body).await,
            (Ok(id), &Method::GET) => get(authority, &id).await,
            (Ok(id), &Method::DELETE) => delete(authority, &id).await,
            _ => return method_not_allowed("GET, PUT, DELETE", Form::Plain),
        },
        _ => return plain_error(StatusCode::NOT_FOUND, "NOT_FOUND"),
    };
    answered.unwrap_or_else(Failure::answer)
}

/// Reason for an error response.
enum Failure {
    Malformed(MessageError),
    Refused(Refusal),
}

impl From<MessageError> for Failure {
    fn from(err: MessageError) -> Self {
        Failure::Malformed(err)
    }
}

impl From<Refusal> for Failure {
    fn from(err: Refusal) -> Self {
        Failure::Refused(err)
    }
}

impl Failure {
    fn answer(self) -> Response<Body> {
        let refusal = match self {
            Failure::Malformed(MessageError(message)) => return bad(&message),
            Failure::Refused(refusal) => refusal,
        };
        report(&refusal, "authority");
        let mut response = match refusal {
            Refusal::StoreFull => plain_error(StatusCode::INSUFFICIENT_STORAGE, "SESSIONS_FULL"),
            Refusal::NoncesFull => plain_error(StatusCode::INSUFFICIENT_STORAGE, "NONCES_FULL"),
            _ => busy(),
        };
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(1));
        response
    }
}

fn bad(message: &str) -> Response<Body> {
    let body = serde_json::json!({"error": "MESSAGE_INVALID", "message": message});
    json(StatusCode::BAD_REQUEST, body.to_string())
}

fn body_refused(refusal: BodyRefusal) -> Response<Body> {
    match refusal {
        BodyRefusal::TooLarge => plain_error(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE"),
        BodyRefusal::TooSlow => plain_error(StatusCode::REQUEST_TIMEOUT, "BODY_TOO_SLOW"),
        BodyRefusal::Broken => bad("the body broke off"),
        BodyRefusal::NoRoom => busy(),
    }
}

fn state(authority: &Authority) -> Response<Body> {
    let window_ms = authority.policy.replay.window_ms();
    let state = State::of(&authority.store().status(), authority.now_ms(), window_ms);
    json(StatusCode::OK, state.encode())
}

async fn put(authority: &Authority, id: &SessionId, body: &[u8]) -> Result<Response<Body>, Failure> {
    let record = decode_session(body)?;
    if record.id != *id {
        return Err(MessageError("id: is not the path's".into()).into());
    }
    check_times(authority, &record)?;
    let session = Session::new(authority.provider(), record).map_err(Refusal::from)?;
    authority.keep(session).await?;
    Ok(json(StatusCode::OK, format!(r#"{{"id":"{id}"}}"#)))
}

/// Rejects a session whose times show that the API side's clock is far off: one that is over, or one that would stay
/// too long.
fn check_times(authority: &Authority, record: &SessionRecord) -> Result<(), MessageError> {
    let now_ms = authority.now_ms();
    if record.expires_ms <= now_ms {
        return Err(MessageError("expires_ms: is over by the authority's clock".into()));
    }
    let longest_ms = u64::from(TTL_SEC_CONFIG_MAX) * 1000 + authority.policy.replay.window_ms();
    if record.expires_ms - now_ms > longest_ms {
        return Err(MessageError("expires_ms: is more than 30 days ahead by the authority's clock".into()));
    }
    Ok(())
}

async fn get(authority: &Authority, id: &SessionId) -> Result<Response<Body>, Failure> {
    Ok(match authority.find(id).await? {
        // The answer's bytes are wiped when it is sent or dropped.
        Some(session) => {
            let message = Zeroizing::new(encode_session(session.record()).as_bytes().to_vec());
            json(StatusCode::OK, bytes::Bytes::from_owner(message))
        }
        None => json(StatusCode::NOT_FOUND, format!(r#"{{"error":"SESSION_NOT_FOUND","id":"{id}"}}"#)),
    })
}

async fn delete(authority: &Authority, id: &SessionId) -> Result<Response<Body>, Failure> {
    let deleted = authority.revoke(id).await?;
    if deleted {
        tracing::info!(session = %id, "session revoked by another process");
    }
    Ok(json(StatusCode::OK, format!(r#"{{"id":"{id}","deleted":{deleted}}}"#)))
}

/// Reserves a nonce. The claim is rebuilt by this process's clock and policy, independent of the API side's.
// SPEC session.md#authority-endpoints
async fn reserve(authority: &Authority, body: &[u8]) -> Result<Response<Body>, Failure> {
    let PassedClaim { key, sealed, stamp_ms } = PassedClaim::decode(body)?;
    let name = hex(key);
    let conflict = |error: &str| json(StatusCode::CONFLICT, format!(r#"{{"error":"{error}","key":"{name}"}}"#));
    let replay = &authority.policy.replay;
    let claim = match Claim::passed_on(key, sealed, stamp_ms, authority.now_ms(), replay) {
        Ok(claim) => claim,
        Err(err) => {
            report(&Refusal::from(err), "authority");
            return Ok(conflict("TIMESTAMP_OUTSIDE_WINDOW"));
        }
    };
    match authority.reserve(&claim).await {
        Ok(_fresh) => Ok(json(StatusCode::CREATED, format!(r#"{{"key":"{name}"}}"#))),
        Err(refusal @ Refusal::Wire(Error::Replayed)) => {
            report(&refusal, "authority");
            Ok(conflict("REPLAYED"))
        }
        Err(refusal) => Err(refusal.into()),
    }
}
