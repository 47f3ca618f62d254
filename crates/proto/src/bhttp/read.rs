//! Reading a message that arrives in pieces.

use alloc::string::String;
use alloc::vec::Vec;
use core::mem;

use super::error::{BhttpError, Part, Rule};
use super::field::{self, Field};
use super::varint::Varint;
use super::{Control, Framing, Head, INTERIMS_MAX, SECTION_LEN_MAX};

/// A part of a message that has arrived.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// An informational answer, before the final one.
    Interim(Head),
    /// The head of the message.
    Head(Head),
    /// A piece of the content, not empty.
    Content(&'a [u8]),
    /// The trailer section, not empty.
    Trailers(Vec<Field>),
}

/// The next thing to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Framing,
    /// A text of a request's control data.
    Text(Part),
    Status,
    /// The length of a section with known length.
    SectionLen,
    Name,
    Value,
    /// The length of the content, or of its next chunk.
    ContentLen,
    Content,
    Padding,
}

/// Reads one message. It holds at most one section, and allocates nothing for bytes that have not arrived.
#[derive(Debug)]
pub struct Reader {
    is_request: bool,
    content_max: u64,
    framing: Framing,
    place: Place,
    varint: Varint,
    /// Of a text that is being gathered: the bytes that are there, and the number that is missing.
    text: Vec<u8>,
    missing: Option<usize>,
    /// Texts of the control data.
    texts: Vec<String>,
    status: u16,
    interims: usize,
    is_trailer: bool,
    /// Bytes that the section may still have: by its length, or by the bound.
    room: usize,
    name: String,
    fields: Vec<Field>,
    content_length: Option<u64>,
    /// Bytes of the content so far, and those that the length or the chunk still promises.
    content: u64,
    content_left: u64,
}

impl Reader {
    /// Returns a reader of a request with at most this much content, in bytes.
    pub fn request(content_max: u64) -> Self {
        Reader {
            is_request: true,
            content_max,
            framing: Framing::Known,
            place: Place::Framing,
            varint: Varint::default(),
            text: Vec::new(),
            missing: None,
            texts: Vec::new(),
            status: 0,
            interims: 0,
            is_trailer: false,
            room: 0,
            name: String::new(),
            fields: Vec::new(),
            content_length: None,
            content: 0,
            content_left: 0,
        }
    }

    /// Returns a reader of an answer with at most this much content, in bytes.
    pub fn answer(content_max: u64) -> Self {
        Reader { is_request: false, ..Reader::request(content_max) }
    }

    /// Returns how the parts of the message are delimited; before the first byte, [`Framing::Known`].
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// Takes bytes from `input` up to the next part, and returns the part. `None` means that `input` is used up.
    ///
    /// # Errors
    /// The part and the rule that it breaks. Nothing of the message may be used after one (RFC 9292 section 4).
    pub fn read<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Event<'a>>, BhttpError> {
        loop {
            // A section of known length ends without a byte of its own.
            if self.place == Place::Name && self.framing == Framing::Known && self.room == 0 && self.varint.is_idle() {
                if let Some(event) = self.end_section()? {
                    return Ok(Some(event));
                }
                continue;
            }
            if input.is_empty() {
                return Ok(None);
            }
            let event = match self.place {
                Place::Framing => self.read_framing(input)?,
                Place::Text(part) => self.read_control(part, input)?,
                Place::Status => self.read_status(input)?,
                Place::SectionLen => self.read_section_len(input)?,
                Place::Name => self.read_name(input)?,
                Place::Value => self.read_value(input)?,
                Place::ContentLen => self.read_content_len(input)?,
                Place::Content => self.read_content(input),
                Place::Padding => {
                    if input.iter().any(|byte| *byte != 0) {
                        return Err(BhttpError::new(Part::Padding, Rule::NotZero));
                    }
                    *input = &[];
                    None
                }
            };
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    /// Reports the end of the message. Returns the head if the message ends before its header section: sections at the end that
    /// are empty may be left out (RFC 9292 section 3.8).
    ///
    /// # Errors
    /// [`Rule::Truncated`] in any other place, and the rules on `content-length`.
    pub fn end(&mut self) -> Result<Option<Head>, BhttpError> {
        let is_between = self.varint.is_idle() && self.missing.is_none();
        let is_empty_section = self.fields.is_empty();
        let is_whole = match self.place {
            Place::SectionLen => true,
            // A header section without its length is empty; one that ends at a zero has none.
            Place::Name => self.is_trailer && self.framing == Framing::Indeterminate && is_empty_section,
            Place::ContentLen => self.content == 0,
            Place::Padding => true,
            _ => false,
        };
        if !is_between || !is_whole || self.is_interim() {
            return Err(BhttpError::new(self.part(), Rule::Truncated));
        }
        let is_headless = self.place == Place::SectionLen && !self.is_trailer;
        let head = if is_headless { self.head()? } else { None };
        if self.place != Place::Padding {
            self.check_length(0)?;
        }
        self.place = Place::Padding;
        Ok(head)
    }

    fn is_interim(&self) -> bool {
        !self.is_request && self.status < 200 && matches!(self.place, Place::SectionLen | Place::Name)
    }

    /// Returns the part that is being read.
    fn part(&self) -> Part {
        match self.place {
            Place::Framing => Part::Framing,
            Place::Text(part) => part,
            Place::Status => Part::Status,
            Place::SectionLen | Place::Name | Place::Value if self.is_trailer => Part::Trailers,
            Place::SectionLen | Place::Name | Place::Value => Part::Section,
            Place::ContentLen | Place::Content => Part::Content,
            Place::Padding => Part::Padding,
        }
    }

    fn read_framing<'a>(&mut self, input: &mut &[u8]) -> Result<Option<Event<'a>>, BhttpError> {
        let Some(number) = self.varint.read(input) else { return Ok(None) };
        let error = |rule| BhttpError::new(Part::Framing, rule);
        let (is_request, framing) = match number {
            0 => (true, Framing::Known),
            1 => (false, Framing::Known),
            2 => (true, Framing::Indeterminate),
            3 => (false, Framing::Indeterminate),
            _ => return Err(error(Rule::Unknown)),
        };
        if is_request != self.is_request {
            return Err(error(Rule::WrongKind));
        }
        self.framing = framing;
        self.place = if is_request { Place::Text(Part::Method) } else { Place::Status };
        Ok(None)
    }

    fn read_control<'a>(&mut self, part: Part, input: &mut &[u8]) -> Result<Option<Event<'a>>, BhttpError> {
        self.room = if self.missing.is_none() { usize::MAX } else { self.room };
        let Some(text) = self.gather(input, part, field::len_max(part), Rule::TooLong)? else { return Ok(None) };
        self.texts.push(field::control(part, text)?);
        self.place = match part {
            Part::Method => Place::Text(Part::Scheme),
            Part::Scheme => Place::Text(Part::Authority),
            Part::Authority => Place::Text(Part::Path),
            _ => {
                if let [method, _, _, path] = &*self.texts {
                    field::path_of(method, path)?;
                }
                self.begin_section()
            }
        };
        Ok(None)
    }

    fn read_status<'a>(&mut self, input: &mut &[u8]) -> Result<Option<Event<'a>>, BhttpError> {
        let Some(status) = self.varint.read(input) else { return Ok(None) };
        self.status = match u16::try_from(status) {
            Ok(status @ 100..=599) => status,
            _ => return Err(BhttpError::new(Part::Status, Rule::OutOfRange)),
        };
        if self.status < 200 {
            self.interims += 1;
            if self.interims > INTERIMS_MAX {
                return Err(BhttpError::new(Part::Status, Rule::TooMany));
            }
        }
        self.place = self.begin_section();
        Ok(None)
    }

    /// Begins a section, and returns the place of its first byte.
    fn begin_section(&mut self) -> Place {
        self.room = SECTION_LEN_MAX;
        match self.framing {
            Framing::Known => Place::SectionLen,
            Framing::Indeterminate => Place::Name,
        }
    }

    fn read_section_len<'a>(&mut self, input: &mut &[u8]) -> Result<Option<Event<'a>>, BhttpError> {
        let Some(len) = self.varint.read(input) else { return Ok(None) };
        self.room = match usize::try_from(len) {
            Ok(len) if len <= SECTION_LEN_MAX => len,
            _ => return Err(BhttpError::new(self.part(), Rule::TooLong)),
        };
        self.place = Place::Name;
        Ok(None)
    }

    fn read_name<'a>(&mut self, input: &mut &[u8]) -> Result<Option<Event<'a>>, BhttpError> {
        let Some(name) = self.gather(input, Part::FieldName, usize::MAX, self.over())? else { return Ok(None) };
        if name.is_empty() && self.framing == Framing::Indeterminate {
            return self.end_section();
        }
        self.name = field::name(name, &self.fields, self.is_trailer)?;
        self.place = Place::Value;
        Ok(None)
    }

    fn read_value<'a>(&mut self, input: &mut &[u8]) -> Result<Option<Event<'a>>, BhttpError> {
        let Some(value) = self.gather(input, Part::FieldValue, usize::MAX, self.over())? else { return Ok(None) };
        field::value(&value)?;
        self.fields.push(Field { name: mem::take(&mut self.name), value });
        self.place = Place::Name;
        Ok(None)
    }

    /// Returns the rule that a length beyond the section's room breaks.
    fn over(&self) -> Rule {
        if self.framing == Framing::Known { Rule::Overrun } else { Rule::TooLong }
    }

    /// Takes a text with its length from `input`, within the room of the section. The text takes memory as it arrives.
    fn gather(
        &mut self,
        input: &mut &[u8],
        part: Part,
        len_max: usize,
        over: Rule,
    ) -> Result<Option<Vec<u8>>, BhttpError> {
        let missing = match self.missing {
            Some(missing) => missing,
            None => {
                let len = loop {
                    let Some((byte, rest)) = input.split_first() else { return Ok(None) };
                    self.room = self.room.checked_sub(1).ok_or(BhttpError::new(part, over))?;
                    *input = rest;
                    if let Some(len) = self.varint.push(*byte) {
                        break len;
                    }
                };
                match usize::try_from(len) {
                    Ok(len) if len > self.room => return Err(BhttpError::new(part, over)),
                    Ok(len) if len <= len_max => len,
                    _ => return Err(BhttpError::new(part, Rule::TooLong)),
                }
            }
        };
        let (piece, rest) = input.split_at_checked(missing).unwrap_or((input, &[]));
        self.text.extend_from_slice(piece);
        *input = rest;
        self.room = self.room.saturating_sub(piece.len());
        if piece.len() < missing {
            self.missing = Some(missing - piece.len());
            return Ok(None);
        }
        self.missing = None;
        Ok(Some(mem::take(&mut self.text)))
    }

    fn end_section<'a>(&mut self) -> Result<Option<Event<'a>>, BhttpError> {
        if self.is_trailer {
            self.place = Place::Padding;
            let fields = mem::take(&mut self.fields);
            return Ok((!fields.is_empty()).then_some(Event::Trailers(fields)));
        }
        if self.is_interim() {
            self.place = Place::Status;
            let head = Head { control: Control::Answer(self.status), fields: mem::take(&mut self.fields) };
            return Ok(Some(Event::Interim(head)));
        }
        self.place = Place::ContentLen;
        Ok(self.head()?.map(Event::Head))
    }

    /// Returns the head of the message.
    fn head(&mut self) -> Result<Option<Head>, BhttpError> {
        let mut fields = mem::take(&mut self.fields);
        let control = if self.is_request {
            // An answer may state the length of content that it does not carry.
            self.content_length = field::content_length(&fields)?;
            field::join_cookies(&mut fields);
            let mut texts = mem::take(&mut self.texts).into_iter();
            let mut next = || texts.next().unwrap_or_default();
            Control::Request { method: next(), scheme: next(), authority: next(), path: next() }
        } else {
            Control::Answer(self.status)
        };
        Ok(Some(Head { control, fields }))
    }

    fn read_content_len<'a>(&mut self, input: &mut &[u8]) -> Result<Option<Event<'a>>, BhttpError> {
        let Some(len) = self.varint.read(input) else { return Ok(None) };
        if self.content.saturating_add(len) > self.content_max {
            return Err(BhttpError::new(Part::Content, Rule::TooLong));
        }
        self.content_left = len;
        let is_last = self.framing == Framing::Known || len == 0;
        if is_last || self.content_length.is_some_and(|length| self.content.saturating_add(len) > length) {
            self.check_length(len)?;
        }
        if len == 0 {
            self.begin_trailers()
        } else {
            self.place = Place::Content
        }
        Ok(None)
    }

    /// Checks `content-length` against the content so far and `more` bytes of it.
    fn check_length(&self, more: u64) -> Result<(), BhttpError> {
        match self.content_length {
            Some(length) if length != self.content.saturating_add(more) => {
                Err(BhttpError::new(Part::ContentLength, Rule::Differs))
            }
            _ => Ok(()),
        }
    }

    fn begin_trailers(&mut self) {
        self.is_trailer = true;
        self.place = self.begin_section();
    }

    fn read_content<'a>(&mut self, input: &mut &'a [u8]) -> Option<Event<'a>> {
        let len = usize::try_from(self.content_left).unwrap_or(usize::MAX);
        let (piece, rest) = input.split_at_checked(len).unwrap_or((input, &[]));
        *input = rest;
        self.content += piece.len() as u64;
        self.content_left -= piece.len() as u64;
        if self.content_left == 0 {
            match self.framing {
                Framing::Known => self.begin_trailers(),
                Framing::Indeterminate => self.place = Place::ContentLen,
            }
        }
        Some(Event::Content(piece))
    }
}
