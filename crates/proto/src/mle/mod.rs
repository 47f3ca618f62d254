//! Message-level encryption as card schemes use it: compact JWE (RFC 7516) in HTTP bodies, and Mastercard's field-level form.
//! `spec/mle.md` is its contract.
//!
//! A token is opened in two steps. [`Opening::begin`] checks what is public and says which private operation is due;
//! [`Opening::unwrapped`] takes its result, verifies the tag, and returns a [`NonceGuard`], whose value a store releases once.
//! [`seal`](seal::seal) makes a token. [`body`] puts tokens into bodies and takes them out.
//!
//! A token says who can read it, never who wrote it: anybody can make one with the public key. The sender is authenticated
//! elsewhere, before a token is opened. The field-level form ([`fle`]) has no integrity either. [`sign`] has the signatures that schemes
//! want over a request after it was sealed.
//!
//! This module does not know routes, callers, HTTP, files, or which crypto library is below it.

pub mod algorithm;
#[cfg(feature = "aws-lc")]
pub mod aws_lc;
pub mod body;
pub mod compact;
pub mod crypto;
mod der;
mod ec;
pub mod fle;
pub mod header;
mod json;
mod key_error;
pub mod keys;
pub mod kid;
pub mod load;
pub mod open;
pub mod path;
pub mod profile;
pub mod refusal;
pub mod seal;
pub mod sign;
mod splice;

pub use algorithm::{Alg, Enc, JwsAlg};
pub use body::{Envelope, Field, FieldRule, Scalars};
pub use crypto::JoseProvider;
pub use fle::{Encoding, FieldSealer, Fle, FleNames, Metadata, Place};
pub use json::DEPTH_MAX;
pub use key_error::KeyError;
pub use keys::{OpeningKey, OpeningKeys, SealingKey};
pub use kid::KidSource;
pub use load::Public;
pub use open::{OpenRandoms, Opening, Plaintext, Wants};
pub use profile::{IatUnit, Message, Profile, Side, Wrapper};
pub use refusal::{Class, Refusal};
pub use seal::{SealError, SealRandoms};

pub use crate::session::NonceGuard;
