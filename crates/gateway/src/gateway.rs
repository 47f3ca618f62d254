//! Handling of one request, from its route to its answer.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, HOST, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use metrics::{Counter, Histogram, counter, histogram};
use parking_lot::Mutex;
use sealway_exchange::Sessions as _;
use sealway_exchange::headers::HttpHeaders;
use sealway_exchange::timing::ServerTiming;
use sealway_proto::exchange::looks_sealed;
use sealway_runtime::http::notices::Gate;
use sealway_runtime::http::share::{Share, SharedBudget, Taker};
use sealway_runtime::http::{Body, ExtendedConnect, FromTrustedProxy, Origin, RequestBody, TakeOver, discard};
use sealway_sessions::answer::plain_error;
use sealway_sessions::{Authority, endpoint};
use tracing::Instrument;

use crate::access_log::AccessLog;
use crate::body::keeping;
use crate::config::RequestLimits;
use crate::cors::{Cors, is_preflight};
use crate::forward;
use crate::mle;
use crate::ohttp;
use crate::one_shot::exchange::KeyedAuthority;
use crate::one_shot::{LiveKeys, Openings, ehbp};
use crate::policy::TrustedProxies;
use crate::route::{Action, Forward, Route, RouteQuery, Sealing, Selection, find};
use crate::sealed;
use crate::standalone::Standalone;
use crate::traffic::Traffic;
use crate::upgrade::not_switched;
use crate::upstream::{NoAnswer, Upstream};

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// Divisors of the room for bodies: a connection may take a sixteenth, a network of clients a quarter, or the largest
/// body of a route if that is more.
const CONNECTION_PART: u64 = 16;
const NETWORK_PART: u64 = 4;

struct RouteMetrics {
    /// Counters by the first digit of the status.
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

/// The data plane: routes, CORS, limits and upstreams of one configuration.
pub struct Gateway {
    authority: Arc<Authority>,
    routes: Vec<Route>,
    cors: Cors,
    limits: RequestLimits,
    /// Trusted proxies by listener.
    trusted: HashMap<Arc<str>, TrustedProxies>,
    /// Room for bytes of request bodies that are held in memory: sealed ones, inits, echoes, and the part that is read
    /// ahead.
    room: Arc<SharedBudget>,
    /// Shares of the room, in bytes: of a connection, and of a network of clients.
    room_shares: (u64, u64),
    metrics: Vec<RouteMetrics>,
    unrouted: RouteMetrics,
    upstreams: Vec<Arc<Upstream>>,
    access_log: Option<AccessLog>,
    mle_keys: mle::KeyRing,
    one_shot: Arc<LiveKeys>,
    openings: Arc<Openings>,
    /// Limits the log lines about disguised paths.
    disguised: Gate,
}

impl Gateway {
    /// Builds a gateway from its parts: `upstreams` are those of the configuration, for status reports, and `trusted` has
    /// the trusted proxies by the listener's name.
    pub(crate) fn new(
        authority: Arc<Authority>,
        routes: Vec<Route>,
        upstreams: Vec<Arc<Upstream>>,
        cors: Cors,
        limits: RequestLimits,
        trusted: HashMap<Arc<str>, TrustedProxies>,
        access_log: Option<AccessLog>,
        one_shot: Arc<LiveKeys>,
    ) -> Self {
        let metrics = routes.iter().map(|route| RouteMetrics::new(&route.name)).collect();
        let room = SharedBudget::new(limits.buffered_max as u64);
        let largest = routes.iter().map(Route::held_max).max().unwrap_or_default() as u64;
        let share = |part: u64| (limits.buffered_max as u64 / part).max(largest);
        let room_shares = (share(CONNECTION_PART), share(NETWORK_PART));
        let unrouted = RouteMetrics::new("none");
        Gateway {
            authority,
            routes,
            cors,
            limits,
            trusted,
            room,
            room_shares,
            metrics,
            unrouted,
            upstreams,
            access_log,
            mle_keys: mle::KeyRing::default(),
            openings: Arc::new(Openings::new(one_shot.files().opens_per_minute)),
            one_shot,
            disguised: Gate::default(),
        }
    }

    /// Adds the keys of messages, for status reports and the next reload.
    pub(crate) fn with_mle_keys(self, mle_keys: mle::KeyRing) -> Self {
        Gateway { mle_keys, ..self }
    }

    /// Returns the keys of messages.
    pub(crate) fn mle_keys(&self) -> &mle::KeyRing {
        &self.mle_keys
    }

    /// Returns the keys of one-shot modes.
    pub(crate) fn one_shot(&self) -> &Arc<LiveKeys> {
        &self.one_shot
    }

    /// Returns the routes of the configuration, in the order in which they are tried, behind those of published keys.
    pub(crate) fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// Returns the upstreams of the configuration.
    pub fn upstreams(&self) -> &[Arc<Upstream>] {
        &self.upstreams
    }

    /// Answers one request of any kind, and returns the time until the answer's head was ready.
    // Each request's future is copied whole to the heap when it begins. So the branches of its own kinds are boxed: those that only
    // pass through do not pay for the size of the others.
    pub async fn handle(&self, request: Request<RequestBody>) -> (Response<Body>, Duration) {
        let mut timing = ServerTiming::start();
        let (mut parts, body) = request.into_parts();
        let is_trusted = self.find_client(&mut parts);
        let mut entry = self.access_log.as_ref().map(|log| log.begin(&parts));
        let is_extended = parts.extensions.get::<ExtendedConnect>().is_some();
        if is_extended {
            // The `Upgrade` of HTTP/2: routes, seals and services see what they see over HTTP/1.1.
            parts.method = Method::GET;
        }
        let found = find(&self.routes, asked(&parts));
        if let Some(entry) = &mut entry {
            match &found {
                Selection::Route(_, route) => {
                    entry.routed(&route.name, route.upstream());
                    if matches!(route.action, Action::OhttpRelay(_)) {
                        entry.forget_client();
                    }
                }
                Selection::None | Selection::Disguised => entry.routed("none", ""),
            }
        }
        // An answer of Oblivious HTTP has nothing beside its message: no origin of a client, and no time of a step.
        let is_oblivious = matches!(&found, Selection::Route(_, route) if route.is_oblivious());
        // Every client gets the same bytes of a key document.
        let is_document = matches!(&found, Selection::Route(_, route) if matches!(route.action, Action::Keys(_)));
        let origin = self.cors.allowed_origin(&parts.headers).filter(|_| !is_oblivious);
        let preflight = !is_oblivious && is_preflight(&parts.method, &parts.headers);
        let peer = parts.extensions.get::<Origin>().map(|origin| origin.peer);
        let (mut response, metrics) = match found {
            Selection::Route(index, route) => {
                let span = tracing::debug_span!("request", route = %route.name, method = %parts.method, path = parts.uri.path());
                // Most have no span, and are not copied into a future that would enter it.
                let mut answer = if span.is_disabled() {
                    self.answer(route, parts, body, is_trusted, &mut timing).await
                } else {
                    Box::pin(self.answer(route, parts, body, is_trusted, &mut timing).instrument(span)).await
                };
                if let Some(failure) = answer.extensions_mut().remove::<NoAnswer>() {
                    failure.log(&route.name, route.upstream(), peer);
                }
                (answer, &self.metrics[index])
            }
            Selection::None | Selection::Disguised if preflight => {
                (self.cors.preflight(origin.is_some()), &self.unrouted)
            }
            Selection::None => {
                Box::pin(discard(body)).await;
                // The target of a CONNECT is no path, so it matches no route.
                let answer = match parts.method {
                    Method::CONNECT => plain_error(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED"),
                    _ => plain_error(StatusCode::NOT_FOUND, "NOT_FOUND"),
                };
                (answer, &self.unrouted)
            }
            Selection::Disguised => {
                if let Some(kept_back) = self.disguised.pass(Instant::now()) {
                    let peer = peer.map(|peer| peer.to_string());
                    tracing::warn!(peer, kept_back, "request rejected: the path is another spelling of a sealed path");
                }
                Box::pin(discard(body)).await;
                (plain_error(StatusCode::BAD_REQUEST, "CRYPTO_ERROR"), &self.unrouted)
            }
        };
        if is_extended && response.status().is_success() && response.extensions().get::<TakeOver>().is_none() {
            response = not_switched();
        }
        // A service that sets no CORS headers has not answered the preflight.
        if preflight && origin.is_some() && !response.headers().contains_key(ACCESS_CONTROL_ALLOW_ORIGIN) {
            response = self.cors.preflight(true);
        }
        self.cors.apply(origin, response.headers_mut());
        let took = timing.elapsed();
        if let Ok(value) = HeaderValue::try_from(timing.header(took))
            && !is_oblivious
            && !is_document
        {
            response.headers_mut().append(SERVER_TIMING, value);
        }
        metrics.record(response.status(), took);
        let response = match entry {
            Some(entry) => entry.follow(response),
            None => response,
        };
        (response, took)
    }

    /// Determines the client's address. Returns true if the peer is a trusted proxy.
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
        // CONNECT asks for a tunnel, TRACE for an echo of headers that clients hide from pages: a gateway serves
        // neither.
        if parts.method == Method::CONNECT || parts.method == Method::TRACE {
            Box::pin(discard(body)).await;
            return plain_error(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED");
        }
        // For an echo the delay comes after its body.
        if !route.delay.is_zero() && !matches!(route.action, Action::Standalone(_)) {
            Box::pin(tokio::time::sleep(route.delay)).await;
        }
        let passes = |forward: &Forward| match forward.policy.sealed {
            Sealing::Off => true,
            Sealing::Optional => parts.method != Method::OPTIONS && !looks_sealed(&HttpHeaders(&parts.headers)),
            Sealing::Required | Sealing::Ehbp | Sealing::Hpke | Sealing::SessionOrHpke => false,
        };
        match &route.action {
            Action::Forward(forward) if forward.mle.is_some() && passes(forward) && parts.method != Method::OPTIONS => {
                let Some(mle) = &forward.mle else { return plain_error(StatusCode::NOT_FOUND, "NOT_FOUND") };
                let body = self.hold(&parts, body);
                let target = (&**forward, route.name.as_str());
                Box::pin(mle::call(mle, &self.authority, target, self.limits, parts, body, is_trusted, timing)).await
            }
            Action::Forward(forward) if passes(forward) && forward.mle.is_none() => {
                let room = self.room(&parts);
                forward::pass_through(forward, self.limits, parts, (body, room), is_trusted, timing).await
            }
            Action::Standalone(standalone) => Box::pin(self.stand_alone(*standalone, route, &parts, body)).await,
            Action::Keys(document) => document.answer(&self.one_shot, &parts.method, self.authority.now_ms()),
            Action::Forward(_) | Action::Sessions if parts.method == Method::OPTIONS => {
                Box::pin(discard(body)).await;
                self.cors.preflight(self.cors.allowed_origin(&parts.headers).is_some())
            }
            Action::Sessions => {
                let (body, _room) = self.hold(&parts, body);
                Box::pin(endpoint::handle(&self.authority, Request::from_parts(parts, body), timing)).await
            }
            Action::Ohttp(gateway) => {
                let room = self.room(&parts);
                Box::pin(ohttp::call(gateway, &self.authority, self.limits, &route.name, parts, (body, room))).await
            }
            Action::OhttpRelay(relay) => {
                let room = self.room(&parts);
                let now_ms = self.authority.now_ms();
                Box::pin(relay.call(self.limits, &route.name, parts, (body, room), now_ms)).await
            }
            Action::Forward(forward) if forward.policy.sealed == Sealing::Ehbp => {
                let body = (body, self.room(&parts));
                let (keys, target) = ((&*self.one_shot, &*self.openings), (&**forward, route.name.as_str()));
                Box::pin(ehbp::call(keys, &self.authority, target, self.limits, parts, body, is_trusted, timing)).await
            }
            Action::Forward(forward) => {
                let room = self.room(&parts);
                let body = (body, room);
                if forward.policy.sealed.serves_hpke() {
                    let peer = parts.extensions.get::<Origin>().and_then(|origin| origin.client);
                    let (authority, keys) = (self.authority.clone(), self.one_shot.clone());
                    let openings = self.openings.clone();
                    let keyed = Arc::new(KeyedAuthority::new(authority, keys, openings, peer, &parts.headers));
                    let authority = (&keyed, &*self.authority);
                    let rules = (self.limits, route.name.as_str());
                    let answer =
                        Box::pin(sealed::call(authority, forward, rules, parts, body, is_trusted, timing)).await;
                    keyed.count_use(&route.name);
                    return answer;
                }
                let authority = (&self.authority, &*self.authority);
                let rules = (self.limits, route.name.as_str());
                Box::pin(sealed::call(authority, forward, rules, parts, body, is_trusted, timing)).await
            }
        }
    }

    /// Creates the request's share of the room for bodies. It is empty: bytes take room as they arrive.
    fn room(&self, parts: &Parts) -> Share {
        let origin = parts.extensions.get::<Origin>();
        let connection = Taker::connection(origin).map(|taker| (taker, self.room_shares.0));
        let network = Taker::network(origin).map(|taker| (taker, self.room_shares.1));
        self.room.share([connection, network])
    }

    /// Returns a body that is held in memory, and its room. An answer made from the body keeps the room until it is
    /// sent, however slowly its client reads.
    fn hold(&self, parts: &Parts, body: RequestBody) -> (RequestBody, Arc<Mutex<Share>>) {
        let room = Arc::new(Mutex::new(self.room(parts)));
        (body.held_in(room.clone()), room)
    }

    async fn stand_alone(
        &self,
        standalone: Standalone,
        route: &Route,
        parts: &Parts,
        body: RequestBody,
    ) -> Response<Body> {
        let len_max = standalone.body_max();
        let (body, room) = self.hold(parts, body);
        let answer = standalone.answer(parts, body, len_max, self.limits.body_idle, route.delay).await;
        if len_max > 0 { answer.map(|body| keeping(body, room)) } else { answer }
    }
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("routes", &self.routes).finish_non_exhaustive()
    }
}

/// Returns the parts of a request that select its route. The host of the target has precedence over the header (RFC
/// 9112 section 3.2.2).
fn asked(parts: &Parts) -> RouteQuery<'_> {
    let listener = parts.extensions.get::<Origin>().map_or("", |origin| &origin.listener);
    let host = match parts.uri.authority() {
        Some(authority) => authority.as_str(),
        None => parts.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default(),
    };
    // An IPv6 address contains colons, in brackets.
    let host = match host.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => host,
        _ => host,
    };
    // A trailing dot names the same host.
    RouteQuery { listener, host: host.strip_suffix('.').unwrap_or(host), path: parts.uri.path() }
}

/// The gateway as connections see it: the gateway in force when a request begins answers it to its end.
#[derive(Clone, Debug)]
pub struct GatewayService {
    current: Arc<ArcSwap<Gateway>>,
    traffic: Arc<Traffic>,
}

impl GatewayService {
    /// Creates the service with its first gateway.
    pub fn new(gateway: Gateway) -> Self {
        GatewayService { current: Arc::new(ArcSwap::from_pointee(gateway)), traffic: Arc::default() }
    }

    /// Puts another gateway in force. Requests in flight keep theirs.
    pub fn replace(&self, gateway: Gateway) {
        self.current.store(Arc::new(gateway));
    }

    /// Returns the traffic counts of all gateways since the start.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Returns the gateway in force.
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
        // Written where it stays: it would be copied from the stack whole.
        let answer = Box::write(Box::new_uninit(), async move {
            let (response, took) = gateway.handle(request).await;
            traffic.record(response.status(), took);
            Ok(response)
        });
        Box::into_pin(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_passes_through_does_not_carry_the_state_of_other_kinds() {
        fn size<'a, F>(_: impl FnOnce(&'a Gateway, Request<RequestBody>) -> F) -> usize {
            size_of::<F>()
        }
        let len = size(Gateway::handle);
        assert!(len <= 5 * 1024, "{len} bytes are copied for each request");
    }

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
