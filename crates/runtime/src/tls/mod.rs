//! TLS material: what a listener presents and whom it lets in ([`Server`]), what is shown to a server and whom is trusted
//! there ([`Client`]), and what a certificate says ([`PeerCertificate`], [`CertificateStatus`]).
//!
//! Files are read again without a restart: the new ones are in force for the next handshake, and what does not load
//! changes nothing. It may not know what a connection carries. Certificates are made in [`crate::certs`].

mod accept;
mod allow;
mod client;
mod field;
mod files;
mod identity;
mod name;
mod peer;
mod server;
mod status;
mod verify;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;

pub use self::accept::AcceptError;
pub use self::allow::AllowPattern;
pub use self::client::{Client, ClientFiles, ClientParts};
pub use self::field::CertificateField;
pub(crate) use self::files::sha256 as digest;
pub(crate) use self::name::hex;
pub use self::peer::PeerCertificate;
pub use self::server::{ClientAuth, Server, ServerFiles};
pub use self::status::{CertificateStatus, read_certificates, read_revocations};
/// A password in memory: it is wiped when dropped, and its `Debug` shows nothing.
pub use secrecy::SecretString as Secret;

/// Why TLS material cannot be used: the field and the file at fault, and what is wrong with it. Never what is in the file.
#[derive(Debug, thiserror::Error)]
#[error("{field}: {}: {message}", file.display())]
pub struct TlsError {
    /// `cert`, `key`, `password_file`, `client_ca`, `crl`, `ocsp`, `ca`, `server_name`.
    pub field: &'static str,
    /// The file; empty where there is none.
    pub file: PathBuf,
    /// A sentence without a full stop.
    pub message: String,
    /// Two files do not fit together, which may be because one of them was just being replaced.
    is_transient: bool,
}

impl TlsError {
    pub(crate) fn new(field: &'static str, file: &Path, message: impl Into<String>) -> Self {
        TlsError { field, file: file.to_owned(), message: message.into(), is_transient: false }
    }

    fn transient(mut self) -> Self {
        self.is_transient = true;
        self
    }
}

/// The one crypto library. X25519MLKEM768 is its first key exchange.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// The clock of a service as rustls wants it.
#[derive(Debug)]
struct Time(Arc<dyn crate::clock::Clock>);

impl rustls::time_provider::TimeProvider for Time {
    fn current_time(&self) -> Option<rustls::pki_types::UnixTime> {
        Some(unix_time(self.0.now_ms()))
    }
}

fn unix_time(now_ms: u64) -> rustls::pki_types::UnixTime {
    rustls::pki_types::UnixTime::since_unix_epoch(std::time::Duration::from_millis(now_ms))
}
