//! A load client that does what it is told about handshakes and counts them: most load generators resume TLS sessions in
//! silence, and a figure of "new connections" is then one of tickets.
//!
//! One thread drives it, with as little work a request as may be: HTTP/1.1 is a loop of its own over the raw stream,
//! HTTP/2 is hyper's. It speaks TLS 1.3 with one cipher suite and one key exchange group, so that every server is asked
//! for the same work.

mod h1;
mod h2;
mod stream;
mod tally;
mod tls;
mod worker;

pub(crate) use self::h1::H1;
pub(crate) use self::stream::Target;
pub(crate) use self::tally::{Fault, Tally};
pub(crate) use self::tls::{Group, Identity, chain};
pub(crate) use self::worker::{Load, Protocol, Reuse};
