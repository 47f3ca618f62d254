//! The key of an answer to a request under HPKE (RFC 9458 section 4.4), which Oblivious HTTP and the Encrypted HTTP Body Protocol
//! derive alike, on both sides.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::crypto::AeadKey;
use crate::crypto::agreement::{AgreementProvider, Cipher};
use crate::error::Error;
use crate::hpke::Aead;
use crate::limits::{IV_LEN, TAG_LEN};

/// The key of one answer and the number of the next part.
pub(crate) struct AnswerKey {
    key: Box<dyn AeadKey>,
    base: [u8; IV_LEN],
    sequence: u64,
}

impl AnswerKey {
    /// Derives the key from the exported `secret`, the request's `enc` and the answer's nonce, which must not occur twice.
    pub(crate) fn derive(
        provider: &dyn AgreementProvider,
        aead: Aead,
        secret: &[u8],
        enc: &[u8],
        nonce: &[u8],
    ) -> Result<AnswerKey, Error> {
        let salt = [enc, nonce].concat();
        let prk = provider.mac_key(provider.hmac_sha256(&salt, &[secret]).as_slice());
        let (key, base) = (prk.mac(&[b"key", &[1]]), prk.mac(&[b"nonce", &[1]]));
        let key = match aead {
            Aead::Aes128Gcm => provider.aes128_gcm(key.first_chunk().ok_or(Error::Provider)?)?,
            Aead::Aes256Gcm => provider.aes256_gcm(&key)?,
            Aead::ChaCha20Poly1305 => provider.aead(Cipher::ChaCha20Poly1305, &key)?,
            Aead::ExportOnly => return Err(Error::Provider),
        };
        Ok(AnswerKey { key, base: *base.first_chunk().ok_or(Error::Provider)?, sequence: 0 })
    }

    /// The number of parts that were sealed or opened.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Seals the next part and appends ciphertext and tag to `out`.
    pub(crate) fn seal(&mut self, aad: &[u8], plaintext: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let iv = self.iv();
        let next = self.sequence.checked_add(1).ok_or(Error::Provider)?;
        let start = out.len();
        out.extend_from_slice(plaintext);
        let tag = self.key.seal_in_place(&iv, aad, out.get_mut(start..).ok_or(Error::Provider)?)?;
        self.sequence = next;
        out.extend_from_slice(&tag);
        Ok(())
    }

    /// Opens the next part in place and returns its plaintext. The content of a part that does not open is undefined.
    pub(crate) fn open<'a>(&mut self, aad: &[u8], sealed: &'a mut [u8]) -> Result<&'a [u8], Error> {
        let len = sealed.len().checked_sub(TAG_LEN).ok_or(Error::Unsealable)?;
        let next = self.sequence.checked_add(1).ok_or(Error::Provider)?;
        self.key.open_in_place(&self.iv(), aad, sealed).map_err(|_| Error::Unsealable)?;
        self.sequence = next;
        sealed.get(..len).ok_or(Error::Unsealable)
    }

    /// The base nonce xor the number of the part.
    fn iv(&self) -> [u8; IV_LEN] {
        let mut iv = self.base;
        for (to, from) in iv.iter_mut().skip(IV_LEN - 8).zip(self.sequence.to_be_bytes()) {
            *to ^= from;
        }
        iv
    }
}
