//! The command `sealway broker serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use sealway_broker::profile::RequireFips;
use sealway_broker::serve::{self, Failure};
use sealway_broker::settings::{Environment, Flags, Settings};

use sealway_runtime::output::tell;

#[derive(Debug, clap::Args)]
pub struct Serve {
    /// The socket; without it CRYPTO_BROKER_SOCKET, or where clients of the Open Crypto Broker look
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Others may write the socket's folder: a volume that only trusted containers reach
    #[arg(long)]
    shared_folder: bool,
    /// The file of profiles; without it Profiles.yaml in CRYPTO_BROKER_PROFILES_DIR
    #[arg(long, value_name = "FILE")]
    profiles: Option<PathBuf>,
    /// Warn of unknown keys in files, and go on
    #[arg(long)]
    lenient: bool,
    /// The folder of the key store; without it there is none
    #[arg(long, value_name = "FOLDER")]
    keys: Option<PathBuf>,
    /// The file of the key that wraps the store's keys; without it the variable CRYPTO_BROKER_KEK
    #[arg(long, value_name = "FILE", requires = "keys")]
    kek_file: Option<PathBuf>,
    /// Write everything that is done into this file first
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
    /// Let answers leave when their lines are in that file, and put it on the disk each MS milliseconds
    #[arg(long, value_name = "MS", requires = "audit")]
    audit_interval_ms: Option<u64>,
    /// What callers may do; without it the profiles' file says so, or the socket's owner may do everything
    #[arg(long, value_name = "FILE")]
    callers: Option<PathBuf>,
    /// Tell metrics at http://ADDRESS/metrics
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Serve Benchmark and FakeEndpoint too
    #[arg(long)]
    dev: bool,
    /// Serve the wires W3 and W4 and our own, but not the older ones
    #[arg(long)]
    no_compat: bool,
    /// Start on a validated module alone; "strict": nor with a profile that it does not approve
    #[arg(long, value_name = "STRICT", num_args = 0..=1, default_missing_value = "true", value_parser = fips)]
    require_fips: Option<RequireFips>,
}

fn fips(text: &str) -> Result<RequireFips, String> {
    match text {
        "true" => Ok(RequireFips::Yes),
        "strict" => Ok(RequireFips::Strict),
        "false" => Ok(RequireFips::No),
        _ => Err("expected true, strict or false".into()),
    }
}

/// Serves until a signal arrives; returns the exit code.
pub(crate) async fn run(serve: Serve) -> ExitCode {
    let flags = Flags {
        socket: serve.socket,
        is_folder_shared: serve.shared_folder,
        profiles: serve.profiles,
        is_lenient: serve.lenient,
        keys: serve.keys,
        kek: serve.kek_file,
        audit: serve.audit,
        audit_interval_ms: serve.audit_interval_ms,
        callers: serve.callers,
        metrics: serve.metrics,
        is_dev: serve.dev,
        has_no_compat: serve.no_compat,
        fips: serve.require_fips,
    };
    let settings = Settings::read(flags, Environment::of_process());
    let served = match settings.map_err(|problems| Failure::wrong(problems.join("\n"))) {
        Ok(settings) => serve::run(settings).await,
        Err(failure) => Err(failure),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            tell(format_args!("sealway: {}", failure.text));
            ExitCode::from(failure.code)
        }
    }
}
