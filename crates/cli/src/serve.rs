//! `sealway serve`: from a checked configuration to listeners that answer, and back to a clean end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use sealway_gateway::GatewayService;
use sealway_gateway::config::Place;
use sealway_proto::crypto::default_provider;
use sealway_runtime::clock::{Clock, SystemClock};
use sealway_runtime::shutdown::{Shutdown, StopSignals};
use sealway_runtime::{http, listener, telemetry};
use sealway_sessions::Authority;
use sealway_sessions::admin::Admin;
use sealway_sessions::config::strong_secret;

use crate::args;
use crate::config::{self, ServeConfig};

/// How often expired sessions are purged and gauges set.
const MAINTENANCE: Duration = Duration::from_secs(10);

/// Runs until a signal.
pub(crate) async fn run(args: args::Serve) -> anyhow::Result<()> {
    let (raw, mut warnings) = config::load(args.config.as_deref())?;
    let config = config::resolve(&raw, args.config.as_deref())?;
    let _telemetry = telemetry::init(&config.telemetry, "sealway").map_err(|err| anyhow!(err))?;
    if args.config.is_none() {
        warnings.push("no --config: serving the built-in one, with the demo service behind".into());
    }
    for warning in warnings.iter().chain(&config.warnings) {
        tracing::warn!("{warning}");
    }
    let mut signals = StopSignals::install()?;
    let running = Running::start(&config).await?;
    let (addresses, admin) = (&running.addresses, &running.admin_addresses);
    tracing::info!(?addresses, ?admin, version = env!("CARGO_PKG_VERSION"), "serving");
    let signal = signals.stopped().await;
    if !config.gateway.stop_delay.is_zero() {
        tracing::info!(signal, delay = ?config.gateway.stop_delay, "stopping: /ready says so, and all is still served");
        running.authority.announce_stop();
        tokio::select! {
            () = tokio::time::sleep(config.gateway.stop_delay) => {}
            _ = signals.stopped() => {}
        }
    }
    tracing::info!(signal, "stopping: what is in flight is answered");
    running.stop(config.gateway.drain).await;
    Ok(())
}

/// A server that is serving.
pub(crate) struct Running {
    /// Where it listens.
    pub(crate) addresses: Vec<SocketAddr>,
    admin_addresses: Vec<SocketAddr>,
    authority: Arc<Authority>,
    shutdown: Shutdown,
}

impl Running {
    /// Binds everything, then serves. Nothing is left behind when a part fails.
    pub(crate) async fn start(config: &ServeConfig) -> anyhow::Result<Self> {
        let metrics = telemetry::metrics().map_err(|err| anyhow!(err))?;
        let provider = default_provider();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        // Addresses first: a port in use must not touch the store of the process that uses it.
        let mut bound = Vec::new();
        for listener in &config.gateway.listeners {
            let Place::Tcp(addresses) = &listener.place else {
                anyhow::bail!("{}: Unix sockets come later", listener.setting)
            };
            let listeners = listener::bind(addresses, &listener.setting)?;
            bound.extend(listeners.into_iter().map(|socket| (socket, listener.name.clone())));
        }
        let admin = match &config.admin {
            Some(admin) => {
                let token = strong_secret(&admin.token_file).context("admin.token_file")?;
                Some((listener::bind(&admin.addresses, "admin.address")?, token))
            }
            None => None,
        };
        let authority = Arc::new(config.sessions.start(provider, clock.clone()).await?);
        let gateway = GatewayService(Arc::new(
            config.gateway.start(authority.clone(), provider, &clock).map_err(|err| anyhow!(err))?,
        ));
        let shutdown = Shutdown::new();
        let mut addresses = Vec::new();
        for (socket, name) in bound {
            addresses.push(socket.local_addr()?);
            shutdown.spawn(http::serve(socket, name, gateway.clone(), config.gateway.http, shutdown.clone()));
        }
        let mut admin_addresses = Vec::new();
        if let Some((sockets, token)) = admin {
            let render = metrics.clone();
            let admin = Admin::new(authority.clone(), token, Arc::new(move || render.render()));
            let service = hyper::service::service_fn(move |request| {
                let admin = admin.clone();
                async move { Ok(admin.handle(request).await) }
            });
            for socket in sockets {
                admin_addresses.push(socket.local_addr()?);
                let limits = http::HttpLimits { connections_max: 64, ..config.gateway.http };
                shutdown.spawn(http::serve(socket, "admin".into(), service.clone(), limits, shutdown.clone()));
            }
        }
        let (upkept, stop) = (authority.clone(), shutdown.clone());
        shutdown.spawn(async move {
            let mut tick = tokio::time::interval(MAINTENANCE);
            loop {
                tokio::select! {
                    _ = tick.tick() => {
                        upkept.maintain().await;
                        metrics.run_upkeep();
                    }
                    () = stop.begun() => return,
                }
            }
        });
        Ok(Running { addresses, admin_addresses, authority, shutdown })
    }

    /// Accepts nothing new, answers what is in flight, and drops what is left after `drain`. What the store still has to
    /// write is written before this returns.
    pub(crate) async fn stop(self, drain: Duration) {
        let left = self.shutdown.drain(drain).await;
        if left > 0 {
            tracing::warn!(left, "some connections were still busy and were closed");
        }
        tracing::info!("stopped");
    }
}
