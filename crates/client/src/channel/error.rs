//! Errors of channels, their streams and calls: a stage, a code, and a sentence.

use std::borrow::Cow;
use std::sync::Arc;

use sealway_proto::channel::ChannelError;
pub use sealway_proto::channel::Stage;

/// A failure at a stage. It holds no key, no token and no decrypted data, and is cheap to clone.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{stage}: {text} ({code})")]
pub struct Error {
    /// Stage at which the failure happened.
    pub stage: Stage,
    /// Stable code of the failure, for programs.
    pub code: Cow<'static, str>,
    /// Sentence about the failure, for people.
    pub text: Arc<str>,
}

impl Error {
    /// Codes of this crate, listed in `spec/registry.toml` under `channel_client_errors`. Errors also carry codes of
    /// the core (`channel_errors`) and codes made from the close frame of a peer or a relay.
    pub const CODES: &'static [&'static str] = &[
        "accept_failed",
        "address_invalid",
        "broken_off",
        "closed",
        "connection_lost",
        "connection_refused",
        "control_refused",
        "control_unreachable",
        "ended",
        "forbidden",
        "grant_invalid",
        "hello_invalid",
        "issuer_key_invalid",
        "key_invalid",
        "kind_unknown",
        "no_local_port",
        "nobody_listens",
        "peer_silent",
        "provider",
        "psk_invalid",
        "record_too_large",
        "send_failed",
        "streams_malformed",
        "suite_unsupported",
        "target_unreachable",
        "timeout",
        "tls_failed",
        "tls_unset",
        "tls_untrusted",
        "transport_error",
        "unauthorized",
        "unexpected_text_frame",
        "unreachable",
        "upgrade_failed",
        "upgrade_refused",
        "upgrade_unavailable",
        "websocket_malformed",
    ];

    pub(crate) fn new(stage: Stage, code: &'static str, text: impl AsRef<str>) -> Self {
        debug_assert!(Self::CODES.contains(&code), "the code {code} is not in the list");
        Error { stage, code: code.into(), text: text.as_ref().into() }
    }

    /// Converts an error of the core, with its stage and code.
    pub(crate) fn of_core(err: &ChannelError) -> Self {
        Error { stage: err.stage(), code: err.code().into(), text: err.to_string().into() }
    }

    /// Error for a WebSocket close frame of the peer or the relay. The close's reason becomes the code.
    pub(crate) fn closed(stage: Stage, close: Option<(u16, &str)>) -> Self {
        match close {
            None => Error::new(stage, "closed", "the connection was closed without a word"),
            Some((1000, reason)) => {
                Error::new(stage, "ended", format!("the channel was ended: {}", reason.escape_debug()))
            }
            Some((code, "")) => Error::new(stage, "closed", format!("the connection was closed with the code {code}")),
            Some((code, reason)) => Error {
                stage,
                code: code_of(reason).into(),
                text: format!("the connection was closed with the code {code}: {}", reason.escape_debug()).into(),
            },
        }
    }

    /// True if a later attempt may succeed: no peer was there, a bound was reached, or a connection broke. Failures
    /// that a signature, a key or a configuration decides are permanent. A relay answers `expected_attach` to an attach
    /// message that came too late, so that a retry may succeed.
    pub fn is_passing(&self) -> bool {
        const LASTING: [&str; 10] = [
            "address_invalid",
            "channel_mismatch",
            "forbidden",
            "grant_invalid",
            "invalid_attach",
            "role_mismatch",
            "suite_unsupported",
            "tls_untrusted",
            "unauthorized",
            "upgrade_refused",
        ];
        // A rejected handshake or record concerns this peer only: the next peer may be another one.
        matches!(self.stage, Stage::Handshake | Stage::Record) || !LASTING.contains(&self.code.as_ref())
    }
}

/// Turns a close's reason into a code: `token replay` becomes `token_replay`. The code of an untrusted reason is at
/// most 64 characters long and has only letters, digits and underscores.
fn code_of(reason: &str) -> String {
    let word = |sign: char| if sign.is_ascii_alphanumeric() { sign.to_ascii_lowercase() } else { '_' };
    reason.chars().take(64).map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_close_becomes_a_code() {
        let err = Error::closed(Stage::Attach, Some((1008, "token replay")));
        assert_eq!((err.code.as_ref(), err.stage.name()), ("token_replay", "attach"));
        assert!(err.to_string().contains("1008") && err.is_passing(), "a new grant has a new token");
        assert!(!Error::closed(Stage::Attach, Some((1008, "invalid attach"))).is_passing());
        // A machine that slept between a grant and its use has an expired token.
        assert!(Error::closed(Stage::Attach, Some((1008, "invalid token"))).is_passing());
        assert!(Error::closed(Stage::Attach, Some((1002, "expected attach"))).is_passing(), "a slow line is no defect");
        let of_peer = Error::of_core(&ChannelError::ChannelMismatch);
        assert!(of_peer.is_passing(), "one peer that says anything else must not end a listener: {of_peer}");
        let hostile = Error::closed(Stage::Attach, Some((1008, "\u{1b}[2J\n")));
        assert!(!hostile.to_string().contains(['\u{1b}', '\n']), "{hostile}");
        assert_eq!(Error::closed(Stage::Record, None).code, "closed");
    }
}
