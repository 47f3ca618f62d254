//! The fixtures of the servers: files, keys, certificates.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use sealway_client::broker::{Client, Options};
use sealway_testkit::broker::PROFILES;

/// A key of the broker's store that signs data and certificates.
pub(super) struct SigningKey {
    /// The name of the key in tables.
    pub(super) name: &'static str,
    /// The profile with which the key is used.
    pub(super) profile: &'static str,
    /// The id of the key in the broker's store.
    pub(super) id: &'static str,
    /// The broker's name of the key's algorithm.
    pub(super) algorithm: &'static str,
    /// The private key, PKCS#8 in PEM.
    pub(super) pem: String,
    /// The certificate of an authority with this key, in PEM.
    pub(super) ca_certificate: Vec<u8>,
    /// A certification request with a P-256 key, in PEM.
    pub(super) csr: Vec<u8>,
}

/// Writes the broker's files into a folder that only its owner can access.
pub(super) fn files(folder: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let owner = std::fs::Permissions::from_mode(0o600);
    for (name, text) in [("Profiles.yaml", PROFILES), ("store.kek", &format!("bench {}\n", "5a".repeat(32)))] {
        let file = folder.join(name);
        std::fs::write(&file, text)?;
        std::fs::set_permissions(file, owner.clone())?;
    }
    Ok(())
}

/// Generates keys and certificates with openssl.
pub(super) fn signing_keys(folder: &Path) -> anyhow::Result<Vec<SigningKey>> {
    let made = folder.join("made");
    std::fs::create_dir_all(&made)?;
    openssl(&made, "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out leaf.key")?;
    openssl(&made, "req -new -key leaf.key -subj /CN=leaf.example -out leaf.csr")?;
    let csr = std::fs::read(made.join("leaf.csr"))?;
    let mut keys = Vec::new();
    for (name, profile, id, algorithm, kind) in [
        ("P-256", "P256", "p256", "ecdsa-p256", "EC -pkeyopt ec_paramgen_curve:P-256"),
        ("P-384", "P384", "p384", "ecdsa-p384", "EC -pkeyopt ec_paramgen_curve:P-384"),
        ("RSA-4096", "RSA", "rsa4096", "rsa-4096", "RSA -pkeyopt rsa_keygen_bits:4096"),
    ] {
        openssl(&made, &format!("genpkey -algorithm {kind} -out {id}.key"))?;
        let extensions = "-addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign";
        openssl(&made, &format!("req -x509 -new -key {id}.key -subj /CN=bench -days 3650 {extensions} -out {id}.pem"))?;
        keys.push(SigningKey {
            name,
            profile,
            id,
            algorithm,
            pem: std::fs::read_to_string(made.join(format!("{id}.key")))?,
            ca_certificate: std::fs::read(made.join(format!("{id}.pem")))?,
            csr: csr.clone(),
        });
    }
    Ok(keys)
}

/// Imports the keys into the broker.
pub(super) async fn import(socket: &Path, keys: &[SigningKey]) -> anyhow::Result<()> {
    let client = Client::new(Options::new(socket));
    for key in keys {
        client.import_key(key.id, key.algorithm, key.pem.as_bytes()).await?;
    }
    Ok(())
}

fn openssl(folder: &Path, arguments: &str) -> anyhow::Result<()> {
    let output = Command::new("openssl")
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .output()
        .context("openssl is missing: run scripts/setup-bench.sh broker")?;
    ensure!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
