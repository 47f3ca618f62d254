//! Command line arguments of sessions and the gateway.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use sealway_client::{SignatureAlgorithm, Suite};
use sealway_proto::wire::Wire;

#[derive(Debug, clap::Args)]
pub(crate) struct Demo {
    /// Port on both loopback addresses; 0 takes a free one
    #[arg(long, default_value_t = 3000)]
    pub(crate) port: u16,
    /// Exit after the demonstration
    #[arg(long)]
    pub(crate) once: bool,
    /// Keep the session store in this folder instead of a temporary one
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// The configuration; without one, everything on port 3000 with the demo service behind
    #[arg(long, short, value_name = "FILE", env = "SEALWAY_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Take the place of Lite Gateway: its environment (LITEGATEWAY_Proxy__…) is the configuration
    #[arg(long, conflicts_with = "config")]
    pub(crate) litegateway: bool,
    /// Answer of Lite Gateway's stand-in when it has no upstream
    #[arg(long, value_enum, requires = "litegateway")]
    pub(crate) standalone: Option<Standalone>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Standalone {
    /// 200 and a fixed body
    Ok,
    /// 200 and the request's body
    Echo,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ConfigFile {
    /// The configuration that names the store
    #[arg(long, short, value_name = "FILE", env = "SEALWAY_CONFIG")]
    pub(crate) config: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KekAction {
    /// Show the keys of the key file, and how many sessions each wraps
    Status(ConfigFile),
    /// Put a new key last into the key file: every process can unwrap with it before one wraps
    Add(ConfigFile),
    /// Wrap every session under the first key of the key file; may be stopped and run again at any time
    Rotate {
        #[command(flatten)]
        config: ConfigFile,
        /// Put this key of the file first before
        #[arg(long, value_name = "ID")]
        to: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigAction {
    /// Report every problem: of the settings, and of the files that they name
    Check {
        /// The file
        file: PathBuf,
        /// Read the files that it names too: certificates, keys, tokens; --files=false checks the settings alone
        #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true,
              default_missing_value = "true")]
        files: bool,
    },
    /// Print what is set, by file and environment together; what would be adjusted is warned of
    Print {
        /// The file
        file: PathBuf,
    },
    /// Print the JSON Schema of a configuration, for editors
    Schema,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Family {
    /// POST /session/init
    Session,
    /// POST /v1/session/init (wire 2)
    V1,
    /// POST /session/init/anon (wire 1)
    Anon,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Call {
    /// The method, and the URL, such as http://localhost:3000/transaction/purchase. Without a method it is GET, or POST with
    /// --data; wires 1 and 2 seal POST alone
    #[arg(value_names = ["METHOD", "URL"], num_args = 1..=2, required = true)]
    pub(crate) target: Vec<String>,
    /// The body to seal, @FILE for a file's content, @- for standard input
    #[arg(long, short)]
    pub(crate) data: Option<String>,
    /// A header, sealed with the body; wire 3 alone
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// Write the answer's body to this file, which is there when it is whole
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The wire [default: 3; 2 with --init]
    #[arg(long, value_parser = parse_wire)]
    pub(crate) wire: Option<Wire>,
    /// Wire 3: trust this identity key alone, by its id or itself in base64; may be given up to 16 times
    #[arg(long = "pin", value_name = "KEYID|BASE64", conflicts_with_all = ["root", "trust_file"])]
    pub(crate) pins: Vec<String>,
    /// Wire 3: trust the keys that this root signs, which is given in base64 or as a file
    #[arg(long, value_name = "BASE64|FILE", conflicts_with = "trust_file")]
    pub(crate) root: Option<String>,
    /// Wire 3: file that keeps the services trusted at first use
    /// [default: sealway/known_services in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "FILE", env = "SEALWAY_TRUST_FILE", hide_env = true)]
    pub(crate) trust_file: Option<PathBuf>,
    /// Wire 3: offer this suite; repeatable, in order of preference: X25519MLKEM768, SecP256r1MLKEM768, P256,
    /// SecP384r1MLKEM1024, MLKEM1024
    /// [default: the first two]
    #[arg(long = "suite", value_name = "SUITE", value_parser = parse_suite)]
    pub(crate) suites: Vec<Suite>,
    /// Wire 3: accept identity keys and roots of this signature algorithm; repeatable: ES256, ES384, ML-DSA-65, ML-DSA-87,
    /// ES256+ML-DSA-65, ES384+ML-DSA-87 [default: ES256, and any of keys and a root that are pinned]
    #[arg(long = "signature-algorithm", value_name = "ALG", value_parser = parse_signature_algorithm)]
    pub(crate) signature_algorithms: Vec<SignatureAlgorithm>,
    /// Wire 3: write the session's secret to this file, for an inspector in development; takes SEALWAY_KEY_LOG_ALLOWED=1 too
    #[arg(long, value_name = "FILE")]
    pub(crate) key_log: Option<PathBuf>,
    /// Wires 1 and 2: how to agree the session [default: session]
    #[arg(long, value_enum)]
    pub(crate) init: Option<Family>,
    /// The client id
    #[arg(long, default_value = "sealway-cli")]
    pub(crate) client_id: String,
    /// Requested lifetime of the session, in seconds
    #[arg(long)]
    pub(crate) ttl: Option<u32>,
    /// A file with a bearer token for the init
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) once: CallOnce,
    #[command(flatten)]
    pub(crate) mle: CallMle,
    /// Time limit of one exchange, in milliseconds
    #[arg(long, default_value_t = 30_000, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    pub(crate) timeout_ms: u64,
    /// Show what goes over the wire, who the service is and what it takes the caller for, and timings; never keys
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

/// One sealed request without a session.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Requests without a session")]
pub(crate) struct CallOnce {
    /// Seal to a key of the service, without a session (wire 4). --pin names its kid, hpke:…, or has its key configuration in base64;
    /// --root is the root that signs the service's keys
    #[arg(long, conflicts_with_all = ["wire", "trust_file", "suites", "signature_algorithms", "key_log", "init", "ttl", "token_file", "profile"])]
    pub(crate) once: bool,
    /// Name of a pre-shared key, by which the service knows the caller
    #[arg(long, value_name = "NAME", requires_all = ["once", "psk_file"])]
    pub(crate) psk: Option<String>,
    /// A file with the pre-shared key, 32 bytes in base64
    #[arg(long, value_name = "FILE", requires = "psk")]
    pub(crate) psk_file: Option<PathBuf>,
}

/// Messages of a card scheme in place of a sealed session.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Messages of card schemes")]
pub(crate) struct CallMle {
    /// Seal the body as this card scheme does, without a session, and open its answer: mastercard-jwe, visa, visa-acceptance,
    /// generic-jwe, open-banking. Headers are sent in clear
    #[arg(long = "mle", value_name = "PROFILE", requires_all = ["certificate", "key"])]
    #[arg(conflicts_with_all = ["wire", "pins", "root", "suites", "signature_algorithms", "key_log", "init", "ttl", "token_file"])]
    pub(crate) profile: Option<String>,
    /// Certificate or public key of the service, PEM or DER, to which the request is sealed
    #[arg(long, value_name = "FILE", requires = "profile")]
    pub(crate) certificate: Option<PathBuf>,
    /// Own private key, PEM or DER, which opens the answer
    #[arg(long, value_name = "FILE", requires = "profile")]
    pub(crate) key: Option<PathBuf>,
    /// Certificate of the own key, for names that are derived from one
    #[arg(long, value_name = "FILE", requires = "profile")]
    pub(crate) key_certificate: Option<PathBuf>,
    /// Name of the service's key in the request
    #[arg(long, requires = "profile")]
    pub(crate) kid: Option<String>,
    /// Name of the own key in the answer
    #[arg(long, value_name = "KID", requires = "profile")]
    pub(crate) key_kid: Option<String>,
    /// Derivation of the names that are not given, as sealway mle keys prints them, such as spki_sha256_hex
    #[arg(long, value_name = "DERIVATION", requires = "profile")]
    pub(crate) kid_from: Option<String>,
    /// Algorithm that encrypts the request's content [default: A256GCM]
    #[arg(long, value_name = "ENC", requires = "profile")]
    pub(crate) enc: Option<String>,
    /// Own private RSA key, PEM or DER, which signs the request with PS256; for open-banking
    #[arg(long, value_name = "FILE", requires_all = ["profile", "sign_kid", "verify_key", "verify_kid", "issuer", "audience"])]
    pub(crate) sign_key: Option<PathBuf>,
    /// Name of the own key in the signature
    #[arg(long, value_name = "KID", requires = "sign_key")]
    pub(crate) sign_kid: Option<String>,
    /// Certificate or public key of the answer's signature
    #[arg(long, value_name = "FILE", requires = "sign_key")]
    pub(crate) verify_key: Option<PathBuf>,
    /// Name of that key in the answer's signature
    #[arg(long, value_name = "KID", requires = "sign_key")]
    pub(crate) verify_kid: Option<String>,
    /// Algorithm of the answer's signature, PS256 or ES256 [default: PS256]
    #[arg(long, value_name = "ALG", requires = "sign_key")]
    pub(crate) verify_alg: Option<String>,
    /// The caller's own name in signatures
    #[arg(long, value_name = "NAME", requires = "sign_key")]
    pub(crate) issuer: Option<String>,
    /// Name of the service in signatures
    #[arg(long, value_name = "NAME", requires = "sign_key")]
    pub(crate) audience: Option<String>,
    /// Domain that vouches for the keys: signatures stand beside the body, and not inside of the token
    #[arg(long, value_name = "DOMAIN", requires = "sign_key")]
    pub(crate) trust_anchor: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Inspect {
    /// The key log of a client (sealway call --key-log), for its owner alone; takes SEALWAY_KEY_LOG_ALLOWED=1 too
    #[arg(long, value_name = "FILE")]
    pub(crate) key_log: PathBuf,
    /// The gateway, on this machine: http://127.0.0.1:PORT
    #[arg(long, value_name = "URL")]
    pub(crate) to: String,
    /// Loopback address that clients connect to; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
}

fn parse_wire(text: &str) -> Result<Wire, String> {
    match text {
        "1" => Ok(Wire::V1),
        "2" => Ok(Wire::V2),
        "3" => Ok(Wire::Native),
        _ => Err("expected 1, 2 or 3".into()),
    }
}

/// Reads the name of a signature algorithm, in any case.
pub(crate) fn parse_signature_algorithm(text: &str) -> Result<SignatureAlgorithm, String> {
    let known = || SignatureAlgorithm::ALL.map(SignatureAlgorithm::name).join(", ");
    let found = SignatureAlgorithm::ALL.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(text));
    found.ok_or_else(|| format!("expected one of {}", known()))
}

fn parse_suite(text: &str) -> Result<Suite, String> {
    let known = || Suite::ALL.map(Suite::name).join(", ");
    let suite = Suite::ALL.into_iter().find(|suite| suite.name().eq_ignore_ascii_case(text));
    suite.ok_or_else(|| format!("expected one of {}", known()))
}
