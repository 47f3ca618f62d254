//! Presets: Lite Gateway's load client, the session clients' benchmark, and the acceptance test of a proxy. Each has flags and a
//! final output of its own.

pub(crate) mod litegateway;
pub(crate) mod poc;
pub(crate) mod session;
