//! A certificate authority with a server's and a client's certificate, created by the `openssl` command in a folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, bail};

/// Files in PEM. Keys are unencrypted.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The certificate of the authority.
    pub ca: PathBuf,
    /// A server's certificate and key, for the names of its creation.
    pub server: (PathBuf, PathBuf),
    /// A client's certificate and key.
    pub client: (PathBuf, PathBuf),
}

impl Certificates {
    /// Creates all of them in `folder`. `names` are the server's, as OpenSSL writes them: `DNS:localhost,IP:127.0.0.1`;
    /// `client` is the client's common name.
    ///
    /// # Errors
    /// If the `openssl` command is missing or fails.
    pub fn make(folder: &Path, names: &str, client: &str) -> anyhow::Result<Self> {
        let file = |name: &str| folder.join(name);
        let path = |name: &str| file(name).display().to_string();
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];
        let mut authority = vec!["req", "-x509"];
        authority.extend(key);
        let (ca, ca_key) = (path("ca.pem"), path("ca.key"));
        let ca_words = ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign"];
        // Each has another name: with two of one name an attacker's signature would merely look invalid.
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let subject = format!("/CN=test authority {}", NUMBER.fetch_add(1, Ordering::Relaxed));
        authority.extend(["-subj", &subject, "-keyout", &ca_key, "-out", &ca]);
        authority.extend(ca_words.iter().flat_map(|words| ["-addext", words]));
        openssl(&authority)?;
        let signed = |name: &str, subject: &str, words: &[&str]| {
            let (out, out_key) = (path(&format!("{name}.pem")), path(&format!("{name}.key")));
            let mut request = vec!["req", "-x509", "-CA", &ca, "-CAkey", &ca_key];
            request.extend(key);
            request.extend(["-subj", subject, "-keyout", &out_key, "-out", &out]);
            request.extend(["-addext", "basicConstraints=critical,CA:FALSE"]);
            request.extend(words.iter().flat_map(|words| ["-addext", *words]));
            openssl(&request).map(|()| (PathBuf::from(&out), PathBuf::from(&out_key)))
        };
        let names = format!("subjectAltName={names}");
        let server = signed("server", "/CN=a test server", &[&names, "extendedKeyUsage=serverAuth"])?;
        let client = signed("client", &format!("/CN={client}"), &["extendedKeyUsage=clientAuth"])?;
        Ok(Certificates { ca: file("ca.pem"), server, client })
    }
}

fn openssl(arguments: &[&str]) -> anyhow::Result<()> {
    let done = Command::new("openssl").args(arguments).stdin(Stdio::null()).output();
    let done = done.context("cannot run openssl; install the package openssl")?;
    if !done.status.success() {
        bail!("openssl {}: {}", arguments.join(" "), String::from_utf8_lossy(&done.stderr));
    }
    Ok(())
}
