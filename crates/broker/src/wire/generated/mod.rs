//! What answers on the broker's wires, made from spec/broker*.proto: paths, decoding, and a trait for each service.
#![allow(missing_docs, unreachable_pub, reason = "generated: what the calls mean is told in spec/")]

pub(crate) mod health;
pub(crate) mod open;
pub(crate) mod v1;
pub(crate) mod w0;
