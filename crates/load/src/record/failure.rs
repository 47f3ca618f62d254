//! Failures of requests: a class to count by, and the text of one example.

use std::fmt;

use crate::named::named;

named! {
    /// Class of a failure. Every failed request is in exactly one class.
    pub enum Class {
        /// The host name has no address.
        Resolve = "resolve",
        /// Nothing listens at the address: the connection was refused.
        Refused = "refused",
        /// There is no route to the host or its network.
        Unreachable = "unreachable",
        /// No connection was established within the connect timeout.
        ConnectTimeout = "connect_timeout",
        /// Every local port towards this address is in use.
        OutOfPorts = "out_of_ports",
        /// The process may open no more descriptors.
        OutOfDescriptors = "out_of_descriptors",
        /// The connection could not be opened for another reason.
        Connect = "connect",
        /// The server ended the TLS handshake, or the connection later, with an alert.
        TlsAlert = "tls_alert",
        /// The server's certificate is not trusted.
        Certificate = "certificate",
        /// The TLS handshake failed for another reason.
        Tls = "tls",
        /// The connection was reset while a request was under way.
        Reset = "reset",
        /// The connection was closed before the answer was complete.
        Closed = "closed",
        /// The answer violated its protocol.
        Malformed = "malformed",
        /// No complete answer arrived within the request timeout.
        Timeout = "timeout",
        /// The answer's status was not an expected one.
        Status = "status",
        /// An assertion on the answer's content failed.
        Assertion = "assertion",
        /// A session could not be agreed, or the service has no key to seal to.
        Session = "session",
        /// The answer of a sealed request does not open.
        Unsealed = "unsealed",
        /// The service's key that sealed the request is not accepted any more.
        KeyRetired = "key_retired",
        /// The service received the same request before.
        Replayed = "replayed",
        /// The request's time is outside the service's window.
        ClockSkew = "clock_skew",
        /// The client itself could not make the request.
        Internal = "internal",
    }
}

impl Class {
    /// Returns its index in [`Class::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Failure of one request with its description.
#[derive(Debug)]
pub struct Failure {
    /// Class that the failure counts as.
    pub class: Class,
    /// Description in one line, without secrets.
    pub detail: String,
}

impl Failure {
    /// Creates a failure of this class with this description.
    pub fn new(class: Class, detail: impl fmt::Display) -> Self {
        Failure { class, detail: detail.to_string() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class.name(), self.detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_classes_is_in_the_order_of_their_indices() {
        for (index, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class.index(), index, "{}", class.name());
        }
    }
}
