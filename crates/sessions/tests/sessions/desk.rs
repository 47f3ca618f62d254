//! The authority's endpoints in process, under a clock that the test sets.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as HttpBody, Frame};
use parking_lot::Mutex;
use sealway_exchange::body::{Body as ExchangeBody, Incoming, full};
use sealway_exchange::timing::ServerTiming;
use sealway_exchange::{Rules, Sessions, serve};
use sealway_proto::crypto::agreement::AgreementProvider;
use sealway_proto::exchange::BodyBounds;
use sealway_proto::session::{Claim, Fresh, Session};
use sealway_proto::wire::{ReplayPolicy, SessionId, Wire, base64};
use sealway_runtime::clock::ManualClock;
use sealway_runtime::http::{Body, Origin, Peer};
use sealway_sessions::admin::Admin;
use sealway_sessions::answer::BodyFault;
use sealway_sessions::store::{Memory, MemoryLimits, Store};
use sealway_sessions::{Authority, Policy, Refusal, endpoint};
use sealway_testkit::store_contract::claims::{START_MS, provider, random};
use serde_json::{Value, json};

pub(crate) const SESSION: &str = "/session/init";
pub(crate) const ANON: &str = "/session/init/anon";
pub(crate) const V1: &str = "/v1/session/init";
pub(crate) const CRYPTO_ERROR: &str = r#"{"error":"CRYPTO_ERROR"}"#;
pub(crate) const WINDOW_MS: u64 = 300_000;

/// An authority that records the reason of a rejection.
struct RecordingAuthority {
    authority: Arc<Authority>,
    refusal: Mutex<Option<Refusal>>,
}

impl Sessions for RecordingAuthority {
    fn provider(&self) -> &'static dyn AgreementProvider {
        self.authority.provider()
    }

    fn now_ms(&self) -> u64 {
        self.authority.now_ms()
    }

    fn replay(&self) -> &ReplayPolicy {
        self.authority.replay()
    }

    fn check_wire(&self, wire: Wire) -> Result<(), Refusal> {
        self.authority.check_wire(wire)
    }

    async fn find(&self, id: &SessionId) -> Result<Option<Arc<Session>>, Refusal> {
        self.authority.find(id).await
    }

    async fn reserve(&self, session: &Session, claim: &Claim) -> Result<Fresh, Refusal> {
        self.authority.reserve(session, claim).await
    }

    fn report(&self, refusal: &Refusal, what: &'static str) {
        self.authority.report(refusal, what);
        *self.refusal.lock() = Some(refusal.clone());
    }

    fn admitted(&self, wire: Wire) {
        self.authority.admitted(wire);
    }
}

/// A sealed body that is complete.
struct There(Full<Bytes>);

impl HttpBody for There {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.0).poll_frame(cx)
    }
}

impl Incoming for There {
    fn fault(error: &Infallible) -> BodyFault {
        match *error {}
    }
}

/// Serves a sealed call on `path`; returns the plaintext that the service received.
pub(crate) async fn open(
    authority: &Arc<Authority>,
    path: &str,
    headers: &[(&'static str, String)],
    body: Vec<u8>,
) -> Result<Bytes, Refusal> {
    let watched = Arc::new(RecordingAuthority { authority: authority.clone(), refusal: Mutex::new(None) });
    let allows = |session: &Session| authority.allows(session, path);
    let rules = Rules {
        allows: &allows,
        content_type: &HeaderValue::from_static("application/json"),
        unsealed_headers: &[],
        trusts_origin: false,
        body: BodyBounds { whole: 1024 * 1024, stream: 1024 * 1024 },
        first_time: Duration::from_secs(30),
        answer_time: Duration::from_secs(30),
        kept: None,
        ends_with_session: true,
        serves_sessions: true,
        one_shot: None,
    };
    let mut request = Request::post(path);
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let parts = request.body(()).unwrap().into_parts().0;
    let given = Mutex::new(None);
    let service = async |request: Request<ExchangeBody>| {
        *given.lock() = Some(request.into_body().collect().await.unwrap().to_bytes());
        Ok::<_, Infallible>(Response::new(full("")))
    };
    let body = There(Full::new(body.into()));
    serve(&watched, rules, parts, body, &mut ServerTiming::start(), service).await.unwrap();
    let refusal = watched.refusal.lock().take();
    refusal.map_or_else(|| Ok(given.into_inner().unwrap()), Err)
}

/// Returns a new random nonce.
pub(crate) fn nonce() -> String {
    random().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a new valid public key, in base64.
pub(crate) fn public_key() -> String {
    base64::encode(provider().p256_generate().unwrap().public())
}

/// Builder of a request to the authority.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) peer: IpAddr,
}

impl Call {
    pub(crate) fn new(method: &'static str, path: &str) -> Self {
        let peer = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        Call { method, path: path.into(), headers: Vec::new(), body: Vec::new(), peer }
    }

    pub(crate) fn get(path: &str) -> Self {
        Call::new("GET", path)
    }

    /// Builds a valid init on wire 2, or on wire 1 for `/session/init/anon`.
    pub(crate) fn init(path: &str) -> Self {
        if path == ANON {
            return Call::wire1(path);
        }
        let key = format!("{START_MS}.{}", nonce());
        Call::new("POST", path)
            .with("content-type", "application/json")
            .with("x-idempotency-key", &key)
            .with("x-clientid", "web")
            .json(json!({"clientPublicKey": public_key()}))
    }

    /// Builds a valid init on wire 1.
    pub(crate) fn wire1(path: &str) -> Self {
        Call::new("POST", path)
            .with("x-nonce", &nonce())
            .with("x-timestamp", &START_MS.to_string())
            .json(json!({"clientPublicKey": public_key(), "keyAgreement": "ECDH_P256"}))
    }

    /// Sets a header, in place of those of the same name.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.and(name, value)
    }

    /// Adds a header, keeping those of the same name.
    pub(crate) fn and(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn without(mut self, name: &'static str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn json(self, body: Value) -> Self {
        self.body(body.to_string())
    }

    /// Sets a member of the body, given as JSON text so that its spelling is kept.
    pub(crate) fn member(self, name: &str, value: &str) -> Self {
        let rest = String::from_utf8(self.body.clone()).unwrap();
        let rest = rest.strip_prefix('{').unwrap();
        self.body(format!(r#"{{"{name}":{value},{rest}"#))
    }

    pub(crate) fn at_peer(mut self, peer: &str) -> Self {
        self.peer = peer.parse().unwrap();
        self
    }

    fn request(self) -> Request<Full<Bytes>> {
        let mut request = Request::builder().method(self.method).uri(self.path);
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        let peer = Peer::Ip((self.peer, 50_000).into());
        let origin = Origin { listener: "test".into(), peer, client: peer.ip(), is_tls: false, certificate: None };
        request.extension(origin).body(Full::new(self.body.into())).unwrap()
    }
}

/// An answer of the authority.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: String,
    pub(crate) timing: String,
}

impl Answer {
    async fn of(response: Response<Body>, timing: String) -> Self {
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        let body = String::from_utf8(body).unwrap();
        Answer { status: parts.status.as_u16(), headers: parts.headers, body, timing }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|err| panic!("{err}: {}", self.body))
    }

    /// Asserts a 200 with exactly four members; returns the id and the lifetime.
    #[track_caller]
    pub(crate) fn agreed(&self) -> (String, u64) {
        assert_eq!(self.status, 200, "{}", self.body);
        assert_eq!(self.header("content-type"), Some("application/json"));
        let body = self.json();
        let mut members: Vec<_> = body.as_object().unwrap().keys().map(String::as_str).collect();
        members.sort_unstable();
        assert_eq!(members, ["encAlg", "expiresInSec", "serverPublicKey", "sessionId"]);
        let public: [u8; 65] = base64::decode_array(body["serverPublicKey"].as_str().unwrap()).unwrap();
        assert_eq!(public[0], 4);
        (body["sessionId"].as_str().unwrap().into(), body["expiresInSec"].as_u64().unwrap())
    }

    /// Asserts exactly this status and JSON text.
    #[track_caller]
    pub(crate) fn is(&self, what: &str, status: u16, body: &str) {
        assert_eq!((self.status, self.body.as_str()), (status, body), "{what}");
        assert_eq!(self.header("content-type"), Some("application/json"), "{what}");
    }

    /// Asserts exactly this status and `{error, message}`.
    #[track_caller]
    pub(crate) fn is_v1(&self, what: &str, (status, error, message): (u16, &str, &str)) {
        assert_eq!(self.status, status, "{what}: {}", self.body);
        assert_eq!(self.json(), json!({"error": error, "message": message}), "{what}");
        assert_eq!(self.header("content-type"), Some("application/json"), "{what}");
    }
}

/// An authority with its clock, called in process.
pub(crate) struct Desk {
    pub(crate) authority: Arc<Authority>,
    pub(crate) clock: Arc<ManualClock>,
}

impl Desk {
    pub(crate) fn new(policy: Policy) -> Self {
        Desk::with(Arc::new(Memory::new(MemoryLimits::default())), policy)
    }

    pub(crate) fn with(store: Arc<dyn Store>, policy: Policy) -> Self {
        let clock = Arc::new(ManualClock::new(START_MS));
        Desk { authority: Arc::new(Authority::new(provider(), store, clock.clone(), policy)), clock }
    }

    pub(crate) async fn send(&self, call: Call) -> Answer {
        let mut timing = ServerTiming::start();
        let response = endpoint::handle(&self.authority, call.request(), &mut timing).await;
        Answer::of(response, timing.header(timing.elapsed())).await
    }

    /// Sends a call to the admin listener.
    pub(crate) async fn admin(&self, call: Call, token: &str, metrics: &'static str) -> Answer {
        let render = Arc::new(move || metrics.to_owned());
        let admin = Admin::new(self.authority.clone(), zeroize::Zeroizing::new(token.to_owned()), render);
        Answer::of(admin.handle(call.request()).await, String::new()).await
    }
}
