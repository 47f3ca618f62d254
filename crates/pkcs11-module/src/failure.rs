//! Errors of the interface: a return value of PKCS#11.

use cryptoki_sys::{
    CK_RV, CKR_DATA_INVALID, CKR_DATA_LEN_RANGE, CKR_DEVICE_ERROR, CKR_DEVICE_MEMORY, CKR_FUNCTION_FAILED,
    CKR_FUNCTION_REJECTED, CKR_KEY_FUNCTION_NOT_PERMITTED, CKR_KEY_HANDLE_INVALID,
};
use sealway_client::broker::{Code, Error};

/// A return value other than `CKR_OK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure(pub(crate) CK_RV);

/// Result of a function of the interface.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// Returns the value for a failed call of the broker; `has_key` if the call named a key.
pub(crate) fn of_broker(error: &Error, has_key: bool) -> Failure {
    of_code(error.code, error.is_share_used_up(), has_key)
}

fn of_code(code: Code, is_share_used_up: bool, has_key: bool) -> Failure {
    Failure(match code {
        // As at a token without memory for one more operation: the key and its policy are in order, and a later call may succeed.
        _ if is_share_used_up => CKR_DEVICE_MEMORY,
        // Gone, restarting, stopping or late: the next call may succeed.
        Code::Unavailable | Code::DeadlineExceeded => CKR_DEVICE_ERROR,
        Code::PermissionDenied | Code::FailedPrecondition if has_key => CKR_KEY_FUNCTION_NOT_PERMITTED,
        Code::PermissionDenied | Code::FailedPrecondition => CKR_FUNCTION_REJECTED,
        Code::NotFound => CKR_KEY_HANDLE_INVALID,
        Code::ResourceExhausted => CKR_DEVICE_MEMORY,
        Code::OutOfRange => CKR_DATA_LEN_RANGE,
        Code::InvalidArgument => CKR_DATA_INVALID,
        _ => CKR_FUNCTION_FAILED,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_up_share_is_no_lack_of_permission() {
        for has_key in [true, false] {
            assert_eq!(of_code(Code::FailedPrecondition, true, has_key), Failure(CKR_DEVICE_MEMORY));
        }
        assert_eq!(of_code(Code::FailedPrecondition, false, true), Failure(CKR_KEY_FUNCTION_NOT_PERMITTED));
        assert_eq!(of_code(Code::FailedPrecondition, false, false), Failure(CKR_FUNCTION_REJECTED));
    }
}
