//! Rules for control data and fields, which reader and writer share.

use alloc::string::String;
use alloc::vec::Vec;

use super::error::{BhttpError, Part, Rule};
use super::{Control, FIELDS_MAX, NAME_LEN_MAX, PATH_LEN_MAX};

/// One field line of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name, in lower case; that of a pseudo-field begins with a colon.
    pub name: String,
    /// The value, in the bytes of the message.
    pub value: Vec<u8>,
}

impl Field {
    /// Returns a field of two texts.
    pub fn new(name: &str, value: impl Into<Vec<u8>>) -> Self {
        Field { name: name.into(), value: value.into() }
    }

    /// Returns whether the name is that of a pseudo-field.
    pub fn is_pseudo(&self) -> bool {
        self.name.starts_with(':')
    }
}

/// Returns whether a byte may stand in a token (RFC 9110 section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn text(bytes: Vec<u8>, part: Part, allowed: impl Fn(u8) -> bool) -> Result<String, BhttpError> {
    if !bytes.iter().all(|byte| allowed(*byte)) {
        return Err(BhttpError::new(part, Rule::Characters));
    }
    String::from_utf8(bytes).map_err(|_| BhttpError::new(part, Rule::Characters))
}

/// Checks one text of a request's control data.
pub(super) fn control(part: Part, bytes: Vec<u8>) -> Result<String, BhttpError> {
    if bytes.len() > len_max(part) {
        return Err(BhttpError::new(part, Rule::TooLong));
    }
    match part {
        Part::Method => {
            let text = text(bytes, part, is_token)?;
            if text.is_empty() { Err(BhttpError::new(part, Rule::Empty)) } else { Ok(text) }
        }
        Part::Scheme => {
            let mut text = text(bytes, part, |byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))?;
            text.make_ascii_lowercase();
            Ok(text)
        }
        _ => text(bytes, part, |byte| byte.is_ascii_graphic()),
    }
}

/// Returns the bound on a text of control data.
pub(super) fn len_max(part: Part) -> usize {
    if part == Part::Path { PATH_LEN_MAX } else { NAME_LEN_MAX }
}

/// Checks the form of a request's path: absolute, or `*` for `OPTIONS`. A fragment is never sent (RFC 9110 section 7.1).
pub(super) fn path_of(method: &str, path: &str) -> Result<(), BhttpError> {
    if path.is_empty() {
        return Err(BhttpError::new(Part::Path, Rule::Empty));
    }
    let is_asterisk = path == "*" && method == "OPTIONS";
    if !is_asterisk && (!path.starts_with('/') || path.contains('#')) {
        return Err(BhttpError::new(Part::Path, Rule::Characters));
    }
    Ok(())
}

/// Checks the control data of a message that is to be written.
pub(super) fn check(message: &Control) -> Result<(), BhttpError> {
    match message {
        Control::Request { method, scheme, authority, path } => {
            let texts =
                [(Part::Method, method), (Part::Scheme, scheme), (Part::Authority, authority), (Part::Path, path)];
            for (part, text) in texts {
                control(part, text.clone().into_bytes())?;
            }
            path_of(method, path)
        }
        Control::Answer(100..=599) => Ok(()),
        Control::Answer(_) => Err(BhttpError::new(Part::Status, Rule::OutOfRange)),
    }
}

/// Checks a field's name, and returns it in lower case (RFC 9110 section 5.1). `before` are the fields of the section so far.
pub(super) fn name(bytes: Vec<u8>, before: &[Field], is_trailer: bool) -> Result<String, BhttpError> {
    let error = |rule| Err(BhttpError::new(Part::FieldName, rule));
    if before.len() >= FIELDS_MAX {
        return Err(BhttpError::new(if is_trailer { Part::Trailers } else { Part::Section }, Rule::TooMany));
    }
    let (is_pseudo, token) = match bytes.strip_prefix(b":") {
        Some(token) => (true, token),
        None => (false, &*bytes),
    };
    if token.is_empty() {
        return error(Rule::Empty);
    }
    if !token.iter().all(|byte| is_token(*byte)) {
        return error(Rule::Characters);
    }
    let mut name = text(bytes, Part::FieldName, |_| true)?;
    name.make_ascii_lowercase();
    // Control data has a place of its own: a second one could say another thing (RFC 9292 section 3.6).
    let is_control = [":method", ":scheme", ":authority", ":path", ":status"].contains(&&*name);
    let is_late = before.last().is_some_and(|field| !field.is_pseudo());
    if is_pseudo && (is_control || is_trailer || is_late) {
        return error(Rule::PseudoField);
    }
    Ok(name)
}

/// Checks the value of a field (RFC 9113 section 8.2.1, and the characters of RFC 9110 section 5.5).
pub(super) fn value(value: &[u8]) -> Result<(), BhttpError> {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    if value.iter().any(|byte| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f) {
        return Err(BhttpError::new(Part::FieldValue, Rule::Characters));
    }
    if is_blank(value.first()) || is_blank(value.last()) {
        return Err(BhttpError::new(Part::FieldValue, Rule::OuterBlank));
    }
    Ok(())
}

/// Returns the number of `content-length`, if the field is there.
pub(super) fn content_length(fields: &[Field]) -> Result<Option<u64>, BhttpError> {
    let error = |rule| BhttpError::new(Part::ContentLength, rule);
    let mut lengths = fields.iter().filter(|field| field.name == "content-length");
    let Some(length) = lengths.next() else { return Ok(None) };
    if lengths.next().is_some() {
        return Err(error(Rule::Repeated));
    }
    if length.value.is_empty() || !length.value.iter().all(u8::is_ascii_digit) {
        return Err(error(Rule::Characters));
    }
    let text = core::str::from_utf8(&length.value).map_err(|_| error(Rule::Characters))?;
    text.parse().map(Some).map_err(|_| error(Rule::Differs))
}

/// Joins several `cookie` lines to one (RFC 9113 section 8.2.3). Empty ones add nothing: a blank would stand at the end of the value.
pub(super) fn join_cookies(fields: &mut Vec<Field>) {
    let is_cookie = |field: &Field| field.name == "cookie";
    if fields.iter().filter(|field| is_cookie(field)).count() < 2 {
        return;
    }
    let cookies = fields.iter().filter(|field| is_cookie(field) && !field.value.is_empty());
    let values: Vec<&[u8]> = cookies.map(|field| &*field.value).collect();
    let joined = values.join(&b"; "[..]);
    fields.retain(|field| !is_cookie(field));
    fields.push(Field { name: "cookie".into(), value: joined });
}
