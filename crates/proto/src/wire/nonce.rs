//! Nonces: 1 (or 16) to 128 characters of `[A-Za-z0-9_-]`. Those of answers begin with `r-`, and no request may carry one:
//! otherwise an answer, sent back, would open as a request (both directions of wires 1 and 2 share one key).

use alloc::string::String;

use crate::error::Error;
use crate::limits::NONCE_LEN_MAX;

/// Prefix of every nonce of an answer.
pub const ANSWER_PREFIX: &str = "r-";

/// A well-formed nonce of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonce<'a>(&'a str);

impl<'a> Nonce<'a> {
    /// Checks the nonce of a request. `len_min` is one of [`crate::limits`].
    ///
    /// # Errors
    /// [`Error::NonceInvalid`], [`Error::NonceReserved`].
    // SPEC session.md#nonces
    pub fn parse(text: &'a str, len_min: usize) -> Result<Self, Error> {
        well_formed(text, len_min)?;
        // Without case: a store or a client that folds case must not mix the two kinds.
        match text.get(..ANSWER_PREFIX.len()) {
            Some(prefix) if prefix.eq_ignore_ascii_case(ANSWER_PREFIX) => Err(Error::NonceReserved),
            _ => Ok(Nonce(text)),
        }
    }

    /// Returns the text as sent.
    pub fn as_str(&self) -> &'a str {
        self.0
    }
}

/// Prefix of the nonce of a sealed problem on wire 4, which the server makes and no service.
pub const PROBLEM_PREFIX: &str = "p-";

/// Checks that `text` is the nonce of an answer, or of a sealed problem, on wire 4.
///
/// # Errors
/// Those of [`check_answer`].
pub fn check_one_shot_answer(text: &str, len_min: usize) -> Result<(), Error> {
    if text.starts_with(PROBLEM_PREFIX) { well_formed(text, len_min) } else { check_answer(text, len_min) }
}

/// Checks that `text` is the nonce of an answer. `len_min` is one of [`crate::limits`].
///
/// # Errors
/// [`Error::NonceInvalid`], and [`Error::AnswerMismatch`] for the nonce of a request.
pub fn check_answer(text: &str, len_min: usize) -> Result<(), Error> {
    well_formed(text, len_min)?;
    if text.starts_with(ANSWER_PREFIX) { Ok(()) } else { Err(Error::AnswerMismatch) }
}

fn well_formed(text: &str, len_min: usize) -> Result<(), Error> {
    let alphabet = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if (len_min..=NONCE_LEN_MAX).contains(&text.len()) && text.bytes().all(alphabet) {
        Ok(())
    } else {
        Err(Error::NonceInvalid)
    }
}

/// Appends 16 bytes as 32 lower-case hexadecimal digits.
pub(crate) fn push_hex(out: &mut String, bytes: &[u8; 16]) {
    for byte in bytes {
        for nibble in [byte >> 4, byte & 15] {
            out.push(char::from(if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 }));
        }
    }
}
