//! The services behind: over HTTP with a pool of connections, or the built-in demo service.

use std::time::Duration;

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Request, Response, StatusCode, Uri, Version};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use sealway_runtime::http::{Body, BodyRefusal};

use crate::body::{StreamLimits, bounded, refusal_behind};
use crate::demo::DemoService;

/// Deadlines and bounds of an upstream.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamLimits {
    /// Until a connection stands, in milliseconds.
    pub connect_ms: u64,
    /// Until the answer's head is there, in milliseconds.
    pub response_ms: u64,
    /// Between two chunks of a body, in milliseconds; idle connections are kept as long.
    pub idle_ms: u64,
    /// Idle connections kept.
    pub idle_connections_max: usize,
}

impl Default for UpstreamLimits {
    fn default() -> Self {
        UpstreamLimits { connect_ms: 3000, response_ms: 30_000, idle_ms: 60_000, idle_connections_max: 1024 }
    }
}

/// Where an upstream is.
#[derive(Debug)]
pub enum Target {
    /// `http://host:port`
    Http(Authority),
    /// `demo:`
    Demo(DemoService),
}

/// Why an upstream gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// No connection, or it broke before the answer's head.
    #[error("upstream cannot be reached: {0}")]
    Unreachable(String),
    /// No answer in time.
    #[error("upstream is too slow")]
    TooSlow,
    /// The request's own body passed a bound, or broke off.
    #[error("request body: {0}")]
    RequestBody(BodyRefusal),
}

impl UpstreamError {
    /// The status that tells a client.
    pub fn status(&self) -> StatusCode {
        match self {
            UpstreamError::Unreachable(_) => StatusCode::BAD_GATEWAY,
            UpstreamError::TooSlow => StatusCode::GATEWAY_TIMEOUT,
            UpstreamError::RequestBody(BodyRefusal::TooLarge) => StatusCode::PAYLOAD_TOO_LARGE,
            UpstreamError::RequestBody(BodyRefusal::TooSlow) => StatusCode::REQUEST_TIMEOUT,
            UpstreamError::RequestBody(BodyRefusal::Broken) => StatusCode::BAD_REQUEST,
        }
    }
}

/// A service behind the gateway.
#[derive(Debug)]
pub struct Upstream {
    target: Target,
    limits: UpstreamLimits,
    client: Client<HttpConnector, Body>,
}

impl Upstream {
    /// Sets up the pool; connects to nothing yet.
    pub fn new(target: Target, limits: UpstreamLimits) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(Duration::from_millis(limits.connect_ms)));
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_millis(limits.idle_ms))
            .pool_max_idle_per_host(limits.idle_connections_max)
            .build(connector);
        Upstream { target, limits, client }
    }

    /// How long the service may take for the head of its answer.
    pub fn response_time(&self) -> Duration {
        Duration::from_millis(self.limits.response_ms)
    }

    /// Sends a request, whose URI is the client's, and returns the answer with its body still streaming.
    ///
    /// # Errors
    /// [`UpstreamError`].
    pub async fn call(&self, mut request: Request<Body>) -> Result<Response<Body>, UpstreamError> {
        *request.version_mut() = Version::HTTP_11;
        let authority = match &self.target {
            Target::Demo(service) => return Ok(service.handle(request).await),
            Target::Http(authority) => authority,
        };
        let path = request.uri().path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(Scheme::HTTP);
        parts.authority = Some(authority.clone());
        parts.path_and_query = Some(path);
        *request.uri_mut() = Uri::from_parts(parts).map_err(|err| UpstreamError::Unreachable(err.to_string()))?;
        let answer = tokio::time::timeout(self.response_time(), self.client.request(request)).await;
        let limits = StreamLimits { len_max: u64::MAX, idle: Duration::from_millis(self.limits.idle_ms), time: None };
        match answer {
            Err(_) => Err(UpstreamError::TooSlow),
            Ok(Ok(response)) => Ok(response.map(|body| bounded(body, limits))),
            Ok(Err(err)) => Err(match refusal_behind(&err) {
                Some(refusal) => UpstreamError::RequestBody(refusal),
                None if is_timeout(&err) => UpstreamError::TooSlow,
                None => UpstreamError::Unreachable(chain(&err)),
            }),
        }
    }
}

fn is_timeout(err: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(err);
    while let Some(err) = cause {
        if err.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::TimedOut) {
            return true;
        }
        cause = err.source();
    }
    false
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
