//! Certificates for a server and its clients, made by the `openssl` command.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// A root, a server's certificate for `localhost` and 127.0.0.1, and a client's, all in PEM.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The root that signed both.
    pub ca: PathBuf,
    /// The server's.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// A client's.
    pub client_cert: PathBuf,
    /// Its key, in PKCS #8.
    pub client_key: PathBuf,
}

impl Certificates {
    /// Makes them in a folder.
    ///
    /// # Errors
    /// When `openssl` is not installed, or fails.
    pub fn make(folder: &Path) -> anyhow::Result<Self> {
        let path = |name: &str| folder.join(name);
        let (ca, ca_key) = (path("ca.crt"), path("ca.key"));
        openssl(|command| {
            command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
            command.args(["-days", "30", "-subj", "/CN=test root", "-keyout"]).arg(&ca_key).arg("-out").arg(&ca);
        })?;
        for name in ["server", "client"] {
            let (key, request, cert) =
                (path(&format!("{name}.key")), path(&format!("{name}.csr")), path(&format!("{name}.crt")));
            openssl(|command| {
                command.args(["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj"]);
                command.arg(format!("/CN={name}")).arg("-keyout").arg(&key).arg("-out").arg(&request);
            })?;
            let extensions = path(&format!("{name}.ext"));
            std::fs::write(&extensions, "subjectAltName=DNS:localhost,IP:127.0.0.1\n")?;
            openssl(|command| {
                command.args(["x509", "-req", "-days", "30", "-CAcreateserial", "-in"]).arg(&request);
                command.arg("-CA").arg(&ca).arg("-CAkey").arg(&ca_key);
                command.arg("-extfile").arg(&extensions).arg("-out").arg(&cert);
            })?;
        }
        Ok(Certificates {
            ca,
            cert: path("server.crt"),
            key: path("server.key"),
            client_cert: path("client.crt"),
            client_key: path("client.key"),
        })
    }

    /// Lets `redis-cli` speak TLS.
    pub(crate) fn show(&self, command: &mut Command) {
        command.arg("--tls").arg("--cacert").arg(&self.ca);
        command.arg("--cert").arg(&self.client_cert).arg("--key").arg(&self.client_key);
    }
}

fn openssl(fill: impl FnOnce(&mut Command)) -> anyhow::Result<()> {
    let mut command = Command::new("openssl");
    fill(&mut command);
    let output = command.output().context("no openssl; install Debian's package openssl")?;
    if !output.status.success() {
        bail!("openssl: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
