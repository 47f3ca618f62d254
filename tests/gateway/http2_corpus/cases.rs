//! Requests that only HTTP/2 can say.

use crate::http1_corpus::cases::Want;
use crate::raw_http2::{DATA, END_HEADERS, END_STREAM};

/// A part of a request: a frame, or several. The last one ends the stream.
pub(super) enum Part {
    Head(&'static [(&'static str, &'static str)]),
    Data(&'static [u8]),
    Trailers(&'static [(&'static str, &'static str)]),
    /// A kind, flags and a payload.
    Frame(u8, u8, &'static [u8]),
}

/// A name, the parts of the request, and the expected result.
pub(super) type Own = (&'static str, &'static [Part], Want);

use Part::{Data, Frame, Head, Trailers};

const REJECTED: Want = Want::Refused(400);
const SMUGGLED: &str = "a\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n";

const fn passed(line: &'static str, fields: &'static [(&'static str, &'static str)], body: &'static str) -> Want {
    Want::Passed(line, fields, body)
}

/// A GET of `/x` from `h` with more fields.
macro_rules! get {
    ($(($name:expr, $value:expr)),* $(,)?) => {
        &[Head(&[(":method", "GET"), (":scheme", "http"), (":path", "/x"), (":authority", "h"), $(($name, $value)),*])]
    };
}

/// A POST to `/x` of `h` with more fields, and what follows its head.
macro_rules! post {
    ([$(($name:expr, $value:expr)),*] $(, $part:expr)* $(,)?) => {
        &[
            Head(&[(":method", "POST"), (":scheme", "http"), (":path", "/x"), (":authority", "h"), $(($name, $value)),*]),
            $($part),*
        ]
    };
}

pub(super) const PSEUDO_HEADERS: &[Own] = &[
    ("a plain request", get![], passed("GET /x HTTP/1.1", &[("x-forwarded-host", "h")], "")),
    (
        "a request in :method",
        &[Head(&[
            (":method", "GET /smuggled HTTP/1.1\r\nX:"),
            (":scheme", "http"),
            (":path", "/"),
            (":authority", "h"),
        ])],
        REJECTED,
    ),
    (
        "a blank in :method",
        &[Head(&[(":method", "GET /y"), (":scheme", "http"), (":path", "/"), (":authority", "h")])],
        REJECTED,
    ),
    (
        "an empty :method",
        &[Head(&[(":method", ""), (":scheme", "http"), (":path", "/"), (":authority", "h")])],
        REJECTED,
    ),
    (
        "a request in :path",
        &[Head(&[
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/ HTTP/1.1\r\nHost: h\r\n\r\nGET /smuggled"),
            (":authority", "h"),
        ])],
        REJECTED,
    ),
    (
        "a blank in :path",
        &[Head(&[(":method", "GET"), (":scheme", "http"), (":path", "/ HTTP/1.1"), (":authority", "h")])],
        REJECTED,
    ),
    (
        "a tab in :path",
        &[Head(&[(":method", "GET"), (":scheme", "http"), (":path", "/\tx"), (":authority", "h")])],
        REJECTED,
    ),
    (
        "NUL in :path",
        &[Head(&[(":method", "GET"), (":scheme", "http"), (":path", "/\0"), (":authority", "h")])],
        REJECTED,
    ),
    (
        ":path beyond ASCII",
        &[Head(&[(":method", "GET"), (":scheme", "http"), (":path", "/\u{e9}"), (":authority", "h")])],
        REJECTED,
    ),
    (
        "an absolute :path",
        &[Head(&[(":method", "GET"), (":scheme", "http"), (":path", "http://other.example/x"), (":authority", "h")])],
        REJECTED,
    ),
    (
        ":path of another authority",
        &[Head(&[(":method", "GET"), (":scheme", "http"), (":path", "//other.example/x"), (":authority", "h")])],
        passed("GET //other.example/x HTTP/1.1", &[("x-forwarded-host", "h")], ""),
    ),
    (
        ":path that begins with an @",
        &[Head(&[(":method", "GET"), (":scheme", "http"), (":path", "@other.example/x"), (":authority", "h")])],
        REJECTED,
    ),
    (
        ":path that begins with a port",
        &[Head(&[(":method", "GET"), (":scheme", "http"), (":path", ":81/x"), (":authority", "h")])],
        REJECTED,
    ),
    (
        ":path is a query",
        &[Head(&[(":method", "GET"), (":scheme", "http"), (":path", "?x"), (":authority", "h")])],
        REJECTED,
    ),
    (
        ":path is empty",
        &[Head(&[(":method", "GET"), (":scheme", "http"), (":path", ""), (":authority", "h")])],
        REJECTED,
    ),
    (
        ":path is empty with OPTIONS",
        &[Head(&[(":method", "OPTIONS"), (":scheme", "http"), (":path", ""), (":authority", "h")])],
        REJECTED,
    ),
    (
        ":path twice",
        &[Head(&[(":method", "GET"), (":scheme", "http"), (":path", "/x"), (":path", "/y"), (":authority", "h")])],
        REJECTED,
    ),
    (
        "a request in :scheme",
        &[Head(&[
            (":method", "GET"),
            (":scheme", "http://h/smuggled HTTP/1.1\r\nX: "),
            (":path", "/"),
            (":authority", "h"),
        ])],
        REJECTED,
    ),
    (
        "an authority in :scheme",
        &[Head(&[(":method", "GET"), (":scheme", "http://other.example/?"), (":path", "/"), (":authority", "h")])],
        REJECTED,
    ),
    (
        "another scheme",
        &[Head(&[(":method", "GET"), (":scheme", "ftp"), (":path", "/x"), (":authority", "h")])],
        REJECTED,
    ),
    (
        "another scheme beside Host",
        &[Head(&[(":method", "GET"), (":scheme", "ftp"), (":path", "/x"), ("host", "h")])],
        REJECTED,
    ),
    ("no :scheme", &[Head(&[(":method", "GET"), (":path", "/x"), (":authority", "h")])], REJECTED),
    (
        "a line in :authority",
        &[Head(&[(":method", "GET"), (":scheme", "http"), (":path", "/x"), (":authority", "h\r\nX: y")])],
        REJECTED,
    ),
    (
        "a request in :authority",
        &[Head(&[(":method", "GET"), (":scheme", "http"), (":path", "/x"), (":authority", SMUGGLED)])],
        REJECTED,
    ),
    (
        ":authority is empty",
        &[Head(&[(":method", "GET"), (":scheme", "http"), (":path", "/x"), (":authority", "")])],
        REJECTED,
    ),
    (
        ":authority twice",
        &[Head(&[(":method", "GET"), (":scheme", "http"), (":path", "/x"), (":authority", "h"), (":authority", "h")])],
        REJECTED,
    ),
    (":authority and another Host", get![("host", "other.example")], REJECTED),
    (":authority and the same Host", get![("host", "H")], passed("GET /x HTTP/1.1", &[], "")),
    (":authority and two Hosts", get![("host", "h"), ("host", "h")], REJECTED),
    (
        ":authority with a user",
        &[Head(&[(":method", "GET"), (":scheme", "http"), (":path", "/x"), (":authority", "u:p@h")])],
        REJECTED,
    ),
    (
        ":authority after a field",
        &[Head(&[(":method", "GET"), (":scheme", "http"), (":path", "/x"), ("x", "y"), (":authority", "h")])],
        REJECTED,
    ),
    (":status in a request", get![(":status", "200")], REJECTED),
    ("an unknown pseudo-header", get![(":x", "y")], REJECTED),
    (":protocol without CONNECT", get![(":protocol", "websocket")], REJECTED),
    (
        "CONNECT with a path",
        &[Head(&[(":method", "CONNECT"), (":scheme", "http"), (":path", "/x"), (":authority", "h")])],
        REJECTED,
    ),
];

pub(super) const FIELDS: &[Own] = &[
    ("a capital in a name", get![("X-a", "1")], REJECTED),
    ("a length in capitals", post!([("Content-Length", "3")], Data(b"abc")), REJECTED),
    ("a name with a colon", get![("x:y", "1")], REJECTED),
    ("a name that begins with a blank", get![(" x", "1")], REJECTED),
    ("a name that is a line", get![("x: 1\r\ny", "2")], REJECTED),
    ("a request in a name", get![("x: a\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: h\r\n\r\nGET /y", "1")], REJECTED),
    ("a coding in a name", post!([("transfer-encoding: chunked\r\nx", "1")], Data(b"0\r\n\r\n")), REJECTED),
    ("an empty name", get![("", "1")], REJECTED),
    ("DEL in a name", get![("x\x7f", "1")], REJECTED),
    ("a request in a value", get![("x", SMUGGLED)], REJECTED),
    ("a line in a value", get![("x", "1\r\ntransfer-encoding: chunked")], REJECTED),
    ("LF in a value", get![("x", "1\ny: 2")], REJECTED),
    ("CR in a value", get![("x", "1\ry: 2")], REJECTED),
    ("NUL in a value", get![("x", "1\0")], REJECTED),
    ("a blank before a value", get![("x", " 1")], REJECTED),
    ("a tab behind a value", get![("x", "1\t")], REJECTED),
    ("an empty value", get![("x", "")], passed("GET /x HTTP/1.1", &[("x", "")], "")),
    ("a line in a cookie", get![("cookie", "a=1"), ("cookie", "b\r\nx: y")], REJECTED),
    (
        "a line in Host",
        &[Head(&[(":method", "GET"), (":scheme", "http"), (":path", "/x"), ("host", "h\r\nx: y")])],
        REJECTED,
    ),
    ("Connection", get![("connection", "close")], REJECTED),
    ("Keep-Alive", get![("keep-alive", "5")], REJECTED),
    ("Proxy-Connection", get![("proxy-connection", "close")], REJECTED),
    ("Upgrade", get![("upgrade", "websocket")], REJECTED),
    ("TE of a coding", get![("te", "gzip")], REJECTED),
    ("TE of trailers", get![("te", "trailers")], passed("GET /x HTTP/1.1", &[("te", "trailers")], "")),
    ("a coding of identity", get![("transfer-encoding", "identity")], REJECTED),
    (
        "a block in two frames, cut within a name",
        &[Frame(1, END_STREAM, b"\x82\x86\x84\x41\x01h\x00\x05x-"), Frame(9, END_HEADERS, b"cut\x01y")],
        passed("GET / HTTP/1.1", &[("x-cut", "y")], ""),
    ),
    (
        "names that a service may read as others",
        get![("content_length", "3"), ("transfer_encoding", "chunked")],
        passed("GET /x HTTP/1.1", &[("content_length", "3"), ("content-length", "!")], ""),
    ),
];

pub(super) const BODIES: &[Own] = &[
    ("a body without a length", post!([], Data(b"abc")), passed("POST /x HTTP/1.1", &[("content-length", "!")], "abc")),
    (
        "a body that is a request",
        post!([], Data(b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n")),
        passed("POST /x HTTP/1.1", &[], "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"),
    ),
    (
        "a GET with a body",
        &[
            Head(&[(":method", "GET"), (":scheme", "http"), (":path", "/x"), (":authority", "h")]),
            Data(b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"),
        ],
        passed("GET /x HTTP/1.1", &[], "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"),
    ),
    ("an empty body in a frame of its own", post!([], Data(b"")), passed("POST /x HTTP/1.1", &[], "")),
    (
        "a length of 0 and an empty frame",
        post!([("content-length", "0")], Data(b"")),
        passed("POST /x HTTP/1.1", &[("transfer-encoding", "!")], ""),
    ),
    (
        "a body in frames, empty ones among them",
        post!([("content-length", "5")], Data(b"ab"), Data(b""), Data(b"cde"), Data(b"")),
        passed("POST /x HTTP/1.1", &[("content-length", "5")], "abcde"),
    ),
    (
        "a body with padding",
        post!([("content-length", "3")], Frame(DATA, END_STREAM | 8, b"\x04abcGET ")),
        passed("POST /x HTTP/1.1", &[("content-length", "3")], "abc"),
    ),
    (
        "a length with zeros before it",
        post!([("content-length", "0003")], Data(b"abc")),
        passed("POST /x HTTP/1.1", &[("content-length", "3")], "abc"),
    ),
    (
        "a body longer than its length",
        post!([("content-length", "3")], Data(b"abcGET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n")),
        REJECTED,
    ),
    (
        "a body longer than its length in a second frame",
        post!([("content-length", "3")], Data(b"abc"), Data(b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n")),
        REJECTED,
    ),
    ("a body shorter than its length", post!([("content-length", "30")], Data(b"abc")), REJECTED),
    (
        "a body shorter than its length, ended by an empty frame",
        post!([("content-length", "30")], Data(b"abc"), Data(b"")),
        REJECTED,
    ),
    (
        "a body shorter than its length, ended by trailers",
        post!([("content-length", "30")], Data(b"abc"), Trailers(&[("x", "1")])),
        REJECTED,
    ),
    ("a length without a body", post!([("content-length", "3")]), REJECTED),
    (
        "a body of a length of 0",
        post!([("content-length", "0")], Data(b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n")),
        REJECTED,
    ),
    (
        "two lengths, the first is right",
        post!([("content-length", "3"), ("content-length", "4")], Data(b"abc")),
        REJECTED,
    ),
    (
        "padding as long as the payload",
        post!([], Frame(DATA, END_STREAM | 8, b"\x00abc")),
        passed("POST /x HTTP/1.1", &[], "abc"),
    ),
];

pub(super) const TRAILERS: &[Own] = &[
    (
        "trailers pass",
        post!([("te", "trailers")], Data(b"abc"), Trailers(&[("x-sum", "1"), ("x-sum", "2")])),
        passed("POST /x HTTP/1.1", &[("trailer x-sum", "1|2")], "abc"),
    ),
    (
        "trailers that may not be there",
        post!(
            [],
            Data(b"abc"),
            Trailers(&[
                ("authorization", "b"),
                ("host", "other"),
                ("content-type", "a/b"),
                ("cookie", "c"),
                ("x-kept", "1")
            ])
        ),
        passed(
            "POST /x HTTP/1.1",
            &[
                ("trailer authorization", "!"),
                ("trailer host", "!"),
                ("trailer content-type", "!"),
                ("trailer cookie", "!"),
                ("authorization", "!"),
                ("trailer x-kept", "1"),
            ],
            "abc",
        ),
    ),
    (
        "a length in trailers",
        post!([], Data(b"abc"), Trailers(&[("content-length", "9")])),
        passed("POST /x HTTP/1.1", &[("trailer content-length", "!"), ("content-length", "!")], "abc"),
    ),
    ("a coding in trailers", post!([], Data(b"abc"), Trailers(&[("transfer-encoding", "chunked")])), REJECTED),
    ("Connection in trailers", post!([], Data(b"abc"), Trailers(&[("connection", "close")])), REJECTED),
    ("a pseudo-header in trailers", post!([], Data(b"abc"), Trailers(&[(":path", "/smuggled")])), REJECTED),
    (":status in trailers", post!([], Data(b"abc"), Trailers(&[(":status", "200")])), REJECTED),
    ("a capital in trailers", post!([], Data(b"abc"), Trailers(&[("X-sum", "1")])), REJECTED),
    ("a request in trailers", post!([], Data(b"abc"), Trailers(&[("x", SMUGGLED)])), REJECTED),
    (
        "a request in a name of trailers",
        post!([], Data(b"abc"), Trailers(&[("x: a\r\n\r\nGET /smuggled HTTP/1.1\r\nhost", "h")])),
        REJECTED,
    ),
    ("trailers that do not end the stream", post!([], Data(b"abc"), Trailers(&[("x", "1")]), Data(b"d")), REJECTED),
    (
        "trailers without a body",
        post!([], Trailers(&[("x", "1")])),
        passed("POST /x HTTP/1.1", &[("trailer x", "1")], ""),
    ),
];
