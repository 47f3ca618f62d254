//! Wire 2's `X-Idempotency-Key`: `timestamp.nonce`, two non-empty parts and one dot.

use crate::error::Error;

/// Splits the header's value into its two parts. Their own forms are checked later, in the order of the wire.
///
/// # Errors
/// [`Error::IdempotencyKeyShape`].
pub fn split(value: &str) -> Result<(&str, &str), Error> {
    match value.split_once('.') {
        Some((stamp, nonce)) if !stamp.is_empty() && !nonce.is_empty() && !nonce.contains('.') => Ok((stamp, nonce)),
        _ => Err(Error::IdempotencyKeyShape),
    }
}
