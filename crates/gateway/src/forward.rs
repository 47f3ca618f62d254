//! Forwarding of unsealed requests: each chunk is passed on as it arrives, both ways.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::header::{CONNECTION, EXPECT, HeaderMap, HeaderValue, UPGRADE};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use hyper::body::Body as HttpBody;
use sealway_exchange::headers::says_close;
use sealway_exchange::timing::ServerTiming;
use sealway_runtime::http::share::Share;
use sealway_runtime::http::{Body, ExtendedConnect, Interim, Origin, RequestBody, discard, full};
use sealway_sessions::answer::{Form, plain_error};

use crate::body::barred;
use crate::config::RequestLimits;
use crate::policy::HeaderPolicy;
use crate::route::Forward;
use crate::upgrade::{HopByHop, join, not_switched};
use crate::uploads::{Upload, begin};
use crate::upstream::{Upstream, UpstreamError};

const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// Forwards a request and returns the service's answer.
pub(crate) async fn pass_through(
    forward: &Forward,
    limits: RequestLimits,
    mut parts: Parts,
    (body, room): (RequestBody, Share),
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
    let asked = HopByHop::of(&parts, &policy.upgrade_protocols);
    if asked.is_barred() {
        return not_switched();
    }
    let is_extended = parts.extensions.get::<ExtendedConnect>().is_some();
    policy.headers.to_upstream(&mut parts, is_trusted);
    if is_last {
        parts.headers.insert(CONNECTION, CLOSE);
    }
    asked.put_back(&mut parts.headers);
    policy.retarget(&mut parts.uri);
    let is_answered = (!body.is_end_stream()).then(Arc::<AtomicBool>::default);
    let body = match &is_answered {
        None => Ok(full(Bytes::new())),
        Some(is_answered) => {
            let body = barred(body, limits.of_body(policy, is_answered), policy.headers.barred_trailers());
            let upload = Upload {
                forward,
                origin: parts.extensions.get::<Origin>(),
                ahead_max: limits.body_ahead_max,
                waits_for_100: parts.headers.contains_key(EXPECT),
            };
            begin(body, room, &upload).await
        }
    };
    let answer = match body {
        Ok(body) => ask(&forward.upstream, &policy.headers, Request::from_parts(parts, body)).await,
        Err(err) => Err(err),
    };
    if let Some(is_answered) = &is_answered {
        is_answered.store(true, Ordering::Relaxed);
    }
    timing.lap("upstream");
    match answer {
        Ok(mut response) => {
            let is_last = is_last || passes_close(response.headers());
            let is_switch = response.status() == StatusCode::SWITCHING_PROTOCOLS && !is_extended;
            let upgrade = is_switch.then(|| response.headers().get(UPGRADE).cloned()).flatten();
            policy.headers.to_client(response.headers_mut());
            join(&mut response, upgrade, &forward.upstream);
            if is_last {
                response.headers_mut().insert(CONNECTION, CLOSE);
            }
            response
        }
        Err(err) => err.answer(Form::Plain),
    }
}

/// Calls the service. Its interim answers are passed on under the same header rules as its final one.
async fn ask(
    upstream: &Upstream,
    rules: &HeaderPolicy,
    request: Request<Body>,
) -> Result<Response<Body>, UpstreamError> {
    let Some(interim) = request.extensions().get::<Interim>().cloned() else { return upstream.call(request).await };
    let mut answer = pin!(upstream.call(request));
    poll_fn(|cx| {
        let polled = answer.as_mut().poll(cx);
        interim.for_each(|headers| rules.to_client(headers));
        polled
    })
    .await
}
