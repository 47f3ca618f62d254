//! Creation of a folder from nothing.

use std::path::{Path, PathBuf};

use rcgen::SanType;
use secrecy::{ExposeSecret, SecretString};

use super::authority::{Authorities, Authority, Lists, pem};
use super::folder::{Changes, Folder};
use super::issue::{self, LeafWish};
use super::rotate::Leaf;
use super::{CA_BEFORE_KEY, CA_CERT, CA_CROSS, CA_KEY, CA_SERIAL, CertsError, ENV, env, fault, of_rcgen};
use crate::tls::hex;

/// Most days of a server's or a client's certificate: browsers and scanners accept no longer validity.
pub const LEAF_DAYS_MAX: u64 = 366;

/// The parameters of a new folder.
#[derive(Clone, Debug)]
pub struct Making {
    /// DNS names and IP addresses of the server besides `localhost`, `127.0.0.1` and `::1`; at most 100.
    pub names: Vec<String>,
    /// The common name of the client.
    pub client_name: String,
    /// Days of the server's and the client's certificate, from 1 to 366.
    pub days: u64,
    /// The password of the PKCS#12 files, server's and client's.
    pub password: SecretString,
    /// Replaces files that exist already.
    pub force: bool,
}

/// Creates an authority, certificates of a server and a client, and their settings in `folder`, which may be missing. Returns
/// the files.
///
/// # Errors
/// [`CertsError`], also if one of the files exists and `force` is not set. Nothing is written then.
pub fn make(folder: &Path, making: &Making, now_ms: u64) -> Result<Vec<PathBuf>, CertsError> {
    let wishes = wishes(making)?;
    if making.password.expose_secret().contains(char::is_control) {
        return Err(fault("the password must be one line of text"));
    }
    let folder = Folder::make(folder)?;
    let mut changes = Changes::default();
    let current = new_authority(now_ms)?;
    let authorities = Authorities { current, before: None, cross: None };
    changes.secret(CA_KEY, authorities.current.key_pem().as_bytes());
    changes.public(CA_CERT, authorities.pem());
    let mut serial = [0; 16];
    for wish in &wishes {
        let key = issue::new_key()?;
        serial = issue::serial()?;
        let cert = issue::leaf(wish, &key, &authorities.current.issuer, serial, now_ms)?;
        let chain = [cert.der().clone(), authorities.current.der.clone()];
        changes.secret(wish.leaf.key(), issue::key_pem(&key).as_bytes());
        changes.public(wish.leaf.cert(), pem(cert.der()));
        changes.secret(
            wish.leaf.pfx(),
            issue::pfx(wish.leaf.role(), &key, &chain, making.password.expose_secret())?.to_vec(),
        );
    }
    changes.public(CA_SERIAL, hex(&serial).to_uppercase() + "\n");
    let path = folder.path.canonicalize().map_err(|err| fault(format!("{}: {err}", folder.path.display())))?;
    changes.secret(ENV, env::text(&path, &making.password)?.as_bytes());
    authorities.sign_lists(&Lists::default(), &[], now_ms, &mut changes)?;

    let names: Vec<String> = changes.names().map(str::to_owned).collect();
    let there: Vec<&str> = names.iter().map(String::as_str).filter(|name| folder.has(name)).collect();
    if !there.is_empty() && !making.force {
        return Err(fault(format!(
            "{} holds {} already; keys are replaced only with --force, and what trusts the old authority then trusts \
             nothing here (`sealway certs rotate` renews without that)",
            folder.path.display(),
            there.join(", ")
        )));
    }
    changes.remove(CA_BEFORE_KEY);
    changes.remove(CA_CROSS);
    changes.apply(&folder)?;
    Ok(names.iter().map(|name| folder.file(name)).collect())
}

/// Creates an authority with a unique name: with two authorities of one name, the issuer of a list would be ambiguous.
pub(super) fn new_authority(now_ms: u64) -> Result<Authority, CertsError> {
    let params = issue::authority_params(&new_name()?, now_ms)?;
    let key = issue::new_key()?;
    let cert = params.self_signed(&key).map_err(of_rcgen)?;
    Authority::new(cert.der().clone(), key)
}

fn new_name() -> Result<String, CertsError> {
    Ok(format!("Sealway CA {}", hex(&issue::serial()?[8..12])))
}

fn wishes(making: &Making) -> Result<[LeafWish; 2], CertsError> {
    if !(1..=LEAF_DAYS_MAX).contains(&making.days) {
        return Err(fault(format!("{} is no number of days from 1 to {LEAF_DAYS_MAX}", making.days)));
    }
    let client = &making.client_name;
    if !(1..=64).contains(&client.chars().count()) || client.contains(char::is_control) {
        return Err(fault("a client's common name has from 1 to 64 characters"));
    }
    if making.names.len() > 100 {
        return Err(fault("a server has at most 100 names"));
    }
    let mut names: Vec<SanType> = Vec::new();
    for text in ["localhost", "127.0.0.1", "::1"].into_iter().chain(making.names.iter().map(String::as_str)) {
        let name = issue::name(text)?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let days = making.days;
    Ok([
        LeafWish { leaf: Leaf::Server, common_name: "localhost".into(), names, days },
        LeafWish { leaf: Leaf::Client, common_name: client.clone(), names: Vec::new(), days },
    ])
}
