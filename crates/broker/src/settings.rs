//! Settings of a broker at its start: flags override the environment, whose names are those of the broker that this one
//! replaces. All invalid values are reported at once, each with its name.

mod environment;
mod exports;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sealway_pkcs11::Uri;
use sealway_runtime::telemetry::{Exports, Slog};

use crate::audit::Durability;
use crate::keys::is_key_id;
use crate::profile::RequireFips;
use crate::server::Limits;
use crate::socket::{self, Place};
use crate::wire::{Options, transit};
pub use environment::Environment;
pub(crate) use environment::KEK;

/// Name of the file in `CRYPTO_BROKER_PROFILES_DIR`.
const PROFILES_FILE: &str = "Profiles.yaml";

/// Flags of the command line; absent ones have their default.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// Value of `--socket`: path of the socket; `None` if the flag is absent.
    pub socket: Option<PathBuf>,
    /// True if `--shared-folder` is given.
    pub is_folder_shared: bool,
    /// Value of `--profiles`: file of the profiles; `None` if the flag is absent.
    pub profiles: Option<PathBuf>,
    /// True if `--lenient` is given.
    pub is_lenient: bool,
    /// Value of `--keys`: folder of the key store; `None` if the flag is absent.
    pub keys: Option<PathBuf>,
    /// Value of `--kek-file`: file of the key-encryption keys; `None` if the flag is absent.
    pub kek: Option<PathBuf>,
    /// Values of `--pkcs11`: URIs of tokens, each with `module-path` and `pin-source`; empty if the flag is absent.
    pub pkcs11: Vec<String>,
    /// Value of `--kek-pkcs11`: URI of the key-encryption key on a token; `None` if the flag is absent.
    pub kek_pkcs11: Option<String>,
    /// Value of `--pkcs11-generate`: URI of the token on which keys are generated; `None` if the flag is absent.
    pub pkcs11_generate: Option<String>,
    /// Value of `--audit`: file of the audit log; `None` if the flag is absent.
    pub audit: Option<PathBuf>,
    /// Value of `--audit-interval-ms`: longest time until an audit line is on the disk, in milliseconds; `None` if the
    /// flag is absent.
    pub audit_interval_ms: Option<u64>,
    /// Value of `--callers`: file of the rules for callers; `None` if the flag is absent.
    pub callers: Option<PathBuf>,
    /// Value of `--inventory`: folder of the inventory of cryptography; `None` if the flag is absent.
    pub inventory: Option<PathBuf>,
    /// Value of `--metrics`: address and port of the metrics endpoint; `None` if the flag is absent.
    pub metrics: Option<SocketAddr>,
    /// Value of `--transit`: address and port of the transit API; `None` if the flag is absent.
    pub transit: Option<SocketAddr>,
    /// Value of `--transit-tokens`: file of the API's tokens; `None` if the flag is absent.
    pub transit_tokens: Option<PathBuf>,
    /// Value of `--transit-mount`: name of the API's mount; `None` if the flag is absent.
    pub transit_mount: Option<String>,
    /// True if `--dev` is given.
    pub is_dev: bool,
    /// True if `--no-compat` is given.
    pub has_no_compat: bool,
    /// Value of `--require-fips`: requirement for a FIPS module; `None` if the flag is absent.
    pub fips: Option<RequireFips>,
}

/// Checked settings of a broker.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Path and link of the socket.
    pub place: Place,
    /// File of the profiles, in YAML; at most 1 MiB.
    pub profiles: PathBuf,
    /// True if unknown keys in the profiles are warnings, not errors.
    pub is_lenient: bool,
    /// Folder of the key store; `None` for no store.
    pub keys: Option<PathBuf>,
    /// File of the key-encryption keys; `None` for the environment variable.
    pub kek: Option<PathBuf>,
    /// Tokens of PKCS#11, with module and PIN.
    pub pkcs11: Vec<sealway_pkcs11::Options>,
    /// URI of the key-encryption key on a token; `None` for the file or the environment variable.
    pub kek_pkcs11: Option<String>,
    /// URI of the token on which keys are generated; `None` for the store.
    pub pkcs11_generate: Option<String>,
    /// File of the audit log; `None` for no log.
    pub audit: Option<PathBuf>,
    /// Durability of the audit log's lines.
    pub durability: Durability,
    /// File of the rules for callers.
    pub callers: Option<PathBuf>,
    /// Folder of the inventory of cryptography; `None` for counts in memory alone.
    pub inventory: Option<PathBuf>,
    /// Address of the metrics endpoint; `None` for no endpoint.
    pub metrics: Option<SocketAddr>,
    /// The transit API; `None` if it is off.
    pub transit: Option<TransitSettings>,
    /// True if the wires W0 to W2 are served.
    pub has_earlier_wires: bool,
    /// True if Benchmark and FakeEndpoint are served.
    pub is_dev: bool,
    /// Bounds on connections and their calls.
    pub limits: Limits,
    /// Memory of the calls of all connections together, in bytes.
    pub calls_memory: usize,
    /// Requirement for a FIPS module.
    pub fips: RequireFips,
    /// Value of `service` in logs and of `service.name` in traces.
    pub service: String,
    /// Format, level and output of the log.
    pub log: Slog,
    /// Exporters of spans, metrics and log records.
    pub exports: Exports,
    /// Configured inputs of the benchmark.
    pub benchmark: BenchmarkFiles,
    /// Warnings for the log: settings without effect.
    pub warnings: Vec<String>,
}

/// Checked settings of the transit API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransitSettings {
    /// Loopback address and port of the listener.
    pub address: SocketAddr,
    /// File of the hashes of tokens.
    pub tokens: PathBuf,
    /// Name of the mount: 1 to 64 letters, digits, `.`, `_` or `-`.
    pub mount: String,
}

/// PEM texts or paths of PEM files, as configured.
#[derive(Clone, Default)]
pub struct BenchmarkFiles {
    /// Certificate of the CA that the benchmark signs with.
    pub ca_certificate: Option<String>,
    /// Private key of the CA, a secret.
    pub private_key: Option<String>,
    /// Certificate signing request that the benchmark signs.
    pub csr: Option<String>,
}

impl std::fmt::Debug for BenchmarkFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BenchmarkFiles").finish_non_exhaustive()
    }
}

impl Settings {
    /// Reads settings: flags override the environment.
    ///
    /// # Errors
    /// All invalid values, each with its name.
    pub fn read(flags: Flags, environment: Environment) -> Result<Settings, Vec<String>> {
        let mut read = environment;
        let is_dev = read.choice("APP_ENV", &[("prod", false), ("dev", true)], false) || flags.is_dev;
        let log = Slog {
            level: read
                .choice("LOG_LEVEL", &["debug", "info", "warn", "error"].map(|level| (level, level)), "info")
                .into(),
            is_json: read.choice("LOG_FORMAT", &[("json", true), ("text", false)], true),
            is_on_stderr: read.choice("LOG_OUTPUT", &[("stdout", false), ("stderr", true)], false),
        };
        let limits = limits(&mut read);
        let calls_memory = calls_memory(&mut read);
        let metrics =
            flags.metrics.or_else(|| read.parsed("METRICS_ADDR", "an address and port, such as 127.0.0.1:9464"));
        let transit = transit(&flags, &mut read);
        let words = [("false", RequireFips::No), ("true", RequireFips::Yes), ("strict", RequireFips::Strict)];
        let asked = read.choice("REQUIRE_FIPS", &words, RequireFips::No);
        let fips = flags.fips.unwrap_or(asked);
        let has_compat = read.choice("COMPAT", &[("true", true), ("false", false)], true) && !flags.has_no_compat;
        let benchmark = BenchmarkFiles {
            ca_certificate: read.text("BENCHMARKING_SIGNCERTIFICATE_CA_CERT"),
            private_key: read.text("BENCHMARKING_SIGNCERTIFICATE_PRIVATE_KEY"),
            csr: read.text("BENCHMARKING_SIGNCERTIFICATE_CSR"),
        };
        let service = read.exact("OTEL_SERVICE_NAME").unwrap_or_else(|| "crypto-broker-server".into());
        let exports = exports::read(&mut read);
        let profiles = flags.profiles.or_else(|| profiles(&mut read));
        let durability = durability(flags.audit_interval_ms, &mut read);
        let pkcs11 = pkcs11(flags.pkcs11, &mut read);
        let kek_pkcs11 = flags.kek_pkcs11.or_else(|| read.text("KEK_PKCS11"));
        let pkcs11_generate = flags.pkcs11_generate.or_else(|| read.text("PKCS11_GENERATE"));
        let file = |flag: Option<PathBuf>, name: &str| flag.or_else(|| read.text(name).map(PathBuf::from));
        let (keys, kek) = (file(flags.keys, "KEYS"), file(flags.kek, "KEK_FILE"));
        let (audit, callers) = (file(flags.audit, "AUDIT"), file(flags.callers, "CALLERS"));
        let inventory = file(flags.inventory, "INVENTORY");
        let path = file(flags.socket, "SOCKET").unwrap_or_else(|| socket::DEFAULT_PATH.into());
        let is_folder_shared =
            read.choice("SHARED_FOLDER", &[("true", true), ("false", false)], false) || flags.is_folder_shared;
        without_effect(&mut read);
        let link = (has_compat && path == Path::new(socket::DEFAULT_PATH)).then(|| PathBuf::from(socket::W0_PATH));
        let (problems, warnings) = read.end();
        let (true, Some(profiles)) = (problems.is_empty(), profiles) else { return Err(problems) };
        Ok(Settings {
            place: Place { path, link, is_folder_shared },
            profiles,
            is_lenient: flags.is_lenient,
            keys,
            kek,
            pkcs11,
            kek_pkcs11,
            pkcs11_generate,
            audit,
            durability,
            callers,
            inventory,
            metrics,
            transit,
            has_earlier_wires: has_compat,
            is_dev,
            limits,
            calls_memory,
            fips,
            service,
            log,
            exports,
            benchmark,
            warnings,
        })
    }
}

/// The transit API: on a loopback address alone, as it has no TLS, and with tokens.
fn transit(flags: &Flags, read: &mut Environment) -> Option<TransitSettings> {
    const ADDRESS: &str = "TRANSIT_ADDR";
    const TOKENS: &str = "TRANSIT_TOKENS";
    const MOUNT: &str = "TRANSIT_MOUNT";
    let address = flags.transit.or_else(|| read.parsed(ADDRESS, "an address and port, such as 127.0.0.1:8200"));
    let tokens = flags.transit_tokens.clone().or_else(|| read.text(TOKENS).map(PathBuf::from));
    let mount = flags.transit_mount.clone().or_else(|| read.text(MOUNT)).unwrap_or_else(|| transit::MOUNT.into());
    let address = address?;
    if !address.ip().is_loopback() {
        read.problem(ADDRESS, "expected a loopback address: the API has no TLS");
    }
    if !is_key_id(&mount) {
        read.problem(MOUNT, "expected 1 to 64 letters, digits, '.', '_' or '-'");
    }
    if tokens.is_none() {
        read.problem(TOKENS, "required with --transit: a file that `sealway broker token` makes");
    }
    Some(TransitSettings { address, tokens: tokens?, mount })
}

/// Arguments that make this program the host of a token's module.
const PKCS11_HOST: [&str; 2] = ["broker", "pkcs11-host"];

/// Tokens of PKCS#11: each URI names the token, its module and the source of its PIN.
fn pkcs11(flags: Vec<String>, read: &mut Environment) -> Vec<sealway_pkcs11::Options> {
    const NAME: &str = "PKCS11";
    let uris = match flags.is_empty() {
        true => read.text(NAME).unwrap_or_default().split_ascii_whitespace().map(str::to_owned).collect(),
        false => flags,
    };
    let deadline = Duration::from_millis(read.within("PKCS11_TIMEOUT_MS", 100..=600_000).unwrap_or(5_000));
    let sessions = read.within("PKCS11_SESSIONS", 1..=64).unwrap_or(4);
    // The program of this process, also after its file was replaced.
    let program = match cfg!(target_os = "linux") {
        true => PathBuf::from("/proc/self/exe"),
        false => std::env::current_exe().unwrap_or_else(|_| "sealway".into()),
    };
    let mut tokens: Vec<sealway_pkcs11::Options> = Vec::new();
    for uri in uris {
        let parsed = match Uri::parse(&uri) {
            Ok(parsed) => parsed,
            Err(err) => {
                read.problem(NAME, &err.to_string());
                continue;
            }
        };
        if parsed.key().is_some() || parsed.kind.is_some() {
            read.problem(NAME, "expected the URI of a token, without object, id and type");
        }
        tokens.push(sealway_pkcs11::Options {
            uri: parsed,
            program: program.clone(),
            arguments: PKCS11_HOST.map(str::to_owned).into(),
            hidden: Vec::new(),
            deadline,
            sessions,
        });
    }
    let pins = tokens.iter().filter_map(|token| token.uri.pin_source.as_ref()?.variable().map(str::to_owned));
    let hidden: Vec<String> = pins.chain([KEK.to_owned()]).collect();
    tokens.iter_mut().for_each(|token| token.hidden.clone_from(&hidden));
    tokens
}

/// Bounds for calls of one connection, and for connections.
fn limits(read: &mut Environment) -> Limits {
    let default = Limits::default();
    Limits {
        streams_max: read.within("GRPC_MAX_CONCURRENT_STREAMS", 1..=u32::MAX).unwrap_or(default.streams_max),
        connections_max: read.within("CONNECTIONS_MAX", 16..=65_536).unwrap_or(default.connections_max),
        ..default
    }
}

/// Memory of calls, configured in MiB. Two of the largest calls have to fit, or every large call would be rejected.
fn calls_memory(read: &mut Environment) -> usize {
    let mib = read.within("CALLS_MEMORY_MIB", 8..=65_536_usize);
    mib.map_or(Options::CALLS_MEMORY, |mib| mib * 1024 * 1024)
}

/// Durability: each line before its answer, unless an interval is given.
fn durability(flag: Option<u64>, read: &mut Environment) -> Durability {
    const NAME: &str = "AUDIT_INTERVAL_MS";
    const EXPECTED: &str = "a number from 1 to 60000";
    match flag.or_else(|| read.parsed(NAME, EXPECTED)) {
        None => Durability::EachAnswer,
        Some(ms @ 1..=60_000) => Durability::Interval(Duration::from_millis(ms)),
        Some(_) => {
            read.problem(NAME, &format!("expected {EXPECTED}"));
            Durability::EachAnswer
        }
    }
}

/// Finds the file in the configured folder. Links must not lead out of the folder.
fn profiles(read: &mut Environment) -> Option<PathBuf> {
    const NAME: &str = "PROFILES_DIR";
    let Some(folder) = read.text(NAME).map(PathBuf::from) else {
        read.problem(NAME, "required: the folder of Profiles.yaml, or --profiles FILE");
        return None;
    };
    if !folder.is_absolute() {
        read.problem(NAME, "expected an absolute path");
        return None;
    }
    let file = folder.join(PROFILES_FILE);
    let within = folder.canonicalize().and_then(|folder| Ok(file.canonicalize()?.starts_with(folder)));
    match within {
        Ok(true) => Some(file),
        Ok(false) => {
            read.problem(NAME, "Profiles.yaml leads out of the folder");
            None
        }
        Err(err) => {
            read.problem(NAME, &format!("{}: {err}", file.display()));
            None
        }
    }
}

/// Warns of known variables without effect.
fn without_effect(read: &mut Environment) {
    if read.text("PPROF_ADDR").is_some() {
        read.warn("PPROF_ADDR", "there is no profiler in this broker");
    }
    if read.text("KMS_DIR").is_some() {
        read.warn("KMS_DIR", "keys come from the store that --keys names");
    }
}

#[cfg(test)]
mod tests;
