//! `sealway relay control`: from arguments to a control plane that serves.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use sealway_relay::control::{ControlServer, ControlSettings, Tokens};
use sealway_runtime::clock::SystemClock;
use sealway_runtime::config::read_bounded;
use sealway_runtime::listener::parse_address;
use sealway_runtime::shutdown::StopSignals;
use sealway_runtime::telemetry::{self, LogFormat, Telemetry};
use sealway_runtime::tls::{ClientAuth, ServerFiles};

use super::Minted;
use crate::output::out;

/// Largest file of tokens, in bytes.
const TOKENS_LEN_MAX: u64 = 1024 * 1024;

#[derive(Debug, clap::Args)]
pub(crate) struct ControlArgs {
    /// Address and port; without TLS, for loopback alone
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: String,
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
    #[command(flatten)]
    minted: Minted,
}

impl ControlArgs {
    fn settings(&self) -> anyhow::Result<ControlSettings> {
        let tokens = match &self.token_file {
            None => Tokens::default(),
            Some(path) => {
                let text = zeroize::Zeroizing::new(read_bounded(path, TOKENS_LEN_MAX)?);
                let parsed = Tokens::parse(&text);
                parsed.map_err(|line| anyhow!("{}:{line}: expected at least 16 visible characters", path.display()))?
            }
        };
        let tls = self.tls_cert.clone().map(|cert| ServerFiles {
            cert,
            key: self.tls_key.clone(),
            client_ca: self.tls_client_ca.clone().into_iter().collect(),
            client_auth: if self.tls_client_ca.is_some() { ClientAuth::Required } else { ClientAuth::None },
            ..ServerFiles::default()
        });
        let listen = parse_address(&self.listen).map_err(|err| anyhow!("--listen: {err}"))?;
        Ok(ControlSettings { listen, tls, tokens, issuer: self.minted.issuer()? })
    }
}

/// Runs until a signal.
pub(super) async fn run(args: ControlArgs) -> anyhow::Result<()> {
    let telemetry = Telemetry { log_format: LogFormat::Text, log_level: "info".into(), ..Telemetry::default() };
    let _telemetry = telemetry::init(&telemetry, "sealway-relay-control").map_err(|err| anyhow!(err))?;
    let mut signals = StopSignals::install()?;
    let settings = args.settings()?;
    let is_open = settings.tls.is_none() && settings.listen.iter().any(|address| !address.ip().is_loopback());
    let server = ControlServer::start(settings, Arc::new(SystemClock))?;
    let listen = server.addresses().first().context("no address")?.to_string();
    // Whoever waited for it may have gone; endpoints have not.
    let _ = writeln!(out(), "{}", serde_json::json!({ "listen": listen }));
    if is_open {
        tracing::warn!("plain HTTP beyond loopback: tokens and keys can be read on the way; give --tls-cert");
    }
    tracing::info!(listen, "serving");
    let why = signals.stopped().await;
    tracing::info!(why, "stopping");
    server.stop().await;
    Ok(())
}
