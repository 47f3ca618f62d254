//! A load client whose TLS resumption is set by the load and counted. Most load generators resume TLS sessions silently, so that
//! their figure for new connections is one of resumed ones.
//!
//! The client runs on one thread, with as little work for each request as possible: HTTP/1.1 is its own loop over the raw stream,
//! HTTP/2 is hyper's. It speaks TLS 1.3 with one cipher suite and one key exchange group, so that every server does the same
//! work.

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
