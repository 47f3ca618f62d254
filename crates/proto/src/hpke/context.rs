//! The key schedule and the contexts that it gives (RFC 9180 sections 5.1 to 5.3).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use zeroize::Zeroizing;

use super::labeled::Labels;
use super::{Aead, HpkeError, PSK_LEN_MIN, Psk, Secret, Suite};
use crate::crypto::AeadKey;
use crate::crypto::agreement::{AgreementProvider, Cipher};
use crate::error::Error;
use crate::limits::{IV_LEN, TAG_LEN};

/// Marks the context of the party that encapsulated.
#[derive(Debug)]
pub enum Sender {}

/// Marks the context of the party that decapsulated.
#[derive(Debug)]
pub enum Receiver {}

/// The state after a setup. Only a sender seals and only a receiver opens: both directions under one key would repeat nonces.
pub struct Context<Role> {
    suite: Suite,
    key: Option<Box<dyn AeadKey>>,
    base_nonce: [u8; IV_LEN],
    sequence: u64,
    exporter_secret: Zeroizing<[u8; 32]>,
    role: PhantomData<fn() -> Role>,
}

impl<Role> Context<Role> {
    pub(super) fn derive(
        provider: &dyn AgreementProvider,
        suite: Suite,
        secret: &Secret,
        info: &[u8],
        psk: Option<Psk<'_>>,
    ) -> Result<Context<Role>, HpkeError> {
        let mode = u8::from(psk.is_some());
        let psk = match psk {
            Some(psk) if psk.key.len() < PSK_LEN_MIN || psk.id.is_empty() => return Err(HpkeError::Psk),
            Some(psk) => psk,
            None => Psk { key: &[], id: &[] },
        };
        let suite_id = suite.id();
        let labeled = Labels { provider, suite_id: &suite_id };
        let psk_id_hash = labeled.extract(&[], "psk_id_hash", psk.id);
        let info_hash = labeled.extract(&[], "info_hash", info);
        let context: [&[u8]; 3] = [&[mode], psk_id_hash.as_slice(), info_hash.as_slice()];
        let prk = labeled.extract(secret.as_slice(), "secret", psk.key);
        let provided = |key: Result<Box<dyn AeadKey>, Error>| key.map(Some).map_err(|_| HpkeError::Provider);
        let key = match suite.aead {
            Aead::ExportOnly => None,
            Aead::Aes128Gcm => provided(provider.aes128_gcm(&*labeled.expand_array(&prk, "key", &context)?))?,
            Aead::Aes256Gcm => provided(provider.aes256_gcm(&*labeled.expand_array(&prk, "key", &context)?))?,
            Aead::ChaCha20Poly1305 => {
                provided(provider.aead(Cipher::ChaCha20Poly1305, &*labeled.expand_array(&prk, "key", &context)?))?
            }
        };
        Ok(Context {
            suite,
            key,
            base_nonce: *labeled.expand_array(&prk, "base_nonce", &context)?,
            sequence: 0,
            exporter_secret: labeled.expand_array(&prk, "exp", &context)?,
            role: PhantomData,
        })
    }

    /// Fills `out`, at most 8160 bytes, with a secret of this context and of `exporter_context` (RFC 9180 section 5.3).
    ///
    /// # Errors
    /// [`HpkeError::ExportLength`] for a longer `out`.
    pub fn export(
        &self,
        provider: &dyn AgreementProvider,
        exporter_context: &[u8],
        out: &mut [u8],
    ) -> Result<(), HpkeError> {
        let suite_id = self.suite.id();
        Labels { provider, suite_id: &suite_id }.expand(&self.exporter_secret, "sec", &[exporter_context], out)
    }

    /// The key, and the nonce of the next message: the base nonce xor its number.
    fn next(&self) -> Result<(&dyn AeadKey, [u8; IV_LEN]), HpkeError> {
        let key = self.key.as_deref().ok_or(HpkeError::ExportOnly)?;
        if self.sequence == u64::MAX {
            return Err(HpkeError::SequenceExhausted);
        }
        let mut nonce = self.base_nonce;
        for (to, from) in nonce.iter_mut().skip(IV_LEN - 8).zip(self.sequence.to_be_bytes()) {
            *to ^= from;
        }
        Ok((key, nonce))
    }
}

impl Context<Sender> {
    /// Seals the next message: returns ciphertext and tag, 16 bytes more than `plaintext`.
    ///
    /// # Errors
    /// [`HpkeError::ExportOnly`], [`HpkeError::SequenceExhausted`], [`HpkeError::Provider`].
    pub fn seal(&mut self, aad: &[u8], plaintext: &[u8]) -> Result<Vec<u8>, HpkeError> {
        let mut sealed = Vec::with_capacity(plaintext.len().saturating_add(TAG_LEN));
        sealed.extend_from_slice(plaintext);
        let (key, nonce) = self.next()?;
        let tag = key.seal_in_place(&nonce, aad, &mut sealed).map_err(|_| HpkeError::Provider)?;
        self.sequence += 1;
        sealed.extend_from_slice(&tag);
        Ok(sealed)
    }
}

impl Context<Receiver> {
    /// Opens the next message in place and returns its plaintext, the first `len - 16` bytes of the buffer. A message that
    /// does not open takes no sequence number; the content of the buffer is then undefined.
    ///
    /// # Errors
    /// [`HpkeError::Unsealable`], whatever the cause, [`HpkeError::ExportOnly`], [`HpkeError::SequenceExhausted`].
    pub fn open_in_place<'a>(&mut self, aad: &[u8], sealed: &'a mut [u8]) -> Result<&'a mut [u8], HpkeError> {
        let len = sealed.len().checked_sub(TAG_LEN).ok_or(HpkeError::Unsealable)?;
        let (key, nonce) = self.next()?;
        key.open_in_place(&nonce, aad, sealed).map_err(|_| HpkeError::Unsealable)?;
        self.sequence += 1;
        sealed.get_mut(..len).ok_or(HpkeError::Unsealable)
    }

    /// Opens the next message as [`Context::open_in_place`], into a buffer of its own.
    ///
    /// # Errors
    /// Those of [`Context::open_in_place`].
    pub fn open(&mut self, aad: &[u8], sealed: &[u8]) -> Result<Vec<u8>, HpkeError> {
        let mut buffer = sealed.to_vec();
        let len = self.open_in_place(aad, &mut buffer)?.len();
        buffer.truncate(len);
        Ok(buffer)
    }
}

impl<Role> fmt::Debug for Context<Role> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context({:?}, redacted)", self.suite)
    }
}
