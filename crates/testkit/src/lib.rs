//! Dev only: what the tests of several crates share.

pub mod vectors;
