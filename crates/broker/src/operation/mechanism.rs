//! The ciphers: encryption with a nonce, decryption with a tag of the profile's length.

use aws_lc_rs::aead::{Aad, Nonce};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use zeroize::{Zeroize, Zeroizing};

use super::encrypt::{Cipher, NONCE_LEN, SealedMessage, TAG_LEN, Tag};
use super::failed;
use crate::keys::{self, CipherKey};
use crate::profile::policy::EncryptAlgorithm;
use crate::{Code, Refusal, Result};

/// Error of every ciphertext that does not open, whatever the reason: a reason would help an attacker.
pub(super) fn does_not_open() -> Refusal {
    Refusal::invalid("does not open: wrong key, version, nonce, aad or tag, or it was changed")
}

/// Checks that the cipher supports tags of this length.
fn check_tag_len(algorithm: EncryptAlgorithm, tag_len: usize) -> Result<()> {
    // GCM-SIV derives its key stream from the tag: a truncated tag cannot decrypt.
    let is_whole = algorithm == EncryptAlgorithm::Aes256GcmSiv;
    if !(12..=TAG_LEN).contains(&tag_len) || (is_whole && tag_len != TAG_LEN) {
        return Err(Refusal::new(Code::FailedPrecondition, "profile: the cipher has no tags of this length"));
    }
    Ok(())
}

/// Encrypts with this nonce, which must be used once.
pub(super) fn seal(
    cipher: &keys::Cipher,
    nonce: [u8; NONCE_LEN],
    aad: &[u8],
    plaintext: &[u8],
    tag_len: usize,
    key_version: u32,
) -> Result<SealedMessage> {
    check_tag_len(cipher.algorithm, tag_len)?;
    if let CipherKey::Token(key) = &cipher.key {
        let mut ciphertext = key.seal(&nonce, aad, tag_len, plaintext)?;
        let short = ciphertext.split_off(plaintext.len().min(ciphertext.len()));
        let mut tag = [0; TAG_LEN];
        tag.get_mut(..tag_len)
            .filter(|tag| tag.len() == short.len())
            .ok_or_else(|| failed("EncryptData"))?
            .copy_from_slice(&short);
        return Ok(SealedMessage { key_version, nonce, ciphertext, tag: Tag::truncated(tag, tag_len) });
    }
    let mut ciphertext = plaintext.to_vec();
    let tag = tag_of(cipher, nonce, aad, &mut ciphertext).inspect_err(|_| ciphertext.zeroize())?;
    Ok(SealedMessage { key_version, nonce, ciphertext, tag: Tag::truncated(tag, tag_len) })
}

/// Encrypts with a nonce of the broker's choice: this one, or in a FIPS build the module's own.
pub(super) fn seal_drawn(
    cipher: &keys::Cipher,
    nonce: [u8; NONCE_LEN],
    aad: &[u8],
    plaintext: &[u8],
    tag_len: usize,
    key_version: u32,
) -> Result<SealedMessage> {
    #[cfg(feature = "fips")]
    if let Some(sealing) = &cipher.sealing {
        check_tag_len(cipher.algorithm, tag_len)?;
        let mut ciphertext = plaintext.to_vec();
        let sealed = sealing.seal_in_place_separate_tag(Aad::from(aad), &mut ciphertext);
        let (nonce, tag) = sealed.map_err(|_| failed("EncryptData")).inspect_err(|_| ciphertext.zeroize())?;
        let tag = tag.as_ref().try_into().map_err(|_| failed("EncryptData"))?;
        return Ok(SealedMessage {
            key_version,
            nonce: *nonce.as_ref(),
            ciphertext,
            tag: Tag::truncated(tag, tag_len),
        });
    }
    seal(cipher, nonce, aad, plaintext, tag_len, key_version)
}

/// Encrypts a text in place, and returns the whole tag.
fn tag_of(cipher: &keys::Cipher, nonce: [u8; NONCE_LEN], aad: &[u8], text: &mut [u8]) -> Result<[u8; TAG_LEN]> {
    let CipherKey::Here(key) = &cipher.key else { return Err(failed("EncryptData")) };
    let sealed = key.seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), text);
    sealed.ok().and_then(|tag| tag.as_ref().try_into().ok()).ok_or_else(|| failed("EncryptData"))
}

/// Decrypts a ciphertext with a tag of this length.
pub(super) fn open(cipher: &keys::Cipher, sealed: &Cipher<'_>, tag_len: usize) -> Result<Vec<u8>> {
    check_tag_len(cipher.algorithm, tag_len)?;
    let nonce: [u8; NONCE_LEN] = sealed.nonce.try_into().map_err(|_| does_not_open())?;
    if sealed.tag.len() != tag_len {
        return Err(does_not_open());
    }
    if let CipherKey::Token(key) = &cipher.key {
        let whole = [sealed.ciphertext, sealed.tag].concat();
        let opened = key.open(&nonce, sealed.aad, tag_len, &whole).map_err(|refusal| match refusal.code {
            Code::InvalidArgument => does_not_open(),
            _ => refusal,
        });
        return opened.map(|mut text| std::mem::take(&mut *text));
    }
    if tag_len == TAG_LEN { open_whole(cipher, nonce, sealed) } else { open_truncated(cipher, nonce, sealed) }
}

fn open_whole(cipher: &keys::Cipher, nonce: [u8; NONCE_LEN], sealed: &Cipher<'_>) -> Result<Vec<u8>> {
    let CipherKey::Here(key) = &cipher.key else { return Err(failed("DecryptData")) };
    let mut text = Vec::with_capacity(sealed.ciphertext.len() + TAG_LEN);
    text.extend_from_slice(sealed.ciphertext);
    text.extend_from_slice(sealed.tag);
    let opened = key.open_in_place(Nonce::assume_unique_for_key(nonce), Aad::from(sealed.aad), &mut text).is_ok();
    if !opened {
        text.zeroize();
        return Err(does_not_open());
    }
    text.truncate(sealed.ciphertext.len());
    Ok(text)
}

/// Decrypts with a truncated tag, which the library does not support. These ciphers add a key stream of nonce and key,
/// so that encrypting the ciphertext gives the plaintext, and encrypting the plaintext gives the expected tag.
fn open_truncated(cipher: &keys::Cipher, nonce: [u8; NONCE_LEN], sealed: &Cipher<'_>) -> Result<Vec<u8>> {
    let mut text = Zeroizing::new(sealed.ciphertext.to_vec());
    tag_of(cipher, nonce, sealed.aad, &mut text)?;
    let mut again = Zeroizing::new(text.to_vec());
    let tag = tag_of(cipher, nonce, sealed.aad, &mut again)?;
    let expected = Tag::truncated(tag, sealed.tag.len());
    verify_slices_are_equal(expected.as_ref(), sealed.tag).map_err(|_| does_not_open())?;
    Ok(std::mem::take(&mut *text))
}
