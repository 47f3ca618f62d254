//! Fields as a header block carries them, and the checks of their contents (RFC 9113 sections 8.2.1 and 8.3).

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Method, StatusCode};

/// The value of the pseudo-header `:scheme`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// The value `http`, without TLS.
    Http,
    /// The value `https`, over TLS.
    Https,
    /// Another value, without blanks and control characters.
    Other(Bytes),
}

impl Scheme {
    /// Returns the bytes of the value.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Scheme::Http => b"http",
            Scheme::Https => b"https",
            Scheme::Other(text) => text,
        }
    }
}

/// One field of a header list.
///
/// `Authority`, `Path` and `Protocol` have no blanks and no control characters, and may be empty; their syntax is not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// The pseudo-header `:method` of RFC 9113.
    Method(Method),
    /// The pseudo-header `:scheme` of RFC 9113.
    Scheme(Scheme),
    /// The pseudo-header `:authority` of RFC 9113.
    Authority(Bytes),
    /// The pseudo-header `:path` of RFC 9113.
    Path(Bytes),
    /// The pseudo-header `:protocol` of RFC 8441.
    Protocol(Bytes),
    /// The pseudo-header `:status` of RFC 9113.
    Status(StatusCode),
    /// A field that is no pseudo-header. A value that the peer sent as never indexed is marked as sensitive.
    Header(HeaderName, HeaderValue),
    /// A field with invalid contents: the message is malformed, the connection goes on.
    Malformed(Name, Reason),
}

/// The name of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// The pseudo-header `:method` of RFC 9113.
    Method,
    /// The pseudo-header `:scheme` of RFC 9113.
    Scheme,
    /// The pseudo-header `:authority` of RFC 9113.
    Authority,
    /// The pseudo-header `:path` of RFC 9113.
    Path,
    /// The pseudo-header `:protocol` of RFC 8441.
    Protocol,
    /// The pseudo-header `:status` of RFC 9113.
    Status,
    /// The name of a field that is no pseudo-header.
    Header(HeaderName),
    /// A name that is invalid; its text is not kept.
    Malformed(Reason),
}

/// The cause for which a field is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The name is empty, or has a character that is no lowercase token character.
    #[error("invalid field name")]
    Name,
    /// The name begins with a colon and is unknown.
    #[error("unknown pseudo-header")]
    UnknownPseudoHeader,
    /// The value has a control character, or a blank at its beginning or end.
    #[error("invalid field value")]
    Value,
    /// The value of a pseudo-header is not what its name demands.
    #[error("invalid value of a pseudo-header")]
    PseudoHeaderValue,
}

impl Name {
    pub(super) fn parse(text: &[u8]) -> Self {
        match text {
            b":method" => Name::Method,
            b":scheme" => Name::Scheme,
            b":authority" => Name::Authority,
            b":path" => Name::Path,
            b":protocol" => Name::Protocol,
            b":status" => Name::Status,
            [b':', ..] => Name::Malformed(Reason::UnknownPseudoHeader),
            _ => HeaderName::from_lowercase(text).map_or(Name::Malformed(Reason::Name), Name::Header),
        }
    }
}

impl Field {
    /// Checks `value`, and joins it with its name. `share` copies a value that must be kept.
    pub(super) fn parse(name: Name, value: &[u8], share: impl FnOnce(&[u8]) -> Bytes) -> Self {
        match name {
            Name::Header(name) => match parse_value(value, share) {
                Some(value) => Field::Header(name, value),
                None => Field::Malformed(Name::Header(name), Reason::Value),
            },
            Name::Malformed(reason) => Field::Malformed(name, reason),
            Name::Method => Method::from_bytes(value).map_or_else(|_| Field::invalid(name), Field::Method),
            Name::Status => StatusCode::from_bytes(value).map_or_else(|_| Field::invalid(name), Field::Status),
            // A blank or a line end would get into the request line of an upstream that speaks HTTP/1.1.
            _ if !value.iter().all(|byte| *byte > b' ' && *byte != 0x7f) => Field::invalid(name),
            Name::Scheme => Field::Scheme(match value {
                b"http" => Scheme::Http,
                b"https" => Scheme::Https,
                _ => Scheme::Other(share(value)),
            }),
            Name::Authority => Field::Authority(share(value)),
            Name::Path => Field::Path(share(value)),
            Name::Protocol => Field::Protocol(share(value)),
        }
    }

    fn invalid(pseudo_header: Name) -> Self {
        Field::Malformed(pseudo_header, Reason::PseudoHeaderValue)
    }

    /// Returns the field's name. A malformed value does not make its name malformed: later fields may refer to the name.
    pub(super) fn name(&self) -> Name {
        match self {
            Field::Method(_) => Name::Method,
            Field::Scheme(_) => Name::Scheme,
            Field::Authority(_) => Name::Authority,
            Field::Path(_) => Name::Path,
            Field::Protocol(_) => Name::Protocol,
            Field::Status(_) => Name::Status,
            Field::Header(name, _) => Name::Header(name.clone()),
            Field::Malformed(name, _) => name.clone(),
        }
    }
}

fn parse_value(value: &[u8], share: impl FnOnce(&[u8]) -> Bytes) -> Option<HeaderValue> {
    if is_blank(value.first()) || is_blank(value.last()) {
        return None;
    }
    HeaderValue::from_maybe_shared(share(value)).ok()
}

fn is_blank(byte: Option<&u8>) -> bool {
    matches!(byte, Some(b' ' | b'\t'))
}
