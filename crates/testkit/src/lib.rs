//! Dev only: what tests of several crates share.

pub mod process;
pub mod raw_http;
pub mod upstream;
pub mod wire_client;
