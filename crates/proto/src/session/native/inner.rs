//! Headers within a seal. `spec/session-3.md#sealed-requests`.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use crate::error::Error;
use crate::limits::{INNER_HEADERS_LEN_MAX, INNER_HEADERS_MAX};
use crate::wire::header::SEALING;

/// Names that frame a message, belong to one hop, or are reserved for the gateway.
const FORBIDDEN: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// Prefixes of the names of a proxy's hop, and of the headers in which the gateway describes a client.
const FORBIDDEN_PREFIXES: [&str; 2] = ["proxy-", "x-sealway-"];

/// Headers within a seal, in their order; a name may occur more than once.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct InnerHeaders(Vec<(Box<str>, Box<[u8]>)>);

/// Returns whether a header of this name, in lower case, may be within a seal.
pub fn may_be_inner(name: &str) -> bool {
    !FORBIDDEN.contains(&name)
        && !SEALING.contains(&name)
        && !FORBIDDEN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

impl InnerHeaders {
    /// Creates an empty list of headers.
    pub fn new() -> Self {
        InnerHeaders::default()
    }

    /// Appends a header; its name must be lower case.
    ///
    /// # Errors
    /// [`Error::InnerHeadersInvalid`] for a forbidden name or value, and beyond the bounds on number and length.
    pub fn push(&mut self, name: &str, value: &[u8]) -> Result<(), Error> {
        let fits = self.len() + entry_len(name, value) <= INNER_HEADERS_LEN_MAX && self.0.len() < INNER_HEADERS_MAX;
        if !fits || !is_name(name) || !may_be_inner(name) || !is_value(value) {
            return Err(Error::InnerHeadersInvalid);
        }
        self.0.push((name.into(), value.into()));
        Ok(())
    }

    /// Returns the first value of a name in lower case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Iterates over names and values, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Returns the length of the encoding that [`InnerHeaders::encode`] appends, without its length field, in bytes.
    fn len(&self) -> usize {
        self.iter().map(|(name, value)| entry_len(name, value)).sum()
    }

    /// Appends them to the first frame of a stream.
    pub fn encode(&self, out: &mut Vec<u8>) {
        // `push` has bounded the length, and so each name's and value's.
        out.extend_from_slice(&(self.len() as u16).to_be_bytes());
        for (name, value) in self.iter() {
            out.push(name.len() as u8);
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(&(value.len() as u16).to_be_bytes());
            out.extend_from_slice(value);
        }
    }

    /// Parses them from the plaintext of a first frame, and returns the offset at which the body begins.
    ///
    /// # Errors
    /// [`Error::InnerHeadersInvalid`].
    pub fn parse(frame: &[u8]) -> Result<(Self, usize), Error> {
        Self::read(frame).ok_or(Error::InnerHeadersInvalid)
    }

    fn read(frame: &[u8]) -> Option<(Self, usize)> {
        let (len, rest) = frame.split_first_chunk::<2>()?;
        let len = usize::from(u16::from_be_bytes(*len));
        let mut rest = rest.get(..len)?;
        let mut headers = InnerHeaders::new();
        while let Some((name_len, behind)) = rest.split_first() {
            let (name, behind) = behind.split_at_checked(usize::from(*name_len))?;
            let (value_len, behind) = behind.split_first_chunk::<2>()?;
            let (value, behind) = behind.split_at_checked(usize::from(u16::from_be_bytes(*value_len)))?;
            headers.push(core::str::from_utf8(name).ok()?, value).ok()?;
            rest = behind;
        }
        Some((headers, 2 + len))
    }
}

fn entry_len(name: &str, value: &[u8]) -> usize {
    1 + name.len() + 2 + value.len()
}

/// Returns whether a name is a token of RFC 9110 section 5.6.2 in lower case, at most 255 bytes.
fn is_name(name: &str) -> bool {
    let of_token = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&byte);
    (1..=255).contains(&name.len()) && name.bytes().all(of_token)
}

fn is_value(value: &[u8]) -> bool {
    value.iter().all(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f))
}

impl fmt::Debug for InnerHeaders {
    /// Prints names only: a seal hides values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}
