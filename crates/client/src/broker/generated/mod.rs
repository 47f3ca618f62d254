//! The stubs of the broker's wires, made from spec/broker*.proto.
#![allow(missing_docs, reason = "generated: what the calls mean is told in spec/")]

pub mod health;
pub mod open;
pub mod v1;
