//! TLS material: the certificate of a listener and its rules for clients ([`Server`]), the certificate and the trust of a
//! client ([`Client`]), and the content of a certificate ([`PeerCertificate`], [`CertificateStatus`]).
//!
//! Files are read again without a restart: new ones are in force for the next handshake, and a failure to load changes nothing.
//! This module does not know the protocol of a connection. [`crate::certs`] creates certificates.

mod accept;
mod allow;
mod client;
mod external;
mod field;
mod files;
mod identity;
mod measures;
mod name;
mod peer;
mod server;
mod status;
mod used;
mod verify;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;

pub use self::accept::AcceptError;
pub use self::allow::AllowPattern;
pub use self::client::{Client, ClientFiles, ClientParts};
pub use self::external::{ExternalKey, KeyFault, KeyScheme, Turns};
pub use self::field::CertificateField;
pub(crate) use self::files::sha256 as digest;
pub use self::measures::{ExpiryGauges, count_reload};
pub(crate) use self::name::hex;
pub use self::peer::PeerCertificate;
pub use self::server::{ClientAuth, Server, ServerFiles};
pub use self::status::{CertificateStatus, read_certificates, read_revocations};
pub use self::used::{KeyKind, count_handshake, count_peer};
/// A password in memory: it is wiped when dropped, and its `Debug` shows nothing.
pub use secrecy::SecretString as Secret;

/// The cause for which TLS material cannot be used: the field and the file at fault, and the defect. Never the content of the
/// file.
#[derive(Debug, thiserror::Error)]
#[error("{field}: {}: {message}", file.display())]
pub struct TlsError {
    /// `cert`, `key`, `password_file`, `client_ca`, `crl`, `ocsp`, `ca`, `server_name`.
    pub field: &'static str,
    /// The file; empty if there is none.
    pub file: PathBuf,
    /// A sentence without a full stop.
    pub message: String,
    /// Two files do not fit together, perhaps because one of them was just being replaced.
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

/// Returns the one crypto library. X25519MLKEM768 is its first key exchange.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// The clock of a service as an adapter for rustls.
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
