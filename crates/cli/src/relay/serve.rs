//! `sealway relay serve`: starts a relay, and stops it in order.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use sealway_proto::relay::CloseReasons;
use sealway_relay::server::Server;
use sealway_relay::settings::{Limits, NodeFiles, Settings, Sharing};
use sealway_runtime::clock::SystemClock;
use sealway_runtime::redis;
use sealway_runtime::shutdown::StopSignals;
use sealway_runtime::telemetry::{self, LogFormat, Telemetry};
use sealway_runtime::tls::ServerFiles;
use tokio::signal::unix::{SignalKind, signal};

use super::NAME_LEN_MAX;
use crate::flags::{self, Addresses};
use sealway_runtime::output::{Usage, out};

/// Spelling of reasons in close frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Reasons {
    /// "invalid token"
    Words,
    /// invalid_token
    Tokens,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Address and port; plain WebSockets are for loopback, or for a proxy in front that has TLS
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = flags::addresses)]
    listen: Addresses,
    /// The path of the WebSocket
    #[arg(long, value_name = "PATH", default_value = "/ws", value_parser = flags::path_of_url)]
    ws_path: String,
    /// The keyset of issuers; read again when it changes, and on SIGHUP
    #[arg(long, value_name = "FILE")]
    issuer_keys_file: PathBuf,
    /// An audience that tokens must be for; may be given several times
    #[arg(long, value_name = "NAME", required = true, value_parser = flags::text(NAME_LEN_MAX))]
    aud: Vec<String>,
    /// An issuer whose tokens are taken; may be given several times; without one, all of the keyset's
    #[arg(long, value_name = "NAME")]
    iss: Vec<String>,
    /// An origin that is allowed: a whole value byte for byte, a host, a host and port, or *.HOST; may be given several times
    #[arg(long, value_name = "ORIGIN", value_parser = flags::origin)]
    allow_origin: Vec<String>,
    /// Allow requests without Origin, which are from no page
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    allow_no_origin: bool,
    /// A certificate chain in PEM: the relay serves wss://
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its key in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Form of the reasons in close frames
    #[arg(long, value_enum, default_value_t = Reasons::Words)]
    close_reasons: Reasons,
    /// The code of "replace rate limited"
    #[arg(long, value_name = "CODE", default_value_t = 1013, value_parser = flags::whole::<u16>(1000..=4999))]
    replace_close_code: u16,
    /// Serve metrics under the names of Flowersec v1 too; SIGUSR1 and SIGUSR2 then switch /metrics on and off
    #[arg(long)]
    metrics_compat: bool,
    #[command(flatten)]
    nodes: Nodes,
    #[command(flatten)]
    bounds: Bounds,
    /// Filter of the log: info, or warn,sealway_relay=debug
    #[arg(long, value_name = "FILTER", default_value = "info")]
    log_level: String,
    /// Logs as JSON
    #[arg(long)]
    log_json: bool,
}

/// Several nodes for one set of channels.
#[derive(Debug, clap::Args)]
struct Nodes {
    /// The Redis that all nodes share: redis://USER:PASSWORD@HOST:PORT, redis-cluster://HOST:PORT,HOST:PORT, or
    /// redis+sentinel://HOST:PORT,HOST:PORT/MASTER; rediss… for TLS
    #[arg(
        long,
        value_name = "URL",
        env = "SEALWAY_RELAY_REDIS_URL",
        hide_env_values = true,
        requires_all = ["node_cert", "node_key", "node_ca", "node_name"]
    )]
    redis_url: Option<String>,
    /// Prefix of all keys in Redis
    #[arg(long, value_name = "PREFIX", default_value = "sealway")]
    redis_prefix: String,
    /// The authorities of Redis' certificate, in PEM; those of the system without
    #[arg(long, value_name = "FILE", requires = "redis_url")]
    redis_ca: Option<PathBuf>,
    /// Replicas that must confirm each attach; without, half of those that Sentinel knows, and none without Sentinel
    #[arg(long, value_name = "COUNT", requires = "redis_url", value_parser = flags::whole::<usize>(0..=100))]
    redis_min_replicas: Option<usize>,
    /// Address that this node listens on for the other nodes
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = flags::address)]
    node_listen: SocketAddr,
    /// The address that the others reach it by; the one it listens on without
    #[arg(long, value_name = "ADDRESS")]
    node_advertise: Option<String>,
    /// This node's certificate chain in PEM, for TLS with the other nodes as a server and as a client; read again when it changes
    #[arg(long, value_name = "FILE", requires = "redis_url")]
    node_cert: Option<PathBuf>,
    /// The key of the node's certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "node_cert")]
    node_key: Option<PathBuf>,
    /// The authorities of the nodes' certificates, in PEM
    #[arg(long, value_name = "FILE", requires = "node_cert")]
    node_ca: Option<PathBuf>,
    /// The DNS name that the certificate of every node has
    #[arg(long, value_name = "NAME", requires = "node_cert", value_parser = flags::text(253))]
    node_name: Option<String>,
}

impl Nodes {
    fn sharing(&self) -> anyhow::Result<Option<Sharing>> {
        let (Some(url), Some(cert), Some(key), Some(ca), Some(name)) =
            (&self.redis_url, &self.node_cert, &self.node_key, &self.node_ca, &self.node_name)
        else {
            return Ok(None);
        };
        let mut redis =
            redis::Settings::parse_url(url).map_err(|err| anyhow!("--redis-url: {}", after_subject(&err.0)))?;
        if let Some(ca) = &self.redis_ca {
            let tls = redis.tls.as_mut().context("--redis-ca: the connection is not encrypted; write rediss://")?;
            tls.ca = Some(ca.clone());
            redis.certificates().map_err(|err| anyhow!("--redis-ca: {}", after_subject(&err.0)))?;
        }
        Ok(Some(Sharing {
            redis,
            prefix: self.redis_prefix.clone(),
            min_replicas: self.redis_min_replicas,
            listen: self.node_listen,
            advertise: self.node_advertise.clone(),
            files: NodeFiles { cert: cert.clone(), key: key.clone(), ca: ca.clone(), name: name.clone() },
            dialer: None,
        }))
    }
}

/// Removes `Redis URL: ` or `Redis TLS: `, which the flag says.
fn after_subject(message: &str) -> &str {
    message.split_once(": ").map_or(message, |(_, rest)| rest)
}

/// Bounds.
#[derive(Debug, clap::Args)]
struct Bounds {
    /// Connections at once; 0 for the default
    #[arg(long, value_name = "COUNT", default_value_t = 4096, value_parser = flags::whole::<usize>(0..=u64::MAX))]
    max_conns: usize,
    /// Channels at once; 0 for the default
    #[arg(long, value_name = "COUNT", default_value_t = 2048, value_parser = flags::whole::<usize>(0..=u64::MAX))]
    max_channels: usize,
    /// Channels at once of one audience and issuer; 0 for no bound
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = flags::whole::<usize>(0..=u64::MAX))]
    max_channels_per_tenant: usize,
    /// Connections at once of one address; 0 for no bound
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = flags::whole::<usize>(0..=u64::MAX))]
    max_conns_per_address: usize,
    /// Bound of all data that waits in memory, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = flags::whole::<u64>(1..=1_048_576))]
    max_waiting_mib: u64,
    /// Used tokens that are remembered at once; more are refused
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000, value_parser = flags::whole::<usize>(0..=u64::MAX))]
    max_remembered_tokens: usize,
    /// The longest life of a token, in seconds; 0 for any
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = flags::whole::<u32>(0..=u32::MAX.into()))]
    max_token_lifetime_s: u32,
    /// Longest time of a channel without a message, in seconds, if its token sets none
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = flags::whole::<u32>(1..=86_400))]
    idle_timeout_s: u32,
    /// Silence after which an endpoint is pinged, in seconds; after three times as long it is disconnected
    #[arg(long, value_name = "SECONDS", default_value_t = 25, value_parser = flags::whole::<u32>(1..=3600))]
    keepalive_s: u32,
    /// Time between SIGTERM and the close frames to open channels, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = flags::whole::<u32>(0..=3600))]
    drain_s: u32,
    #[arg(long, hide = true, default_value_t = 10_000)]
    attach_timeout_ms: u64,
    #[arg(long, hide = true, default_value_t = 10_000)]
    write_timeout_ms: u64,
    #[arg(long, hide = true, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    tick_ms: u64,
    #[arg(long, hide = true)]
    idle_timeout_ms: Option<u64>,
    #[arg(long, hide = true)]
    keepalive_ms: Option<u64>,
}

impl Bounds {
    fn limits(&self) -> Limits {
        let seconds = |seconds: u32| Duration::from_secs(u64::from(seconds));
        let or = |ms: Option<u64>, otherwise: u32| ms.map_or(seconds(otherwise), Duration::from_millis);
        let default = Limits::default();
        let or_default = |bound: usize, default: usize| if bound == 0 { default } else { bound };
        let mib = usize::try_from(self.max_waiting_mib).unwrap_or(usize::MAX);
        Limits {
            connections_max: or_default(self.max_conns, default.connections_max),
            channels_max: or_default(self.max_channels, default.channels_max),
            channels_per_tenant_max: self.max_channels_per_tenant,
            connections_per_address_max: self.max_conns_per_address,
            waiting_bytes_max: mib.saturating_mul(1024 * 1024),
            replays_max: self.max_remembered_tokens,
            token_lifetime_max_s: i64::from(self.max_token_lifetime_s),
            attach_timeout: Duration::from_millis(self.attach_timeout_ms),
            idle_timeout: or(self.idle_timeout_ms, self.idle_timeout_s),
            write_timeout: Duration::from_millis(self.write_timeout_ms),
            keepalive: or(self.keepalive_ms, self.keepalive_s),
            tick: Duration::from_millis(self.tick_ms),
            drain: seconds(self.drain_s),
            ..default
        }
    }
}

impl Serve {
    fn settings(&self) -> anyhow::Result<Settings> {
        let tls =
            self.tls_cert.clone().map(|cert| ServerFiles { cert, key: self.tls_key.clone(), ..Default::default() });
        Ok(Settings {
            ws_path: self.ws_path.clone(),
            aud: self.aud.clone(),
            iss: self.iss.clone(),
            allow_origin: self.allow_origin.clone(),
            allow_no_origin: self.allow_no_origin,
            tls,
            close_reasons: match self.close_reasons {
                Reasons::Words => CloseReasons::Words,
                Reasons::Tokens => CloseReasons::Tokens,
            },
            replace_close_code: self.replace_close_code,
            metrics_compat: self.metrics_compat,
            sharing: self.nodes.sharing()?,
            limits: self.bounds.limits(),
            ..Settings::new(self.listen.0.clone(), &self.issuer_keys_file)
        })
    }
}

/// Serves until a signal arrives.
pub(super) async fn run(serve: Serve) -> anyhow::Result<()> {
    let log_format = if serve.log_json { LogFormat::Json } else { LogFormat::Text };
    let telemetry = Telemetry { log_format, log_level: serve.log_level.clone(), ..Telemetry::default() };
    let _telemetry =
        telemetry::init(&telemetry, "sealway-relay").map_err(|err| Usage::new(format_args!("--log-level: {err}")))?;
    let metrics = telemetry::metrics().map_err(|err| anyhow!(err))?;
    telemetry::describe(sealway_runtime::http::METRICS);
    telemetry::describe(sealway_relay::METRICS);
    let mut signals = StopSignals::install()?;
    let (mut shows, mut hides) = (signal(SignalKind::user_defined1())?, signal(SignalKind::user_defined2())?);
    let settings = serve.settings()?;
    let is_open = settings.tls.is_none() && settings.listen.iter().any(|address| !address.ip().is_loopback());
    let render = metrics.clone();
    let server = Server::start(settings, Arc::new(SystemClock), move || render.render()).await?;
    let listen = server.addresses().first().map(ToString::to_string).unwrap_or_default();
    let line = serde_json::json!({"listen": listen, "ws_path": server.ws_path()});
    // The reader of this line may have gone; the endpoints have not.
    let _ = writeln!(out(), "{line}");
    if is_open {
        tracing::warn!("plain WebSockets beyond loopback expose tokens; set --tls-cert");
    }
    tracing::info!(listen, version = env!("CARGO_PKG_VERSION"), "serving");
    let mut upkeep = tokio::time::interval(Duration::from_secs(10));
    loop {
        tokio::select! {
            (stops, why) = signals.next() => {
                if stops {
                    tracing::info!(why, "stopping: accepting no new connections");
                    break;
                }
                server.reload();
            }
            _ = shows.recv() => if serve.metrics_compat { server.show_metrics(true) },
            _ = hides.recv() => if serve.metrics_compat { server.show_metrics(false) },
            _ = upkeep.tick() => metrics.run_upkeep(),
        }
    }
    let told = server.stop().await;
    tracing::info!(told, "stopped");
    Ok(())
}
