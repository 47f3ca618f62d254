//! A listener of the server in its states: planned, serving, stopped.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sealway_runtime::clock::Clock;
use sealway_runtime::http::{self, Connections, HttpLimits, Listening};
use sealway_runtime::listener::Socket;
use sealway_runtime::shutdown::Shutdown;
use sealway_runtime::tls;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::OperationError;
use super::sockets::{HeldSocket, Pool};
use crate::config::{GatewayConfig, Listener, Place};
use crate::gateway::GatewayService;

/// Time for handshakes in progress to end on a socket that another process takes over.
const HANDSHAKES: Duration = Duration::from_millis(250);

/// A listener with everything that it needs to serve: starting it cannot fail.
#[derive(Debug)]
pub(super) struct ListenerPlan {
    pub(super) config: Listener,
    pub(super) limits: HttpLimits,
    tls: Option<Arc<tls::Server>>,
    sockets: Vec<HeldSocket>,
    to_accept: Vec<Socket>,
    /// Connections from before it was stopped, which may still be ending.
    connections: Option<Arc<Connections>>,
}

/// Status of a listener.
#[derive(Clone, Debug, Serialize)]
pub struct ListenerStatus {
    /// Name of the listener.
    pub name: String,
    /// Addresses on which it is bound, or, while stopped, would be.
    pub addresses: Vec<String>,
    /// True while it accepts connections.
    pub is_serving: bool,
    /// Request for client certificates: `none`, `optional` or `required`. `None` for plain HTTP.
    pub tls: Option<&'static str>,
    /// Number of open connections.
    pub connections: usize,
    /// Number of connections accepted since the start.
    pub accepted: u64,
    /// Number of connections rejected because of a bound.
    pub refused: u64,
    /// Number of connections whose TLS handshake failed.
    pub failed_handshakes: u64,
}

/// A listener that serves, or that an operator stopped.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) config: Listener,
    pub(super) limits: HttpLimits,
    /// TLS files and settings, loaded.
    pub(super) tls: Option<Arc<tls::Server>>,
    /// Bound sockets; empty while it is stopped.
    sockets: Vec<HeldSocket>,
    pub(super) connections: Arc<Connections>,
    /// Ends accepting at once, without effect on the connections.
    accepting: CancellationToken,
    /// Ends its connections in a drain.
    shutdown: Shutdown,
}

/// Closes sockets, which stay open for tasks that still accept on them. A socket whose address another process shares
/// is closed after its handshakes in progress have ended.
pub(super) async fn close(held: Vec<HeldSocket>) {
    if held.iter().any(HeldSocket::is_shared) {
        held.iter().filter(|held| held.is_shared()).for_each(HeldSocket::turn_away);
        tokio::time::sleep(HANDSHAKES).await;
    }
}

/// Sockets and TLS files that exist when listeners are planned.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    listeners: Vec<(Listener, Vec<HeldSocket>, Option<Arc<tls::Server>>)>,
}

impl Inventory {
    pub(super) fn of(running: &[Running]) -> Self {
        let there = |running: &Running| (running.config.clone(), running.sockets.clone(), running.tls.clone());
        Inventory { listeners: running.iter().map(there).collect() }
    }

    fn material(&self, listener: &Listener, clock: &Arc<dyn Clock>) -> Result<Option<Arc<tls::Server>>, String> {
        let Some(files) = &listener.tls else { return Ok(None) };
        let same = |(other, _, _): &&(Listener, _, _)| other.name == listener.name && other.has_same_tls(listener);
        if let Some((_, _, Some(tls))) = self.listeners.iter().find(same) {
            // The watch on files would be a second late. An error in the files fails the reload.
            tls.reload().map_err(|err| listener.tls_problem(&err))?;
            return Ok(Some(tls.clone()));
        }
        let tls = tls::Server::load(files.clone(), clock.clone()).map_err(|err| listener.tls_problem(&err))?;
        Ok(Some(Arc::new(tls)))
    }
}

/// Plans every listener of `config`, with existing sockets where they fit. Listeners that an operator stopped stay
/// stopped, and are not bound.
///
/// # Errors
/// A sentence that names address or file, and the setting. Nothing that was bound for this plan remains.
pub(super) fn plan(
    config: &GatewayConfig,
    there: &Inventory,
    clock: &Arc<dyn Clock>,
) -> Result<Vec<ListenerPlan>, String> {
    let pool = Pool(there.listeners.iter().map(|(listener, held, _)| (listener, held.as_slice())).collect());
    let sockets: Vec<_> = config
        .listeners
        .iter()
        .map(|listener| {
            let stopped =
                |(other, held, _): &(Listener, Vec<HeldSocket>, _)| other.name == listener.name && held.is_empty();
            if there.listeners.iter().any(stopped) { Ok(Vec::new()) } else { pool.sockets(listener) }
        })
        .collect::<Result<_, _>>()?;
    // TLS files last: reloading them affects their present users.
    let listeners = config.listeners.iter().zip(sockets);
    listeners
        .map(|(listener, sockets)| {
            let tls = there.material(listener, clock)?;
            ListenerPlan::new(listener.clone(), config.http, tls, sockets)
        })
        .collect()
}

impl ListenerPlan {
    fn new(
        config: Listener,
        limits: HttpLimits,
        tls: Option<Arc<tls::Server>>,
        sockets: Vec<HeldSocket>,
    ) -> Result<Self, String> {
        let to_accept = sockets.iter().map(HeldSocket::to_accept).collect::<Result<_, _>>();
        let to_accept = to_accept.map_err(|err| format!("{}: {err}", config.setting))?;
        Ok(ListenerPlan { config, limits, tls, sockets, to_accept, connections: None })
    }

    /// Binds a planned listener that has no sockets.
    ///
    /// # Errors
    /// A sentence that names address and setting.
    pub(super) fn bind(self) -> Result<Self, String> {
        let sockets = Pool::default().sockets(&self.config)?;
        let connections = self.connections;
        Ok(ListenerPlan { connections, ..ListenerPlan::new(self.config, self.limits, self.tls, sockets)? })
    }

    /// Starts to serve. `shutdown` is the process's; the listener's connections get a child of it.
    pub(super) fn start(self, service: &GatewayService, shutdown: &Shutdown) -> Running {
        let connections = self.connections.clone();
        let connections = connections.unwrap_or_else(|| Arc::new(Connections::new(&self.config.name)));
        self.serve(service, shutdown.child(), connections)
    }

    /// Replaces `old`. On the same sockets and with the same TLS settings its connections continue, and new ones get
    /// the new settings; otherwise they end as in a drain, so that no connection outlives the rules that admitted it.
    pub(super) fn replace(
        self,
        mut old: Running,
        service: &GatewayService,
        whole: &Shutdown,
        drain: Duration,
    ) -> Running {
        let same_sockets = old.sockets.iter().all(|held| self.sockets.iter().any(|other| held.is(other)));
        if same_sockets && old.config.has_same_tls(&self.config) {
            let running = self.serve(service, old.shutdown.clone(), old.connections.clone());
            old.accepting.cancel();
            return running;
        }
        let running = self.start(service, whole);
        if same_sockets {
            old.accepting.cancel();
        }
        // Connections waiting on a closed socket are still accepted: the drain does that.
        let _ = old.stop(drain);
        running
    }

    fn serve(self, service: &GatewayService, shutdown: Shutdown, connections: Arc<Connections>) -> Running {
        let accepting = CancellationToken::new();
        metrics::gauge!("sealway_listener_up", "listener" => self.config.name.to_string())
            .set(if self.sockets.is_empty() { 0.0 } else { 1.0 });
        let listening = Arc::new(Listening {
            name: self.config.name.clone(),
            limits: self.limits,
            takes_connect: true,
            tls: self.tls.clone(),
            connections: connections.clone(),
        });
        for socket in self.to_accept {
            let serving = http::serve(socket, listening.clone(), service.clone(), shutdown.clone());
            let until = accepting.clone();
            shutdown.spawn(async move {
                // Dropping the future ends accepting; the connections are separate tasks.
                let _ = until.run_until_cancelled(serving).await;
            });
        }
        let ListenerPlan { config, limits, tls, sockets, .. } = self;
        Running { config, limits, tls, sockets, connections, accepting, shutdown }
    }
}

impl Running {
    pub(super) fn name(&self) -> &str {
        &self.config.name
    }

    pub(super) fn is_serving(&self) -> bool {
        !self.sockets.is_empty()
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.sockets.iter().filter_map(HeldSocket::address)
    }

    pub(super) fn status(&self) -> ListenerStatus {
        let addresses = if self.is_serving() {
            self.sockets.iter().map(HeldSocket::place).collect()
        } else {
            match &self.config.place {
                Place::Tcp(addresses) => addresses.iter().map(ToString::to_string).collect(),
                Place::Unix(path) => vec![format!("unix:{}", path.display())],
            }
        };
        let client_auth = |files: &tls::ServerFiles| match files.client_auth {
            tls::ClientAuth::None => "none",
            tls::ClientAuth::Optional => "optional",
            tls::ClientAuth::Required => "required",
        };
        ListenerStatus {
            name: self.name().to_owned(),
            addresses,
            is_serving: self.is_serving(),
            tls: self.config.tls.as_ref().map(client_auth),
            connections: self.connections.open(),
            accepted: self.connections.accepted(),
            refused: self.connections.refused(),
            failed_handshakes: self.connections.failed_handshakes(),
        }
    }

    /// Releases its sockets: they close when accepting on them ends.
    pub(super) fn let_go(&mut self) -> Vec<HeldSocket> {
        std::mem::take(&mut self.sockets)
    }

    /// Stops the listener; its connections have at most `drain` to end.
    ///
    /// # Errors
    /// [`OperationError::Already`].
    pub(super) fn stop(&mut self, drain: Duration) -> Result<(), OperationError> {
        if !self.is_serving() {
            return Err(OperationError::Already { name: self.name().to_owned(), state: "stopped" });
        }
        let (held, shutdown) = (self.let_go(), self.shutdown.clone());
        tokio::spawn(async move {
            close(held).await;
            shutdown.drain(drain).await
        });
        Ok(())
    }

    /// Sets the metric of a listener that accepts nothing: 0 if it was stopped, NaN if it was removed.
    pub(super) fn note_down(&self, up: f64) {
        metrics::gauge!("sealway_listener_up", "listener" => self.name().to_owned()).set(up);
    }

    /// Stops accepting at once, because another listener has taken over its sockets, and ends its connections.
    pub(super) fn hand_on(mut self, drain: Duration) {
        self.accepting.cancel();
        // An error means that it was stopped before, which is fine.
        let _ = self.stop(drain);
    }

    /// Returns a plan to start a stopped listener again.
    ///
    /// # Errors
    /// [`OperationError::Already`].
    pub(super) fn planned_again(&self) -> Result<ListenerPlan, OperationError> {
        if self.is_serving() {
            return Err(OperationError::Already { name: self.name().to_owned(), state: "serving" });
        }
        Ok(ListenerPlan {
            config: self.config.clone(),
            limits: self.limits,
            tls: self.tls.clone(),
            sockets: Vec::new(),
            to_accept: Vec::new(),
            connections: Some(self.connections.clone()),
        })
    }

    /// True if any of its sockets is also in `planned`.
    pub(super) fn gives_to(&self, planned: &[ListenerPlan]) -> bool {
        let theirs = || planned.iter().flat_map(|planned| &planned.sockets);
        self.sockets.iter().any(|held| theirs().any(|other| held.is(other)))
    }
}
