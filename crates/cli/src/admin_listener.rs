//! The admin listener of `serve`: bound before anything else, served once there is something to look at.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use sealway_gateway::admin::Dashboard;
use sealway_gateway::config::Place;
use sealway_gateway::server::Server;
use sealway_runtime::http::{self, HttpLimits};
use sealway_runtime::listener::{self, BoundUnix, Socket};
use sealway_sessions::admin::{Admin, RenderMetrics};
use sealway_sessions::config::strong_secret;
use zeroize::Zeroizing;

use crate::config::AdminConfig;

const SETTING: &str = "admin.address";
/// Connections at once.
const CONNECTIONS_MAX: usize = 64;

/// Bound, with its token read.
pub(crate) struct AdminListener {
    sockets: Vec<Socket>,
    /// Where: `127.0.0.1:9901`.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Removes its path in the end.
    unix: Option<BoundUnix>,
    token: Zeroizing<String>,
    certificates: Option<PathBuf>,
}

impl AdminListener {
    /// Reads the token and binds.
    pub(crate) fn bind(config: &AdminConfig) -> anyhow::Result<Self> {
        let token = strong_secret(&config.token_file).context("admin.token_file")?;
        let (mut sockets, mut addresses, mut unix) = (Vec::new(), Vec::new(), None);
        match &config.place {
            Place::Tcp(wanted) => {
                for socket in listener::bind(wanted, SETTING)? {
                    addresses.push(socket.local_addr()?);
                    sockets.push(Socket::Tcp(socket));
                }
            }
            Place::Unix(path) => {
                let bound = listener::bind_unix(path, SETTING, None)?;
                sockets.push(Socket::Unix(bound.to_accept()?));
                unix = Some(bound);
            }
        }
        Ok(AdminListener { sockets, addresses, unix, token, certificates: config.certificates_folder.clone() })
    }

    /// Serves until `server` drains. What it returns is to be kept until then.
    pub(crate) fn serve(self, server: &Server, metrics: RenderMetrics, limits: HttpLimits) -> Option<BoundUnix> {
        let sessions = Admin::new(server.authority().clone(), self.token.clone(), metrics);
        let dashboard = Dashboard::new(server.clone(), sessions, self.token, self.certificates);
        let service = hyper::service::service_fn(move |request| {
            let dashboard = dashboard.clone();
            async move { Ok(dashboard.handle(request).await) }
        });
        let limits = HttpLimits { connections_max: CONNECTIONS_MAX, connections_per_address_max: 0, ..limits };
        let listening = Arc::new(http::Listening::plain("admin", limits));
        let shutdown = server.shutdown();
        for socket in self.sockets {
            shutdown.spawn(http::serve(socket, listening.clone(), service.clone(), shutdown.clone()));
        }
        self.unix
    }
}
