//! Why a request failed: a class to count by, and the words of one example.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What kind of failure. Every failed request is in exactly one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The name of the host has no address.
    Resolve,
    /// Nothing listens there: the connection was refused.
    Refused,
    /// No route to the host or its network.
    Unreachable,
    /// No connection within the connect timeout.
    ConnectTimeout,
    /// Every local port towards this address is in use.
    OutOfPorts,
    /// The process may open no more descriptors.
    OutOfDescriptors,
    /// The connection could not be opened for another reason.
    Connect,
    /// The server ended the TLS handshake with an alert, or its connection with one later.
    TlsAlert,
    /// The server's certificate is not one to trust.
    Certificate,
    /// The TLS handshake failed for another reason.
    Tls,
    /// The connection was reset while a request was under way.
    Reset,
    /// The connection was closed before the answer was whole.
    Closed,
    /// The answer broke the rules of its protocol.
    Malformed,
    /// No whole answer within the request timeout.
    Timeout,
    /// A status that was not asked for.
    Status,
    /// An assertion on the answer's content failed.
    Assertion,
    /// A session could not be agreed.
    Session,
    /// The answer of a sealed request does not open.
    Unsealed,
    /// The client itself could not make the request.
    Internal,
}

impl Class {
    /// All of them, in the order of [`Class::index`].
    pub const ALL: [Class; 19] = [
        Class::Resolve,
        Class::Refused,
        Class::Unreachable,
        Class::ConnectTimeout,
        Class::OutOfPorts,
        Class::OutOfDescriptors,
        Class::Connect,
        Class::TlsAlert,
        Class::Certificate,
        Class::Tls,
        Class::Reset,
        Class::Closed,
        Class::Malformed,
        Class::Timeout,
        Class::Status,
        Class::Assertion,
        Class::Session,
        Class::Unsealed,
        Class::Internal,
    ];

    /// Its place in [`Class::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Its name in reports and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Class::Resolve => "resolve",
            Class::Refused => "refused",
            Class::Unreachable => "unreachable",
            Class::ConnectTimeout => "connect_timeout",
            Class::OutOfPorts => "out_of_ports",
            Class::OutOfDescriptors => "out_of_descriptors",
            Class::Connect => "connect",
            Class::TlsAlert => "tls_alert",
            Class::Certificate => "certificate",
            Class::Tls => "tls",
            Class::Reset => "reset",
            Class::Closed => "closed",
            Class::Malformed => "malformed",
            Class::Timeout => "timeout",
            Class::Status => "status",
            Class::Assertion => "assertion",
            Class::Session => "session",
            Class::Unsealed => "unsealed",
            Class::Internal => "internal",
        }
    }
}

/// One failure.
#[derive(Debug)]
pub struct Fault {
    /// What it is counted as.
    pub class: Class,
    /// What happened, in one line, without a secret.
    pub detail: String,
}

impl Fault {
    /// A failure of this class, in these words.
    pub fn new(class: Class, detail: impl fmt::Display) -> Self {
        Fault { class, detail: detail.to_string() }
    }
}

impl fmt::Display for Fault {
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
