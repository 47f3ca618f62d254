//! The compact serialisation of a JWE (RFC 7516 section 7.1): five parts of base64url. SPEC mle.md#compact-form

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::refusal::{Class, Refusal};

/// The alphabet in which the parts of a token may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alphabet {
    /// base64url without padding, canonical (RFC 7515 section 2).
    Strict,
    /// The same, and `+` and `/` of standard base64 in place of `-` and `_`, mixed as they come: clients of Mastercard send that.
    Mixed,
}

/// The five parts of a token, as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The protected header. Its bytes as received are the additional authenticated data.
    pub header: &'a [u8],
    /// The encrypted key, which is empty for `dir` and `ECDH-ES`.
    pub encrypted_key: &'a [u8],
    /// The initialisation vector of the content.
    pub iv: &'a [u8],
    /// The ciphertext, which may be empty.
    pub ciphertext: &'a [u8],
    /// The authentication tag of the content.
    pub tag: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Splits a token at its dots. The parts are not decoded.
    ///
    /// # Errors
    /// [`Class::Shape`] unless there are exactly four dots.
    pub fn split(token: &'a [u8]) -> Result<Parts<'a>, Refusal> {
        // Counted first: a token of a million dots costs one pass and no memory.
        if token.iter().filter(|byte| **byte == b'.').count() != 4 {
            return Err(Refusal::new(Class::Shape, "the token has not five parts"));
        }
        let mut parts = token.split(|byte| *byte == b'.');
        let mut next = || parts.next().unwrap_or_default();
        Ok(Parts { header: next(), encrypted_key: next(), iv: next(), ciphertext: next(), tag: next() })
    }
}

/// Decodes a part of a token.
///
/// # Errors
/// [`Class::Base64`] for padding, white space, another alphabet, and bits that are not zero behind the last byte.
pub fn decode(part: &[u8], alphabet: Alphabet) -> Result<Vec<u8>, Refusal> {
    let text = match alphabet {
        Alphabet::Strict => Cow::Borrowed(part),
        Alphabet::Mixed if !part.iter().any(|byte| matches!(byte, b'+' | b'/')) => Cow::Borrowed(part),
        Alphabet::Mixed => Cow::Owned(part.iter().map(|byte| url_safe(*byte)).collect()),
    };
    URL_SAFE_NO_PAD
        .decode(text.as_ref())
        .map_err(|_| Refusal::new(Class::Base64, "a part of the token is not canonical base64url without padding"))
}

fn url_safe(byte: u8) -> u8 {
    match byte {
        b'+' => b'-',
        b'/' => b'_',
        other => other,
    }
}

/// Encodes bytes as base64url without padding.
pub fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Joins an encoded header and four parts to a token.
pub(super) fn join(header: &str, encrypted_key: &[u8], iv: &[u8], ciphertext: &[u8], tag: &[u8]) -> String {
    let raw = [encrypted_key, iv, ciphertext, tag];
    let len = raw.iter().map(|part| part.len().div_ceil(3) * 4 + 1).sum::<usize>() + header.len();
    let mut token = String::with_capacity(len);
    token.push_str(header);
    for part in raw {
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(part, &mut token);
    }
    token
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_five_parts_are_split_and_any_may_be_empty() {
        for token in ["", ".", "a", "a.b.c", "a.b.c.d", "a.b.c.d.e.f", "....."] {
            assert_eq!(Parts::split(token.as_bytes()).unwrap_err().kind(), Class::Shape, "{token}");
        }
        let parts = Parts::split(b"a..c..e").unwrap();
        assert_eq!((parts.header, parts.encrypted_key, parts.iv), (&b"a"[..], &b""[..], &b"c"[..]));
        assert_eq!((parts.ciphertext, parts.tag), (&b""[..], &b"e"[..]));
        assert!(Parts::split(b"....").is_ok());
    }

    #[test]
    fn one_spelling_of_each_text_decodes_in_the_strict_alphabet() {
        assert_eq!(decode(b"-_8", Alphabet::Strict).unwrap(), [0xfb, 0xff]);
        for text in ["+_8", "-/8", "-_8=", "-_9", "-_8\n", " -_8", "-", "-_8-_", "-_\u{e9}", "-_8.", "-_8\0"] {
            assert_eq!(decode(text.as_bytes(), Alphabet::Strict).unwrap_err().kind(), Class::Base64, "{text:?}");
        }
    }

    #[test]
    fn the_mixed_alphabet_takes_two_letters_more_and_nothing_else() {
        for text in ["-_8", "+/8", "-/8", "+_8"] {
            assert_eq!(decode(text.as_bytes(), Alphabet::Mixed).unwrap(), [0xfb, 0xff], "{text}");
        }
        for byte in 0..=u8::MAX {
            let text = [b'A', byte, b'A', b'A'];
            let is_letter = byte.is_ascii_alphanumeric() || b"-_+/".contains(&byte);
            assert_eq!(decode(&text, Alphabet::Mixed).is_ok(), is_letter, "{byte}");
        }
        for text in ["+/8=", "+/9", "+/8\n"] {
            assert!(decode(text.as_bytes(), Alphabet::Mixed).is_err(), "{text:?}");
        }
    }
}
