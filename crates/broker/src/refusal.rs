//! The error type of all operations, mapped to gRPC in one place.

use sealway_proto::broker::TRY_AGAIN_LATER;

/// Kind of an error, as a gRPC status code. The caller's own fault never has a code that released clients answer with a
/// retry (8, 10 or 14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// 2: the code of all errors on the wire W0.
    Unknown = 2,
    /// 3: the request is malformed or not allowed by its profile.
    InvalidArgument = 3,
    /// 4: the caller no longer waits for the answer.
    DeadlineExceeded = 4,
    /// 5: the store has no such key.
    NotFound = 5,
    /// 6: the store already has a key of this id.
    AlreadyExists = 6,
    /// 7: the caller's policy does not allow it.
    PermissionDenied = 7,
    /// 8: the broker as a whole is overloaded; never caused by a single caller.
    ResourceExhausted = 8,
    /// 9: the profile, the key's state or this build do not allow the operation now, or a quota is used up.
    FailedPrecondition = 9,
    /// 11: a message longer than the bound.
    OutOfRange = 11,
    /// 12: this broker does not offer the method.
    Unimplemented = 12,
    /// 13: a defect of the broker itself.
    Internal = 13,
    /// 14: temporarily unavailable; the same call may succeed later.
    Unavailable = 14,
}

impl Code {
    /// Returns the number of the code in gRPC.
    pub fn number(self) -> u8 {
        self as u8
    }
}

impl From<Code> for tonic::Code {
    fn from(code: Code) -> tonic::Code {
        tonic::Code::from_i32(code.number().into())
    }
}

/// A failed operation with its reason. The text reaches the caller, and never contains a key, a password or an input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// Code of the error: the gRPC status of the answer.
    pub code: Code,
    /// Sentence that names the field.
    pub text: String,
}

impl Refusal {
    /// Creates an error with this code and text.
    pub fn new(code: Code, text: impl Into<String>) -> Refusal {
        Refusal { code, text: text.into() }
    }

    /// Creates an error with code 9 and the ending that says that it passes: the caller has its share of something. A code that
    /// clients retry at once is never the caller's own fault.
    pub(crate) fn share(text: impl std::fmt::Display) -> Refusal {
        Refusal::new(Code::FailedPrecondition, format!("{text}{TRY_AGAIN_LATER}"))
    }

    /// Creates an error with code 3: the request is invalid.
    pub fn invalid(text: impl Into<String>) -> Refusal {
        Refusal::new(Code::InvalidArgument, text)
    }
}

/// Result of an operation that a [`Refusal`] can end.
pub type Result<T, E = Refusal> = std::result::Result<T, E>;

impl From<Refusal> for tonic::Status {
    fn from(refusal: Refusal) -> tonic::Status {
        tonic::Status::new(refusal.code.into(), refusal.text)
    }
}
