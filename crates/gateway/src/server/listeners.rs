//! One listener of the supervisor: planned, serving, stopped.

use std::net::SocketAddr;
use std::time::Duration;

use sealway_runtime::http::{self, HttpLimits};
use sealway_runtime::shutdown::Shutdown;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::Refused;
use super::sockets::{Held, Pool};
use crate::config::{GatewayConfig, Listener};
use crate::gateway::GatewayService;

/// A listener with all that it needs to serve: from here nothing can fail.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) config: Listener,
    pub(super) limits: HttpLimits,
    sockets: Vec<Held>,
    to_accept: Vec<TcpListener>,
}

/// How a listener stands.
#[derive(Clone, Debug, Serialize)]
pub struct ListenerStatus {
    /// Its name.
    pub name: String,
    /// Where it is bound, or, stopped, where it would be.
    pub addresses: Vec<String>,
    /// Whether it accepts connections.
    pub is_serving: bool,
}

/// A listener that serves, or was stopped by hand.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) config: Listener,
    pub(super) limits: HttpLimits,
    /// None while it is stopped.
    sockets: Vec<Held>,
    /// Ends accepting at once, without a word to the connections.
    accepting: CancellationToken,
    /// Its connections.
    shutdown: Shutdown,
}

/// Plans every listener of `config`, with the sockets of those that run where they fit. Those that were stopped by hand
/// stay so, and are not bound.
///
/// # Errors
/// A sentence that names address or file, and the setting. Nothing that was bound for this is left.
pub(super) fn plan(config: &GatewayConfig, running: &[Running]) -> Result<Vec<Planned>, String> {
    let pool = Pool(running.iter().map(|running| (&running.config, running.sockets.as_slice())).collect());
    config
        .listeners
        .iter()
        .map(|listener| {
            let was_stopped = running.iter().any(|running| running.config.name == listener.name && !running.is_serving());
            let sockets = if was_stopped { Vec::new() } else { pool.sockets(listener)? };
            Planned::new(listener.clone(), config.http, sockets)
        })
        .collect()
}

impl Planned {
    fn new(config: Listener, limits: HttpLimits, sockets: Vec<Held>) -> Result<Self, String> {
        let to_accept = sockets.iter().map(Held::to_accept).collect::<Result<_, _>>();
        let to_accept = to_accept.map_err(|err| format!("{}: {err}", config.setting))?;
        Ok(Planned { config, limits, sockets, to_accept })
    }

    /// Binds one that is not bound.
    ///
    /// # Errors
    /// A sentence that names address and setting.
    pub(super) fn bind(self) -> Result<Self, String> {
        let sockets = Pool::default().sockets(&self.config)?;
        Planned::new(self.config, self.limits, sockets)
    }

    /// Serves. `shutdown` is the process's; connections get one of their own below it.
    pub(super) fn start(self, service: &GatewayService, shutdown: &Shutdown) -> Running {
        self.serve(service, shutdown.child())
    }

    /// Takes the place of `old`. On the same sockets its connections go on, and new ones are under what is new; on others
    /// they end as in a drain.
    pub(super) fn replace(self, mut old: Running, service: &GatewayService, whole: &Shutdown, drain: Duration) -> Running {
        if old.sockets.iter().all(|held| self.sockets.iter().any(|other| held.is(other))) {
            let running = self.serve(service, old.shutdown.clone());
            old.accepting.cancel();
            return running;
        }
        let running = self.start(service, whole);
        // What waits on a socket that goes is still accepted: only a drain does that.
        let _ = old.stop(drain);
        running
    }

    fn serve(self, service: &GatewayService, shutdown: Shutdown) -> Running {
        let accepting = CancellationToken::new();
        metrics::gauge!("sealway_listener_up", "listener" => self.config.name.to_string())
            .set(if self.sockets.is_empty() { 0.0 } else { 1.0 });
        for socket in self.to_accept {
            let serving = http::serve(socket, self.config.name.clone(), service.clone(), self.limits, shutdown.clone());
            let until = accepting.clone();
            shutdown.spawn(async move {
                // Dropped, it accepts no more; its connections are tasks of their own.
                let _ = until.run_until_cancelled(serving).await;
            });
        }
        Running { config: self.config, limits: self.limits, sockets: self.sockets, accepting, shutdown }
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
        self.sockets.iter().filter_map(Held::address)
    }

    pub(super) fn status(&self) -> ListenerStatus {
        let addresses = if self.is_serving() {
            self.addresses().map(|address| address.to_string()).collect()
        } else {
            self.config.addresses.iter().map(ToString::to_string).collect()
        };
        ListenerStatus { name: self.name().to_owned(), addresses, is_serving: self.is_serving() }
    }

    /// Lets go of its sockets: they close when accepting on them ends.
    pub(super) fn let_go(&mut self) -> Vec<Held> {
        std::mem::take(&mut self.sockets)
    }

    /// Stops it; its connections have at most `drain` to end.
    ///
    /// # Errors
    /// [`Refused::Already`].
    pub(super) fn stop(&mut self, drain: Duration) -> Result<(), Refused> {
        if !self.is_serving() {
            return Err(Refused::Already { name: self.name().to_owned(), state: "stopped" });
        }
        drop(self.let_go());
        let shutdown = self.shutdown.clone();
        tokio::spawn(async move { shutdown.drain(drain).await });
        Ok(())
    }

    /// Says in metrics that it is down.
    pub(super) fn note_down(&self) {
        metrics::gauge!("sealway_listener_up", "listener" => self.name().to_owned()).set(0.0);
    }

    /// Stops accepting at once, because another listener has its sockets now, and ends its connections.
    pub(super) fn hand_on(mut self, drain: Duration) {
        self.accepting.cancel();
        // It may have been stopped before, which is as well.
        let _ = self.stop(drain);
    }

    /// What it takes to start it once more.
    ///
    /// # Errors
    /// [`Refused::Already`].
    pub(super) fn planned_again(&self) -> Result<Planned, Refused> {
        if self.is_serving() {
            return Err(Refused::Already { name: self.name().to_owned(), state: "serving" });
        }
        let (config, limits) = (self.config.clone(), self.limits);
        Ok(Planned { config, limits, sockets: Vec::new(), to_accept: Vec::new() })
    }

    /// Whether any of its sockets is one of `planned`'s.
    pub(super) fn gives_to(&self, planned: &[Planned]) -> bool {
        let theirs = || planned.iter().flat_map(|planned| &planned.sockets);
        self.sockets.iter().any(|held| theirs().any(|other| held.is(other)))
    }
}
