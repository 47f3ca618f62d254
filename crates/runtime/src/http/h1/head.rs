//! Heads: a request line or a status line, and header fields (RFC 9112 sections 2 to 6).

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, Uri, Version};

use super::target;

/// Number of fields that a gateway adds to a request and to a response by default.
const ADDED_TO_REQUEST: usize = 8;
const ADDED_TO_RESPONSE: usize = 2;

/// Bounds on the head of a message.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// Start line and fields together, in bytes.
    pub bytes_max: usize,
    /// Number of field lines in a head.
    pub fields_max: usize,
}

/// The framing of a message's body (RFC 9112 section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// No body, and no field about one.
    None,
    /// A body of this number of bytes.
    Length(u64),
    /// A body in the chunked coding.
    Chunked,
    /// A body until the connection ends; responses only.
    Close,
}

/// The cause for which a head is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Not the form of RFC 9112; the text names the defect.
    #[error("{0}")]
    Malformed(&'static str),
    /// The fields, or the start line, are longer than their bound.
    #[error("head is over its bound")]
    TooLarge,
    /// A request target is longer than its bound.
    #[error("request target is over its bound")]
    TargetTooLong,
    /// A transfer coding that is not `chunked`.
    #[error("unknown transfer coding")]
    UnknownCoding,
    /// The version is not HTTP/1.
    #[error("unsupported version")]
    Version,
    /// An `Expect` that is not `100-continue`.
    #[error("unknown expectation")]
    Expectation,
}

impl Fault {
    /// Returns the status of the answer.
    pub fn status(self) -> StatusCode {
        match self {
            Fault::Malformed(_) => StatusCode::BAD_REQUEST,
            Fault::TooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Fault::TargetTooLong => StatusCode::URI_TOO_LONG,
            Fault::UnknownCoding => StatusCode::NOT_IMPLEMENTED,
            Fault::Version => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            Fault::Expectation => StatusCode::EXPECTATION_FAILED,
        }
    }
}

/// The head of a request.
#[derive(Clone, Debug)]
pub struct RequestHead {
    /// The method of the request.
    pub method: Method,
    /// The target: origin form, absolute form, authority form (`CONNECT`) or `*`.
    pub uri: Uri,
    /// The version, HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// The fields, including `Host`, except those of the connection alone: see [`parse_request`].
    pub headers: HeaderMap,
    /// The framing of the body.
    pub framing: Framing,
    /// Set if the client allows the connection to be reused.
    pub keep_alive: bool,
    /// Set if the client waits for a 100 before it sends the body.
    pub expects_continue: bool,
}

/// The head of a response.
#[derive(Clone, Debug)]
pub struct ResponseHead {
    /// The status of the response.
    pub status: StatusCode,
    /// The version, HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// The fields, except those of the connection alone: see [`parse_request`].
    pub headers: HeaderMap,
    /// The framing of the body.
    pub framing: Framing,
    /// Set if the server allows the connection to be reused.
    pub keep_alive: bool,
}

/// Takes a request's head from the front of `buffer`, once all of it has arrived.
///
/// `Transfer-Encoding`, `Keep-Alive` and `Connection: keep-alive` are not kept: other members of the head say the same.
///
/// # Errors
/// [`Fault`]; no byte after it can be trusted, so the connection ends.
pub fn parse_request(buffer: &mut BytesMut, limits: HeadLimits) -> Result<Option<RequestHead>, Fault> {
    skip_blank_line(buffer)?;
    if buffer.as_ref() == b"\r\n" {
        return Ok(None);
    }
    let Some((mut head, count)) = take_head(buffer, limits)? else { return check_beginning(buffer) };
    let line = take_line(&mut head)?;
    let (method, uri, version) = parse_request_line(&line)?;
    let mut fields = parse_fields(&head, count + ADDED_TO_REQUEST)?;
    let framing = match fields.framing(version)? {
        // A request without either field has no body.
        Framing::Close => Framing::None,
        framing => framing,
    };
    target::check_host(&fields.headers, version)?;
    if method != Method::CONNECT
        && let Some(authority) = uri.authority()
    {
        // The target names the host, whatever Host says (RFC 9112 section 3.2.2).
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| Fault::Malformed("Host is no host"))?;
        fields.headers.insert(header::HOST, host);
    }
    let keep_alive = fields.keep_alive(version);
    if version == Version::HTTP_10 {
        // `Expect` has no meaning there (RFC 9110 section 10.1.1), and would get one if the request is forwarded as HTTP/1.1.
        fields.headers.remove(header::EXPECT);
    }
    let expects_continue = expects_continue(&fields.headers)?;
    Ok(Some(RequestHead { method, uri, version, headers: fields.headers, framing, keep_alive, expects_continue }))
}

/// Takes a response's head, to a request of `method`, from the front of `buffer`, once all of it has arrived.
///
/// # Errors
/// [`Fault`]; the connection ends.
pub fn parse_response(
    buffer: &mut BytesMut,
    method: &Method,
    limits: HeadLimits,
) -> Result<Option<ResponseHead>, Fault> {
    let Some((mut head, count)) = take_head(buffer, limits)? else { return Ok(None) };
    let line = take_line(&mut head)?;
    // The reason, and the blank before it, may be missing.
    let (version, rest) = line.split_at_checked(8).ok_or(Fault::Malformed("the status line is too short"))?;
    let version = parse_version(version)?;
    let status = match rest {
        [b' ', status @ ..] if status.len() == 3 || status.get(3) == Some(&b' ') => status.get(..3),
        _ => None,
    };
    let status = status.and_then(|digits| StatusCode::from_bytes(digits).ok());
    let status = status.ok_or(Fault::Malformed("the status is no three digits"))?;
    // It goes no further, but a reader that takes a bare CR for the end of a line sees other fields.
    if !rest.iter().all(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f)) {
        return Err(Fault::Malformed("the reason holds a control character"));
    }
    let fields = parse_fields(&head, count + ADDED_TO_RESPONSE)?;
    let framing = match fields.framing(version)? {
        _ if response_has_no_body(method, status) => Framing::None,
        framing => framing,
    };
    let keep_alive = fields.keep_alive(version) && framing != Framing::Close;
    Ok(Some(ResponseHead { status, version, headers: fields.headers, framing, keep_alive }))
}

/// Returns whether a response has no body whatever its fields say (RFC 9112 section 6.3).
pub fn response_has_no_body(method: &Method, status: StatusCode) -> bool {
    *method == Method::HEAD
        || status.is_informational()
        || status == StatusCode::NO_CONTENT
        || status == StatusCode::NOT_MODIFIED
        || (*method == Method::CONNECT && status.is_success())
}

/// Skips one blank line before a request line (RFC 9112 section 2.2).
fn skip_blank_line(buffer: &mut BytesMut) -> Result<(), Fault> {
    match buffer.as_ref() {
        // A lone one stays, or the next one would count as the first again.
        [b'\r', b'\n', b'\r' | b'\n', ..] => return Err(Fault::Malformed("a second blank line")),
        [b'\r', b'\n', _, ..] => {
            let _ = buffer.split_to(2);
        }
        [b'\r', other, ..] if *other != b'\n' => return Err(Fault::Malformed("a bare CR")),
        [b'\n', ..] => return Err(Fault::Malformed("a bare LF")),
        _ => {}
    }
    Ok(())
}

/// Rejects input that cannot become a request before the head is complete: most likely it is another protocol, such as TLS.
fn check_beginning(buffer: &[u8]) -> Result<Option<RequestHead>, Fault> {
    let end = memchr::memchr(b'\r', buffer);
    let line = &buffer[..end.unwrap_or(buffer.len())];
    if !line.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ') || line.first() == Some(&b' ') {
        return Err(Fault::Malformed("the request line holds what is no visible ASCII"));
    }
    if end.is_some_and(|end| end > 0) {
        parse_request_line(&Bytes::copy_from_slice(line))?;
    }
    Ok(None)
}

fn parse_request_line(line: &Bytes) -> Result<(Method, Uri, Version), Fault> {
    let mut parts = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(Fault::Malformed("the request line is no method, target and version"));
    };
    let version = parse_version(version)?;
    let method = Method::from_bytes(method).map_err(|_| Fault::Malformed("the method is no token"))?;
    let uri = target::parse_target(&method, line.slice_ref(target))?;
    Ok((method, uri, version))
}

/// Returns whether the client waits for a 100 (RFC 9110 section 10.1.1).
///
/// # Errors
/// [`Fault::Expectation`], if the request states any other expectation.
pub(in crate::http) fn expects_continue(headers: &HeaderMap) -> Result<bool, Fault> {
    let mut expected = headers.get_all(header::EXPECT).iter().filter(|value| !value.is_empty());
    match (expected.next(), expected.next()) {
        (None, _) => Ok(false),
        (Some(value), None) if value.as_bytes().eq_ignore_ascii_case(b"100-continue") => Ok(true),
        _ => Err(Fault::Expectation),
    }
}

/// Takes the head with its last CRLF from the buffer, and counts its fields. Lines end only in CRLF: a bare LF is rejected as soon as
/// it arrives.
fn take_head(buffer: &mut BytesMut, limits: HeadLimits) -> Result<Option<(Bytes, usize)>, Fault> {
    let mut line_start = 0;
    let mut line_no = 0;
    while let Some(len) = memchr::memchr(b'\n', &buffer[line_start..]) {
        let end = line_start + len;
        if len == 0 || buffer[end - 1] != b'\r' {
            return Err(Fault::Malformed("a line ends in a bare LF"));
        }
        if end > limits.bytes_max {
            return Err(if line_no == 0 { Fault::TargetTooLong } else { Fault::TooLarge });
        }
        if len == 1 {
            if line_no == 0 {
                return Err(Fault::Malformed("a second blank line"));
            }
            let count = line_no - 1;
            if count > limits.fields_max {
                return Err(Fault::TooLarge);
            }
            return Ok(Some((buffer.split_to(end + 1).freeze(), count)));
        }
        line_no += 1;
        line_start = end + 1;
    }
    if buffer.len() > limits.bytes_max {
        return Err(if line_no == 0 { Fault::TargetTooLong } else { Fault::TooLarge });
    }
    Ok(None)
}

/// Takes the next line without its CRLF. A CR elsewhere, or a NUL, is rejected with the check of the line's parts.
fn take_line(head: &mut Bytes) -> Result<Bytes, Fault> {
    let end = memchr::memchr(b'\n', head).ok_or(Fault::Malformed("a line does not end"))?;
    let mut line = head.split_to(end + 1);
    line.truncate(end.saturating_sub(1));
    Ok(line)
}

fn parse_version(text: &[u8]) -> Result<Version, Fault> {
    match text {
        b"HTTP/1.1" => Ok(Version::HTTP_11),
        b"HTTP/1.0" => Ok(Version::HTTP_10),
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor] if major.is_ascii_digit() && minor.is_ascii_digit() => {
            // A higher minor version is read as the highest known (RFC 9110 section 2.5).
            if *major == b'1' { Ok(Version::HTTP_11) } else { Err(Fault::Version) }
        }
        _ => Err(Fault::Malformed("no HTTP version")),
    }
}

#[derive(Default)]
struct Fields {
    headers: HeaderMap,
    content_length: Option<u64>,
    /// Set if there is a `Transfer-Encoding`, which is `chunked`, once.
    is_chunked: bool,
    has_close: bool,
    has_keep_alive: bool,
}

impl Fields {
    fn framing(&self, version: Version) -> Result<Framing, Fault> {
        match (self.is_chunked, self.content_length) {
            // A reader of the one field and a reader of the other see different messages (RFC 9112 section 6.1).
            (true, Some(_)) => Err(Fault::Malformed("both Content-Length and Transfer-Encoding")),
            (true, None) if version == Version::HTTP_10 => Err(Fault::Malformed("Transfer-Encoding in HTTP/1.0")),
            (true, None) => Ok(Framing::Chunked),
            (false, Some(len)) => Ok(Framing::Length(len)),
            (false, None) => Ok(Framing::Close),
        }
    }

    fn keep_alive(&self, version: Version) -> bool {
        !self.has_close && (version == Version::HTTP_11 || self.has_keep_alive)
    }
}

/// Parses the field lines of a head, into a map with room for more: one that grows hashes all names anew.
fn parse_fields(head: &Bytes, capacity: usize) -> Result<Fields, Fault> {
    let headers = HeaderMap::try_with_capacity(capacity).map_err(|_| Fault::TooLarge)?;
    let mut fields = Fields { headers, ..Fields::default() };
    // Appended last: a gateway removes it, which costs least at the end of a map.
    let mut connection = None;
    let mut rest = head.as_ref();
    while rest.len() > 2 {
        let end = memchr::memchr(b'\n', rest).ok_or(Fault::Malformed("a line does not end"))?;
        let (line, after) = rest.split_at(end + 1);
        rest = after;
        let (name, mut value) = parse_field(head, &line[..end.saturating_sub(1)])?;
        match name {
            header::CONTENT_LENGTH => {
                let length = parse_length(value.as_bytes())?;
                if fields.content_length.replace(length).is_some() {
                    return Err(Fault::Malformed("Content-Length stands twice"));
                }
                // Not every reader parses 0005 as five, or 010 as ten.
                if value.len() > 1 && value.as_bytes().starts_with(b"0") {
                    value = length.into();
                }
            }
            header::TRANSFER_ENCODING => {
                if std::mem::replace(&mut fields.is_chunked, true) {
                    return Err(Fault::Malformed("Transfer-Encoding stands twice"));
                }
                check_coding(value.as_bytes())?;
                continue;
            }
            header::CONNECTION => {
                for option in value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    fields.has_close |= option.eq_ignore_ascii_case(b"close");
                    fields.has_keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
                if value.as_bytes().eq_ignore_ascii_case(b"keep-alive") {
                    continue;
                }
                let Some(before) = connection.replace(value) else { continue };
                value = before;
            }
            _ if name == "keep-alive" => continue,
            _ => {}
        }
        fields.headers.try_append(name, value).map_err(|_| Fault::TooLarge)?;
    }
    if let Some(value) = connection {
        fields.headers.try_append(header::CONNECTION, value).map_err(|_| Fault::TooLarge)?;
    }
    Ok(fields)
}

/// Parses a field line of `section`, without its CRLF: a token, a colon, a value between optional blanks (RFC 9112 section 5). No
/// folding.
pub(super) fn parse_field(section: &Bytes, line: &[u8]) -> Result<(HeaderName, HeaderValue), Fault> {
    let colon = memchr::memchr(b':', line).ok_or(Fault::Malformed("a field line without a colon"))?;
    // A blank before the colon, or at the front of the line, makes it no token.
    let name = HeaderName::from_bytes(&line[..colon]).map_err(|_| Fault::Malformed("a field name is no token"))?;
    let value = trim(&line[colon + 1..]);
    let value = HeaderValue::from_maybe_shared(section.slice_ref(value));
    Ok((name, value.map_err(|_| Fault::Malformed("a field value holds a control character"))?))
}

/// Removes the blanks around a value: space and tab, and no other white space.
fn trim(value: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| *byte == b' ' || *byte == b'\t';
    let start = value.iter().position(|byte| !is_blank(byte)).unwrap_or(value.len());
    let end = value.iter().rposition(|byte| !is_blank(byte)).map_or(start, |last| last + 1);
    &value[start..end]
}

/// Parses a length, digits only (RFC 9110 section 8.6); a list of equal ones counts as two lengths.
fn parse_length(value: &[u8]) -> Result<u64, Fault> {
    let refused = Fault::Malformed("Content-Length is no number");
    if value.is_empty() || value.len() > 19 || !value.iter().all(u8::is_ascii_digit) {
        return Err(refused);
    }
    std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok()).ok_or(refused)
}

/// Checks that the coding is `chunked`, once: with another last coding the body has no length (RFC 9112 section 6.1), and
/// codings before it are not supported.
fn check_coding(value: &[u8]) -> Result<(), Fault> {
    let mut codings = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let last = codings.next_back().unwrap_or_default();
    if !last.eq_ignore_ascii_case(b"chunked") {
        return Err(Fault::Malformed("the last transfer coding is not chunked"));
    }
    match codings.next() {
        None => Ok(()),
        Some(first) if first.eq_ignore_ascii_case(b"chunked") || first.is_empty() => {
            Err(Fault::Malformed("chunked stands twice"))
        }
        Some(_) => Err(Fault::UnknownCoding),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HeadLimits = HeadLimits { bytes_max: 512, fields_max: 8 };

    fn request(text: &str) -> Result<Option<RequestHead>, Fault> {
        parse_request(&mut BytesMut::from(text.as_bytes()), LIMITS)
    }

    #[test]
    fn a_request_is_taken_as_sent_and_what_follows_stays() {
        let text = "POST /a%2fb/../c?x=%20 HTTP/1.1\r\nHost: h:1\r\nX-B: 1\r\nx-a:\t2 \r\nX-B: 3\r\nContent-Length: 3\r\n\r\nabcGET";
        let mut buffer = BytesMut::from(text);
        let head = parse_request(&mut buffer, LIMITS).unwrap().unwrap();
        assert_eq!((head.method, head.uri.to_string()), (Method::POST, "/a%2fb/../c?x=%20".into()));
        assert_eq!((head.framing, head.keep_alive), (Framing::Length(3), true));
        let fields: Vec<_> =
            head.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(fields, [("host", "h:1"), ("x-b", "1"), ("x-b", "3"), ("x-a", "2"), ("content-length", "3")]);
        assert_eq!(&buffer[..], b"abcGET");
    }

    #[test]
    fn fields_of_the_connection_alone_are_read_and_not_kept() {
        let fields = "Keep-Alive: 5\r\nConnection: Keep-Alive\r\nTransfer-Encoding: Chunked";
        let head = request(&format!("POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\n")).unwrap().unwrap();
        assert_eq!((head.framing, head.keep_alive, head.headers.len()), (Framing::Chunked, true, 1));
        let head = request("GET / HTTP/1.0\r\nConnection: keep-alive, x\r\n\r\n").unwrap().unwrap();
        assert!(head.keep_alive && head.headers["connection"] == "keep-alive, x");
    }

    #[test]
    fn a_field_connection_stands_last_and_several_keep_their_order() {
        let head = request("GET / HTTP/1.1\r\nConnection: close\r\nX-A: 1\r\nHost: h\r\n\r\n").unwrap().unwrap();
        let names: Vec<_> = head.headers.keys().map(HeaderName::as_str).collect();
        assert_eq!((head.keep_alive, names), (false, vec!["x-a", "host", "connection"]));
        let fields = "Connection: a\r\nConnection: keep-alive\r\nConnection: close, b\r\nHost: h\r\nConnection: c";
        let head = request(&format!("GET / HTTP/1.1\r\n{fields}\r\n\r\n")).unwrap().unwrap();
        let values: Vec<_> = head.headers.get_all(header::CONNECTION).iter().collect();
        assert!(!head.keep_alive);
        assert_eq!(values, ["a", "close, b", "c"]);
    }

    #[test]
    fn a_length_goes_on_without_zeros_before_it() {
        for (sent, length) in [("0005", 5), ("00", 0), ("0", 0), ("10", 10)] {
            let head =
                request(&format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {sent}\r\n\r\n")).unwrap().unwrap();
            let passed = &head.headers[header::CONTENT_LENGTH];
            assert_eq!((head.framing, passed), (Framing::Length(length), &HeaderValue::from(length)), "{sent}");
        }
    }

    #[test]
    fn a_reason_with_a_control_character_is_rejected() {
        let status = |reason: &str| {
            let mut buffer = BytesMut::from(format!("HTTP/1.1 200 {reason}\r\nX: 1\r\n\r\n").as_bytes());
            parse_response(&mut buffer, &Method::GET, LIMITS)
        };
        for reason in ["", "OK", "all\tis \u{e9}"] {
            assert!(status(reason).unwrap().is_some(), "{reason:?}");
        }
        for reason in ["\r", "O\rContent-Length: 5", "\0", "\u{7f}"] {
            assert_eq!(
                status(reason).unwrap_err(),
                Fault::Malformed("the reason holds a control character"),
                "{reason:?}"
            );
        }
    }

    #[test]
    fn a_part_of_a_head_is_waited_for() {
        let text = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
        for len in 0..text.len() {
            assert!(request(&text[..len]).unwrap().is_none(), "{len}");
        }
        assert!(request(text).unwrap().is_some());
    }
}
