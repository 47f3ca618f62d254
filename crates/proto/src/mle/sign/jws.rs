//! JSON Web Signature (RFC 7515): the compact form, and the detached one of open banking's `x-jws-signature`. SPEC
//! mle.md#json-web-signatures

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

use super::key::{SigningKey, VerifyingKey, VerifyingKeys};
use super::{failed, refusal};
use crate::crypto::Provider;
use crate::mle::algorithm::JwsAlg;
use crate::mle::compact::{self, Alphabet};
use crate::mle::header::{HEADER_LEN_MAX, KEY_PARAMS, Members, kid, x5t_s256};
use crate::mle::json::Text;
use crate::mle::refusal::{Class, Refusal};
use crate::session::{Claim, ClaimKey};
use crate::wire::ReplayPolicy;

/// The critical parameters of open banking: time of the signature in seconds, signer, and its trust anchor.
const OPEN_BANKING: [&str; 3] =
    ["http://openbanking.org.uk/iat", "http://openbanking.org.uk/iss", "http://openbanking.org.uk/tan"];

/// The domain of what a detached signature covers among claims.
const DETACHED_DOMAIN: u8 = 8;

/// The signer of a detached signature of open banking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// The name of the signer, `http://openbanking.org.uk/iss`: the subject of its certificate, or its organisation's id.
    pub issuer: String,
    /// The domain that vouches for the key, `http://openbanking.org.uk/tan`.
    pub trust_anchor: String,
}

/// The header in which open banking sends a detached signature.
pub const X_JWS_SIGNATURE: &str = "x-jws-signature";

/// Signs a payload, and returns the compact form with the media type `typ` in its header.
///
/// # Errors
/// [`Class::Signature`] if the library fails.
pub fn sign(payload: &[u8], typ: &str, key: &SigningKey) -> Result<String, Refusal> {
    let header = format!(r#"{{"alg":"{}","kid":{},"typ":{}}}"#, key.alg(), Value::from(key.kid()), Value::from(typ));
    let signed = format!("{}.{}", compact::encode(header.as_bytes()), compact::encode(payload));
    let signature = key.sign(signed.as_bytes()).map_err(failed)?;
    Ok(format!("{signed}.{}", compact::encode(&signature)))
}

/// Verifies a compact form and returns its payload. A header without `kid` is that of the only key there is.
///
/// # Errors
/// [`Class::Shape`], [`Class::Base64`], [`Class::Size`], [`Class::Header`], [`Class::Crit`] for each extension, [`Class::Param`],
/// [`Class::Kid`]; [`Class::Alg`] unless `alg` is the key's; [`Class::Signature`].
pub fn verify(token: &[u8], keys: &VerifyingKeys) -> Result<Vec<u8>, Refusal> {
    let parts = Parts::split(token)?;
    let header = parts.header()?;
    let text = parse(&header)?;
    let members = Members::read(text, &text.root())?;
    if members.get("crit").is_some() {
        return Err(Refusal::quoting(Class::Crit, "the profile has no such parameter", "crit"));
    }
    parts.verify(parts.payload, key(&members, keys)?)?;
    compact::decode(parts.payload, Alphabet::Strict)
}

/// Signs a payload that is sent elsewhere, as open banking does: the form has an empty part in the place of the payload.
///
/// # Errors
/// [`Class::Signature`] if the library fails.
pub fn sign_detached(payload: &[u8], signer: &Signer, key: &SigningKey, now_ms: u64) -> Result<String, Refusal> {
    let [iat, iss, tan] = OPEN_BANKING;
    let header = format!(
        r#"{{"alg":"{}","kid":{},"{iat}":{},"{iss}":{},"{tan}":{},"crit":["{iat}","{iss}","{tan}"]}}"#,
        key.alg(),
        Value::from(key.kid()),
        now_ms / 1000,
        Value::from(signer.issuer.as_str()),
        Value::from(signer.trust_anchor.as_str()),
    );
    let header = compact::encode(header.as_bytes());
    let signed = format!("{header}.{}", compact::encode(payload));
    let signature = key.sign(signed.as_bytes()).map_err(failed)?;
    Ok(format!("{header}..{}", compact::encode(&signature)))
}

/// Verifies the detached signature of a signer over a payload. The time may differ from `now_ms` by `window_ms` in either direction.
///
/// # Errors
/// Those of [`verify`]; [`Class::Crit`] unless exactly the parameters of open banking are critical; [`Class::Iat`] for a time outside
/// of the window; [`Class::Signature`] for another signer.
pub fn verify_detached(
    token: &[u8],
    payload: &[u8],
    keys: &VerifyingKeys,
    signer: &Signer,
    window_ms: u64,
    now_ms: u64,
) -> Result<(), Refusal> {
    verify_at(token, payload, keys, signer, window_ms, now_ms).map(|_| ())
}

/// Verifies as [`verify_detached`] does, and returns the claim against replays of what is signed. The signature is not part of it: that
/// of ECDSA has a second spelling, which anybody can make.
///
/// # Errors
/// Those of [`verify_detached`].
// SPEC mle.md#detached-signatures
pub fn claim_detached(
    token: &[u8],
    payload: &[u8],
    keys: &VerifyingKeys,
    signer: &Signer,
    replay: &ReplayPolicy,
    now_ms: u64,
    hashes: &dyn Provider,
) -> Result<Claim, Refusal> {
    let at_ms = verify_at(token, payload, keys, signer, replay.window_ms(), now_ms)?;
    let header = Parts::split(token)?.header;
    let issuer = signer.issuer.as_bytes();
    let len = (issuer.len() as u64).to_be_bytes();
    let hash = hashes.sha256(&[&[DETACHED_DOMAIN], &len, issuer, header, b".", payload]);
    let key = ClaimKey(hash.first_chunk().copied().unwrap_or_default());
    Claim::passed_on(key, false, at_ms, now_ms, replay).map_err(|_| outside())
}

/// Verifies a detached signature, and returns its time in milliseconds.
fn verify_at(
    token: &[u8],
    payload: &[u8],
    keys: &VerifyingKeys,
    signer: &Signer,
    window_ms: u64,
    now_ms: u64,
) -> Result<u64, Refusal> {
    let parts = Parts::split(token)?;
    if !parts.payload.is_empty() {
        return Err(Refusal::new(Class::Shape, "a detached signature has no payload"));
    }
    let header = parts.header()?;
    let text = parse(&header)?;
    let members = Members::read(text, &text.root())?;
    check_critical(&members)?;
    parts.verify(compact::encode(payload).as_bytes(), key(&members, keys)?)?;
    let [iat, iss, tan] = OPEN_BANKING;
    let is = |name, value: &str| Ok::<_, Refusal>(members.string(name, Class::Signature)?.as_deref() == Some(value));
    if !is(iss, &signer.issuer)? || !is(tan, &signer.trust_anchor)? {
        return Err(refusal("the signature is of another signer or trust anchor"));
    }
    let at_s = members.number(iat, Class::Iat)?;
    let at_ms = at_s.and_then(|at| at.checked_mul(1000));
    at_ms.filter(|at_ms| at_ms.abs_diff(now_ms) <= window_ms).ok_or_else(outside)
}

fn outside() -> Refusal {
    Refusal::new(Class::Iat, "the time of the signature is absent, or outside of the window")
}

/// The three parts of a compact form, as received.
struct Parts<'a> {
    header: &'a [u8],
    payload: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Parts<'a> {
    fn split(token: &'a [u8]) -> Result<Parts<'a>, Refusal> {
        let mut parts = token.split(|byte| *byte == b'.');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(header), Some(payload), Some(signature), None) => Ok(Parts { header, payload, signature }),
            _ => Err(Refusal::new(Class::Shape, "the signature has not three parts")),
        }
    }

    fn header(&self) -> Result<Vec<u8>, Refusal> {
        // Four characters for three bytes.
        if self.header.len() > HEADER_LEN_MAX.div_ceil(3) * 4 {
            return Err(Refusal::new(Class::Size, "the header is longer than 4096 bytes"));
        }
        compact::decode(self.header, Alphabet::Strict)
    }

    /// Verifies the signature over the header and a payload in base64url.
    fn verify(&self, payload: &[u8], key: &VerifyingKey) -> Result<(), Refusal> {
        let signature = compact::decode(self.signature, Alphabet::Strict)?;
        let signed = [self.header, b".", payload].concat();
        if key.verify(&signed, &signature) { Ok(()) } else { Err(refusal("the signature does not verify")) }
    }
}

fn parse(header: &[u8]) -> Result<Text<'_>, Refusal> {
    Text::parse(header).map_err(|fault| Refusal::new(Class::Header, fault.as_str()))
}

/// Returns the key of a header, which must have its algorithm.
fn key<'a>(members: &Members<'_>, keys: &'a VerifyingKeys) -> Result<&'a VerifyingKey, Refusal> {
    if members.get("b64").is_some() {
        return Err(Refusal::quoting(Class::Crit, "the profile has no such parameter", "b64"));
    }
    if let Some(name) = KEY_PARAMS.iter().find(|name| members.get(name).is_some()) {
        return Err(Refusal::quoting(Class::Param, "a token may not bring or name key material", name));
    }
    let alg = members.string("alg", Class::Alg)?.unwrap_or_default();
    let alg = JwsAlg::parse(&alg).ok_or_else(|| Refusal::quoting(Class::Alg, "alg is not supported", &alg))?;
    for name in ["typ", "cty"] {
        members.string(name, Class::Header)?;
    }
    let kid = kid(members)?;
    let key = keys.get(kid.as_deref());
    let key = key.ok_or_else(|| Refusal::quoting(Class::Kid, "no live key has this kid", &kid.unwrap_or_default()))?;
    if key.alg() != alg {
        return Err(Refusal::new(Class::Alg, "alg is not that of the key"));
    }
    match x5t_s256(members)? {
        Some(hash) if key.certificate_sha256 != Some(hash) => {
            Err(Refusal::new(Class::Param, "x5t#S256 is not the hash of the key's certificate"))
        }
        _ => Ok(key),
    }
}

/// Checks that exactly the parameters of open banking are critical, each once.
fn check_critical(members: &Members<'_>) -> Result<(), Refusal> {
    let wrong = || Refusal::new(Class::Crit, "crit is not the list of open banking's parameters");
    let list = members.get("crit").ok_or_else(wrong)?;
    let mut due = OPEN_BANKING.to_vec();
    for element in members.text.elements(list) {
        let name = members.text.string(&element).ok_or_else(wrong)?;
        let at = due.iter().position(|other| *other == name).ok_or_else(wrong)?;
        due.remove(at);
    }
    if due.is_empty() { Ok(()) } else { Err(wrong()) }
}
