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
    /// Path of the socket; by default CRYPTO_BROKER_SOCKET, else the path of the Open Crypto Broker
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Accept that others may write the socket's folder and those above --keys: volumes that only trusted containers reach
    #[arg(long)]
    shared_folder: bool,
    /// File of profiles; by default Profiles.yaml in CRYPTO_BROKER_PROFILES_DIR
    #[arg(long, value_name = "FILE")]
    profiles: Option<PathBuf>,
    /// Warn of unknown keys in files instead of rejecting them
    #[arg(long)]
    lenient: bool,
    /// Folder of the key store; by default there is no store
    #[arg(long, value_name = "FOLDER")]
    keys: Option<PathBuf>,
    /// File of the key-encryption keys; by default the variable CRYPTO_BROKER_KEK
    #[arg(long, value_name = "FILE", requires = "keys")]
    kek_file: Option<PathBuf>,
    /// URI of a PKCS#11 token (RFC 7512) with module-path and pin-source; may be given several times
    #[arg(long, value_name = "URI")]
    pkcs11: Vec<String>,
    /// URI of an AES key of 256 bits on a token: it wraps the keys of the store; those of --kek-file only unwrap then
    #[arg(long, value_name = "URI", requires = "keys")]
    kek_pkcs11: Option<String>,
    /// Generate the keys of the store on the token of this URI, which --pkcs11 has too
    #[arg(long, value_name = "URI", requires = "keys")]
    pkcs11_generate: Option<String>,
    /// Record every operation in this file before its answer
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
    /// Sync the audit log every MS milliseconds; by default before each answer
    #[arg(long, value_name = "MS", requires = "audit")]
    audit_interval_ms: Option<u64>,
    /// File of rules for callers; by default the section Callers of the profiles, else the socket's owner may do everything
    #[arg(long, value_name = "FILE")]
    callers: Option<PathBuf>,
    /// Keep the inventory of used cryptography in this folder, for `sealway inventory`
    #[arg(long, value_name = "FOLDER")]
    inventory: Option<PathBuf>,
    /// Serve metrics at http://ADDRESS/metrics
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Serve the transit API of Vault at http://ADDRESS, a loopback address
    #[arg(long, value_name = "ADDRESS")]
    transit: Option<SocketAddr>,
    /// File of the hashes of the transit API's tokens, as `sealway broker token` writes it
    #[arg(long, value_name = "FILE")]
    transit_tokens: Option<PathBuf>,
    /// Name of the transit API's mount: the first part of a path after /v1/; by default transit
    #[arg(long, value_name = "NAME")]
    transit_mount: Option<String>,
    /// Serve Benchmark and FakeEndpoint too
    #[arg(long)]
    dev: bool,
    /// Turn off the wires W0 to W2
    #[arg(long)]
    no_compat: bool,
    /// Require a validated module; "strict": and profiles that it approves as a whole
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
        pkcs11: serve.pkcs11,
        kek_pkcs11: serve.kek_pkcs11,
        pkcs11_generate: serve.pkcs11_generate,
        audit: serve.audit,
        audit_interval_ms: serve.audit_interval_ms,
        callers: serve.callers,
        inventory: serve.inventory,
        metrics: serve.metrics,
        transit: serve.transit,
        transit_tokens: serve.transit_tokens,
        transit_mount: serve.transit_mount,
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
