//! Why an operation was refused: the one error type of the operations, mapped to gRPC in one place.

use std::fmt;

/// Who is to blame, as a gRPC status tells it. Never one that released clients answer with a retry (8, 10 or 14) for what is
/// the caller's own fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// 2: the wire W0 tells everything so.
    Unknown,
    /// 3: the request is wrong.
    InvalidArgument,
    /// 4: nobody waits for the answer any more.
    DeadlineExceeded,
    /// 5: there is no such key.
    NotFound,
    /// 6: there is such a key already.
    AlreadyExists,
    /// 7: the caller's policy does not allow it.
    PermissionDenied,
    /// 8: the broker as a whole has too much under way; not for anything that one caller did.
    ResourceExhausted,
    /// 9: the profile, the key's state or this build do not allow it now; a quota is used up.
    FailedPrecondition,
    /// 11: a message beyond the bound.
    OutOfRange,
    /// 12: not on this broker.
    Unimplemented,
    /// 13: the broker's own fault.
    Internal,
    /// 14: not now; the same call may succeed later.
    Unavailable,
}

impl Code {
    /// As gRPC numbers it.
    pub fn number(self) -> u8 {
        match self {
            Code::Unknown => 2,
            Code::InvalidArgument => 3,
            Code::DeadlineExceeded => 4,
            Code::NotFound => 5,
            Code::AlreadyExists => 6,
            Code::PermissionDenied => 7,
            Code::ResourceExhausted => 8,
            Code::FailedPrecondition => 9,
            Code::OutOfRange => 11,
            Code::Unimplemented => 12,
            Code::Internal => 13,
            Code::Unavailable => 14,
        }
    }
}

/// An operation that was not done, and why. The text reaches the caller: never a key, a password or an input in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Who is to blame.
    pub code: Code,
    /// What is wrong, naming the field.
    pub text: String,
}

impl Refusal {
    /// A refusal with this code and text.
    pub fn new(code: Code, text: impl Into<String>) -> Refusal {
        Refusal { code, text: text.into() }
    }

    /// The request is wrong.
    pub fn invalid(text: impl Into<String>) -> Refusal {
        Refusal::new(Code::InvalidArgument, text)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Refusal {}
