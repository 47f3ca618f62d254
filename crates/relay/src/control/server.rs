//! The control plane as a server: its settings, its listener, its end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use sealway_proto::relay::Issuer;
use sealway_runtime::clock::Clock;
use sealway_runtime::http::{Connections, HttpLimits, Listening, serve};
use sealway_runtime::listener::{self, Socket};
use sealway_runtime::shutdown::Shutdown;
use sealway_runtime::tls;

use super::{Control, Tokens};
use crate::server::{StartError, tls_error};

/// Time that requests have after shutdown begins: those that wait for a listener are ended.
const DRAIN: Duration = Duration::from_secs(2);

/// The settings of a control plane.
#[derive(Debug)]
pub struct ControlSettings {
    /// The addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// The certificate of the server, and the rules for those of clients.
    pub tls: Option<tls::ServerFiles>,
    /// The tokens of authorised clients.
    pub tokens: Tokens,
    /// The issuer that mints grants.
    pub issuer: Issuer,
    /// Most names of one client, 0 for no bound. A client is a token if there are several, otherwise a network. By default any
    /// number until three quarters of all names are taken; the last quarter is for clients that have less than a sixteenth.
    pub names_per_client_max: Option<u64>,
}

/// A control plane that is running.
#[derive(Debug)]
pub struct ControlServer {
    addresses: Vec<SocketAddr>,
    shutdown: Shutdown,
}

impl ControlServer {
    /// Reads the files, binds, and serves.
    ///
    /// # Errors
    /// [`StartError`], also if neither a token nor a certificate would be required.
    pub fn start(settings: ControlSettings, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        let asks_for_certificates =
            settings.tls.as_ref().is_some_and(|files| files.client_auth == tls::ClientAuth::Required);
        if settings.tokens.is_empty() && !asks_for_certificates {
            let text = "--token-file or --tls-client-ca: without either, anybody would be given grants";
            return Err(StartError::new(text));
        }
        let tls = settings.tls.map(|files| tls::Server::load(files, clock.clone()));
        let tls = tls.transpose().map_err(|err| StartError::new(tls_error(&err)))?.map(Arc::new);
        let sockets = listener::bind(&settings.listen, "--listen").map_err(|err| StartError::new(err.to_string()))?;
        let addresses = sockets.iter().filter_map(|socket| socket.local_addr().ok()).collect();
        let shutdown = Shutdown::new();
        let control = Arc::new(Control::new(settings.issuer, settings.tokens, settings.names_per_client_max, clock));
        let service = service_fn(move |request| {
            let control = control.clone();
            async move { Ok::<_, Infallible>(control.answer(request).await) }
        });
        // A listener that waits is not idle: the limit by default is longer than its wait, which a test holds.
        let limits = HttpLimits::default();
        let connections = Arc::new(Connections::new("control"));
        let listening = Arc::new(Listening { name: "control".into(), limits, takes_connect: false, tls, connections });
        for socket in sockets {
            tokio::spawn(serve(Socket::Tcp(socket), listening.clone(), service.clone(), shutdown.clone()));
        }
        Ok(ControlServer { addresses, shutdown })
    }

    /// Returns the addresses that it listens on.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Accepts no more clients, and ends.
    pub async fn stop(self) {
        self.shutdown.drain(DRAIN).await;
    }
}

#[cfg(test)]
mod tests;
