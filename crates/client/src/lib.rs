//! The Rust SDK. [`Client`] agrees a key with a Sealway service, seals requests and opens their answers. [`channel`]
//! connects two peers over a relay that neither has to trust. [`broker`] calls the broker on the application's machine.
//!
//! The crate does not know how servers are built. The wire format lives in `sealway_proto`.
#![warn(missing_docs)]
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

pub mod broker;
#[cfg(feature = "sessions")]
mod call;
#[cfg(feature = "channel")]
pub mod channel;
#[cfg(feature = "sessions")]
mod clock;
#[cfg(feature = "sessions")]
pub mod compat;
#[cfg(feature = "sessions")]
mod error;
#[cfg(feature = "sessions")]
mod message;
#[cfg(feature = "mle")]
pub mod mle;
#[cfg(feature = "sessions")]
pub mod native;
#[cfg(feature = "one-shot")]
pub mod one_shot;
#[cfg(feature = "sessions")]
mod remedies;
#[cfg(any(feature = "sessions", feature = "channel"))]
mod trust;

#[cfg(feature = "one-shot")]
pub use one_shot::{OneShot, OneShotTrust};
#[cfg(feature = "sessions")]
pub use {
    call::{Body, Builder, Client, Offer, SessionInfo, Timings, Trace},
    error::{Error, ErrorKind, Stage},
    message::Message,
    native::{DpopKey, KeyId, Pin, SUITES_DEFAULT, SignatureAlgorithm, Suite, Trust, TrustStore},
    sealway_proto::wire::Wire,
};
