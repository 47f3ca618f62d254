//! Attach tokens: `FST1.payload.signature` or `FST2.payload.signature`, signed by the control plane and verified by the relay.
//! SPEC relay.md#tokens

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::keys::{IssuerKey, Keyset};
use super::{b64u, json};
use crate::crypto::signature::ED25519_SIGNATURE_LEN;

/// The form of a token, which its prefix names and its signature covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenForm {
    /// The form of v1 up to January 2026, and of the native profile.
    #[default]
    Fst1,
    /// The form of later v1: `idle_timeout_seconds` is present and above 0, `role` is 1 or 2, names are not empty.
    Fst2,
}

impl TokenForm {
    /// Returns the first part of the token.
    pub fn prefix(self) -> &'static str {
        match self {
            TokenForm::Fst1 => "FST1",
            TokenForm::Fst2 => "FST2",
        }
    }

    fn from_prefix(prefix: &str) -> Option<Self> {
        [TokenForm::Fst1, TokenForm::Fst2].into_iter().find(|form| form.prefix() == prefix)
    }
}

/// Largest difference between the clocks of issuer and relay, in seconds.
pub const SKEW_S: i64 = 30;

/// The claims of a token. Times are seconds since the Unix epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// The token's form, FST1 or FST2.
    pub form: TokenForm,
    /// The name of the key that signed it.
    pub kid: String,
    /// The relay that it is for.
    pub aud: String,
    /// The issuer's name; may be empty.
    pub iss: String,
    /// The id of the channel.
    pub channel_id: String,
    /// The end of the channel; 1 or 2, but the number is not checked here.
    pub role: i64,
    /// Unique; the relay accepts it once.
    pub token_id: String,
    /// End of the time in which the channel must begin to carry records.
    pub init_exp: i64,
    /// Time at which it was issued.
    pub iat: i64,
    /// End of the time in which it may be used.
    pub exp: i64,
    /// Longest time that the channel may stay without a message, in seconds; `None` for the relay's own bound.
    pub idle_timeout_s: Option<u32>,
}

/// The defect of a rejected token. The peer gets `invalid token`, whatever the defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenInvalid {
    /// Not three parts, or another prefix.
    #[error("not FST1.payload.signature or FST2.payload.signature")]
    Shape,
    /// A part is not base64url.
    #[error("not base64url")]
    Encoding,
    /// The payload is not JSON, or a member has a wrong type.
    #[error("payload is not JSON of the right types")]
    Payload,
    /// The keyset has no key of this name.
    #[error("signed by an unknown key")]
    KeyUnknown,
    /// The signature does not verify.
    #[error("signature does not verify")]
    Signature,
    /// The token is for another relay.
    #[error("for another audience")]
    Audience,
    /// The token is of another issuer.
    #[error("of another issuer")]
    Issuer,
    /// The token was issued in the future.
    #[error("issued in the future")]
    Early,
    /// The token's time is over.
    #[error("expired")]
    Expired,
    /// The channel's time to begin is over.
    #[error("the channel's time to begin is over")]
    InitExpired,
    /// The token would outlive the channel's time to begin, or a bound of the relay.
    #[error("lives for too long")]
    Lifetime,
}

impl TokenInvalid {
    /// The stable code, for logs.
    pub fn code(self) -> &'static str {
        match self {
            TokenInvalid::Shape => "token_shape",
            TokenInvalid::Encoding => "token_encoding",
            TokenInvalid::Payload => "token_payload",
            TokenInvalid::KeyUnknown => "token_key_unknown",
            TokenInvalid::Signature => "token_signature",
            TokenInvalid::Audience => "token_audience",
            TokenInvalid::Issuer => "token_issuer",
            TokenInvalid::Early => "token_early",
            TokenInvalid::Expired => "token_expired",
            TokenInvalid::InitExpired => "token_init_expired",
            TokenInvalid::Lifetime => "token_lifetime",
        }
    }
}

/// The requirements of a relay on tokens.
#[derive(Clone, Debug, Default)]
pub struct Requirements {
    /// The audiences of the relay; empty for any.
    pub aud: Vec<String>,
    /// The issuers that the relay serves; empty for any.
    pub iss: Vec<String>,
    /// The longest time between `iat` and `exp` in seconds; 0 for any.
    pub lifetime_max_s: i64,
}

impl Claims {
    /// Encodes the payload's JSON, in the order and with the escapes of v1's issuer.
    fn encode(&self) -> String {
        let mut out = String::from("{");
        json::push_member(&mut out, "kid", &self.kid);
        json::push_member(&mut out, "aud", &self.aud);
        if !self.iss.is_empty() {
            json::push_member(&mut out, "iss", &self.iss);
        }
        json::push_member(&mut out, "channel_id", &self.channel_id);
        json::push_number(&mut out, "role", self.role);
        json::push_member(&mut out, "token_id", &self.token_id);
        json::push_number(&mut out, "init_exp", self.init_exp);
        if let Some(idle) = self.idle_timeout_s {
            json::push_number(&mut out, "idle_timeout_seconds", i64::from(idle));
        }
        json::push_number(&mut out, "iat", self.iat);
        json::push_number(&mut out, "exp", self.exp);
        out.push('}');
        out
    }

    fn parse(form: TokenForm, payload: &[u8]) -> Option<Claims> {
        let object = json::object(payload)?;
        let text = |name| json::text(&object, name).map(str::to_owned);
        let idle = json::whole(&object, "idle_timeout_seconds")?;
        let claims = Claims {
            form,
            kid: text("kid")?,
            aud: text("aud")?,
            iss: text("iss")?,
            channel_id: text("channel_id")?,
            role: json::whole(&object, "role").filter(|role| (0..=255).contains(role))?,
            token_id: text("token_id")?,
            init_exp: json::whole(&object, "init_exp")?,
            iat: json::whole(&object, "iat")?,
            exp: json::whole(&object, "exp")?,
            // An issuer states no idle time by 0 and less; a number over 32 bits is not one of theirs.
            idle_timeout_s: match i32::try_from(idle).ok()? {
                1.. => u32::try_from(idle).ok(),
                _ => None,
            },
        };
        (form == TokenForm::Fst1 || claims.is_fst2()).then_some(claims)
    }

    /// Returns whether the claims fulfil the requirements that `FST2` has beside those of `FST1`.
    fn is_fst2(&self) -> bool {
        let names = [&self.kid, &self.channel_id, &self.token_id];
        self.idle_timeout_s.is_some()
            && matches!(self.role, 1 | 2)
            && self.iat <= self.exp
            && names.iter().all(|name| !name.trim().is_empty())
    }

    /// Reads the claims of a token, for an endpoint that has it from its control plane and no key to verify it with. `None` if
    /// the text is not a token.
    pub fn read_unverified(token: &str) -> Option<Claims> {
        let (form, payload, _) = parts(token)?;
        Claims::parse(form, &b64u::decode(payload)?)
    }

    /// Returns the token, signed by `key`, whose name must be `kid`.
    pub fn sign(&self, key: &IssuerKey) -> String {
        let signed = format!("{}.{}", self.form.prefix(), b64u::encode(self.encode().as_bytes()));
        let signature = b64u::encode(&key.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }
}

/// Verifies a token, in the order of the spec: shape, base64url, JSON, key, signature, audience, issuer, times.
///
/// # Errors
/// [`TokenInvalid`]: the first defect found.
pub fn verify(token: &str, keys: &Keyset, expected: &Requirements, now_s: i64) -> Result<Claims, TokenInvalid> {
    let (form, payload, signature) = parts(token).ok_or(TokenInvalid::Shape)?;
    let signed = token.get(..form.prefix().len() + 1 + payload.len()).ok_or(TokenInvalid::Shape)?;
    let payload = b64u::decode(payload).ok_or(TokenInvalid::Encoding)?;
    let signature = b64u::decode(signature).ok_or(TokenInvalid::Encoding)?;
    let claims = Claims::parse(form, &payload).ok_or(TokenInvalid::Payload)?;
    let entry = keys.get(&claims.kid).ok_or(TokenInvalid::KeyUnknown)?;
    let signature: &[u8; ED25519_SIGNATURE_LEN] =
        signature.as_slice().try_into().map_err(|_| TokenInvalid::Signature)?;
    if !entry.key.verify(signed.as_bytes(), signature) {
        return Err(TokenInvalid::Signature);
    }
    let is_one_of = |allowed: &[String], value: &String| allowed.is_empty() || allowed.contains(value);
    // A bound key signs for its own tenant only, whatever else the relay serves.
    if !is_one_of(&expected.aud, &claims.aud) || !entry.binding.allows_aud(&claims.aud) {
        return Err(TokenInvalid::Audience);
    }
    if !is_one_of(&expected.iss, &claims.iss) || !entry.binding.allows_iss(&claims.iss) {
        return Err(TokenInvalid::Issuer);
    }
    judge_times(&claims, expected, now_s)?;
    Ok(claims)
}

/// Splits a token into form, payload and signature.
fn parts(token: &str) -> Option<(TokenForm, &str, &str)> {
    let mut parts = token.split('.');
    let (form, payload, signature) = (TokenForm::from_prefix(parts.next()?)?, parts.next()?, parts.next()?);
    parts.next().is_none().then_some((form, payload, signature))
}

fn judge_times(claims: &Claims, expected: &Requirements, now_s: i64) -> Result<(), TokenInvalid> {
    if claims.iat > now_s.saturating_add(SKEW_S) {
        return Err(TokenInvalid::Early);
    }
    let oldest = now_s.saturating_sub(SKEW_S);
    if claims.exp < oldest {
        return Err(TokenInvalid::Expired);
    }
    if claims.init_exp < oldest {
        return Err(TokenInvalid::InitExpired);
    }
    let lifetime = claims.exp.saturating_sub(claims.iat);
    if claims.exp > claims.init_exp || (expected.lifetime_max_s > 0 && lifetime > expected.lifetime_max_s) {
        return Err(TokenInvalid::Lifetime);
    }
    Ok(())
}

impl fmt::Display for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "role {} of a channel, by key {}", self.role, self.kid)
    }
}

#[cfg(test)]
mod tests;
