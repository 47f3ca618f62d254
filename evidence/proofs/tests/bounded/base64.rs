//! Base64 of the wires: `crates/proto/src/wire/base64.rs`, `crates/proto/src/relay/b64u.rs`.

use sealway_proto::relay::{b64u_decode, b64u_encode};
use sealway_proto::wire::base64;

use crate::cases::Choice;
use crate::{Outcome, bound, ensure};

/// The name of the harness.
pub(crate) const NAME: &str = "base64";
/// The property that it checks.
pub(crate) const PROPERTY: &str = "Every string of up to three bytes decodes from its own encoding. A text of two to four characters decodes if and only \
     if it is the encoding of what it decodes to: each byte string has exactly one spelling. The same for base64url, without padding.";

const DIGITS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/// Characters of neither alphabet, and a byte that is no ASCII.
const OTHERS: &[u8] = b"=. \n\r\t\0:\x80";

/// An alphabet, and whether texts are padded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// RFC 4648 section 4, padded.
    Standard,
    /// RFC 4648 section 5, without padding.
    Url,
}

pub(crate) type Decode<'a> = &'a dyn Fn(Form, &[u8]) -> Option<Vec<u8>>;

/// Decodes a text by the product's code.
pub(crate) fn decode(form: Form, text: &[u8]) -> Option<Vec<u8>> {
    match form {
        Form::Standard => base64::decode(text).ok(),
        Form::Url => b64u_decode(std::str::from_utf8(text).ok()?),
    }
}

fn encode(form: Form, bytes: &[u8]) -> String {
    match form {
        Form::Standard => base64::encode(bytes),
        Form::Url => b64u_encode(bytes),
    }
}

/// Returns the number of a character in the alphabet.
fn digit(form: Form, character: u8) -> Option<u32> {
    let last: [u8; 2] = if form == Form::Standard { *b"+/" } else { *b"-_" };
    DIGITS.iter().chain(&last).position(|digit| *digit == character).map(|at| at as u32)
}

/// Decodes a text of four characters by RFC 4648, strictly.
fn reference(form: Form, text: &[u8]) -> Option<Vec<u8>> {
    let digits = match (form, text) {
        (Form::Standard, [a, b, b'=', b'=']) => &[*a, *b][..],
        (Form::Standard, [a, b, c, b'=']) => &[*a, *b, *c],
        (_, text) => text,
    };
    let mut bits = 0;
    for character in digits {
        bits = bits << 6 | digit(form, *character)?;
    }
    match (digits.len(), bits) {
        _ if form == Form::Standard && text.len() != 4 => None,
        (2, bits) if bits & 0xf == 0 => Some(vec![(bits >> 4) as u8]),
        (3, bits) if bits & 0x3 == 0 => Some(vec![(bits >> 10) as u8, (bits >> 2) as u8]),
        (4, bits) => Some(vec![(bits >> 16) as u8, (bits >> 8) as u8, bits as u8]),
        _ => None,
    }
}

/// Checks all byte strings of up to three bytes; of the third byte only each `step`-th.
pub(crate) fn check_bytes(decode: Decode<'_>, step: usize) -> Outcome {
    let mut cases = 0;
    let mut check = |bytes: &[u8]| -> Outcome {
        for form in [Form::Standard, Form::Url] {
            let text = encode(form, bytes);
            let decoded = decode(form, text.as_bytes());
            ensure!(
                decoded.as_deref() == Some(bytes),
                "bytes {bytes:02x?} are encoded to {text} and decode to {decoded:?}"
            );
            cases += 1;
        }
        Ok(cases)
    };
    check(&[])?;
    for first in 0..=u8::MAX {
        check(&[first])?;
        for second in 0..=u8::MAX {
            check(&[first, second])?;
            for third in (0..=u8::MAX).step_by(step) {
                check(&[first, second, third.wrapping_add(first ^ second)])?;
            }
        }
    }
    check(&[0; 3])
}

/// Checks all texts of two to four characters: any two at the end, and those of `heads` before.
pub(crate) fn check_texts(decode: Decode<'_>, heads: &[u8]) -> Outcome {
    let mut cases = 0;
    for form in [Form::Standard, Form::Url] {
        let all: Vec<u8> = DIGITS.iter().chain(b"+/-_").chain(OTHERS).copied().collect();
        for len in 2..=4 {
            let sets: Vec<&[u8]> = (0..len).map(|at| if at + 2 < len { heads } else { &all[..] }).collect();
            let mut choice = Choice::new(sets.iter().map(|set| set.len()).collect());
            let mut text = Vec::new();
            while let Some(indices) = choice.next() {
                text.clear();
                text.extend(indices.iter().zip(&sets).filter_map(|(index, set)| set.get(*index)));
                let (found, expected) = (decode(form, &text), reference(form, &text));
                ensure!(found == expected, "text \"{}\": {found:02x?}, expected {expected:02x?}", text.escape_ascii());
                cases += 1;
            }
        }
    }
    Ok(cases)
}

/// Returns the characters at the first two places of four: a few in the short form, all in the long one.
pub(crate) fn heads() -> Vec<u8> {
    let all: Vec<u8> = DIGITS.iter().chain(b"+/-_").chain(OTHERS).copied().collect();
    bound(b"AQz9+/-_= \x80".to_vec(), all)
}

#[cfg(test)]
mod tests {
    use ::base64::Engine;
    use ::base64::alphabet::STANDARD;
    use ::base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

    use super::*;
    use crate::report::{finds, holds};

    fn all(decode: Decode<'_>) -> Outcome {
        Ok(check_bytes(decode, bound(64, 1))? + check_texts(decode, &heads())?)
    }

    #[test]
    fn base64_holds_its_property() {
        let bounds = format!(
            "all strings of up to two bytes, one in {} of three bytes; texts of two to four characters, with all characters at the last two \
             places and {} before",
            bound(64, 1),
            heads().len()
        );
        holds(NAME, PROPERTY, &bounds, || all(&decode));
    }

    #[test]
    fn stray_bits_are_found() {
        let lenient = GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));
        finds(NAME, "stray bits at the end of a text are ignored", || {
            all(&|form, text| if form == Form::Standard { lenient.decode(text).ok() } else { decode(form, text) })
        });
    }

    #[test]
    fn missing_padding_is_found() {
        let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
        let lenient = GeneralPurpose::new(&STANDARD, config);
        finds(NAME, "padding is ignored at the end of a text", || {
            all(&|form, text| if form == Form::Standard { lenient.decode(text).ok() } else { decode(form, text) })
        });
    }
}
