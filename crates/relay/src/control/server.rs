//! The control plane as a server: its settings, its listener, its end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sealway_proto::relay::Issuer;
use sealway_runtime::clock::Clock;
use sealway_runtime::http::{Connections, HttpLimits, Listening, serve};
use sealway_runtime::listener::{self, Socket};
use sealway_runtime::shutdown::Shutdown;
use sealway_runtime::tls;

use super::rendezvous::WAIT;
use super::{Control, Door, Tokens};
use crate::server::{StartError, tls_error};

/// How long requests go on once it stops: those that wait for a listener are cut off.
const DRAIN: Duration = Duration::from_secs(2);

/// What it serves, where, and to whom.
#[derive(Debug)]
pub struct ControlSettings {
    /// Where it listens.
    pub listen: Vec<SocketAddr>,
    /// What it shows, and whose certificates it takes.
    pub tls: Option<tls::ServerFiles>,
    /// Whose tokens it takes.
    pub tokens: Tokens,
    /// Who mints.
    pub issuer: Issuer,
    /// Names that one client holds at most, 0 for no bound. A client is a token where there are several, else a network. By default
    /// any number until three quarters of all names are taken; the last quarter is for clients that hold less than a sixteenth.
    pub names_per_client_max: Option<u64>,
}

/// A control plane that serves.
#[derive(Debug)]
pub struct ControlServer {
    addresses: Vec<SocketAddr>,
    shutdown: Shutdown,
}

impl ControlServer {
    /// Reads the files, binds, and serves.
    ///
    /// # Errors
    /// [`StartError`], also where neither a token nor a certificate would be asked for.
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
        let door = Door(Arc::new(Control::new(settings.issuer, settings.tokens, settings.names_per_client_max, clock)));
        let limits = HttpLimits { idle_timeout: WAIT * 2, ..HttpLimits::default() };
        let connections = Arc::new(Connections::new("control"));
        let listening = Arc::new(Listening { name: "control".into(), limits, tls, connections });
        for socket in sockets {
            tokio::spawn(serve(Socket::Tcp(socket), listening.clone(), door.clone(), shutdown.clone()));
        }
        Ok(ControlServer { addresses, shutdown })
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Takes nobody new, and ends.
    pub async fn stop(self) {
        self.shutdown.drain(DRAIN).await;
    }
}
