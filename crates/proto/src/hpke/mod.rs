//! Hybrid public key encryption (RFC 9180) with the KEMs of draft-ietf-hpke-pq, in the modes base and psk.
//!
//! A recipient reads its key with [`PrivateKey::from_bytes`] and derives a context of each message with [`setup_receiver`]; a
//! sender does the same with a [`PublicKey`] and [`setup_sender`]. A [`Context`] seals or opens messages in order, and
//! exports secrets. The KDF is HKDF-SHA256, always.
//!
//! This module does not know where keys come from, how long they live, or which protocol runs above.

mod context;
mod dh;
mod error;
mod hybrid;
mod kem;
mod labeled;
mod private_key;

use zeroize::Zeroizing;

pub use self::context::{Context, Receiver, Sender};
pub use self::error::HpkeError;
pub use self::kem::{Kem, PublicKey};
pub use self::private_key::PrivateKey;
use crate::crypto::agreement::AgreementProvider;

/// The id of HKDF-SHA256 (RFC 9180 section 7.2), the only KDF of this module.
pub const KDF_HKDF_SHA256: u16 = 1;
/// Shortest pre-shared key, in bytes (RFC 9180 section 9.5).
pub const PSK_LEN_MIN: usize = 32;

/// An AEAD of HPKE (RFC 9180 section 7.3). All have nonces of 12 bytes and tags of 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aead {
    /// AES-128-GCM (SP 800-38D), id 1.
    Aes128Gcm,
    /// AES-256-GCM (SP 800-38D), id 2.
    Aes256Gcm,
    /// ChaCha20-Poly1305 (RFC 8439), id 3.
    ChaCha20Poly1305,
    /// No AEAD, id 0xffff: a context that exports only.
    ExportOnly,
}

impl Aead {
    /// Every AEAD, by ascending id.
    pub const ALL: [Aead; 4] = [Aead::Aes128Gcm, Aead::Aes256Gcm, Aead::ChaCha20Poly1305, Aead::ExportOnly];

    /// Returns the AEAD of an id, if this module has it.
    pub fn from_id(id: u16) -> Option<Aead> {
        Aead::ALL.into_iter().find(|aead| aead.id() == id)
    }

    /// The id in IANA's registry "HPKE AEAD Identifiers".
    pub fn id(self) -> u16 {
        match self {
            Aead::Aes128Gcm => 1,
            Aead::Aes256Gcm => 2,
            Aead::ChaCha20Poly1305 => 3,
            Aead::ExportOnly => 0xffff,
        }
    }

    /// The length of a key (Nk), in bytes; 0 of [`Aead::ExportOnly`].
    pub fn key_len(self) -> usize {
        match self {
            Aead::Aes128Gcm => 16,
            Aead::Aes256Gcm | Aead::ChaCha20Poly1305 => 32,
            Aead::ExportOnly => 0,
        }
    }
}

/// A suite: a KEM, HKDF-SHA256 and an AEAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Suite {
    /// The key encapsulation mechanism of the suite.
    pub kem: Kem,
    /// The AEAD that seals messages.
    pub aead: Aead,
}

impl Suite {
    /// Returns the suite of three ids, if this module has all of it.
    pub fn from_ids(kem: u16, kdf: u16, aead: u16) -> Option<Suite> {
        if kdf != KDF_HKDF_SHA256 {
            return None;
        }
        Some(Suite { kem: Kem::from_id(kem)?, aead: Aead::from_id(aead)? })
    }

    /// The suite id of the key schedule: `HPKE` and the three ids (RFC 9180 section 5.1).
    fn id(self) -> [u8; 10] {
        let mut id = *b"HPKE\0\0\0\0\0\0";
        let numbers = [self.kem.id(), KDF_HKDF_SHA256, self.aead.id()];
        for (to, from) in id.iter_mut().skip(4).zip(numbers.into_iter().flat_map(u16::to_be_bytes)) {
            *to = from;
        }
        id
    }
}

/// A pre-shared key and its name (RFC 9180 section 5.1.2).
#[derive(Clone, Copy)]
pub struct Psk<'a> {
    /// The key: [`PSK_LEN_MIN`] bytes or more, with the entropy of 32 bytes. Never a password.
    pub key: &'a [u8],
    /// The public name, at least a byte.
    pub id: &'a [u8],
}

impl core::fmt::Debug for Psk<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Psk(redacted)")
    }
}

/// Encapsulates a secret to `public_key` and derives the sender's context of it: mode psk with a `psk`, mode base without
/// (RFC 9180 section 5.1). Returns the encapsulated secret, which goes to the recipient, and the context.
///
/// # Errors
/// [`HpkeError::KemMismatch`] for a key of another KEM, [`HpkeError::Psk`], [`HpkeError::PublicKey`] for a key that no secret
/// can be agreed with, [`HpkeError::Provider`].
pub fn setup_sender(
    provider: &dyn AgreementProvider,
    suite: Suite,
    public_key: &PublicKey,
    info: &[u8],
    psk: Option<Psk<'_>>,
) -> Result<(alloc::vec::Vec<u8>, Context<Sender>), HpkeError> {
    sender_of(provider, suite, public_key, info, psk, None)
}

/// Derives the sender's context as [`setup_sender`], with given randomness, for test vectors: the ikm of the ephemeral key
/// of a DHKEM; 32 bytes of ML-KEM, and 32 bytes of the group's private key for a hybrid.
///
/// # Errors
/// Those of [`setup_sender`], and [`HpkeError::PrivateKey`] for randomness of another length.
pub fn setup_sender_with(
    provider: &dyn AgreementProvider,
    suite: Suite,
    public_key: &PublicKey,
    info: &[u8],
    psk: Option<Psk<'_>>,
    randomness: &[u8],
) -> Result<(alloc::vec::Vec<u8>, Context<Sender>), HpkeError> {
    sender_of(provider, suite, public_key, info, psk, Some(randomness))
}

fn sender_of(
    provider: &dyn AgreementProvider,
    suite: Suite,
    public_key: &PublicKey,
    info: &[u8],
    psk: Option<Psk<'_>>,
    randomness: Option<&[u8]>,
) -> Result<(alloc::vec::Vec<u8>, Context<Sender>), HpkeError> {
    if public_key.kem() != suite.kem {
        return Err(HpkeError::KemMismatch);
    }
    let (enc, secret) = public_key.encapsulate(provider, randomness)?;
    Ok((enc, Context::derive(provider, suite, &secret, info, psk)?))
}

/// Decapsulates `enc` and derives the recipient's context of it: mode psk with a `psk`, mode base without (RFC 9180
/// section 5.1).
///
/// A wrong `enc` of an ML-KEM KEM gives another context, which opens nothing: it is no error here.
///
/// # Errors
/// [`HpkeError::KemMismatch`] for a key of another KEM, [`HpkeError::Psk`], [`HpkeError::Encapsulated`] for an `enc` of a
/// wrong length or form, off the curve, or with an all-zero result (RFC 9180 section 7.1.4), [`HpkeError::Provider`].
pub fn setup_receiver(
    provider: &dyn AgreementProvider,
    suite: Suite,
    private_key: &PrivateKey,
    enc: &[u8],
    info: &[u8],
    psk: Option<Psk<'_>>,
) -> Result<Context<Receiver>, HpkeError> {
    if private_key.public_key().kem() != suite.kem {
        return Err(HpkeError::KemMismatch);
    }
    let secret = private_key.decapsulate(provider, enc)?;
    Context::derive(provider, suite, &secret, info, psk)
}

/// A secret of a KEM, 32 bytes of all that this module has.
type Secret = Zeroizing<[u8; 32]>;
