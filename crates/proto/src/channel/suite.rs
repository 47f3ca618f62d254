//! Suites by number: those of `flowersec-v1` are below 0x100, native ones from there on. `spec/channel.md#suites`.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::channel::ChannelError;
use crate::channel::noise::wire_form;
use crate::crypto::agreement::{AgreementProvider, Cipher, Curve};
use crate::limits::KEY_LEN;

/// The cryptographic suite of a channel, chosen by its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suite {
    /// `flowersec-v1` on a curve, with AES-256-GCM: 1 is X25519, 2 is P-256.
    V1(Curve),
    /// A native suite: numbers from 0x100 up.
    Native(NativeSuite),
}

/// The parts of a native suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NativeSuite {
    /// The Noise pattern: the static keys that each end has and knows.
    pub pattern: Pattern,
    /// The curve of the key agreement.
    pub curve: Curve,
    /// The AEAD of handshake payloads and records.
    pub cipher: Cipher,
    /// Set if ML-KEM-768 is mixed in.
    pub hybrid: bool,
}

/// A Noise pattern with the place of the channel's pre-shared key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// No static keys: both ends trust the control plane, as in v1.
    NNpsk0,
    /// Each end knows the other's static key beforehand.
    KKpsk0,
    /// The client knows the server's static key, and sends its own in the first message.
    IKpsk1,
    /// Both send their static keys, which are compared with pinned ones.
    XXpsk3,
}

const NATIVE_BASE: u16 = 0x100;

impl Suite {
    /// Iterates over every suite, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Suite> {
        (0..0x200).filter_map(|id| Suite::from_id(id).ok())
    }

    /// Returns the suite of a number.
    ///
    /// # Errors
    /// [`ChannelError::SuiteMismatch`] for a number that no suite has.
    pub fn from_id(id: u16) -> Result<Suite, ChannelError> {
        let bits = match id {
            1 => return Ok(Suite::V1(Curve::X25519)),
            2 => return Ok(Suite::V1(Curve::P256)),
            _ => id.checked_sub(NATIVE_BASE).ok_or(ChannelError::SuiteMismatch)?,
        };
        let pattern = match bits >> 4 {
            0 => Pattern::NNpsk0,
            1 => Pattern::KKpsk0,
            2 => Pattern::IKpsk1,
            3 => Pattern::XXpsk3,
            _ => return Err(ChannelError::SuiteMismatch),
        };
        if bits & 0x8 != 0 {
            return Err(ChannelError::SuiteMismatch);
        }
        Ok(Suite::Native(NativeSuite {
            pattern,
            curve: if bits & 2 == 0 { Curve::X25519 } else { Curve::P256 },
            cipher: if bits & 1 == 0 { Cipher::Aes256Gcm } else { Cipher::ChaCha20Poly1305 },
            hybrid: bits & 4 != 0,
        }))
    }

    /// Returns its number on the wire and in grants.
    pub fn id(self) -> u16 {
        match self {
            Suite::V1(Curve::X25519) => 1,
            Suite::V1(Curve::P256) => 2,
            Suite::Native(suite) => {
                let pattern = match suite.pattern {
                    Pattern::NNpsk0 => 0,
                    Pattern::KKpsk0 => 1,
                    Pattern::IKpsk1 => 2,
                    Pattern::XXpsk3 => 3,
                };
                NATIVE_BASE
                    | pattern << 4
                    | u16::from(suite.hybrid) << 2
                    | u16::from(suite.curve == Curve::P256) << 1
                    | u16::from(suite.cipher == Cipher::ChaCha20Poly1305)
            }
        }
    }

    /// Returns its name: that of the Noise protocol for a native suite.
    pub fn name(self) -> String {
        match self {
            Suite::V1(Curve::X25519) => "flowersec-v1_X25519_AESGCM_SHA256".into(),
            Suite::V1(Curve::P256) => "flowersec-v1_P256_AESGCM_SHA256".into(),
            Suite::Native(suite) => suite.noise_name(),
        }
    }

    /// Returns whether the channel has pongs, authenticated closes and keys that change by themselves.
    pub fn is_native(self) -> bool {
        matches!(self, Suite::Native(_))
    }
}

impl NativeSuite {
    /// Returns the Noise protocol name. P-256 stands for keys of 33 bytes, compressed points.
    pub fn noise_name(&self) -> String {
        let curve = match self.curve {
            Curve::X25519 => "25519",
            Curve::P256 => "P256",
        };
        let cipher = match self.cipher {
            Cipher::Aes256Gcm => "AESGCM",
            Cipher::ChaCha20Poly1305 => "ChaChaPoly",
        };
        let pattern = match (self.pattern, self.hybrid) {
            // The hybrid variant mixes in a second key at the end of message 2. Noise sorts modifiers by name.
            (Pattern::XXpsk3, true) => "XXpsk2+psk3",
            (pattern, _) => pattern.name(),
        };
        let kem = if self.hybrid && self.pattern != Pattern::XXpsk3 { "+psk2" } else { "" };
        format!("Noise_{pattern}{kem}_{curve}_{cipher}_SHA256")
    }

    /// Returns the public half of a static private key in the form that grants pin: 32 bytes of X25519, 33 of P-256.
    ///
    /// # Errors
    /// [`ChannelError::SettingInvalid`] if it is not a private key of the curve.
    pub fn static_public(
        &self,
        provider: &dyn AgreementProvider,
        private: &[u8; KEY_LEN],
    ) -> Result<Vec<u8>, ChannelError> {
        let invalid = ChannelError::SettingInvalid("local_static");
        let key = provider.agreement_from_private(self.curve, private).map_err(|_| invalid)?;
        let public = wire_form(self.curve, key.public()).ok_or(ChannelError::AgreementProvider)?;
        public.get(..self.public_len()).map(<[u8]>::to_vec).ok_or(ChannelError::AgreementProvider)
    }

    /// Length of a public key on the wire, in bytes.
    pub fn public_len(&self) -> usize {
        match self.curve {
            Curve::X25519 => 32,
            Curve::P256 => 33,
        }
    }
}

impl Pattern {
    /// Returns the pattern's name with its modifier.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::NNpsk0 => "NNpsk0",
            Pattern::KKpsk0 => "KKpsk0",
            Pattern::IKpsk1 => "IKpsk1",
            Pattern::XXpsk3 => "XXpsk3",
        }
    }

    /// Returns the place of the channel's pre-shared key in the pattern.
    pub(crate) fn psk_place(self) -> u8 {
        match self {
            Pattern::NNpsk0 | Pattern::KKpsk0 => 0,
            Pattern::IKpsk1 => 1,
            Pattern::XXpsk3 => 3,
        }
    }

    /// Returns whether this side brings a static key of its own.
    pub fn has_static_keys(self) -> bool {
        self != Pattern::NNpsk0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_has_a_number_and_a_name_of_its_own() {
        let suites: alloc::vec::Vec<Suite> = Suite::all().collect();
        assert_eq!(suites.len(), 2 + 32);
        let names: alloc::collections::BTreeSet<String> = suites.iter().map(|suite| suite.name()).collect();
        assert_eq!(names.len(), suites.len());
        for suite in suites {
            assert_eq!(Suite::from_id(suite.id()), Ok(suite));
        }
        for id in [0, 3, 0xff, 0x108, 0x140, 0xffff] {
            assert_eq!(Suite::from_id(id), Err(ChannelError::SuiteMismatch));
        }
    }
}
