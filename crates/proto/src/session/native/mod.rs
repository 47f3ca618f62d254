//! Sessions on wire 3: `spec/session-3.md`.
//!
//! * [`message`], [`server`], [`client`] — init and renewal; [`suite`] and [`share`] their algorithms, [`key_set`] the signers.
//! * [`call`] — sealed requests and answers: [`frame`] their streams, [`inner`] the headers within.
//! * [`problem`] — the bodies of rejections; [`resend`] the decision of a client to retry; [`inspect`] — inspection, in
//!   development.

pub mod call;
pub mod client;
pub mod fields;
pub mod frame;
pub mod inner;
pub mod inspect;
pub mod key_set;
pub mod message;
pub mod problem;
pub mod resend;
pub(crate) mod schedule;
pub mod server;
pub mod share;
pub(crate) mod signed_list;
pub mod suite;

pub use call::{OpenedRequest, Opening, PendingAnswer, Reply, RequestLine, SealHeaders, SealedRequest};
pub use client::{ClientInit, ClientOffer, ClientSession, SealedCall};
pub use fields::Fields;
pub use frame::{FrameOpener, FrameSealer, Read};
pub use inner::{InnerHeaders, may_be_inner};
pub use inspect::Inspector;
pub use key_set::{IdentityKey, KeyId, KeySet, KeySetFault, RootSignature};
pub use message::{InitAnswer, InitProofs, InitRequest, InitSurroundings};
pub use problem::Problem;
pub use resend::{RejectedRequest, sends_again};
pub use server::{Terms, UnsignedAgreement, agree};
pub use share::{ServerRandoms, ShareKey};
pub use suite::{Group, Suite, choose};

#[cfg(all(test, feature = "aws-lc"))]
pub(crate) mod tests;
