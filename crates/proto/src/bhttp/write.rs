//! Writing a message, part by part.

use alloc::vec::Vec;

use super::error::{BhttpError, Part, Rule};
use super::field::{self, Field};
use super::{Control, Framing, Head, SECTION_LEN_MAX, varint};

/// Writes one message: informational answers, the head, content, the end. Each call appends to a buffer of the caller, and leaves it as
/// it was if it fails.
#[derive(Debug)]
pub struct Writer {
    framing: Framing,
    is_begun: bool,
    /// True between the head and the end.
    is_open: bool,
    /// Bytes of content that a message of known length still lacks.
    missing: u64,
}

impl Writer {
    /// Returns a writer of a message whose content has this length, in bytes.
    pub fn known(content_len: u64) -> Self {
        Writer { framing: Framing::Known, is_begun: false, is_open: false, missing: content_len }
    }

    /// Returns a writer of a message whose length is not known.
    pub fn indeterminate() -> Self {
        Writer { framing: Framing::Indeterminate, is_begun: false, is_open: false, missing: 0 }
    }

    /// Writes the head. An answer with a status below 200 is informational, and another head follows it.
    ///
    /// # Errors
    /// The part of the head that breaks a rule; [`Rule::Order`] for a second final head.
    pub fn head(&mut self, out: &mut Vec<u8>, head: &Head) -> Result<(), BhttpError> {
        let start = out.len();
        let written = self.put_head(out, head);
        if written.is_err() {
            out.truncate(start);
        }
        written
    }

    fn put_head(&mut self, out: &mut Vec<u8>, head: &Head) -> Result<(), BhttpError> {
        if self.is_open || (self.is_begun && matches!(head.control, Control::Request { .. })) {
            return Err(BhttpError::new(Part::Framing, Rule::Order));
        }
        field::check(&head.control)?;
        let mut is_interim = false;
        match &head.control {
            Control::Request { method, scheme, authority, path } => {
                varint::write(out, if self.framing == Framing::Known { 0 } else { 2 });
                for text in [method, scheme, authority, path] {
                    put(out, text.as_bytes());
                }
            }
            Control::Answer(status) => {
                if !self.is_begun {
                    varint::write(out, if self.framing == Framing::Known { 1 } else { 3 });
                }
                varint::write(out, u64::from(*status));
                is_interim = *status < 200;
            }
        }
        self.section(out, &head.fields, false)?;
        if !is_interim && self.framing == Framing::Known {
            varint::write(out, self.missing);
        }
        self.is_begun = true;
        self.is_open = !is_interim;
        Ok(())
    }

    /// Writes a piece of the content. An empty one writes nothing.
    ///
    /// # Errors
    /// [`Rule::Order`] before the head, and for more content than the known length.
    pub fn content(&mut self, out: &mut Vec<u8>, content: &[u8]) -> Result<(), BhttpError> {
        if !self.is_open {
            return Err(BhttpError::new(Part::Content, Rule::Order));
        }
        match self.framing {
            Framing::Indeterminate if content.is_empty() => {}
            Framing::Indeterminate => put(out, content),
            Framing::Known => {
                let rest = self.missing.checked_sub(content.len() as u64);
                self.missing = rest.ok_or(BhttpError::new(Part::Content, Rule::Order))?;
                out.extend_from_slice(content);
            }
        }
        Ok(())
    }

    /// Ends the message with its trailers.
    ///
    /// # Errors
    /// [`Rule::Order`] before the head or before the known length is reached; the trailer that breaks a rule.
    pub fn end(&mut self, out: &mut Vec<u8>, trailers: &[Field]) -> Result<(), BhttpError> {
        if !self.is_open || self.missing > 0 {
            return Err(BhttpError::new(Part::Content, Rule::Order));
        }
        let start = out.len();
        if self.framing == Framing::Indeterminate {
            varint::write(out, 0);
        }
        let written = self.section(out, trailers, true);
        match written {
            Ok(()) => self.is_open = false,
            Err(_) => out.truncate(start),
        }
        written
    }

    fn section(&self, out: &mut Vec<u8>, fields: &[Field], is_trailer: bool) -> Result<(), BhttpError> {
        let mut section = Vec::new();
        for (index, line) in fields.iter().enumerate() {
            let before = fields.get(..index).unwrap_or_default();
            let name = field::name(line.name.clone().into_bytes(), before, is_trailer)?;
            field::value(&line.value)?;
            put(&mut section, name.as_bytes());
            put(&mut section, &line.value);
        }
        if section.len() > SECTION_LEN_MAX {
            let part = if is_trailer { Part::Trailers } else { Part::Section };
            return Err(BhttpError::new(part, Rule::TooLong));
        }
        match self.framing {
            Framing::Known => put(out, &section),
            Framing::Indeterminate => {
                out.append(&mut section);
                varint::write(out, 0);
            }
        }
        Ok(())
    }
}

/// Appends bytes behind their length.
fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::write(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
