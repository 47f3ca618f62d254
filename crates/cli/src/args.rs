//! Command line arguments of all commands.

#[cfg(feature = "sessions")]
mod sessions;

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

#[cfg(feature = "sessions")]
pub(crate) use sessions::{
    Call, CallMle, ConfigAction, ConfigFile, Demo, Family, Inspect, KekAction, Serve, Standalone,
    parse_signature_algorithm,
};

/// Seals requests and answers between a client and a service, over any path in between.
#[derive(Debug, Parser)]
#[command(name = "sealway", version = version(), propagate_version = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

fn version() -> &'static str {
    use std::sync::OnceLock;
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let provider = sealway_proto::crypto::default_provider().name();
        let version = format!("{}\ncrypto: {provider}", env!("CARGO_PKG_VERSION"));
        #[cfg(feature = "broker")]
        let version = format!("{version}\n{}", sealway_broker::module::module());
        version
    })
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show a sealed request going through, then keep serving
    #[cfg(feature = "sessions")]
    Demo(Demo),
    /// Serve sessions and routes as a configuration says
    #[cfg(feature = "sessions")]
    Serve(Serve),
    /// Host the module of a PKCS#11 token, for the server that starts this process
    #[cfg(feature = "sessions")]
    #[command(hide = true)]
    Pkcs11Host,
    /// Do cryptography under named profiles on a Unix socket, or ask a broker to
    #[cfg(feature = "broker")]
    Broker {
        #[command(subcommand)]
        action: sealway_broker_cli::Broker,
    },
    /// Carry ports and bytes end to end between two programs, over a relay that can read nothing
    #[cfg(feature = "relay")]
    Channel {
        #[command(subcommand)]
        action: Box<crate::channel::ChannelAction>,
    },
    /// Pair the endpoints of channels and forward what they seal end to end; make keys and grants for it
    #[cfg(feature = "relay")]
    Relay {
        #[command(subcommand)]
        action: crate::relay::Relay,
    },
    /// Agree a session, seal a request, open its answer
    #[cfg(feature = "sessions")]
    Call(Box<Call>),
    /// List and forget services whose identity keys were trusted at first use
    #[cfg(feature = "sessions")]
    Trust {
        #[command(subcommand)]
        action: crate::trust::TrustAction,
    },
    /// Show what sealed traffic of wire 3 says, in development: a proxy on loopback that reads a key log
    #[cfg(feature = "sessions")]
    Inspect(Inspect),
    /// Make, open and explain messages encrypted as card schemes do (JWE)
    #[cfg(feature = "sessions")]
    Mle {
        #[command(subcommand)]
        action: crate::mle::MleAction,
    },
    /// Make or bring up to date the tables of a store in PostgreSQL
    #[cfg(feature = "sessions")]
    Migrate(ConfigFile),
    /// Key-encryption keys: which there are, one more, and all sessions wrapped under the first
    #[cfg(feature = "sessions")]
    Kek {
        #[command(subcommand)]
        action: KekAction,
    },
    /// Identity keys of a service on wire 3: make, list, retire them, and have a root sign them
    #[cfg(feature = "sessions")]
    Identity {
        #[command(subcommand)]
        action: crate::identity::IdentityAction,
    },
    /// Keys of requests that are sealed without a session: make, list, retire and import them, and have a root sign them
    #[cfg(feature = "sessions")]
    OneShotKeys {
        #[command(subcommand)]
        action: Box<crate::one_shot_keys::OneShotKeysAction>,
    },
    /// Make an authority and certificates of a server and a client in a folder; renew, revoke and list them
    Certs(Certs),
    /// Offer a load to a server, measure what comes of it, and say what limited it
    #[cfg(feature = "load")]
    Load(Box<sealway_load::flags::LoadArgs>),
    /// Make a configuration of resources of the Kubernetes Gateway API
    #[cfg(feature = "gateway-api")]
    GatewayApi {
        #[command(subcommand)]
        action: crate::gateway_api::GatewayApi,
    },
    /// Show which cryptography services used, as a table or a CBOM, and what a standard would break
    Inventory(crate::inventory::Inventory),
    /// Ask a health endpoint; exit with 0 if its status is 2xx
    Health(crate::health::Health),
    /// Check a configuration, or print it with all its sources applied
    #[cfg(feature = "sessions")]
    Config {
        #[command(subcommand)]
        action: ConfigAction,
    },
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write a manual page of each command, for packages
    #[command(hide = true)]
    Man {
        /// An existing folder; pages in it are replaced
        folder: PathBuf,
    },
}

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Certs {
    #[command(subcommand)]
    pub(crate) action: Option<CertsAction>,
    /// The folder to make them in
    #[arg(value_name = "FOLDER", required = true)]
    pub(crate) folder: Option<PathBuf>,
    /// Replace what is there, keys too
    #[arg(long)]
    pub(crate) force: bool,
    /// A DNS name or IP address of the server, besides localhost, 127.0.0.1 and ::1
    #[arg(long = "name", value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// The client's common name
    #[arg(long, value_name = "NAME", default_value = "sealway-client")]
    pub(crate) client_name: String,
    /// Days for which the server's and the client's certificates are valid, up to 366; the authority's is for 3650
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u64).range(1..=366))]
    pub(crate) days: u64,
    /// A file with the password of the PKCS#12 files; without it MTLS_PFX_PASSWORD, or "changeit"
    #[arg(long, value_name = "FILE")]
    pub(crate) pfx_password_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CertsAction {
    /// New keys and certificates with the names of the old ones
    Rotate {
        /// The folder
        folder: PathBuf,
        /// Leaf certificates that get new keys
        #[arg(long, value_enum, default_value_t = LeafChoice::All, conflicts_with_all = ["ca", "finish"])]
        leaf: LeafChoice,
        /// A new authority too; the one before stays trusted until --finish
        #[arg(long, conflicts_with = "finish")]
        ca: bool,
        /// Trust the authority before no longer, and remove its key
        #[arg(long)]
        finish: bool,
        /// A file with the password of the PKCS#12 files; without it the one in the folder's mtls.env
        #[arg(long, value_name = "FILE")]
        pfx_password_file: Option<PathBuf>,
    },
    /// Add a certificate to the list of revoked ones
    Revoke {
        /// The folder
        folder: PathBuf,
        /// A PEM file of the certificate, or its serial number in hexadecimal
        #[arg(value_name = "CERTIFICATE")]
        what: String,
    },
    /// List the certificates and the days that they have left
    Show {
        /// The folder
        folder: PathBuf,
    },
}

/// Selection of the certificates to renew.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LeafChoice {
    Server,
    Client,
    All,
}
