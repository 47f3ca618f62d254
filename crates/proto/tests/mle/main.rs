//! The core of the MLE bridge (spec/mle.md): vectors of the RFCs, wrong tokens, round trips, keys. The keys are made by `openssl`.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod bad;
mod builder;
mod ecdh;
mod fle;
mod json_web;
mod keys;
mod mutation;
mod open_banking;
mod replay;
mod round_trip;
mod scenarios;
mod setup;
mod sign;
mod vectors;
mod wycheproof;
