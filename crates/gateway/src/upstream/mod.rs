//! Upstreams: servers over HTTP/1.1 or HTTP/2, plain or TLS, with connection pools, balancing and health checks; or the
//! built-in demo service.
//!
//! It may not know routes, listeners, or a byte of a sealed message.

mod address;
mod answer;
mod balance;
mod connect;
mod group;
mod h1;
mod h2;
mod health;
mod io;
mod pool;
mod sending;
mod server;
mod switch;
mod tunnel;
mod unframed;

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use sealway_runtime::http::h1::Fault;
use sealway_runtime::http::share::SharedBudget;
use sealway_runtime::http::{Body, BodyRefusal, Peer};
use sealway_runtime::tls::Client;
use sealway_sessions::answer::{Form, Refusal, rejected};
use tokio::task::AbortHandle;

pub use self::address::ServerAddress;
pub(crate) use self::address::UNIX_PATH_MAX;
pub use self::balance::{Balance, SERVERS_MAX};
use self::group::Group;
pub use self::health::HealthSettings;
use self::server::Server;
pub use self::server::ServerStatus;
pub use self::tunnel::{Tunnel, UpstreamIo};
pub(crate) use self::unframed::break_off_unframed;
use crate::demo::DemoService;

/// Extension of a request whose `Host` goes to the server as it is, in place of the server's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PreservedHost;

/// Deadlines and bounds of an upstream; bounds on connections apply to each server.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamLimits {
    /// Maximum time to open a connection, TLS included, and to wait for one while all are in use; in milliseconds.
    pub connect_ms: u64,
    /// Maximum time to the answer's head, from the last part of the request that was sent; in milliseconds.
    pub response_ms: u64,
    /// Maximum time between two chunks of a body, in milliseconds; idle connections are kept as long.
    pub idle_ms: u64,
    /// Maximum number of concurrent connections.
    pub connections_max: usize,
    /// Maximum number of requests that wait for a connection. Once it is half full, a network of clients has a quarter of it at most.
    pub queue_max: usize,
    /// Maximum number of idle connections.
    pub idle_connections_max: usize,
    /// Maximum number of requests whose bodies still arrive, to all servers together.
    pub uploads_max: u64,
    /// Maximum number of such requests from one network of clients.
    pub uploads_per_address_max: u64,
}

impl UpstreamLimits {
    /// Bounds that apply if none are configured.
    pub const DEFAULT: Self = UpstreamLimits {
        connect_ms: 3000,
        response_ms: 30_000,
        idle_ms: 60_000,
        connections_max: 4096,
        queue_max: 4096,
        idle_connections_max: 1024,
        uploads_max: 2048,
        uploads_per_address_max: 512,
    };
}

impl Default for UpstreamLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Version of HTTP towards the servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// The version that TLS negotiates; HTTP/1.1 without TLS.
    #[default]
    Auto,
    /// HTTP/1.1 in every case.
    Http1,
    /// HTTP/2 in every case; without TLS with prior knowledge.
    Http2,
}

/// Settings of an upstream.
#[derive(Clone, Debug, Default)]
pub struct UpstreamSettings {
    /// Name in the configuration, for metrics.
    pub name: String,
    /// Distribution of requests over the servers.
    pub balance: Balance,
    /// Version of HTTP towards the servers.
    pub protocol: Protocol,
    /// TLS settings for servers that are reached over TLS.
    pub tls: Option<Arc<Client>>,
    /// Health checks; `None` disables them.
    pub health: Option<HealthSettings>,
    /// Deadlines and bounds of the upstream.
    pub limits: UpstreamLimits,
}

/// Servers of an upstream.
#[derive(Debug)]
pub enum Target {
    /// One or more servers, at most [`SERVERS_MAX`].
    Servers(Vec<ServerAddress>),
    /// The built-in demo service, `demo:`
    Demo(DemoService),
}

/// Reason that an upstream gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// There is no connection, or it broke before the answer's head.
    #[error("upstream cannot be reached: {0}")]
    Unreachable(String),
    /// The received bytes are no answer that can be read unambiguously.
    #[error("upstream's answer is faulty: {0}")]
    Faulty(Fault),
    /// No connection was made in time.
    #[error("upstream takes too long to connect to")]
    ConnectTimeout,
    /// No answer came in time.
    #[error("upstream is too slow")]
    TooSlow,
    /// All permitted connections are in use.
    #[error("upstream has no connection to spare")]
    Overloaded,
    /// The maximum number of uploads is in progress: of this client, of this route, or of all.
    #[error("too many request bodies are on their way to the upstream (uploads_max, uploads_per_address_max)")]
    Crowded,
    /// The request's own body exceeded a bound, or broke off.
    #[error("request body: {0}")]
    RequestBody(BodyRefusal),
}

impl UpstreamError {
    /// Returns the status for the client.
    pub fn status(&self) -> StatusCode {
        match self {
            UpstreamError::Unreachable(_) | UpstreamError::Faulty(_) => StatusCode::BAD_GATEWAY,
            UpstreamError::ConnectTimeout | UpstreamError::TooSlow => StatusCode::GATEWAY_TIMEOUT,
            UpstreamError::Overloaded | UpstreamError::Crowded | UpstreamError::RequestBody(BodyRefusal::NoRoom) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            UpstreamError::RequestBody(BodyRefusal::TooLarge) => StatusCode::PAYLOAD_TOO_LARGE,
            UpstreamError::RequestBody(BodyRefusal::TooSlow) => StatusCode::REQUEST_TIMEOUT,
            UpstreamError::RequestBody(BodyRefusal::Broken) => StatusCode::BAD_REQUEST,
        }
    }
}

/// Note that a request got no answer from its upstream, as an extension of the client's response: it is logged where
/// the route and the client are known.
#[derive(Clone, Debug)]
pub(crate) struct NoAnswer {
    why: String,
    status: StatusCode,
    /// True if the client caused it: its body failed, or it went away.
    is_clients: bool,
}

impl UpstreamError {
    /// Counts the failure; returns an unsealed response for the client, with a note of it.
    pub(crate) fn answer(&self, form: Form) -> Response<Body> {
        self.noted(rejected(self.refusal(), form))
    }

    /// The refusal by which the client learns of the failure.
    pub(crate) fn refusal(&self) -> Refusal {
        Refusal::Unanswered(self.status().as_u16())
    }

    /// Counts the failure; returns the client's response with a note of it.
    pub(crate) fn noted(&self, mut response: Response<Body>) -> Response<Body> {
        let status = self.status();
        metrics::counter!("sealway_upstream_failures_total", "status" => status.as_str().to_owned()).increment(1);
        let is_clients = matches!(self, UpstreamError::RequestBody(_));
        response.extensions_mut().insert(NoAnswer { why: self.to_string(), status, is_clients });
        response
    }
}

impl NoAnswer {
    /// Logs the failure; at level debug if the client caused it.
    pub(crate) fn log(&self, route: &str, upstream: &str, peer: Option<Peer>) {
        let (status, why) = (self.status.as_u16(), &self.why);
        let peer = peer.map(|peer| peer.to_string()).unwrap_or_default();
        if self.is_clients {
            tracing::debug!(route, upstream, peer, status, why, "a client ended its request early");
        } else {
            tracing::warn!(route, upstream, peer, status, why, "upstream did not answer");
        }
    }
}

/// A service behind the gateway.
#[derive(Debug)]
pub struct Upstream {
    kind: Kind,
    name: String,
    /// The settings of the configuration by which it was made, as text; empty without a configuration.
    made_by: String,
    limits: UpstreamLimits,
    tls: Option<Arc<Client>>,
    /// Requests whose bodies still arrive.
    uploads: Arc<SharedBudget>,
    /// Tasks that end with the upstream.
    tasks: Vec<AbortHandle>,
}

#[derive(Debug)]
enum Kind {
    Demo(DemoService),
    Servers(Arc<Group>),
}

impl Upstream {
    /// Creates pools, and within a runtime the tasks that check and maintain servers; does not connect.
    pub fn new(target: Target, settings: UpstreamSettings) -> Self {
        let UpstreamSettings { name, balance, protocol, tls, health, limits } = settings;
        let mut tasks = Vec::new();
        let kind = match target {
            Target::Demo(service) => Kind::Demo(service),
            Target::Servers(addresses) => {
                let server = |address| Arc::new(Server::new(&name, address, protocol, tls.clone(), limits));
                let servers = addresses.into_iter().take(SERVERS_MAX).map(server).collect();
                let group = Arc::new(Group::new(servers, balance, limits));
                if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                    tasks.push(runtime.spawn(health::tidy(group.clone())).abort_handle());
                    let check = health.map(|health| runtime.spawn(health::check(group.clone(), health)));
                    tasks.extend(check.map(|task| task.abort_handle()));
                }
                Kind::Servers(group)
            }
        };
        Upstream {
            kind,
            name,
            made_by: String::new(),
            limits,
            tls,
            uploads: SharedBudget::new(limits.uploads_max),
            tasks,
        }
    }

    /// Returns the name in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Notes the settings by which it was made, as text.
    pub(crate) fn made_by(mut self, settings: String) -> Self {
        self.made_by = settings;
        self
    }

    /// Returns whether it has this name in the configuration, and was made by these settings.
    pub(crate) fn is_made_by(&self, name: &str, settings: &str) -> bool {
        self.name == name && self.made_by == settings
    }

    /// Returns the maximum time to the head of the service's answer.
    pub fn response_time(&self) -> Duration {
        Duration::from_millis(self.limits.response_ms)
    }

    /// Returns the maximum idle time of a tunnel.
    pub fn idle_time(&self) -> Duration {
        Duration::from_millis(self.limits.idle_ms)
    }

    /// Returns the shares of requests whose bodies still arrive while they hold a connection.
    pub(crate) fn uploads(&self) -> &Arc<SharedBudget> {
        &self.uploads
    }

    /// Returns the maximum number of uploads from one network of clients.
    pub(crate) fn uploads_per_address_max(&self) -> u64 {
        self.limits.uploads_per_address_max
    }

    /// Returns the default maximum of uploads of one route, which leaves some to others.
    pub(crate) fn uploads_per_route_max(&self) -> u64 {
        self.limits.uploads_max.div_ceil(4).saturating_mul(3).min(self.limits.uploads_max)
    }

    /// Returns the current status of each server; empty for the demo service.
    pub fn status(&self) -> Vec<ServerStatus> {
        match &self.kind {
            Kind::Demo(_) => Vec::new(),
            Kind::Servers(group) => group.servers.iter().map(|server| server.status()).collect(),
        }
    }

    /// Gets a path from each server, and returns the texts with the servers' addresses; an answer that is no success is an error.
    pub(crate) async fn get_from_each(&self, path: &'static str) -> Vec<(String, Result<String, String>)> {
        let Kind::Servers(group) = &self.kind else { return Vec::new() };
        let answers = group
            .servers
            .iter()
            .map(async |server| (server.address.as_str().to_owned(), health::get(group, server, path).await));
        futures_util::future::join_all(answers).await
    }

    /// Returns the TLS material for its servers: client certificate and trusted authorities. The owner of the upstream
    /// checks its files for changes.
    pub fn tls(&self) -> Option<&Arc<Client>> {
        self.tls.as_ref()
    }

    /// Sends a request, whose URI is the client's, and returns the answer with its body still streaming. The server's
    /// `Host` is set over the request's, unless it has `PreservedHost`. Interim answers go to the request's `Interim`; a 101, to a
    /// request with an `Upgrade`, has an [`UpstreamIo`]. A request with an `ExtendedConnect` has an `Upgrade` too, and no
    /// key: one is made if the server speaks HTTP/1.1.
    ///
    /// The request is sent a second time only if nothing of it was sent, or, once, if its method is idempotent, its
    /// body has not begun, and the server had closed the connection.
    ///
    /// # Errors
    /// [`UpstreamError`].
    pub async fn call(&self, request: Request<Body>) -> Result<Response<Body>, UpstreamError> {
        match &self.kind {
            Kind::Demo(service) => Ok(service.handle(request).await),
            Kind::Servers(group) => group.call(request).await,
        }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        if let Kind::Servers(group) = &self.kind {
            group.servers.iter().for_each(|server| server.retire_gauge());
        }
    }
}
