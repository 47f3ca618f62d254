//! From a refusal to what a wire answers.

use tonic::Status;

use crate::{Code, Refusal};

/// The status of a code.
pub(super) fn code(code: Code) -> tonic::Code {
    match code {
        Code::Unknown => tonic::Code::Unknown,
        Code::InvalidArgument => tonic::Code::InvalidArgument,
        Code::NotFound => tonic::Code::NotFound,
        Code::AlreadyExists => tonic::Code::AlreadyExists,
        Code::PermissionDenied => tonic::Code::PermissionDenied,
        Code::FailedPrecondition => tonic::Code::FailedPrecondition,
        Code::OutOfRange => tonic::Code::OutOfRange,
        Code::Unimplemented => tonic::Code::Unimplemented,
        Code::Internal => tonic::Code::Internal,
        Code::Unavailable => tonic::Code::Unavailable,
    }
}

/// As our own wire answers it.
pub(super) fn status(refusal: Refusal) -> Status {
    Status::new(code(refusal.code), refusal.text)
}
