//! The line to the authority: HTTP over a pool of connections, with a bound on how many ask, how long it takes, and how
//! long an answer is.
//!
//! It may not know what a question means, only whether it may be asked twice. Its errors name the method, the kind of
//! path and the status, never a byte of a body or of a header.

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
use sealway_runtime::config::ConfigError;
use tokio::sync::{Semaphore, SemaphorePermit};
use zeroize::Zeroizing;

use super::config::RemoteConfig;
use super::message::MESSAGE_LEN_MAX;
use crate::config::strong_secret;
use crate::store::{Pool, tls};

/// Idle connections go before a server or a proxy closes them: a question on one that is just being closed is lost, and
/// may not be asked again if it was a claim.
const IDLE: Duration = Duration::from_secs(10);
/// Questions that wait for each connection.
const WAITING_EACH: usize = 64;

/// A question.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) method: Method,
    /// The path without what varies, for errors.
    pub(super) route: &'static str,
    /// What follows the route.
    pub(super) name: String,
    pub(super) body: Zeroizing<String>,
    /// Whether asking twice is as good as once.
    pub(super) repeatable: bool,
    /// Whether it may pass those that wait for a connection.
    pub(super) urgent: bool,
}

/// An answer of JSON.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Zeroizing<Vec<u8>>,
}

/// The line.
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
    /// Reads the secret and the certificates; connects to nothing yet.
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

    /// Asks within the deadline. A question that is not repeatable is written to at most one connection.
    ///
    /// # Errors
    /// Why there is no answer; whether the authority has acted on the question is then unknown.
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

    /// Questions that may be asked at once, those that could be asked now, those that wait.
    pub(super) fn pool(&self) -> Pool {
        Pool {
            total: self.connections_max,
            idle: self.permits.available_permits(),
            waiting: self.waiting.load(Ordering::Relaxed),
        }
    }
}

/// One that waits for a connection.
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

/// Connects to `url`'s scheme: over TLS, where its certificate descends from `ca` or without it from the system's, and
/// `identity` is shown to it; or plainly.
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
    // Certificates are not looked at on this way; none need be there.
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
