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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_has_a_length_and_an_alphabet() {
        let longest = "a".repeat(NONCE_LEN_MAX);
        for good in ["aZ", "0_", "-9", "a-b", longest.as_str()] {
            assert_eq!(Nonce::parse(good, 2).map(|nonce| nonce.as_str()), Ok(good));
        }
        let too_long = "a".repeat(NONCE_LEN_MAX + 1);
        for bad in ["", "a", "a b", "a+", "ä_", too_long.as_str()] {
            assert_eq!(Nonce::parse(bad, 2), Err(Error::NonceInvalid), "{bad}");
        }
    }

    #[test]
    fn a_request_never_has_the_nonce_of_an_answer() {
        for reserved in ["r-abc", "R-abc"] {
            assert_eq!(Nonce::parse(reserved, 1), Err(Error::NonceReserved));
        }
        assert!(Nonce::parse("rabc", 1).is_ok() && Nonce::parse("r", 1).is_ok());
        assert_eq!(check_answer("r-abc", 5), Ok(()));
        assert_eq!(check_answer("r-abc", 6), Err(Error::NonceInvalid));
        assert_eq!(check_answer("p-abc", 5), Err(Error::AnswerMismatch));
    }

    #[test]
    fn only_wire_4_has_nonces_of_problems() {
        assert_eq!(check_one_shot_answer("p-abc", 5), Ok(()));
        assert_eq!(check_one_shot_answer("p-abc", 6), Err(Error::NonceInvalid));
        assert_eq!(check_one_shot_answer("r-abc", 5), Ok(()));
        assert_eq!(check_one_shot_answer("q-abc", 5), Err(Error::AnswerMismatch));
    }

    #[test]
    fn bytes_are_written_in_hexadecimal() {
        let mut out = String::new();
        push_hex(&mut out, &[0, 1, 9, 10, 15, 16, 0x9a, 0xa9, 0xaf, 0xf0, 0xff, 0x12, 0x34, 0x56, 0x78, 0x90]);
        assert_eq!(out, "0001090a0f109aa9aff0ff1234567890");
    }
}
