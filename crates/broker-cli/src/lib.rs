//! `sealway broker`: runs a broker, and makes calls to one. Two binaries have these commands: `sealway`, and the one
//! with a validated module.

mod ask;
mod files;
mod keys;
mod serve;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use sealway_broker::socket;
use sealway_client::broker::{Client, Options};

/// The commands.
#[derive(Debug, clap::Subcommand)]
pub enum Broker {
    /// Serve on a Unix socket
    Serve(Box<serve::Serve>),
    /// Digest texts or files under a profile
    Hash(ask::Hash),
    /// Have a certificate issued
    Sign(Box<ask::Sign>),
    /// Say whether a broker serves; the exit code says it too
    Health(Socket),
    /// Have a broker that was started with --dev time its operations; prints JSON
    Bench(Socket),
    /// Keys of the broker's store
    Keys {
        #[command(flatten)]
        socket: Socket,
        #[command(subcommand)]
        action: keys::Keys,
    },
    /// Files of profiles
    Profiles {
        #[command(subcommand)]
        action: files::Profiles,
    },
    /// Audit logs
    Audit {
        #[command(subcommand)]
        action: files::Audit,
    },
}

/// Which broker.
#[derive(Debug, clap::Args)]
pub struct Socket {
    /// The broker's socket
    #[arg(long, value_name = "PATH", env = "CRYPTO_BROKER_SOCKET", default_value = socket::DEFAULT_PATH)]
    socket: PathBuf,
    /// The user that the broker must run as, before it is sent anything
    #[arg(long, value_name = "UID", env = "CRYPTO_BROKER_UID")]
    broker_uid: Option<u32>,
    /// How long it may take, in milliseconds
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    timeout_ms: u64,
}

impl Socket {
    fn client(&self) -> Client {
        let deadline = Duration::from_millis(self.timeout_ms);
        Client::new(Options { deadline, broker_uid: self.broker_uid, ..Options::new(&self.socket) })
    }
}

/// Runs a command. [`Broker::Serve`] must run inside a multi-threaded tokio runtime, once per process.
///
/// # Errors
/// The command's errors, for [`sealway_runtime::output::failed`].
pub async fn run(command: Broker) -> anyhow::Result<ExitCode> {
    match command {
        Broker::Serve(serve) => return Ok(serve::run(*serve).await),
        Broker::Hash(hash) => ask::hash(hash).await?,
        Broker::Sign(sign) => ask::sign(*sign).await?,
        Broker::Health(socket) => return ask::health(&socket).await,
        Broker::Bench(socket) => ask::bench(&socket).await?,
        Broker::Keys { socket, action } => keys::run(&socket, action).await?,
        Broker::Profiles { action } => return files::profiles(action),
        Broker::Audit { action } => return files::audit(action),
    }
    Ok(ExitCode::SUCCESS)
}
