//! Templates with `{{names}}`: parsed once, and filled for each request into a buffer that is reused.

use std::fmt;
use std::io::Write;

use crate::plan::Text;

/// Reason why a template is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateError {
    /// Name that is none of the four.
    #[error(
        "{{{{{name}}}}} at character {at} is unknown; use {{{{uuid}}}}, {{{{counter}}}}, {{{{timestamp}}}} or {{{{random}}}}"
    )]
    Unknown {
        /// Text between the braces, at most 64 characters of it.
        name: String,
        /// Position of the opening braces, in characters from 1.
        at: usize,
    },
    /// Opening braces without closing ones.
    #[error("{{{{ at character {at} is not closed by }}}}")]
    Open {
        /// Position of the opening braces, in characters from 1.
        at: usize,
    },
}

/// Values of one request; a name has the same value everywhere in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Values {
    /// UUID of version 4, as a number.
    pub(crate) uuid: u128,
    /// Number that no other request of the run has.
    pub(crate) counter: u64,
    /// Milliseconds since the beginning of 1970.
    pub(crate) timestamp: u64,
    /// Random number of 64 bits.
    pub(crate) random: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Uuid,
    Counter,
    Timestamp,
    Random,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Bytes(Vec<u8>),
    Value(Name),
}

/// Parsed text: fixed bytes, and names whose values are filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Template {
    parts: Vec<Part>,
}

impl Template {
    /// Parses a text that may hold names.
    ///
    /// # Errors
    /// [`TemplateError`], with the position of the mistake.
    pub(crate) fn parse(text: &str) -> Result<Self, TemplateError> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some(open) = rest.find("{{") {
            let at = || text[..text.len() - rest.len() + open].chars().count() + 1;
            if open > 0 {
                parts.push(Part::Bytes(rest.as_bytes()[..open].to_vec()));
            }
            let inner = &rest[open + 2..];
            let close = inner.find("}}").ok_or_else(|| TemplateError::Open { at: at() })?;
            let name = inner[..close].trim();
            parts.push(Part::Value(match name {
                "uuid" => Name::Uuid,
                "counter" => Name::Counter,
                "timestamp" => Name::Timestamp,
                "random" => Name::Random,
                _ => return Err(TemplateError::Unknown { name: name.chars().take(64).collect(), at: at() }),
            }));
            rest = &inner[close + 2..];
        }
        if !rest.is_empty() {
            parts.push(Part::Bytes(rest.as_bytes().to_vec()));
        }
        Ok(Template { parts })
    }

    /// Creates a template of bytes that are not parsed.
    pub(crate) fn fixed(bytes: &[u8]) -> Self {
        let parts = if bytes.is_empty() { Vec::new() } else { vec![Part::Bytes(bytes.to_vec())] };
        Template { parts }
    }

    /// Creates the template of a plan's text.
    pub(crate) fn of(text: &Text) -> Result<Self, TemplateError> {
        match text {
            Text::Fixed(bytes) => Ok(Template::fixed(bytes)),
            Text::Template(text) => Template::parse(text),
        }
    }

    /// Returns the template's bytes, if they are the same in every request.
    pub(crate) fn as_fixed(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [] => Some(&[]),
            [Part::Bytes(bytes)] => Some(bytes),
            _ => None,
        }
    }

    /// Returns whether the template uses this name.
    pub(crate) fn has(&self, name: Name) -> bool {
        self.parts.contains(&Part::Value(name))
    }

    /// Appends the filled template to a buffer.
    pub(crate) fn fill(&self, values: &Values, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                Part::Bytes(bytes) => out.extend_from_slice(bytes),
                Part::Value(Name::Uuid) => {
                    let number = values.uuid;
                    let groups: [u64; 5] = [number >> 96, number >> 80, number >> 64, number >> 48, number]
                        .map(|group| u64::try_from(group & u128::from(u64::MAX)).unwrap_or_default());
                    let [a, b, c, d, e] = groups;
                    let (a, b, c, d, e) = (a & 0xffff_ffff, b & 0xffff, c & 0xffff, d & 0xffff, e & 0xffff_ffff_ffff);
                    write(out, format_args!("{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}"));
                }
                Part::Value(Name::Counter) => write(out, format_args!("{}", values.counter)),
                Part::Value(Name::Timestamp) => write(out, format_args!("{}", values.timestamp)),
                Part::Value(Name::Random) => write(out, format_args!("{}", values.random)),
            }
        }
    }
}

/// Appends formatted text; writing to memory cannot fail.
pub(crate) fn write(out: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_filled_and_everything_else_stays() {
        let template =
            Template::parse(r#"{"id":"{{uuid}}","n":{{ counter }},"t":{{timestamp}},"r":{{random}}}"#).unwrap();
        let uuid = 0x0011_2233_4455_4677_8899_aabb_ccdd_eeff;
        let mut out = Vec::new();
        template.fill(&Values { uuid, counter: 7, timestamp: 1_700_000_000_000, random: u64::MAX }, &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{"id":"00112233-4455-4677-8899-aabbccddeeff","n":7,"t":1700000000000,"r":18446744073709551615}"#
        );
        assert_eq!(template.as_fixed(), None);
        assert_eq!(Template::parse("a } b } }}").unwrap().as_fixed(), Some(b"a } b } }}".as_slice()));
        assert_eq!(Template::parse("").unwrap().as_fixed(), Some(b"".as_slice()));
    }

    #[test]
    fn an_unknown_name_is_reported_with_its_place() {
        let shown = |text| Template::parse(text).unwrap_err().to_string();
        assert_eq!(
            shown("é {{counter}}{{user}}"),
            "{{user}} at character 14 is unknown; use {{uuid}}, {{counter}}, {{timestamp}} or {{random}}"
        );
        assert_eq!(shown("ab{{counter"), "{{ at character 3 is not closed by }}");
    }
}
