//! `sealway relay control`: a control plane that mints grants.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use sealway_relay::control::{Control, ControlSettings};
use sealway_runtime::clock::SystemClock;
use sealway_runtime::listener::parse_address;
use sealway_runtime::shutdown::StopSignals;
use sealway_runtime::telemetry::{self, Telemetry};
use sealway_runtime::tls::{ClientAuth, ServerFiles};
use zeroize::Zeroizing;

use super::Minted;

#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    minted: Minted,
    /// Address and port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: String,
    /// A file with the bearer token of callers: one line of at least 16 bytes
    #[arg(long, value_name = "FILE", required_unless_present = "tls_client_ca")]
    bearer_file: Option<PathBuf>,
    /// A certificate chain in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its key in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Authorities whose clients may ask, in PEM; without --bearer-file they alone
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
}

/// Runs until a signal.
pub(super) async fn run(serve: Serve) -> anyhow::Result<()> {
    let _telemetry =
        telemetry::init(&Telemetry { log_level: "info".into(), ..Telemetry::default() }, "sealway-control")
            .map_err(|err| anyhow!(err))?;
    let mut signals = StopSignals::install()?;
    let bearer = match &serve.bearer_file {
        None => None,
        Some(file) => {
            let text = std::fs::read(file).with_context(|| format!("--bearer-file {}", file.display()))?;
            Some(Zeroizing::new(Zeroizing::new(text).trim_ascii().to_vec()))
        }
    };
    let client_auth = match (&serve.tls_client_ca, &bearer) {
        (None, _) => ClientAuth::None,
        (Some(_), None) => ClientAuth::Required,
        (Some(_), Some(_)) => ClientAuth::Optional,
    };
    let tls = serve.tls_cert.clone().map(|cert| ServerFiles {
        cert,
        key: serve.tls_key.clone(),
        client_ca: serve.tls_client_ca.iter().cloned().collect(),
        client_auth,
        ..ServerFiles::default()
    });
    let settings = ControlSettings {
        listen: parse_address(&serve.listen).map_err(|err| anyhow!("--listen: {err}"))?,
        bearer,
        tls,
        issuer: serve.minted.issuer()?,
    };
    let control = Control::start(settings, Arc::new(SystemClock))?;
    let listen = control.addresses().first().map(ToString::to_string).unwrap_or_default();
    writeln!(std::io::stdout(), "{}", serde_json::json!({ "listen": listen }))?;
    tracing::info!(listen, "minting grants");
    signals.stopped().await;
    control.stop().await;
    Ok(())
}
