//! New keys and certificates while other programs go on using the old ones.
//!
//! A leaf: a new key and certificate under the same authority. The key is put into its place first and the certificate right
//! after it; a program that reloads in between finds a mismatch and reads again.
//!
//! The authority, in three steps:
//!
//! 1. [`rotate_authority`]: the new authority and the one before are both trusted from now on. Leaves are of the new one, and
//!    carry its certificate signed by the one before, so that peers that know only the old one accept them.
//! 2. Every peer gets the new `ca.cert.pem`.
//! 3. [`finish_authority`]: the authority before is no longer trusted, and its key is removed.

use std::path::Path;

use p12_keystore::Pkcs12Archive;
use rcgen::{KeyPair, SanType};
use rustls::pki_types::CertificateDer;
use secrecy::{ExposeSecret, SecretString};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::authority::{self, Authorities, Authority, Lists, pem};
use super::folder::{Changes, Folder};
use super::issue::{self, LeafWish};
use super::make::{LEAF_DAYS_MAX, new_authority};
use super::{CA_BEFORE_KEY, CA_CERT, CA_CROSS, CA_KEY, CA_SERIAL, CertsError, ENV, env, fault, of_rcgen};
use crate::tls::{CertificateStatus, PeerCertificate, hex};

/// The holder of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// The certificate that a listener presents.
    Server,
    /// The certificate that a client presents.
    Client,
}

impl Leaf {
    /// Both leaves, the server first.
    pub const ALL: [Leaf; 2] = [Leaf::Server, Leaf::Client];

    /// Returns `server` or `client`, its role in [`CertificateStatus`].
    pub fn role(self) -> &'static str {
        match self {
            Leaf::Server => "server",
            Leaf::Client => "client",
        }
    }

    /// The name of the file with its certificate and those of the issuers.
    pub fn cert(self) -> &'static str {
        match self {
            Leaf::Server => "server.cert.pem",
            Leaf::Client => "client.cert.pem",
        }
    }

    /// The name of the file with its key.
    pub fn key(self) -> &'static str {
        match self {
            Leaf::Server => "server.key.pem",
            Leaf::Client => "client.key.pem",
        }
    }

    /// The name of the PKCS#12 file with both.
    pub fn pfx(self) -> &'static str {
        match self {
            Leaf::Server => "server.pfx",
            Leaf::Client => "client.pfx",
        }
    }
}

/// Creates new keys and certificates for `leaves`, with the names and the validity in days of the old ones. The PKCS#12 files
/// keep their password: `password`, or the one in the settings of the folder. The lists of revoked certificates are signed
/// anew.
///
/// # Errors
/// [`CertsError`]; nothing is changed then.
pub fn rotate_leaf(
    folder: &Path,
    leaves: &[Leaf],
    password: Option<&SecretString>,
    now_ms: u64,
) -> Result<Vec<CertificateStatus>, CertsError> {
    let folder = Folder::open(folder)?;
    let authorities = Authorities::load(&folder)?;
    let mut changes = Changes::default();
    let renewed = renew(&folder, &authorities, leaves, password, now_ms, &mut changes)?;
    authorities.sign_lists(&Lists::load(&folder)?, &[], now_ms, &mut changes)?;
    changes.apply(&folder)?;
    Ok(renewed)
}

/// Creates a new authority, signed by the existing one, and new leaves under it: step 1.
///
/// # Errors
/// [`CertsError`], also while an earlier authority is still trusted; nothing is changed then.
pub fn rotate_authority(
    folder: &Path,
    password: Option<&SecretString>,
    now_ms: u64,
) -> Result<Vec<CertificateStatus>, CertsError> {
    let folder = Folder::open(folder)?;
    let Authorities { current: old, before, .. } = Authorities::load(&folder)?;
    if before.is_some() {
        return Err(fault(format!(
            "{}: the authority before this one is still trusted; end that first (--finish)",
            folder.path.display()
        )));
    }
    let new = new_authority(now_ms)?;
    let cross = cross(&new, &old, now_ms)?;
    let key_before = old.key_pem();
    let authorities = Authorities { current: new, before: Some(old), cross: Some(cross.clone()) };
    let mut changes = Changes::default();
    // The trusted certificates precede those that rely on them.
    changes.public(CA_CERT, authorities.pem());
    authorities.sign_lists(&Lists::load(&folder)?, &[], now_ms, &mut changes)?;
    changes.secret(CA_BEFORE_KEY, key_before.as_bytes());
    changes.public(CA_CROSS, pem(&cross));
    changes.secret(CA_KEY, authorities.current.key_pem().as_bytes());
    let renewed = renew(&folder, &authorities, &Leaf::ALL, password, now_ms, &mut changes)?;
    changes.apply(&folder)?;
    Ok(renewed)
}

/// Removes the authority before from the trusted ones, and its key: step 3. Leaves keep their keys.
///
/// # Errors
/// [`CertsError`], also if no rotation is in progress; nothing is changed then.
pub fn finish_authority(folder: &Path, password: Option<&SecretString>, now_ms: u64) -> Result<(), CertsError> {
    let folder = Folder::open(folder)?;
    let authorities = Authorities::load(&folder)?;
    if authorities.before.is_none() {
        return Err(fault(format!("{}: no earlier authority is trusted", folder.path.display())));
    }
    let authorities = Authorities { before: None, cross: None, ..authorities };
    let mut changes = Changes::default();
    for leaf in Leaf::ALL {
        let chain = authority::certificates(&folder, leaf.cert())?;
        let first = chain.first().ok_or_else(|| nothing(&folder, leaf))?;
        let issuer = X509Certificate::from_der(first).map(|(_, cert)| cert.issuer().as_raw().to_vec());
        if issuer.ok().as_ref() != Some(&authorities.current.subject) {
            return Err(fault(format!(
                "{}: is of the earlier authority; rotate the leaf first",
                folder.file(leaf.cert()).display()
            )));
        }
        let key = authority::key(&folder, leaf.key())?;
        put(&folder, &authorities, leaf, &key, first, password, &mut changes)?;
    }
    authorities.sign_lists(&Lists::load(&folder)?, &[], now_ms, &mut changes)?;
    changes.public(CA_CERT, authorities.pem());
    changes.remove(CA_CROSS);
    changes.remove(CA_BEFORE_KEY);
    changes.apply(&folder)
}

/// Signs the new authority's name and key with the old one.
fn cross(new: &Authority, old: &Authority, now_ms: u64) -> Result<CertificateDer<'static>, CertsError> {
    let name = X509Certificate::from_der(&new.der).ok();
    let name = name.and_then(|(_, cert)| cert.subject().iter_common_name().next()?.as_str().ok().map(str::to_owned));
    let mut params = issue::authority_params(&name.unwrap_or_default(), now_ms)?;
    params.use_authority_key_identifier_extension = true;
    Ok(params.signed_by(new.issuer.key(), &old.issuer).map_err(of_rcgen)?.der().clone())
}

fn renew(
    folder: &Folder,
    authorities: &Authorities,
    leaves: &[Leaf],
    password: Option<&SecretString>,
    now_ms: u64,
    changes: &mut Changes,
) -> Result<Vec<CertificateStatus>, CertsError> {
    let mut renewed = Vec::new();
    for leaf in leaves {
        let wish = again(folder, authorities, *leaf)?;
        let (key, serial) = (issue::new_key()?, issue::serial()?);
        let cert = issue::leaf(&wish, &key, &authorities.current.issuer, serial, now_ms)?;
        changes.secret(leaf.key(), issue::key_pem(&key).as_bytes());
        put(folder, authorities, *leaf, &key, cert.der(), password, changes)?;
        changes.public(CA_SERIAL, hex(&serial).to_uppercase() + "\n");
        renewed.extend(CertificateStatus::of(&folder.file(leaf.cert()), leaf.role(), cert.der()));
    }
    Ok(renewed)
}

/// Puts the certificate with those of the issuers, and the PKCS#12 file.
fn put(
    folder: &Folder,
    authorities: &Authorities,
    leaf: Leaf,
    key: &KeyPair,
    cert: &CertificateDer<'static>,
    password: Option<&SecretString>,
    changes: &mut Changes,
) -> Result<(), CertsError> {
    let mut chain = vec![cert.clone()];
    chain.extend(authorities.cross.clone());
    changes.public(leaf.cert(), chain.iter().map(pem).collect::<String>());
    if let Some(password) = pfx_password(folder, leaf, password)? {
        chain.push(authorities.current.der.clone());
        let file = issue::pfx(leaf.role(), key, &chain, password.expose_secret())?;
        changes.secret(leaf.pfx(), file.to_vec());
    }
    Ok(())
}

/// Returns the content of a new certificate: that of the old one, which must be of this folder's authority.
fn again(folder: &Folder, authorities: &Authorities, leaf: Leaf) -> Result<LeafWish, CertsError> {
    let path = folder.file(leaf.cert());
    let unfit = |what: &str| fault(format!("{}: {what}", path.display()));
    let chain = authority::certificates(folder, leaf.cert())?;
    let first = chain.first().ok_or_else(|| nothing(folder, leaf))?.clone();
    let (_, cert) = X509Certificate::from_der(&first).map_err(|_| unfit("cannot be read"))?;
    if !authorities.all().any(|authority| authority.subject == cert.issuer().as_raw()) {
        return Err(unfit("was not issued by the authority of this folder"));
    }
    let seconds = cert.validity().not_after.timestamp() - cert.validity().not_before.timestamp();
    let days = u64::try_from(seconds).unwrap_or(0).div_ceil(86_400).clamp(1, LEAF_DAYS_MAX);
    let said = PeerCertificate::parse(vec![first.clone()]).map_err(|err| unfit(&err))?;
    let mut names = said.dns.iter().map(|dns| issue::name(dns)).collect::<Result<Vec<_>, _>>()?;
    names.extend(said.ips.iter().copied().map(SanType::IpAddress));
    for uri in &said.uris {
        names.push(SanType::URI(uri.as_str().try_into().map_err(of_rcgen)?));
    }
    for address in &said.emails {
        names.push(SanType::Rfc822Name(address.as_str().try_into().map_err(of_rcgen)?));
    }
    let common_name = said.common_name.ok_or_else(|| unfit("has not exactly one common name"))?;
    Ok(LeafWish { leaf, common_name, names, days })
}

/// Returns the password of a PKCS#12 file, which must open the existing file: its readers know no other. `None` without a file
/// and a password.
fn pfx_password(folder: &Folder, leaf: Leaf, given: Option<&SecretString>) -> Result<Option<SecretString>, CertsError> {
    let kept = || folder.has(ENV).then(|| folder.read(ENV)).transpose();
    let password = match given {
        Some(password) => Some(password.clone()),
        None => kept()?.and_then(|text| env::password(&text, leaf)),
    };
    if !folder.has(leaf.pfx()) {
        return Ok(password);
    }
    let opens = match &password {
        None => false,
        Some(password) => Pkcs12Archive::from_pkcs12(&folder.read_bytes(leaf.pfx())?, password.expose_secret()).is_ok(),
    };
    if opens {
        return Ok(password);
    }
    let path = folder.file(leaf.pfx());
    Err(fault(format!(
        "{}: its password is needed (--pfx-password-file), or the one given does not open it",
        path.display()
    )))
}

fn nothing(folder: &Folder, leaf: Leaf) -> CertsError {
    fault(format!("{}: holds no certificate", folder.file(leaf.cert()).display()))
}
