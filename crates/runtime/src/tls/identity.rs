//! A certificate chain and its key, out of PEM or PKCS#12.

use std::sync::Arc;

use p12_keystore::Pkcs12Archive;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer, X509Certificate};
use zeroize::Zeroizing;

use super::TlsError;
use super::files::Content;

/// Most certificates that are presented with a key.
const CHAIN_MAX: usize = 10;

/// Reads a chain and its key. `key` is `None` if the key is in the file of the chain.
pub(super) fn load(
    cert: &Content,
    key: Option<&Content>,
    password: Option<&str>,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    if cert.is_pem() {
        return from_pem(cert, key.unwrap_or(cert), provider);
    }
    if X509Certificate::from_der(&cert.bytes).is_ok() {
        return Err(cert.fault("is a certificate in DER; PEM or PKCS#12 is expected"));
    }
    match key {
        None => from_pkcs12(cert, password.unwrap_or_default(), provider),
        Some(key) => Err(key
            .fault(format!("is not for {}, which is not PEM: a PKCS#12 file holds its own key", cert.path.display()))),
    }
}

fn from_pem(cert: &Content, key: &Content, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let chain = certificates(cert)?;
    // A list, so that other content of the file does not matter.
    let text = String::from_utf8_lossy(&key.bytes);
    let mut keys = PrivateKeyDer::pem_slice_iter(&key.bytes).filter_map(Result::ok);
    let Some(der) = keys.next() else {
        return Err(key.fault(if text.contains("ENCRYPTED") {
            "holds an encrypted key, which only PKCS#12 may be; `openssl pkcs8 -in FILE` decrypts it"
        } else if std::ptr::eq(cert, key) {
            "holds no private key; name the key's own file with `key`"
        } else {
            "holds no private key in PEM (PRIVATE KEY, EC PRIVATE KEY or RSA PRIVATE KEY)"
        }));
    };
    if keys.next().is_some() {
        return Err(key.fault("holds more than one private key"));
    }
    // Not the library's text: it may quote its input.
    let signer =
        provider.key_provider.load_private_key(der).map_err(|_| key.fault("holds a private key of no known kind"))?;
    let certified = CertifiedKey::new(without_roots(chain), signer);
    warn_of_order(cert, &certified.cert);
    match certified.keys_match() {
        Ok(()) => Ok(certified),
        Err(_) => {
            Err(key.fault(format!("is not the key of the first certificate in {}", cert.path.display())).transient())
        }
    }
}

/// Reads a chain in PEM whose key is elsewhere.
pub(super) fn chain(cert: &Content) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    if !cert.is_pem() {
        return Err(cert.fault("is not PEM, in which the certificate of a key on a token is expected"));
    }
    let chain = without_roots(certificates(cert)?);
    warn_of_order(cert, &chain);
    Ok(chain)
}

fn warn_of_order(cert: &Content, chain: &[CertificateDer<'_>]) {
    if chain.windows(2).any(|pair| issuer(&pair[0]) != subject(&pair[1])) {
        let file = cert.path.display();
        tracing::warn!(%file, "each certificate should be followed by its issuer's; some clients will not trust this chain");
    }
}

fn from_pkcs12(file: &Content, password: &str, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let archive = Pkcs12Archive::from_pkcs12(&file.bytes, password).map_err(|err| match err {
        p12_keystore::error::Error::MacError(_) => file.fault("does not open with this password"),
        p12_keystore::error::Error::DerError(_) => file.fault("is neither PEM nor PKCS#12"),
        p12_keystore::error::Error::UnsupportedEncryptionScheme => {
            file.fault("is encrypted in a way that is not supported; `openssl pkcs12 -export` makes one that is")
        }
        _ => file.fault("is damaged, or does not open with this password"),
    })?;
    let [bag] = archive.keys.as_slice() else {
        return Err(file.fault(format!("holds {} private keys; exactly one is expected", archive.keys.len())));
    };
    let der = PrivatePkcs8KeyDer::from(Zeroizing::new(bag.key.as_der().to_vec()).to_vec());
    let signer = provider
        .key_provider
        .load_private_key(der.into())
        .map_err(|_| file.fault("holds a private key of no known kind"))?;
    let mut others: Vec<_> = archive.certs.iter().map(|bag| CertificateDer::from(bag.cert.as_der().to_vec())).collect();
    let is_leaf = |cert: &CertificateDer<'static>| {
        CertifiedKey::new(vec![cert.clone()], Arc::clone(&signer)).keys_match().is_ok()
    };
    let Some(leaf) = others.iter().position(is_leaf).map(|at| others.swap_remove(at)) else {
        return Err(file.fault("holds no certificate of its private key"));
    };
    let mut chain = vec![leaf];
    while chain.len() < CHAIN_MAX {
        let last = chain.last().map(|cert| issuer(cert)).unwrap_or_default();
        let Some(at) = others.iter().position(|cert| last.is_some() && subject(cert) == last) else { break };
        chain.push(others.swap_remove(at));
    }
    Ok(CertifiedKey::new(without_roots(chain), signer))
}

fn subject(cert: &CertificateDer<'_>) -> Option<Vec<u8>> {
    X509Certificate::from_der(cert).ok().map(|(_, cert)| cert.subject().as_raw().to_vec())
}

fn issuer(cert: &CertificateDer<'_>) -> Option<Vec<u8>> {
    X509Certificate::from_der(cert).ok().map(|(_, cert)| cert.issuer().as_raw().to_vec())
}

/// Removes roots from a chain: a verifier has the root already, and trusts no other, so sending it is of no use.
fn without_roots(mut chain: Vec<CertificateDer<'static>>) -> Vec<CertificateDer<'static>> {
    let mut is_first = true;
    chain.retain(|cert| std::mem::take(&mut is_first) || subject(cert) != issuer(cert));
    chain
}

/// Parses the certificates of a PEM file, at least one, each of which must be valid DER.
pub(super) fn certificates(file: &Content) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = CertificateDer::pem_slice_iter(&file.bytes)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| file.fault("is not proper PEM"))?;
    if certificates.is_empty() {
        return Err(file.fault("holds no certificate in PEM (no BEGIN CERTIFICATE)"));
    }
    for (index, certificate) in certificates.iter().enumerate() {
        if !X509Certificate::from_der(certificate).is_ok_and(|(rest, _)| rest.is_empty()) {
            return Err(file.fault(format!("certificate {} of {} is damaged", index + 1, certificates.len())));
        }
    }
    Ok(certificates)
}

/// Parses the lists of revoked certificates in a file, PEM or one in DER.
pub(super) fn revocations(file: &Content) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    if !file.is_pem() {
        return Ok(vec![CertificateRevocationListDer::from(file.bytes.to_vec())]);
    }
    let lists = CertificateRevocationListDer::pem_slice_iter(&file.bytes)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| file.fault("is not proper PEM"))?;
    if lists.is_empty() {
        return Err(file.fault("holds no list of revoked certificates (no BEGIN X509 CRL)"));
    }
    Ok(lists)
}

/// Reads an OCSP answer in DER whose status is `successful`.
pub(super) fn staple(file: &Content) -> Result<Vec<u8>, TlsError> {
    let content = match file.bytes.as_slice() {
        [0x30, len, rest @ ..] if *len < 0x80 => rest,
        [0x30, 0x81, _, rest @ ..] | [0x30, 0x82, _, _, rest @ ..] => rest,
        _ => return Err(file.fault("is no OCSP answer in DER")),
    };
    match content {
        [0x0a, 0x01, 0, ..] => Ok(file.bytes.to_vec()),
        [0x0a, 0x01, status, ..] => Err(file.fault(format!("is an OCSP answer that says nothing (status {status})"))),
        _ => Err(file.fault("is no OCSP answer in DER")),
    }
}
