//! A strict reader of JSON (RFC 8259) that knows where each value stands. It makes no tree: values are ranges of the text, so
//! that what is not replaced keeps every byte.

use alloc::borrow::Cow;
use alloc::string::String;
use core::ops::Range;

use super::refusal::{Class, Refusal};

/// Deepest nesting of arrays and objects that is read.
pub const DEPTH_MAX: usize = 64;

/// The defect of a text that is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The bytes are not UTF-8.
    Encoding,
    /// The text is not of the grammar.
    Syntax,
    /// Arrays and objects are nested deeper than [`DEPTH_MAX`].
    Depth,
}

impl Fault {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Fault::Encoding => "the text is not UTF-8",
            Fault::Syntax => "the text is not JSON",
            Fault::Depth => "the JSON is nested more than 64 deep",
        }
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Refusal {
        Refusal::new(Class::Json, fault.as_str())
    }
}

/// A text that is one JSON value, with white space around it at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'a>(&'a str);

/// A member of an object: where its name stands, with the quotes, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) name: Range<usize>,
    pub(super) value: Range<usize>,
}

impl<'a> Text<'a> {
    /// Checks the whole text, to its last byte.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Text<'a>, Fault> {
        let text = core::str::from_utf8(bytes).map_err(|_| Fault::Encoding)?;
        let mut reader = Reader { bytes, at: 0 };
        reader.value(0)?;
        reader.space();
        if reader.at == bytes.len() { Ok(Text(text)) } else { Err(Fault::Syntax) }
    }

    /// Returns where the value stands, without the white space around it.
    pub(super) fn root(&self) -> Range<usize> {
        let start = self.0.len() - self.0.trim_start_matches(WHITE).len();
        start..self.0.trim_end_matches(WHITE).len()
    }

    pub(super) fn at(&self, range: &Range<usize>) -> &'a str {
        self.0.get(range.clone()).unwrap_or_default()
    }

    fn first_byte(&self, range: &Range<usize>) -> u8 {
        self.at(range).as_bytes().first().copied().unwrap_or_default()
    }

    pub(super) fn is_object(&self, range: &Range<usize>) -> bool {
        self.first_byte(range) == b'{'
    }

    pub(super) fn is_array(&self, range: &Range<usize>) -> bool {
        self.first_byte(range) == b'['
    }

    /// Returns the content of a string, unescaped; `None` if the value is not a string.
    pub(super) fn string(&self, range: &Range<usize>) -> Option<Cow<'a, str>> {
        let inner = self.at(range).strip_prefix('"')?.strip_suffix('"')?;
        if !inner.contains('\\') {
            return Some(Cow::Borrowed(inner));
        }
        serde_json::from_str::<String>(self.at(range)).ok().map(Cow::Owned)
    }

    /// Iterates over the members of the object at `range`, in their order. Of another value there are none.
    pub(super) fn members(&self, range: &Range<usize>) -> Members<'a> {
        Members { reader: self.inside(range, b'{') }
    }

    /// Iterates over the elements of the array at `range`, in their order. Of another value there are none.
    pub(super) fn elements(&self, range: &Range<usize>) -> Elements<'a> {
        Elements { reader: self.inside(range, b'[') }
    }

    fn inside(&self, range: &Range<usize>, open: u8) -> Option<Reader<'a>> {
        (self.first_byte(range) == open).then(|| Reader { bytes: self.0.as_bytes(), at: range.start + 1 })
    }
}

const WHITE: [char; 4] = [' ', '\t', '\n', '\r'];

/// An iterator over the members of an object of a checked text.
pub(super) struct Members<'a> {
    reader: Option<Reader<'a>>,
}

impl Iterator for Members<'_> {
    type Item = Member;

    fn next(&mut self) -> Option<Member> {
        let reader = self.reader.as_mut()?;
        let name = reader.next_item(b'}')?;
        let start = name..reader.at;
        reader.space();
        reader.expect(b':').ok()?;
        reader.space();
        let value = reader.at;
        // The depth was checked when the text was.
        reader.value(0).ok()?;
        Some(Member { name: start, value: value..reader.at })
    }
}

/// An iterator over the elements of an array of a checked text.
pub(super) struct Elements<'a> {
    reader: Option<Reader<'a>>,
}

impl Iterator for Elements<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let reader = self.reader.as_mut()?;
        let start = reader.next_item(b']')?;
        Some(start..reader.at)
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self) -> Result<u8, Fault> {
        let byte = self.peek().ok_or(Fault::Syntax)?;
        self.at += 1;
        Ok(byte)
    }

    fn expect(&mut self, byte: u8) -> Result<(), Fault> {
        if self.take()? == byte { Ok(()) } else { Err(Fault::Syntax) }
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Moves behind the next element of an array, or the next name of an object, and returns its start; `None` at the end.
    fn next_item(&mut self, close: u8) -> Option<usize> {
        self.space();
        if self.peek() == Some(b',') {
            self.at += 1;
            self.space();
        }
        if self.peek()? == close {
            return None;
        }
        let start = self.at;
        self.value(0).ok()?;
        Some(start)
    }

    /// Moves behind one value of any kind.
    fn value(&mut self, depth: usize) -> Result<(), Fault> {
        self.space();
        match self.take()? {
            b'{' => self.list(depth, b'}'),
            b'[' => self.list(depth, b']'),
            b'"' => self.string(),
            b't' => self.literal(b"rue"),
            b'f' => self.literal(b"alse"),
            b'n' => self.literal(b"ull"),
            b'-' => {
                let first = self.take()?;
                self.number(first)
            }
            first => self.number(first),
        }
    }

    fn list(&mut self, depth: usize, close: u8) -> Result<(), Fault> {
        if depth >= DEPTH_MAX {
            return Err(Fault::Depth);
        }
        self.space();
        if self.peek() == Some(close) {
            self.at += 1;
            return Ok(());
        }
        loop {
            if close == b'}' {
                self.space();
                self.expect(b'"')?;
                self.string()?;
                self.space();
                self.expect(b':')?;
            }
            self.value(depth + 1)?;
            self.space();
            match self.take()? {
                b',' => {}
                byte if byte == close => return Ok(()),
                _ => return Err(Fault::Syntax),
            }
        }
    }

    fn literal(&mut self, rest: &[u8]) -> Result<(), Fault> {
        rest.iter().try_for_each(|byte| self.expect(*byte))
    }

    fn digits(&mut self) -> Result<(), Fault> {
        if !self.take()?.is_ascii_digit() {
            return Err(Fault::Syntax);
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self, first: u8) -> Result<(), Fault> {
        match first {
            b'0' => {}
            b'1'..=b'9' => {
                while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                    self.at += 1;
                }
            }
            _ => return Err(Fault::Syntax),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), Fault> {
        loop {
            match self.take()? {
                b'"' => return Ok(()),
                b'\\' => self.escape()?,
                0..=0x1f => return Err(Fault::Syntax),
                _ => {}
            }
        }
    }

    /// Moves behind an escape. Surrogates must stand in pairs: alone they are no character.
    fn escape(&mut self) -> Result<(), Fault> {
        match self.take()? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(()),
            b'u' => match self.hex()? {
                0xd800..=0xdbff => {
                    self.literal(b"\\u")?;
                    if matches!(self.hex()?, 0xdc00..=0xdfff) { Ok(()) } else { Err(Fault::Syntax) }
                }
                0xdc00..=0xdfff => Err(Fault::Syntax),
                _ => Ok(()),
            },
            _ => Err(Fault::Syntax),
        }
    }

    fn hex(&mut self) -> Result<u32, Fault> {
        let mut value = 0;
        for _ in 0..4 {
            let digit = char::from(self.take()?).to_digit(16).ok_or(Fault::Syntax)?;
            value = value * 16 + digit;
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    #[test]
    fn values_stand_where_they_are_found() {
        let text = Text::parse(br#" {"a" : [1.0, "x\"y" ,{}], "b\u0063":12345678901234567890,"":null} "#).unwrap();
        let members: Vec<Member> = text.members(&text.root()).collect();
        let names: Vec<_> = members.iter().map(|member| text.string(&member.name).unwrap()).collect();
        assert_eq!(names, ["a", "bc", ""]);
        let values: Vec<_> = members.iter().map(|member| text.at(&member.value)).collect();
        assert_eq!(values, [r#"[1.0, "x\"y" ,{}]"#, "12345678901234567890", "null"]);
        let elements: Vec<_> = text.elements(&members[0].value).map(|range| text.at(&range)).collect();
        assert_eq!(elements, ["1.0", r#""x\"y""#, "{}"]);
        assert_eq!(text.members(&members[0].value).count(), 0, "an array has no members");
        assert_eq!(text.elements(&members[1].value).count(), 0, "a number has no elements");
    }

    #[test]
    fn nesting_has_a_bound() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(Text::parse(nested(64).as_bytes()).is_ok());
        assert_eq!(Text::parse(nested(65).as_bytes()).unwrap_err(), Fault::Depth);
        assert_eq!(Text::parse(nested(100_000).as_bytes()).unwrap_err(), Fault::Depth);
    }

    #[test]
    fn the_grammar_is_that_of_another_reader() {
        // Every text of up to four of these pieces.
        let pieces = [
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"", "\\u00e9", "\\ud83d", "\\ude00", "0", "1", "-", ".", "e", "+",
            "true", "nul", " ", "\n", "\u{feff}", "\u{b}", "\\", "\u{1}",
        ];
        let mut texts = alloc::vec![String::new()];
        let (mut valid, mut count) = (0, 0);
        for _ in 0..4 {
            let longer = texts.iter().flat_map(|text| pieces.iter().map(move |piece| text.to_string() + piece));
            texts = longer.collect();
            for text in &texts {
                let theirs = serde_json::from_str::<serde_json::Value>(text).is_ok();
                assert_eq!(Text::parse(text.as_bytes()).is_ok(), theirs, "{text:?}");
                valid += usize::from(theirs);
                count += 1;
            }
        }
        assert!(valid > 900 && count > 400_000, "{valid} of {count}");
    }
}
