//! The layer: chooses the requests that are opened, and their wire.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_LENGTH, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;
use sealway_exchange::body::{Body, BoxError, discard, full};
use sealway_exchange::headers::{HttpHeaders, identity_headers, remove_identity};
use sealway_exchange::timing::ServerTiming;
use sealway_exchange::{Cause, Failure, Rules, Sessions, error_answer, serve};
use sealway_proto::Error;
use sealway_proto::crypto::agreement::{AgreementProvider, default_agreement_provider};
use sealway_proto::exchange::{BodyBounds, ErrorAnswer, Form, Refusal, Rejection, looks_sealed};
use sealway_proto::limits::SEALED_BODY_MAX_DEFAULT;
use sealway_proto::session::{Claim, Fresh, Session};
use sealway_proto::wire::{ReplayPolicy, SessionId, Wire};
use tower_layer::Layer;
use tower_service::Service;

use crate::body::{Flow, TimedBody};
use crate::clock::{Clock, SystemClock};
use crate::routes::{Routes, SealMode};
use crate::store::{ReserveError, Store, StoreError};

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");
/// Methods allowed on a path that is sealed.
const METHODS: &str = "POST, OPTIONS";

/// Settings of a layer. The defaults are those of the specs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Paths that are sealed; all by default.
    pub routes: Routes,
    /// Enabled wires; all by default.
    pub wires: Vec<Wire>,
    /// Time window of stamps, and lifetime of nonces. On wire 3 the window is at most five minutes.
    pub replay: ReplayPolicy,
    /// Exact paths that anonymous sessions may call; none by default.
    pub anonymous_paths: Vec<String>,
    /// Media type of the plaintext on wires 1 and 2.
    pub content_type: HeaderValue,
    /// Maximum length of a sealed body, and of an answer that is sealed, on wires 1 and 2, in bytes.
    pub sealed_body_max: usize,
    /// Maximum length of a request's sealed body on wire 3, in bytes.
    pub body_max: u64,
    /// Maximum time between two parts of a request's body.
    pub body_idle: Duration,
    /// Maximum time of a request's whole body.
    pub body_time: Duration,
    /// Maximum time of a request's first frame, on wires 1 and 2 of its whole body: a stamp expires.
    pub first_frame_time: Duration,
    /// Maximum time of the body of the service's answer on wires 1 and 2, which is sealed as a whole.
    pub answer_time: Duration,
    /// Maximum time of a store operation.
    pub store_deadline: Duration,
    /// True if the proxy in front of the layer is trusted to set the origin of a request: `Forwarded`, `X-Forwarded-…`,
    /// `X-Real-IP`, `Client-Cert`, `Client-Cert-Chain` outside the seal. The proxy must replace the client's own. False
    /// by default: these headers of a sealed request are removed. Inside a seal they are always removed.
    pub trusts_origin: bool,
    /// Headers outside the seal that the service gets on wire 3, in addition to `Host`, `User-Agent`,
    /// `Accept-Language`, `Via` and trace contexts. Anyone on the path can have written them.
    pub unsealed_headers: Vec<HeaderName>,
    /// Provider of cryptography: `sealway_proto::crypto` has one for each enabled feature.
    pub provider: &'static dyn AgreementProvider,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            routes: Routes::default(),
            wires: Wire::ALL.to_vec(),
            replay: ReplayPolicy::default(),
            anonymous_paths: Vec::new(),
            content_type: HeaderValue::from_static("application/json"),
            sealed_body_max: SEALED_BODY_MAX_DEFAULT,
            body_max: 64 * 1024 * 1024,
            body_idle: Duration::from_secs(30),
            body_time: Duration::from_secs(300),
            first_frame_time: Duration::from_secs(30),
            answer_time: Duration::from_secs(30),
            store_deadline: Duration::from_secs(4),
            trusts_origin: false,
            unsealed_headers: Vec::new(),
            provider: default_agreement_provider(),
        }
    }
}

/// State shared by all requests.
struct Inner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    settings: Settings,
}

impl Sessions for Inner {
    fn provider(&self) -> &'static dyn AgreementProvider {
        self.settings.provider
    }

    fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    fn replay(&self) -> &ReplayPolicy {
        &self.settings.replay
    }

    fn check_wire(&self, wire: Wire) -> Result<(), Refusal> {
        if self.settings.wires.contains(&wire) { Ok(()) } else { Err(Refusal::WireOff(wire)) }
    }

    async fn find(&self, id: &SessionId) -> Result<Option<Arc<Session>>, Refusal> {
        let found = tokio::time::timeout(self.settings.store_deadline, self.store.get(id)).await;
        found.unwrap_or_else(|_| Err(late())).map_err(Refusal::from)
    }

    async fn reserve(&self, _session: &Session, claim: &Claim) -> Result<Fresh, Refusal> {
        let reserved = tokio::time::timeout(self.settings.store_deadline, self.store.reserve(claim)).await;
        reserved.unwrap_or_else(|_| Err(ReserveError::Unavailable(LATE.into()))).map_err(Refusal::from)
    }

    fn report(&self, refusal: &Refusal, what: &'static str) {
        tracing::info!(on = what, class = refusal.class(), "sealed request refused: {refusal}");
    }
}

const LATE: &str = "it did not answer in time";

fn late() -> StoreError {
    StoreError::Unavailable(LATE.into())
}

impl From<StoreError> for Refusal {
    fn from(StoreError::Unavailable(reason): StoreError) -> Self {
        Refusal::StoreUnavailable(reason)
    }
}

impl From<ReserveError> for Refusal {
    fn from(err: ReserveError) -> Self {
        match err {
            ReserveError::Replayed => Error::Replayed.into(),
            ReserveError::OutsideWindow => Error::TimestampOutsideWindow.into(),
            ReserveError::Full => Refusal::NoncesFull,
            ReserveError::Unavailable(reason) => Refusal::StoreUnavailable(reason),
        }
    }
}

/// Opens sealed requests in front of a service, and seals its answers. Clones share all state.
#[derive(Clone)]
pub struct SealLayer {
    shared: Arc<Inner>,
}

impl SealLayer {
    /// Creates a layer with sessions and claims from `store`, on the machine's clock.
    pub fn new(store: Arc<dyn Store>, settings: Settings) -> Self {
        SealLayer::with_clock(store, settings, Arc::new(SystemClock))
    }

    /// Creates a layer as [`SealLayer::new`] does, with another clock.
    pub fn with_clock(store: Arc<dyn Store>, settings: Settings, clock: Arc<dyn Clock>) -> Self {
        SealLayer { shared: Arc::new(Inner { store, clock, settings }) }
    }
}

impl<S> Layer<S> for SealLayer {
    type Service = SealService<S>;

    fn layer(&self, inner: S) -> SealService<S> {
        SealService { inner, shared: self.shared.clone() }
    }
}

/// A service behind a [`SealLayer`].
#[derive(Clone)]
pub struct SealService<S> {
    inner: S,
    shared: Arc<Inner>,
}

impl<S, B, R> Service<Request<B>> for SealService<S>
where
    S: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The ready service is this one, not its clone.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let shared = self.shared.clone();
        Box::pin(async move {
            let service = move |request| -> Answering<S::Error> {
                let answering = inner.call(request);
                Box::pin(async move { Ok(answering.await?.map(Body::new)) })
            };
            answer(&shared, request.map(Body::new), service).await
        })
    }
}

/// An answer of the inner service, in progress.
type Answering<E> = Pin<Box<dyn Future<Output = Result<Response<Body>, E>> + Send>>;

/// Call of the inner service.
trait Behind<E>: FnOnce(Request<Body>) -> Answering<E> + Send {}

impl<E, F: FnOnce(Request<Body>) -> Answering<E> + Send> Behind<E> for F {}

async fn answer<E: Send>(
    shared: &Arc<Inner>,
    request: Request<Body>,
    service: impl Behind<E>,
) -> Result<Response<Body>, E> {
    let (mut parts, body) = request.into_parts();
    let sealed = shared.settings.routes.find(parts.uri.path());
    let passes = match sealed {
        Some(SealMode::Off) => true,
        Some(SealMode::Optional) => parts.method != Method::OPTIONS && !looks_sealed(&HttpHeaders(&parts.headers)),
        Some(SealMode::Required) | None => false,
    };
    if passes {
        // Identity headers come from the layer only, on every path.
        remove_identity(&mut parts.headers);
        return service(Request::from_parts(parts, body)).await;
    }
    let mut timing = ServerTiming::start();
    let mut response = match sealed {
        None => {
            tracing::warn!("request rejected: the path is another spelling of a sealed path");
            discard(body).await;
            error_answer(ErrorAnswer::plain(400, "CRYPTO_ERROR"))
        }
        Some(_) => sealed_only(shared, parts, body, service, &mut timing).await?,
    };
    if let Ok(value) = HeaderValue::try_from(timing.header(timing.elapsed())) {
        response.headers_mut().insert(SERVER_TIMING, value);
    }
    Ok(response)
}

/// Answers a request on a path where nothing passes unsealed.
async fn sealed_only<E: Send>(
    shared: &Arc<Inner>,
    parts: Parts,
    body: Body,
    service: impl Behind<E>,
    timing: &mut ServerTiming,
) -> Result<Response<Body>, E> {
    if parts.method == Method::CONNECT || parts.method == Method::TRACE {
        discard(body).await;
        return Ok(error_answer(Rejection::from(Refusal::Method(METHODS)).answer(Form::Plain)));
    }
    // A preflight, which is never sealed; a CORS layer in front of this one would answer it first.
    if parts.method == Method::OPTIONS {
        discard(body).await;
        let mut response = Response::new(full(""));
        *response.status_mut() = StatusCode::NO_CONTENT;
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(METHODS));
        return Ok(response);
    }
    let settings = &shared.settings;
    let uri = parts.uri.clone();
    let allows = |session: &Session| {
        let is_barred = session.id().is_anonymous() && !settings.anonymous_paths.iter().any(|path| path == uri.path());
        if is_barred { Err(Refusal::Forbidden) } else { Ok(()) }
    };
    let rules = Rules {
        allows: &allows,
        content_type: &settings.content_type,
        unsealed_headers: &settings.unsealed_headers,
        trusts_origin: settings.trusts_origin,
        body: BodyBounds { whole: settings.sealed_body_max, stream: settings.body_max },
        first_time: settings.first_frame_time,
        answer_time: settings.answer_time,
        kept: None,
        ends_with_session: true,
        serves_sessions: true,
        one_shot: None,
    };
    let body = TimedBody::new(body, Flow { idle: settings.body_idle, time: settings.body_time });
    let inside = |mut request: Request<Body>| {
        if let Some(session) = request.extensions_mut().remove::<Arc<Session>>() {
            request.headers_mut().extend(identity_headers(session.record()));
        }
        if let Some(len) = request.body().size_hint().exact().filter(|len| *len > 0) {
            request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(len));
        }
        service(request)
    };
    match serve(shared, rules, parts, body, timing, inside).await {
        Ok(response) => Ok(response),
        Err(Failure { cause: Cause::Service(err), .. }) => Err(err),
        Err(Failure { cause: Cause::Unsealable { reason, is_late }, problems }) => {
            tracing::warn!("an answer cannot be sealed: {reason}");
            let refusal = Refusal::Unanswered(if is_late { 504 } else { 502 });
            Ok(problems.answer(&**shared, Rejection::from(refusal)))
        }
    }
}

impl std::fmt::Debug for SealLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inner { store, settings, .. } = &*self.shared;
        f.debug_struct("SealLayer").field("store", store).field("settings", settings).finish_non_exhaustive()
    }
}

impl<S> std::fmt::Debug for SealService<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealService").field("settings", &self.shared.settings).finish_non_exhaustive()
    }
}
