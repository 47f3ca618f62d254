//! A request that passes as sent: a chunk in is a chunk out, both ways.

use http::header::{CONNECTION, HeaderMap, HeaderValue, UPGRADE};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use hyper::body::Body as HttpBody;
use sealway_runtime::http::{Body, RequestBody, discard};
use sealway_runtime::timing::ServerTiming;
use sealway_sessions::answer::plain_error;

use crate::body::{StreamLimits, barred};
use crate::config::RequestLimits;
use crate::headers::says_close;
use crate::route::Forward;
use crate::sealed::upstream_failure;
use crate::upgrade::{Asked, join};

const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// Forwards a request and passes the answer on.
pub(crate) async fn pass_through(
    forward: &Forward,
    limits: RequestLimits,
    mut parts: Parts,
    body: RequestBody,
    is_trusted: bool,
    timing: &mut ServerTiming,
) -> Response<Body> {
    let policy = &forward.policy;
    if body.size_hint().lower() > policy.body_max {
        discard(body).await;
        return plain_error(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE");
    }
    let passes_close = |headers: &HeaderMap| policy.pass_connection_close && says_close(headers);
    let is_last = passes_close(&parts.headers);
    let asked = Asked::of(parts.version, &parts.headers);
    policy.headers.to_upstream(&mut parts, is_trusted);
    if is_last {
        parts.headers.insert(CONNECTION, CLOSE);
    }
    asked.put_back(&mut parts.headers);
    parts.uri = policy.target(&parts.uri);
    let limits = StreamLimits { len_max: policy.body_max, idle: limits.body_idle, time: Some(limits.body_time) };
    let trailers = if body.is_end_stream() { Vec::new() } else { policy.headers.barred_trailers() };
    let body = barred(body, limits, trailers);
    let answer = forward.upstream.call(Request::from_parts(parts, body)).await;
    timing.lap("upstream");
    match answer {
        Ok(mut response) => {
            let is_last = is_last || passes_close(response.headers());
            let upgrade = response.headers().get(UPGRADE).cloned();
            policy.headers.to_client(response.headers_mut());
            join(&mut response, upgrade, &forward.upstream);
            if is_last {
                response.headers_mut().insert(CONNECTION, CLOSE);
            }
            response
        }
        Err(err) => upstream_failure(&err),
    }
}
