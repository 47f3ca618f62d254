//! One request, from its route to its answer.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, HeaderName, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Body as HttpBody;
use metrics::{Counter, Histogram, counter, histogram};
use sealway_proto::limits::INIT_V1_BODY_MAX;
use sealway_proto::wire::header::{X_IDEMPOTENCY_KEY, X_KID, X_SEAL};
use sealway_runtime::http::{Body, Origin, RequestBody, discard};
use sealway_runtime::timing::ServerTiming;
use sealway_sessions::answer::{plain_error, unavailable};
use sealway_sessions::{Authority, endpoint};
use tokio::sync::Semaphore;
use tracing::Instrument;

use crate::body::{StreamLimits, bounded};
use crate::cors::{Cors, is_preflight};
use crate::headers;
use crate::route::{Action, Forward, Found, Route, Sealed, find};
use crate::sealed;

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
    body_idle: Duration,
    /// KiB of request bodies that may be held whole at once: sealed ones and inits.
    buffered_kib: Semaphore,
    metrics: Vec<RouteMetrics>,
    unrouted: RouteMetrics,
}

impl Gateway {
    /// Puts the parts together. `body_idle` is how long the next chunk of a request's body may take, `buffered_max` how
    /// many bytes of request bodies may be held whole at once, over all connections.
    pub fn new(
        authority: Arc<Authority>,
        routes: Vec<Route>,
        cors: Cors,
        body_idle: Duration,
        buffered_max: usize,
    ) -> Self {
        let metrics = routes.iter().map(|route| RouteMetrics::new(&route.name)).collect();
        Gateway {
            authority,
            routes,
            cors,
            body_idle,
            buffered_kib: Semaphore::new(buffered_max / 1024),
            metrics,
            unrouted: RouteMetrics::new("none"),
        }
    }

    /// Answers a request, whatever it is.
    pub async fn handle(&self, request: Request<RequestBody>) -> Response<Body> {
        let mut timing = ServerTiming::start();
        let (parts, body) = request.into_parts();
        let listener = parts.extensions.get::<Origin>().map(|origin| origin.listener.clone());
        let found = find(&self.routes, listener.as_deref().unwrap_or_default(), parts.uri.path());
        let origin = self.cors.allowed_origin(&parts.headers);
        let preflight = is_preflight(&parts.method, &parts.headers);
        let (mut response, metrics) = match found {
            Found::Route(index, route) => {
                let span = tracing::debug_span!("request", route = %route.name, method = %parts.method, path = parts.uri.path());
                (self.answer(route, parts, body, &mut timing).instrument(span).await, &self.metrics[index])
            }
            Found::None | Found::Disguised if preflight => (self.cors.preflight(origin.is_some()), &self.unrouted),
            Found::None => {
                discard(body).await;
                (plain_error(StatusCode::NOT_FOUND, "NOT_FOUND"), &self.unrouted)
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

    async fn answer(
        &self,
        route: &Route,
        parts: Parts,
        body: RequestBody,
        timing: &mut ServerTiming,
    ) -> Response<Body> {
        let forward = match &route.action {
            Action::Forward(forward) if forward.sealed == Sealed::Off => {
                return self.pass_through(forward, parts, body, timing).await;
            }
            Action::Forward(forward) => Some(forward),
            Action::Sessions => None,
        };
        if parts.method == Method::OPTIONS {
            discard(body).await;
            return self.cors.preflight(self.cors.allowed_origin(&parts.headers).is_some());
        }
        if let Some(forward) = forward.filter(|forward| forward.sealed == Sealed::Optional)
            && !looks_sealed(&parts)
        {
            return self.pass_through(forward, parts, body, timing).await;
        }
        // Held until the answer is there: what a connection may send whole is bounded, and so is what all may together.
        let len_max = forward.map_or(INIT_V1_BODY_MAX, |forward| forward.sealed_body_max) as u64;
        let len = body.size_hint().upper().unwrap_or(len_max).min(len_max);
        let Ok(_held) = self.buffered_kib.try_acquire_many(u32::try_from(len / 1024 + 1).unwrap_or(u32::MAX)) else {
            tracing::warn!("refused: limits.buffered_bytes_max is reached");
            discard(body).await;
            let mut response = unavailable();
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            return response;
        };
        match forward {
            None => endpoint::handle(&self.authority, Request::from_parts(parts, body), timing).await,
            Some(forward) => sealed::call(&self.authority, forward, parts, body, timing).await,
        }
    }

    /// Forwards as sent: a chunk in is a chunk out, both ways.
    async fn pass_through(
        &self,
        forward: &Forward,
        mut parts: Parts,
        body: RequestBody,
        timing: &mut ServerTiming,
    ) -> Response<Body> {
        if body.size_hint().lower() > forward.body_max {
            discard(body).await;
            return plain_error(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE");
        }
        if parts.method == Method::CONNECT {
            return plain_error(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED");
        }
        let origin = parts.extensions.remove::<Origin>();
        let host = parts.uri.authority().map(|host| host.as_str().to_owned());
        headers::to_upstream(&mut parts.headers, origin.as_ref(), host.as_deref());
        let limits = StreamLimits { len_max: forward.body_max, idle: self.body_idle };
        // Whose body broke off must be known later: the client's is not the service's fault.
        let body = bounded(body, limits);
        let answer = forward.upstream.call(Request::from_parts(parts, body)).await;
        timing.lap("upstream");
        match answer {
            Ok(mut response) => {
                headers::remove_hop_by_hop(response.headers_mut());
                response
            }
            Err(err) => sealed::upstream_failure(&err),
        }
    }
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("routes", &self.routes).finish_non_exhaustive()
    }
}

fn looks_sealed(parts: &Parts) -> bool {
    [X_KID, X_IDEMPOTENCY_KEY, X_SEAL].iter().any(|name| parts.headers.contains_key(*name))
}

/// The gateway as connections see it: the one in force when a request begins answers it to its end.
#[derive(Clone, Debug)]
pub struct GatewayService(Arc<ArcSwap<Gateway>>);

impl GatewayService {
    /// Begins with this one.
    pub fn new(gateway: Gateway) -> Self {
        GatewayService(Arc::new(ArcSwap::from_pointee(gateway)))
    }

    /// Puts another in force. Requests in flight keep theirs.
    pub fn replace(&self, gateway: Gateway) {
        self.0.store(Arc::new(gateway));
    }

    /// The one in force.
    pub fn current(&self) -> Arc<Gateway> {
        self.0.load_full()
    }
}

impl hyper::service::Service<Request<RequestBody>> for GatewayService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn call(&self, request: Request<RequestBody>) -> Self::Future {
        let gateway = self.current();
        Box::pin(async move { Ok(gateway.handle(request).await) })
    }
}
