//! `sealway broker`: a broker that serves, and calls to one.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sealway_broker::profile::policy::{HashAlgorithm, Profile};
use sealway_broker::server::Server;
use sealway_broker::service::Service;
use sealway_broker::socket::{self, Place};
use sealway_broker::wire::{Options, Wires};
use sealway_runtime::shutdown::{Shutdown, StopSignals};
use sealway_runtime::telemetry::{self, Telemetry};

/// How long what is in flight may take at a stop.
const DRAIN: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Broker {
    /// Serve on a Unix socket
    Serve(Serve),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// The socket
    #[arg(long, value_name = "PATH", default_value = socket::DEFAULT_PATH)]
    socket: PathBuf,
    /// Others may write the socket's folder: a volume that only trusted containers reach
    #[arg(long)]
    shared_folder: bool,
}

pub(crate) async fn run(command: Broker) -> anyhow::Result<()> {
    match command {
        Broker::Serve(serve) => run_server(serve).await,
    }
}

async fn run_server(serve: Serve) -> anyhow::Result<()> {
    socket::keep_others_out();
    let telemetry = Telemetry { log_level: "info".into(), ..Telemetry::default() };
    let _telemetry = telemetry::init(&telemetry, "crypto-broker-server").map_err(|err| anyhow::anyhow!(err))?;
    let mut signals = StopSignals::install()?;
    let link = (serve.socket.as_os_str() == socket::DEFAULT_PATH).then(|| PathBuf::from(socket::W0_PATH));
    let place = Place { path: serve.socket, link, is_folder_shared: serve.shared_folder };
    let socket = socket::bind(&place)?;
    let service = Arc::new(Service::new([interim()]));
    let wires = Arc::new(Wires::new(service, Options { has_old_wires: true, is_dev: true }));
    let server = Server::start(socket, wires, 1024, Shutdown::new())?;
    tracing::info!(socket = %place.path.display(), "serving");
    let why = signals.stopped().await;
    tracing::info!(why, "stopping: what is in flight is answered");
    let dropped = server.stop(DRAIN).await;
    if dropped > 0 {
        tracing::warn!(dropped, "calls were dropped unanswered: they took too long");
    }
    Ok(())
}

/// Until profiles are loaded from their file (issue 6).
fn interim() -> Profile {
    Profile {
        name: "Default".into(),
        deprecation: None,
        hash: Some(HashAlgorithm::Sha3_512),
        certificate: None,
        encrypt: None,
        sign: None,
        sign_key_size: None,
        mac: None,
        derive: None,
        random: true,
        kem: None,
    }
}
