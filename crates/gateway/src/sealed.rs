//! A sealed call, wires 1 and 2: open it, ask the service, seal what it answers. `spec/session.md#open`.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Body as HttpBody;
use sealway_proto::Error;
use sealway_proto::session::{Opened, Reply, SealBuffer};
use sealway_runtime::http::{Body, Interim, Origin, RequestBody, discard, full, read_body};
use sealway_runtime::timing::ServerTiming;
use sealway_sessions::Authority;
use sealway_sessions::Refusal;
use sealway_sessions::answer::plain_error;
use sealway_sessions::authority::HttpHeaders;

use crate::headers::{self, Identity};
use crate::route::Forward;
use crate::upstream::UpstreamError;

const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Answers a sealed call.
pub(crate) async fn call(
    authority: &Authority,
    forward: &Forward,
    mut parts: Parts,
    body: RequestBody,
    is_trusted: bool,
    timing: &mut ServerTiming,
) -> Response<Body> {
    let policy = &forward.policy;
    if parts.method != Method::POST {
        discard(body).await;
        let mut response = plain_error(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED");
        response.headers_mut().insert(http::header::ALLOW, HeaderValue::from_static("POST, OPTIONS"));
        return response;
    }
    let (opened, identity) = match open(authority, forward, &parts, body, timing).await {
        Ok(opened) => opened,
        Err(refusal) => {
            refusal.report("call");
            // How far it came is the class of its refusal, which is the log's to know.
            timing.forget_steps();
            return refusal.plain();
        }
    };
    headers::unseal_request(&mut parts.headers, &policy.content_type);
    parts.extensions.insert(identity);
    policy.headers.to_upstream(&mut parts, is_trusted);
    // An interim answer would leave the seal.
    parts.extensions.remove::<Interim>();
    parts.uri = policy.target(&parts.uri);
    let (buffer, range) = opened.plaintext.into_parts();
    let request = Request::from_parts(parts, full(Bytes::from(buffer).slice(range)));
    let answer = async {
        let (head, body) = forward.upstream.call(request).await?.into_parts();
        let body = collect(body, forward).await?;
        Ok((head, body))
    };
    let answer = tokio::select! {
        answer = answer => answer,
        () = authority.over(opened.reply.session()) => {
            let refusal = Refusal::from(Error::SessionExpired);
            refusal.report("call");
            timing.forget_steps();
            return refusal.plain();
        }
    };
    timing.lap("upstream");
    match answer {
        Ok((mut head, body)) => {
            policy.headers.to_client(&mut head.headers);
            sealed_answer(authority, &opened.reply, head, body, timing)
        }
        Err(err) => upstream_failure(&err),
    }
}

/// Whether the connection's certificate names another client than the session does. Wire 1 has no client id to name.
pub(crate) fn is_another_client(forward: &Forward, parts: &Parts, client_id: Option<&str>) -> bool {
    let certificate = parts.extensions.get::<Origin>().and_then(|origin| origin.certificate.as_ref());
    let (Some(field), Some(certificate)) = (forward.policy.client_id, certificate) else { return false };
    !client_id.is_some_and(|id| field.texts(certificate).contains(&id))
}

async fn open(
    authority: &Authority,
    forward: &Forward,
    parts: &Parts,
    body: RequestBody,
    timing: &mut ServerTiming,
) -> Result<(Opened, Identity), Refusal> {
    let wire_headers = HttpHeaders(&parts.headers);
    let pending = match authority.begin(&wire_headers, parts.uri.path(), timing).await {
        Ok(pending) => pending,
        Err(refusal) => {
            // The client may still be sending; let it come to read the answer.
            discard(body).await;
            return Err(refusal);
        }
    };
    if is_another_client(forward, parts, pending.client_id()) {
        discard(body).await;
        return Err(Refusal::AnotherClient);
    }
    let body = read_body(body, pending.body_max(forward.policy.sealed_body_max), authority.body_deadline()).await?;
    let identity = Identity::of(pending.record());
    Ok((authority.open(pending, body, timing).await?, identity))
}

/// The whole answer, which becomes one sealed message.
async fn collect(mut body: Body, forward: &Forward) -> Result<SealBuffer, UpstreamError> {
    let len = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let too_long = || UpstreamError::Unreachable("its answer is longer than a sealed body may be".into());
    if len > forward.policy.sealed_body_max {
        return Err(too_long());
    }
    let mut buffer = SealBuffer::with_capacity(len);
    let read = async {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|err| UpstreamError::Unreachable(format!("its answer broke off: {err}")))?;
            let Some(data) = frame.data_ref() else { continue };
            if buffer.len() + data.len() > forward.policy.sealed_body_max {
                return Err(too_long());
            }
            buffer.extend(data);
        }
        Ok(())
    };
    tokio::time::timeout(forward.upstream.response_time(), read).await.map_err(|_| UpstreamError::TooSlow)??;
    Ok(buffer)
}

// SPEC session.md#answer
fn sealed_answer(
    authority: &Authority,
    reply: &Reply,
    mut head: http::response::Parts,
    body: SealBuffer,
    timing: &mut ServerTiming,
) -> Response<Body> {
    let status = match head.status {
        status if status.is_success() => StatusCode::OK,
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => {
            return plain_error(StatusCode::BAD_REQUEST, "CRYPTO_ERROR");
        }
        // Without a body there is nothing to seal, and an unsealed answer proves nothing.
        StatusCode::NOT_MODIFIED => {
            return upstream_failure(&UpstreamError::Unreachable("it answered 304 to a POST".into()));
        }
        status => status,
    };
    let message = match authority.seal(reply, status.as_u16(), body, timing) {
        Ok(message) => message,
        Err(refusal) => {
            refusal.report("seal");
            return refusal.plain();
        }
    };
    headers::seal_answer(&mut head.headers);
    let content_type = if message.content_type == "application/octet-stream" { OCTETS } else { TEXT };
    head.headers.insert(CONTENT_TYPE, content_type);
    for (name, value) in message.headers {
        if let Ok(value) = HeaderValue::try_from(value) {
            head.headers.insert(HeaderName::from_static(name), value);
        }
    }
    let mut response = Response::new(full(message.body));
    *response.status_mut() = status;
    *response.headers_mut() = head.headers;
    response
}

/// What a client is told when the service gives no answer.
pub(crate) fn upstream_failure(err: &UpstreamError) -> Response<Body> {
    let status = err.status();
    let code = match status {
        StatusCode::PAYLOAD_TOO_LARGE => "PAYLOAD_TOO_LARGE",
        StatusCode::BAD_REQUEST | StatusCode::REQUEST_TIMEOUT => "BAD_REQUEST",
        _ => "SERVICE_UNAVAILABLE",
    };
    let mut response = plain_error(status, code);
    err.note(&mut response);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(http::header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}
