//! Error of a call, and the certainty that the broker did not execute it.

use std::fmt;

use sealway_proto::broker::TRY_AGAIN_LATER;
pub use tonic::Code;

/// Failure of a call to the broker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {text} ({code:?}, {sent})")]
#[non_exhaustive]
pub struct Error {
    /// Name of the method, such as `Hash`.
    pub operation: &'static str,
    /// Kind of the failure: the broker's code for [`Delivery::Answered`], else the client's own.
    pub code: Code,
    /// The reason, in one line, without keys and inputs.
    pub text: String,
    /// Progress of the call: not sent, perhaps executed, or answered.
    pub sent: Delivery,
    /// Attempts made; 0 if the client itself rejected the call.
    pub attempts: u32,
}

impl Error {
    /// True if the same call may succeed later: the broker is unavailable, the breaker is open, or the deadline passed.
    pub fn is_passing(&self) -> bool {
        matches!(self.code, Code::Unavailable | Code::DeadlineExceeded)
    }

    /// True if the caller has used up its share of something in the broker: the same call may succeed once its other calls
    /// have ended.
    pub fn is_share_used_up(&self) -> bool {
        self.code == Code::FailedPrecondition && self.text.ends_with(TRY_AGAIN_LATER)
    }
}

/// Progress of a failed call, which decides if a retry is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Certainly not sent: nothing was executed.
    No,
    /// Sent without an answer: executed or not.
    Perhaps,
    /// The broker answered with an error.
    Answered,
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Delivery::No => "not sent",
            Delivery::Perhaps => "perhaps done",
            Delivery::Answered => "answered",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_up_share_is_told_by_the_end_of_its_text_and_only_with_code_9() {
        let error = |code, text: &str| Error {
            operation: "Sign",
            code,
            text: text.into(),
            sent: Delivery::Answered,
            attempts: 1,
        };
        let full = "too many long operations wait: process 1 has its share of places, 64; try again later";
        assert!(error(Code::FailedPrecondition, full).is_share_used_up());
        assert!(!error(Code::ResourceExhausted, full).is_share_used_up());
        assert!(!error(Code::FailedPrecondition, "key_id: every version of the key is disabled").is_share_used_up());
    }
}
