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
use sealway_runtime::shutdown::StopSignals;

/// Commands that run a broker, or call one.
#[derive(Debug, clap::Subcommand)]
pub enum Broker {
    /// Serve on a Unix socket
    Serve(Box<serve::Serve>),
    /// Digest texts or files under a profile
    Hash(ask::Hash),
    /// Issue a certificate under a profile
    Sign(Box<ask::Sign>),
    /// Print the status of a broker; the exit code is 0 if it serves
    Health(Socket),
    /// Measure the operations of a broker that runs with --dev; prints JSON
    Bench(Socket),
    /// Manage the keys of the broker's store
    Keys {
        #[command(flatten)]
        socket: Socket,
        #[command(subcommand)]
        action: keys::Keys,
    },
    /// Host the module of a PKCS#11 token, for the broker that starts this process
    #[command(hide = true)]
    Pkcs11Host,
    /// Generate a token for the transit API: prints it, and appends its hash to a file
    Token(files::Token),
    /// Check files of profiles
    Profiles {
        #[command(subcommand)]
        action: files::Profiles,
    },
    /// Verify audit logs
    Audit {
        #[command(subcommand)]
        action: files::Audit,
    },
}

/// Broker to call, and the time for it.
#[derive(Debug, clap::Args)]
pub struct Socket {
    /// Path of the broker's socket
    #[arg(long, value_name = "PATH", env = "CRYPTO_BROKER_SOCKET", default_value = socket::DEFAULT_PATH)]
    socket: PathBuf,
    /// User id that the broker must run as; checked before anything is sent
    #[arg(long, value_name = "UID", env = "CRYPTO_BROKER_UID")]
    broker_uid: Option<u32>,
    /// Longest time for the call, in milliseconds
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
        Broker::Pkcs11Host => {
            // Only the parent ends this process: a stop of the whole service lets operations in flight end.
            let _signals = StopSignals::install()?;
            tokio::task::spawn_blocking(sealway_pkcs11::run_host).await??;
        }
        Broker::Hash(hash) => ask::hash(hash).await?,
        Broker::Sign(sign) => ask::sign(*sign).await?,
        Broker::Health(socket) => return ask::health(&socket).await,
        Broker::Bench(socket) => ask::bench(&socket).await?,
        Broker::Keys { socket, action } => keys::run(&socket, action).await?,
        Broker::Token(token) => files::token(&token)?,
        Broker::Profiles { action } => return files::profiles(action),
        Broker::Audit { action } => return files::audit(action),
    }
    Ok(ExitCode::SUCCESS)
}
