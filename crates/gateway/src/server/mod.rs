//! The supervisor of a serving process: its listeners, each of which can be stopped and started alone, the gateway in
//! force, reloads that apply as a whole or not at all, and the drain at the end.
//!
//! It may not know the place of a configuration: the caller passes a closure that reads it again.

mod certificates;
mod keys;
mod listeners;
mod reload;
mod sockets;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sealway_proto::crypto::Provider;
use sealway_runtime::clock::Clock;
use sealway_runtime::http::ConnectionInfo;
use sealway_runtime::shutdown::Shutdown;
use sealway_runtime::tls::{self, ExpiryGauges};
use sealway_sessions::Authority;
use tokio_util::sync::CancellationToken;

use crate::config::GatewayConfig;
use crate::gateway::{Gateway, GatewayService};
use crate::traffic::Traffic;
use listeners::{Inventory, ListenerPlan, Running};

pub use certificates::Certificate;
pub use listeners::ListenerStatus;
pub use reload::{Fresh, ReloadReport, Reloads, Reread};

/// Reason that an operation was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// No listener has this name.
    #[error("no listener is named \"{0}\"")]
    NoListener(String),
    /// The listener is already in the requested state.
    #[error("the listener \"{name}\" is already {state}")]
    Already {
        /// Name of the listener.
        name: String,
        /// Either `stopped` or `serving`.
        state: &'static str,
    },
    /// The process is about to end.
    #[error("the process is stopping")]
    Stopping,
    /// The address cannot be bound, or a file or the configuration is invalid: a sentence that names the setting.
    #[error("{0}")]
    Failed(String),
}

/// Sockets and TLS files of a configuration, before anything is served.
#[derive(Debug)]
pub struct BoundListeners(Vec<ListenerPlan>);

impl BoundListeners {
    /// Binds every listener; releases all if one fails.
    ///
    /// # Errors
    /// A sentence that names the address or file, and its setting.
    pub fn bind(config: &GatewayConfig, clock: &Arc<dyn Clock>) -> Result<Self, String> {
        listeners::plan(config, &Inventory::default(), clock).map(BoundListeners)
    }
}

/// Dependencies of a gateway, at the start and at each reload.
pub struct Parts {
    /// Session authority of this process.
    pub authority: Arc<Authority>,
    /// Cryptography provider, for the built-in demo service.
    pub provider: &'static dyn Provider,
    /// Clock of this process.
    pub clock: Arc<dyn Clock>,
}

impl Parts {
    fn gateway(&self, config: &GatewayConfig, before: Option<&Gateway>) -> Result<Gateway, String> {
        config.start(self.authority.clone(), self.provider, &self.clock, before)
    }
}

/// A serving process. Clones share the same state.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    parts: Parts,
    service: GatewayService,
    shutdown: Shutdown,
    reread: Reread,
    /// Serializes operations, however long they take.
    operation: Mutex<()>,
    /// Locked only for moments, so that status requests do not wait for an operation.
    state: Mutex<State>,
    expiry: Mutex<ExpiryGauges>,
    /// TLS of listeners that are not the gateway's, by their names.
    others: Mutex<Vec<(&'static str, Arc<tls::Server>)>>,
    drain_asked: CancellationToken,
}

struct State {
    listeners: Vec<Running>,
    drain: Duration,
    stop_delay: Duration,
    is_stopping: bool,
    /// The configuration in force, without its secrets.
    shown: Arc<serde_json::Value>,
    reloads: Reloads,
}

impl Server {
    /// Serves on the bound sockets. `reread` reads the configuration again for a reload; `shutdown` is the process's.
    ///
    /// # Errors
    /// A sentence that names the setting and the file at fault.
    pub fn start(
        bound: BoundListeners,
        config: &GatewayConfig,
        parts: Parts,
        reread: Reread,
        shutdown: Shutdown,
    ) -> Result<Self, String> {
        let service = GatewayService::new(parts.gateway(config, None)?);
        let mut state = State {
            listeners: Vec::new(),
            drain: config.drain,
            stop_delay: config.stop_delay,
            is_stopping: false,
            shown: Arc::default(),
            reloads: Reloads::default(),
        };
        reload::register();
        for planned in bound.0 {
            state.listeners.push(planned.start(&service, &shutdown));
        }
        let server = Server(Arc::new(Inner {
            parts,
            service,
            shutdown: shutdown.clone(),
            reread,
            operation: Mutex::new(()),
            state: Mutex::new(state),
            expiry: Mutex::default(),
            others: Mutex::default(),
            drain_asked: CancellationToken::new(),
        }));
        server.note_keys(false);
        server.watch_files();
        server.watch_keys();
        Ok(server)
    }

    /// Returns the TCP addresses of the listeners, in the order of the configuration.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.0.state.lock().listeners.iter().flat_map(Running::addresses).collect()
    }

    /// Returns the status of the listeners, in the order of the configuration.
    pub fn listeners(&self) -> Vec<ListenerStatus> {
        self.0.state.lock().listeners.iter().map(Running::status).collect()
    }

    /// Stores the configuration in force for display, without its secrets.
    pub fn show(&self, config: serde_json::Value) {
        self.0.state.lock().shown = Arc::new(config);
    }

    /// Returns the last configuration that was stored by [`Server::show`] or read by a reload.
    pub fn shown(&self) -> Arc<serde_json::Value> {
        self.0.state.lock().shown.clone()
    }

    /// Returns the results of reloads.
    pub fn reloads(&self) -> Reloads {
        self.0.state.lock().reloads.clone()
    }

    /// Watches the certificate and the key of a listener that is not the gateway's, as those of the gateway's listeners: changed
    /// files are reloaded, and a key on a token that does not sign is reported. A fault of its last check is reported at once.
    pub fn watch_tls(&self, listener: &'static str, tls: Arc<tls::Server>) {
        self.0.others.lock().push((listener, tls));
        self.note_keys(false);
    }

    /// Returns the traffic counts of all listeners.
    pub fn traffic(&self) -> &Traffic {
        self.0.service.traffic()
    }

    /// Returns the session authority of this process.
    pub fn authority(&self) -> &Arc<Authority> {
        &self.0.parts.authority
    }

    /// Returns the time, in milliseconds since the epoch.
    pub fn now_ms(&self) -> u64 {
        self.0.parts.clock.now_ms()
    }

    /// Returns the process's shutdown, for tasks that stop with it.
    pub fn shutdown(&self) -> &Shutdown {
        &self.0.shutdown
    }

    /// Returns the gateway in force.
    pub fn gateway(&self) -> Arc<Gateway> {
        self.0.service.current()
    }

    /// True once draining has begun.
    pub fn is_stopping(&self) -> bool {
        self.0.state.lock().is_stopping
    }

    /// Returns the time before draining in which everything is still served.
    pub fn stop_delay(&self) -> Duration {
        self.0.state.lock().stop_delay
    }

    /// Stops one listener: it accepts nothing new, and its connections end as in a drain. The others continue.
    ///
    /// # Errors
    /// [`OperationError`].
    pub fn stop_listener(&self, name: &str) -> Result<(), OperationError> {
        let _one = self.0.operation.lock();
        let mut state = self.0.state.lock();
        let drain = state.drain;
        let running = state.running(name)?;
        running.stop(drain)?;
        running.note_down(0.0);
        tracing::info!(listener = name, "listener stopped; its connections are closed");
        Ok(())
    }

    /// Starts a listener that was stopped.
    ///
    /// # Errors
    /// [`OperationError`]; the address may have been taken meanwhile.
    pub fn start_listener(&self, name: &str) -> Result<(), OperationError> {
        let _one = self.0.operation.lock();
        let stopped = self.0.state.lock().running(name)?.planned_again()?;
        let planned = stopped.bind().map_err(OperationError::Failed)?;
        let started = planned.start(&self.0.service, &self.0.shutdown);
        *self.0.state.lock().running(name)? = started;
        tracing::info!(listener = name, "listener started");
        Ok(())
    }

    /// Returns the oldest `max` open connections of a listener.
    ///
    /// # Errors
    /// [`OperationError::NoListener`].
    pub fn connections(&self, listener: &str, max: usize) -> Result<Vec<ConnectionInfo>, OperationError> {
        let connections = self.0.state.lock().running(listener)?.connections.clone();
        Ok(connections.list(max))
    }

    /// Ends a connection after its requests in flight. Returns false if no connection has this number.
    ///
    /// # Errors
    /// [`OperationError::NoListener`].
    pub fn close_connection(&self, listener: &str, id: u64) -> Result<bool, OperationError> {
        Ok(self.0.state.lock().running(listener)?.connections.close(id))
    }

    /// Requests a drain, which the owner of this process runs and then ends the process.
    pub fn ask_to_drain(&self) {
        self.0.drain_asked.cancel();
    }

    /// Resolves when a drain was requested.
    pub async fn drain_asked(&self) {
        self.0.drain_asked.cancelled().await;
    }

    /// Accepts nothing new, answers requests in flight, and drops the rest after `limits.drain_ms`. Returns the number
    /// of dropped tasks.
    pub async fn drain(&self) -> usize {
        let drain = {
            let mut state = self.0.state.lock();
            state.is_stopping = true;
            state.drain
        };
        // The sockets close when the last accepting task has served the connections waiting on them.
        let held = self.0.state.lock().listeners.iter_mut().flat_map(Running::let_go).collect();
        listeners::close(held).await;
        self.0.shutdown.drain(drain).await
    }
}

impl State {
    fn running(&mut self, name: &str) -> Result<&mut Running, OperationError> {
        if self.is_stopping {
            return Err(OperationError::Stopping);
        }
        let found = self.listeners.iter_mut().find(|running| running.name() == name);
        found.ok_or_else(|| OperationError::NoListener(name.to_owned()))
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses()).finish_non_exhaustive()
    }
}
