//! Runs that others know by a name: Lite Gateway's load client, the session clients' benchmark, the acceptance test of a
//! proxy. Each is flags, and an ending of its own.

pub(crate) mod litegateway;
pub(crate) mod poc;
pub(crate) mod session;
