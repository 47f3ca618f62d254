//! The canonical form of a path.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

/// Number of times that escapes are decoded.
const DECODINGS: usize = 3;

/// Characters that are rejected unless they are folded, first and last of each range.
// SPEC routes.md#characters
const REFUSED: [(u32, u32); 27] = [
    (0, 0x1f),
    (0x7f, 0x9f),
    (0x132, 0x133),
    (0x1c7, 0x1cc),
    (0x1f1, 0x1f3),
    (0x2b0, 0x2b8),
    (0x2e0, 0x2e4),
    (0x37e, 0x37e),
    (0x1d2c, 0x1d6a),
    (0x1d9b, 0x1dbf),
    (0x1fef, 0x1fef),
    (0x203c, 0x203c),
    (0x2047, 0x2049),
    (0x2070, 0x209f),
    (0x20a8, 0x20a8),
    (0x2100, 0x218f),
    (0x2460, 0x24ff),
    (0x2a74, 0x2a76),
    (0x2c7c, 0x2c7d),
    (0x3250, 0x33ff),
    (0xa7f2, 0xa7f4),
    (0xfb29, 0xfb29),
    (0xfe10, 0xfe6f),
    (0x107a5, 0x107a5),
    (0x1d400, 0x1d7ff),
    (0x1f100, 0x1f1e5),
    (0x1fbf0, 0x1fbf9),
];

/// The canonical forms of a path.
pub(super) struct Forms {
    /// The form of the whole path.
    pub(super) whole: String,
    /// The form of the part before the first `?` or `#`, if it differs.
    pub(super) bare: Option<String>,
}

/// Returns the canonical forms of a path as sent; `None` if services differ too much on it.
// SPEC routes.md#canonical-form
pub(super) fn forms(path: &str) -> Option<Forms> {
    let mut text = String::with_capacity(path.len());
    for (index, segment) in path.split('/').enumerate() {
        if index > 0 {
            text.push('/');
        }
        read_segment(segment, &mut text)?;
    }
    let text = text.replace('\\', "/");
    if text.starts_with("//") {
        return None;
    }
    let whole = form_of(&text)?;
    let bare = match text.find(['?', '#']) {
        Some(at) => form_of(text.get(..at)?).map(Some)?,
        None => None,
    };
    Some(Forms { bare: bare.filter(|bare| *bare != whole), whole })
}

/// Appends a segment, decoded and folded.
fn read_segment(segment: &str, text: &mut String) -> Option<()> {
    let mut bytes = Cow::Borrowed(segment.as_bytes());
    for _ in 0..DECODINGS {
        if !bytes.contains(&b'%') {
            break;
        }
        bytes = Cow::Owned(decoded(&bytes));
    }
    let start = text.len();
    for char in core::str::from_utf8(&bytes).ok()?.chars() {
        fold(char, text)?;
    }
    let read = text.get(start..)?;
    let hides_slash = read.split_once(';').is_some_and(|(_, parameters)| parameters.contains(['/', '\\']));
    let keeps_escape = read.split('%').skip(1).any(begins_with_escape);
    (!hides_slash && !keeps_escape).then_some(())
}

fn form_of(text: &str) -> Option<String> {
    let mut form = String::with_capacity(text.len());
    for segment in text.split('/') {
        let name = segment.split(';').next().unwrap_or_default();
        let bare = name.trim_end_matches([' ', '.']);
        if bare.is_empty() && name.matches('.').count() > 1 {
            return None;
        }
        if !bare.is_empty() {
            form.push('/');
            form.extend(bare.chars().map(|char| char.to_ascii_lowercase()));
        }
    }
    Some(form)
}

/// Appends the characters that a lenient service may read a character as.
fn fold(char: char, text: &mut String) -> Option<()> {
    if matches!(char, ' '..='~') {
        text.push(char);
        return Some(());
    }
    let code = u32::from(char);
    let mut own = [0; 4];
    let folded = match char {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(code - 0xfee0)?.encode_utf8(&mut own),
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => " ",
        '\u{2044}' | '\u{2215}' | '\u{29f8}' => "/",
        '\u{2216}' | '\u{29f5}' => "\\",
        '\u{2024}' => ".",
        '\u{2025}' => "..",
        '\u{2026}' => "...",
        '\u{17f}' => "s",
        '\u{212a}' => "k",
        '\u{130}' | '\u{131}' => "i",
        '\u{df}' | '\u{1e9e}' => "ss",
        '\u{fb00}' => "ff",
        '\u{fb01}' => "fi",
        '\u{fb02}' => "fl",
        '\u{fb03}' => "ffi",
        '\u{fb04}' => "ffl",
        '\u{fb05}' | '\u{fb06}' => "st",
        '\u{aa}' => "a",
        '\u{ba}' => "o",
        '\u{b2}' => "2",
        '\u{b3}' => "3",
        '\u{b9}' => "1",
        _ if REFUSED.iter().any(|(first, last)| (*first..=*last).contains(&code)) => return None,
        _ => char.encode_utf8(&mut own),
    };
    text.push_str(folded);
    Some(())
}

/// Returns whether the text after a `%` makes an escape: two hexadecimal digits, or `u` and four.
fn begins_with_escape(rest: &str) -> bool {
    let are_digits = |from: usize, to: usize| {
        rest.as_bytes().get(from..to).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    are_digits(0, 2) || (rest.starts_with(['u', 'U']) && are_digits(1, 5))
}

/// Replaces each escape by its byte, once.
fn decoded(bytes: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, tail @ ..] = rest {
        let escape = match (first, tail) {
            (b'%', [high, low, after @ ..]) => digit(*high).zip(digit(*low)).map(|digits| (digits, after)),
            _ => None,
        };
        match escape {
            Some(((high, low), after)) => {
                out.push(high * 16 + low);
                rest = after;
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}
