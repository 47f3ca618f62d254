//! What is timed of a channel, and where one can fail: the names that reports have for both.

use crate::record::{Class, Fault};

/// What is timed of a channel that came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timed {
    /// From the start of dialling to the upgraded WebSocket: TCP, TLS and HTTP.
    WsOpen,
    /// Writing the attach message, which is local alone.
    AttachSend,
    /// From the attach written to the peer's first message; in the mode attach, to the client's first message at the server.
    PairReady,
    /// From the attach written to the handshake's end at the client. It holds [`Timed::PairReady`].
    Handshake,
    /// Opening the stream of the calls, its prologue included.
    RpcOpen,
    /// From the request of a call to its answer.
    RpcCall,
}

impl Timed {
    /// All of them, in the order of a channel's life, by their names.
    pub(crate) const ALL: [(&'static str, Timed); 6] = [
        ("ws_open", Timed::WsOpen),
        ("attach_send", Timed::AttachSend),
        ("pair_ready", Timed::PairReady),
        ("handshake", Timed::Handshake),
        ("rpc_open", Timed::RpcOpen),
        ("rpc_call", Timed::RpcCall),
    ];
}

/// Where a channel failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failing {
    /// Getting its grants.
    ChannelInit,
    /// The channel's secret in a grant.
    PskDecode,
    /// The client's connection, up to the upgraded WebSocket.
    WsOpen,
    /// Writing the client's attach message.
    AttachSend,
    /// The relay ended the client's connection before the peer said anything.
    ClientAttach,
    /// The server's connection or its attach.
    ServerAttach,
    /// The handshake, as the client sees it.
    Handshake,
    /// The handshake, as the server sees it.
    ServerReady,
    /// The channel was over before a stream was asked for.
    YamuxClient,
    /// Opening a stream.
    YamuxOpen,
    /// Saying what the stream is for, or hearing it at the server.
    RpcHello,
    /// The call, or the notification before its answer.
    RpcCall,
    /// It ended after it had come about, before it was to end.
    Steady,
}

impl Failing {
    /// All of them, in the order of a channel's life, by their names.
    pub(crate) const ALL: [(&'static str, Failing); 13] = [
        ("channel_init", Failing::ChannelInit),
        ("psk_decode", Failing::PskDecode),
        ("ws_open", Failing::WsOpen),
        ("attach_send", Failing::AttachSend),
        ("client_attach", Failing::ClientAttach),
        ("server_attach", Failing::ServerAttach),
        ("handshake", Failing::Handshake),
        ("server_ready", Failing::ServerReady),
        ("yamux_client", Failing::YamuxClient),
        ("yamux_open", Failing::YamuxOpen),
        ("rpc_hello", Failing::RpcHello),
        ("rpc_call", Failing::RpcCall),
        ("steady", Failing::Steady),
    ];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

/// Why a channel did not come about.
#[derive(Clone, Debug)]
pub(crate) struct Broke {
    /// Where.
    pub(crate) at: Failing,
    /// A stable code, such as `token_replay`, `timeout` or `out_of_descriptors`.
    pub(crate) code: String,
    /// A sentence, without a secret.
    pub(crate) words: String,
    /// What the generator counts it as.
    pub(crate) class: Class,
}

impl Broke {
    /// At this stage, under this code, in these words.
    pub(crate) fn new(at: Failing, code: impl Into<String>, words: impl Into<String>) -> Self {
        let code = code.into();
        Broke { at, class: class(&code), code, words: words.into() }
    }

    /// A connection that could not be opened.
    pub(crate) fn connecting(at: Failing, fault: Fault) -> Self {
        Broke { at, code: fault.class.name().to_owned(), words: fault.detail, class: fault.class }
    }

    /// Whether it says no more than that the connection is gone, so that the other end may know why.
    pub(crate) fn is_vague(&self) -> bool {
        matches!(self.code.as_str(), "closed" | "connection_lost" | "timeout" | "peer_absent" | "transport_error")
    }

    /// As the engine counts it.
    pub(crate) fn fault(&self) -> Fault {
        Fault::new(self.class, format!("{} ({}): {}", self.at.name(), self.code, self.words))
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
        for (index, (_, timed)) in Timed::ALL.into_iter().enumerate() {
            assert_eq!(timed as usize, index);
        }
        for (index, (name, failing)) in Failing::ALL.into_iter().enumerate() {
            assert_eq!((failing as usize, failing.name()), (index, name));
        }
    }
}
