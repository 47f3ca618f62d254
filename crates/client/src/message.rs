//! Messages of a session outside their transport: headers and body, without a connection.

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use sealway_proto::wire::{Field, Headers};

use crate::error::{Error, ErrorKind};

/// A message to send: a session init in plain, or a sealed request.
pub struct Message {
    /// Headers to send, with `Content-Type`. `Authorization` is marked as sensitive.
    pub headers: HeaderMap,
    /// Body to send: JSON of an init, or ciphertext.
    pub body: Bytes,
    /// Additional authenticated data of a request on wires 1 and 2, which is public; empty for all other messages.
    pub aad: Vec<u8>,
}

impl std::fmt::Debug for Message {
    /// Shows the body's length only: the headers may hold a token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Message").field("len", &self.body.len()).finish_non_exhaustive()
    }
}

/// Adapts an answer's headers to [`Headers`], as `sealway_proto` reads them.
pub(crate) struct AnswerHeaders<'a>(pub(crate) &'a HeaderMap);

impl Headers for AnswerHeaders<'_> {
    fn field(&self, name: &'static str) -> Field<'_> {
        let mut values = self.0.get_all(name).iter();
        match (values.next(), values.next()) {
            (None, _) => Field::Absent,
            (Some(value), None) => value.to_str().map_or(Field::Malformed, Field::Value),
            _ => Field::Malformed,
        }
    }
}

/// Builds the headers of a message; an empty `content_type` adds no `Content-Type`.
pub(crate) fn outer(content_type: &'static str, list: &[(&'static str, String)]) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::with_capacity(8);
    if !content_type.is_empty() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    for (name, value) in list {
        insert(&mut headers, name, value)?;
    }
    Ok(headers)
}

pub(crate) fn insert(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), Error> {
    let name =
        HeaderName::from_bytes(name.as_bytes()).map_err(|_| ErrorKind::Usage(format!("{name} is no header name")))?;
    let mut text = HeaderValue::from_str(value)
        .map_err(|_| ErrorKind::Usage(format!("the value of {name} is no header value")))?;
    text.set_sensitive(name == AUTHORIZATION);
    headers.insert(name, text);
    Ok(())
}
