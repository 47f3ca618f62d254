//! One sealed request without a session (wire 4). `spec/one-shot.md`.
//!
//! [`OneShot`] seals each request to a public key of the service. There is no agreement to wait for, and no forward secrecy towards
//! the service's key: a client that calls again and again has a [`Client`](crate::Client).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use http::header::HeaderMap;
use http::{Method, Request, Response, StatusCode, Uri};
use hyper::body::Body as HttpBody;
use sealway_proto::crypto::agreement::default_agreement_provider;
use sealway_proto::crypto::default_provider;
use sealway_proto::crypto::es256::default_es256;
use sealway_proto::exchange::SEALED_PROBLEMS;
use sealway_proto::limits::KEY_LEN;
use sealway_proto::one_shot::key_document::KEY_DOCUMENT_PATH;
use sealway_proto::one_shot::{self, ClientPsk, KeyConfig, KeyDocument, is_psk_id};
use sealway_proto::session::native::call::PendingAnswer;
use sealway_proto::session::native::key_set::TIME_MS_MAX;
use sealway_proto::session::native::{FrameOpener, Problem, RejectedRequest, RequestLine, sends_again};
use sealway_proto::wire::base64;
use sealway_proto::wire::header::X_IDEMPOTENCY_KEY;
use sealway_proto::wire::nonce::PROBLEM_PREFIX;
use tokio::sync::Mutex;
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::Body;
use crate::call::{AGREEMENT_LEN_MAX, BoxError, Failure, Line, Payload, Remedy, Settings, Transport};
use crate::clock::{SentAt, now_ms};
use crate::error::{Error, ErrorKind, Stage, excerpt};
use crate::message::AnswerHeaders;
use crate::native::{AnswerOpening, PublicKey, Shape, StreamHead, exchange, plain};

/// Most keys or kids that a client pins.
pub const PINS_MAX: usize = 16;

/// Source of trust in the keys of a service.
#[derive(Clone, Debug)]
pub enum OneShotTrust {
    /// These key configurations, of which the first is used whose KEM this build has. Their times are the caller's.
    Configs(Vec<KeyConfig>),
    /// Keys of the service's document with these kids: `hpke:` and 32 hexadecimal digits.
    Kids(Vec<String>),
    /// Keys of a document that this root signed.
    Root(Box<PublicKey>),
}

impl OneShotTrust {
    /// Reads pins: kids, or key configurations in base64, and not both.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] with the text that is neither.
    pub fn pins<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<OneShotTrust, Error> {
        let (mut configs, mut kids) = (Vec::new(), Vec::new());
        for text in texts {
            if is_kid(text) {
                kids.push(text.to_owned());
                continue;
            }
            let decoded = base64::decode(text.as_bytes()).ok();
            let config = decoded.and_then(|bytes| KeyConfig::decode(default_agreement_provider(), &bytes).ok());
            let neither = || {
                let shown = excerpt(text.as_bytes());
                ErrorKind::Usage(format!("\"{shown}\" is neither a kid (hpke:…) nor a key configuration in base64"))
            };
            configs.push(config.ok_or_else(neither)?);
        }
        match (configs.is_empty(), kids.is_empty()) {
            (false, true) => Ok(OneShotTrust::Configs(configs)),
            (true, false) => Ok(OneShotTrust::Kids(kids)),
            (true, true) => Err(ErrorKind::Usage("no key is pinned".into()).into()),
            (false, false) => Err(ErrorKind::Usage("pin kids or key configurations, not both".into()).into()),
        }
    }

    fn check(&self) -> Result<(), Error> {
        let usage = |what: &str| Err(ErrorKind::Usage(what.into()).into());
        match self {
            OneShotTrust::Configs(configs) if !(1..=PINS_MAX).contains(&configs.len()) => {
                usage("pin 1 to 16 key configurations")
            }
            OneShotTrust::Configs(configs)
                if configs.iter().all(|config| one_shot::client::suite_of(config).is_none()) =>
            {
                usage("no pinned key configuration has one suite of wire 4")
            }
            OneShotTrust::Kids(kids) if !(1..=PINS_MAX).contains(&kids.len()) => usage("pin 1 to 16 kids"),
            OneShotTrust::Kids(kids) if !kids.iter().all(|kid| is_kid(kid)) => {
                usage("a kid is hpke: and 32 lower-case hexadecimal digits")
            }
            OneShotTrust::Root(key) if default_es256().public(&key[..]).is_err() => {
                usage("the root is no key of P-256")
            }
            _ => Ok(()),
        }
    }
}

fn is_kid(text: &str) -> bool {
    let lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.strip_prefix("hpke:").is_some_and(|name| name.len() == 32 && name.bytes().all(lower_hex))
}

/// A client of one service without sessions. Clones share the fetched keys and the connections.
///
/// ```no_run
/// # use http::Request;
/// # use sealway_client::{Body, Client, OneShotTrust};
/// # async fn call() -> Result<(), sealway_client::Error> {
/// let trust = OneShotTrust::pins(["hpke:00112233445566778899aabbccddeeff"])?;
/// let client = Client::builder("https://service.example").one_shot(trust)?;
/// let request = Request::post("/pay").body(Body::from("{}")).unwrap();
/// let answer = client.send(request).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct OneShot(Arc<Inner>);

struct Inner {
    service: Transport,
    settings: Arc<Settings>,
    trust: OneShotTrust,
    psk: Option<(String, Zeroizing<[u8; KEY_LEN]>)>,
    /// The document that was accepted last.
    document: Mutex<Option<KeyDocument>>,
    /// Milliseconds by which the service's clock is ahead of this one, as the service proved.
    ahead_ms: AtomicI64,
}

impl OneShot {
    pub(crate) fn new(base: Uri, settings: Settings, trust: OneShotTrust) -> Result<Self, Error> {
        trust.check()?;
        let service = Transport::new(base, &settings)?;
        let (document, ahead_ms) = (Mutex::default(), AtomicI64::new(0));
        Ok(OneShot(Arc::new(Inner { service, settings: Arc::new(settings), trust, psk: None, document, ahead_ms })))
    }

    /// Adds a pre-shared key, by which the service knows the client. `id` is its public name.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] for a name that is not 1 to 64 visible ASCII characters, or a client that was cloned before.
    pub fn psk(self, id: impl Into<String>, key: [u8; KEY_LEN]) -> Result<Self, Error> {
        let (id, key) = (id.into(), Zeroizing::new(key));
        if !is_psk_id(&id) {
            return Err(ErrorKind::Usage("psk: the name is not 1 to 64 visible ASCII characters".into()).into());
        }
        let cloned = |_| ErrorKind::Usage("psk: set it before the client is cloned".into());
        let mut inner = Arc::try_unwrap(self.0).map_err(cloned)?;
        inner.psk = Some((id, key));
        Ok(OneShot(Arc::new(inner)))
    }

    /// Seals a request, sends it, and opens its answer as it arrives, as [`Client::send`](crate::Client::send) does on wire 3.
    ///
    /// A request is sent again once if the service proves that this client's clock is wrong and that no server can have executed
    /// the request, or if its method is safe. If the service has retired the key, a client that pins a root takes the newer document and
    /// sends a request with a safe method again. Every sending has an encapsulated secret of its own.
    ///
    /// # Errors
    /// [`Error`] of the keys or the exchange: [`Error::code`] is `key_retired`, `replayed`, `clock_skew`, `policy` and others of
    /// `spec/one-shot.md`, or `stream_truncated`.
    pub async fn send<B>(&self, request: Request<B>) -> Result<Response<Body>, Error>
    where
        B: HttpBody + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (head, body) = request.into_parts();
        self.0.service.check_origin(&head.uri)?;
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let line = Line { method: &head.method, path, headers: &head.headers };
        let deadline = self.0.settings.total_timeout.map(|total| Instant::now() + total);
        let base = &self.0.service.base;
        let work = async {
            let payload = Payload::new(body, self.0.settings.request_max_bytes).await;
            self.0.send(&line, payload.map_err(|err| err.at(Stage::Call, base))?, deadline).await
        };
        match (deadline, self.0.settings.total_timeout) {
            (Some(at), Some(after)) => tokio::time::timeout_at(at, work).await.unwrap_or_else(|_| {
                let timeout = ErrorKind::Timeout { url: base.to_string(), after, option: "total_timeout" };
                Err(self.0.of_call(line.method, timeout.into()))
            }),
            _ => work.await,
        }
    }

    /// Seals a request without sending it, for demonstrations and tests. The body has at most
    /// [`Builder::request_max_bytes`](crate::Builder::request_max_bytes) bytes.
    ///
    /// # Errors
    /// [`Error`] of the keys, of the body or of the seal.
    pub async fn seal(&self, request: Request<Bytes>) -> Result<Request<Bytes>, Error> {
        let (mut head, body) = request.into_parts();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let line = Line { method: &head.method, path, headers: &head.headers };
        let key = self.0.key().await?;
        let (message, _) = self.0.begin(&key, &line, body.is_empty())?.whole(&body)?;
        head.headers = message.headers;
        Ok(Request::from_parts(head, message.body))
    }

    /// Sends a request unchanged: one that [`OneShot::seal`] sealed, or a captured one. Its answer is not opened. For
    /// demonstrations and tests.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`], and those of the exchange.
    pub async fn send_sealed(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Error> {
        let (head, body) = request.into_parts();
        self.0.service.check_origin(&head.uri)?;
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let len_max = self.0.settings.answer_max_bytes;
        self.0.service.whole(head.method, path, head.headers, body, len_max).await
    }
}

impl Inner {
    async fn send(
        &self,
        line: &Line<'_>,
        mut payload: Payload,
        deadline: Option<Instant>,
    ) -> Result<Response<Body>, Error> {
        let mut done = Vec::new();
        loop {
            let key = self.key().await.map_err(|err| err.at(Stage::Agreement, &self.service.base))?;
            let kept = match &payload {
                Payload::Whole(body) => Some(body.clone()),
                Payload::Flow(_) => None,
            };
            let begin = |is_empty| self.begin(&key, line, is_empty);
            let sent = exchange(&self.service, &self.settings, begin, line, payload, deadline).await;
            let Failure { err, remedy } = match sent {
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            };
            if remedy == Some(Remedy::NewKey) {
                self.retired(&err).await.map_err(|err| self.of_call(line.method, err))?;
            }
            // Each remedy is tried once; a body that was not buffered cannot be sent again.
            let err = self.of_call(line.method, err);
            let (Some(remedy), Some(body), true) = (remedy, kept, err.is_retryable()) else { return Err(err) };
            if done.contains(&remedy) {
                return Err(err);
            }
            done.push(remedy);
            payload = Payload::Whole(body);
        }
    }

    /// Completes an error of a request that was sent.
    fn of_call(&self, method: &Method, err: Error) -> Error {
        let err = err.at(Stage::Call, &self.service.base);
        if is_safe(method) { err } else { err.unsafe_method() }
    }

    /// This client's clock, corrected by what the service proved.
    fn stamp_ms(&self) -> u64 {
        now_ms().saturating_add_signed(self.ahead_ms.load(Ordering::Relaxed)).min(TIME_MS_MAX)
    }

    fn begin<'a>(&'a self, key: &KeyConfig, line: &Line<'_>, is_empty: bool) -> Result<StreamHead<Pending<'a>>, Error> {
        let provider = default_agreement_provider();
        let sent = SentAt::now();
        let psk = self.psk.as_ref().map(|(id, key)| ClientPsk { id, key });
        let psk_len = psk.map_or(0, |psk| psk.id.len());
        let prefix_len = 2 + psk_len + key.public_key().kem().enc_len();
        let shape = Shape::of(line.method, line.headers, is_empty, prefix_len)?;
        let (stamp_ms, nonce) = (self.stamp_ms(), hex(&shape.nonce));
        let request_line = RequestLine { method: line.method.as_str(), target: line.path };
        let stamp = stamp_ms.to_string();
        let call = one_shot::seal(provider, key, psk, request_line, shape.content_type, (&stamp, &nonce), None);
        let call = call.map_err(ErrorKind::Seal)?;
        let pending = Pending { client: self, answer: call.pending, method: line.method.clone(), stamp_ms, sent };
        shape.head(&call.headers, call.prefix, call.sealer, pending)
    }

    /// Returns the key to seal with. Fetches the service's document if no known key is in use.
    async fn key(&self) -> Result<KeyConfig, Error> {
        if let OneShotTrust::Configs(configs) = &self.trust {
            let known = configs.iter().find(|config| one_shot::client::suite_of(config).is_some());
            return Ok(known.cloned().ok_or(ErrorKind::Usage("no pinned key has a suite of wire 4".into()))?);
        }
        // Concurrent callers share one fetch.
        let mut held = self.document.lock().await;
        if let Some(config) = held.as_ref().and_then(|document| self.choose(document)) {
            return Ok(config);
        }
        let headers = HeaderMap::new();
        let fetched = self.service.whole(Method::GET, KEY_DOCUMENT_PATH, headers, Bytes::new(), AGREEMENT_LEN_MAX);
        let answer = fetched.await?;
        if answer.status() != StatusCode::OK {
            let status = answer.status();
            return Err(ErrorKind::Trust(format!("the service has no keys at {KEY_DOCUMENT_PATH} ({status})")).into());
        }
        self.take(&mut held, answer.body())?;
        let chosen = held.as_ref().and_then(|document| self.choose(document));
        let none = "the service's key document has no trusted key that is in use and of a known KEM";
        Ok(chosen.ok_or_else(|| ErrorKind::Trust(none.into()))?)
    }

    /// Takes a document of a root that is not older than the one before, or one that has a pinned key in use.
    // SPEC one-shot.md#the-key-document
    fn take(&self, held: &mut Option<KeyDocument>, bytes: &[u8]) -> Result<(), Error> {
        let provider = default_agreement_provider();
        let refused = |why: &dyn std::fmt::Display| {
            let host = crate::native::host(&self.service.base);
            Error::from(ErrorKind::Trust(format!("the key document of {host} is refused: {why}")))
        };
        let document = KeyDocument::parse(provider, bytes).map_err(|err| refused(&err))?;
        if let OneShotTrust::Root(root) = &self.trust {
            let last_ms = held.as_ref().map_or(0, |held| held.issued_ms);
            let verified = document.verify(provider, default_es256(), root, now_ms(), last_ms);
            verified.map_err(|fault| refused(&fault))?;
        } else if self.choose(&document).is_none() {
            // Nobody signed it: its `issued_ms` proves nothing, and a forged document must not displace the held one.
            return Ok(());
        }
        *held = Some(document);
        Ok(())
    }

    fn choose(&self, document: &KeyDocument) -> Option<KeyConfig> {
        // By the machine's own clock: the holder of a stolen key could move the corrected one back for ever.
        let (provider, now_ms) = (default_agreement_provider(), now_ms());
        let is_expired = matches!(self.trust, OneShotTrust::Root(_)) && now_ms >= document.expires_ms;
        let in_use = document.keys.iter().filter(|key| !is_expired && key.is_in_use(now_ms));
        let known = in_use.filter_map(|key| KeyConfig::decode(provider, &key.config).ok());
        let mut trusted = known.filter(|config| match &self.trust {
            OneShotTrust::Kids(kids) => kids.contains(&config.kid(default_provider())),
            _ => true,
        });
        trusted.find(|config| one_shot::client::suite_of(config).is_some())
    }

    /// Takes the document of a `key_retired`, which its root proves. With pinned kids the next call fetches one: the times of the held
    /// document are not proven.
    async fn retired(&self, err: &Error) -> Result<(), Error> {
        let mut held = self.document.lock().await;
        if !matches!(self.trust, OneShotTrust::Root(_)) {
            *held = None;
            return Ok(());
        }
        let ErrorKind::Problem { more, .. } = err.kind() else { return Ok(()) };
        let Some(document) = more.get("key_document") else { return Ok(()) };
        self.take(&mut held, document.to_string().as_bytes())
    }
}

/// State that opens the answer to one request.
struct Pending<'a> {
    client: &'a Inner,
    answer: PendingAnswer<'static>,
    method: Method,
    stamp_ms: u64,
    /// Taken before the request is sealed, and so not later than it was sent.
    sent: SentAt,
}

impl AnswerOpening for Pending<'_> {
    fn opener(&self, status: StatusCode, headers: &HeaderMap) -> Result<(Option<Vec<u8>>, FrameOpener), Error> {
        let opened = self.answer.open(default_provider(), &AnswerHeaders(headers), status.as_u16());
        Ok(opened.map_err(ErrorKind::Untrusted)?)
    }

    fn refused(&self, status: StatusCode, body: &[u8]) -> Failure {
        match Problem::parse(status.as_u16(), body) {
            // Anybody on the path can have written it.
            Some(problem) if SEALED_PROBLEMS.contains(&problem.code.as_str()) => {
                Error::from(ErrorKind::Refused { status, body: excerpt(body) }).into()
            }
            Some(problem) if problem.code == "key_retired" => {
                let is_rooted = matches!(self.client.trust, OneShotTrust::Root(_));
                let may_repeat = is_rooted && is_safe(&self.method);
                Failure { err: plain(status, body).repeatable(may_repeat), remedy: Some(Remedy::NewKey) }
            }
            _ => plain(status, body).into(),
        }
    }

    fn is_problem(&self, headers: &HeaderMap) -> bool {
        let key = headers.get(X_IDEMPOTENCY_KEY).and_then(|key| key.to_str().ok());
        key.and_then(|key| key.split_once('.')).is_some_and(|(_, nonce)| nonce.starts_with(PROBLEM_PREFIX))
    }

    fn problem(&self, status: StatusCode, body: &[u8]) -> Failure {
        let Some(problem) = Problem::parse(status.as_u16(), body) else { return plain(status, body).into() };
        if !SEALED_PROBLEMS.contains(&problem.code.as_str()) {
            return Error::from(ErrorKind::Refused { status, body: excerpt(body) }).into();
        }
        let time = problem.more.get("server_time_ms").and_then(serde_json::Value::as_u64);
        let time = time.filter(|ms| *ms <= TIME_MS_MAX);
        let (Some(server_ms), "clock_skew") = (time, problem.code.as_str()) else { return plain(status, body).into() };
        let ahead = i64::try_from(i128::from(server_ms) - i128::from(now_ms())).unwrap_or_default();
        self.client.ahead_ms.store(ahead, Ordering::Relaxed);
        let (method, elapsed_ms) = (self.method.as_str(), self.sent.elapsed_ms());
        let refused = RejectedRequest { method, stamp_ms: self.stamp_ms, elapsed_ms };
        let may_repeat = sends_again(&problem, true, &refused);
        Failure { err: plain(status, body).repeatable(may_repeat), remedy: Some(Remedy::Clock) }
    }
}

fn is_safe(method: &Method) -> bool {
    [Method::GET, Method::HEAD].contains(method)
}

fn hex(nonce: &[u8; 16]) -> String {
    nonce.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl std::fmt::Debug for OneShot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OneShot").field("base", &self.0.service.base).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
