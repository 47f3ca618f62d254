//! Wire 2's `X-Idempotency-Key`: `timestamp.nonce`, two non-empty parts and one dot.

use crate::error::Error;

/// Splits the header's value into its two parts, whose own forms are checked later: the order of checks is the wire's.
///
/// # Errors
/// [`Error::IdempotencyKeyShape`].
pub fn split(value: &str) -> Result<(&str, &str), Error> {
    match value.split_once('.') {
        Some((stamp, nonce)) if !stamp.is_empty() && !nonce.is_empty() && !nonce.contains('.') => Ok((stamp, nonce)),
        _ => Err(Error::IdempotencyKeyShape),
    }
}
