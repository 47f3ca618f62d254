//! Errors of the channel wires, all in one place. [`ChannelError::code`] is stable and listed in `spec/registry.toml`; every
//! error of a peer's message ends the channel.

use crate::error::{Blame, Error};

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

/// An error of a channel. It carries no secret and no decrypted bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// A setting is out of its bounds, or a setting that the suite needs is absent.
    #[error("setting {0} is absent or out of bounds")]
    SettingInvalid(&'static str),
    /// A handshake frame has another magic, version or length than the wire requires.
    #[error("not a handshake frame")]
    HandshakeFrameInvalid,
    /// A handshake message is over its bound.
    #[error("handshake message is over its bound")]
    HandshakeTooLarge,
    /// A handshake message is of another type than the expected one.
    #[error("handshake message is not the one that is due")]
    HandshakeUnexpected,
    /// A handshake message is not JSON.
    #[error("handshake message is not JSON")]
    HandshakeJsonInvalid,
    /// A member of a handshake message is absent, of a wrong type or of a wrong length.
    #[error("member {0} of a handshake message is absent or invalid")]
    HandshakeFieldInvalid(&'static str),
    /// The peer speaks another version of the handshake.
    #[error("handshake has another version")]
    VersionMismatch,
    /// The peer says that it has another role than the client's.
    #[error("peer has the wrong role")]
    RoleMismatch,
    /// The peer names another channel.
    #[error("peer means another channel")]
    ChannelMismatch,
    /// The peer uses another suite.
    #[error("peer uses another suite")]
    SuiteMismatch,
    /// A second Init that differs from the first: two clients, or a relay that replays.
    #[error("a second Init differs from the first")]
    InitChanged,
    /// An Ack belongs to another handshake: a relay replays it on another connection.
    #[error("Ack belongs to another handshake")]
    HandshakeIdMismatch,
    /// The clocks of the two ends are too far apart, or an old Ack is replayed.
    #[error("timestamp is outside the window")]
    HandshakeTimestamp,
    /// The time in which this channel could be established is over.
    #[error("the channel's time to begin is over")]
    InitExpired,
    /// The peer does not hold the key of this channel, or a message was changed in transit.
    #[error("handshake does not authenticate")]
    HandshakeUnauthentic,
    /// The peer's public key is not a valid key of the curve.
    #[error("peer's public key is invalid")]
    PeerKeyInvalid,
    /// The peer has another static key than the pinned one.
    #[error("peer has another static key than the pinned one")]
    PeerKeyUnpinned,
    /// The peer's first record is not the one that confirms its keys.
    #[error("peer's first record confirms nothing")]
    Unconfirmed,
    /// The handshake is not in a state for this step: a message after its end, or keys before it.
    #[error("handshake is not at this step")]
    HandshakeState,
    /// A record is shorter or longer than its header says.
    #[error("record is cut off, or holds more than it says")]
    RecordTruncated,
    /// A record is over its bound.
    #[error("record is over its bound")]
    RecordTooLarge,
    /// A message is not a record of this wire: another magic or version.
    #[error("not a record")]
    RecordInvalid,
    /// A record has flags that the wire does not know.
    #[error("record has unknown flags")]
    RecordFlags,
    /// A record was read before: its number is below the expected one.
    #[error("record was read before")]
    RecordReplayed,
    /// A record is missing: the number of the received one is above the expected one.
    #[error("a record is missing before this one")]
    RecordMissing,
    /// A record of this side itself was reflected.
    #[error("own record came back")]
    RecordReflected,
    /// Decryption of a record failed: wrong key or changed bytes.
    #[error("record does not open")]
    RecordUnsealable,
    /// A record was decrypted, and its content is not what a sender may write.
    #[error("record holds what no sender writes")]
    RecordContent,
    /// The sender has used its key for more records than allowed.
    #[error("sender should have changed its key")]
    RekeyOverdue,
    /// A direction has used its last sequence number.
    #[error("no sequence number is left")]
    RecordsExhausted,
    /// A record after the last: the channel was closed, or has failed.
    #[error("channel is closed")]
    ChannelClosed,
    /// The caller wants to send content that this profile has no record for.
    #[error("the profile has no such record")]
    ContentUnsupported,
    /// The caller's content is longer than a record may hold.
    #[error("content is longer than a record holds")]
    ContentTooLarge,
    /// The crypto module reported a failure.
    #[error("crypto module failure")]
    AgreementProvider,
}

impl ChannelError {
    /// One of each, for the test that compares them with `spec/registry.toml`.
    pub const ALL: &'static [ChannelError] = &[
        ChannelError::SettingInvalid("psk"),
        ChannelError::HandshakeFrameInvalid,
        ChannelError::HandshakeTooLarge,
        ChannelError::HandshakeUnexpected,
        ChannelError::HandshakeJsonInvalid,
        ChannelError::HandshakeFieldInvalid("role"),
        ChannelError::VersionMismatch,
        ChannelError::RoleMismatch,
        ChannelError::ChannelMismatch,
        ChannelError::SuiteMismatch,
        ChannelError::InitChanged,
        ChannelError::HandshakeIdMismatch,
        ChannelError::HandshakeTimestamp,
        ChannelError::InitExpired,
        ChannelError::HandshakeUnauthentic,
        ChannelError::PeerKeyInvalid,
        ChannelError::PeerKeyUnpinned,
        ChannelError::Unconfirmed,
        ChannelError::HandshakeState,
        ChannelError::RecordTruncated,
        ChannelError::RecordTooLarge,
        ChannelError::RecordInvalid,
        ChannelError::RecordFlags,
        ChannelError::RecordReplayed,
        ChannelError::RecordMissing,
        ChannelError::RecordReflected,
        ChannelError::RecordUnsealable,
        ChannelError::RecordContent,
        ChannelError::RekeyOverdue,
        ChannelError::RecordsExhausted,
        ChannelError::ChannelClosed,
        ChannelError::ContentUnsupported,
        ChannelError::ContentTooLarge,
        ChannelError::AgreementProvider,
    ];

    /// The stable code, for logs and metrics.
    pub fn code(&self) -> &'static str {
        match self {
            ChannelError::SettingInvalid(_) => "setting_invalid",
            ChannelError::HandshakeFrameInvalid => "handshake_frame_invalid",
            ChannelError::HandshakeTooLarge => "handshake_too_large",
            ChannelError::HandshakeUnexpected => "handshake_unexpected",
            ChannelError::HandshakeJsonInvalid => "handshake_json_invalid",
            ChannelError::HandshakeFieldInvalid(_) => "handshake_field_invalid",
            ChannelError::VersionMismatch => "version_mismatch",
            ChannelError::RoleMismatch => "role_mismatch",
            ChannelError::ChannelMismatch => "channel_mismatch",
            ChannelError::SuiteMismatch => "suite_mismatch",
            ChannelError::InitChanged => "init_changed",
            ChannelError::HandshakeIdMismatch => "handshake_id_mismatch",
            ChannelError::HandshakeTimestamp => "handshake_timestamp",
            ChannelError::InitExpired => "init_expired",
            ChannelError::HandshakeUnauthentic => "handshake_unauthentic",
            ChannelError::PeerKeyInvalid => "peer_key_invalid",
            ChannelError::PeerKeyUnpinned => "peer_key_unpinned",
            ChannelError::Unconfirmed => "unconfirmed",
            ChannelError::HandshakeState => "handshake_state",
            ChannelError::RecordTruncated => "record_truncated",
            ChannelError::RecordTooLarge => "record_too_large",
            ChannelError::RecordInvalid => "record_invalid",
            ChannelError::RecordFlags => "record_flags",
            ChannelError::RecordReplayed => "record_replayed",
            ChannelError::RecordMissing => "record_missing",
            ChannelError::RecordReflected => "record_reflected",
            ChannelError::RecordUnsealable => "record_unsealable",
            ChannelError::RecordContent => "record_content",
            ChannelError::RekeyOverdue => "rekey_overdue",
            ChannelError::RecordsExhausted => "records_exhausted",
            ChannelError::ChannelClosed => "channel_closed",
            ChannelError::ContentUnsupported => "content_unsupported",
            ChannelError::ContentTooLarge => "content_too_large",
            ChannelError::AgreementProvider => "channel_provider",
        }
    }

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
