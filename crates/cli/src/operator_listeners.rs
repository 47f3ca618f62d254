//! The operators' listeners besides the gateway's: admin and metrics. Bound before anything else, and served once the
//! server runs.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use sealway_gateway::admin::Dashboard;
use sealway_gateway::config::Place;
use sealway_gateway::server::Server;
use sealway_runtime::clock::{Clock, SystemClock};
use sealway_runtime::config::readable_by_others;
use sealway_runtime::http::{self, HttpLimits, Listening};
use sealway_runtime::listener::{self, BoundUnix, Socket};
use sealway_runtime::tls;
use sealway_sessions::admin::{Admin, RenderMetrics, Scrape};
use sealway_sessions::config::strong_secret;
use zeroize::Zeroizing;

use crate::config::{AdminConfig, MetricsConfig};

/// Concurrent connections of a listener.
const CONNECTIONS_MAX: usize = 64;

/// Sockets of one listener, and the token that it requires.
struct OperatorListener {
    sockets: Vec<Socket>,
    addresses: Vec<SocketAddr>,
    /// Unix socket, removed at the end.
    unix: Option<BoundUnix>,
    token: Zeroizing<String>,
}

impl OperatorListener {
    /// Reads the token and binds; errors name settings of `section`.
    fn bind(section: &str, place: &Place, token_file: &Path) -> anyhow::Result<Self> {
        let token = strong_secret(token_file).with_context(|| format!("{section}.token_file"))?;
        if let Some(warning) = readable_by_others(token_file) {
            tracing::warn!("{section}.token_file: {warning}");
        }
        let (mut sockets, mut addresses, mut unix) = (Vec::new(), Vec::new(), None);
        let setting = format!("{section}.address");
        match place {
            Place::Tcp(wanted) => {
                for socket in listener::bind(wanted, &setting)? {
                    addresses.push(socket.local_addr()?);
                    sockets.push(Socket::Tcp(socket));
                }
            }
            Place::Unix(path) => {
                let bound = listener::bind_unix(path, &setting, None)?;
                sockets.push(Socket::Unix(bound.to_accept()?));
                unix = Some(bound);
            }
        }
        Ok(OperatorListener { sockets, addresses, unix, token })
    }
}

fn bounded(limits: HttpLimits) -> HttpLimits {
    HttpLimits {
        connections_max: CONNECTIONS_MAX,
        connections_per_address_max: 0,
        scarce_connections_per_address: 0,
        ..limits
    }
}

/// Bound admin listener with its token.
pub(crate) struct AdminListener {
    guarded: OperatorListener,
    certificates: Option<PathBuf>,
    services: Vec<String>,
}

impl AdminListener {
    /// Reads the token, and binds the listener.
    pub(crate) fn bind(config: &AdminConfig) -> anyhow::Result<Self> {
        let guarded = OperatorListener::bind("admin", &config.place, &config.token_file)?;
        let (certificates, services) = (config.certificates_folder.clone(), config.services.clone());
        Ok(AdminListener { guarded, certificates, services })
    }

    /// Bound addresses, such as `127.0.0.1:9901`.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.guarded.addresses
    }

    /// Serves until `server` drains. The caller keeps the returned value until then.
    pub(crate) fn serve(self, server: &Server, metrics: RenderMetrics, limits: HttpLimits) -> Option<BoundUnix> {
        let OperatorListener { sockets, unix, token, .. } = self.guarded;
        let sessions = Admin::new(server.authority().clone(), token.clone(), metrics);
        let dashboard = Dashboard::new(server.clone(), sessions, token, self.certificates, self.services);
        let service = hyper::service::service_fn(move |request| {
            let dashboard = dashboard.clone();
            async move { Ok(dashboard.handle(request).await) }
        });
        let listening = Arc::new(Listening::plain("admin", bounded(limits)));
        let shutdown = server.shutdown();
        for socket in sockets {
            shutdown.spawn(http::serve(socket, listening.clone(), service.clone(), shutdown.clone()));
        }
        unix
    }
}

/// Bound metrics listener with its token and certificate.
pub(crate) struct MetricsListener {
    guarded: OperatorListener,
    tls: Option<Arc<tls::Server>>,
}

impl MetricsListener {
    /// Reads the token and the certificate, and binds the listener.
    pub(crate) fn bind(config: &MetricsConfig) -> anyhow::Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let tls = config.tls.clone().map(|files| tls::Server::load(files, clock)).transpose();
        let tls = tls.map_err(|err| anyhow!("metrics.tls.{err}"))?.map(Arc::new);
        Ok(MetricsListener { guarded: OperatorListener::bind("metrics", &config.place, &config.token_file)?, tls })
    }

    /// Bound addresses of the listener.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.guarded.addresses
    }

    /// Serves until `server` drains. The caller keeps the returned value until then.
    pub(crate) fn serve(self, server: &Server, metrics: RenderMetrics, limits: HttpLimits) -> Option<BoundUnix> {
        let OperatorListener { sockets, unix, token, .. } = self.guarded;
        let scrape = Scrape::new(server.authority().clone(), token, metrics);
        let service = hyper::service::service_fn(move |request| {
            let scrape = scrape.clone();
            async move { Ok(scrape.handle(request).await) }
        });
        let listening = Arc::new(Listening { tls: self.tls.clone(), ..Listening::plain("metrics", bounded(limits)) });
        let shutdown = server.shutdown();
        for socket in sockets {
            shutdown.spawn(http::serve(socket, listening.clone(), service.clone(), shutdown.clone()));
        }
        if let Some(tls) = self.tls {
            server.watch_tls("metrics", tls);
        }
        unix
    }
}
