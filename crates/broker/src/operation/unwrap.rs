//! Content keys of JWE, encrypted to an RSA key of the store: RSAES-OAEP (RFC 8017 section 7.1) with an empty label.
//!
//! An encrypted key that does not decrypt gives a pseudorandom content key and no error, so that the operation is no
//! oracle on the padding (Manger's attack). The same input always gives the same key: a caller that repeats it learns
//! nothing either.

use aws_lc_rs::hkdf::{KeyType, Prk};
use aws_lc_rs::rsa::{OAEP_SHA1_MGF1SHA1, OAEP_SHA256_MGF1SHA256, OaepAlgorithm};
use zeroize::Zeroizing;

use super::encrypt::outputs_of;
use super::{Outputs, check_batch, failed, not_in};
use crate::keys::{Algorithm, Form, Key, OaepKey, UnwrapKey};
use crate::profile::policy::{Profile, UnwrapAlgorithm};
use crate::{Refusal, Result};

/// Lengths of the content keys of RFC 7518 section 5.1, in bytes.
const CONTENT_KEY_LENS: [usize; 5] = [16, 24, 32, 48, 64];

/// An encrypted content key, as a token of JWE has it.
#[derive(Clone, Copy, Debug)]
pub struct EncryptedKey<'a> {
    /// Ciphertext, as long as the modulus of the RSA key.
    pub bytes: &'a [u8],
    /// Length of the content key, in bytes: 16, 24, 32, 48 or 64.
    pub content_key_len: usize,
}

/// Decrypts content keys under a version of the key: 0 is the current one. An encrypted key that does not decrypt to a
/// key of its length gives another key of that length, after the same work.
///
/// # Errors
/// [`Code::InvalidArgument`](crate::Code::InvalidArgument): batch, lengths or key;
/// [`Code::FailedPrecondition`](crate::Code::FailedPrecondition): not in the profile, or the version is disabled.
pub fn unwrap(
    profile: &Profile,
    key: &Key,
    key_version: u32,
    wrapped: &[EncryptedKey<'_>],
) -> Result<Outputs<Zeroizing<Vec<u8>>>> {
    let algorithm = profile.unwrap.ok_or_else(|| not_in(profile, "Unwrap"))?;
    let Algorithm::RsaUnwrap(bits) = key.algorithm() else {
        let text = format!("key_id: a key of {}, the profile wants rsa-unwrap", key.algorithm());
        return Err(Refusal::invalid(text));
    };
    check_batch("wrapped", wrapped.iter().map(|one| one.bytes.len()))?;
    let modulus_len = usize::try_from(bits / 8).unwrap_or(usize::MAX);
    if wrapped.iter().any(|one| one.bytes.len() != modulus_len) {
        return Err(Refusal::invalid(format!("wrapped.encrypted_key: expected {modulus_len} bytes each")));
    }
    if wrapped.iter().any(|one| !CONTENT_KEY_LENS.contains(&one.content_key_len)) {
        return Err(Refusal::invalid("wrapped.length: expected 16, 24, 32, 48 or 64"));
    }
    let version = key.version(key_version)?;
    let Form::Unwrap(form) = key.form(version)? else { return Err(failed("Unwrap")) };
    let outputs = wrapped.iter().map(|one| unwrap_one(algorithm, form, one)).collect::<Result<_>>()?;
    Ok(outputs_of(version, outputs))
}

fn unwrap_one(algorithm: UnwrapAlgorithm, form: &UnwrapKey, wrapped: &EncryptedKey<'_>) -> Result<Zeroizing<Vec<u8>>> {
    let decoy = decoy(algorithm, &form.decoys, wrapped)?;
    let mut buffer;
    let found = match &form.key {
        OaepKey::Here(key) => {
            buffer = Zeroizing::new(vec![0; key.min_output_size()]);
            let decrypted = key.decrypt(oaep(algorithm), wrapped.bytes, &mut buffer, None).ok();
            decrypted.map_or(&[][..], |decrypted| decrypted)
        }
        OaepKey::Token(key) => {
            let is_sha1 = matches!(algorithm, UnwrapAlgorithm::RsaOaep);
            buffer = key.decrypt_oaep(is_sha1, wrapped.bytes)?.unwrap_or_default();
            buffer.as_slice()
        }
    };
    let chosen = if found.len() == wrapped.content_key_len { found } else { decoy.as_slice() };
    Ok(Zeroizing::new(chosen.to_vec()))
}

/// Derives the key that takes the place of one that does not decrypt. The algorithm and the length are part of it: else
/// asking again with another one would tell a decoy from a content key.
fn decoy(algorithm: UnwrapAlgorithm, secret: &Prk, wrapped: &EncryptedKey<'_>) -> Result<Zeroizing<Vec<u8>>> {
    struct Len(usize);
    impl KeyType for Len {
        fn len(&self) -> usize {
            self.0
        }
    }
    let len = wrapped.content_key_len;
    let mut decoy = Zeroizing::new(vec![0; len]);
    let len_byte = [u8::try_from(len).unwrap_or(u8::MAX)];
    let info = [algorithm.name().as_bytes(), &len_byte, wrapped.bytes];
    let derived = secret.expand(&info, Len(len)).and_then(|output| output.fill(&mut decoy));
    derived.map(|()| decoy).map_err(|_| failed("Unwrap"))
}

fn oaep(algorithm: UnwrapAlgorithm) -> &'static OaepAlgorithm {
    match algorithm {
        UnwrapAlgorithm::RsaOaep256 => &OAEP_SHA256_MGF1SHA256,
        UnwrapAlgorithm::RsaOaep => &OAEP_SHA1_MGF1SHA1,
    }
}
