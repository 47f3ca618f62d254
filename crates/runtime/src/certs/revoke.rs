//! Revocation of a folder's certificates.

use std::path::Path;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::authority::{Authorities, Lists, plain};
use super::folder::{Changes, Folder};
use super::{CertsError, fault};
use crate::tls::hex;

/// The result of a revocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocation {
    /// The serial number in upper-case hexadecimal.
    pub serial: String,
    /// The certificate had been revoked before. The lists are signed anew all the same.
    pub was_revoked: bool,
}

/// Adds a certificate to the folder's lists of revoked ones: the first of a PEM file, or the one with a serial number in
/// hexadecimal, as `openssl x509 -serial` prints it. The lists' numbers rise, and their entries stay.
///
/// # Errors
/// [`CertsError`]; nothing is changed then.
pub fn revoke(folder: &Path, what: &str, now_ms: u64) -> Result<Revocation, CertsError> {
    let folder = Folder::open(folder)?;
    let authorities = Authorities::load(&folder)?;
    let path = Path::new(what);
    let (issuer, serial) = if path.is_file() { of_file(path, &authorities)? } else { (None, of_text(what)?) };
    let lists = Lists::load(&folder)?;
    let mut add = Vec::new();
    let mut was_revoked = false;
    // A number alone does not name its issuer; no number is assigned twice, so it does no harm in the other's list.
    for authority in authorities.all().filter(|authority| issuer.as_ref().is_none_or(|of| *of == authority.subject)) {
        let (_, entries) = lists.of(&authority.subject)?;
        if entries.iter().any(|entry| entry.serial == serial) {
            was_revoked = true;
        } else {
            add.push((authority.subject.as_slice(), serial.clone()));
        }
    }
    let mut changes = Changes::default();
    authorities.sign_lists(&lists, &add, now_ms, &mut changes)?;
    changes.apply(&folder)?;
    Ok(Revocation { serial: hex(&serial).to_uppercase(), was_revoked })
}

fn of_file(path: &Path, authorities: &Authorities) -> Result<(Option<Vec<u8>>, Vec<u8>), CertsError> {
    let unfit = |what: &str| fault(format!("{}: {what}", path.display()));
    let text = crate::config::read_bounded(path, 1024 * 1024).map_err(|err| fault(err.0))?;
    let der = CertificateDer::from_pem_slice(text.as_bytes()).map_err(|_| unfit("holds no certificate in PEM"))?;
    let (_, cert) = X509Certificate::from_der(&der).map_err(|_| unfit("the certificate cannot be read"))?;
    let issuer = cert.issuer().as_raw();
    if authorities.all().any(|authority| authority.subject == cert.subject().as_raw()) {
        return Err(unfit("is an authority; it is replaced (rotate --ca, then --finish), not revoked"));
    }
    if !authorities.all().any(|authority| authority.subject == issuer) {
        return Err(unfit("was not issued by the authority of this folder"));
    }
    Ok((Some(issuer.to_vec()), plain(cert.raw_serial()).to_vec()))
}

fn of_text(text: &str) -> Result<Vec<u8>, CertsError> {
    let unfit =
        || fault(format!("\"{text}\" is neither a file nor a serial number in hexadecimal of at most 20 bytes"));
    let digits: String = text.chars().filter(|c| *c != ':').collect();
    let digits = if digits.len().is_multiple_of(2) { digits } else { format!("0{digits}") };
    if digits.is_empty() || digits.len() > 40 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(unfit());
    }
    let byte = |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
    Ok(plain(&bytes.ok_or_else(unfit)?).to_vec())
}
