//! The messages of the broker's wires, made from spec/broker*.proto. A message with bytes or a private key in it prints its
//! name alone.
#![allow(
    missing_docs,
    clippy::derive_partial_eq_without_eq,
    reason = "generated: the fields are explained where they are defined, in spec/"
)]

pub mod health;
pub mod open;
pub mod v1;
pub mod w0;
