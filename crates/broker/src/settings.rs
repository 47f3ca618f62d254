//! What a broker is told at its start: flags over the environment, whose names are those of the broker that it replaces.
//! A value that cannot be is an error with its name, and all of them are told at once.

mod environment;
mod exports;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sealway_runtime::telemetry::{Exports, Slog};

use crate::audit::Durability;
use crate::profile::RequireFips;
use crate::server::Limits;
use crate::socket::{self, Place};
use crate::wire::Options;
pub use environment::Environment;
pub(crate) use environment::KEK;

/// The file's name in `CRYPTO_BROKER_PROFILES_DIR`.
const PROFILES_FILE: &str = "Profiles.yaml";

/// What was said on the command line. Nothing is the default of each.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `--socket`
    pub socket: Option<PathBuf>,
    /// `--shared-folder`
    pub is_folder_shared: bool,
    /// `--profiles`
    pub profiles: Option<PathBuf>,
    /// `--lenient`
    pub is_lenient: bool,
    /// `--keys`
    pub keys: Option<PathBuf>,
    /// `--kek-file`
    pub kek: Option<PathBuf>,
    /// `--audit`
    pub audit: Option<PathBuf>,
    /// `--audit-interval-ms`
    pub audit_interval_ms: Option<u64>,
    /// `--callers`
    pub callers: Option<PathBuf>,
    /// `--metrics`
    pub metrics: Option<SocketAddr>,
    /// `--dev`
    pub is_dev: bool,
    /// `--no-compat`
    pub has_no_compat: bool,
    /// `--require-fips`
    pub fips: Option<RequireFips>,
}

/// Checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen.
    pub place: Place,
    /// The file of profiles.
    pub profiles: PathBuf,
    /// Unknown keys in it are warnings, not errors.
    pub is_lenient: bool,
    /// The folder of the key store.
    pub keys: Option<PathBuf>,
    /// The file of the key that wraps the store's.
    pub kek: Option<PathBuf>,
    /// The file of the audit log.
    pub audit: Option<PathBuf>,
    /// When its lines have to be on the disk.
    pub durability: Durability,
    /// The file of what callers may do.
    pub callers: Option<PathBuf>,
    /// Where metrics are told over HTTP.
    pub metrics: Option<SocketAddr>,
    /// The wires W0 to W2.
    pub has_old_wires: bool,
    /// Benchmark and FakeEndpoint.
    pub is_dev: bool,
    /// How much of the server its peers may take.
    pub limits: Limits,
    /// What the calls of all connections may hold together, in bytes.
    pub calls_memory: usize,
    /// Whether the module must be a FIPS one.
    pub fips: RequireFips,
    /// `service` in logs, `service.name` in traces.
    pub service: String,
    /// The log.
    pub log: Slog,
    /// Where spans, metrics and log records go.
    pub exports: Exports,
    /// What the benchmark signs, where it is given.
    pub benchmark: BenchmarkFiles,
    /// What is worth a line in the log: settings that have no effect here.
    pub warnings: Vec<String>,
}

/// PEM texts or paths of files with them, as they were given.
#[derive(Clone, Default)]
pub struct BenchmarkFiles {
    /// The CA's certificate.
    pub ca_certificate: Option<String>,
    /// The CA's key; a secret.
    pub private_key: Option<String>,
    /// The request.
    pub csr: Option<String>,
}

impl std::fmt::Debug for BenchmarkFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BenchmarkFiles").finish_non_exhaustive()
    }
}

impl Settings {
    /// Flags over the environment.
    ///
    /// # Errors
    /// All that is wrong, each with its name.
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
        let file = |flag: Option<PathBuf>, name: &str| flag.or_else(|| read.text(name).map(PathBuf::from));
        let (keys, kek) = (file(flags.keys, "KEYS"), file(flags.kek, "KEK_FILE"));
        let (audit, callers) = (file(flags.audit, "AUDIT"), file(flags.callers, "CALLERS"));
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
            audit,
            durability,
            callers,
            metrics,
            has_old_wires: has_compat,
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

/// Calls of one connection, and connections, at a time.
fn limits(read: &mut Environment) -> Limits {
    let default = Limits::default();
    Limits {
        streams_max: read.within("GRPC_MAX_CONCURRENT_STREAMS", 1..=u32::MAX).unwrap_or(default.streams_max),
        connections_max: read.within("CONNECTIONS_MAX", 16..=65_536).unwrap_or(default.connections_max),
        ..default
    }
}

/// In MiB; two of the largest calls have to fit, or every large one would be refused.
fn calls_memory(read: &mut Environment) -> usize {
    let mib = read.within("CALLS_MEMORY_MIB", 8..=65_536_usize);
    mib.map_or(Options::CALLS_MEMORY, |mib| mib * 1024 * 1024)
}

/// Each line of the audit log before its answer, unless an interval is given.
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

/// The file in the folder that the environment names, which must lie in it however it is linked.
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

/// Names that are known, and do nothing here.
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
