//! An application behind the layer, on a real socket, and sessions without an authority: the test agrees both halves.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, Response, StatusCode};
use sealway_proto::crypto::agreement::default_agreement_provider;
use sealway_proto::crypto::identity::{SignatureAlgorithm, default_identity_library};
use sealway_proto::session::native::{
    self, InitRequest, InnerHeaders, KeyId, PendingAnswer, RequestLine, SealedCall, ServerRandoms, Suite, Terms, agree,
};
use sealway_proto::session::{
    Auth, Claim, ClientInit, ClientSession, Family, Fresh, InitCall, InitRandoms, Laps, SealBuffer, SealRandoms,
    Session, TtlPolicy,
};
use sealway_proto::wire::{ReplayPolicy, SessionId, Wire, base64};
use sealway_testkit::native_client::{OCTETS, offer};
use sealway_testkit::raw_http::{Answer, Request as Raw};
use sealway_tower::{Clock, Memory, ReserveError, SealLayer, Settings, Store, StoreError};

pub(crate) const NOW_MS: u64 = 1_750_000_000_000;

/// A clock that the test sets.
#[derive(Default)]
pub(crate) struct TestClock(AtomicU64);

impl Clock for TestClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Headers that describe the origin of a request.
pub(crate) const ORIGIN: [&str; 7] = [
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-of-some-new-kind",
    "x_forwarded_proto",
    "x-real-ip",
    "client-cert",
    "client-cert-chain",
];

/// Fault of a store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum StoreFault {
    Not,
    Away,
    Silent,
    /// Sessions are found, and claims fail.
    Claims,
}

#[derive(Debug)]
struct Breaking(Arc<Memory>, Arc<Mutex<StoreFault>>, Arc<AtomicUsize>);

impl Breaking {
    async fn wait(&self, is_claim: bool) -> Result<(), String> {
        let broken = *self.1.lock().unwrap();
        match broken {
            StoreFault::Silent => std::future::pending().await,
            StoreFault::Away => Err("away".into()),
            StoreFault::Claims if is_claim => Err("away".into()),
            StoreFault::Claims | StoreFault::Not => Ok(()),
        }
    }
}

#[async_trait::async_trait]
impl Store for Breaking {
    async fn get(&self, id: &SessionId) -> Result<Option<Arc<Session>>, StoreError> {
        self.wait(false).await.map_err(StoreError::Unavailable)?;
        self.2.fetch_add(1, Ordering::SeqCst);
        self.0.get(id).await
    }

    async fn reserve(&self, claim: &Claim) -> Result<Fresh, ReserveError> {
        self.wait(true).await.map_err(ReserveError::Unavailable)?;
        self.0.reserve(claim).await
    }
}

/// A request as the application saw it.
pub(crate) struct RequestRecord {
    pub(crate) method: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Result<Vec<u8>, String>,
}

pub(crate) struct Ground {
    pub(crate) address: SocketAddr,
    pub(crate) store: Arc<Memory>,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) seen: Arc<Mutex<Vec<RequestRecord>>>,
    broken: Arc<Mutex<StoreFault>>,
    asked: Arc<AtomicUsize>,
    _runtime: tokio::runtime::Runtime,
}

/// A body of three bytes whose length is known at once, and which is available when the request's body has ended.
struct Early(Option<Body>);

impl http_body::Body for Early {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, axum::Error>>> {
        while let Some(body) = &mut self.0 {
            match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(_)) => {}
                Some(Err(err)) => return Poll::Ready(Some(Err(err))),
                None => {
                    self.0 = None;
                    return Poll::Ready(Some(Ok(http_body::Frame::data(Bytes::from_static(b"all")))));
                }
            }
        }
        Poll::Ready(None)
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(3)
    }
}

/// Answers by path: `/status/N` with N, `/long` with 300 000 bytes, `/flow` with the request's body as it arrives, `/early` with
/// [`Early`], `/never` not at all, all else with the whole body of the request. Records the requests whose bodies it reads whole.
async fn application(seen: Arc<Mutex<Vec<RequestRecord>>>, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    match head.uri.path() {
        "/flow" => return Response::new(body),
        "/early" => return Response::new(Body::new(Early(Some(body)))),
        _ => {}
    }
    let body = axum::body::to_bytes(body, usize::MAX).await.map(|body| body.to_vec()).map_err(|err| err.to_string());
    let echo = body.clone().unwrap_or_else(|err| err.into_bytes());
    seen.lock().unwrap().push(RequestRecord { method: head.method.to_string(), headers: head.headers, body });
    let path = head.uri.path();
    if path == "/never" {
        std::future::pending::<()>().await;
    }
    let (status, body) = match path.strip_prefix("/status/").map(|status| status.parse::<u16>().unwrap()) {
        Some(status) => (StatusCode::from_u16(status).unwrap(), Body::from("told")),
        None if path == "/long" => {
            // Without a known length: sealed as it comes.
            let chunks = (0..30).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 10_000])));
            (StatusCode::OK, Body::from_stream(futures_util::stream::iter(chunks)))
        }
        None => (StatusCode::OK, Body::from(echo)),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert("x-from", "the application".parse().unwrap());
    response.headers_mut().insert("content-type", "text/plain".parse().unwrap());
    response
}

impl Ground {
    pub(crate) fn new(settings: Settings) -> Self {
        Ground::with_entries(settings, 1000)
    }

    /// Starts it with a store of at most this many sessions, and as many claims.
    pub(crate) fn with_entries(settings: Settings, entries_max: usize) -> Self {
        let (store, asked) = (Arc::new(Memory::new(entries_max)), Arc::<AtomicUsize>::default());
        let clock = Arc::new(TestClock(AtomicU64::new(NOW_MS)));
        let broken = Arc::new(Mutex::new(StoreFault::Not));
        let breaking = Arc::new(Breaking(store.clone(), broken.clone(), asked.clone()));
        let layer = SealLayer::with_clock(breaking, settings, clock.clone());
        let seen: Arc<Mutex<Vec<RequestRecord>>> = Arc::default();
        let noted = seen.clone();
        let app = Router::new().fallback(move |request| application(noted.clone(), request)).layer(layer);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move { axum::serve(listener, app).await });
        Ground { address, store, clock, seen, broken, asked, _runtime: runtime }
    }

    pub(crate) fn set_clock(&self, now_ms: u64) {
        self.clock.0.store(now_ms, Ordering::Relaxed);
    }

    pub(crate) fn breaks(&self, how: StoreFault) {
        *self.broken.lock().unwrap() = how;
    }

    /// Waits until the store was asked for a session: by then the request's head was checked with the clock.
    pub(crate) fn wait_until_asked(&self) {
        let began = std::time::Instant::now();
        while self.asked.load(Ordering::SeqCst) == 0 {
            assert!(began.elapsed() < std::time::Duration::from_secs(30), "the store was not asked");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    pub(crate) fn served(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// Creates a session of wire 1 or 2.
    pub(crate) fn old(&self, family: Family, wire: Wire) -> ClientSession {
        let provider = default_agreement_provider();
        let is_anonymous = family == Family::Anonymous;
        let ephemeral = provider.p256_generate().unwrap();
        let (init, request) =
            ClientInit::new(wire, is_anonymous, "demo-client", None, ephemeral, &random(), NOW_MS).unwrap();
        let policy = ReplayPolicy::default();
        let call =
            InitCall::parse(provider, family, &request.headers, request.body.as_bytes(), NOW_MS, &policy).unwrap();
        let fresh = Fresh::reserved(call.claim());
        let draw = |laps: Laps<'_>| InitRandoms::draw(provider, laps);
        let call = call.release(fresh).unwrap();
        let (answer, session) =
            call.accept(provider, &TtlPolicy::default(), false, None, draw, NOW_MS, &mut |_| ()).unwrap();
        assert!(self.store.put(session, NOW_MS));
        init.finish(provider, answer.encode().as_bytes(), NOW_MS, &mut |_| ()).unwrap()
    }

    /// Creates a session of wire 3.
    pub(crate) fn native(&self) -> native::ClientSession {
        let (provider, now_ms) = (default_agreement_provider(), NOW_MS);
        let (init, request) = sealway_testkit::native_client::init(offer(Suite::P256, &[]));
        let request = InitRequest::parse(request.body_bytes()).unwrap();
        let (_, key) = default_identity_library().generate(SignatureAlgorithm::Es256).unwrap();
        let key_id = KeyId::of(provider, key.public());
        let terms = Terms {
            suites: vec![Suite::P256],
            expires_in_sec: 600,
            key_id,
            key_ids: vec![key_id],
            auth: Auth::Bearer,
            subject: Some("alice".into()),
            tenant: None,
            credential: None,
        };
        let agreed =
            agree(provider, &request, terms, None, &random(), ServerRandoms::Draw, now_ms, &mut |_| ()).unwrap();
        let signature = key.sign(&agreed.message()).unwrap();
        let (answer, session) = agreed.signed(provider, signature).unwrap();
        assert!(self.store.put(session, NOW_MS));
        let public = default_identity_library().public(key.public()).unwrap();
        init.finish(provider, Some(&public), answer.as_bytes()).unwrap()
    }

    pub(crate) fn send(&self, request: &Raw) -> Answer {
        request.send(self.address).unwrap()
    }
}

pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    default_agreement_provider().fill_random(&mut bytes).unwrap();
    bytes
}

/// Seals a `POST` of wire 1 or 2; also returns the value that opens its answer.
pub(crate) fn compat_request<'a>(
    session: &'a ClientSession,
    path: &str,
    body: &[u8],
) -> (Raw, sealway_proto::session::PendingAnswer<'a>) {
    let randoms = SealRandoms { iv: random(), nonce: random() };
    let (message, pending) = session.seal(path, SealBuffer::from(body), NOW_MS, &randoms, &mut |_| ()).unwrap();
    let mut request = Raw::post(path, message.body).header("Content-Type", message.content_type);
    for (name, value) in message.headers {
        request = request.header(name, value);
    }
    (request, pending)
}

/// Opens the answer of wire 1 or 2.
pub(crate) fn open_compat(
    pending: &sealway_proto::session::PendingAnswer<'_>,
    answer: &Answer,
) -> Result<Vec<u8>, sealway_proto::Error> {
    let (policy, body) = (ReplayPolicy::default(), answer.body.clone());
    let opened = pending.open(&answer.headers, answer.status, body, NOW_MS, &policy, &mut |_| ())?;
    Ok(opened.as_slice().to_vec())
}

/// Seals a request of wire 3 whose body has these frames; without any, in `X-Sealed`.
pub(crate) fn native_request<'a>(
    session: &'a native::ClientSession,
    method: &str,
    target: &str,
    inner: &[(&str, &str)],
    frames: &[&[u8]],
) -> (Raw, PendingAnswer<'a>) {
    native_request_at(session, method, target, inner, frames, NOW_MS)
}

/// Seals a request as `native_request` does, with another stamp.
pub(crate) fn native_request_at<'a>(
    session: &'a native::ClientSession,
    method: &str,
    target: &str,
    inner: &[(&str, &str)],
    frames: &[&[u8]],
    stamp_ms: u64,
) -> (Raw, PendingAnswer<'a>) {
    let content_type = if frames.is_empty() { "" } else { OCTETS };
    let line = RequestLine { method, target };
    let call = session.seal(default_agreement_provider(), line, content_type, stamp_ms, &random()).unwrap();
    let SealedCall { headers, mut sealer, pending } = call;
    let mut within = InnerHeaders::new();
    for (name, value) in inner {
        within.push(name, value.as_bytes()).unwrap();
    }
    let (mut stream, all) = (Vec::new(), if frames.is_empty() { &[&[][..]] } else { frames });
    for (index, frame) in all.iter().enumerate() {
        let begun = sealer.begin(&mut stream);
        if index == 0 {
            within.encode(&mut stream);
        }
        stream.extend_from_slice(frame);
        sealer.seal(&mut stream, begun, index + 1 == all.len()).unwrap();
    }
    let mut request = Raw::new(method, target);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = if frames.is_empty() {
        request.header("X-Sealed", base64::encode(&stream))
    } else {
        request.header("Content-Type", OCTETS).body(stream)
    };
    (request, pending)
}
