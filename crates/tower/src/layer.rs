//! The layer: which requests are opened, and by which wire.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use sealway_proto::crypto::agreement::{AgreementProvider, default_agreement_provider};
use sealway_proto::limits::SEALED_BODY_MAX_DEFAULT;
use sealway_proto::session::{Claim, Fresh, Session};
use sealway_proto::wire::header::{X_IDEMPOTENCY_KEY, X_KID, X_SEAL};
use sealway_proto::wire::{ReplayPolicy, SessionId, Wire};
use tower_layer::Layer;
use tower_service::Service;

use crate::body::{Body, BoxError, discard, full};
use crate::clock::{Clock, SystemClock};
use crate::refusal::{Refusal, method_not_allowed, plain_error};
use crate::routes::{Routes, Sealed};
use crate::store::{Store, StoreError};
use crate::timing::Timing;
use crate::{headers, old, three};

/// Bounds and choices of a layer. The defaults are the specs'.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which paths are sealed: all, unless said.
    pub routes: Routes,
    /// The wires that are served.
    pub wires: Vec<Wire>,
    /// How far stamps may be off, and how long nonces are kept. On wire 3 stamps may be off by five minutes at most.
    pub replay: ReplayPolicy,
    /// Exact paths that anonymous sessions may call: none unless said.
    pub anonymous_paths: Vec<String>,
    /// Wires 1 and 2: the media type of what is inside.
    pub content_type: HeaderValue,
    /// Wires 1 and 2: longest sealed body, and longest answer that is sealed, in bytes.
    pub sealed_body_max: usize,
    /// Wire 3: longest sealed body of a request, in bytes.
    pub body_max: u64,
    /// How far apart two parts of a request's body may be.
    pub body_idle: Duration,
    /// How long a request's body may take.
    pub body_time: Duration,
    /// Wire 3: how long the first frame of a request may take, as a whole: its stamp is good for a while only.
    pub first_frame_time: Duration,
    /// Wires 1 and 2: how long the body of the service's answer may take, all of which is sealed at once.
    pub answer_time: Duration,
    /// How long the store may take to answer.
    pub store_deadline: Duration,
    /// Whether what stands in front of the layer is trusted to say where a request came from: `Forwarded`, `X-Forwarded-…`,
    /// `X-Real-IP`, `Client-Cert`, `Client-Cert-Chain` outside the seal. It has to put its own in the place of what it was sent.
    /// Not trusted unless said: then a sealed request's are taken out. Inside a seal they always are.
    pub trusts_origin: bool,
    /// Wire 3: headers outside the seal that the service is told, beside `Host`, `User-Agent`, `Accept-Language`, `Via` and trace
    /// contexts. Anybody on the path can have written them.
    pub unsealed_headers: Vec<HeaderName>,
    /// What seals and opens: `sealway_proto::crypto` has a provider for each feature that is on.
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

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
}

impl Shared {
    pub(crate) fn provider(&self) -> &'static dyn AgreementProvider {
        self.settings.provider
    }

    /// That this wire is served.
    pub(crate) fn check_wire(&self, wire: Wire) -> Result<(), Refusal> {
        if self.settings.wires.contains(&wire) { Ok(()) } else { Err(Refusal::WireOff) }
    }

    pub(crate) async fn find(&self, id: &SessionId) -> Result<Arc<Session>, Refusal> {
        let found = tokio::time::timeout(self.settings.store_deadline, self.store.get(id)).await;
        found.unwrap_or_else(|_| Err(late()))?.ok_or_else(|| sealway_proto::Error::SessionUnknown.into())
    }

    /// Reserves the nonce of a request that has opened. Its session and its stamp are checked again, as its sender decides how
    /// long its body takes: in between the session may have ended, and the store forgotten an earlier claim.
    // SPEC session-3.md#sealed-requests
    pub(crate) async fn admit(
        &self,
        session: &Session,
        claim: &Claim,
        replay: &ReplayPolicy,
    ) -> Result<Fresh, Refusal> {
        let found = self.find(session.id()).await?;
        let now_ms = self.clock.now_ms();
        if found.is_expired(now_ms) {
            return Err(sealway_proto::Error::SessionExpired.into());
        }
        let claim = Claim::passed_on(claim.key(), claim.is_sealed(), claim.stamp_ms(), now_ms, replay)?;
        let reserved = tokio::time::timeout(self.settings.store_deadline, self.store.reserve(&claim)).await;
        match reserved {
            Ok(reserved) => Ok(reserved?),
            Err(_) => Err(late().into()),
        }
    }

    /// Waits until a session has ended, by its time or by a revocation. A store that does not answer says neither.
    pub(crate) async fn ended(&self, session: &Session) {
        loop {
            let left = Duration::from_millis(session.record().expires_ms.saturating_sub(self.clock.now_ms()));
            tokio::time::sleep(left.clamp(Duration::from_millis(1), LOOK_INTERVAL)).await;
            if session.is_expired(self.clock.now_ms()) || matches!(self.store.get(session.id()).await, Ok(None)) {
                return;
            }
        }
    }

    /// Random bytes.
    pub(crate) fn random<const N: usize>(&self) -> Result<[u8; N], sealway_proto::Error> {
        let mut bytes = [0; N];
        self.provider().fill_random(&mut bytes)?;
        Ok(bytes)
    }
}

/// How often a session is looked up while a request in it is under way. An authority's answers may be half a second old, so a
/// revocation cuts within a second.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

fn late() -> StoreError {
    StoreError::Unavailable("it did not answer in time".into())
}

/// Opens sealed requests in front of a service, and seals its answers. Clones share everything.
#[derive(Clone)]
pub struct SealLayer {
    shared: Arc<Shared>,
}

impl SealLayer {
    /// With sessions and claims from `store`, by the machine's clock.
    pub fn new(store: Arc<dyn Store>, settings: Settings) -> Self {
        SealLayer::with_clock(store, settings, Arc::new(SystemClock))
    }

    /// As [`SealLayer::new`], by another clock.
    pub fn with_clock(store: Arc<dyn Store>, settings: Settings, clock: Arc<dyn Clock>) -> Self {
        SealLayer { shared: Arc::new(Shared { store, clock, settings }) }
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
    shared: Arc<Shared>,
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
        // What is ready is this one, not its clone.
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

/// An answer of the service behind, on its way.
pub(crate) type Answering<E> = Pin<Box<dyn Future<Output = Result<Response<Body>, E>> + Send>>;

/// How the rest of this crate calls the service behind.
pub(crate) trait Behind<E>: FnOnce(Request<Body>) -> Answering<E> + Send {}

impl<E, F: FnOnce(Request<Body>) -> Answering<E> + Send> Behind<E> for F {}

async fn answer<E>(shared: &Arc<Shared>, request: Request<Body>, service: impl Behind<E>) -> Result<Response<Body>, E> {
    let (mut parts, body) = request.into_parts();
    let sealed = shared.settings.routes.find(parts.uri.path());
    let passes = match sealed {
        Some(Sealed::Off) => true,
        Some(Sealed::Optional) => parts.method != Method::OPTIONS && !looks_sealed(&parts),
        Some(Sealed::Required) | None => false,
    };
    if passes {
        // What the layer tells of a client nobody else may say, on no path.
        headers::remove_identity(&mut parts.headers);
        return service(Request::from_parts(parts, body)).await;
    }
    let mut timing = Timing::start();
    let mut response = match sealed {
        None => {
            tracing::warn!("refused: the path is another spelling of a sealed one");
            discard(body).await;
            plain_error(StatusCode::BAD_REQUEST, "CRYPTO_ERROR")
        }
        Some(_) => sealed_only(shared, parts, body, service, &mut timing).await?,
    };
    timing.put(response.headers_mut());
    Ok(response)
}

/// What is answered where nothing passes in plain.
async fn sealed_only<E>(
    shared: &Arc<Shared>,
    parts: Parts,
    body: Body,
    service: impl Behind<E>,
    timing: &mut Timing,
) -> Result<Response<Body>, E> {
    if parts.method == Method::CONNECT || parts.method == Method::TRACE {
        discard(body).await;
        return Ok(method_not_allowed("POST, OPTIONS"));
    }
    // The browser's question, which is never sealed: a layer for CORS stands in front of this one and answers it first.
    if parts.method == Method::OPTIONS {
        discard(body).await;
        let mut response = Response::new(full(""));
        *response.status_mut() = StatusCode::NO_CONTENT;
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, OPTIONS"));
        return Ok(response);
    }
    if parts.headers.contains_key(X_SEAL) {
        three::call(shared, parts, body, service, timing).await
    } else {
        old::call(shared, parts, body, service, timing).await
    }
}

fn looks_sealed(parts: &Parts) -> bool {
    [X_KID, X_IDEMPOTENCY_KEY, X_SEAL].iter().any(|name| parts.headers.contains_key(*name))
}

impl std::fmt::Debug for SealLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Shared { store, settings, .. } = &*self.shared;
        f.debug_struct("SealLayer").field("store", store).field("settings", settings).finish_non_exhaustive()
    }
}

impl<S> std::fmt::Debug for SealService<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealService").field("settings", &self.shared.settings).finish_non_exhaustive()
    }
}
