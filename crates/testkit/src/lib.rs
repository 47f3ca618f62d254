//! Dev only: what the tests of several crates share.

pub mod store_contract;
pub mod vectors;
