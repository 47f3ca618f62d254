//! Commands that make one call to a running broker and print its answer.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::ValueEnum;
use sealway_broker::certificate::encode_pem;
use sealway_client::broker::open::{self, Open};
use sealway_client::broker::{CertificateRequest, Health};
use zeroize::Zeroizing;

use crate::Socket;
use crate::files::read;
use sealway_runtime::output::{out, tell};

/// Longest input of a digest, in bytes.
const INPUT_LEN_MAX: u64 = 1024 * 1024;
/// Longest PEM file that is read, in bytes.
const PEM_LEN_MAX: u64 = 64 * 1024;

#[derive(Debug, clap::Args)]
pub struct Hash {
    #[command(flatten)]
    socket: Socket,
    /// Name of the profile in the broker's file
    #[arg(long, default_value = "Default")]
    profile: String,
    /// Form of the printed digests
    #[arg(long, value_enum, default_value_t = HashForm::Hex)]
    output_format: HashForm,
    /// Texts to digest, or @FILE for the content of a file
    #[arg(required = true, value_name = "TEXT")]
    inputs: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum HashForm {
    /// Hexadecimal digits in lower case, a line for each digest
    Hex,
    /// Bytes of all digests, without a separator
    Raw,
}

pub(crate) async fn hash(command: Hash) -> anyhow::Result<()> {
    let inputs = command.inputs.iter().map(|input| match input.strip_prefix('@') {
        Some(file) => read(Path::new(file), INPUT_LEN_MAX),
        None => Ok(input.clone().into_bytes()),
    });
    let inputs: Vec<_> = inputs.collect::<anyhow::Result<_>>()?;
    let hashed = command.socket.client().hash(&command.profile, &inputs).await?;
    for digest in &hashed.outputs {
        match command.output_format {
            HashForm::Raw => out().write_all(digest)?,
            HashForm::Hex => {
                let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                writeln!(out(), "{hex}")?;
            }
        }
    }
    Ok(())
}

#[derive(Debug, clap::Args)]
pub struct Sign {
    #[command(flatten)]
    socket: Socket,
    /// Name of the profile in the broker's file
    #[arg(long, default_value = "Default")]
    profile: String,
    /// The request, a PEM file
    #[arg(long, value_name = "FILE")]
    csr: PathBuf,
    /// The CA's certificate, a PEM file; not needed if it is kept with the key in the store
    #[arg(long, value_name = "FILE", required_unless_present = "ca_key_ref")]
    ca_cert: Option<PathBuf>,
    /// The CA's key, by its id in the broker's store
    #[arg(long, value_name = "ID", required_unless_present = "ca_key")]
    ca_key_ref: Option<String>,
    /// The CA's key, a PEM file, which is sent to the broker; prefer --ca-key-ref
    #[arg(long, value_name = "FILE", conflicts_with_all = ["ca_key_ref", "subject", "crl_points", "not_before", "not_after"])]
    ca_key: Option<PathBuf>,
    /// Replaces the request's subject: CN=service,O=Example
    #[arg(long)]
    subject: Option<String>,
    /// URL of a list of revoked certificates; repeatable
    #[arg(long = "crl-point", value_name = "URL")]
    crl_points: Vec<String>,
    /// Begin of the validity, in Unix seconds; by default the profile's
    #[arg(long, value_name = "SECONDS")]
    not_before: Option<i64>,
    /// End of the validity, in Unix seconds; by default the profile's
    #[arg(long, value_name = "SECONDS")]
    not_after: Option<i64>,
    /// Form of the printed certificate
    #[arg(long, value_enum, default_value_t = Encoding::Pem)]
    encoding: Encoding,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Encoding {
    /// Text with a label, in base64
    Pem,
    /// Bytes, without an encoding
    Der,
}

pub(crate) async fn sign(command: Sign) -> anyhow::Result<()> {
    let csr = read(&command.csr, PEM_LEN_MAX)?;
    let ca_certificate = command.ca_cert.as_ref().map(|file| read(file, PEM_LEN_MAX)).transpose()?.unwrap_or_default();
    let client = command.socket.client();
    let der = match &command.ca_key {
        Some(file) => {
            let key = Zeroizing::new(read(file, PEM_LEN_MAX)?);
            let text = |bytes| std::str::from_utf8(bytes).context("expected PEM");
            let request = open::CertificateRequest {
                profile: &command.profile,
                csr: text(&csr)?,
                ca_key: text(&key)?,
                ca_certificate: text(&ca_certificate)?,
            };
            Open(&client).sign_certificate(&request).await?
        }
        None => {
            let points: Vec<_> = command.crl_points.iter().map(String::as_str).collect();
            let request = CertificateRequest {
                profile: &command.profile,
                csr: &csr,
                ca_key: command.ca_key_ref.as_deref().unwrap_or_default(),
                ca_certificate: &ca_certificate,
                not_before: command.not_before,
                not_after: command.not_after,
                subject: command.subject.as_deref(),
                crl_points: &points,
            };
            client.sign_certificate(&request).await?.der
        }
    };
    match command.encoding {
        Encoding::Der => out().write_all(&der)?,
        Encoding::Pem => write!(out(), "{}", encode_pem("CERTIFICATE", &der))?,
    }
    Ok(())
}

pub(crate) async fn health(socket: &Socket) -> anyhow::Result<ExitCode> {
    let (text, code) = match socket.client().health().await {
        Ok(Health::Serving) => ("SERVING", ExitCode::SUCCESS),
        Ok(Health::NotServing) => ("NOT_SERVING", ExitCode::FAILURE),
        Err(err) => {
            tell(format_args!("sealway: {err}"));
            ("UNKNOWN", ExitCode::FAILURE)
        }
    };
    writeln!(out(), "{text}")?;
    Ok(code)
}

pub(crate) async fn bench(socket: &Socket) -> anyhow::Result<()> {
    writeln!(out(), "{}", Open(&socket.client()).benchmark().await?)?;
    Ok(())
}
