//! The command `sealway broker keys`.

use std::path::PathBuf;

use anyhow::ensure;
use sealway_broker::certificate::encode_pem;
use sealway_client::broker::Key;
use sealway_runtime::clock::iso8601;
use zeroize::Zeroizing;

use crate::Socket;
use crate::ask::Encoding;
use crate::files::read;
use sealway_runtime::output::{OutputError, out};

/// Longest file of an imported key, in bytes.
const MATERIAL_LEN_MAX: u64 = 64 * 1024;

#[derive(Debug, clap::Subcommand)]
pub enum Keys {
    /// Generate a key in the store
    Generate {
        /// Id of the key: 1 to 64 letters, digits, ".", "_" or "-"
        id: String,
        /// Algorithm of the key, such as aes-256-gcm, ecdsa-p384, rsa-4096, ml-kem-768
        #[arg(long)]
        algorithm: String,
    },
    /// Import a key that was generated elsewhere
    Import {
        /// Id of the key: 1 to 64 letters, digits, ".", "_" or "-"
        id: String,
        /// Algorithm of the key, as for generate
        #[arg(long)]
        algorithm: String,
        /// File with PKCS#8 in PEM or DER, or the bytes of a secret key; PEM of a CA's key may have its certificate behind it
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
    },
    /// List the keys of the store
    List,
    /// Add a version, which encrypts and signs from now on
    Rotate {
        /// Id of the key in the store
        id: String,
        /// File to import the version from; by default it is generated
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Disable a version until it is enabled again
    Disable {
        /// Id of the key in the store
        id: String,
        /// Number of the version; 0 for all
        #[arg(id = "key-version", long, value_name = "NUMBER", default_value_t = 0)]
        version: u32,
    },
    /// Enable a version that was disabled
    Enable {
        /// Id of the key in the store
        id: String,
        /// Number of the version; 0 for all
        #[arg(id = "key-version", long, value_name = "NUMBER", default_value_t = 0)]
        version: u32,
    },
    /// Print the public half of a key
    Public {
        /// Id of the key in the store
        id: String,
        /// Number of the version; 0 for the current one
        #[arg(id = "key-version", long, value_name = "NUMBER", default_value_t = 0)]
        version: u32,
        /// Form of the printed key
        #[arg(long, value_enum, default_value_t = Encoding::Pem)]
        encoding: Encoding,
    },
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
                Encoding::Pem => write!(out(), "{}", encode_pem("PUBLIC KEY", &public.der))?,
                Encoding::Der => out().write_all(&public.der)?,
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
