//! A certificate authority with a server's and a client's certificate, created by the `openssl` command in a folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, bail};

use crate::redis::faketime;

/// OpenSSL's arguments for a new key on P-256, unencrypted.
const NEW_KEY: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];

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
        let mut authority = vec!["req", "-x509", "-days", "2"];
        authority.extend(NEW_KEY);
        let (ca, ca_key) = (path("ca.pem"), path("ca.key"));
        let ca_words = ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign"];
        // Each has another name: with two of one name an attacker's signature would merely look invalid.
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let subject = format!("/CN=test authority {}", NUMBER.fetch_add(1, Ordering::Relaxed));
        authority.extend(["-subj", &subject, "-keyout", &ca_key, "-out", &ca]);
        authority.extend(ca_words.iter().flat_map(|words| ["-addext", words]));
        openssl(&authority, None)?;
        let made = Certificates { ca: file("ca.pem"), server: Default::default(), client: Default::default() };
        let names = format!("subjectAltName={names}");
        let server = made.issue("server", "/CN=a test server", &[&names, "extendedKeyUsage=serverAuth"], 2)?;
        let client = made.issue("client", &format!("/CN={client}"), &["extendedKeyUsage=clientAuth"], 2)?;
        Ok(Certificates { server, client, ..made })
    }

    /// Issues one more certificate, with these extensions as OpenSSL writes them, and returns its file and that of its key, which
    /// are named `name`. It is valid for `days`; with 0 it has ended two days ago.
    ///
    /// # Errors
    /// If `openssl` fails.
    pub fn issue(
        &self,
        name: &str,
        subject: &str,
        extensions: &[&str],
        days: u32,
    ) -> anyhow::Result<(PathBuf, PathBuf)> {
        let [out, out_key] = ["pem", "key"].map(|end| self.ca.with_file_name(format!("{name}.{end}")));
        let [ca, ca_key] = [self.ca.clone(), self.ca.with_extension("key")].map(|file| file.display().to_string());
        let (text, key_text) = (out.display().to_string(), out_key.display().to_string());
        let clock = self.ca.with_file_name("three-days-ago");
        std::fs::write(&clock, "-259200\n")?;
        let (clock, days) = (Some(clock.as_path()).filter(|_| days == 0), days.max(1).to_string());
        let mut request = vec!["req", "-x509", "-CA", &ca, "-CAkey", &ca_key, "-days", &days];
        request.extend(NEW_KEY);
        request.extend(["-subj", subject, "-keyout", &key_text, "-out", &text]);
        request.extend(["-addext", "basicConstraints=critical,CA:FALSE"]);
        request.extend(extensions.iter().flat_map(|extension| ["-addext", *extension]));
        openssl(&request, clock)?;
        Ok((out, out_key))
    }
}

/// Runs OpenSSL, by the clock of a file if there is one.
fn openssl(arguments: &[&str], clock: Option<&Path>) -> anyhow::Result<()> {
    let mut command = Command::new("openssl");
    if let Some(clock) = clock {
        faketime::apply(&mut command, clock)?;
    }
    let done = command.args(arguments).stdin(Stdio::null()).output();
    let done = done.context("cannot run openssl; install the package openssl")?;
    if !done.status.success() {
        bail!("openssl {}: {}", arguments.join(" "), String::from_utf8_lossy(&done.stderr));
    }
    Ok(())
}
