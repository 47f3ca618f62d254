//! Sealed requests on a route: the check of the session, and the call of the service.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use sealway_exchange::body::{Body as ExchangeBody, Incoming};
use sealway_exchange::headers::HttpHeaders;
use sealway_exchange::timing::ServerTiming;
use sealway_exchange::{Cause, Failure, OneShotRules, Rules, Sessions, serve};
use sealway_proto::exchange::{BodyBounds, wire_of};
use sealway_proto::session::Session;
use sealway_runtime::http::share::Share;
use sealway_runtime::http::{Body, BodyError, BodyRefusal, Interim, Origin, RequestBody, discard};
use sealway_sessions::Authority;
use sealway_sessions::answer::{BodyFault, Form, Refusal, body_fault};

use crate::body::{BarredNames, BoundedBody, StreamLimits, refusal_behind};
use crate::config::RequestLimits;
use crate::cors;
use crate::route::Forward;
use crate::uploads::{Upload, begin as begin_upload};
use crate::upstream::{UpstreamError, break_off_unframed};
use crate::used::count_sealed;

/// Answers a sealed request on a route.
pub(crate) async fn call<S: Sessions>(
    (sessions, authority): (&Arc<S>, &Authority),
    forward: &Forward,
    (limits, route): (RequestLimits, &str),
    parts: Parts,
    (body, room): (RequestBody, Share),
    is_trusted: bool,
    timing: &mut ServerTiming,
) -> Response<Body> {
    let policy = &forward.policy;
    let form = Form::of(wire_of(&HttpHeaders(&parts.headers)));
    let (origin, uri) = (parts.extensions.get::<Origin>().cloned(), parts.uri.clone());
    let allows = |session: &Session| {
        authority.allows(session, uri.path())?;
        if is_another_client(forward, origin.as_ref(), session) { Err(Refusal::AnotherClient) } else { Ok(()) }
    };
    let one_shot = OneShotRules { kems: &policy.one_shot.kems, needs_psk: policy.one_shot.needs_psk };
    let rules = Rules {
        allows: &allows,
        content_type: &policy.content_type,
        unsealed_headers: &policy.unsealed_headers,
        trusts_origin: is_trusted,
        body: BodyBounds { whole: policy.sealed_body_max, stream: policy.body_max },
        first_time: authority.body_deadline(),
        answer_time: forward.upstream.response_time(),
        kept: forward.kept.as_ref(),
        ends_with_session: true,
        serves_sessions: policy.sealed.serves_sessions(),
        one_shot: policy.sealed.serves_hpke().then_some(one_shot),
    };
    let is_answered = Arc::<AtomicBool>::default();
    let ahead = room.another();
    // The bounds of a sealed body limit its length.
    let bounds = StreamLimits { len_max: u64::MAX, ..limits.of_body(policy, &is_answered) };
    let body = SealedBody::new(body, bounds, room);
    let service = async |request: Request<ExchangeBody>| {
        if let Some(session) = request.extensions().get::<Arc<Session>>() {
            count_sealed(route, session);
        }
        let (mut parts, body) = request.into_parts();
        policy.headers.to_upstream(&mut parts, is_trusted);
        policy.retarget(&mut parts.uri);
        // An interim answer would bypass the seal.
        parts.extensions.remove::<Interim>();
        let mut body = body.into_boxed();
        if body.size_hint().exact().is_none() {
            let upload =
                Upload { forward, origin: origin.as_ref(), ahead_max: limits.body_ahead_max, waits_for_100: false };
            body = begin_upload(body, ahead, &upload).await?;
        }
        let mut answer = forward.upstream.call(Request::from_parts(parts, body)).await?;
        is_answered.store(true, Ordering::Relaxed);
        policy.headers.to_client(answer.headers_mut());
        if form == Form::Plain {
            cors::remove(answer.headers_mut());
        }
        // Wires 1 and 2 promise their clients no whole answer, and old services of HTTP/1.0 stand behind them.
        let answer = if form == Form::Plain { answer } else { break_off_unframed(answer) };
        Ok::<_, UpstreamError>(answer.map(ExchangeBody::from))
    };
    match serve(sessions, rules, parts, body, timing, service).await {
        Ok(answer) => answer.map(ExchangeBody::into_boxed),
        Err(Failure { cause, problems }) => {
            let err = match cause {
                Cause::Service(err) => err,
                Cause::Unsealable { is_late: true, .. } => UpstreamError::TooSlow,
                Cause::Unsealable { reason, .. } => UpstreamError::Unreachable(reason),
            };
            err.noted(problems.answer(&**sessions, err.refusal().into()).map(ExchangeBody::into_boxed))
        }
    }
}

/// True if the connection's certificate and the session name different clients. Sessions of wire 1 have no client id
/// and never match a certificate.
fn is_another_client(forward: &Forward, origin: Option<&Origin>, session: &Session) -> bool {
    let certificate = origin.and_then(|origin| origin.certificate.as_ref());
    let (Some(field), Some(certificate)) = (forward.policy.client_id, certificate) else { return false };
    !session.record().client_id.as_deref().is_some_and(|id| field.texts(certificate).contains(&id))
}

/// A request's sealed body, with its share of the room.
pub(crate) struct SealedBody {
    body: BoundedBody<RequestBody>,
    room: Share,
}

impl SealedBody {
    /// Puts bounds on a body; its bytes take room as they arrive.
    pub(crate) fn new(body: RequestBody, bounds: StreamLimits, room: Share) -> SealedBody {
        SealedBody { body: BoundedBody::new(body, bounds, BarredNames::new()), room }
    }

    /// Returns the room of the bytes that arrived, for a reader that holds all of them.
    pub(crate) fn into_room(self) -> Share {
        self.room
    }
}

impl HttpBody for SealedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let len = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()).map_or(0, |data| data.len() as u64);
        if len > 0 && !self.room.grow(len) {
            return Poll::Ready(Some(Err(BodyRefusal::NoRoom.into())));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Incoming for SealedBody {
    fn fault(error: &BodyError) -> BodyFault {
        body_fault(refusal_behind(&**error).unwrap_or(BodyRefusal::Broken))
    }

    fn release(&mut self, bytes: u64) {
        self.room.shrink(bytes);
    }

    fn discard(self) -> impl Future<Output = ()> + Send {
        discard(self.body.into_inner())
    }
}
