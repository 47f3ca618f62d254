//! One listener of the supervisor: planned, serving, stopped.

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

use super::Refused;
use super::sockets::{Held, Pool};
use crate::config::{GatewayConfig, Listener, Place};
use crate::gateway::GatewayService;

/// How long handshakes that have begun may take to end on a socket that is handed over.
const HANDSHAKES: Duration = Duration::from_millis(250);

/// A listener with all that it needs to serve: from here nothing can fail.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) config: Listener,
    pub(super) limits: HttpLimits,
    tls: Option<Arc<tls::Server>>,
    sockets: Vec<Held>,
    to_accept: Vec<Socket>,
    /// Those that it had before it was stopped, which may still be ending.
    connections: Option<Arc<Connections>>,
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
    /// Whether clients are asked for certificates: `none`, `optional` or `required`. None for plain HTTP.
    pub tls: Option<&'static str>,
    /// Connections that are open.
    pub connections: usize,
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that were refused for a bound.
    pub refused: u64,
    /// Connections whose TLS handshake failed.
    pub failed_handshakes: u64,
}

/// A listener that serves, or was stopped by hand.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) config: Listener,
    pub(super) limits: HttpLimits,
    /// What it shows and asks for, loaded.
    pub(super) tls: Option<Arc<tls::Server>>,
    /// None while it is stopped.
    sockets: Vec<Held>,
    pub(super) connections: Arc<Connections>,
    /// Ends accepting at once, without a word to the connections.
    accepting: CancellationToken,
    /// Its connections.
    shutdown: Shutdown,
}

/// Closes sockets, as far as it is not for those who accept on them. What another process takes over is closed when no
/// handshake is under way on it any more.
pub(super) async fn close(held: Vec<Held>) {
    if held.iter().any(Held::is_shared) {
        held.iter().filter(|held| held.is_shared()).for_each(Held::turn_away);
        tokio::time::sleep(HANDSHAKES).await;
    }
}

/// The sockets and the material that are there when listeners are planned.
#[derive(Debug, Default)]
pub(super) struct There {
    listeners: Vec<(Listener, Vec<Held>, Option<Arc<tls::Server>>)>,
}

impl There {
    pub(super) fn of(running: &[Running]) -> Self {
        let there = |running: &Running| (running.config.clone(), running.sockets.clone(), running.tls.clone());
        There { listeners: running.iter().map(there).collect() }
    }

    fn material(&self, listener: &Listener, clock: &Arc<dyn Clock>) -> Result<Option<Arc<tls::Server>>, String> {
        let Some(files) = &listener.tls else { return Ok(None) };
        let same = |(other, _, _): &&(Listener, _, _)| other.name == listener.name && other.shows_what(listener);
        if let Some((_, _, Some(tls))) = self.listeners.iter().find(same) {
            // What is right now; the watch on files would be a second late. An error in them fails the reload.
            tls.reload().map_err(|err| listener.tls_problem(&err))?;
            return Ok(Some(tls.clone()));
        }
        let tls = tls::Server::load(files.clone(), clock.clone()).map_err(|err| listener.tls_problem(&err))?;
        Ok(Some(Arc::new(tls)))
    }
}

/// Plans every listener of `config`, with the sockets of those that are there where they fit. Those that were stopped by
/// hand stay so, and are not bound.
///
/// # Errors
/// A sentence that names address or file, and the setting. Nothing that was bound for this is left.
pub(super) fn plan(config: &GatewayConfig, there: &There, clock: &Arc<dyn Clock>) -> Result<Vec<Planned>, String> {
    let pool = Pool(there.listeners.iter().map(|(listener, held, _)| (listener, held.as_slice())).collect());
    let sockets: Vec<_> = config
        .listeners
        .iter()
        .map(|listener| {
            let stopped = |(other, held, _): &(Listener, Vec<Held>, _)| other.name == listener.name && held.is_empty();
            if there.listeners.iter().any(stopped) { Ok(Vec::new()) } else { pool.sockets(listener) }
        })
        .collect::<Result<_, _>>()?;
    // Material last: to read it again has an effect on who uses it.
    let listeners = config.listeners.iter().zip(sockets);
    listeners
        .map(|(listener, sockets)| {
            let tls = there.material(listener, clock)?;
            Planned::new(listener.clone(), config.http, tls, sockets)
        })
        .collect()
}

impl Planned {
    fn new(
        config: Listener,
        limits: HttpLimits,
        tls: Option<Arc<tls::Server>>,
        sockets: Vec<Held>,
    ) -> Result<Self, String> {
        let to_accept = sockets.iter().map(Held::to_accept).collect::<Result<_, _>>();
        let to_accept = to_accept.map_err(|err| format!("{}: {err}", config.setting))?;
        Ok(Planned { config, limits, tls, sockets, to_accept, connections: None })
    }

    /// Binds one that is not bound.
    ///
    /// # Errors
    /// A sentence that names address and setting.
    pub(super) fn bind(self) -> Result<Self, String> {
        let sockets = Pool::default().sockets(&self.config)?;
        let connections = self.connections;
        Ok(Planned { connections, ..Planned::new(self.config, self.limits, self.tls, sockets)? })
    }

    /// Serves. `shutdown` is the process's; connections get one of their own below it.
    pub(super) fn start(self, service: &GatewayService, shutdown: &Shutdown) -> Running {
        let connections = self.connections.clone();
        let connections = connections.unwrap_or_else(|| Arc::new(Connections::new(&self.config.name)));
        self.serve(service, shutdown.child(), connections)
    }

    /// Takes the place of `old`. On the same sockets and under the same TLS settings its connections go on, and new ones are
    /// under what is new; else they end as in a drain: nobody stays in by rules that are gone.
    pub(super) fn replace(
        self,
        mut old: Running,
        service: &GatewayService,
        whole: &Shutdown,
        drain: Duration,
    ) -> Running {
        let same_sockets = old.sockets.iter().all(|held| self.sockets.iter().any(|other| held.is(other)));
        if same_sockets && old.config.shows_what(&self.config) {
            let running = self.serve(service, old.shutdown.clone(), old.connections.clone());
            old.accepting.cancel();
            return running;
        }
        let running = self.start(service, whole);
        if same_sockets {
            old.accepting.cancel();
        }
        // What waits on a socket that goes is still accepted: a drain does that.
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
            tls: self.tls.clone(),
            connections: connections.clone(),
        });
        for socket in self.to_accept {
            let serving = http::serve(socket, listening.clone(), service.clone(), shutdown.clone());
            let until = accepting.clone();
            shutdown.spawn(async move {
                // Dropped, it accepts no more; its connections are tasks of their own.
                let _ = until.run_until_cancelled(serving).await;
            });
        }
        let Planned { config, limits, tls, sockets, .. } = self;
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
        self.sockets.iter().filter_map(Held::address)
    }

    pub(super) fn status(&self) -> ListenerStatus {
        let addresses = if self.is_serving() {
            self.sockets.iter().map(Held::place).collect()
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
        let (held, shutdown) = (self.let_go(), self.shutdown.clone());
        tokio::spawn(async move {
            close(held).await;
            shutdown.drain(drain).await
        });
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
        Ok(Planned {
            config: self.config.clone(),
            limits: self.limits,
            tls: self.tls.clone(),
            sockets: Vec::new(),
            to_accept: Vec::new(),
            connections: Some(self.connections.clone()),
        })
    }

    /// Whether any of its sockets is one of `planned`'s.
    pub(super) fn gives_to(&self, planned: &[Planned]) -> bool {
        let theirs = || planned.iter().flat_map(|planned| &planned.sockets);
        self.sockets.iter().any(|held| theirs().any(|other| held.is(other)))
    }
}
