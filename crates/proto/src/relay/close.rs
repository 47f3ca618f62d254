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

/// Declares the causes, a row for each: the code of the close frame, its reason in words, and its token.
macro_rules! causes {
    ($($(#[$doc:meta])* $cause:ident = $code:literal, $words:literal, $token:literal;)*) => {
        /// The cause for the close of a connection.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum CloseCause {
            $($(#[$doc])* $cause,)*
        }

        impl CloseCause {
            /// All of them, for the test that compares them with `spec/registry.toml`.
            pub const ALL: &'static [CloseCause] = &[$(CloseCause::$cause),*];

            fn row(self) -> (u16, &'static str, &'static str) {
                match self {
                    $(CloseCause::$cause => ($code, $words, $token),)*
                }
            }
        }
    };
}

causes! {
    /// A bound on connections is reached.
    TooManyConnections = 1013, "too many connections", "too_many_connections";
    /// The first message is longer than its bound.
    AttachTooLarge = 1009, "", "attach_too_large";
    /// The first message is not a text message.
    ExpectedAttach = 1002, "expected attach", "expected_attach";
    /// The first message opens the v2 wire, which this relay does not support.
    WireUnsupported = 1002, "flowersec/2 is not supported here: use v1 or the native profile", "wire_unsupported";
    /// The first message did not arrive in time.
    AttachTimeout = 1002, "expected attach", "timeout";
    /// The first message is not an attach message.
    InvalidAttach = 1002, "invalid attach", "invalid_attach";
    /// The token failed its verification.
    InvalidToken = 1008, "invalid token", "invalid_token";
    /// The token is for another channel.
    ChannelMismatch = 1008, "channel mismatch", "channel_mismatch";
    /// The token is for the other role.
    RoleMismatch = 1008, "role mismatch", "role_mismatch";
    /// The token was used before, or has no id.
    TokenReplay = 1008, "token replay", "token_replay";
    /// The end of the channel was taken over too often.
    ReplaceRateLimited = 1013, "replace rate limited", "replace_rate_limited";
    /// The other endpoint came with another `init_exp`.
    InitExpMismatch = 1011, "attach failed", "init_exp_mismatch";
    /// The other endpoint came with another `idle_timeout_seconds`.
    IdleTimeoutMismatch = 1011, "attach failed", "idle_timeout_mismatch";
    /// A bound on channels is reached, or the messages that had waited could not be delivered.
    AttachFailed = 1011, "attach failed", "attach_failed";
    /// Another instance claims the place of a native endpoint.
    ReplaceRefused = 1008, "replace refused", "replace_refused";
    /// The memory of used tokens is full.
    ReplayFull = 1013, "replay memory full", "replay_full";
    /// The store that the nodes share is unreachable.
    NodeUnavailable = 1013, "node unavailable", "node_unavailable";
    /// The other endpoint is gone, for any cause.
    PeerClosed = 1001, "peer closed", "peer_closed";
    /// A text message followed the attach message.
    NonBinaryFrame = 1003, "non binary frame", "non_binary_frame";
    /// A message is longer than its bound.
    RecordTooLarge = 1009, "", "record_too_large";
    /// Too much data arrived before the other endpoint.
    PendingOverflow = 1009, "pending overflow", "pending_overflow";
    /// The data that waits for endpoints that do not read is over its bound.
    RelayFull = 1013, "relay full", "relay_full";
    /// The other endpoint did not read its data in time.
    WriteError = 1001, "write timeout", "write_error";
    /// The channel did not begin to carry records in time.
    InitExpired = 1008, "init expired", "init_expired";
    /// The channel carried nothing for too long.
    IdleTimeout = 1001, "idle timeout", "idle_timeout";
    /// The same end of the channel was attached again.
    Replaced = 1008, "replaced", "replaced";
    /// The input is not the WebSocket protocol.
    ProtocolError = 1002, "protocol error", "protocol_error";
    /// The endpoint sent nothing, and answered no ping, for too long.
    KeepaliveTimeout = 1001, "keepalive timeout", "keepalive_timeout";
    /// The relay is shutting down.
    Draining = 1001, "relay draining", "draining";
    /// The endpoint closed in order.
    Closed = 1000, "", "closed";
}

impl CloseCause {
    /// The code of the close frame (RFC 6455 section 7.4).
    pub fn code(self) -> u16 {
        self.row().0
    }

    /// The reason of the close frame: at most 123 bytes.
    pub fn reason(self, reasons: CloseReasons) -> &'static str {
        match (self.row(), reasons) {
            // As the library below v1's relay closes: without a reason.
            ((_, "", _), _) => "",
            ((_, _, token), CloseReasons::Tokens) => token,
            ((_, words, _), CloseReasons::Words) => words,
        }
    }

    /// The name in metrics and logs, and the reason where reasons are tokens.
    pub fn token(self) -> &'static str {
        self.row().2
    }
}
