//! One sealed request without a session (wire 4). `spec/one-shot.md`.
//!
//! [`OneShot`] seals each request to a public key of the service. There is no agreement to wait for, and no forward secrecy towards
//! the service's key: a client that calls again and again has a [`Client`](crate::Client).

pub mod ehbp;
mod keys;
pub mod ohttp;

use std::sync::Arc;

use bytes::Bytes;
use http::header::HeaderMap;
use http::{Method, Request, Response, StatusCode, Uri};
use hyper::body::Body as HttpBody;
pub use sealway_proto::hpke::Kem;
use sealway_proto::limits::KEY_LEN;
pub use sealway_proto::one_shot::key_document::KEY_DOCUMENT_PATH;
pub use sealway_proto::one_shot::{KeyConfig, KeyDocument};
use tokio::sync::Mutex;
use tokio::time::Instant;

pub use self::keys::{OneShotKeys, OneShotPending, OneShotTrust, PINS_MAX};
use crate::Body;
use crate::call::{AGREEMENT_LEN_MAX, BoxError, Failure, Line, Payload, Remedy, Settings, Transport};
use crate::error::{Error, ErrorKind, Stage, excerpt};
use crate::native::exchange;

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
    keys: OneShotKeys,
    /// The document that was accepted last.
    document: Mutex<Option<KeyDocument>>,
}

impl OneShot {
    pub(crate) fn new(base: Uri, settings: Settings, trust: OneShotTrust) -> Result<Self, Error> {
        let keys = OneShotKeys::new(trust, &base, Vec::new())?;
        let service = Transport::new(base, &settings)?;
        Ok(OneShot(Arc::new(Inner { service, settings: Arc::new(settings), keys, document: Mutex::default() })))
    }

    /// Adds a pre-shared key, by which the service knows the client. `id` is its public name.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] for a name that is not 1 to 64 visible ASCII characters, or a client that was cloned before.
    pub fn psk(self, id: impl Into<String>, key: [u8; KEY_LEN]) -> Result<Self, Error> {
        let cloned = |_| ErrorKind::Usage("psk: set it before the client is cloned".into());
        let mut inner = Arc::try_unwrap(self.0).map_err(cloned)?;
        inner.keys.set_psk(id, key)?;
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
        let (message, _) = self.0.keys.begin(&key, &line, body.is_empty())?.whole(&body)?;
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
            let begin = |is_empty| self.keys.begin(&key, line, is_empty);
            let sent = exchange(&self.service, &self.settings, begin, line, payload, deadline).await;
            let Failure { err, remedy } = match sent {
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            };
            if remedy == Some(Remedy::NewKey) {
                let retired = self.keys.retired(&mut *self.document.lock().await, &err);
                retired.map_err(|err| self.of_call(line.method, err))?;
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

    /// Returns the key to seal with. Fetches the service's document if no known key is in use.
    async fn key(&self) -> Result<KeyConfig, Error> {
        if let Some(pinned) = self.keys.pinned()? {
            return Ok(pinned);
        }
        // Concurrent callers share one fetch.
        let mut held = self.document.lock().await;
        if let Some(config) = held.as_ref().and_then(|document| self.keys.choose(document)) {
            return Ok(config.0);
        }
        let headers = HeaderMap::new();
        let fetched = self.service.whole(Method::GET, KEY_DOCUMENT_PATH, headers, Bytes::new(), AGREEMENT_LEN_MAX);
        let answer = fetched.await?;
        if answer.status() != StatusCode::OK {
            let status = answer.status();
            return Err(ErrorKind::Trust(format!("the service has no keys at {KEY_DOCUMENT_PATH} ({status})")).into());
        }
        self.keys.take(&mut held, answer.body())?;
        let chosen = held.as_ref().and_then(|document| self.keys.choose(document)).map(|(config, _)| config);
        let none = "the service's key document has no trusted key that is in use and of a known KEM";
        Ok(chosen.ok_or_else(|| ErrorKind::Trust(none.into()))?)
    }
}

/// Returns the error of a rejection with a code.
fn coded(status: StatusCode, code: &str) -> Error {
    ErrorKind::Problem { status, code: code.into(), more: serde_json::Map::new() }.into()
}

/// Returns the error of an answer that is not sealed. A successful one is none: `header` is what it lacks.
fn rejected(status: StatusCode, body: &[u8], header: &'static str) -> Error {
    if status.is_success() {
        return ErrorKind::Untrusted(sealway_proto::Error::HeaderMissing(header)).into();
    }
    ErrorKind::Refused { status, body: excerpt(body) }.into()
}

fn is_safe(method: &Method) -> bool {
    [Method::GET, Method::HEAD].contains(method)
}

impl std::fmt::Debug for OneShot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OneShot").field("base", &self.0.service.base).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
