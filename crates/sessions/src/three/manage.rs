//! Renewal and end of a session, which are sealed requests of that session. `spec/session-3.md#renew-and-end`.

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use hyper::body::Body as HttpBody;
use sealway_proto::Error;
use sealway_proto::limits::{FRAME_LEN_MAX, INIT_V3_BODY_MAX};
use sealway_proto::session::Session;
use sealway_proto::session::three::{
    FrameOpener, InitRequest, InnerHeaders, OpenedRequest, Opening, Read, Reply, RequestLine,
};
use sealway_proto::wire::base64;
use sealway_proto::wire::header::X_SEALED;
use sealway_runtime::http::{Body, discard, full, read_body};
use sealway_runtime::timing::ServerTiming;

use super::problem::method_not_allowed;
use super::{Refused, refusal_response};
use crate::answer::Refusal;
use crate::authentication::Recognised;
use crate::authority::Authority;

const PREFIX: &str = "/v3/sessions/";
const RENEW: &str = "/renew";
/// Longest sealed body: an init's, with inner headers and frames around it.
const BODY_MAX: usize = INIT_V3_BODY_MAX + FRAME_LEN_MAX;
const OCTETS: &str = "application/octet-stream";

enum Managed<'a> {
    Renew(&'a str),
    End(&'a str),
}

/// Whether a path is of a session.
pub(crate) fn is_managed(path: &str) -> bool {
    path.starts_with(PREFIX)
}

/// Answers a request to a session's path.
pub(crate) async fn handle<B>(
    authority: &Authority,
    parts: &Parts,
    body: B,
    timing: &mut ServerTiming,
) -> Response<Body>
where
    B: HttpBody + Unpin + 'static,
{
    let id = parts.uri.path().strip_prefix(PREFIX).unwrap_or_default();
    let asked = match id.strip_suffix(RENEW) {
        Some(id) if parts.method == Method::POST => Managed::Renew(id),
        Some(_) => {
            discard(body).await;
            return method_not_allowed("POST, OPTIONS");
        }
        None if parts.method == Method::DELETE => Managed::End(id),
        None => {
            discard(body).await;
            return method_not_allowed("DELETE, OPTIONS");
        }
    };
    match answer(authority, asked, parts, body, timing).await {
        Ok(response) => response,
        Err(refused) => {
            timing.forget_steps();
            refusal_response(&refused, "call")
        }
    }
}

async fn answer<B>(
    authority: &Authority,
    asked: Managed<'_>,
    parts: &Parts,
    body: B,
    timing: &mut ServerTiming,
) -> Result<Response<Body>, Refused>
where
    B: HttpBody + Unpin + 'static,
{
    let line = RequestLine { method: parts.method.as_str(), target: target(parts) };
    let begun = match authority.begin_any(&parts.headers, line, timing).await {
        Ok(begun) => begun,
        Err(refused) => {
            discard(body).await;
            return Err(refused);
        }
    };
    let session = begun.session().clone();
    let (sealed, opener, opening) = begun.into_parts();
    let body = read_body(body, BODY_MAX, authority.body_deadline()).await.map_err(Refusal::from)?;
    let stream = match sealed {
        Some(_) if !body.is_empty() => return Err(Error::HeaderInvalid(X_SEALED).into()),
        Some(sealed) => sealed,
        None => body,
    };
    let (opened, plaintext) = admit_whole(authority, opener, opening, &stream, timing).await?;
    let is_own = |id: &str| if id == session.id().as_str() { Ok(()) } else { Err(Refused::from(Error::Policy)) };
    match asked {
        Managed::Renew(id) => {
            is_own(id)?;
            let answer = renew(authority, &session, &plaintext, timing).await?;
            seal(authority, &opened.reply, StatusCode::CREATED, Some(answer))
        }
        Managed::End(id) => {
            is_own(id)?;
            authority.revoke(session.id()).await?;
            tracing::debug!(session = %session.id(), "session ended by its client");
            seal(authority, &opened.reply, StatusCode::NO_CONTENT, None)
        }
    }
}

/// A request that is all there: its first frame is admitted, the others opened, and the body put together.
async fn admit_whole(
    authority: &Authority,
    mut opener: FrameOpener,
    opening: Opening,
    stream: &[u8],
    timing: &mut ServerTiming,
) -> Result<(OpenedRequest, Vec<u8>), Refused> {
    let (mut input, mut first, mut rest) = (stream, Vec::new(), Vec::new());
    if opener.read(&mut input, &mut first)? == Read::More {
        opener.end()?;
    }
    while !input.is_empty() {
        let mut frame = Vec::new();
        opener.read(&mut input, &mut frame)?;
        rest.append(&mut frame);
    }
    opener.end()?;
    let opened = authority.admit3(opening, first, timing).await?;
    let (frame, at) = &opened.first;
    let mut plaintext = frame.get(*at..).unwrap_or_default().to_vec();
    plaintext.append(&mut rest);
    Ok((opened, plaintext))
}

async fn renew(
    authority: &Authority,
    session: &Session,
    plaintext: &[u8],
    timing: &mut ServerTiming,
) -> Result<String, Refused> {
    let request = InitRequest::parse(plaintext)?;
    let record = session.record();
    if record.client_id.as_deref() != Some(&*request.client_id) {
        return Err(Error::Policy.into());
    }
    if request.proof.is_some() {
        return Err(Error::FieldInvalid("proof").into());
    }
    let recognised = Recognised {
        auth: record.auth,
        subject: record.subject.clone(),
        tenant: record.tenant.clone(),
        ttl_max_sec: None,
    };
    authority.agree3(&request, recognised, None, Some(session), timing).await
}

/// A sealed answer of one frame.
fn seal(
    authority: &Authority,
    reply: &Reply,
    status: StatusCode,
    json: Option<String>,
) -> Result<Response<Body>, Refused> {
    let content_type = if json.is_some() { OCTETS } else { "" };
    let (headers, mut sealer) = authority.seal3(reply, status.as_u16(), content_type)?;
    let mut inner = InnerHeaders::new();
    if json.is_some() {
        inner.push("content-type", b"application/json")?;
    }
    let mut stream = Vec::new();
    let begun = sealer.begin(&mut stream);
    inner.encode(&mut stream);
    stream.extend_from_slice(json.as_deref().unwrap_or_default().as_bytes());
    sealer.seal(&mut stream, begun, true)?;
    let mut response = match json {
        Some(_) => Response::new(full(stream)),
        None => {
            let mut response = Response::new(full(""));
            let value = HeaderValue::try_from(base64::encode(&stream)).map_err(|_| Error::Provider)?;
            response.headers_mut().insert(HeaderName::from_static(X_SEALED), value);
            response
        }
    };
    *response.status_mut() = status;
    for (name, value) in headers {
        let value = HeaderValue::try_from(value).map_err(|_| Error::Provider)?;
        response.headers_mut().insert(HeaderName::from_static(name), value);
    }
    if !content_type.is_empty() {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(OCTETS));
    }
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
    Ok(response)
}

fn target(parts: &Parts) -> &str {
    parts.uri.path_and_query().map_or("/", |target| target.as_str())
}
