//! RSA keys of 2048 bits. Each takes half a second of processor time, so the tests of a run share them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, ensure};

use crate::run;

/// Returns a private key in PEM, another one at each call of this process.
///
/// # Errors
/// If the `openssl` command is missing or fails.
pub fn private_key() -> anyhow::Result<Vec<u8>> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let of_run = run::made_once(&format!("rsa-{number}.pem"), |to| {
        let part = to.with_extension("part");
        fs::write(&part, generate()?)?;
        fs::rename(part, to).context("cannot move a key")
    })?;
    of_run.map_or_else(generate, |key| fs::read(&key).with_context(|| key.display().to_string()))
}

/// Makes a key pair with a certificate, both in PEM: `NAME.key.pem` and `NAME.cert.pem` in `folder`. The certificate is self-signed,
/// has the common name `name`, and is valid for 30 days.
///
/// # Errors
/// As of [`private_key`], or a file cannot be written.
pub fn make_pair(folder: &Path, name: &str) -> anyhow::Result<()> {
    let [key, certificate] = ["key", "cert"].map(|what| folder.join(format!("{name}.{what}.pem")));
    certify(&key, &certificate, &format!("/CN={name}"))
}

/// Makes a key pair with a self-signed certificate of 30 days, whose subject is as OpenSSL writes it.
///
/// # Errors
/// As of [`make_pair`].
pub fn certify(key: &Path, certificate: &Path, subject: &str) -> anyhow::Result<()> {
    fs::write(key, private_key()?).with_context(|| key.display().to_string())?;
    // As openssl leaves one.
    fs::set_permissions(key, fs::Permissions::from_mode(0o600))?;
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-sha256", "-days", "30", "-subj", subject]);
    output(openssl.arg("-key").arg(key).arg("-out").arg(certificate)).map(drop)
}

fn generate() -> anyhow::Result<Vec<u8>> {
    output(Command::new("openssl").args(["genpkey", "-quiet", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]))
}

fn output(openssl: &mut Command) -> anyhow::Result<Vec<u8>> {
    let done = openssl.stdin(Stdio::null()).output().context("cannot run openssl; install the package openssl")?;
    ensure!(done.status.success(), "openssl: {}", String::from_utf8_lossy(&done.stderr));
    Ok(done.stdout)
}
