//! Heads of messages and trailers: from decoded fields, held to RFC 9113 section 8, and the reverse.

use bytes::{BufMut, Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderName};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, StatusCode, Uri};

use super::frame::{END_HEADERS, END_STREAM, HEAD_LEN, put_head};
use super::hpack::{self, Block, Encoder, Field};

/// Bounds on the head of a message, or on trailers.
#[derive(Clone, Copy, Debug)]
pub struct FieldLimits {
    /// Names and values together, in bytes, 32 added for each field (RFC 9113 section 6.5.2).
    pub bytes_max: usize,
    /// Number of fields.
    pub fields_max: usize,
}

/// The head of a request.
#[derive(Debug)]
pub struct RequestHead {
    /// The method of the request.
    pub method: Method,
    /// The target in absolute form; in authority form for a CONNECT, and a path alone without `:authority`.
    pub uri: Uri,
    /// The fields; `:authority` is not among them.
    pub headers: HeaderMap,
    /// The value of `:protocol` (RFC 8441).
    pub protocol: Option<Bytes>,
}

/// The head of a response, interim or final.
#[derive(Debug)]
pub struct ResponseHead {
    /// The status of the response.
    pub status: StatusCode,
    /// The fields.
    pub headers: HeaderMap,
}

/// The cause for which a field block is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Not the form of RFC 9113 section 8; the text names the violation.
    #[error("{0}")]
    Malformed(&'static str),
    /// The fields are over their bounds.
    #[error("head is over its bound")]
    TooLarge,
}

/// Collects the fields of a block.
#[derive(Debug)]
pub(super) struct Collector {
    limits: FieldLimits,
    size: usize,
    fault: Option<Fault>,
    method: Option<Method>,
    scheme: Option<hpack::Scheme>,
    authority: Option<Bytes>,
    path: Option<Bytes>,
    protocol: Option<Bytes>,
    status: Option<StatusCode>,
    headers: HeaderMap,
    has_fields: bool,
}

/// Sets a pseudo-header; a second one is a fault.
fn set<T>(slot: &mut Option<T>, value: T) -> Result<(), Fault> {
    if slot.replace(value).is_some() {
        return Err(Fault::Malformed("a pseudo-header stands twice"));
    }
    Ok(())
}

impl Collector {
    pub(super) fn new(limits: FieldLimits) -> Self {
        Collector {
            limits,
            size: 0,
            fault: None,
            method: None,
            scheme: None,
            authority: None,
            path: None,
            protocol: None,
            status: None,
            headers: HeaderMap::new(),
            has_fields: false,
        }
    }

    /// Adds a field of this size. After a fault, further fields are ignored.
    pub(super) fn push(&mut self, field: Field, size: usize) {
        if self.fault.is_none()
            && let Err(fault) = self.add(field, size)
        {
            self.fault = Some(fault);
        }
    }

    fn add(&mut self, field: Field, size: usize) -> Result<(), Fault> {
        self.size = self.size.saturating_add(size);
        if self.size > self.limits.bytes_max {
            return Err(Fault::TooLarge);
        }
        let (name, value) = match field {
            Field::Header(name, value) => (name, value),
            Field::Malformed(_, hpack::Reason::Name) => return Err(Fault::Malformed("invalid field name")),
            Field::Malformed(_, hpack::Reason::UnknownPseudoHeader) => {
                return Err(Fault::Malformed("unknown pseudo-header"));
            }
            Field::Malformed(..) => return Err(Fault::Malformed("invalid field value")),
            _ if self.has_fields => return Err(Fault::Malformed("a pseudo-header follows a field")),
            Field::Method(method) => return set(&mut self.method, method),
            Field::Scheme(scheme) => return set(&mut self.scheme, scheme),
            Field::Authority(authority) => return set(&mut self.authority, authority),
            Field::Path(path) => return set(&mut self.path, path),
            Field::Protocol(protocol) => return set(&mut self.protocol, protocol),
            Field::Status(status) => return set(&mut self.status, status),
        };
        self.has_fields = true;
        if is_of_connection(&name) || (name == header::TE && value != "trailers") {
            return Err(Fault::Malformed("a field of HTTP/1 connections"));
        }
        if self.headers.len() >= self.limits.fields_max || self.headers.try_append(name, value).is_err() {
            return Err(Fault::TooLarge);
        }
        Ok(())
    }

    /// Returns the head of a request.
    ///
    /// # Errors
    /// [`Fault`].
    pub(super) fn into_request(self) -> Result<RequestHead, Fault> {
        let malformed = |what| Err(Fault::Malformed(what));
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let Some(method) = self.method else { return malformed(":method is missing") };
        if self.status.is_some() {
            return malformed(":status in a request");
        }
        let authority = match self.authority.map(Authority::from_maybe_shared) {
            Some(Ok(authority)) => Some(authority),
            Some(Err(_)) => return malformed(":authority is no authority"),
            None => None,
        };
        let is_connect = method == Method::CONNECT;
        if self.protocol.is_some() && !is_connect {
            return malformed(":protocol without a CONNECT");
        }
        let mut parts = http::uri::Parts::default();
        if is_connect && self.protocol.is_none() {
            if self.scheme.is_some() || self.path.is_some() || authority.is_none() {
                return malformed("CONNECT has other pseudo-headers than :authority");
            }
        } else {
            let (Some(scheme), Some(path)) = (self.scheme, self.path) else {
                return malformed(":scheme or :path is missing");
            };
            if path.is_empty() {
                return malformed(":path is empty");
            }
            let scheme = match scheme {
                hpack::Scheme::Http => Scheme::HTTP,
                hpack::Scheme::Https => Scheme::HTTPS,
                hpack::Scheme::Other(text) => match Scheme::try_from(&text[..]) {
                    Ok(scheme) => scheme,
                    Err(_) => return malformed(":scheme is no scheme"),
                },
            };
            let Ok(path) = PathAndQuery::from_maybe_shared(path) else { return malformed(":path is no path") };
            parts.path_and_query = Some(path);
            // A URI has both or neither.
            parts.scheme = authority.is_some().then_some(scheme);
        }
        parts.authority = authority;
        let Ok(uri) = Uri::from_parts(parts) else { return malformed("the pseudo-headers are no target") };
        Ok(RequestHead { method, uri, headers: self.headers, protocol: self.protocol })
    }

    /// Returns the head of a response.
    ///
    /// # Errors
    /// [`Fault`].
    pub(super) fn into_response(self) -> Result<ResponseHead, Fault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let is_request = self.method.is_some() || self.scheme.is_some() || self.authority.is_some();
        if is_request || self.path.is_some() || self.protocol.is_some() {
            return Err(Fault::Malformed("pseudo-headers of a request in a response"));
        }
        match self.status {
            // RFC 9113 section 8.6.
            Some(StatusCode::SWITCHING_PROTOCOLS) => Err(Fault::Malformed("101 does not exist in HTTP/2")),
            Some(status) => Ok(ResponseHead { status, headers: self.headers }),
            None => Err(Fault::Malformed(":status is missing")),
        }
    }

    /// Returns trailers.
    ///
    /// # Errors
    /// [`Fault`].
    pub(super) fn into_trailers(self) -> Result<HeaderMap, Fault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let has_pseudo = self.method.is_some() || self.scheme.is_some() || self.authority.is_some();
        if has_pseudo || self.path.is_some() || self.protocol.is_some() || self.status.is_some() {
            return Err(Fault::Malformed("a pseudo-header in trailers"));
        }
        Ok(self.headers)
    }
}

/// Returns whether a field belongs to a connection of HTTP/1 (RFC 9113 section 8.2.2).
fn is_of_connection(name: &HeaderName) -> bool {
    *name == header::CONNECTION
        || *name == header::TRANSFER_ENCODING
        || *name == header::UPGRADE
        || name == "keep-alive"
        || name == "proxy-connection"
}

/// Returns the announced length of a body: `None` without one.
///
/// # Errors
/// A value that is no length, or two that differ.
pub(super) fn content_length(headers: &HeaderMap) -> Result<Option<u64>, Fault> {
    let mut found = None;
    for value in headers.get_all(header::CONTENT_LENGTH) {
        let is_number = !value.is_empty() && value.as_bytes().iter().all(u8::is_ascii_digit);
        let parsed = value.to_str().ok().filter(|_| is_number).and_then(|text| text.parse::<u64>().ok());
        match (parsed, found) {
            (None, _) => return Err(Fault::Malformed("Content-Length is no length")),
            (Some(len), Some(other)) if len != other => return Err(Fault::Malformed("two values of Content-Length")),
            (len, _) => found = len,
        }
    }
    Ok(found)
}

/// Writes field blocks as HEADERS, and CONTINUATION where one frame is too small.
pub(super) struct BlockWriter<'a> {
    pub(super) out: &'a mut BytesMut,
    pub(super) encoder: &'a mut Encoder,
    pub(super) payload_len_max: usize,
}

impl BlockWriter<'_> {
    /// Writes the head of a response.
    pub(super) fn response(&mut self, stream: u32, status: StatusCode, headers: &HeaderMap, is_last: bool) {
        self.block(stream, is_last, headers, |block| block.status(status));
    }

    /// Writes the head of a request. The authority of its URI is `:authority`.
    pub(super) fn request(&mut self, stream: u32, head: &RequestHead, is_last: bool) {
        let uri = &head.uri;
        self.block(stream, is_last, &head.headers, |block| {
            block.method(&head.method);
            if head.method != Method::CONNECT || head.protocol.is_some() {
                let is_https = uri.scheme() == Some(&Scheme::HTTPS);
                block.scheme(if is_https { &hpack::Scheme::Https } else { &hpack::Scheme::Http });
                // An OPTIONS of a URI without a path is one of the server (RFC 9113 section 8.3.1).
                let path = match uri.path_and_query().map(PathAndQuery::as_str) {
                    Some(path) if !path.is_empty() => path,
                    _ if head.method == Method::OPTIONS => "*",
                    _ => "/",
                };
                block.path(path.as_bytes());
            }
            if let Some(authority) = uri.authority() {
                block.authority(authority.as_str().as_bytes());
            }
            if let Some(protocol) = &head.protocol {
                block.protocol(protocol);
            }
        });
    }

    /// Writes trailers, which end the stream.
    pub(super) fn trailers(&mut self, stream: u32, trailers: &HeaderMap) {
        self.block(stream, true, trailers, |_| {});
    }

    fn block(
        &mut self,
        stream: u32,
        is_last: bool,
        headers: &HeaderMap,
        pseudo: impl FnOnce(&mut Block<'_>),
    ) {
        let flags = if is_last { END_STREAM } else { 0 };
        let start = self.out.len();
        put_head(self.out, 0, 1, flags | END_HEADERS, stream);
        let mut block = self.encoder.begin(self.out);
        pseudo(&mut block);
        for (name, value) in headers {
            if !is_of_connection(name) {
                block.header(name, value);
            }
        }
        let len = self.out.len() - start - HEAD_LEN;
        if len <= self.payload_len_max {
            let [_, high, middle, low] = u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
            self.out[start..start + 3].copy_from_slice(&[high, middle, low]);
            return;
        }
        let mut block = self.out.split_off(start + HEAD_LEN);
        self.out.truncate(start);
        let mut kind = 1;
        while kind == 1 || !block.is_empty() {
            let part = block.split_to(block.len().min(self.payload_len_max));
            let end = if block.is_empty() { END_HEADERS } else { 0 };
            put_head(self.out, part.len(), kind, if kind == 1 { flags | end } else { end }, stream);
            self.out.put_slice(&part);
            kind = 9;
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::super::hpack::Decoder;
    use super::*;

    const LIMITS: FieldLimits = FieldLimits { bytes_max: 1000, fields_max: 5 };

    fn header(name: &'static str, value: &'static str) -> Field {
        Field::Header(HeaderName::from_static(name), HeaderValue::from_static(value))
    }

    fn collected(fields: impl IntoIterator<Item = Field>) -> Collector {
        let mut collector = Collector::new(LIMITS);
        fields.into_iter().for_each(|field| collector.push(field, 40));
        collector
    }

    fn get() -> Vec<Field> {
        let text = Bytes::from_static;
        vec![
            Field::Method(Method::GET),
            Field::Scheme(hpack::Scheme::Https),
            Field::Authority(text(b"a.example")),
            Field::Path(text(b"/x?y")),
        ]
    }

    #[test]
    fn a_request_has_each_pseudo_header_once_and_before_all_fields() {
        let head = collected(get().into_iter().chain([header("a", "b")])).into_request().unwrap();
        assert_eq!(head.uri, "https://a.example/x?y");
        for at in 0..4 {
            let mut fields = get();
            let field = fields.remove(at);
            let missing = collected(fields.clone()).into_request();
            // The host may stand in a field.
            assert_eq!(missing.is_ok(), matches!(field, Field::Authority(_)), "{at}");
            let late = collected(fields.into_iter().chain([header("a", "b"), field.clone()]));
            assert!(late.into_request().is_err(), "{at}");
            assert!(collected(get().into_iter().chain([field])).into_request().is_err(), "{at}");
        }
        assert!(collected(get().into_iter().chain([Field::Status(StatusCode::OK)])).into_request().is_err());
        let protocol = Field::Protocol(Bytes::from_static(b"websocket"));
        assert!(collected(get().into_iter().chain([protocol])).into_request().is_err());
    }

    #[test]
    fn a_connect_has_no_scheme_and_no_path() {
        let authority = Field::Authority(Bytes::from_static(b"a.example:443"));
        let connect = [Field::Method(Method::CONNECT), authority.clone()];
        let head = collected(connect.clone()).into_request().unwrap();
        assert_eq!(head.uri, "a.example:443");
        let path = Field::Path(Bytes::from_static(b"/"));
        assert!(collected(connect.into_iter().chain([path])).into_request().is_err());
        assert!(collected([Field::Method(Method::CONNECT)]).into_request().is_err());
    }

    #[test]
    fn fields_of_http1_connections_make_a_message_malformed() {
        for (name, value) in [
            ("connection", "close"),
            ("keep-alive", "1"),
            ("proxy-connection", "x"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("te", "trailers, deflate"),
        ] {
            let request = collected(get().into_iter().chain([header(name, value)])).into_request();
            assert!(matches!(request, Err(Fault::Malformed(_))), "{name}");
        }
        assert!(collected(get().into_iter().chain([header("te", "trailers")])).into_request().is_ok());
    }

    #[test]
    fn heads_are_bounded_in_bytes_and_in_fields() {
        let many = |count| collected(get().into_iter().chain((0..count).map(|_| header("a", "b")))).into_request();
        assert!(many(5).is_ok());
        assert_eq!(many(6).unwrap_err(), Fault::TooLarge);
        let mut large = collected(get());
        large.push(header("a", "b"), 841);
        assert_eq!(large.into_request().unwrap_err(), Fault::TooLarge);
    }

    #[test]
    fn a_response_has_a_status_and_trailers_have_no_pseudo_header() {
        assert_eq!(collected([Field::Status(StatusCode::OK)]).into_response().unwrap().status, 200);
        assert!(collected([]).into_response().is_err());
        assert!(collected([Field::Status(StatusCode::SWITCHING_PROTOCOLS)]).into_response().is_err());
        assert!(collected(get()).into_response().is_err());
        assert_eq!(collected([header("a", "b")]).into_trailers().unwrap()["a"], "b");
        assert!(collected([Field::Status(StatusCode::OK)]).into_trailers().is_err());
    }

    #[test]
    fn a_length_is_a_number_that_no_other_field_contradicts() {
        let headers = |values: &[&'static str]| {
            let values = values.iter().map(|value| (header::CONTENT_LENGTH, HeaderValue::from_static(value)));
            content_length(&HeaderMap::from_iter(values))
        };
        assert_eq!(headers(&[]), Ok(None));
        assert_eq!(headers(&["12"]), Ok(Some(12)));
        for bad in ["", "-1", "+1", "1 ", "0x1", "18446744073709551616"] {
            assert!(headers(&[bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_block_larger_than_a_frame_continues_in_further_frames() {
        let (mut out, mut encoder) = (BytesMut::new(), Encoder::new());
        let value = HeaderValue::from_str(&"\u{7e}".repeat(100)).unwrap();
        let headers = HeaderMap::from_iter([(HeaderName::from_static("x-long"), value.clone())]);
        let mut writer = BlockWriter { out: &mut out, encoder: &mut encoder, payload_len_max: 50 };
        writer.response(3, StatusCode::OK, &headers, true);
        let (mut block, mut kinds) = (Vec::new(), Vec::new());
        while !out.is_empty() {
            let len = usize::from(out[2]);
            kinds.push((out[3], out[4]));
            block.extend_from_slice(&out[HEAD_LEN..HEAD_LEN + len]);
            let _ = out.split_to(HEAD_LEN + len);
        }
        assert_eq!(kinds.first(), Some(&(1, END_STREAM)));
        assert_eq!(kinds.last(), Some(&(9, END_HEADERS)));
        let mut fields = Vec::new();
        Decoder::new(4096).decode(&block, &mut |field, _| fields.push(field)).unwrap();
        let head = collected(fields).into_response().unwrap();
        assert_eq!((head.status, &head.headers["x-long"]), (StatusCode::OK, &value));
    }
}
