//! Flags for TLS towards the target.

use std::path::PathBuf;
use std::sync::Arc;

use sealway_runtime::clock::SystemClock;
use sealway_runtime::config::Problems;
use sealway_runtime::tls::{Client, ClientFiles, Secret};
use serde::{Deserialize, Serialize};

use super::{given, values};
use crate::plan::{Resumption, Tls, TlsVersion};

/// Environment variable with the password of a PKCS#12 file, used if no file holds it.
const PASSWORD_VARIABLE: &str = "SEALWAY_LOAD_PASSWORD";

/// Flags for TLS towards the target.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
#[command(next_help_heading = "TLS")]
#[serde(default)]
pub(crate) struct TlsFlags {
    /// Trusted authorities, in PEM [default: the system's]
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<String>,
    /// Client certificate, in PEM or PKCS#12
    #[arg(long, value_name = "FILE")]
    pub(crate) cert: Option<String>,
    /// Key of the certificate in PEM, if it is in a file of its own
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<String>,
    /// File with one line, the password of a PKCS#12 file; otherwise the variable SEALWAY_LOAD_PASSWORD is used
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<String>,
    /// Accept any certificate of the server
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Do not check that the server's certificate names the URL's host
    #[arg(long)]
    pub(crate) no_verify_name: bool,
    /// Resumption of TLS sessions: off (every handshake is a full one), on, both (on, timed separately) [default: off]
    #[arg(long, value_name = "HOW")]
    pub(crate) tls_resume: Option<String>,
    /// Lowest version of TLS: 1.2 or 1.3 [default: 1.2]
    #[arg(long, value_name = "VERSION")]
    pub(crate) tls_min: Option<String>,
}

impl TlsFlags {
    /// Resolves the flags; `None` if the URL's scheme is without TLS. `password` comes from Lite Gateway's load client.
    pub(super) fn resolve(&self, problems: &mut Problems, is_tls: bool, password: Option<Secret>) -> Option<Tls> {
        let resumption = values::named(problems, "--tls-resume", &self.tls_resume);
        let min_version = values::named(problems, "--tls-min", &self.tls_min);
        if !is_tls {
            for flag in given(self) {
                problems.add(flag, "the URL has no TLS: give an https:// or wss:// URL");
            }
            return None;
        }
        if self.insecure && self.ca.is_some() {
            problems
                .add("--insecure with --ca", "--insecure trusts every certificate, --ca only some; remove one of them");
        }
        let path = |file: &Option<String>| file.as_ref().map(PathBuf::from);
        let variable = || std::env::var(PASSWORD_VARIABLE).ok().filter(|word| !word.is_empty()).map(Secret::from);
        let password = password.or_else(|| if self.password_file.is_none() { variable() } else { None });
        let files = ClientFiles {
            ca: path(&self.ca),
            system_roots: false,
            cert: path(&self.cert),
            key: path(&self.key),
            password_file: path(&self.password_file),
            password: password.filter(|_| self.cert.is_some()),
            server_name: None,
            tls13_only: false,
        };
        self.check(problems, &files);
        Some(Tls {
            files,
            verify: !self.insecure,
            verify_name: !self.no_verify_name && !self.insecure,
            resumption: resumption.unwrap_or(Resumption::Off),
            min_version: min_version.unwrap_or(TlsVersion::V12),
        })
    }

    /// Loads the files once before the run, so that a problem in them is a wrong flag and not a failure of each connection.
    fn check(&self, problems: &mut Problems, files: &ClientFiles) {
        if self.cert.is_none() && (self.key.is_some() || self.password_file.is_some()) {
            let flag = if self.key.is_some() { "--key" } else { "--password-file" };
            problems.add(flag, "there is no certificate: add --cert");
            return;
        }
        // On a machine without system roots loading would fail, although `--insecure` needs no roots.
        if self.insecure && files.cert.is_none() {
            return;
        }
        if let Err(err) = Client::load(files.clone(), Arc::new(SystemClock)) {
            let flag = format!("--{}", err.field.replace('_', "-"));
            let file = if err.file.as_os_str().is_empty() { flag } else { format!("{flag} {}", err.file.display()) };
            // The message names the configuration field; here it is a flag.
            problems.add(file, err.message.replace("`key`", "--key"));
        }
    }
}
