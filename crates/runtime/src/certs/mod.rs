//! A small authority in a folder: its key and certificate, a server's and a client's, a list of the revoked ones, and settings
//! that name them. Created, renewed and revoked in place; a failure changes nothing.
//!
//! It serves tests and plants without an authority of their own. File names are those of Lite Gateway's script, so that the
//! folder can replace the script's output.

mod authority;
mod env;
mod folder;
mod issue;
mod make;
mod revoke;
mod rotate;

use std::path::Path;

pub use self::make::{LEAF_DAYS_MAX, Making, make};
pub use self::revoke::{Revocation, revoke};
pub use self::rotate::{Leaf, finish_authority, rotate_authority, rotate_leaf};
use crate::tls::{CertificateStatus, read_certificates, read_revocations};

/// The authority's certificates: the current one first, then the one before it while that is still trusted.
pub const CA_CERT: &str = "ca.cert.pem";
/// The key of the current authority.
pub const CA_KEY: &str = "ca.key.pem";
/// The lists of revoked certificates, one an authority.
pub const CA_CRL: &str = "ca.crl.pem";
/// The serial number that was assigned last, as OpenSSL keeps it.
pub const CA_SERIAL: &str = "ca.cert.srl";
/// The key of the authority before, while its certificates are still trusted.
pub const CA_BEFORE_KEY: &str = "ca.before.key.pem";
/// The current authority's certificate, signed by the one before.
pub const CA_CROSS: &str = "ca.cross.pem";
/// The settings, as lines for a shell.
pub const ENV: &str = "mtls.env";

/// The cause for which nothing was created or changed. The text is for a person, and contains no key or password.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CertsError(pub String);

fn fault(message: impl Into<String>) -> CertsError {
    CertsError(message.into())
}

fn of_rcgen(err: rcgen::Error) -> CertsError {
    CertsError(format!("cannot make a certificate: {err}"))
}

/// Lists the content of a folder: every certificate and every list.
///
/// # Errors
/// [`CertsError`], naming the file.
pub fn show(folder: &Path) -> Result<Vec<CertificateStatus>, CertsError> {
    let mut statuses = Vec::new();
    let leaves = [Leaf::Server, Leaf::Client].map(|leaf| (leaf.cert(), leaf.role()));
    for (name, role) in [(CA_CERT, "authority"), (CA_CROSS, "cross")].into_iter().chain(leaves) {
        let path = folder.join(name);
        if name == CA_CROSS && !path.exists() {
            continue;
        }
        statuses.extend(read_certificates(&path, role).map_err(|err| fault(err.to_string()))?);
    }
    let list = folder.join(CA_CRL);
    if list.exists() {
        statuses.extend(read_revocations(&list).map_err(|err| fault(err.to_string()))?);
    }
    Ok(statuses)
}
