//! `sealway serve`: from a checked configuration to listeners that answer, and back to a clean end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use sealway_gateway::server::{Bound, Fresh, Parts, Reread, Server};
use sealway_proto::crypto::default_provider;
use sealway_runtime::clock::{Clock, SystemClock};
use sealway_runtime::listener::BoundUnix;
use sealway_runtime::shutdown::{Shutdown, StopSignals};
use sealway_runtime::telemetry;
use sealway_sessions::Authority;
use sealway_sessions::admin::RenderMetrics;

use crate::args;
use crate::config::{self, RawServe, ServeConfig, Source};
use crate::operator_listeners::{AdminListener, MetricsListener};

/// How often expired sessions are purged and gauges set.
const MAINTENANCE: Duration = Duration::from_secs(10);

/// Runs until a signal.
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
    running.server.show(shown);
    let (addresses, admin, metrics) =
        (running.server.addresses(), &running.admin_addresses, &running.metrics_addresses);
    tracing::info!(?addresses, ?admin, ?metrics, version = env!("CARGO_PKG_VERSION"), "serving");
    let why = until_stopped(&mut signals, &running.server).await;
    let delay = running.server.stop_delay();
    if !delay.is_zero() {
        tracing::info!(why, ?delay, "stopping: /ready says so, and all is still served");
        running.authority.announce_stop();
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            _ = signals.stopped() => {}
        }
    }
    tracing::info!(why, "stopping: what is in flight is answered");
    running.stop().await;
    Ok(())
}

/// Serves, and reloads when told to, until something says stop; returns what.
async fn until_stopped(signals: &mut StopSignals, server: &Server) -> &'static str {
    loop {
        let (stops, why) = tokio::select! {
            signal = signals.next() => signal,
            () = server.drain_asked() => (true, "the admin listener"),
        };
        if stops {
            return why;
        }
        // The outcome is in the log.
        let _ = server.reload().await;
    }
}

/// How the configuration is read again.
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

/// What serves a configuration that no file holds.
pub(crate) fn never_reread() -> Reread {
    Box::new(|| Err("there is no configuration to read again".into()))
}

/// A server that is serving.
pub(crate) struct Running {
    /// Its listeners.
    pub(crate) server: Server,
    admin_addresses: Vec<SocketAddr>,
    metrics_addresses: Vec<SocketAddr>,
    /// Removed with it.
    _paths: [Option<BoundUnix>; 2],
    /// The sessions' authority.
    pub(crate) authority: Arc<Authority>,
}

impl Running {
    /// Binds everything, then serves. Nothing is left behind when a part fails.
    pub(crate) async fn start(config: &ServeConfig, reread: Reread) -> anyhow::Result<Self> {
        let metrics = telemetry::metrics().map_err(|err| anyhow!(err))?;
        telemetry::describe(sealway_runtime::http::METRICS);
        telemetry::describe(sealway_gateway::METRICS);
        telemetry::describe(sealway_sessions::METRICS);
        let provider = default_provider();
        telemetry::set_build_info(env!("CARGO_PKG_VERSION"), provider.name());
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        // Addresses first: a port in use must not touch the store of the process that uses it.
        let bound = Bound::bind(&config.gateway, &clock).map_err(|err| anyhow!(err))?;
        let admin = config.admin.as_ref().map(AdminListener::bind).transpose()?;
        let scraped = config.metrics.as_ref().map(MetricsListener::bind).transpose()?;
        let mut sessions = config.sessions.clone();
        crate::kek::plug_broker(&mut sessions).await?;
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
        Ok(Running { server, admin_addresses, metrics_addresses, _paths: paths, authority })
    }

    /// Accepts nothing new, answers what is in flight, and drops what is left after `limits.drain_ms`. What the store still
    /// has to write is written before this returns.
    pub(crate) async fn stop(self) {
        let left = self.server.drain().await;
        if left > 0 {
            tracing::warn!(left, "some connections were still busy and were closed");
        }
        tracing::info!("stopped");
    }
}
