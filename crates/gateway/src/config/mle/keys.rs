//! Section `mle_keys:` of the configuration.

use std::collections::BTreeMap;
use std::path::Path;

use sealway_proto::mle::{Alg, JwsAlg, KidSource};
use sealway_runtime::config::{FilePath, Problems};
use serde::{Deserialize, Serialize};

use super::{alg, broker, enc};
use crate::mle::{KeyAlg, KeyFiles};

/// An entry of `mle_keys:` as written: a key with `file` or `broker` opens tokens, or with `file` signs by its `alg`; one with `certificate`
/// alone seals them, or verifies signatures by its `alg`; and one with `secret_file` opens and seals.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawMleKey {
    /// The private key that opens or signs: RSA of 2048 to 8192 bits, PKCS#8 or PKCS#1; or EC on P-256 for `ECDH-ES`, PKCS#8 or SEC 1; PEM
    /// or DER.
    file: Option<FilePath>,
    /// The broker that holds the private key that opens; `certificate` is then the certificate or public key of it.
    broker: Option<broker::RawMleBroker>,
    /// Beside `file` the certificate of the key, for names that are derived from one. Alone the certificate or public key of the
    /// recipient: a key that seals. Among several keys the one whose certificate began last, of those that are valid, is used.
    certificate: Option<FilePath>,
    /// A key that both sides have, in base64: 16 bytes for `A128KW`, 32 for `A256KW`, and as many as `enc` needs for `dir`. Replace one of
    /// `dir` before it has sealed 2³² messages.
    pub(super) secret_file: Option<FilePath>,
    /// `RSA-OAEP-256`, `RSA-OAEP`, `RSA-OAEP-512` or `ECDH-ES` of a key that opens or seals, with `secret_file` one of `A128KW`, `A256KW` and
    /// `dir`; `RS256` or `PS256` of a key that signs, see `sign` of a route; `PS256` or `ES256` of one that verifies, see `verify` there. A key
    /// has one algorithm, and a private key does not stand in two entries of which one signs and one opens.
    /// - type: an algorithm
    /// - default: `RSA-OAEP-256`
    alg: Option<String>,
    /// Content encryption of tokens that are sealed: `A256GCM`, `A192GCM`, `A128GCM`, `A128CBC-HS256`, `A192CBC-HS384`,
    /// `A256CBC-HS512`, as the profile allows.
    /// - type: an algorithm
    /// - default: `A256GCM`
    enc: Option<String>,
    /// Name of the key in tokens.
    /// - default: derived by `kid_from`
    kid: Option<String>,
    /// Derivation of the name: `spki_sha256_hex`, `certificate_sha256_hex`, `certificate_sha256_base64`, `x5t_s256`,
    /// `subject_serial_number` or `jwk_thumbprint`.
    /// - default: none
    kid_from: Option<KidFrom>,
}

impl RawMleKey {
    /// Returns the algorithm of a key that signs or verifies.
    pub(super) fn signature_alg(&self) -> Option<JwsAlg> {
        // ES256 is none that this gateway signs with.
        self.alg.as_deref().and_then(JwsAlg::parse).filter(|alg| *alg != JwsAlg::Es256 || self.file.is_none())
    }

    /// Returns true if it has a private half.
    pub(super) fn is_private(&self) -> bool {
        self.file.is_some() || self.broker.is_some()
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum KidFrom {
    SpkiSha256Hex,
    CertificateSha256Hex,
    CertificateSha256Base64,
    #[serde(rename = "x5t_s256")]
    X5tS256,
    SubjectSerialNumber,
    JwkThumbprint,
}

/// Checks the section `mle_keys:`, without its files.
pub(in crate::config) fn resolve(
    raw: &BTreeMap<String, RawMleKey>,
    file: Option<&Path>,
    problems: &mut Problems,
) -> BTreeMap<String, KeyFiles> {
    let keys = raw.iter().map(|(name, key)| (name.clone(), resolve_key(name, key, file, problems)));
    keys.filter_map(|(name, key)| Some((name, key?))).collect()
}

fn resolve_key(name: &str, raw: &RawMleKey, file: Option<&Path>, problems: &mut Problems) -> Option<KeyFiles> {
    let at = format!("mle_keys.{name}");
    let is_shared = raw.secret_file.is_some();
    if is_shared && (raw.file.is_some() || raw.broker.is_some() || raw.certificate.is_some()) {
        problems.add(&at, "expected secret_file alone, or file or broker and certificate");
        return None;
    }
    if raw.file.is_none() && raw.certificate.is_none() && !is_shared {
        let text = match raw.broker {
            None => {
                "expected file, for a key that opens or signs, certificate, for one that seals, or secret_file, for one that \
                 opens and seals"
            }
            Some(_) => "expected certificate: the public half of the key in the broker",
        };
        problems.add(&at, text);
        return None;
    }
    if raw.file.is_some() && raw.broker.is_some() {
        problems.add(&at, "expected one of: file, broker");
    }
    let mut path = |setting: &str, text: &Option<FilePath>| {
        text.as_ref().map(|text| problems.file(&format!("{at}.{setting}"), file, text))
    };
    let (private, certificate) = (path("file", &raw.file), path("certificate", &raw.certificate));
    let secret = path("secret_file", &raw.secret_file);
    let alg = match raw.signature_alg() {
        Some(alg) => KeyAlg::Signature(alg),
        None => KeyAlg::Encryption(alg(
            &format!("{at}.alg"),
            raw.alg.as_deref(),
            ", RS256, PS256, and ES256 of a key that verifies",
            problems,
        )?),
    };
    let due = match alg {
        KeyAlg::Encryption(Alg::A128Kw | Alg::A256Kw | Alg::Dir) if !is_shared => Some("it needs a secret_file"),
        KeyAlg::Encryption(Alg::A128Kw | Alg::A256Kw | Alg::Dir) => None,
        _ if is_shared => Some("expected A128KW, A256KW or dir"),
        KeyAlg::Encryption(Alg::RsaOaep256 | Alg::RsaOaep) => None,
        KeyAlg::Encryption(_) if raw.broker.is_some() => Some("a broker has RSA-OAEP-256 and RSA-OAEP"),
        _ => None,
    };
    if let Some(due) = due {
        let alg = raw.alg.as_deref().unwrap_or(Alg::RsaOaep256.as_str());
        problems.add(format!("{at}.alg"), format!("{alg} is not an algorithm of this kind of key: {due}"));
        return None;
    }
    let broker = raw.broker.as_ref();
    let broker = broker.map(|broker| broker::resolve(&format!("{at}.broker"), name, broker, file, problems));
    let enc = enc(&format!("{at}.enc"), raw.enc.as_deref(), problems)?;
    match alg {
        KeyAlg::Signature(_) if raw.broker.is_some() => {
            problems.add(format!("{at}.broker"), "a broker's key opens, and neither signs nor verifies");
        }
        KeyAlg::Signature(_) if raw.enc.is_some() => {
            problems.add(format!("{at}.enc"), "a key that signs or verifies has none");
        }
        KeyAlg::Encryption(_) if raw.enc.is_some() && raw.is_private() => {
            problems.add(format!("{at}.enc"), "a key that opens takes what its route's profile allows");
        }
        _ => {}
    }
    let kid = match (&raw.kid, raw.kid_from) {
        (Some(kid), None) if !kid.is_empty() && kid.len() <= 256 => KidSource::Fixed(kid.clone()),
        (Some(_), None) => {
            problems.add(format!("{at}.kid"), "expected 1 to 256 bytes");
            return None;
        }
        (None, Some(_)) if is_shared => {
            problems.add(format!("{at}.kid_from"), "a shared key has no certificate: expected kid");
            return None;
        }
        (None, Some(from)) => source(from),
        _ => {
            problems.add(&at, "expected one of: kid, kid_from");
            return None;
        }
    };
    let secret = secret.zip(raw.kid.clone());
    Some(KeyFiles { file: private, broker, secret, certificate, alg, enc, kid })
}

fn source(from: KidFrom) -> KidSource {
    match from {
        KidFrom::SpkiSha256Hex => KidSource::SpkiSha256Hex,
        KidFrom::CertificateSha256Hex => KidSource::CertificateSha256Hex,
        KidFrom::CertificateSha256Base64 => KidSource::CertificateSha256Base64,
        KidFrom::X5tS256 => KidSource::X5tS256,
        KidFrom::SubjectSerialNumber => KidSource::SubjectSerialNumber,
        KidFrom::JwkThumbprint => KidSource::JwkThumbprint,
    }
}
