//! A running relay: its listeners, its reloads, its end.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::service::service_fn;
use sealway_proto::relay::CloseCause;
use sealway_runtime::clock::Clock;
use sealway_runtime::http::{Connections, HttpLimits, Listening, Raw, serve};
use sealway_runtime::listener::{self, Socket};
use sealway_runtime::shutdown::Shutdown;
use sealway_runtime::tls;
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::endpoint;
use crate::keyset::{Keys, Tenancy};
use crate::nodes::bridge::Acceptor;
use crate::nodes::{self, Identity, Nodes};
use crate::relay::Relay;
use crate::settings::Settings;
use crate::tick;
use crate::upgrade::Door;

/// Most connections that still use HTTP, beside those that are WebSockets.
const HTTP_CONNECTIONS_MAX: usize = 1024;
/// Interval between two checks of the certificate files.
const CERTIFICATES_INTERVAL: Duration = Duration::from_secs(1);

/// The relay could not be started: a sentence that names the setting or the file.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StartError(String);

impl StartError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        StartError(text.into())
    }
}

/// A running relay, until it is stopped.
pub struct Server {
    relay: Arc<Relay>,
    acceptor: Arc<Acceptor>,
    tls: Option<Arc<tls::Server>>,
    addresses: Vec<SocketAddr>,
    shutdown: Shutdown,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

/// Describes the defect of a TLS file, by its flag.
pub(crate) fn tls_error(err: &tls::TlsError) -> String {
    format!("--tls-{}: {}: {}", err.field.replace('_', "-"), err.file.display(), err.message)
}

impl Server {
    /// Reads the files, binds, and serves. `render` returns the metrics in Prometheus' text format.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(
        settings: Settings,
        clock: Arc<dyn Clock>,
        render: impl Fn() -> String + Send + Sync + 'static,
    ) -> Result<Server, StartError> {
        let tenancy = Tenancy::of(&settings.aud, &settings.iss);
        let keys = Keys::open(settings.issuer_keys_file.clone(), tenancy)
            .map_err(|err| StartError(format!("--issuer-keys-file: {err}")))?;
        let tls = settings.tls.clone().map(|files| tls::Server::load(files, clock.clone()));
        let tls = tls.transpose().map_err(|err| StartError(tls_error(&err)))?.map(Arc::new);
        let sockets = listener::bind(&settings.listen, "--listen").map_err(|err| StartError(err.to_string()))?;
        let addresses = sockets.iter().filter_map(|socket| socket.local_addr().ok()).collect();
        let shutdown = Shutdown::new();
        let mut nodes = None;
        let mut for_nodes = None;
        if let Some(sharing) = settings.sharing.clone() {
            let fail = |err: &dyn std::fmt::Display| StartError(format!("--node-listen: {err}"));
            let mut bound = sharing.listen;
            if sharing.dialer.is_none() {
                let listener = TcpListener::bind(bound).await.map_err(|err| fail(&err))?;
                bound = listener.local_addr().map_err(|err| fail(&err))?;
                for_nodes = Some(listener);
            }
            nodes = Some(Nodes::join(sharing, bound, clock.clone()).await.map_err(StartError)?);
        }
        let relay = Arc::new(Relay::new(settings, keys, nodes, clock));
        let acceptor = Arc::new(Acceptor::new(relay.clone(), shutdown.clone()));
        if let Some(listener) = for_nodes {
            tokio::spawn(acceptor.clone().listen(listener));
        }
        tokio::spawn(nodes::renew(relay.clone(), shutdown.clone()));
        let door = Arc::new(Door { relay: relay.clone(), render: Box::new(render), shutdown: shutdown.clone() });
        let service = service_fn(move |request| std::future::ready(Ok::<_, Infallible>(door.answer(&request))));
        let limits = HttpLimits {
            connections_max: HTTP_CONNECTIONS_MAX,
            header_timeout: relay.settings.limits.attach_timeout,
            idle_timeout: relay.settings.limits.attach_timeout,
            ..HttpLimits::default()
        };
        let connections = Arc::new(Connections::new("relay"));
        let listening =
            Arc::new(Listening { name: "relay".into(), limits, takes_connect: false, tls: tls.clone(), connections });
        for socket in sockets {
            tokio::spawn(serve(Socket::Tcp(socket), listening.clone(), service.clone(), shutdown.clone()));
        }
        tokio::spawn(tick::run(relay.clone(), shutdown.clone()));
        if let Some(tls) = &tls {
            let (changed, reload) = (tls::Server::files_changed, tls::Server::reload);
            tokio::spawn(watch(tls.clone(), tls::Server::certificates, changed, reload, shutdown.clone()));
        }
        if let Some(nodes) = &relay.nodes {
            let (changed, reload) = (Identity::files_changed, Identity::reload);
            tokio::spawn(watch(nodes.identity.clone(), Identity::certificates, changed, reload, shutdown.clone()));
        }
        Ok(Server { relay, acceptor, tls, addresses, shutdown })
    }

    /// Serves an endpoint whose connection is a WebSocket already, as if it had come through a listener.
    pub fn accept_endpoint(&self, io: Box<dyn Raw>, address: Option<IpAddr>) {
        endpoint::spawn(&self.relay, io, address, &self.shutdown);
    }

    /// Serves a connection of another node, as if it had come through the listener for nodes.
    pub fn accept_node(&self, io: Box<dyn Raw>, from: SocketAddr) {
        self.acceptor.accept(io, from);
    }

    /// Returns the addresses that it listens on.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the path of the WebSocket.
    pub fn ws_path(&self) -> &str {
        &self.relay.settings.ws_path
    }

    /// Returns the numbers of connections and channels.
    pub fn open(&self) -> (usize, usize) {
        (self.relay.conns.len(), self.relay.channels.len())
    }

    /// Reads keys and certificates again; invalid ones leave those before in force and are logged.
    pub fn reload(&self) {
        self.relay.keys.reload();
        if let Some(tls) = &self.tls {
            note(tls.reload());
        }
        if let Some(nodes) = &self.relay.nodes {
            note(nodes.identity.reload());
        }
    }

    /// Switches `/metrics` on or off.
    pub fn show_metrics(&self, shows: bool) {
        self.relay.shows_metrics.store(shows, Ordering::Relaxed);
    }

    /// Admits no new endpoints, lets channels end by themselves for a while, then closes the rest because the relay stops.
    /// Returns the number of those.
    pub async fn stop(self) -> usize {
        let limits = &self.relay.settings.limits;
        self.relay.is_draining.store(true, Ordering::Release);
        if let Some(nodes) = &self.relay.nodes {
            // A client that asks for a channel from now on begins it elsewhere.
            nodes.leave().await;
        }
        let until = Instant::now() + limits.drain;
        while self.relay.conns.len() > 0 && Instant::now() < until {
            tokio::time::sleep(limits.tick.min(until.saturating_duration_since(Instant::now()))).await;
        }
        let mut told = 0;
        self.relay.conns.each(|conn| told += usize::from(conn.close(CloseCause::Draining)));
        // Each has time to read its pending data, and to close.
        self.shutdown.drain(limits.linger * 2 + limits.tick).await;
        told
    }
}

/// Reads certificates again when their files change: `changed` says so, `reload` reads them, and `certificates` returns those in
/// force.
async fn watch<T: Send + Sync + 'static>(
    tls: Arc<T>,
    certificates: fn(&T) -> Vec<tls::CertificateStatus>,
    changed: fn(&T) -> bool,
    reload: fn(&T) -> Result<bool, tls::TlsError>,
    shutdown: Shutdown,
) {
    let mut expiry = tls::ExpiryGauges::default();
    loop {
        expiry.set(certificates(&tls));
        tokio::select! {
            () = tokio::time::sleep(CERTIFICATES_INTERVAL) => {}
            () = shutdown.begun() => return,
        }
        if changed(&tls) {
            let tls = tls.clone();
            if let Ok(reloaded) = tokio::task::spawn_blocking(move || reload(&tls)).await {
                note(reloaded);
            }
        }
    }
}

fn note(reloaded: Result<bool, tls::TlsError>) {
    tls::count_reload(&reloaded);
    match reloaded {
        Ok(true) => tracing::info!("certificates reloaded"),
        Ok(false) => {}
        Err(err) => tracing::error!(%err, "certificates not reloaded: the loaded ones stay in use"),
    }
}
