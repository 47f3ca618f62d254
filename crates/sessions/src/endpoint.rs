//! The authority's HTTP endpoints: both init families, the key endpoint, health and readiness. The module [`peer`] has
//! those for other processes.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::body::Body as HttpBody;
use sealway_exchange::Sessions;
use sealway_exchange::headers::HttpHeaders;
use sealway_exchange::timing::ServerTiming;
use sealway_proto::crypto::is_equal;
use sealway_proto::limits::{ANON_BODY_MAX, INIT_BODY_MAX, INIT_V1_BODY_MAX};
use sealway_proto::session::Family;
use sealway_proto::session::native::Problem;
use sealway_proto::wire::header::X_CLIENT_ID;
use sealway_proto::wire::{Field, Headers, SessionId, Wire, base64};
use sealway_runtime::clock::iso8601;
use sealway_runtime::http::{Body, Origin, discard, read_body};

use crate::answer::{
    ErrorAnswer, Form, Refusal, body_fault, json, method_not_allowed, plain_error, rejected, report, told, v1_error,
};
use crate::authority::{Authority, KeyEndpoint};
use crate::native;
use crate::peer;
use crate::store::{Part, Pool};

pub(crate) const KEY_PREFIX: &str = "/v1/session/";
/// Path of the key set of wire 3.
pub const KEY_SET_PATH: &str = "/.well-known/sealway-keys";

/// Answers a request to one of the authority's paths; any other path is 404.
pub async fn handle<B>(authority: &Arc<Authority>, request: Request<B>, timing: &mut ServerTiming) -> Response<Body>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Send,
{
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    let peer =
        parts.extensions.get::<Origin>().and_then(|origin| origin.client).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let family = match path {
        "/session/init" => Some(Family::Session),
        "/session/init/anon" => Some(Family::Anonymous),
        "/v1/session/init" => Some(Family::V1),
        _ => None,
    };
    if let Some(family) = family {
        if parts.method != Method::POST {
            discard(body).await;
            return method_not_allowed("POST, OPTIONS", Form::Plain);
        }
        return init(authority, family, &parts.headers, body, peer, timing).await;
    }
    if path == "/v3/sessions" {
        return native::handle_init(authority, &parts, body, timing).await;
    }
    if native::is_managed(path) {
        return native::handle_managed(authority, parts, body, timing).await;
    }
    if path.starts_with(peer::PREFIX) {
        return peer::handle(authority, &parts, body).await;
    }
    discard(body).await;
    let key_id = path.strip_prefix(KEY_PREFIX);
    match (path, key_id) {
        ("/health" | "/ready" | KEY_SET_PATH, _) | (_, Some(_))
            if parts.method != Method::GET && parts.method != Method::HEAD =>
        {
            method_not_allowed("GET, HEAD, OPTIONS", Form::Plain)
        }
        ("/health", _) => health(authority),
        ("/ready", _) => ready(authority),
        (KEY_SET_PATH, _) => key_set(authority),
        (_, Some(id)) => guarded_key(authority, id, &parts.headers).await,
        _ => plain_error(StatusCode::NOT_FOUND, "NOT_FOUND"),
    }
}

/// Returns a session's key to a caller that presents the key endpoint's secret; 404 if the endpoint is closed.
pub(crate) async fn guarded_key(authority: &Authority, id: &str, headers: &HeaderMap) -> Response<Body> {
    match &authority.policy.key_endpoint {
        KeyEndpoint::Closed => plain_error(StatusCode::NOT_FOUND, "NOT_FOUND"),
        KeyEndpoint::Secret(secret) if !bearer_is(headers, secret) => {
            v1_error(StatusCode::UNAUTHORIZED, "A valid bearer secret is required")
        }
        KeyEndpoint::Secret(_) | KeyEndpoint::Open => key(authority, id, headers).await,
    }
}

async fn init<B>(
    authority: &Authority,
    family: Family,
    headers: &HeaderMap,
    body: B,
    peer: IpAddr,
    timing: &mut ServerTiming,
) -> Response<Body>
where
    B: HttpBody + Unpin + 'static,
{
    let len_max = match family {
        Family::Session => INIT_BODY_MAX,
        Family::Anonymous => ANON_BODY_MAX,
        Family::V1 => INIT_V1_BODY_MAX,
    };
    let answer = async {
        if family == Family::V1 && !is_json(headers) {
            discard(body).await;
            return Err(Refusal::ContentType);
        }
        let body = read_body(body, len_max, authority.policy.body_deadline).await.map_err(body_fault)?;
        timing.skip();
        authority.init(family, headers, &body, peer, timing).await
    };
    match answer.await {
        Ok(answer) => {
            let mut response = json(StatusCode::OK, answer.encode());
            if family == Family::V1
                && let Ok(id) = HeaderValue::from_str(answer.session_id.as_str())
            {
                response.headers_mut().insert(HeaderName::from_static("x-kid"), id);
            }
            response
        }
        Err(refusal) => {
            report(&refusal, "init");
            if family == Family::V1 {
                return rejected(refusal, Form::V1);
            }
            // The steps reached would reveal the class of the rejection, which belongs in the log only.
            timing.forget_steps();
            rejected(refusal, Form::Plain)
        }
    }
}

/// True for the media types `application/json` and `…+json`, with any parameters.
fn is_json(headers: &HeaderMap) -> bool {
    let headers = HttpHeaders(headers);
    let Field::Value(value) = headers.field("content-type") else { return false };
    let media = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media == "application/json" || (media.starts_with("application/") && media.ends_with("+json"))
}

/// True if the header `Authorization` is `Bearer` with this secret, compared in constant time.
pub fn bearer_is(headers: &HeaderMap, secret: &str) -> bool {
    let headers = HttpHeaders(headers);
    match headers.field("authorization") {
        Field::Value(value) => match value.split_once(' ') {
            Some((scheme, given)) if scheme.eq_ignore_ascii_case("bearer") => {
                is_equal(given.trim().as_bytes(), secret.as_bytes())
            }
            _ => false,
        },
        _ => false,
    }
}

/// Answers `GET /v1/session/:id` for an authorized caller.
// SPEC session.md#the-key-endpoint
pub(crate) async fn key(authority: &Authority, id: &str, headers: &HeaderMap) -> Response<Body> {
    let headers = HttpHeaders(headers);
    let Ok(client_id) = headers.field(X_CLIENT_ID).required(X_CLIENT_ID) else {
        return v1_error(StatusCode::BAD_REQUEST, "X-ClientId header is required");
    };
    let id = match SessionId::parse(id) {
        Ok(id) if !id.is_anonymous() => id,
        _ => return v1_error(StatusCode::BAD_REQUEST, "Invalid session ID format"),
    };
    let session = match authority.find(&id).await {
        // Keys of wire 3 are never returned: they prove the service's identity, and no other process may act in its
        // place.
        Ok(Some(session)) if session.record().wire != Wire::Native => session,
        Ok(_) => return v1_error(StatusCode::NOT_FOUND, "Session not found"),
        Err(refusal) => return rejected(refusal, Form::V1),
    };
    let record = session.record();
    if record.client_id.as_deref() != Some(client_id) {
        return v1_error(StatusCode::FORBIDDEN, "Not authorized to access this session");
    }
    if session.is_expired(authority.now_ms()) {
        return v1_error(StatusCode::GONE, "Session has expired");
    }
    let key = zeroize::Zeroizing::new(base64::encode(record.key.expose()));
    let body = format!(r#"{{"sessionId":"{id}","sessionKey":"{}","expiresAt":{}}}"#, *key, record.expires_ms);
    let mut response = json(StatusCode::OK, body);
    response.headers_mut().insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns the service's identity keys, for clients that pin a root or look up pinned ids.
// SPEC session-3.md#identity-keys
fn key_set(authority: &Authority) -> Response<Body> {
    let Some(identity) = authority.identity() else {
        let why = "This service has no identity keys, so it does not speak wire 3.";
        return told(ErrorAnswer::problem(&Problem::new("not_found").with("detail", why)));
    };
    let mut response = json(StatusCode::OK, identity.key_set(authority.now_ms()));
    response.headers_mut().insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// Answers the liveness probe: always 200, with the state of the store and its parts.
pub(crate) fn health(authority: &Authority) -> Response<Body> {
    let status = authority.store().status();
    // A fallback for Redis counts as degraded too: other processes do not know the nonces that it takes.
    let is_whole = status.up && status.redis != Part::Down && status.postgres != Part::Down && !authority.is_full();
    let mut body = serde_json::json!({
        "status": if is_whole { "ok" } else { "degraded" },
        "timestamp": iso8601(authority.now_ms()),
        "redis": link(status.redis),
        "postgres": link(status.postgres),
        "store": status.kind,
    });
    if matches!(authority.policy.key_endpoint, KeyEndpoint::Open) {
        body["warnings"] = serde_json::json!([
            "compat.open_key_endpoint is on: anyone who knows a session id and its client id can read the session's key"
        ]);
    }
    json(StatusCode::OK, body.to_string())
}

fn link(part: Part) -> &'static str {
    match part {
        Part::Unused => "unused",
        Part::Up => "ok",
        Part::Down => "disconnected",
    }
}

/// Answers the readiness probe: 200 if new sessions can be agreed, sealed calls opened and listeners' keys sign, else 503.
pub(crate) fn ready(authority: &Authority) -> Response<Body> {
    let status = authority.store().status();
    let timestamp = iso8601(authority.now_ms());
    let is_full = authority.is_full();
    let faults = authority.listener_key_faults();
    if status.up && !is_full && faults.is_empty() && !authority.is_stopping() {
        let Pool { total, idle, waiting } = status.pool;
        let pool = serde_json::json!({"totalCount": total, "idleCount": idle, "waitingCount": waiting});
        let cache = if status.redis == Part::Down { "degraded" } else { "up" };
        let mut body = serde_json::json!({"status": "ready", "database": "up", "cache": cache, "pool": pool, "timestamp": timestamp});
        let ends = [
            ("mleCertificates", authority.mle_certificates_end_ms()),
            ("oneShotKeys", authority.one_shot_keys_end_ms()),
        ];
        for (name, end_ms) in ends.into_iter().filter_map(|(name, end_ms)| Some((name, end_ms?))) {
            // Without names of keys: everybody may read this.
            let days_left = (i128::from(end_ms) - i128::from(authority.now_ms())).div_euclid(86_400_000) as i64;
            body[name] = serde_json::json!({"earliestEnd": iso8601(end_ms), "daysLeft": days_left});
        }
        return json(StatusCode::OK, body.to_string());
    }
    // The source of truth is PostgreSQL where there is one, else Redis, else the store itself.
    let database = if status.postgres == Part::Up || status.up { "up" } else { "down" };
    let cache = if status.redis == Part::Down { "down" } else { "up" };
    let what = match status.up {
        true if is_full => "nonces_full",
        true if authority.is_stopping() => "stopping",
        true => "listener_key",
        false => "unhealthy",
    };
    let mut body = serde_json::json!({"status": what, "database": database, "cache": cache, "timestamp": timestamp});
    if !faults.is_empty() {
        // Without names of tokens and keys: everybody may read this.
        body["listenerKeys"] = serde_json::json!(faults);
    }
    json(StatusCode::SERVICE_UNAVAILABLE, body.to_string())
}
