//! Errors of the channel wires, all in one place. [`ChannelError::code`] is stable and listed in `spec/registry.toml`; every
//! error of a peer's message ends the channel.

use crate::error::{Blame, Error, errors};

/// The stage that a connection had reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Getting a grant from the control plane.
    Grant,
    /// Name resolution, TCP, TLS and the WebSocket upgrade.
    Connect,
    /// Sending the attach message to the relay.
    Attach,
    /// Key agreement between the two ends.
    Handshake,
    /// Encrypted records of the channel.
    Record,
    /// Multiplexed streams over the records.
    Stream,
    /// Remote calls on a stream.
    Rpc,
    /// Accepting channels, or local connections to be forwarded.
    Listen,
}

impl Stage {
    /// The stable name, for logs, metrics and errors.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Grant => "grant",
            Stage::Connect => "connect",
            Stage::Attach => "attach",
            Stage::Handshake => "handshake",
            Stage::Record => "record",
            Stage::Stream => "stream",
            Stage::Rpc => "rpc",
            Stage::Listen => "listen",
        }
    }
}

impl core::fmt::Display for Stage {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

errors! {
    /// An error of a channel. It carries no secret and no decrypted bytes.
    pub enum ChannelError {
        /// A setting is out of its bounds, or a setting that the suite needs is absent.
        SettingInvalid(&'static str) = "setting_invalid", "setting {0} is absent or out of bounds";
        /// A handshake frame has another magic, version or length than the wire requires.
        HandshakeFrameInvalid = "handshake_frame_invalid", "not a handshake frame";
        /// A handshake message is over its bound.
        HandshakeTooLarge = "handshake_too_large", "handshake message is over its bound";
        /// A handshake message is of another type than the expected one.
        HandshakeUnexpected = "handshake_unexpected", "handshake message is not the one that is due";
        /// A handshake message is not JSON.
        HandshakeJsonInvalid = "handshake_json_invalid", "handshake message is not JSON";
        /// A member of a handshake message is absent, of a wrong type or of a wrong length.
        HandshakeFieldInvalid(&'static str) = "handshake_field_invalid", "member {0} of a handshake message is absent or invalid";
        /// The peer speaks another version of the handshake.
        VersionMismatch = "version_mismatch", "handshake has another version";
        /// The peer says that it has another role than the client's.
        RoleMismatch = "role_mismatch", "peer has the wrong role";
        /// The peer names another channel.
        ChannelMismatch = "channel_mismatch", "peer means another channel";
        /// The peer uses another suite.
        SuiteMismatch = "suite_mismatch", "peer uses another suite";
        /// A second Init that differs from the first: two clients, or a relay that replays.
        InitChanged = "init_changed", "a second Init differs from the first";
        /// An Ack belongs to another handshake: a relay replays it on another connection.
        HandshakeIdMismatch = "handshake_id_mismatch", "Ack belongs to another handshake";
        /// The clocks of the two ends are too far apart, or an old Ack is replayed.
        HandshakeTimestamp = "handshake_timestamp", "timestamp is outside the window";
        /// The time in which this channel could be established is over.
        InitExpired = "init_expired", "the channel's time to begin is over";
        /// The peer does not hold the key of this channel, or a message was changed in transit.
        HandshakeUnauthentic = "handshake_unauthentic", "handshake does not authenticate";
        /// The peer's public key is not a valid key of the curve.
        PeerKeyInvalid = "peer_key_invalid", "peer's public key is invalid";
        /// The peer has another static key than the pinned one.
        PeerKeyUnpinned = "peer_key_unpinned", "peer has another static key than the pinned one";
        /// The peer's first record is not the one that confirms its keys.
        Unconfirmed = "unconfirmed", "peer's first record confirms nothing";
        /// The handshake is not in a state for this step: a message after its end, or keys before it.
        HandshakeState = "handshake_state", "handshake is not at this step";
        /// A record is shorter or longer than its header says.
        RecordTruncated = "record_truncated", "record is cut off, or holds more than it says";
        /// A record is over its bound.
        RecordTooLarge = "record_too_large", "record is over its bound";
        /// A message is not a record of this wire: another magic or version.
        RecordInvalid = "record_invalid", "not a record";
        /// A record has flags that the wire does not know.
        RecordFlags = "record_flags", "record has unknown flags";
        /// A record was read before: its number is below the expected one.
        RecordReplayed = "record_replayed", "record was read before";
        /// A record is missing: the number of the received one is above the expected one.
        RecordMissing = "record_missing", "a record is missing before this one";
        /// A record of this side itself was reflected.
        RecordReflected = "record_reflected", "own record came back";
        /// Decryption of a record failed: wrong key or changed bytes.
        RecordUnsealable = "record_unsealable", "record does not open";
        /// A record was decrypted, and its content is not what a sender may write.
        RecordContent = "record_content", "record holds what no sender writes";
        /// The sender has used its key for more records than allowed.
        RekeyOverdue = "rekey_overdue", "sender should have changed its key";
        /// A direction has used its last sequence number.
        RecordsExhausted = "records_exhausted", "no sequence number is left";
        /// A record after the last: the channel was closed, or has failed.
        ChannelClosed = "channel_closed", "channel is closed";
        /// The caller wants to send content that this profile has no record for.
        ContentUnsupported = "content_unsupported", "the profile has no such record";
        /// The caller's content is longer than a record may hold.
        ContentTooLarge = "content_too_large", "content is longer than a record holds";
        /// The crypto module reported a failure.
        AgreementProvider = "channel_provider", "crypto module failure";
    }
}

impl ChannelError {
    /// The stage that the channel had reached.
    pub fn stage(&self) -> Stage {
        match self {
            ChannelError::RecordTruncated
            | ChannelError::RecordTooLarge
            | ChannelError::RecordInvalid
            | ChannelError::RecordFlags
            | ChannelError::RecordReplayed
            | ChannelError::RecordMissing
            | ChannelError::RecordReflected
            | ChannelError::RecordUnsealable
            | ChannelError::RecordContent
            | ChannelError::RekeyOverdue
            | ChannelError::RecordsExhausted
            | ChannelError::ChannelClosed
            | ChannelError::ContentUnsupported
            | ChannelError::ContentTooLarge => Stage::Record,
            _ => Stage::Handshake,
        }
    }

    /// The party at fault for the error.
    pub fn blame(&self) -> Blame {
        match self {
            ChannelError::SettingInvalid(_)
            | ChannelError::HandshakeState
            | ChannelError::ChannelClosed
            | ChannelError::ContentUnsupported
            | ChannelError::ContentTooLarge => Blame::Caller,
            ChannelError::HandshakeTooLarge | ChannelError::RecordTooLarge | ChannelError::RecordsExhausted => {
                Blame::Limit
            }
            ChannelError::HandshakeTimestamp | ChannelError::InitExpired => Blame::Expiry,
            ChannelError::HandshakeUnauthentic
            | ChannelError::PeerKeyInvalid
            | ChannelError::RecordUnsealable
            | ChannelError::AgreementProvider => Blame::Crypto,
            _ => Blame::Peer,
        }
    }
}

/// Maps an error of the crypto provider during a handshake.
pub(crate) fn of_provider(error: Error) -> ChannelError {
    match error {
        Error::PublicKeyInvalid => ChannelError::PeerKeyInvalid,
        _ => ChannelError::AgreementProvider,
    }
}
