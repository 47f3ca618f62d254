//! The command `sealway broker keys`.

use std::path::PathBuf;

use anyhow::ensure;
use clap::ValueEnum;
use sealway_client::broker::Key;
use sealway_runtime::clock::iso8601;
use zeroize::Zeroizing;

use crate::Socket;
use crate::files::{pem, read};
use sealway_runtime::output::{OutputError, out};

/// Longest file of an imported key, in bytes.
const MATERIAL_LEN_MAX: u64 = 64 * 1024;

#[derive(Debug, clap::Subcommand)]
pub enum Keys {
    /// Make a key
    Generate {
        /// Its id: 1 to 64 letters, digits, ".", "_" or "-"
        id: String,
        /// Such as aes-256-gcm, ecdsa-p384, rsa-4096, ml-kem-768
        #[arg(long)]
        algorithm: String,
    },
    /// Bring in a key that was made elsewhere
    Import {
        /// Its id
        id: String,
        /// As of generate
        #[arg(long)]
        algorithm: String,
        /// PKCS#8, PEM or DER; the bytes of a secret key
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
    },
    /// List the keys
    List,
    /// Add a version, which seals and signs from now on
    Rotate {
        /// The key's id
        id: String,
        /// Bring it in, as of import; without it, it is made
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Have a version do nothing until it is enabled again
    Disable {
        /// The key's id
        id: String,
        /// The version; without it all
        #[arg(id = "key-version", long, value_name = "NUMBER", default_value_t = 0)]
        version: u32,
    },
    /// Enable a version again
    Enable {
        /// The key's id
        id: String,
        /// The version; without it all
        #[arg(id = "key-version", long, value_name = "NUMBER", default_value_t = 0)]
        version: u32,
    },
    /// Print the public half
    Public {
        /// The key's id
        id: String,
        /// The version; without it the current one
        #[arg(id = "key-version", long, value_name = "NUMBER", default_value_t = 0)]
        version: u32,
        /// How it is printed
        #[arg(long, value_enum, default_value_t = Form::Pem)]
        encoding: Form,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Form {
    /// Text
    Pem,
    /// The bytes of the SubjectPublicKeyInfo
    Der,
}

pub(crate) async fn run(socket: &Socket, action: Keys) -> anyhow::Result<()> {
    let client = socket.client();
    let material = |file: PathBuf| read(&file, MATERIAL_LEN_MAX).map(Zeroizing::new);
    match action {
        Keys::Generate { id, algorithm } => show(&client.generate_key(&id, &algorithm).await?)?,
        Keys::Import { id, algorithm, file } => show(&client.import_key(&id, &algorithm, &material(file)?).await?)?,
        Keys::Rotate { id, file } => {
            let material = file.map(material).transpose()?;
            // Without material the broker generates a key: not what a user who names a file wants.
            ensure!(material.as_ref().is_none_or(|material| !material.is_empty()), "--file: it is empty");
            let material = material.unwrap_or_default();
            show(&client.rotate_key(&id, &material).await?)?;
        }
        Keys::Disable { id, version } => show(&client.disable_key(&id, version).await?)?,
        Keys::Enable { id, version } => show(&client.enable_key(&id, version).await?)?,
        Keys::Public { id, version, encoding } => {
            let public = client.public_key(&id, version).await?;
            match encoding {
                Form::Pem => write!(out(), "{}", pem("PUBLIC KEY", &public.der))?,
                Form::Der => out().write_all(&public.der)?,
            }
        }
        Keys::List => {
            let mut after = String::new();
            loop {
                let (keys, has_more) = client.list_keys(&after, 0).await?;
                keys.iter().try_for_each(show)?;
                match keys.last() {
                    Some(last) if has_more => after.clone_from(&last.id),
                    _ => break,
                }
            }
        }
    }
    Ok(())
}

/// Prints one line for a key: its id, its algorithm, its versions.
fn show(key: &Key) -> Result<(), OutputError> {
    let versions: Vec<_> = key
        .versions
        .iter()
        .map(|version| {
            let state = if version.is_enabled { "" } else { " disabled" };
            format!("{} ({}{state})", version.version, iso8601(version.created_ms))
        })
        .collect();
    let imported = if key.is_imported { " imported" } else { "" };
    writeln!(out(), "{} {}{imported}: {}", key.id, key.algorithm, versions.join(", "))
}
