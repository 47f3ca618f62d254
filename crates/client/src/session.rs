//! Sealed sessions over HTTP, wires 1 and 2. `spec/session.md`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use sealway_proto::wire::{SessionId, Wire};
use tokio::sync::RwLock;

use crate::exchange::{Agreement, Laps, Outgoing, Session};
use crate::trust;

/// Largest answer that is read.
const ANSWER_LEN_MAX: usize = 64 * 1024 * 1024;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL or an option cannot be used.
    #[error("{0}")]
    Usage(String),
    /// No answer: no connection, TLS, or it broke off.
    #[error("no answer from {url}: {reason}")]
    Transport {
        /// What was called.
        url: String,
        /// Why, in one line.
        reason: String,
    },
    /// No answer in time.
    #[error("no answer from {url} within {} ms", .after.as_millis())]
    Timeout {
        /// What was called.
        url: String,
        /// The bound.
        after: Duration,
    },
    /// The service refused to agree a session.
    #[error("session refused: {status} {body}")]
    InitRefused {
        /// The answer's status.
        status: StatusCode,
        /// The answer's body, cut at 300 characters.
        body: String,
    },
    /// The service refused the call, in plain.
    #[error("call refused: {status} {body}")]
    Refused {
        /// The answer's status.
        status: StatusCode,
        /// The answer's body, cut at 300 characters.
        body: String,
    },
    /// The answer does not open, or is not an answer to this request.
    #[error("the answer cannot be trusted: {0}")]
    Untrusted(sealway_proto::Error),
    /// The crypto module, or a value that the wire cannot carry.
    #[error(transparent)]
    Seal(sealway_proto::Error),
}

/// How to agree a session.
#[derive(Clone)]
pub struct Options {
    /// The wire.
    pub wire: Wire,
    /// The path of the init endpoint: `/session/init`, `/v1/session/init` or `/session/init/anon`.
    pub init_path: String,
    /// Who this client says it is. Wire 1 does not send it.
    pub client_id: String,
    /// How long a session should live; the service decides.
    pub ttl_sec: Option<u32>,
    /// A bearer token for the init.
    pub token: Option<String>,
    /// How long one exchange may take.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            wire: Wire::Two,
            init_path: "/session/init".into(),
            client_id: "sealway-client".into(),
            ttl_sec: None,
            token: None,
            timeout: Duration::from_secs(30),
        }
    }
}

/// Where the time of one exchange went.
#[derive(Clone, Debug, Default)]
pub struct Timings {
    /// From the call to the opened answer.
    pub round_trip: Duration,
    /// From sending to the last byte of the answer.
    pub http: Duration,
    /// The client's own crypto, by step.
    pub crypto: Vec<(&'static str, Duration)>,
    /// What the service says: names of `Server-Timing` and milliseconds.
    pub server: Vec<(String, f64)>,
}

/// What went over the wire, for those who want to look. It holds no key and no plaintext.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Headers of the request.
    pub request_headers: Vec<(String, String)>,
    /// The request's additional authenticated data.
    pub request_aad: String,
    /// Length of the sealed request body.
    pub request_len: usize,
    /// Headers of the answer.
    pub answer_headers: Vec<(String, String)>,
    /// Length of the sealed answer body.
    pub answer_len: usize,
}

/// An opened answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers as received. On wires 1 and 2 anybody in between can change them.
    pub headers: HeaderMap,
    /// What the service said.
    pub body: Bytes,
    /// Where the time went.
    pub timings: Timings,
    /// What went over the wire.
    pub seen: Seen,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("wire", &self.wire)
            .field("init_path", &self.init_path)
            .field("client_id", &self.client_id)
            .field("ttl_sec", &self.ttl_sec)
            .field("token", &self.token.as_ref().map(|_| "redacted"))
            .field("timeout", &self.timeout)
            .finish()
    }
}

struct Agreed {
    session: Session,
    timings: Timings,
    expires_in_sec: u64,
}

/// A client of one service. Clones share the session and its connections.
#[derive(Clone)]
pub struct Client {
    http: HttpClient<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: Uri,
    options: Options,
    agreed: Arc<RwLock<Option<Arc<Agreed>>>>,
}

impl Client {
    /// A client of the service at `base` (`http://` or `https://`; its path is not used).
    ///
    /// # Errors
    /// [`Error::Usage`].
    pub fn new(base: Uri, options: Options) -> Result<Self, Error> {
        let scheme = base.scheme_str();
        if base.authority().is_none() || !matches!(scheme, Some("http" | "https")) {
            return Err(Error::Usage(format!("\"{base}\" is no http:// or https:// URL")));
        }
        let tls = if scheme == Some("https") { trust::system() } else { trust::nobody() };
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls.map_err(Error::Usage)?);
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        let connector = builder.https_or_http().enable_http1().wrap_connector(connector);
        Ok(Client {
            http: HttpClient::builder(TokioExecutor::new()).build(connector),
            base,
            options,
            agreed: Arc::default(),
        })
    }

    /// Agrees a session now, or returns the one there is: its id, its life in seconds, and what it cost.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn connect(&self) -> Result<(SessionId, u64, Timings), Error> {
        let agreed = self.session(None).await?;
        Ok((*agreed.session.id(), agreed.expires_in_sec, agreed.timings.clone()))
    }

    /// Forgets the session: the next call, or [`Client::connect`], agrees a new one.
    pub async fn forget(&self) {
        *self.agreed.write().await = None;
    }

    /// Seals a `POST` to `path_and_query`, and opens its answer. A session that the service no longer knows is agreed
    /// anew, once.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn post(&self, path_and_query: &str, body: &[u8]) -> Result<Answer, Error> {
        let agreed = self.session(None).await?;
        match self.exchange(&agreed.session, path_and_query, body).await {
            Err(Error::Refused { status: StatusCode::UNAUTHORIZED, .. }) => {
                let anew = self.session(Some(agreed.session.id())).await?;
                self.exchange(&anew.session, path_and_query, body).await
            }
            result => result,
        }
    }

    /// Sends bytes that were sealed before, as somebody would who captured them. For demonstrations and tests.
    ///
    /// # Errors
    /// [`Error::Transport`], [`Error::Timeout`].
    pub async fn send_captured(&self, path_and_query: &str, captured: &Outgoing) -> Result<(StatusCode, Bytes), Error> {
        let mut request = self.request(path_and_query, captured.body.clone())?;
        *request.headers_mut() = captured.headers.clone();
        let (status, _, body) = self.send(request).await?;
        Ok((status, body))
    }

    /// Seals a `POST` without sending it.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn seal_only(&self, path: &str, body: &[u8]) -> Result<Outgoing, Error> {
        let agreed = self.session(None).await?;
        agreed.session.seal(path, body).map(|(message, _)| message)
    }

    /// The session in use; agreed anew when there is none, it is about to end, or it is `not` wanted any more.
    async fn session(&self, not: Option<&SessionId>) -> Result<Arc<Agreed>, Error> {
        let usable = |agreed: &Arc<Agreed>| not != Some(agreed.session.id()) && agreed.session.is_usable();
        if let Some(agreed) = self.agreed.read().await.as_ref().filter(|agreed| usable(agreed)) {
            return Ok(agreed.clone());
        }
        // Whoever waits here waits for another's exchange, and no longer than for one of its own.
        let after = self.options.timeout;
        let mut slot = tokio::time::timeout(after, self.agreed.write())
            .await
            .map_err(|_| Error::Timeout { url: self.base.to_string(), after })?;
        // Another task may have been faster.
        if let Some(agreed) = slot.as_ref().filter(|agreed| usable(agreed)) {
            return Ok(agreed.clone());
        }
        let agreed = Arc::new(self.init().await?);
        *slot = Some(agreed.clone());
        Ok(agreed)
    }

    async fn init(&self) -> Result<Agreed, Error> {
        let start = Instant::now();
        let mut laps = Laps::start();
        let (agreement, message) = Agreement::begin_timed(&self.options, &mut laps)?;
        let mut request = self.request(&self.options.init_path, message.body)?;
        *request.headers_mut() = message.headers;
        let sent = Instant::now();
        let (status, headers, body) = self.send(request).await?;
        let http = sent.elapsed();
        let session = agreement.finish_timed(status, &body, &mut laps)?;
        let timings =
            Timings { round_trip: start.elapsed(), http, crypto: laps.steps, server: server_timing(&headers) };
        let expires_in_sec = session.expires_in_sec();
        Ok(Agreed { session, timings, expires_in_sec })
    }

    async fn exchange(&self, session: &Session, path_and_query: &str, body: &[u8]) -> Result<Answer, Error> {
        let start = Instant::now();
        let mut laps = Laps::start();
        let (message, pending) = session.seal_timed(path_and_query, body, &mut laps)?;
        let mut seen = Seen {
            request_headers: texts(message.headers.iter().filter(|(name, _)| *name != CONTENT_TYPE)),
            request_aad: String::from_utf8_lossy(&message.aad).into_owned(),
            request_len: message.body.len(),
            ..Seen::default()
        };
        let mut request = self.request(path_and_query, message.body)?;
        *request.headers_mut() = message.headers;
        let sent = Instant::now();
        let (status, headers, body) = self.send(request).await?;
        let http = sent.elapsed();
        seen.answer_len = body.len();
        seen.answer_headers = texts(headers.iter());
        let body = pending.open_timed(status, &headers, body, &mut laps)?;
        let timings =
            Timings { round_trip: start.elapsed(), http, crypto: laps.steps, server: server_timing(&headers) };
        Ok(Answer { status, headers, body, timings, seen })
    }

    fn request(&self, path_and_query: &str, body: impl Into<Bytes>) -> Result<Request<Full<Bytes>>, Error> {
        let mut parts = self.base.clone().into_parts();
        let path = path_and_query.parse().map_err(|_| Error::Usage(format!("\"{path_and_query}\" is no path")))?;
        parts.path_and_query = Some(path);
        let uri = Uri::from_parts(parts).map_err(|err| Error::Usage(err.to_string()))?;
        let mut request = Request::new(Full::new(body.into()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        Ok(request)
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<(StatusCode, HeaderMap, Bytes), Error> {
        let url = request.uri().to_string();
        let exchange = async {
            let response = self.http.request(request).await.map_err(|err| chain(&err))?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_LEN_MAX).collect().await.map_err(|err| chain(err.as_ref()))?;
            Ok((head.status, head.headers, body.to_bytes()))
        };
        match tokio::time::timeout(self.options.timeout, exchange).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(reason)) => Err(Error::Transport { url, reason }),
            Err(_) => Err(Error::Timeout { url, after: self.options.timeout }),
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("base", &self.base).finish_non_exhaustive()
    }
}

fn texts<'a>(headers: impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)>) -> Vec<(String, String)> {
    headers.map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())).collect()
}

/// `name;dur=1.234, …` of every `Server-Timing` header.
fn server_timing(headers: &HeaderMap) -> Vec<(String, f64)> {
    let values = headers.get_all("server-timing").iter().filter_map(|value| value.to_str().ok());
    let parse = |entry: &str| {
        let mut parts = entry.split(';').map(str::trim);
        let name = parts.next()?.to_owned();
        let ms = parts.find_map(|part| part.strip_prefix("dur="))?.parse().ok()?;
        Some((name, ms))
    };
    values.flat_map(|value| value.split(',')).filter_map(parse).collect()
}

/// The whole story of an error, in one line.
fn chain(err: &dyn std::error::Error) -> String {
    let mut text = err.to_string();
    let mut cause = err.source();
    while let Some(err) = cause {
        text.push_str(": ");
        text.push_str(&err.to_string());
        cause = err.source();
    }
    text
}
