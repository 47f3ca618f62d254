//! The error type of all operations, mapped to gRPC in one place.

use std::fmt;

/// Kind of an error, as a gRPC status code. The caller's own fault never has a code that released clients answer with a
/// retry (8, 10 or 14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// 2: the code of all errors on the wire W0.
    Unknown,
    /// 3: the request is malformed or not allowed by its profile.
    InvalidArgument,
    /// 4: the caller no longer waits for the answer.
    DeadlineExceeded,
    /// 5: the store has no such key.
    NotFound,
    /// 6: the store already has a key of this id.
    AlreadyExists,
    /// 7: the caller's policy does not allow it.
    PermissionDenied,
    /// 8: the broker as a whole is overloaded; never caused by a single caller.
    ResourceExhausted,
    /// 9: the profile, the key's state or this build do not allow the operation now, or a quota is used up.
    FailedPrecondition,
    /// 11: a message longer than the bound.
    OutOfRange,
    /// 12: this broker does not offer the method.
    Unimplemented,
    /// 13: a defect of the broker itself.
    Internal,
    /// 14: temporarily unavailable; the same call may succeed later.
    Unavailable,
}

impl Code {
    /// Returns the number of the code in gRPC.
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

impl From<Code> for tonic::Code {
    fn from(code: Code) -> tonic::Code {
        tonic::Code::from_i32(code.number().into())
    }
}

/// A failed operation with its reason. The text reaches the caller, and never contains a key, a password or an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Kind of the error.
    pub code: Code,
    /// Sentence that names the field.
    pub text: String,
}

impl Refusal {
    /// Creates an error with this code and text.
    pub fn new(code: Code, text: impl Into<String>) -> Refusal {
        Refusal { code, text: text.into() }
    }

    /// Creates an error with code 3: the request is invalid.
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

impl From<Refusal> for tonic::Status {
    fn from(refusal: Refusal) -> tonic::Status {
        tonic::Status::new(refusal.code.into(), refusal.text)
    }
}
