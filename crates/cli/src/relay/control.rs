//! `sealway relay control`: starts a control plane, and stops it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use sealway_relay::control::{ControlServer, ControlSettings, Tokens};
use sealway_runtime::clock::SystemClock;
use sealway_runtime::config::read_bounded;
use sealway_runtime::shutdown::StopSignals;
use sealway_runtime::telemetry::{self, LogFormat, Telemetry};
use sealway_runtime::tls::{ClientAuth, ServerFiles};

use super::GrantArgs;
use crate::flags::{self, Addresses};
use sealway_runtime::output::{Usage, out};

/// Largest file of tokens, in bytes.
const TOKENS_LEN_MAX: u64 = 1024 * 1024;

#[derive(Debug, clap::Args)]
pub(crate) struct ControlArgs {
    /// Address and port; without TLS, for loopback alone
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = flags::addresses)]
    listen: Addresses,
    /// Tokens that are let in, one a line, at least 16 characters each
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A certificate chain in PEM: it is served over https
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its key in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Let in those alone who show a certificate of this authority, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Names that one client may hold at once, 0 for no bound; a client is a token where there are several, else an address (IPv6:
    /// a /64). Without it: any number until 7500 of all 10000 are taken, then 625
    #[arg(long, value_name = "COUNT", value_parser = flags::whole::<u64>(0..=u64::MAX))]
    max_names_per_client: Option<u64>,
    #[command(flatten)]
    minted: GrantArgs,
}

fn tokens(path: &Path) -> anyhow::Result<Tokens> {
    let text = zeroize::Zeroizing::new(read_bounded(path, TOKENS_LEN_MAX)?);
    let expected = "expected a token a line, of at least 16 visible characters";
    let tokens = Tokens::parse(&text).map_err(|line| anyhow!("{}:{line}: {expected}", path.display()))?;
    anyhow::ensure!(!tokens.is_empty(), "{}: holds no token; {expected}", path.display());
    Ok(tokens)
}

impl ControlArgs {
    fn settings(&self) -> anyhow::Result<ControlSettings> {
        let tokens = match &self.token_file {
            None if self.tls_client_ca.is_none() => {
                let text = "--token-file or --tls-client-ca: one of them is needed, or anybody would be given grants";
                return Err(Usage::new(text).into());
            }
            None => Tokens::default(),
            Some(path) => tokens(path).with_context(|| "--token-file")?,
        };
        let tls = self.tls_cert.clone().map(|cert| ServerFiles {
            cert,
            key: self.tls_key.clone(),
            client_ca: self.tls_client_ca.clone().into_iter().collect(),
            client_auth: if self.tls_client_ca.is_some() { ClientAuth::Required } else { ClientAuth::None },
            ..ServerFiles::default()
        });
        let listen = self.listen.0.clone();
        let names_per_client_max = self.max_names_per_client;
        Ok(ControlSettings { listen, tls, tokens, issuer: self.minted.issuer()?, names_per_client_max })
    }
}

/// Serves until a signal arrives.
pub(super) async fn run(args: ControlArgs) -> anyhow::Result<()> {
    let telemetry = Telemetry { log_format: LogFormat::Text, log_level: "info".into(), ..Telemetry::default() };
    let _telemetry = telemetry::init(&telemetry, "sealway-relay-control").map_err(|err| anyhow!(err))?;
    let mut signals = StopSignals::install()?;
    let settings = args.settings()?;
    let is_open = settings.tls.is_none() && settings.listen.iter().any(|address| !address.ip().is_loopback());
    let server = ControlServer::start(settings, Arc::new(SystemClock))?;
    let listen = server.addresses().first().context("no address")?.to_string();
    // The reader of this line may have gone; the endpoints have not.
    let _ = writeln!(out(), "{}", serde_json::json!({ "listen": listen }));
    if is_open {
        tracing::warn!("plain HTTP beyond loopback exposes tokens and keys; set --tls-cert");
    }
    tracing::info!(listen, "serving");
    let why = signals.stopped().await;
    tracing::info!(why, "stopping");
    server.stop().await;
    Ok(())
}
