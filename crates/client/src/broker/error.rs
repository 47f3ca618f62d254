//! Why a call failed, and whether the broker may have done it all the same.

use std::fmt;

pub use tonic::Code;

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {text} ({code:?}, {sent})")]
#[non_exhaustive]
pub struct Error {
    /// What was called, such as `Hash`.
    pub operation: &'static str,
    /// What kind of failure: the broker's word where [`Sent::Answered`], else the client's own.
    pub code: Code,
    /// Why, in one line. There is no key and no input in it.
    pub text: String,
    /// Whether the broker saw the call.
    pub sent: Sent,
    /// Attempts that were made, 0 where it was refused here.
    pub attempts: u32,
}

impl Error {
    /// Whether the same call may succeed a little later: the broker is away, or the breaker is open.
    pub fn is_passing(&self) -> bool {
        matches!(self.code, Code::Unavailable | Code::DeadlineExceeded)
    }
}

/// Whether the broker saw a call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Surely not: nothing was done.
    No,
    /// It left, and no answer came: it was done, or not.
    Perhaps,
    /// It answered.
    Answered,
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sent::No => "not sent",
            Sent::Perhaps => "perhaps done",
            Sent::Answered => "answered",
        })
    }
}
