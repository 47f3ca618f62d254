//! One request, from its route to its answer.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, HOST, HeaderName, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Body as HttpBody;
use metrics::{Counter, Histogram, counter, histogram};
use sealway_proto::limits::INIT_V1_BODY_MAX;
use sealway_proto::wire::header::{X_IDEMPOTENCY_KEY, X_KID, X_SEAL};
use sealway_runtime::http::{Body, FromTrustedProxy, Origin, RequestBody, discard};
use sealway_runtime::timing::ServerTiming;
use sealway_sessions::answer::{plain_error, unavailable};
use sealway_sessions::{Authority, endpoint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};
use tracing::Instrument;

use crate::body::keeping;
use crate::config::RequestLimits;
use crate::cors::{Cors, is_preflight};
use crate::forward;
use crate::policy::TrustedProxies;
use crate::route::{Action, Asked, Forward, Found, Route, Sealed, find};
use crate::sealed;
use crate::standalone::Standalone;
use crate::three;
use crate::traffic::Traffic;
use crate::upstream::Upstream;

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

struct RouteMetrics {
    /// By the status' first digit.
    requests: [Counter; 5],
    seconds: Histogram,
}

impl RouteMetrics {
    fn new(route: &str) -> Self {
        let requests = ["1xx", "2xx", "3xx", "4xx", "5xx"]
            .map(|status| counter!("sealway_requests_total", "route" => route.to_owned(), "status" => status));
        RouteMetrics { requests, seconds: histogram!("sealway_request_seconds", "route" => route.to_owned()) }
    }

    fn record(&self, status: StatusCode, took: Duration) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1).min(4);
        self.requests[class].increment(1);
        self.seconds.record(took.as_secs_f64());
    }
}

/// The data plane.
pub struct Gateway {
    authority: Arc<Authority>,
    routes: Vec<Route>,
    cors: Cors,
    limits: RequestLimits,
    /// Whom a listener trusts.
    trusted: HashMap<Arc<str>, TrustedProxies>,
    /// KiB of request bodies that may be held whole at once: sealed ones, inits, echoes.
    buffered_kib: Arc<Semaphore>,
    metrics: Vec<RouteMetrics>,
    unrouted: RouteMetrics,
    upstreams: Vec<Arc<Upstream>>,
}

impl Gateway {
    /// Puts the parts together. `trusted` says by a listener's name whose word on where a request came from counts.
    pub fn new(
        authority: Arc<Authority>,
        routes: Vec<Route>,
        cors: Cors,
        limits: RequestLimits,
        trusted: HashMap<Arc<str>, TrustedProxies>,
    ) -> Self {
        let metrics = routes.iter().map(|route| RouteMetrics::new(&route.name)).collect();
        let buffered_kib = Arc::new(Semaphore::new(limits.buffered_max / 1024));
        let unrouted = RouteMetrics::new("none");
        Gateway { authority, routes, cors, limits, trusted, buffered_kib, metrics, unrouted, upstreams: Vec::new() }
    }

    /// Keeps all upstreams of its configuration, for those who look at them.
    pub(crate) fn with_upstreams(self, upstreams: Vec<Arc<Upstream>>) -> Self {
        Gateway { upstreams, ..self }
    }

    /// The upstreams of its configuration.
    pub fn upstreams(&self) -> &[Arc<Upstream>] {
        &self.upstreams
    }

    /// Answers a request, whatever it is.
    pub async fn handle(&self, request: Request<RequestBody>) -> Response<Body> {
        let mut timing = ServerTiming::start();
        let (mut parts, body) = request.into_parts();
        let is_trusted = self.find_client(&mut parts);
        let found = find(&self.routes, asked(&parts));
        let origin = self.cors.allowed_origin(&parts.headers);
        let preflight = is_preflight(&parts.method, &parts.headers);
        let (mut response, metrics) = match found {
            Found::Route(index, route) => {
                let span = tracing::debug_span!("request", route = %route.name, method = %parts.method, path = parts.uri.path());
                (self.answer(route, parts, body, is_trusted, &mut timing).instrument(span).await, &self.metrics[index])
            }
            Found::None | Found::Disguised if preflight => (self.cors.preflight(origin.is_some()), &self.unrouted),
            Found::None => {
                discard(body).await;
                // That of a CONNECT is no path: no route could have been meant.
                let answer = match parts.method {
                    Method::CONNECT => plain_error(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED"),
                    _ => plain_error(StatusCode::NOT_FOUND, "NOT_FOUND"),
                };
                (answer, &self.unrouted)
            }
            Found::Disguised => {
                tracing::warn!("refused: the path is another spelling of a sealed one");
                discard(body).await;
                (plain_error(StatusCode::BAD_REQUEST, "CRYPTO_ERROR"), &self.unrouted)
            }
        };
        // A service without a word on CORS has not answered the browser's question.
        if preflight && origin.is_some() && !response.headers().contains_key(ACCESS_CONTROL_ALLOW_ORIGIN) {
            response = self.cors.preflight(true);
        }
        self.cors.apply(origin, response.headers_mut());
        if let Ok(value) = HeaderValue::try_from(timing.header()) {
            response.headers_mut().append(SERVER_TIMING, value);
        }
        metrics.record(response.status(), timing.elapsed());
        response
    }

    /// Notes where the client is. Returns whether the peer's word on where a request came from counts.
    fn find_client(&self, parts: &mut Parts) -> bool {
        let Some(origin) = parts.extensions.get_mut::<Origin>() else { return false };
        let Some(trusted) = self.trusted.get(&origin.listener) else { return false };
        origin.client = trusted.client(&origin.peer, &parts.headers);
        let is_trusted = trusted.trusts(&origin.peer);
        if is_trusted {
            parts.extensions.insert(FromTrustedProxy);
        }
        is_trusted
    }

    async fn answer(
        &self,
        route: &Route,
        parts: Parts,
        body: RequestBody,
        is_trusted: bool,
        timing: &mut ServerTiming,
    ) -> Response<Body> {
        // CONNECT asks for a tunnel, TRACE for an echo of what clients keep from pages: neither is for a gateway.
        if parts.method == Method::CONNECT || parts.method == Method::TRACE {
            discard(body).await;
            return plain_error(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED");
        }
        // An echo waits when its body is there.
        if !route.delay.is_zero() && !matches!(route.action, Action::Standalone(_)) {
            tokio::time::sleep(route.delay).await;
        }
        let passes = |forward: &Forward| match forward.policy.sealed {
            Sealed::Off => true,
            Sealed::Optional => parts.method != Method::OPTIONS && !looks_sealed(&parts),
            Sealed::Required => false,
        };
        match &route.action {
            Action::Forward(forward) if passes(forward) => {
                forward::pass_through(forward, self.limits, parts, body, is_trusted, timing).await
            }
            Action::Standalone(standalone) => self.stand_alone(*standalone, route, &parts, body).await,
            Action::Forward(_) | Action::Sessions if parts.method == Method::OPTIONS => {
                discard(body).await;
                self.cors.preflight(self.cors.allowed_origin(&parts.headers).is_some())
            }
            Action::Sessions => {
                let Ok(_held) = self.hold(&body, INIT_V1_BODY_MAX) else { return self.too_much(body).await };
                endpoint::handle(&self.authority, Request::from_parts(parts, body), timing).await
            }
            Action::Forward(forward) if parts.headers.contains_key(X_SEAL) => {
                three::call(&self.authority, forward, self.limits, parts, body, is_trusted, timing).await
            }
            Action::Forward(forward) => {
                let Ok(room) = self.hold(&body, forward.policy.sealed_body_max) else {
                    return self.too_much(body).await;
                };
                let answer = sealed::call(&self.authority, forward, parts, body, is_trusted, timing).await;
                answer.map(|body| keeping(body, room))
            }
        }
    }

    /// Room for a body that is held whole: what a connection may send whole is bounded, and so is what all may together.
    /// An answer made of it keeps the room until it is sent, however slowly its client reads.
    fn hold(&self, body: &RequestBody, len_max: usize) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        let len = body.size_hint().upper().unwrap_or(u64::MAX).min(len_max as u64);
        self.buffered_kib.clone().try_acquire_many_owned(u32::try_from(len / 1024 + 1).unwrap_or(u32::MAX))
    }

    async fn too_much(&self, body: RequestBody) -> Response<Body> {
        tracing::warn!("refused: limits.buffered_bytes_max is reached");
        discard(body).await;
        let mut response = unavailable();
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        response
    }

    async fn stand_alone(
        &self,
        standalone: Standalone,
        route: &Route,
        parts: &Parts,
        body: RequestBody,
    ) -> Response<Body> {
        let len_max = standalone.body_max();
        let Ok(room) = self.hold(&body, len_max) else { return self.too_much(body).await };
        let answer = standalone.answer(parts, body, len_max, self.limits.body_idle, route.delay).await;
        if len_max > 0 { answer.map(|body| keeping(body, room)) } else { answer }
    }
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("routes", &self.routes).finish_non_exhaustive()
    }
}

/// What of a request chooses its route. The target's own host counts before the header's (RFC 9112 section 3.2.2).
fn asked(parts: &Parts) -> Asked<'_> {
    let listener = parts.extensions.get::<Origin>().map_or("", |origin| &origin.listener);
    let host = match parts.uri.authority() {
        Some(authority) => authority.as_str(),
        None => parts.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default(),
    };
    // An IPv6 address has colons of its own, in brackets.
    let host = match host.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => host,
        _ => host,
    };
    // The dot of a full name names no other host.
    Asked { listener, host: host.strip_suffix('.').unwrap_or(host), path: parts.uri.path() }
}

fn looks_sealed(parts: &Parts) -> bool {
    [X_KID, X_IDEMPOTENCY_KEY, X_SEAL].iter().any(|name| parts.headers.contains_key(*name))
}

/// The gateway as connections see it: the one in force when a request begins answers it to its end.
#[derive(Clone, Debug)]
pub struct GatewayService {
    current: Arc<ArcSwap<Gateway>>,
    traffic: Arc<Traffic>,
}

impl GatewayService {
    /// Begins with this one.
    pub fn new(gateway: Gateway) -> Self {
        GatewayService { current: Arc::new(ArcSwap::from_pointee(gateway)), traffic: Arc::default() }
    }

    /// Puts another in force. Requests in flight keep theirs.
    pub fn replace(&self, gateway: Gateway) {
        self.current.store(Arc::new(gateway));
    }

    /// What all of them have answered.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// The one in force.
    pub fn current(&self) -> Arc<Gateway> {
        self.current.load_full()
    }
}

impl hyper::service::Service<Request<RequestBody>> for GatewayService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn call(&self, request: Request<RequestBody>) -> Self::Future {
        let (gateway, traffic) = (self.current(), self.traffic.clone());
        Box::pin(async move {
            let began = Instant::now();
            let response = gateway.handle(request).await;
            traffic.record(response.status(), began.elapsed());
            Ok(response)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_asked_for_without_its_port_and_the_dot_of_a_full_name() {
        for (host, name) in
            [("a.example", "a.example"), ("a.example.:80", "a.example"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]")]
        {
            let request = Request::get("/").header(HOST, host).body(()).unwrap();
            assert_eq!(asked(&request.into_parts().0).host, name);
        }
    }
}
