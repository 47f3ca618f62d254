//! The client of the broker.

pub mod generated;
