//! Remote calls over a stream: frames, the prologue of a stream, and the envelope of requests, answers and notifications.
//!
//! This module does not know the transport of a stream, the identity of a caller, or the time. SPEC rpc.md
//!
//! * [`frame`] — a length and the JSON that follows.
//! * [`hello`] — the purpose of a stream: the first frame of its opener.
//! * [`envelope`] — requests, answers, notifications and cancellations.

pub mod envelope;
pub mod frame;
pub mod hello;

pub use envelope::{Envelope, ID_MAX, RpcError};
pub use frame::{FRAME_LEN_MAX, HEADER_LEN, HELLO_LEN_MAX};
pub use hello::Hello;

/// A malformed frame. The error contains nothing of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The frame's length is more than the bound, which the variant contains, in bytes.
    #[error("a frame is longer than {0} bytes")]
    TooLong(usize),
    /// The frame holds no JSON object.
    #[error("a frame holds no JSON object")]
    NotJson,
    /// A member is absent, of a wrong type or out of its range.
    #[error("member {0} is absent, of a wrong type or out of range")]
    Field(&'static str),
}
