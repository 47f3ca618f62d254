//! Heads of messages and trailers: from decoded fields, held to RFC 9113 section 8, and the reverse.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, StatusCode, Uri};

use super::hpack::{self, Field};

/// Number of fields for which a head has room at first, those that a gateway adds included: a map that grows hashes all names anew.
const FIELDS_EXPECTED: usize = 12;

/// Bounds on the head of a message, or on trailers.
#[derive(Clone, Copy, Debug)]
pub struct FieldLimits {
    /// Names and values together, in bytes, 32 added for each field (RFC 9113 section 6.5.2).
    pub bytes_max: usize,
    /// Most fields in a block, pseudo-headers not counted.
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
    /// The fields of the head, without pseudo-headers.
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
    /// Decides which fields are kept; the others are checked and dropped.
    keeps: KeepField,
    /// Number of fields, those that are not kept included.
    fields: usize,
    /// The announced length of the body.
    length: Result<Option<u64>, Fault>,
}

/// Decides by its name whether a field of the peer is kept.
pub(super) type KeepField = fn(&HeaderName) -> bool;

/// Keeps every field, whatever its name.
pub(super) fn keep_all(_: &HeaderName) -> bool {
    true
}

/// Sets a pseudo-header; a second one is a fault.
fn set<T>(slot: &mut Option<T>, value: T) -> Result<(), Fault> {
    if slot.replace(value).is_some() {
        return Err(Fault::Malformed("a pseudo-header stands twice"));
    }
    Ok(())
}

impl Collector {
    pub(super) fn new(limits: FieldLimits, keeps: KeepField) -> Self {
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
            keeps,
            fields: 0,
            length: Ok(None),
        }
    }

    /// Adds a field of this size. After a fault, further fields are ignored.
    pub(super) fn push(&mut self, field: Cow<'_, Field>, size: usize) {
        if self.fault.is_none()
            && let Err(fault) = self.add(field, size)
        {
            self.fault = Some(fault);
        }
    }

    fn add(&mut self, field: Cow<'_, Field>, size: usize) -> Result<(), Fault> {
        self.size = self.size.saturating_add(size);
        if self.size > self.limits.bytes_max {
            return Err(Fault::TooLarge);
        }
        if let Field::Header(name, value) = &*field {
            self.fields += 1;
            if is_of_connection(name) || (*name == header::TE && value != "trailers") {
                return Err(Fault::Malformed("a field of HTTP/1 connections"));
            }
            if self.fields > self.limits.fields_max {
                return Err(Fault::TooLarge);
            }
            if *name == header::CONTENT_LENGTH {
                self.length = self.length.and_then(|known| add_length(known, value));
            }
            if !(self.keeps)(name) {
                return Ok(());
            }
        }
        match field.into_owned() {
            Field::Header(name, value) => {
                if self.headers.is_empty() {
                    self.headers.reserve(FIELDS_EXPECTED);
                }
                self.headers.try_append(name, value).map(|_| ()).map_err(|_| Fault::TooLarge)
            }
            Field::Malformed(_, hpack::Reason::Name) => Err(Fault::Malformed("invalid field name")),
            Field::Malformed(_, hpack::Reason::UnknownPseudoHeader) => Err(Fault::Malformed("unknown pseudo-header")),
            Field::Malformed(..) => Err(Fault::Malformed("invalid field value")),
            _ if self.fields > 0 => Err(Fault::Malformed("a pseudo-header follows a field")),
            Field::Method(method) => set(&mut self.method, method),
            Field::Scheme(scheme) => set(&mut self.scheme, scheme),
            Field::Authority(authority) => set(&mut self.authority, authority),
            Field::Path(path) => set(&mut self.path, path),
            Field::Protocol(protocol) => set(&mut self.protocol, protocol),
            Field::Status(status) => set(&mut self.status, status),
        }
    }

    /// Returns the announced length of the body: `None` without one.
    ///
    /// # Errors
    /// A value that is no length, or two that differ.
    pub(super) fn length(&self) -> Result<Option<u64>, Fault> {
        self.length
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
        if self.protocol.is_some() && authority.is_none() {
            return malformed("an extended CONNECT without :authority");
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
            // The parser would drop it, and a service behind another gateway might not.
            if path.contains(&b'#') {
                return malformed(":path has a fragment");
            }
            let scheme = match scheme {
                hpack::Scheme::Http => Scheme::HTTP,
                hpack::Scheme::Https => Scheme::HTTPS,
                // A gateway that translates no other scheme has no resource of it (RFC 9113 section 8.3.1).
                hpack::Scheme::Other(_) => return malformed(":scheme is neither http nor https"),
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
pub(super) fn is_of_connection(name: &HeaderName) -> bool {
    *name == header::CONNECTION
        || *name == header::TRANSFER_ENCODING
        || *name == header::UPGRADE
        || name == "keep-alive"
        || name == "proxy-connection"
}

/// Returns the length that a value of Content-Length announces.
///
/// # Errors
/// A value that is no length, or that differs from the one before.
fn add_length(known: Option<u64>, value: &HeaderValue) -> Result<Option<u64>, Fault> {
    let is_number = !value.is_empty() && value.as_bytes().iter().all(u8::is_ascii_digit);
    let parsed = value.to_str().ok().filter(|_| is_number).and_then(|text| text.parse::<u64>().ok());
    match (parsed, known) {
        (None, _) => Err(Fault::Malformed("Content-Length is no length")),
        (Some(len), Some(other)) if len != other => Err(Fault::Malformed("two values of Content-Length")),
        (len, _) => Ok(len),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: FieldLimits = FieldLimits { bytes_max: 1000, fields_max: 5 };

    fn header(name: &'static str, value: &'static str) -> Field {
        Field::Header(HeaderName::from_static(name), HeaderValue::from_static(value))
    }

    fn collected(fields: impl IntoIterator<Item = Field>) -> Collector {
        let mut collector = Collector::new(LIMITS, keep_all);
        fields.into_iter().for_each(|field| collector.push(Cow::Owned(field), 40));
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
    fn a_path_is_neither_empty_nor_has_a_fragment() {
        for (path, is_path) in
            [("/x", true), ("*", true), ("/x?y=%23", true), ("", false), ("/x#f", false), ("#", false)]
        {
            let mut fields = get();
            fields[3] = Field::Path(Bytes::from_static(path.as_bytes()));
            fields[0] = Field::Method(Method::OPTIONS);
            assert_eq!(collected(fields).into_request().is_ok(), is_path, "{path}");
        }
    }

    #[test]
    fn a_scheme_is_http_or_https_with_and_without_an_authority() {
        for (scheme, is_allowed) in [
            (hpack::Scheme::Http, true),
            (hpack::Scheme::Https, true),
            (hpack::Scheme::Other("ftp".into()), false),
            (hpack::Scheme::Other("".into()), false),
        ] {
            let mut fields = get();
            fields[1] = Field::Scheme(scheme.clone());
            assert_eq!(collected(fields.clone()).into_request().is_ok(), is_allowed, "{scheme:?}");
            fields.remove(2);
            assert_eq!(collected(fields).into_request().is_ok(), is_allowed, "{scheme:?} without :authority");
        }
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
        large.push(Cow::Owned(header("a", "b")), 841);
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
        let length =
            |values: &[&'static str]| collected(values.iter().map(|value| header("content-length", value))).length();
        assert_eq!(length(&[]), Ok(None));
        assert_eq!(length(&["12"]), Ok(Some(12)));
        assert_eq!(length(&["12", "12"]), Ok(Some(12)));
        for bad in [&[""][..], &["-1"], &["+1"], &["1 "], &["0x1"], &["18446744073709551616"], &["1", "2"], &["x", "1"]]
        {
            assert!(length(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn fields_that_are_not_kept_are_checked_and_counted() {
        let collected = |fields: Vec<Field>| {
            let mut collector = Collector::new(LIMITS, |name| name == "kept");
            fields.into_iter().for_each(|field| collector.push(Cow::Owned(field), 40));
            collector
        };
        let fields = |others: Vec<Field>| [Field::Status(StatusCode::OK)].into_iter().chain(others).collect();
        let head = collected(fields(vec![header("kept", "1"), header("content-length", "7"), header("other", "2")]));
        assert_eq!(head.length(), Ok(Some(7)));
        let head = head.into_response().unwrap();
        assert_eq!((head.headers.len(), &head.headers["kept"]), (1, &HeaderValue::from_static("1")));
        assert!(collected(fields(vec![header("connection", "close")])).into_response().is_err());
        let late = vec![header("other", "2"), Field::Status(StatusCode::OK)];
        assert_eq!(collected(late).into_response().unwrap_err(), Fault::Malformed("a pseudo-header follows a field"));
        let many = (0..6).map(|_| header("other", "2")).collect();
        assert_eq!(collected(fields(many)).into_response().unwrap_err(), Fault::TooLarge);
    }
}
