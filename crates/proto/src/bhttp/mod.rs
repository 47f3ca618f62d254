//! Binary HTTP (RFC 9292): requests and answers as bytes, with known and with indeterminate length.
//!
//! [`Reader`] takes the bytes of one message as they arrive and reports its parts. [`Writer`] writes one message. Both keep to the
//! same rules for control data and fields, so that a message which one writes is one that the other takes. The reader is strict: a
//! message that HTTP/1.1 or HTTP/2 could not carry is rejected here, before a service sees any of it.
//!
//! This module does not know encryption, routes, or which header is meant for whom.

mod error;
mod field;
mod read;
pub(crate) mod varint;
mod write;

use alloc::string::String;
use alloc::vec::Vec;

pub use self::error::{BhttpError, Part, Rule};
pub use self::field::Field;
pub use self::read::{Event, Reader};
pub use self::write::Writer;

/// Longest method, scheme or authority, in bytes.
pub const NAME_LEN_MAX: usize = 256;
/// Longest path with its query, in bytes.
pub const PATH_LEN_MAX: usize = 8 * 1024;
/// Longest field section, in bytes as encoded.
pub const SECTION_LEN_MAX: usize = 64 * 1024;
/// Most fields of a section.
pub const FIELDS_MAX: usize = 256;
/// Most informational answers before the final one.
pub const INTERIMS_MAX: usize = 16;

/// The control data of a message (RFC 9292 sections 3.4 and 3.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Control data of a request.
    Request {
        /// The method: a token (RFC 9110 section 5.6.2).
        method: String,
        /// The scheme, in lower case; it may be empty.
        scheme: String,
        /// The authority: visible ASCII; it may be empty.
        authority: String,
        /// The path and query: visible ASCII that begins with `/`, or `*` for `OPTIONS`.
        path: String,
    },
    /// Control data of an answer: its status, 100 to 599.
    Answer(u16),
}

/// The head of a message: control data and the header section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Control data of the message.
    pub control: Control,
    /// Fields in the order of the message, names in lower case. Several `cookie` lines of a request are one.
    pub fields: Vec<Field>,
}

/// The two ways to delimit the parts of a message (RFC 9292 sections 3.1 and 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Each section and the content have their length in front.
    Known,
    /// Each section and the content end at a zero.
    Indeterminate,
}
