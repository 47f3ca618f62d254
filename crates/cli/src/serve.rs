//! `sealway serve`: starts the listeners of a checked configuration, and stops them in order.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use sealway_gateway::server::{BoundListeners, Fresh, Parts, Reread, Server};
use sealway_proto::crypto::default_provider;
use sealway_runtime::clock::{Clock, SystemClock};
use sealway_runtime::inventory::{self, Keeper};
use sealway_runtime::listener::BoundUnix;
use sealway_runtime::shutdown::{Shutdown, StopSignals};
use sealway_runtime::telemetry;
use sealway_sessions::Authority;
use sealway_sessions::admin::RenderMetrics;

use crate::args;
use crate::config::{self, RawServe, ServeConfig, Source};
use crate::operator_listeners::{AdminListener, MetricsListener};

/// Interval at which expired sessions are purged and gauges set.
const MAINTENANCE: Duration = Duration::from_secs(10);

/// Serves until a signal or the admin listener stops it.
pub(crate) async fn run(args: args::Serve) -> anyhow::Result<()> {
    let source = match args.config {
        _ if args.litegateway => Source::LiteGateway { echo: args.standalone == Some(args::Standalone::Echo) },
        Some(file) => Source::File(file),
        None => Source::BuiltIn,
    };
    let (raw, mut warnings) = config::load(&source)?;
    let config = config::resolve(&raw, source.file())?;
    let _telemetry = telemetry::init(&config.telemetry, "sealway").map_err(|err| anyhow!(err))?;
    if matches!(source, Source::BuiltIn) {
        warnings.push("no --config: serving the built-in one, with the demo service behind".into());
    }
    for warning in warnings.iter().chain(&config.warnings) {
        tracing::warn!("{warning}");
    }
    let mut signals = StopSignals::install()?;
    let shown = config::redacted(&raw)?;
    let started = Running::start(&config, reread(raw.clone(), source.clone())).await;
    let running = started.map_err(|err| source.explain(&raw, err))?;
    // Its keys on tokens would keep host processes running that no listener uses after a reload.
    drop(config);
    running.server.show(shown);
    let (addresses, admin, metrics) =
        (running.server.addresses(), &running.admin_addresses, &running.metrics_addresses);
    tracing::info!(?addresses, ?admin, ?metrics, version = env!("CARGO_PKG_VERSION"), "serving");
    let why = until_stopped(&mut signals, &running.server).await;
    let delay = running.server.stop_delay();
    if !delay.is_zero() {
        tracing::info!(why, ?delay, "stopping: /ready reports it; requests are still served");
        running.authority.announce_stop();
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            _ = signals.stopped() => {}
        }
    }
    tracing::info!(why, "stopping: answering the requests in flight");
    running.stop().await;
    Ok(())
}

/// Waits for a stop, and returns its cause; reloads on other signals.
async fn until_stopped(signals: &mut StopSignals, server: &Server) -> &'static str {
    loop {
        let (stops, why) = tokio::select! {
            signal = signals.next() => signal,
            () = server.drain_asked() => (true, "the admin listener"),
        };
        if stops {
            return why;
        }
        // The log has the outcome.
        let _ = server.reload().await;
    }
}

/// Returns the function that reloads the configuration.
fn reread(started_with: RawServe, source: Source) -> Reread {
    Box::new(move || {
        let (raw, mut warnings) = config::load(&source).map_err(|err| format!("{err:#}"))?;
        let config = config::resolve(&raw, source.file()).map_err(|err| format!("{err:#}"))?;
        warnings.extend(config.warnings);
        let shown = config::redacted(&raw).map_err(|err| format!("{err:#}"))?;
        let needs_restart = config::needs_restart(&started_with, &raw);
        Ok(Fresh { config: config.gateway, shown, needs_restart, warnings })
    })
}

/// Returns a reload function for a configuration without a file, which fails.
pub(crate) fn never_reread() -> Reread {
    Box::new(|| Err("there is no configuration to read again".into()))
}

/// A running server with its listeners.
pub(crate) struct Running {
    /// Server of the gateway's listeners.
    pub(crate) server: Server,
    admin_addresses: Vec<SocketAddr>,
    metrics_addresses: Vec<SocketAddr>,
    /// Sockets' paths, removed with the server.
    _paths: [Option<BoundUnix>; 2],
    /// Authority that agrees and stores sessions.
    pub(crate) authority: Arc<Authority>,
    /// Keeper of the inventory's file, if there is one.
    keeper: Option<Arc<Keeper>>,
}

/// Takes a file of the inventory's folder.
fn keep_inventory(folder: &Path, clock: &Arc<dyn Clock>) -> anyhow::Result<Arc<Keeper>> {
    let keeper = Keeper::open(folder, "gateway", inventory::install(), clock.clone());
    Ok(Arc::new(keeper.context("telemetry.inventory_folder")?))
}

impl Running {
    /// Binds all listeners, then serves. If a part fails, nothing is left behind.
    pub(crate) async fn start(config: &ServeConfig, reread: Reread) -> anyhow::Result<Self> {
        let metrics = telemetry::metrics().map_err(|err| anyhow!(err))?;
        telemetry::describe(sealway_runtime::http::METRICS);
        telemetry::describe(sealway_gateway::METRICS);
        telemetry::describe(sealway_gateway::PKCS11_METRICS);
        telemetry::describe(sealway_sessions::METRICS);
        let provider = default_provider();
        telemetry::set_build_info(env!("CARGO_PKG_VERSION"), provider.name());
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        inventory::install();
        // Addresses are bound first: a port in use must not touch the store of the process that uses it.
        let bound = BoundListeners::bind(&config.gateway, &clock).map_err(|err| anyhow!(err))?;
        let admin = config.admin.as_ref().map(AdminListener::bind).transpose()?;
        let scraped = config.metrics.as_ref().map(MetricsListener::bind).transpose()?;
        let mut sessions = config.sessions.clone();
        crate::kek::plug_broker(&mut sessions).await?;
        let keeper = config.telemetry.inventory.as_deref().map(|folder| keep_inventory(folder, &clock)).transpose()?;
        let authority = Arc::new(sessions.start(provider, clock.clone()).await?);
        let shutdown = Shutdown::new();
        let parts = Parts { authority: authority.clone(), provider, clock };
        let server = Server::start(bound, &config.gateway, parts, reread, shutdown.clone());
        let server = server.map_err(|err| anyhow!(err))?;
        let admin_addresses = admin.as_ref().map(|admin| admin.addresses().to_vec()).unwrap_or_default();
        let metrics_addresses = scraped.as_ref().map(|scraped| scraped.addresses().to_vec()).unwrap_or_default();
        let handle = metrics.clone();
        let render: RenderMetrics = Arc::new(move || {
            telemetry::set_process_metrics();
            handle.render()
        });
        let limits = config.gateway.http;
        let paths = [
            admin.and_then(|admin| admin.serve(&server, render.clone(), limits)),
            scraped.and_then(|scraped| scraped.serve(&server, render, limits)),
        ];
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
        if let Some(keeper) = &keeper {
            shutdown.spawn(keeper.clone().run(shutdown.clone()));
        }
        Ok(Running { server, admin_addresses, metrics_addresses, _paths: paths, authority, keeper })
    }

    /// Stops accepting, drains running requests, and drops the rest after `limits.drain_ms`. Pending writes of the
    /// store are complete when this returns.
    pub(crate) async fn stop(self) {
        let left = self.server.drain().await;
        if left > 0 {
            tracing::warn!(left, "closed connections that were still busy");
        }
        if let Some(Err(err)) = self.keeper.map(|keeper| keeper.close()) {
            tracing::error!(%err, "the last counts of the inventory were not written");
        }
        tracing::info!("stopped");
    }
}
