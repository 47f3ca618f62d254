//! Phases of a request that are timed separately.

use crate::named::named;

named! {
    /// Phase of a request that a time was spent on. Only [`Phase::Failed`] covers failed requests.
    pub enum Phase {
        /// From the scheduled start of a request to the last byte of its answer: the time that a user waits. In an open
        /// loop it includes the wait for a free connection, and so corrects for coordinated omission.
        Response = "response",
        /// From the actual start of a request: the latency of most tools, which ignores requests held back meanwhile.
        Service = "service",
        /// Time to open a TCP connection.
        Connect = "connect",
        /// TLS handshake, full and resumed forms together.
        Tls = "tls",
        /// Full TLS handshakes alone, if both forms are measured.
        TlsFull = "tls_full",
        /// Resumed TLS handshakes alone, if both forms are measured.
        TlsResumed = "tls_resumed",
        /// From the first byte of a request sent to the first byte of its answer.
        FirstByte = "first_byte",
        /// Time to agree a session, including its cryptography.
        KeyAgreement = "key_agreement",
        /// Time to seal a request.
        Seal = "seal",
        /// Time to open a sealed answer.
        Open = "open",
        /// Processing time that the server reports in `Server-Timing`: its entry `total`, or the sum of all entries.
        Server = "server",
        /// From the scheduled start of a failed request to its failure.
        Failed = "failed",
    }
}

impl Phase {
    /// Returns its index in [`Phase::ALL`].
    pub fn index(self) -> usize {
        self as usize
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
