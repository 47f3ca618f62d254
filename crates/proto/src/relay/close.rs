//! The causes for which a relay closes a connection: the code and the reason of the close frame, and the name in metrics.
//! SPEC relay.md#close-codes

/// The style of the reasons in close frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CloseReasons {
    /// Words, as the first v1 relays write them.
    #[default]
    Words,
    /// Tokens such as `invalid_token`, as the later v1 relays write them.
    Tokens,
}

/// The cause for the close of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CloseCause {
    /// A bound on connections is reached.
    TooManyConnections,
    /// The first message is longer than its bound.
    AttachTooLarge,
    /// The first message is not a text message.
    ExpectedAttach,
    /// The first message opens the v2 wire, which this relay does not support.
    WireUnsupported,
    /// The first message did not arrive in time.
    AttachTimeout,
    /// The first message is not an attach message.
    InvalidAttach,
    /// The token failed its verification.
    InvalidToken,
    /// The token is for another channel.
    ChannelMismatch,
    /// The token is for the other role.
    RoleMismatch,
    /// The token was used before, or has no id.
    TokenReplay,
    /// The end of the channel was taken over too often.
    ReplaceRateLimited,
    /// The other endpoint came with another `init_exp`.
    InitExpMismatch,
    /// The other endpoint came with another `idle_timeout_seconds`.
    IdleTimeoutMismatch,
    /// A bound on channels is reached, or the messages that had waited could not be delivered.
    AttachFailed,
    /// Another instance claims the place of a native endpoint.
    ReplaceRefused,
    /// The memory of used tokens is full.
    ReplayFull,
    /// The store that the nodes share is unreachable.
    NodeUnavailable,
    /// The other endpoint is gone, for any cause.
    PeerClosed,
    /// A text message followed the attach message.
    NonBinaryFrame,
    /// A message is longer than its bound.
    RecordTooLarge,
    /// Too much data arrived before the other endpoint.
    PendingOverflow,
    /// The data that waits for endpoints that do not read is over its bound.
    RelayFull,
    /// The other endpoint did not read its data in time.
    WriteError,
    /// The channel did not begin to carry records in time.
    InitExpired,
    /// The channel carried nothing for too long.
    IdleTimeout,
    /// The same end of the channel was attached again.
    Replaced,
    /// The input is not the WebSocket protocol.
    ProtocolError,
    /// The endpoint sent nothing, and answered no ping, for too long.
    KeepaliveTimeout,
    /// The relay is shutting down.
    Draining,
    /// The endpoint closed in order.
    Closed,
}

impl CloseCause {
    /// Every one, for the test that compares them with `spec/registry.toml`.
    pub const ALL: &'static [CloseCause] = &[
        CloseCause::TooManyConnections,
        CloseCause::AttachTooLarge,
        CloseCause::ExpectedAttach,
        CloseCause::WireUnsupported,
        CloseCause::AttachTimeout,
        CloseCause::InvalidAttach,
        CloseCause::InvalidToken,
        CloseCause::ChannelMismatch,
        CloseCause::RoleMismatch,
        CloseCause::TokenReplay,
        CloseCause::ReplaceRateLimited,
        CloseCause::InitExpMismatch,
        CloseCause::IdleTimeoutMismatch,
        CloseCause::AttachFailed,
        CloseCause::ReplaceRefused,
        CloseCause::ReplayFull,
        CloseCause::NodeUnavailable,
        CloseCause::PeerClosed,
        CloseCause::NonBinaryFrame,
        CloseCause::RecordTooLarge,
        CloseCause::PendingOverflow,
        CloseCause::RelayFull,
        CloseCause::WriteError,
        CloseCause::InitExpired,
        CloseCause::IdleTimeout,
        CloseCause::Replaced,
        CloseCause::ProtocolError,
        CloseCause::KeepaliveTimeout,
        CloseCause::Draining,
        CloseCause::Closed,
    ];

    /// The code of the close frame (RFC 6455 section 7.4).
    pub fn code(self) -> u16 {
        match self {
            CloseCause::Closed => 1000,
            CloseCause::PeerClosed
            | CloseCause::WriteError
            | CloseCause::IdleTimeout
            | CloseCause::KeepaliveTimeout
            | CloseCause::Draining => 1001,
            CloseCause::ExpectedAttach
            | CloseCause::WireUnsupported
            | CloseCause::AttachTimeout
            | CloseCause::InvalidAttach
            | CloseCause::ProtocolError => 1002,
            CloseCause::NonBinaryFrame => 1003,
            CloseCause::InvalidToken
            | CloseCause::ChannelMismatch
            | CloseCause::RoleMismatch
            | CloseCause::TokenReplay
            | CloseCause::ReplaceRefused
            | CloseCause::InitExpired
            | CloseCause::Replaced => 1008,
            CloseCause::AttachTooLarge | CloseCause::RecordTooLarge | CloseCause::PendingOverflow => 1009,
            CloseCause::InitExpMismatch | CloseCause::IdleTimeoutMismatch | CloseCause::AttachFailed => 1011,
            CloseCause::TooManyConnections
            | CloseCause::ReplaceRateLimited
            | CloseCause::ReplayFull
            | CloseCause::NodeUnavailable
            | CloseCause::RelayFull => 1013,
        }
    }

    /// The reason of the close frame: at most 123 bytes.
    pub fn reason(self, reasons: CloseReasons) -> &'static str {
        match (self, reasons) {
            // As the library below v1's relay closes: without a reason.
            (CloseCause::AttachTooLarge | CloseCause::RecordTooLarge | CloseCause::Closed, _) => "",
            (_, CloseReasons::Tokens) => self.token(),
            (_, CloseReasons::Words) => self.words(),
        }
    }

    fn words(self) -> &'static str {
        match self {
            CloseCause::TooManyConnections => "too many connections",
            CloseCause::ExpectedAttach | CloseCause::AttachTimeout => "expected attach",
            CloseCause::WireUnsupported => "flowersec/2 is not supported here: use v1 or the native profile",
            CloseCause::InvalidAttach => "invalid attach",
            CloseCause::InvalidToken => "invalid token",
            CloseCause::ChannelMismatch => "channel mismatch",
            CloseCause::RoleMismatch => "role mismatch",
            CloseCause::TokenReplay => "token replay",
            CloseCause::ReplaceRateLimited => "replace rate limited",
            CloseCause::InitExpMismatch | CloseCause::IdleTimeoutMismatch | CloseCause::AttachFailed => "attach failed",
            CloseCause::ReplaceRefused => "replace refused",
            CloseCause::ReplayFull => "replay memory full",
            CloseCause::NodeUnavailable => "node unavailable",
            CloseCause::PeerClosed => "peer closed",
            CloseCause::NonBinaryFrame => "non binary frame",
            CloseCause::PendingOverflow => "pending overflow",
            CloseCause::RelayFull => "relay full",
            CloseCause::WriteError => "write timeout",
            CloseCause::InitExpired => "init expired",
            CloseCause::IdleTimeout => "idle timeout",
            CloseCause::Replaced => "replaced",
            CloseCause::ProtocolError => "protocol error",
            CloseCause::KeepaliveTimeout => "keepalive timeout",
            CloseCause::Draining => "relay draining",
            CloseCause::AttachTooLarge | CloseCause::RecordTooLarge | CloseCause::Closed => "",
        }
    }

    /// The name in metrics and logs, and the reason where reasons are tokens.
    pub fn token(self) -> &'static str {
        match self {
            CloseCause::TooManyConnections => "too_many_connections",
            CloseCause::AttachTooLarge => "attach_too_large",
            CloseCause::ExpectedAttach => "expected_attach",
            CloseCause::AttachTimeout => "timeout",
            CloseCause::WireUnsupported => "wire_unsupported",
            CloseCause::InvalidAttach => "invalid_attach",
            CloseCause::InvalidToken => "invalid_token",
            CloseCause::ChannelMismatch => "channel_mismatch",
            CloseCause::RoleMismatch => "role_mismatch",
            CloseCause::TokenReplay => "token_replay",
            CloseCause::ReplaceRateLimited => "replace_rate_limited",
            CloseCause::InitExpMismatch => "init_exp_mismatch",
            CloseCause::IdleTimeoutMismatch => "idle_timeout_mismatch",
            CloseCause::AttachFailed => "attach_failed",
            CloseCause::ReplaceRefused => "replace_refused",
            CloseCause::ReplayFull => "replay_full",
            CloseCause::NodeUnavailable => "node_unavailable",
            CloseCause::PeerClosed => "peer_closed",
            CloseCause::NonBinaryFrame => "non_binary_frame",
            CloseCause::RecordTooLarge => "record_too_large",
            CloseCause::PendingOverflow => "pending_overflow",
            CloseCause::RelayFull => "relay_full",
            CloseCause::WriteError => "write_error",
            CloseCause::InitExpired => "init_expired",
            CloseCause::IdleTimeout => "idle_timeout",
            CloseCause::Replaced => "replaced",
            CloseCause::ProtocolError => "protocol_error",
            CloseCause::KeepaliveTimeout => "keepalive_timeout",
            CloseCause::Draining => "draining",
            CloseCause::Closed => "closed",
        }
    }
}
