//! Wire 3: the service proves who it is, any method and body can be sealed, and bodies stream. `spec/session-3.md`.
//!
//! * [`trust`] — whose word is taken for who the service is; [`session`] — messages without a connection;
//! * [`stream`] — bodies as they flow; what joins them over connections is [`crate::Client`]'s.
//!
//! It may not know: the old wires.

mod client;
mod dpop;
mod key_log;
mod lines;
pub mod session;
#[cfg(test)]
mod session_tests;
pub mod stream;
pub mod trust;

pub(crate) use client::Sessions;
pub use sealway_proto::session::three::{KeyId, Suite};
pub use session::{Agreement, DpopKey, INIT_PATH, Opened, Pending, Session, suite_required};
pub use stream::SealedBody;
pub use trust::{
    KEY_SET_PATH, Keyring, KnownService, Pin, PublicKey, Trust, forget_service, known_services, origin, public_key,
};

/// The suites that a client offers unless told otherwise: those with ML-KEM. What a session of P-256 alone carries can be
/// recorded today and read by whoever has a quantum computer one day, so that one has to be asked for.
pub const SUITES_DEFAULT: [Suite; 2] = [Suite::X25519MlKem768, Suite::SecP256r1MlKem768];
