//! Sealing a plaintext to one recipient (RFC 7516 section 5.1). SPEC mle.md#sealing

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;
use zeroize::Zeroizing;

use super::algorithm::CEK_LEN_MAX;
use super::compact;
use super::crypto::{CryptoFailure, JoseProvider};
use super::keys::{ContentKey, SealingKey};
use super::profile::{IatUnit, Message, Profile};
use crate::crypto::Provider;
use crate::error::Error;

/// A content encryption key and an IV, for one token each. The padding of RSA-OAEP takes its own from the library.
pub struct SealRandoms {
    pub(super) cek: Zeroizing<[u8; CEK_LEN_MAX]>,
    pub(super) iv: [u8; 16],
}

impl SealRandoms {
    /// Draws them from the provider.
    ///
    /// # Errors
    /// [`Error::Provider`] when the generator fails.
    pub fn draw(provider: &dyn Provider) -> Result<SealRandoms, Error> {
        let mut randoms = SealRandoms { cek: Zeroizing::new([0; CEK_LEN_MAX]), iv: [0; 16] };
        provider.fill_random(randoms.cek.as_mut_slice())?;
        provider.fill_random(&mut randoms.iv)?;
        Ok(randoms)
    }

    /// Uses these bytes, for test vectors: of each the first as many as the algorithm needs.
    pub fn from_bytes(cek: [u8; CEK_LEN_MAX], iv: [u8; 16]) -> SealRandoms {
        SealRandoms { cek: Zeroizing::new(cek), iv }
    }
}

/// The reasons for which a plaintext is not sealed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The profile does not allow the key's algorithms in this direction.
    #[error("the profile {0} does not allow {1} with {2}")]
    Algorithm(&'static str, &'static str, &'static str),
    /// The crypto library failed to encrypt.
    #[error("the cryptographic library failed")]
    Crypto,
}

impl From<CryptoFailure> for SealError {
    fn from(_: CryptoFailure) -> SealError {
        SealError::Crypto
    }
}

/// Seals a plaintext and returns the token; for the field-level form see [`super::fle::FieldSealer`]. IVs of AES-GCM have 12 bytes in every profile.
///
/// # Errors
/// [`SealError`].
// SPEC mle.md#sealing
pub fn seal(
    plaintext: &[u8],
    profile: &Profile,
    message: Message,
    key: &SealingKey,
    now_ms: u64,
    randoms: SealRandoms,
    provider: &dyn JoseProvider,
) -> Result<String, SealError> {
    let (alg, enc) = key.algorithms();
    if !profile.allows(message, alg, enc) {
        return Err(SealError::Algorithm(profile.name(), alg.as_str(), enc.as_str()));
    }
    let fresh = randoms.cek.get(..enc.cek_len()).unwrap_or_default();
    let ContentKey { cek, encrypted_key, ephemeral } = key.content_key(fresh, provider.base())?;
    let header = compact::encode(header(profile, message, key, now_ms, ephemeral.as_ref()).as_bytes());
    let iv = randoms.iv.get(..enc.iv_len()).unwrap_or_default();
    let mut data = copy(plaintext);
    let tag = provider.seal_content(enc, &cek, iv, header.as_bytes(), &mut data)?;
    Ok(compact::join(&header, &encrypted_key, iv, &data, &tag))
}

/// Copies the plaintext with room for padding, so that no growth leaves a copy behind.
pub(super) fn copy(plaintext: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut data = Zeroizing::new(Vec::with_capacity(plaintext.len() + 16));
    data.extend_from_slice(plaintext);
    data
}

fn header(profile: &Profile, message: Message, key: &SealingKey, now_ms: u64, ephemeral: Option<&[u8; 65]>) -> String {
    let (alg, enc) = key.algorithms();
    // The value of a string, with its quotes and escapes.
    let mut json = format!(r#"{{"alg":"{alg}","enc":"{enc}","kid":{}"#, Value::from(key.kid()));
    if let Some(cty) = profile.side(message).cty {
        json += &format!(r#","cty":{}"#, Value::from(cty));
    }
    match profile.iat {
        Some(IatUnit::Seconds) => json += &format!(r#","iat":{}"#, now_ms / 1000),
        Some(IatUnit::Milliseconds) => json += &format!(r#","iat":{now_ms}"#),
        None => {}
    }
    if let Some([_, coordinates @ ..]) = ephemeral {
        let (x, y) = coordinates.split_at(32);
        let (x, y) = (compact::encode(x), compact::encode(y));
        json += &format!(r#","epk":{{"kty":"EC","crv":"P-256","x":"{x}","y":"{y}"}}"#);
    }
    json.push('}');
    json
}
