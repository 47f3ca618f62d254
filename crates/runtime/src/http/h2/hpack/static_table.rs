//! The static table (RFC 7541 appendix A), parsed at compile time, and its inverse for the encoder.

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, StatusCode};

use super::FIELD_OVERHEAD;
use super::decoder::Entry;
use super::field::{Field, Scheme};

/// The number of entries; the dynamic table begins after them.
pub(super) const LEN: usize = 61;

pub(super) const AUTHORITY: usize = 1;
pub(super) const METHOD: usize = 2;
pub(super) const METHOD_POST: usize = 3;
pub(super) const PATH: usize = 4;
pub(super) const PATH_INDEX: usize = 5;
pub(super) const SCHEME: usize = 6;
pub(super) const SCHEME_HTTPS: usize = 7;
pub(super) const STATUS: usize = 8;
pub(super) const ACCEPT_ENCODING: usize = 16;
pub(super) const AUTHORIZATION: usize = 23;
pub(super) const CONTENT_LENGTH: usize = 28;
pub(super) const CONTENT_RANGE: usize = 30;
pub(super) const COOKIE: usize = 32;
pub(super) const DATE: usize = 33;
pub(super) const ETAG: usize = 34;
pub(super) const EXPIRES: usize = 36;
pub(super) const IF_MODIFIED_SINCE: usize = 40;
pub(super) const IF_NONE_MATCH: usize = 41;
pub(super) const LAST_MODIFIED: usize = 44;
pub(super) const LOCATION: usize = 46;
pub(super) const PROXY_AUTHORIZATION: usize = 49;
pub(super) const RANGE: usize = 50;
pub(super) const SET_COOKIE: usize = 55;

/// The value of the entry [`ACCEPT_ENCODING`], the only header of the table that has one.
pub(super) const ACCEPT_ENCODING_VALUE: &str = "gzip, deflate";

/// Entry 1 is the first.
pub(super) static ENTRIES: [Entry; LEN] = [
    pseudo(Field::Authority(Bytes::new()), ":authority", ""),
    pseudo(Field::Method(Method::GET), ":method", "GET"),
    pseudo(Field::Method(Method::POST), ":method", "POST"),
    pseudo(Field::Path(Bytes::from_static(b"/")), ":path", "/"),
    pseudo(Field::Path(Bytes::from_static(b"/index.html")), ":path", "/index.html"),
    pseudo(Field::Scheme(Scheme::Http), ":scheme", "http"),
    pseudo(Field::Scheme(Scheme::Https), ":scheme", "https"),
    pseudo(Field::Status(StatusCode::OK), ":status", "200"),
    pseudo(Field::Status(StatusCode::NO_CONTENT), ":status", "204"),
    pseudo(Field::Status(StatusCode::PARTIAL_CONTENT), ":status", "206"),
    pseudo(Field::Status(StatusCode::NOT_MODIFIED), ":status", "304"),
    pseudo(Field::Status(StatusCode::BAD_REQUEST), ":status", "400"),
    pseudo(Field::Status(StatusCode::NOT_FOUND), ":status", "404"),
    pseudo(Field::Status(StatusCode::INTERNAL_SERVER_ERROR), ":status", "500"),
    header("accept-charset", ""),
    header("accept-encoding", ACCEPT_ENCODING_VALUE),
    header("accept-language", ""),
    header("accept-ranges", ""),
    header("accept", ""),
    header("access-control-allow-origin", ""),
    header("age", ""),
    header("allow", ""),
    header("authorization", ""),
    header("cache-control", ""),
    header("content-disposition", ""),
    header("content-encoding", ""),
    header("content-language", ""),
    header("content-length", ""),
    header("content-location", ""),
    header("content-range", ""),
    header("content-type", ""),
    header("cookie", ""),
    header("date", ""),
    header("etag", ""),
    header("expect", ""),
    header("expires", ""),
    header("from", ""),
    header("host", ""),
    header("if-match", ""),
    header("if-modified-since", ""),
    header("if-none-match", ""),
    header("if-range", ""),
    header("if-unmodified-since", ""),
    header("last-modified", ""),
    header("link", ""),
    header("location", ""),
    header("max-forwards", ""),
    header("proxy-authenticate", ""),
    header("proxy-authorization", ""),
    header("range", ""),
    header("referer", ""),
    header("refresh", ""),
    header("retry-after", ""),
    header("server", ""),
    header("set-cookie", ""),
    header("strict-transport-security", ""),
    header("transfer-encoding", ""),
    header("user-agent", ""),
    header("vary", ""),
    header("via", ""),
    header("www-authenticate", ""),
];

const fn pseudo(field: Field, name: &str, value: &str) -> Entry {
    Entry { field, name_len: name.len() as u32, size: (name.len() + value.len() + FIELD_OVERHEAD) as u32 }
}

const fn header(name: &'static str, value: &'static str) -> Entry {
    pseudo(Field::Header(HeaderName::from_static(name), HeaderValue::from_static(value)), name, value)
}

/// Returns the length of the name of an entry.
pub(super) fn name_len(index: usize) -> usize {
    index.checked_sub(1).and_then(|position| ENTRIES.get(position)).map_or(0, |entry| entry.name_len as usize)
}

/// Returns whether a value is that of a header's entry.
pub(super) fn is_header_value(index: usize, value: &[u8]) -> bool {
    if index == ACCEPT_ENCODING { value == ACCEPT_ENCODING_VALUE.as_bytes() } else { value.is_empty() }
}

/// Returns the index of a header's name. The compiler makes a jump table of it, so that no text is compared.
pub(super) fn name_index(name: &HeaderName) -> Option<usize> {
    Some(match *name {
        header::ACCEPT_CHARSET => 15,
        header::ACCEPT_ENCODING => ACCEPT_ENCODING,
        header::ACCEPT_LANGUAGE => 17,
        header::ACCEPT_RANGES => 18,
        header::ACCEPT => 19,
        header::ACCESS_CONTROL_ALLOW_ORIGIN => 20,
        header::AGE => 21,
        header::ALLOW => 22,
        header::AUTHORIZATION => AUTHORIZATION,
        header::CACHE_CONTROL => 24,
        header::CONTENT_DISPOSITION => 25,
        header::CONTENT_ENCODING => 26,
        header::CONTENT_LANGUAGE => 27,
        header::CONTENT_LENGTH => CONTENT_LENGTH,
        header::CONTENT_LOCATION => 29,
        header::CONTENT_RANGE => CONTENT_RANGE,
        header::CONTENT_TYPE => 31,
        header::COOKIE => COOKIE,
        header::DATE => DATE,
        header::ETAG => ETAG,
        header::EXPECT => 35,
        header::EXPIRES => EXPIRES,
        header::FROM => 37,
        header::HOST => 38,
        header::IF_MATCH => 39,
        header::IF_MODIFIED_SINCE => IF_MODIFIED_SINCE,
        header::IF_NONE_MATCH => IF_NONE_MATCH,
        header::IF_RANGE => 42,
        header::IF_UNMODIFIED_SINCE => 43,
        header::LAST_MODIFIED => LAST_MODIFIED,
        header::LINK => 45,
        header::LOCATION => LOCATION,
        header::MAX_FORWARDS => 47,
        header::PROXY_AUTHENTICATE => 48,
        header::PROXY_AUTHORIZATION => PROXY_AUTHORIZATION,
        header::RANGE => RANGE,
        header::REFERER => 51,
        header::REFRESH => 52,
        header::RETRY_AFTER => 53,
        header::SERVER => 54,
        header::SET_COOKIE => SET_COOKIE,
        header::STRICT_TRANSPORT_SECURITY => 56,
        header::TRANSFER_ENCODING => 57,
        header::USER_AGENT => 58,
        header::VARY => 59,
        header::VIA => 60,
        header::WWW_AUTHENTICATE => 61,
        _ => return None,
    })
}

/// Returns the index of a status that is in the table.
pub(super) fn status_index(status: StatusCode) -> Option<usize> {
    Some(match status {
        StatusCode::OK => STATUS,
        StatusCode::NO_CONTENT => 9,
        StatusCode::PARTIAL_CONTENT => 10,
        StatusCode::NOT_MODIFIED => 11,
        StatusCode::BAD_REQUEST => 12,
        StatusCode::NOT_FOUND => 13,
        StatusCode::INTERNAL_SERVER_ERROR => 14,
        _ => return None,
    })
}
