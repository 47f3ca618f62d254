//! The times that are kept apart.

use serde::{Deserialize, Serialize};

/// What a time was spent on. Only [`Phase::Failed`] is of requests that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// From the moment a request was meant to start to the last byte of its answer: what a user waits. In the open model
    /// it holds the wait for a free connection, and so corrects for coordinated omission.
    Response,
    /// From the moment a request did start: what most tools call latency, blind to what was held back meanwhile.
    Service,
    /// Opening a TCP connection.
    Connect,
    /// The TLS handshake; its full and resumed forms together.
    Tls,
    /// Full TLS handshakes alone, where both forms are measured.
    TlsFull,
    /// Resumed TLS handshakes alone, where both forms are measured.
    TlsResumed,
    /// From the first byte of a request sent to the first byte of its answer.
    FirstByte,
    /// Agreeing a session, its crypto included.
    KeyAgreement,
    /// Sealing a request.
    Seal,
    /// Opening an answer.
    Open,
    /// What the server says it took, by its `Server-Timing`, all entries together.
    Server,
    /// From the moment a failed request was meant to start to its failure.
    Failed,
}

impl Phase {
    /// All of them, in the order of [`Phase::index`].
    pub const ALL: [Phase; 12] = [
        Phase::Response,
        Phase::Service,
        Phase::Connect,
        Phase::Tls,
        Phase::TlsFull,
        Phase::TlsResumed,
        Phase::FirstByte,
        Phase::KeyAgreement,
        Phase::Seal,
        Phase::Open,
        Phase::Server,
        Phase::Failed,
    ];

    /// Its place in [`Phase::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Its name in reports and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Response => "response",
            Phase::Service => "service",
            Phase::Connect => "connect",
            Phase::Tls => "tls",
            Phase::TlsFull => "tls_full",
            Phase::TlsResumed => "tls_resumed",
            Phase::FirstByte => "first_byte",
            Phase::KeyAgreement => "key_agreement",
            Phase::Seal => "seal",
            Phase::Open => "open",
            Phase::Server => "server",
            Phase::Failed => "failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_phases_is_in_the_order_of_their_indices() {
        for (index, phase) in Phase::ALL.into_iter().enumerate() {
            assert_eq!(phase.index(), index, "{}", phase.name());
        }
    }
}
