//! A sealed request of wire 3: open it frame by frame, ask the service, seal its answer as it comes. `spec/session-3.md`.

mod cut;
mod kept;
mod seal;
mod unseal;

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Body as HttpBody;
use sealway_proto::Error;
use sealway_proto::limits::{FRAME_LEN_MAX, X_SEALED_LEN_MAX};
use sealway_proto::session::three::{
    FrameSealer, InnerHeaders, OpenedRequest, Problem, Reply, RequestLine, SealHeaders, may_be_inner,
};
use sealway_proto::wire::base64;
use sealway_proto::wire::header::X_SEALED;
use sealway_runtime::http::share::Share;
use sealway_runtime::http::{Body, BodyRefusal, Interim, Origin, RequestBody, discard, full};
use sealway_runtime::timing::ServerTiming;
use sealway_sessions::three::{Begun, Refused, problem_response, refusal_response};
use sealway_sessions::{Authority, Refusal};

use crate::body::{StreamLimits, bounded, refusal_behind};
use crate::config::RequestLimits;
use crate::headers;
use crate::route::Forward;
use crate::sealed::is_another_client;
use crate::uploads::{Upload, begin as begin_upload};
use crate::upstream::UpstreamError;
use cut::Cut;
pub use kept::KeptAnswers;
use kept::{Kept, Promise};
use seal::Sealing;
use unseal::{Fault, Plain, Unsealing};

const OCTETS: &str = "application/octet-stream";
const NOT_KEPT: HeaderValue = HeaderValue::from_static("no-store, no-transform");

/// What of a service's answer stands outside the seal too, for those in between that act on it.
static OUTSIDE: [HeaderName; 9] = [
    header::SET_COOKIE,
    header::RETRY_AFTER,
    header::VARY,
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
    header::ACCESS_CONTROL_ALLOW_HEADERS,
    header::ACCESS_CONTROL_ALLOW_METHODS,
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_EXPOSE_HEADERS,
    header::ACCESS_CONTROL_MAX_AGE,
];

/// Answers a sealed request.
pub(crate) async fn call(
    authority: &Arc<Authority>,
    forward: &Forward,
    limits: RequestLimits,
    mut parts: Parts,
    (body, room): (RequestBody, Share),
    is_trusted: bool,
    timing: &mut ServerTiming,
) -> Response<Body> {
    let is_answered = Arc::<AtomicBool>::default();
    let stream_limits = limits.of_body(&forward.policy, &is_answered);
    let ahead = room.another();
    let opened = open(authority, forward, stream_limits, &parts, (body, room), timing).await;
    let (opened, body, fault, promise) = match opened {
        Ok(Taken::Fresh { opened, body, fault, promise }) => (*opened, body, fault, promise),
        Ok(Taken::Again(kept)) => return kept.response(),
        Err(refused) => {
            timing.forget_steps();
            return refusal_response(&refused, "call");
        }
    };
    let OpenedRequest { headers: inner, reply, .. } = opened;
    headers::unseal3(&mut parts.headers, &inner, &forward.policy.unsealed_headers, is_trusted);
    parts.extensions.insert(headers::Identity::of(reply.session().record()));
    forward.policy.headers.to_upstream(&mut parts, is_trusted);
    parts.uri = forward.policy.target(&parts.uri);
    // An interim answer would leave the seal.
    parts.extensions.remove::<Interim>();
    let is_head = parts.method == Method::HEAD;
    let origin = parts.extensions.get::<Origin>().cloned();
    let asked = async {
        let origin = origin.as_ref();
        let upload = Upload { forward, origin, ahead_max: limits.body_ahead_max, waits_for_100: false };
        let body = begin_upload(body, ahead, &upload).await?;
        let answer = forward.upstream.call(Request::from_parts(parts, body)).await?;
        is_answered.store(true, Ordering::Relaxed);
        timing.lap("upstream");
        let cut = |body| Cut::new(body, authority, reply.session(), fault.clone()).boxed_unsync();
        sealed_answer(authority, forward, &reply, answer.map(cut), is_head).await
    };
    let answer = tokio::select! {
        answer = asked => answer,
        () = authority.over(reply.session()) => {
            let _ = fault.set(Error::SessionExpired);
            Err(UpstreamError::RequestBody(BodyRefusal::Broken))
        }
    };
    timing.lap("aes-gcm-encrypt");
    match (answer, fault.get()) {
        (Ok((answer, whole)), _) => {
            if let (Some(body), Some(promise), Some(kept)) = (whole, &promise, &forward.kept) {
                kept.keep(promise, Kept { status: answer.status(), headers: answer.headers().clone(), body });
            }
            answer
        }
        (Err(_), Some(err)) => {
            timing.forget_steps();
            refusal_response(&Refused::from(*err), "call")
        }
        (Err(err), None) => upstream_failure(&err),
    }
}

/// A request that was opened.
enum Taken {
    /// It is to be sent on.
    Fresh {
        opened: Box<OpenedRequest>,
        body: Body,
        /// Where it is noted if its stream breaks off.
        fault: Fault,
        /// Where its answer is to be kept.
        promise: Option<Promise>,
    },
    /// It was received before, and this is what it was answered.
    Again(Kept),
}

/// The request's head and first frame; then the body for the service.
async fn open(
    authority: &Arc<Authority>,
    forward: &Forward,
    limits: StreamLimits,
    parts: &Parts,
    (body, room): (RequestBody, Share),
    timing: &mut ServerTiming,
) -> Result<Taken, Refused> {
    let begun = begin(authority, forward, parts, timing).await;
    let begun = match begun {
        Ok(begun) => begun,
        Err(refused) => {
            // The client may still be sending; let it come to read the answer.
            discard(body).await;
            return Err(refused);
        }
    };
    let (sealed, opener, opening) = begun.into_parts();
    let policy = &forward.policy;
    if body.size_hint().lower() > policy.body_max {
        discard(body).await;
        return Err(Refusal::Body(BodyRefusal::TooLarge).into());
    }
    let mut stream = match sealed {
        Some(_) if !body.is_end_stream() => {
            discard(body).await;
            return Err(Error::HeaderInvalid(X_SEALED).into());
        }
        Some(sealed) => Unsealing::new(full(""), sealed, opener, room),
        None => Unsealing::new(bounded(body, limits), Vec::new(), opener, room),
    };
    let fault = stream.fault();
    timing.skip();
    // As a whole, however regularly its bytes come: a stamp is good for a while only.
    let first = tokio::time::timeout(authority.body_deadline(), poll_fn(|cx| stream.poll_opened(cx))).await;
    let first = match first.unwrap_or_else(|_| Err(BodyRefusal::TooSlow.into())) {
        Ok(Some(first)) => first,
        Ok(None) => return Err(Error::StreamTruncated.into()),
        Err(err) => {
            let refusal = refusal_behind(&*err).unwrap_or(BodyRefusal::Broken);
            return Err(fault.get().map_or_else(|| Refusal::Body(refusal).into(), |err| Refused::from(*err)));
        }
    };
    // A body of more frames is not all there to be compared.
    let kept = forward.kept.as_ref().filter(|_| first.is_last);
    let kept = kept.map(|kept| (kept, authority.fingerprint3(&parts.headers, &first.plaintext)));
    let mut opened = match (authority.admit3(opening, first.plaintext, timing).await, &kept) {
        (Ok(opened), _) => opened,
        (Err(Refusal::Wire(Error::Replayed)), Some((kept, fingerprint))) => {
            let answer = kept.find(fingerprint).await;
            return answer.map(Taken::Again).ok_or_else(|| Error::Replayed.into());
        }
        (Err(refusal), _) => return Err(refusal.into()),
    };
    let promise = kept.map(|(kept, fingerprint)| kept.begin(fingerprint));
    let (frame, at) = std::mem::take(&mut opened.first);
    let frame = Bytes::from(frame).slice(at..);
    let body = match first.is_last {
        true => full(frame),
        false => {
            let plain = Plain::new(frame, stream).boxed_unsync();
            Cut::new(plain, authority, opened.reply.session(), fault.clone()).boxed_unsync()
        }
    };
    Ok(Taken::Fresh { opened: Box::new(opened), body, fault, promise })
}

async fn begin(
    authority: &Authority,
    forward: &Forward,
    parts: &Parts,
    timing: &mut ServerTiming,
) -> Result<Begun, Refused> {
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let line = RequestLine { method: parts.method.as_str(), target };
    let begun = authority.begin3(&parts.headers, line, timing).await?;
    if is_another_client(forward, parts, begun.session().record().client_id.as_deref()) {
        return Err(Refusal::AnotherClient.into());
    }
    Ok(begun)
}

/// Seals what the service answered; beside it the body once more, where it is all there.
// SPEC session-3.md#sealed-answers
async fn sealed_answer(
    authority: &Authority,
    forward: &Forward,
    reply: &Reply,
    answer: Response<Body>,
    is_head: bool,
) -> Result<(Response<Body>, Option<Bytes>), UpstreamError> {
    let (mut head, body) = answer.into_parts();
    forward.policy.headers.to_client(&mut head.headers);
    let inner = inner_headers(&head.headers)?;
    headers::remove_where(&mut head.headers, |name| !OUTSIDE.contains(name));
    head.headers.insert(header::CACHE_CONTROL, NOT_KEPT);
    let broken = |refusal: Refusal| {
        refusal.report("seal");
        UpstreamError::Unreachable("its answer cannot be sealed".into())
    };
    let status = head.status;
    let is_bodyless =
        is_head || matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED);
    let content_type = if is_bodyless { "" } else { OCTETS };
    let (seal, sealer) = authority.seal3(reply, status.as_u16(), content_type).map_err(broken)?;
    put_seal(&mut head.headers, seal);
    let body = if is_bodyless {
        let text = base64::encode(&whole(sealer, &inner, &[])?);
        let value = HeaderValue::try_from(text).ok().filter(|value| value.len() <= X_SEALED_LEN_MAX);
        head.headers.insert(HeaderName::from_static(X_SEALED), value.ok_or_else(too_many_headers)?);
        (full(""), Some(Bytes::new()))
    } else {
        head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(OCTETS));
        match short(&body) {
            Some(_) => {
                let read = tokio::time::timeout(forward.upstream.response_time(), body.collect()).await;
                let read = read.map_err(|_| UpstreamError::TooSlow)?;
                let read = read.map_err(|err| UpstreamError::Unreachable(format!("its answer broke off: {err}")))?;
                let stream = Bytes::from(whole(sealer, &inner, &read.to_bytes())?);
                (full(stream.clone()), Some(stream))
            }
            None => (Sealing::new(body, sealer, inner).boxed_unsync(), None),
        }
    };
    let (body, whole) = body;
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = head.headers;
    Ok((response, whole))
}

/// The length of an answer that is short enough for one frame and known to end.
fn short(body: &Body) -> Option<u64> {
    body.size_hint().exact().filter(|len| *len <= (FRAME_LEN_MAX / 2) as u64)
}

/// A stream of one frame.
fn whole(mut sealer: FrameSealer, inner: &InnerHeaders, body: &[u8]) -> Result<Vec<u8>, UpstreamError> {
    let mut stream = Vec::with_capacity(body.len() + 512);
    let begun = sealer.begin(&mut stream);
    inner.encode(&mut stream);
    stream.extend_from_slice(body);
    let sealed = sealer.seal(&mut stream, begun, true);
    sealed.map_err(|err| UpstreamError::Unreachable(format!("its answer cannot be sealed: {err}")))?;
    Ok(stream)
}

/// All headers of the service, but those of framing and the gateway's own.
fn inner_headers(headers: &HeaderMap) -> Result<InnerHeaders, UpstreamError> {
    let mut inner = InnerHeaders::new();
    for (name, value) in headers.iter().filter(|(name, _)| may_be_inner(name.as_str())) {
        inner.push(name.as_str(), value.as_bytes()).map_err(|_| too_many_headers())?;
    }
    Ok(inner)
}

fn too_many_headers() -> UpstreamError {
    UpstreamError::Unreachable("the headers of its answer are more than a seal holds".into())
}

fn put_seal(headers: &mut HeaderMap, seal: SealHeaders) {
    for (name, value) in seal {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

/// What a client is told when the service gives no answer.
fn upstream_failure(err: &UpstreamError) -> Response<Body> {
    let status = err.status();
    let mut response = problem_response(&Problem::new(match status {
        StatusCode::PAYLOAD_TOO_LARGE => "too_large",
        StatusCode::BAD_REQUEST | StatusCode::REQUEST_TIMEOUT => "unsealable",
        StatusCode::GATEWAY_TIMEOUT => "upstream_timeout",
        StatusCode::SERVICE_UNAVAILABLE => "store_unavailable",
        _ => "upstream_unreachable",
    }));
    err.note(&mut response);
    response
}
