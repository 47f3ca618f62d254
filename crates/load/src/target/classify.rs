//! What kind of failure an error of the system is.

use std::io;
use std::net::SocketAddr;

use crate::record::{Class, Fault};

/// An error while a connection to this address was opened.
pub(crate) fn opening(address: SocketAddr, error: &io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Fault::new(Class::Refused, format!("connection refused by {address}")),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            Fault::new(Class::Unreachable, format!("no route to {address}"))
        }
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse => {
            Fault::new(Class::OutOfPorts, format!("all local ports towards {address} are in use"))
        }
        _ => Fault::new(Class::Connect, format!("cannot connect to {address}: {error}")),
    }
}

/// An error while a request was under way.
pub(crate) fn under_way(error: &io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            Fault::new(Class::Reset, "the server reset the connection")
        }
        io::ErrorKind::UnexpectedEof => Fault::new(Class::Closed, "the server closed the connection"),
        _ => Fault::new(Class::Closed, format!("the connection broke: {error}")),
    }
}
