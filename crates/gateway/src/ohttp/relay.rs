//! The role of a relay: one path to one gateway (RFC 9458 section 6.2). It passes on the message, its media type, its length and
//! `Incremental: ?1`, and nothing else, not even trailers; it adds nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use metrics::counter;
use parking_lot::Mutex;
use sealway_proto::ohttp::Form;
use sealway_runtime::http::share::{Share, Taker};
use sealway_runtime::http::{Body, BodyError, Origin, RequestBody, discard, full, read_body};

use super::form_of;
use super::rejection::Rejection;
use super::seal::INCREMENTAL;
use crate::body::{StreamLimits, bounded, keeping};
use crate::config::RequestLimits;
use crate::route::Forward;
use crate::uploads::{Upload, begin as begin_upload};
use crate::upstream::UpstreamError;

/// Headers of an answer that pass.
const OF_ANSWER: [HeaderName; 3] = [CONTENT_TYPE, CACHE_CONTROL, RETRY_AFTER];
/// The one value of `Incremental` that passes.
const YES: HeaderValue = HeaderValue::from_static("?1");

/// The settings of a route with the role of a relay.
#[derive(Clone, Debug)]
pub(crate) struct RelayPolicy {
    /// The path of the gateway at its upstream.
    pub(crate) gateway_path: Uri,
    /// Longest message in either direction, in bytes.
    pub(crate) message_max: u64,
}

/// A route with the role of a relay.
#[derive(Debug)]
pub struct Relay {
    pub(crate) policy: RelayPolicy,
    pub(crate) forward: Forward,
}

impl Relay {
    /// Answers a request of the route.
    pub(crate) async fn call(
        &self,
        limits: RequestLimits,
        route: &str,
        parts: Parts,
        body: (RequestBody, Share),
        now_ms: u64,
    ) -> Response<Body> {
        let answer = self.pass_on(limits, parts, body).await.unwrap_or_else(|rejection| {
            rejection.report(route);
            rejection.outside(now_ms)
        });
        counter!("sealway_ohttp_relayed_total", "status" => answer.status().as_str().to_owned()).increment(1);
        answer
    }

    async fn pass_on(
        &self,
        limits: RequestLimits,
        parts: Parts,
        (body, room): (RequestBody, Share),
    ) -> Result<Response<Body>, Rejection> {
        let form = match form_of(&parts, true) {
            Ok(form) if body.size_hint().lower() <= self.policy.message_max => form,
            checked => {
                discard(body).await;
                return Err(checked.err().unwrap_or(Rejection::of_status(StatusCode::PAYLOAD_TOO_LARGE)));
            }
        };
        let is_answered = Arc::<AtomicBool>::default();
        let bounds = limits.of_body(&self.forward.policy, &is_answered);
        let unanswered = |err: UpstreamError| Rejection::of_status(err.status());
        // How a client frames its message would tell clients apart: a whole one goes on with its length, and chunks without.
        if form == Form::Whole && body.size_hint().exact().is_none() {
            let room = Arc::new(Mutex::new(room));
            let max = usize::try_from(self.policy.message_max).unwrap_or(usize::MAX);
            let read = read_body(body.held_in(room.clone()), max, limits.body_time).await;
            let message = read.map_err(|refusal| unanswered(UpstreamError::RequestBody(refusal)))?;
            let answer = self.ask(form, &parts, keeping(full(message), room)).await?;
            return self.of_gateway(form, answer, limits);
        }
        let body = bounded(body, StreamLimits { len_max: self.policy.message_max, ..bounds });
        let body = MessageBody { body, has_length: form == Form::Whole }.boxed_unsync();
        let upload = Upload {
            forward: &self.forward,
            origin: parts.extensions.get::<Origin>(),
            ahead_max: limits.body_ahead_max,
            waits_for_100: false,
        };
        let body = begin_upload(body, room, &upload).await.map_err(unanswered)?;
        let answer = self.ask(form, &parts, body).await?;
        is_answered.store(true, Ordering::Relaxed);
        self.of_gateway(form, answer, limits)
    }

    /// Sends a message to the gateway, with nothing beside it.
    async fn ask(&self, form: Form, parts: &Parts, body: Body) -> Result<Response<Body>, Rejection> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.policy.gateway_path.clone();
        let media_type = HeaderValue::from_static(form.request_type());
        request.headers_mut().insert(CONTENT_TYPE, media_type);
        if is_incremental(&parts.headers) {
            request.headers_mut().insert(INCREMENTAL, YES);
        }
        if let Some(network) = Taker::network(parts.extensions.get::<Origin>()) {
            request.extensions_mut().insert(network);
        }
        let answer = self.forward.upstream.call(request).await;
        answer.map_err(|err| Rejection::of_status(err.status()))
    }

    /// Passes on an answer of the gateway: one of the request's form, or an error. A redirect is followed by nobody: it would move
    /// clients to another gateway.
    fn of_gateway(
        &self,
        form: Form,
        answer: Response<Body>,
        limits: RequestLimits,
    ) -> Result<Response<Body>, Rejection> {
        let (mut parts, body) = answer.into_parts();
        let media_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let essence = media_type.split(';').next().unwrap_or_default().trim();
        let is_sealed = parts.status == StatusCode::OK && essence.eq_ignore_ascii_case(form.answer_type());
        let is_error = parts.status.is_client_error() || parts.status.is_server_error();
        let max = self.policy.message_max;
        if !(is_sealed || is_error) || body.size_hint().lower() > max {
            return Err(Rejection::ANSWER);
        }
        let passed = OF_ANSWER.into_iter().filter_map(|name| Some((name.clone(), parts.headers.get(name)?.clone())));
        let is_incremental = is_incremental(&parts.headers);
        parts.headers = passed.collect::<HeaderMap>();
        if is_incremental {
            parts.headers.insert(INCREMENTAL, YES);
        }
        parts.extensions.clear();
        let bounds = StreamLimits { len_max: max, idle: limits.body_idle, time: None, rate: None };
        let body = MessageBody { body: bounded(body, bounds), has_length: true };
        Ok(Response::from_parts(parts, body.boxed_unsync()))
    }
}

/// Returns whether a message asks to be passed on as it arrives. Any other value could tell two clients apart.
fn is_incremental(headers: &HeaderMap) -> bool {
    headers.get(INCREMENTAL).is_some_and(|value| value == YES)
}

/// The body of a message without its trailers, which could name a client.
struct MessageBody {
    body: Body,
    /// True if a known length is passed on.
    has_length: bool,
}

impl HttpBody for MessageBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        Poll::Ready(frame.filter(|frame| !frame.as_ref().is_ok_and(Frame::is_trailers)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.has_length { self.body.size_hint() } else { SizeHint::default() }
    }
}
