//! Renewal and end of a session, which are sealed requests of that session. `spec/session-3.md#renew-and-end`.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use sealway_exchange::body::{Body as ExchangeBody, Incoming, full};
use sealway_exchange::timing::ServerTiming;
use sealway_exchange::{Cause, Failure, Rules, Sessions, serve};
use sealway_proto::Error;
use sealway_proto::exchange::BodyBounds;
use sealway_proto::limits::{FRAME_LEN_MAX, INIT_V3_BODY_MAX};
use sealway_proto::session::Session;
use sealway_proto::session::native::InitRequest;
use sealway_proto::wire::Wire;
use sealway_proto::wire::header::X_SEAL;
use sealway_runtime::http::{Body, discard, refusal_of};

use crate::answer::{BodyFault, Form, Rejection, body_fault, method_not_allowed, rejected, report};
use crate::authentication::ClientIdentity;
use crate::authority::Authority;

const PREFIX: &str = "/v3/sessions/";
const RENEW: &str = "/renew";
/// Maximum length of a sealed body: an init's, with inner headers and frames.
const BODY_MAX: usize = INIT_V3_BODY_MAX + FRAME_LEN_MAX;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

#[derive(Clone, Copy)]
enum Action {
    Renew,
    End,
}

/// True for the path of a session.
pub(crate) fn is_managed(path: &str) -> bool {
    path.starts_with(PREFIX)
}

/// Answers a request to a session's path.
pub(crate) async fn handle<B>(
    authority: &Arc<Authority>,
    parts: Parts,
    body: B,
    timing: &mut ServerTiming,
) -> Response<Body>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Send,
{
    let id = parts.uri.path().strip_prefix(PREFIX).unwrap_or_default();
    let (asked, id, allow) = match id.strip_suffix(RENEW) {
        Some(id) => (Action::Renew, id.to_owned(), "POST, OPTIONS"),
        None => (Action::End, id.to_owned(), "DELETE, OPTIONS"),
    };
    if parts.method != asked.method() {
        discard(body).await;
        return method_not_allowed(allow, Form::Problem);
    }
    let is_served = authority.check_wire(Wire::Native);
    let is_sealed = parts.headers.get(X_SEAL).map(drop).ok_or(Error::HeaderMissing(X_SEAL).into());
    if let Err(refusal) = is_served.and(is_sealed) {
        discard(body).await;
        return refuse(refusal.into(), timing);
    }
    let is_own = |session: &Session| if id == session.id().as_str() { Ok(()) } else { Err(Error::Policy.into()) };
    let rules = Rules {
        allows: &is_own,
        content_type: &JSON,
        unsealed_headers: &[],
        trusts_origin: false,
        body: BodyBounds { whole: BODY_MAX, stream: BODY_MAX as u64 },
        first_time: authority.body_deadline(),
        answer_time: authority.body_deadline(),
        kept: None,
        // The end of the session must not cut the answer to the request for it.
        ends_with_session: false,
        serves_sessions: true,
        one_shot: None,
    };
    let service = |request| answer(authority, asked, request);
    match serve(authority, rules, parts, SealedBody(body), timing, service).await {
        Ok(response) => response.map(ExchangeBody::into_boxed),
        Err(Failure { cause: Cause::Service(rejection), .. }) => refuse(rejection, timing),
        Err(Failure { cause: Cause::Unsealable { .. }, .. }) => refuse(Error::Provider.into(), timing),
    }
}

fn refuse(rejection: Rejection, timing: &mut ServerTiming) -> Response<Body> {
    timing.forget_steps();
    report(&rejection.refusal, "call");
    rejected(rejection, Form::Problem)
}

/// Answers the unsealed request of a session's client.
async fn answer(
    authority: &Arc<Authority>,
    asked: Action,
    request: Request<ExchangeBody>,
) -> Result<Response<ExchangeBody>, Rejection> {
    let session = request.extensions().get::<Arc<Session>>().cloned().ok_or(Error::SessionUnknown)?;
    // Reads the body to its end: a request whose stream breaks off is not valid.
    let body = tokio::time::timeout(authority.body_deadline(), request.into_body().collect()).await;
    let body = body.map_err(|_| BodyFault::TooSlow)?.map_err(|_| BodyFault::Broken)?.to_bytes();
    match asked {
        Action::Renew => {
            let mut response = Response::new(full(renew(authority, &session, &body).await?));
            *response.status_mut() = StatusCode::CREATED;
            response.headers_mut().insert(CONTENT_TYPE, JSON);
            Ok(response)
        }
        Action::End => {
            authority.revoke(session.id()).await?;
            tracing::debug!(session = %session.id(), "session ended by its client");
            let mut response = Response::new(full(""));
            *response.status_mut() = StatusCode::NO_CONTENT;
            Ok(response)
        }
    }
}

async fn renew(authority: &Authority, session: &Session, plaintext: &[u8]) -> Result<String, Rejection> {
    let request = InitRequest::parse(plaintext)?;
    let record = session.record();
    if record.client_id.as_deref() != Some(&*request.client_id) {
        return Err(Error::Policy.into());
    }
    if request.proof.is_some() {
        return Err(Error::FieldInvalid("proof").into());
    }
    let recognised = ClientIdentity {
        auth: record.auth,
        subject: record.subject.clone(),
        tenant: record.tenant.clone(),
        ttl_max_sec: None,
    };
    authority.agree_native(&request, recognised, None, Some(session), &mut ServerTiming::start()).await
}

impl Action {
    fn method(self) -> Method {
        match self {
            Action::Renew => Method::POST,
            Action::End => Method::DELETE,
        }
    }
}

/// A sealed body from any kind of connection.
struct SealedBody<B>(B);

impl<B> HttpBody for SealedBody<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.0).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

impl<B> Incoming for SealedBody<B>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Send,
{
    fn fault(error: &B::Error) -> BodyFault {
        body_fault(refusal_of(error))
    }

    fn discard(self) -> impl Future<Output = ()> + Send {
        discard(self.0)
    }
}
