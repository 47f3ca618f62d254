//! Remote calls over a stream: frames, the prologue of a stream, and the envelope of requests, answers and notifications.
//!
//! It may not know: what a stream runs over, who calls, or when. SPEC rpc.md
//!
//! * [`frame`] — a length and as many bytes of JSON.
//! * [`hello`] — what a stream is for: the first frame of whoever opened it.
//! * [`envelope`] — requests, answers, notifications and cancellations.

pub mod envelope;
pub mod frame;
pub mod hello;

pub use envelope::{Envelope, ID_MAX, RpcError};
pub use frame::{FRAME_LEN_MAX, HEADER_LEN, HELLO_LEN_MAX};
pub use hello::Hello;

/// A frame that is none, or holds something else than it should. It carries nothing of what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The length says more than the bound, which is in it, in bytes.
    #[error("a frame is longer than {0} bytes")]
    TooLong(usize),
    /// The frame holds no JSON object.
    #[error("a frame holds no JSON object")]
    NotJson,
    /// A member is absent, of a wrong type or out of its range.
    #[error("member {0} is absent, of a wrong type or out of range")]
    Field(&'static str),
}
