//! The format of inputs: lines of text, an empty line, then a body of any bytes. Some lines edit a message.
//!
//! An edit is a line: `name: value` sets a header, `+name: value` adds one more, `-name` takes all of that name away;
//! `:path TEXT`, `:status N`, `:now N` and `:body TEXT` replace these, `:flip N` flips a bit of the body's byte N, `:cut N`
//! leaves its first N bytes. Lines of another form do nothing.

use sealway_proto::wire::{Field, Headers};

/// The lines before the first empty line, and the bytes after it.
pub(crate) struct Script<'a> {
    pub(crate) lines: Vec<&'a str>,
    pub(crate) body: &'a [u8],
}

/// Parses an input. `None` if its head is not UTF-8.
pub(crate) fn script(data: &[u8]) -> Option<Script<'_>> {
    let (head, body) = match data.windows(2).position(|pair| pair == b"\n\n") {
        Some(at) => (data.get(..at)?, data.get(at + 2..)?),
        None => (data, &[][..]),
    };
    Some(Script { lines: std::str::from_utf8(head).ok()?.split('\n').collect(), body })
}

/// Returns the first bytes of a text, padded with zeros.
pub(crate) fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut out = [0; N];
    for (to, from) in out.iter_mut().zip(text.bytes()) {
        *to = from;
    }
    out
}

/// A message in transit, which edits change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) path: String,
    pub(crate) status: u16,
    pub(crate) now_ms: u64,
    pub(crate) body: Vec<u8>,
}

impl Message {
    /// Applies one line of edits to the message.
    pub(crate) fn edit(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix(':') {
            let (what, value) = rest.split_once(' ').unwrap_or((rest, ""));
            let number = value.parse::<u64>().ok();
            match (what, number) {
                ("path", _) => self.path = value.to_owned(),
                ("body", _) => self.body = value.as_bytes().to_vec(),
                ("status", Some(number)) => self.status = number as u16,
                ("now", Some(number)) => self.now_ms = number,
                ("cut", Some(number)) => self.body.truncate(number as usize),
                ("flip", Some(number)) => {
                    if let Some(byte) = self.body.get_mut(number as usize) {
                        *byte ^= 1;
                    }
                }
                _ => {}
            }
        } else if let Some(name) = line.strip_prefix('-') {
            self.headers.retain(|(known, _)| known != name);
        } else if let Some((name, value)) = line.split_once(": ") {
            match name.strip_prefix('+') {
                Some(name) => self.headers.push((name.to_owned(), value.to_owned())),
                None => {
                    self.headers.retain(|(known, _)| known != name);
                    self.headers.push((name.to_owned(), value.to_owned()));
                }
            }
        }
    }

    /// Returns a header that occurs exactly once.
    pub(crate) fn header(&self, name: &'static str) -> &str {
        match self.headers.field(name) {
            Field::Value(value) => value,
            other => panic!("{name} is {other:?} in a message that was taken"),
        }
    }
}

/// Returns headers in the form in which a message holds them.
pub(crate) fn owned(headers: &[(&'static str, String)]) -> Vec<(String, String)> {
    headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}
