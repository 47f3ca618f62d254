//! Wire 3: the service proves its identity, any method and body can be sealed, and bodies stream. `spec/session-3.md`.
//!
//! The module has the messages without a connection, and the [`Keyring`] of trusted keys. [`crate::Client`] runs all of
//! it over its connections.
//!
//! ```text
//! Agreement::begin -> Message -> (an answer) -> claimed -> its key, if it is trusted -> finish -> Session
//! Session::seal -> Message -> (an answer) -> Pending::open -> headers, body
//! ```
//!
//! The module does not know wires 1 and 2.

mod agree;
mod dpop;
pub(crate) mod key_log;
mod lines;
mod pin;
mod session;
#[cfg(test)]
mod session_tests;
pub(crate) mod stream;
mod trust;

#[cfg(feature = "one-shot")]
pub(crate) use agree::exchange;
pub(crate) use agree::{agree, call, end};
pub use pin::{Pin, PublicKey, public_key};
pub use sealway_proto::crypto::identity::SignatureAlgorithm;
pub use sealway_proto::session::native::{InitAnswer, KeyId, Suite};
pub use session::{Agreement, DpopKey, INIT_PATH, Pending, Session, suite_required};
#[cfg(feature = "one-shot")]
pub(crate) use session::{AnswerOpening, Shape, StreamHead, open_whole, plain};
pub(crate) use trust::host;
pub use trust::{KEY_SET_PATH, Keyring, KnownService, Trust, TrustStore, origin};

/// Suites that a client offers by default: those with ML-KEM. A session of P-256 alone can be recorded today and
/// decrypted with a future quantum computer, so a client has to ask for that suite.
pub const SUITES_DEFAULT: [Suite; 2] = [Suite::X25519MlKem768, Suite::SecP256r1MlKem768];
