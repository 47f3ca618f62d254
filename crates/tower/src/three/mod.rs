//! A sealed request of wire 3: open it frame by frame, ask the service, seal its answer as it comes. `spec/session-3.md`.

mod cut;
mod seal;
mod unseal;

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt;
use sealway_proto::Error;
use sealway_proto::limits::{FRAME_LEN_MAX, WINDOW3_MS_MAX, X_SEALED_LEN_MAX};
use sealway_proto::session::Session;
use sealway_proto::session::three::problem::prove_clock;
use sealway_proto::session::three::{
    FrameOpener, FrameSealer, InnerHeaders, OpenedRequest, Opening, Problem, Reply, RequestLine, SealedRequest,
    may_be_inner,
};
use sealway_proto::wire::header::X_SEALED;
use sealway_proto::wire::{Wire, base64};

use crate::body::{Body, BodyRefusal, Bounded, Flow, discard, full};
use crate::headers::{self, HttpHeaders};
use crate::layer::{Behind, Settings, Shared};
use crate::refusal::{Refusal, Refused, problem_response};
use crate::timing::Timing;
use cut::{Cut, unless_ended};
use seal::Sealing;
use unseal::{Fault, Plain, Unsealing};

const OCTETS: &str = "application/octet-stream";

/// Answers a sealed request.
pub(crate) async fn call<E>(
    shared: &Arc<Shared>,
    mut parts: Parts,
    body: Body,
    service: impl Behind<E>,
    timing: &mut Timing,
) -> Result<Response<Body>, E> {
    let Taken { opened, body, fault } = match open(shared, &parts, body, timing).await {
        Ok(taken) => taken,
        Err(refused) => {
            timing.forget_steps();
            return Ok(refused.response());
        }
    };
    let OpenedRequest { headers: inner, reply, .. } = opened;
    let Settings { unsealed_headers, trusts_origin, .. } = &shared.settings;
    headers::unseal3(&mut parts.headers, &inner, unsealed_headers, *trusts_origin);
    headers::put_identity(&mut parts.headers, reply.session().record());
    if let Some(len) = body.size_hint().exact().filter(|len| *len > 0) {
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(len));
    }
    let is_head = parts.method == Method::HEAD;
    timing.skip();
    let answered = async {
        let answer = service(Request::from_parts(parts, body)).await;
        timing.lap("upstream");
        match (fault.get(), answer) {
            // The service saw a body that broke off, whatever it makes of that.
            (Some(refusal), _) => Ok(Err(refusal.clone())),
            (None, Ok(answer)) => Ok(Ok(sealed_answer(shared, &reply, answer, is_head).await)),
            (None, Err(err)) => Err(err),
        }
    };
    let over = Err(Refusal::from(Error::SessionExpired));
    let sealed = match unless_ended(shared, reply.session(), answered).await.unwrap_or(Ok(over))? {
        Ok(sealed) => sealed,
        Err(refusal) => {
            timing.forget_steps();
            return Ok(Refused::from(refusal).response());
        }
    };
    timing.lap("aes-gcm-encrypt");
    Ok(sealed.unwrap_or_else(|unsealed| {
        tracing::warn!("an answer cannot be sealed: {unsealed}");
        problem_response(&Problem::new("upstream_unreachable"))
    }))
}

/// A request that was opened.
struct Taken {
    opened: OpenedRequest,
    /// For the service.
    body: Body,
    /// Where it is noted if the stream breaks off.
    fault: Fault,
}

/// A request whose session may be used for it.
struct Begun {
    sealed: Option<Vec<u8>>,
    opener: FrameOpener,
    opening: Opening,
}

/// The request's head and first frame; then the body for the service.
async fn open(shared: &Arc<Shared>, parts: &Parts, body: Body, timing: &mut Timing) -> Result<Taken, Refused> {
    let Begun { sealed, opener, opening } = match begin(shared, parts, timing).await {
        Ok(begun) => begun,
        Err(refused) => {
            discard(body).await;
            return Err(refused);
        }
    };
    let settings = &shared.settings;
    if body.size_hint().lower() > settings.body_max {
        discard(body).await;
        return Err(BodyRefusal::TooLarge.into());
    }
    let flow = Flow { len_max: settings.body_max, idle: settings.body_idle, time: settings.body_time };
    let mut stream = match sealed {
        Some(_) if !body.is_end_stream() => {
            discard(body).await;
            return Err(Error::HeaderInvalid(X_SEALED).into());
        }
        Some(sealed) => Unsealing::new(Bounded::new(full(""), flow), sealed, opener),
        None => Unsealing::new(Bounded::new(body, flow), Vec::new(), opener),
    };
    let fault = stream.fault();
    timing.skip();
    // As a whole, however regularly its bytes come.
    let first = tokio::time::timeout(settings.first_frame_time, poll_fn(|cx| stream.poll_opened(cx))).await;
    let first = match first.unwrap_or_else(|_| Err(BodyRefusal::TooSlow.into())) {
        Ok(Some(first)) => first,
        Ok(None) => return Err(Error::StreamTruncated.into()),
        Err(refusal) => {
            discard(stream.into_body()).await;
            return Err(refusal.into());
        }
    };
    timing.lap("aes-gcm-decrypt");
    let session = opening.session().clone();
    let opened = opening.first(first.plaintext)?;
    let fresh = shared.admit(&session, opened.claim(), &settings.replay.within(WINDOW3_MS_MAX)).await?;
    let mut opened = opened.release(fresh)?;
    timing.lap("replay-protection");
    let (frame, at) = std::mem::take(&mut opened.first);
    let frame = Bytes::from(frame).slice(at..);
    let body = if first.is_last {
        full(frame)
    } else {
        let plain = Body::new(Plain::new(frame, stream));
        Body::new(Cut::new(plain, shared.clone(), session, fault.clone()))
    };
    Ok(Taken { opened, body, fault })
}

// SPEC session-3.md#sealed-requests
async fn begin(shared: &Shared, parts: &Parts, timing: &mut Timing) -> Result<Begun, Refused> {
    shared.check_wire(Wire::Three)?;
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let headers = HttpHeaders(&parts.headers);
    let mut request = SealedRequest::parse(&headers, RequestLine { method: parts.method.as_str(), target })?;
    let now_ms = shared.clock.now_ms();
    let session = shared.find(request.session_id()?).await?;
    timing.lap("session-get");
    let sealed = request.take_sealed();
    let opened = request.open(shared.provider(), session.clone(), now_ms, &shared.settings.replay);
    let (opener, opening) = opened.map_err(|err| match err {
        Error::TimestampOutsideWindow => skewed(shared, &session, &request, now_ms),
        err => err.into(),
    })?;
    timing.lap("replay-protection");
    Ok(Begun { sealed, opener, opening })
}

/// A stamp outside the window: the client is told the time, and that it is this session's server which tells.
fn skewed(shared: &Shared, session: &Arc<Session>, request: &SealedRequest<'_>, now_ms: u64) -> Refused {
    let refused = Refused::from(Error::TimestampOutsideWindow).with("server_time_ms", now_ms);
    let (stamp, nonce) = request.stamp_and_nonce();
    match prove_clock(shared.provider(), session, stamp, nonce, now_ms) {
        Ok(mac) => refused.with("mac", base64::encode(&mac)),
        Err(_) => refused,
    }
}

/// Why an answer cannot be sealed.
#[derive(Debug, thiserror::Error)]
enum Unsealed {
    #[error(transparent)]
    Wire(#[from] Error),
    #[error("its headers are more than a seal holds")]
    Headers,
    #[error("its body broke off")]
    Broken,
    #[error("its body came too slowly")]
    TooSlow,
}

// SPEC session-3.md#sealed-answers
async fn sealed_answer(
    shared: &Arc<Shared>,
    reply: &Reply,
    answer: Response<Body>,
    is_head: bool,
) -> Result<Response<Body>, Unsealed> {
    let (mut head, body) = answer.into_parts();
    let status = head.status;
    let inner = inner_headers(&head.headers)?;
    headers::seal_answer3(&mut head.headers);
    let is_bodyless =
        is_head || matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED);
    let content_type = if is_bodyless { "" } else { OCTETS };
    let now_ms = shared.clock.now_ms();
    let (seal, sealer) = reply.seal(shared.provider(), status.as_u16(), content_type, now_ms, &shared.random()?)?;
    headers::put_seal(&mut head.headers, seal);
    let body = if is_bodyless {
        let text = base64::encode(&whole(sealer, &inner, &[])?);
        let value = HeaderValue::try_from(text).ok().filter(|value| value.len() <= X_SEALED_LEN_MAX);
        head.headers.insert(HeaderName::from_static(X_SEALED), value.ok_or(Unsealed::Headers)?);
        full("")
    } else {
        head.headers.insert(CONTENT_TYPE, HeaderValue::from_static(OCTETS));
        // Short enough for one frame, and known to end.
        if body.size_hint().exact().is_some_and(|len| len <= (FRAME_LEN_MAX / 2) as u64) {
            let read = tokio::time::timeout(shared.settings.answer_time, body.collect()).await;
            let read = read.map_err(|_| Unsealed::TooSlow)?.map_err(|_| Unsealed::Broken)?;
            full(whole(sealer, &inner, &read.to_bytes())?)
        } else {
            let cut = Cut::new(body, shared.clone(), reply.session().clone(), Fault::default());
            Body::new(Sealing::new(Body::new(cut), sealer, inner))
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = head.headers;
    Ok(response)
}

/// A stream of one frame.
fn whole(mut sealer: FrameSealer, inner: &InnerHeaders, body: &[u8]) -> Result<Vec<u8>, Error> {
    let mut stream = Vec::with_capacity(body.len() + 512);
    let begun = sealer.begin(&mut stream);
    inner.encode(&mut stream);
    stream.extend_from_slice(body);
    sealer.seal(&mut stream, begun, true)?;
    Ok(stream)
}

/// All headers of the service, but those of framing and the layer's own.
fn inner_headers(headers: &HeaderMap) -> Result<InnerHeaders, Unsealed> {
    let mut inner = InnerHeaders::new();
    for (name, value) in headers.iter().filter(|(name, _)| may_be_inner(name.as_str())) {
        inner.push(name.as_str(), value.as_bytes()).map_err(|_| Unsealed::Headers)?;
    }
    Ok(inner)
}
