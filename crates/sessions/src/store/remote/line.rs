//! HTTP client of the authority: a pool of connections, with bounds on concurrent requests, on time and on the length
//! of an answer.
//!
//! It may not know the meaning of a request, only if it may be repeated. Errors name the method, the kind of path and
//! the status, never bytes of a body or a header.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use sealway_proto::error::chain;
use sealway_runtime::config::ConfigError;
use tokio::sync::{Semaphore, SemaphorePermit};
use zeroize::Zeroizing;

use super::config::RemoteConfig;
use super::message::MESSAGE_LEN_MAX;
use crate::config::strong_secret;
use crate::store::{Pool, tls};

/// Idle time after which a connection is closed, before a server or a proxy closes it: a request on a closing
/// connection is lost, and a claim may not be repeated.
const IDLE: Duration = Duration::from_secs(10);
/// Maximum number of requests that wait, for each connection.
const WAITING_EACH: usize = 64;

/// A request to the authority.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) method: Method,
    /// The path without its variable part, for errors.
    pub(super) route: &'static str,
    /// Variable part of the path, after the route.
    pub(super) name: String,
    pub(super) body: Zeroizing<String>,
    /// True if the request may be repeated.
    pub(super) repeatable: bool,
    /// True if the request may pass those that wait for a connection.
    pub(super) urgent: bool,
}

/// An answer with a JSON body.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Zeroizing<Vec<u8>>,
}

/// HTTP client of one authority, with a bound on requests under way and waiting.
pub(super) struct Line {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: Uri,
    authorization: Option<HeaderValue>,
    deadline: Duration,
    connections_max: usize,
    permits: Semaphore,
    waiting: AtomicUsize,
}

impl Line {
    /// Reads the secret and the certificates; does not connect.
    pub(super) fn new(config: &RemoteConfig) -> Result<Self, ConfigError> {
        let authorization = match &config.secret_file {
            None => None,
            Some(file) => {
                let secret =
                    strong_secret(file).map_err(|err| ConfigError(format!("sessions.remote.secret_file: {err}")))?;
                let value = Zeroizing::new(format!("Bearer {}", *secret));
                let mut value = HeaderValue::from_str(&value)
                    .map_err(|_| ConfigError(format!("{}: not fit for a header", file.display())))?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let identity = config.identity.as_ref().map(|(chain, key)| (chain.as_path(), key.as_path()));
        let connector = connector(&config.url, config.deadline, config.ca_file.as_deref(), identity)?;
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(config.connections_max)
            .build(connector);
        Ok(Line {
            client,
            url: config.url.clone(),
            authorization,
            deadline: config.deadline,
            connections_max: config.connections_max,
            permits: Semaphore::new(config.connections_max),
            waiting: AtomicUsize::new(0),
        })
    }

    /// Sends a request within the deadline. A request that is not repeatable is written to at most one connection.
    ///
    /// # Errors
    /// Text that says why there is no answer; it is then unknown if the authority acted on the request.
    pub(super) async fn ask(&self, question: &Question) -> Result<Answer, String> {
        let asked = tokio::time::timeout(self.deadline, self.ask_for_long(question)).await;
        let answer = asked.unwrap_or_else(|_| Err("the authority did not answer in time".into()));
        answer.map_err(|what| format!("{} {}: {what}", question.method, question.route))
    }

    async fn ask_for_long(&self, question: &Question) -> Result<Answer, String> {
        let _permit = if question.urgent { None } else { Some(self.permit().await?) };
        match self.ask_once(question).await {
            Err(_) if question.repeatable => self.ask_once(question).await,
            answer => answer,
        }
    }

    async fn permit(&self) -> Result<SemaphorePermit<'_>, String> {
        if let Ok(permit) = self.permits.try_acquire() {
            return Ok(permit);
        }
        let _waiting = Waiting::new(&self.waiting, self.connections_max.saturating_mul(WAITING_EACH))?;
        self.permits.acquire().await.map_err(|_| "closed".into())
    }

    async fn ask_once(&self, question: &Question) -> Result<Answer, String> {
        let base = self.url.path().trim_end_matches('/');
        let uri = Uri::builder()
            .scheme(self.url.scheme_str().unwrap_or("https"))
            .authority(self.url.authority().map_or("", |authority| authority.as_str()))
            .path_and_query(format!("{base}{}{}", question.route, question.name))
            .build()
            .map_err(|err| err.to_string())?;
        let body = Zeroizing::new(question.body.as_bytes().to_vec());
        let mut request = Request::new(Full::new(Bytes::from_owner(body)));
        *request.method_mut() = question.method.clone();
        *request.uri_mut() = uri;
        if !question.body.is_empty() {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        let response = self.client.request(request).await.map_err(|err| chain(&err))?;
        let (parts, body) = response.into_parts();
        let is_json = parts.headers.get(CONTENT_TYPE).is_some_and(|value| value == "application/json");
        if !is_json {
            return Err(format!("answered {} without JSON; is it an authority?", parts.status.as_u16()));
        }
        let body = Limited::new(body, MESSAGE_LEN_MAX).collect().await;
        let body = body.map_err(|_| format!("the answer {} is too long or broke off", parts.status.as_u16()))?;
        Ok(Answer { status: parts.status, body: Zeroizing::new(body.to_bytes().to_vec()) })
    }

    /// Returns the maximum number of concurrent requests, the number of free places, and the number of waiting
    /// requests.
    pub(super) fn pool(&self) -> Pool {
        Pool {
            total: self.connections_max,
            idle: self.permits.available_permits(),
            waiting: self.waiting.load(Ordering::Relaxed),
        }
    }
}

/// Guard that counts a request waiting for a connection.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(waiting: &'a AtomicUsize, waiting_max: usize) -> Result<Self, String> {
        let guard = Waiting(waiting);
        if waiting.fetch_add(1, Ordering::Relaxed) < waiting_max { Ok(guard) } else { Err("too many wait".into()) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Creates a connector for `url`'s scheme: TLS, with the trusted certificates of `ca` or else the system's and the
/// client certificate `identity`; or plain.
///
/// # Errors
/// [`ConfigError`], naming the file at fault.
pub(crate) fn connector(
    url: &Uri,
    deadline: Duration,
    ca: Option<&Path>,
    identity: Option<(&Path, &Path)>,
) -> Result<HttpsConnector<HttpConnector>, ConfigError> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(deadline));
    if url.scheme_str() == Some("http") { plain(connector) } else { verified(connector, ca, identity) }
}

fn plain(connector: HttpConnector) -> Result<HttpsConnector<HttpConnector>, ConfigError> {
    // A plain connection verifies no certificates, so none are loaded.
    let none = rustls::RootCertStore::empty();
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|err| ConfigError(err.to_string()))?
        .with_root_certificates(none)
        .with_no_client_auth();
    Ok(HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1().wrap_connector(connector))
}

fn verified(
    connector: HttpConnector,
    ca: Option<&Path>,
    identity: Option<(&Path, &Path)>,
) -> Result<HttpsConnector<HttpConnector>, ConfigError> {
    let config = tls::client_config(ca, identity)?;
    let config = Arc::unwrap_or_clone(config);
    Ok(HttpsConnectorBuilder::new().with_tls_config(config).https_only().enable_http1().wrap_connector(connector))
}
