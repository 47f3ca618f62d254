//! Stages of a channel that are timed, and stages at which one can fail, with their names in reports.

use crate::named::named;
use crate::record::{Class, Failure};

named! {
    /// Stage of a successful channel that is timed.
    pub(crate) enum TimedStage {
        /// From the start of dialling to the upgraded WebSocket: TCP, TLS and HTTP.
        WsOpen = "ws_open",
        /// Writing the attach message, which is a local operation.
        AttachSend = "attach_send",
        /// From the written attach message to the peer's first message; in the mode `attach`, to the client's first message at
        /// the server.
        PairReady = "pair_ready",
        /// From the written attach message to the end of the handshake at the client. It includes [`TimedStage::PairReady`].
        Handshake = "handshake",
        /// Opening the stream of the calls, its prologue included.
        RpcOpen = "rpc_open",
        /// From the request of a call to its response.
        RpcCall = "rpc_call",
    }
}

named! {
    /// Stage at which a channel failed.
    pub(crate) enum FailureStage {
        /// Getting the grants of the channel.
        ChannelInit = "channel_init",
        /// Decoding the channel's secret in a grant.
        PskDecode = "psk_decode",
        /// Opening the client's connection, up to the upgraded WebSocket.
        WsOpen = "ws_open",
        /// Writing the client's attach message.
        AttachSend = "attach_send",
        /// Attaching the client: the relay ended its connection before the peer sent a message.
        ClientAttach = "client_attach",
        /// Opening the server's connection, or its attach.
        ServerAttach = "server_attach",
        /// Handshake, as the client sees it.
        Handshake = "handshake",
        /// Handshake, as the server sees it.
        ServerReady = "server_ready",
        /// Start of a stream on a channel that was closed already.
        YamuxClient = "yamux_client",
        /// Opening a stream of the channel.
        YamuxOpen = "yamux_open",
        /// Sending the purpose of the stream, or receiving it at the server.
        RpcHello = "rpc_hello",
        /// Making the call, or receiving the notification that precedes its response.
        RpcCall = "rpc_call",
        /// Staying open: the channel ended too early, after it had been made.
        Steady = "steady",
    }
}

/// Failure of a channel, with its stage.
#[derive(Clone, Debug)]
pub(crate) struct ChannelFailure {
    /// Stage at which the channel failed.
    pub(crate) at: FailureStage,
    /// Stable code, such as `token_replay`, `timeout` or `out_of_descriptors`.
    pub(crate) code: String,
    /// Description in a sentence, without a secret.
    pub(crate) words: String,
    /// Class of failure that the engine counts.
    pub(crate) class: Class,
}

impl ChannelFailure {
    /// Creates a failure; its class follows from the code.
    pub(crate) fn new(at: FailureStage, code: impl Into<String>, words: impl Into<String>) -> Self {
        let code = code.into();
        ChannelFailure { at, class: class(&code), code, words: words.into() }
    }

    /// Creates the failure that an error of the channel stands for.
    pub(crate) fn of(at: FailureStage, err: &sealway_client::channel::Error) -> Self {
        ChannelFailure::new(at, err.code.clone(), err.text.to_string())
    }

    /// Creates the failure of a connection that could not be opened.
    pub(crate) fn connecting(at: FailureStage, failure: Failure) -> Self {
        ChannelFailure { at, code: failure.class.name().to_owned(), words: failure.detail, class: failure.class }
    }

    /// Returns whether the failure says only that the connection is gone, so that the other end may know the reason.
    pub(crate) fn is_vague(&self) -> bool {
        matches!(self.code.as_str(), "closed" | "connection_lost" | "timeout" | "peer_absent" | "transport_error")
    }

    /// Returns the failure in the form that the engine counts.
    pub(crate) fn request_failure(&self) -> Failure {
        Failure::new(self.class, format!("{} ({}): {}", self.at.name(), self.code, self.words))
    }
}

fn class(code: &str) -> Class {
    match code {
        "timeout" | "peer_absent" | "rpc_timeout" => Class::Timeout,
        "closed" | "ended" | "transport_error" => Class::Closed,
        "connection_lost" => Class::Reset,
        _ => Class::Session,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_in_the_order_of_their_indices() {
        for (index, timed) in TimedStage::ALL.into_iter().enumerate() {
            assert_eq!(timed as usize, index);
        }
        for (index, failing) in FailureStage::ALL.into_iter().enumerate() {
            assert_eq!(failing as usize, index);
        }
    }
}
