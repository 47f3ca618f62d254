//! Claims that are signed before they are encrypted: the payload of a nested JWT (RFC 7519 section 3). SPEC mle.md#nested-tokens

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use serde_json::Value;
use zeroize::Zeroizing;

use super::key::{SigningKey, VerifyingKeys};
use super::{hex, jws};
use crate::crypto::Provider;
use crate::mle::header::{KID_LEN_MAX, Members};
use crate::mle::json::Text;
use crate::mle::profile::Message;
use crate::mle::refusal::{Class, Refusal};
use crate::session::{Claim, ClaimKey, NonceGuard};
use crate::wire::ReplayPolicy;

/// Time for which a token is valid, in seconds: that of the UAE's profile.
const VALID_S: u64 = 300;
/// Difference of clocks that `exp` and `nbf` allow, in seconds.
const LEEWAY_S: u64 = 60;
/// The domain of a token's id among claims.
const ID_DOMAIN: u8 = 7;

/// The signer of a token, its recipient, and whom it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parties {
    /// The signer, in the claim `iss`.
    pub issuer: String,
    /// The recipient, in the claim `aud`, as one text.
    pub audience: String,
    /// The subject, in the claim `sub`; `None` writes none, and allows any.
    pub subject: Option<String>,
}

/// Signs a JSON object with its claims, and returns the compact form. A member of the object that has the name of a claim is replaced; the
/// others keep the text of their values and their order. `id` is used once.
///
/// # Errors
/// [`Class::Json`] unless the body is one JSON object; [`Class::Signature`] if the library fails.
// SPEC mle.md#nested-tokens
pub fn sign(body: &[u8], parties: &Parties, key: &SigningKey, now_ms: u64, id: [u8; 16]) -> Result<String, Refusal> {
    let text = Text::parse(body)?;
    if !text.is_object(&text.root()) {
        return Err(Refusal::new(Class::Json, "the plaintext of a nested token is a JSON object"));
    }
    let now_s = now_ms / 1000;
    let mut claims = Vec::from([
        ("iss", Value::from(parties.issuer.as_str())),
        ("aud", Value::from(parties.audience.as_str())),
        ("iat", Value::from(now_s)),
        ("exp", Value::from(now_s.saturating_add(VALID_S))),
        ("jti", Value::from(hex(&id))),
    ]);
    if let Some(subject) = &parties.subject {
        claims.push(("sub", Value::from(subject.as_str())));
    }
    let mut payload = Zeroizing::new(String::with_capacity(body.len() + 1024));
    for (name, value) in &claims {
        let before = if payload.is_empty() { '{' } else { ',' };
        payload.push(before);
        *payload += &format!("\"{name}\":{value}");
    }
    for member in text.members(&text.root()) {
        let name = text.string(&member.name).unwrap_or_default();
        if claims.iter().all(|(claim, _)| *claim != name) {
            payload.push(',');
            *payload += text.at(&member.name);
            payload.push(':');
            *payload += text.at(&member.value);
        }
    }
    payload.push('}');
    jws::sign(payload.as_bytes(), "JWT", key)
}

/// The payload of a token whose signature and claims are right.
#[derive(Debug)]
pub struct Payload {
    /// The bytes that were signed, behind the claim against replays of their `jti`.
    pub guarded: NonceGuard<Zeroizing<Vec<u8>>>,
    /// True if there is a `jti`, which only an answer may lack. All messages of an issuer without one have the same claim: no store may
    /// reserve it.
    pub has_id: bool,
}

/// Verifies a compact form and its claims, and returns its payload, which a store releases once.
///
/// # Errors
/// Those of [`jws::verify`]; [`Class::Claims`], and [`Class::Iat`] for an `iat` that is absent or outside of the window.
// SPEC mle.md#nested-tokens
pub fn verify(
    token: &[u8],
    parties: &Parties,
    keys: &VerifyingKeys,
    message: Message,
    replay: &ReplayPolicy,
    now_ms: u64,
    hashes: &dyn Provider,
) -> Result<Payload, Refusal> {
    let payload = Zeroizing::new(jws::verify(token, keys)?);
    let (claim, has_id) = claim(&payload, parties, message, replay, now_ms, hashes)?;
    Ok(Payload { guarded: NonceGuard::new(payload, claim), has_id })
}

/// Checks the claims of a payload, and returns the claim against replays of its id, and whether it has one.
fn claim(
    payload: &[u8],
    parties: &Parties,
    message: Message,
    replay: &ReplayPolicy,
    now_ms: u64,
    hashes: &dyn Provider,
) -> Result<(Claim, bool), Refusal> {
    let wrong = |detail| Refusal::new(Class::Claims, detail);
    let text = Text::parse(payload).map_err(|_| wrong("the payload is not a JSON object"))?;
    let claims = Members::read(text, &text.root());
    let claims = claims.map_err(|_| wrong("the payload is not a JSON object without duplicates"))?;
    let string = |name| claims.string(name, Class::Claims);
    if string("iss")?.as_deref() != Some(parties.issuer.as_str()) {
        return Err(wrong("iss is another issuer"));
    }
    if parties.subject.is_some() && string("sub")?.as_deref() != parties.subject.as_deref() {
        return Err(wrong("sub is another subject"));
    }
    let is_audience = |value: &Range<usize>| text.string(value).as_deref() == Some(parties.audience.as_str());
    // One text, or a list of them (RFC 7519 section 4.1.3).
    let is_named = claims.get("aud").is_some_and(|aud| match text.is_array(aud) {
        true => text.elements(aud).any(|element| is_audience(&element)),
        false => is_audience(aud),
    });
    if !is_named {
        return Err(wrong("aud is another audience"));
    }
    let now_s = now_ms / 1000;
    let exp = claims.number("exp", Class::Claims)?.ok_or_else(|| wrong("exp is absent"))?;
    if exp.saturating_add(LEEWAY_S) <= now_s {
        return Err(wrong("the token has ended"));
    }
    if claims.number("nbf", Class::Claims)?.is_some_and(|nbf| nbf > now_s.saturating_add(LEEWAY_S)) {
        return Err(wrong("the token is not valid yet"));
    }
    let iat = claims.number("iat", Class::Iat)?.and_then(|iat| iat.checked_mul(1000));
    let iat_ms = iat.filter(|iat_ms| replay.check_ms(*iat_ms, now_ms).is_ok());
    let iat_ms = iat_ms.ok_or_else(|| Refusal::new(Class::Iat, "iat is absent, or outside of the window"))?;
    let id = string("jti")?;
    let has_id = id.is_some();
    let id = match id {
        Some(id) if id.is_empty() || id.len() > KID_LEN_MAX => {
            return Err(wrong("jti is empty or longer than 256 bytes"));
        }
        None if message == Message::Request => return Err(wrong("jti is absent")),
        id => id.unwrap_or_default(),
    };
    // An id is unique for its issuer alone.
    let len = |text: &str| (text.len() as u64).to_be_bytes();
    let issuer = parties.issuer.as_str();
    let hash = hashes.sha256(&[&[ID_DOMAIN], &len(issuer), issuer.as_bytes(), &len(&id), id.as_bytes()]);
    let key = ClaimKey(hash.first_chunk().copied().unwrap_or_default());
    let claim = Claim::passed_on(key, false, iat_ms, now_ms, replay);
    Ok((claim.map_err(|_| Refusal::new(Class::Iat, "iat is outside of the window"))?, has_id))
}
