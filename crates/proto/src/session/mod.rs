//! Sealed sessions, wires 1 and 2: `spec/session.md`.
//!
//! The server's side of a call, each arrow a value that the next step consumes:
//!
//! ```text
//! headers ─ SealedCall::parse ─► SealedCall ─ open(session, body) ─► Unreplayed<Opened>
//!                                                        store reserves the claim ─► Fresh
//!                                          Unreplayed::release(fresh) ─► Opened { plaintext, reply }
//!                                                              reply.seal(status, answer) ─► SealedMessage
//! ```
//!
//! and of an init: `InitCall::parse` → `NonceGuard<InitCall>` → `accept` → `(InitAnswer, Session)`.

pub mod buffer;
pub mod call;
pub mod client;
pub mod init;
pub mod keys;
pub mod native;
pub mod record;
pub mod replay;
mod wire1;
mod wire2;

pub use buffer::{Plaintext, SealBuffer};
pub use call::{PlainRequest, Reply, SealRandoms, SealedCall, SealedMessage};
pub use client::{ClientInit, ClientSession, InitRequest, PendingAnswer};
pub use init::{Family, InitCall, InitRandoms, TtlPolicy};
pub use keys::SessionKey;
pub use record::{Auth, IDENTITY_HEADERS, Session, SessionRecord};
pub use replay::{Claim, ClaimKey, Fresh, NonceGuard};

/// A step whose end is reported to the caller, which may read a clock: this crate cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The peer's public key was checked.
    ValidatePublicKey,
    /// An ephemeral key pair was made.
    EcdhKeygen,
    /// The shared secret was computed.
    EcdhCompute,
    /// The session's key was derived.
    Hkdf,
    /// The additional authenticated data was put together.
    AadBuild,
    /// A message was opened, or opening it failed.
    Decrypt,
    /// A message was sealed for the peer.
    Encrypt,
}

impl Step {
    /// Returns the name that `Server-Timing` and the metrics summary use.
    pub fn name(self) -> &'static str {
        match self {
            Step::ValidatePublicKey => "validate-pubkey",
            Step::EcdhKeygen => "ecdh-keygen",
            Step::EcdhCompute => "ecdh-compute",
            Step::Hkdf => "hkdf",
            Step::AadBuild => "aad-build",
            Step::Decrypt => "aes-gcm-decrypt",
            Step::Encrypt => "aes-gcm-encrypt",
        }
    }
}

/// A callback for the end of each [`Step`].
pub type Laps<'a> = &'a mut dyn FnMut(Step);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_the_names_that_server_timing_has_in_the_spec() {
        let steps = [
            (Step::ValidatePublicKey, "validate-pubkey"),
            (Step::EcdhKeygen, "ecdh-keygen"),
            (Step::EcdhCompute, "ecdh-compute"),
            (Step::Hkdf, "hkdf"),
            (Step::AadBuild, "aad-build"),
            (Step::Decrypt, "aes-gcm-decrypt"),
            (Step::Encrypt, "aes-gcm-encrypt"),
        ];
        assert_eq!(steps.map(|(step, _)| step.name()), steps.map(|(_, name)| name));
    }
}
