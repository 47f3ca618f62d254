//! Transcript, tag and keys. `spec/channel.md#v1-keys`.

use zeroize::Zeroizing;

use crate::channel::ChannelError;
use crate::channel::limits::HANDSHAKE_NONCE_LEN;
use crate::crypto::agreement::{AgreementProvider, expand};

const LABEL: &[u8] = b"flowersec-e2ee-v1";
const VERSION: u8 = 1;
const CLIENT_ROLE: u8 = 1;

/// The transcript, which both ends hash.
pub(crate) struct Transcript<'a> {
    pub(crate) suite: u16,
    pub(crate) client_features: u32,
    pub(crate) server_features: u32,
    pub(crate) channel_id: &'a str,
    pub(crate) nonce_c: &'a [u8; HANDSHAKE_NONCE_LEN],
    pub(crate) nonce_s: &'a [u8; HANDSHAKE_NONCE_LEN],
    pub(crate) client_public: &'a [u8],
    pub(crate) server_public: &'a [u8],
}

impl Transcript<'_> {
    /// Returns the transcript's hash, `th`.
    ///
    /// # Errors
    /// [`ChannelError::HandshakeTooLarge`] for a part whose length does not fit a u16.
    pub(crate) fn hash(&self, provider: &dyn AgreementProvider) -> Result<[u8; 32], ChannelError> {
        let len =
            |part: &[u8]| u16::try_from(part.len()).map(u16::to_be_bytes).map_err(|_| ChannelError::HandshakeTooLarge);
        Ok(provider.sha256(&[
            LABEL,
            &[VERSION],
            &self.suite.to_be_bytes(),
            &[CLIENT_ROLE],
            &self.client_features.to_be_bytes(),
            &self.server_features.to_be_bytes(),
            &len(self.channel_id.as_bytes())?,
            self.channel_id.as_bytes(),
            self.nonce_c,
            self.nonce_s,
            &len(self.client_public)?,
            self.client_public,
            &len(self.server_public)?,
            self.server_public,
        ]))
    }
}

/// Computes the tag in Ack, with which the client proves the pre-shared key.
pub(crate) fn auth_tag(
    provider: &dyn AgreementProvider,
    psk: &[u8; 32],
    transcript: &[u8; 32],
    timestamp_s: u64,
) -> Zeroizing<[u8; 32]> {
    provider.hmac_sha256(psk, &[transcript, &timestamp_s.to_be_bytes()])
}

/// The keys of a connection's records, both directions.
pub(crate) struct Keys {
    pub(crate) c2s: Direction,
    pub(crate) s2c: Direction,
}

/// One direction's key, and the base of its next ones.
pub(crate) struct Direction {
    pub(crate) key: Zeroizing<[u8; 32]>,
    pub(crate) nonce_prefix: [u8; 4],
    pub(crate) rekey: RekeyBase,
}

/// The input from which later keys of a direction are derived. The profile keeps it for the channel's lifetime, so later keys
/// are no secret from an attacker who learns it.
pub(crate) struct RekeyBase {
    base: Zeroizing<[u8; 32]>,
    transcript: [u8; 32],
    direction: u8,
}

impl RekeyBase {
    #[cfg(test)]
    pub(crate) fn base(&self) -> &[u8] {
        self.base.as_slice()
    }

    /// Derives the key after a rekey record with this number.
    pub(crate) fn key_after(&self, provider: &dyn AgreementProvider, seq: u64) -> Zeroizing<[u8; 32]> {
        let salt =
            provider.hmac_sha256(self.base.as_slice(), &[&self.transcript, &seq.to_be_bytes(), &[self.direction]]);
        let prk = provider.hmac_sha256(salt.as_slice(), &[b"flowersec-e2ee-v1:rekey"]);
        expand(provider, &prk, b"flowersec-e2ee-v1:rekey:key")
    }
}

/// Derives the keys of both directions.
pub(crate) fn keys(provider: &dyn AgreementProvider, psk: &[u8; 32], shared: &[u8; 32], transcript: &[u8; 32]) -> Keys {
    let prk = provider.hmac_sha256(psk, &[shared, transcript]);
    let base: Zeroizing<[u8; 32]> = expand(provider, &prk, b"flowersec-e2ee-v1:rekey_base");
    let direction = |number, key: &[u8], nonce_prefix: &[u8]| Direction {
        key: expand(provider, &prk, key),
        nonce_prefix: *expand::<4>(provider, &prk, nonce_prefix),
        rekey: RekeyBase { base: base.clone(), transcript: *transcript, direction: number },
    };
    Keys {
        c2s: direction(1, b"flowersec-e2ee-v1:c2s:key", b"flowersec-e2ee-v1:c2s:nonce_prefix"),
        s2c: direction(2, b"flowersec-e2ee-v1:s2c:key", b"flowersec-e2ee-v1:s2c:nonce_prefix"),
    }
}
