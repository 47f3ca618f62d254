//! Inputs of a channel that its two ends have beforehand, and the random inputs of a handshake by name.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use zeroize::Zeroizing;

use crate::channel::limits::{
    ALLOWED_SUITES_MAX, CHANNEL_ID_LEN_MAX, HANDSHAKE_ID_RANDOM_LEN, HANDSHAKE_NONCE_LEN, KEY_AGE_MS_DEFAULT,
    NATIVE_CONTENT_MAX, NATIVE_CONTENT_MAX_LEAST, RECORD_HEADER_LEN, RECORD_LEN_MAX, RECORDS_PER_KEY_MAX,
    SKEW_S_DEFAULT,
};
use crate::channel::{ChannelError, Suite};
use crate::crypto::agreement::{AgreementProvider, KEM_PRIVATE_LEN};
use crate::limits::TAG_LEN;

/// The settings of one end of a channel, mostly from its grant.
#[derive(Clone)]
pub struct ChannelSettings {
    /// The channel's name, 1 to 256 bytes.
    pub channel_id: String,
    /// The secret that the control plane gave to both ends of this channel only.
    pub psk: Zeroizing<[u8; 32]>,
    /// The suite that the grant chose. There is no negotiation.
    pub suite: Suite,
    /// The suites that the grant allows, in its order; native handshakes bind the list. At most 64.
    pub allowed_suites: Vec<u16>,
    /// End of the time in which the channel may be established, in seconds of the Unix epoch.
    pub init_expires_s: u64,
    /// Largest accepted difference between the clocks of the two ends, in seconds.
    pub skew_s: u64,
    /// Native: hash of the claims that the tokens of both ends share; see [`ChannelSettings::bind`]. Equal on both ends.
    pub binding: [u8; 32],
    /// Native: this end's static private key, for the patterns that have one.
    pub local_static: Option<Zeroizing<[u8; 32]>>,
    /// Native: the peer's pinned static public key (32 bytes of X25519, 33 of P-256), for the patterns that have one.
    pub peer_static: Option<Vec<u8>>,
    /// v1: the feature bits that this end advertises; 1 is rekey.
    pub features: u32,
    /// v1 client: report connected when Ack is written, although the server has proved nothing. Only for servers that send no
    /// ping after Ack.
    pub accept_unconfirmed: bool,
    /// v1: longest record, header and tag included, in bytes; 1 MiB at most.
    pub record_max: usize,
    /// Native: longest content of a record that this end sends, 16 to 64 KiB.
    pub content_max: usize,
    /// Native: number of records after which this end changes its key; 2 to 2^20.
    pub rekey_after_records: u64,
    /// Native: time after which this end changes its key, in milliseconds.
    pub rekey_after_ms: u64,
    /// Native: records are padded to a multiple of this number of bytes; 0 and 1 add no padding.
    pub pad_to: usize,
}

impl ChannelSettings {
    /// Returns settings with defaults for everything else.
    pub fn new(channel_id: impl Into<String>, psk: [u8; 32], suite: Suite, init_expires_s: u64) -> Self {
        ChannelSettings {
            channel_id: channel_id.into(),
            psk: Zeroizing::new(psk),
            suite,
            allowed_suites: vec![suite.id()],
            init_expires_s,
            skew_s: SKEW_S_DEFAULT,
            binding: [0; 32],
            local_static: None,
            peer_static: None,
            features: 1,
            accept_unconfirmed: false,
            record_max: RECORD_LEN_MAX,
            content_max: NATIVE_CONTENT_MAX,
            rekey_after_records: RECORDS_PER_KEY_MAX,
            rekey_after_ms: KEY_AGE_MS_DEFAULT,
            pad_to: 0,
        }
    }

    /// Binds the handshake to the claims that the tokens of both ends share: audience and issuer, beside the channel id and the
    /// end of its set-up, which are always bound. Without a relay both are empty. The tokens themselves differ, and so do their
    /// ids, roles and times.
    pub fn bind(&mut self, provider: &dyn AgreementProvider, audience: &str, issuer: &str) {
        // Lengths as u64, so that a text of any length is covered whole.
        let audience_len = (audience.len() as u64).to_be_bytes();
        let issuer_len = (issuer.len() as u64).to_be_bytes();
        self.binding = provider.sha256(&[
            b"sealway-channel-v1 grant",
            &audience_len,
            audience.as_bytes(),
            &issuer_len,
            issuer.as_bytes(),
        ]);
    }

    /// Checks that every setting is within its bounds, and that those that the suite needs are present.
    ///
    /// # Errors
    /// [`ChannelError::SettingInvalid`] with the first that is not.
    pub fn check(&self) -> Result<(), ChannelError> {
        let require = |holds: bool, name| if holds { Ok(()) } else { Err(ChannelError::SettingInvalid(name)) };
        require((1..=CHANNEL_ID_LEN_MAX).contains(&self.channel_id.len()), "channel_id")?;
        require(self.allowed_suites.contains(&self.suite.id()), "allowed_suites")?;
        require(self.allowed_suites.len() <= ALLOWED_SUITES_MAX, "allowed_suites")?;
        let record_least = RECORD_HEADER_LEN + TAG_LEN + 1;
        require((record_least..=RECORD_LEN_MAX).contains(&self.record_max), "record_max")?;
        let Suite::Native(suite) = self.suite else { return Ok(()) };
        require((NATIVE_CONTENT_MAX_LEAST..=NATIVE_CONTENT_MAX).contains(&self.content_max), "content_max")?;
        require((2..=RECORDS_PER_KEY_MAX).contains(&self.rekey_after_records), "rekey_after_records")?;
        require(self.rekey_after_ms > 0, "rekey_after_ms")?;
        require(self.pad_to <= self.content_max, "pad_to")?;
        let has_keys = self.local_static.is_some() && self.peer_static.is_some();
        require(has_keys || !suite.pattern.has_static_keys(), "local_static and peer_static")?;
        let has_len = |key: &Vec<u8>| key.len() == suite.public_len();
        require(self.peer_static.as_ref().is_none_or(has_len), "peer_static")
    }
}

impl fmt::Debug for ChannelSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelSettings")
            .field("channel_id", &self.channel_id)
            .field("suite", &self.suite)
            .field("init_expires_s", &self.init_expires_s)
            .finish_non_exhaustive()
    }
}

/// The random inputs of one handshake. Each is used once.
pub struct HandshakeRandoms {
    /// v1: `nonce_c` of the client or `nonce_s` of the server.
    pub nonce: [u8; HANDSHAKE_NONCE_LEN],
    /// v1 server: the random part of the handshake id.
    pub handshake_id: [u8; HANDSHAKE_ID_RANDOM_LEN],
    /// The ephemeral private key; `None` lets the crypto module generate one, which then never leaves it.
    pub ephemeral: Option<Zeroizing<[u8; 32]>>,
    /// Hybrid, for test vectors alone.
    pub kem: KemRandoms,
}

/// The random inputs of ML-KEM, given or drawn.
#[derive(Default)]
pub enum KemRandoms {
    /// The crypto module draws them.
    #[default]
    Draw,
    /// The client's decapsulation key, for test vectors.
    Private(Box<Zeroizing<[u8; KEM_PRIVATE_LEN]>>),
    /// The server's encapsulation: ciphertext and secret.
    Encapsulated(Vec<u8>, Zeroizing<[u8; 32]>),
}

impl HandshakeRandoms {
    /// Draws the nonce and the handshake id; the crypto module draws the rest later.
    ///
    /// # Errors
    /// [`ChannelError::AgreementProvider`].
    pub fn draw(provider: &dyn AgreementProvider) -> Result<Self, ChannelError> {
        let mut bytes = [0_u8; HANDSHAKE_NONCE_LEN + HANDSHAKE_ID_RANDOM_LEN];
        provider.fill_random(&mut bytes).map_err(|_| ChannelError::AgreementProvider)?;
        let (nonce, rest) = bytes.split_first_chunk().ok_or(ChannelError::AgreementProvider)?;
        let handshake_id = rest.first_chunk().ok_or(ChannelError::AgreementProvider)?;
        Ok(HandshakeRandoms { nonce: *nonce, handshake_id: *handshake_id, ephemeral: None, kem: KemRandoms::Draw })
    }
}

impl fmt::Debug for HandshakeRandoms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HandshakeRandoms(redacted)")
    }
}
