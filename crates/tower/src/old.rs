//! A sealed call of wires 1 and 2: open it, ask the service, seal what it answers. `spec/session.md#open`.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt;
use sealway_proto::limits::ANON_BODY_MAX;
use sealway_proto::session::{Opened, Reply, SealBuffer, SealRandoms, SealedCall, SessionRecord};
use sealway_proto::wire::Wire;

use crate::body::{Body, discard, full, read};
use crate::headers::{self, HttpHeaders};
use crate::layer::{Behind, Shared};
use crate::refusal::{Refusal, method_not_allowed, plain_error};
use crate::timing::Timing;

/// Answers a sealed call.
pub(crate) async fn call<E>(
    shared: &Shared,
    mut parts: Parts,
    body: Body,
    service: impl Behind<E>,
    timing: &mut Timing,
) -> Result<Response<Body>, E> {
    if parts.method != Method::POST {
        discard(body).await;
        return Ok(method_not_allowed("POST, OPTIONS"));
    }
    let (opened, record) = match open(shared, &parts, body, timing).await {
        Ok(opened) => opened,
        Err(refusal) => {
            timing.forget_steps();
            return Ok(refusal.plain());
        }
    };
    headers::unseal(&mut parts.headers, &shared.settings.content_type, shared.settings.trusts_origin);
    headers::put_identity(&mut parts.headers, &record);
    let (buffer, range) = opened.plaintext.into_parts();
    parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(range.len()));
    let request = Request::from_parts(parts, full(Bytes::from(buffer).slice(range)));
    timing.skip();
    let answer = service(request).await?;
    timing.lap("upstream");
    Ok(sealed_answer(shared, &opened.reply, answer, timing).await)
}

async fn open(
    shared: &Shared,
    parts: &Parts,
    body: Body,
    timing: &mut Timing,
) -> Result<(Opened, SessionRecord), Refusal> {
    let (settings, wire_headers) = (&shared.settings, HttpHeaders(&parts.headers));
    let path = parts.uri.path();
    let begun = async {
        shared.check_wire(Wire::of(&wire_headers))?;
        let call = SealedCall::parse(&wire_headers, path, shared.clock.now_ms(), &settings.replay)?;
        timing.lap("replay-protection");
        let session = shared.find(call.session_id()?).await?;
        timing.lap("session-get");
        call.check(&session)?;
        if session.id().is_anonymous() && !settings.anonymous_paths.iter().any(|allowed| allowed == path) {
            return Err(Refusal::Forbidden);
        }
        Ok((call, session))
    };
    let (call, session) = match begun.await {
        Ok(begun) => begun,
        Err(refusal) => {
            discard(body).await;
            return Err(refusal);
        }
    };
    let max = settings.sealed_body_max;
    let body = read(body, if session.id().is_anonymous() { max.min(ANON_BODY_MAX) } else { max }, settings.body_time);
    let body = body.await?;
    timing.skip();
    let opened = call.open(shared.provider(), session.clone(), body, &mut |step| timing.lap(step.name()))?;
    let fresh = shared.admit(&session, opened.claim(), &settings.replay).await?;
    let record = session.record().clone();
    let opened = opened.release(fresh)?;
    timing.lap("replay-protection");
    Ok((opened, record))
}

// SPEC session.md#answer
async fn sealed_answer(shared: &Shared, reply: &Reply, answer: Response<Body>, timing: &mut Timing) -> Response<Body> {
    let (mut head, body) = answer.into_parts();
    let status = match head.status {
        status if status.is_success() => StatusCode::OK,
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => {
            return plain_error(StatusCode::BAD_REQUEST, "CRYPTO_ERROR");
        }
        // Without a body there is nothing to seal, and an unsealed answer proves nothing.
        StatusCode::NOT_MODIFIED => return plain_error(StatusCode::BAD_GATEWAY, "SERVICE_UNAVAILABLE"),
        status => status,
    };
    let buffer = match collect(body, shared.settings.sealed_body_max, shared.settings.answer_time).await {
        Ok(buffer) => buffer,
        Err(status) => {
            tracing::warn!(status = status.as_u16(), "an answer cannot be sealed");
            return plain_error(status, "SERVICE_UNAVAILABLE");
        }
    };
    timing.skip();
    let sealed = SealRandoms::draw(shared.provider()).and_then(|randoms| {
        let now_ms = shared.clock.now_ms();
        reply.seal(status.as_u16(), buffer, now_ms, &randoms, &mut |step| timing.lap(step.name()))
    });
    let message = match sealed {
        Ok(message) => message,
        Err(err) => return Refusal::from(err).plain(),
    };
    headers::seal_answer(&mut head.headers);
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static(message.content_type));
    headers::put_seal(&mut head.headers, message.headers);
    let mut response = Response::new(full(message.body));
    *response.status_mut() = status;
    *response.headers_mut() = head.headers;
    response
}

/// The whole answer, which becomes one sealed message; the status of what is told where it cannot.
async fn collect(mut body: Body, len_max: usize, time: Duration) -> Result<SealBuffer, StatusCode> {
    let len = body.size_hint().lower();
    if len > len_max as u64 {
        return Err(StatusCode::BAD_GATEWAY);
    }
    let mut buffer = SealBuffer::with_capacity(len as usize);
    let all = async {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| StatusCode::BAD_GATEWAY)?;
            let Some(data) = frame.data_ref() else { continue };
            if buffer.len() + data.len() > len_max {
                return Err(StatusCode::BAD_GATEWAY);
            }
            buffer.extend(data);
        }
        Ok(())
    };
    tokio::time::timeout(time, all).await.map_err(|_| StatusCode::GATEWAY_TIMEOUT)??;
    Ok(buffer)
}
