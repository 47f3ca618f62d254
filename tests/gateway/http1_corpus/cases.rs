//! The corpus: the bytes of each case, and the expected result.

/// The expected result of a case.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Want {
    /// This status, then the end of the connection. The service gets nothing.
    Refused(u16),
    /// Like [`Want::Refused`], but the gateway keeps the connection after its answer.
    Answered(u16),
    /// The service gets this request line, these fields (a value that begins with `!` must not occur) and this body.
    Passed(&'static str, &'static [(&'static str, &'static str)], &'static str),
}

use Want::{Answered, Passed, Refused};

/// A name, the section of RFC 9112 (or 9110) that the case is about, the bytes sent, and the expected result.
pub(crate) type Case = (&'static str, &'static str, &'static [u8], Want);

/// Lengths for which two parsers may see two messages.
pub(crate) const LENGTHS: &[Case] = &[
    (
        "smuggling: a length and chunks",
        "6.1",
        b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "smuggling: chunks and a length",
        "6.1",
        b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "two different lengths",
        "6.3",
        b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        Refused(400),
    ),
    (
        "one length twice",
        "6.3",
        b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        Refused(400),
    ),
    ("a list of lengths", "6.3", b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 3, 3\r\n\r\nabc", Refused(400)),
    ("a length with a sign", "9110 8.6", b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: +3\r\n\r\nabc", Refused(400)),
    ("a negative length", "9110 8.6", b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: -3\r\n\r\nabc", Refused(400)),
    ("a length in parts", "9110 8.6", b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 1 0\r\n\r\nabc", Refused(400)),
    (
        "a hexadecimal length",
        "9110 8.6",
        b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 0x3\r\n\r\nabc",
        Refused(400),
    ),
    ("an empty length", "9110 8.6", b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n\r\n", Refused(400)),
    (
        "a length that overflows",
        "9110 8.6",
        b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551619\r\n\r\nabc",
        Refused(400),
    ),
    (
        "a length after a form feed",
        "5.5",
        b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: \x0c3\r\n\r\nabc",
        Refused(400),
    ),
    (
        "a length with blanks around it",
        "5.1",
        b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: \t 3 \t\r\n\r\nabc",
        Passed("POST /x HTTP/1.1", &[("content-length", "3")], "abc"),
    ),
    (
        "a length of 0",
        "6.2",
        b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
        Passed("POST /x HTTP/1.1", &[("transfer-encoding", "!")], ""),
    ),
    (
        "a GET with a body",
        "6",
        b"GET /x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
        Passed("GET /x HTTP/1.1", &[("content-length", "3")], "abc"),
    ),
    (
        "smuggling: xchunked",
        "6.1",
        b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "chunked twice in a list",
        "6.1",
        b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "chunked twice in two fields",
        "6.1",
        b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "chunked and identity in two fields",
        "6.1",
        b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "another coding before chunked",
        "6.1",
        b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        Refused(501),
    ),
    ("another coding alone", "6.1", b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\nabc", Refused(400)),
    (
        "chunked before another coding",
        "6.1",
        b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    ("identity", "6.1", b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\n\r\n", Refused(400)),
    ("an empty coding", "6.1", b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n", Refused(400)),
    (
        "chunked with a parameter",
        "7",
        b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked;a=b\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "chunked in quotes",
        "7",
        b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "smuggling: chunked after a vertical tab",
        "5.5",
        b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "smuggling: chunked on a folded line",
        "5.2",
        b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "smuggling: a blank before the colon of the coding",
        "5.1",
        b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "chunked after a tab, in capitals",
        "6.1",
        b"POST /x HTTP/1.1\r\nHost: h\r\nTRANSFER-ENCODING:\tChUnKeD\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        Passed("POST /x HTTP/1.1", &[("content-length", "!")], "abc"),
    ),
    (
        "chunks in HTTP/1.0",
        "6.1",
        b"POST /x HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
];

/// Chunks. The gateway forwards a request as it arrives, so some reach the service before they break.
pub(crate) const CHUNKS: &[Case] = &[
    ("chunks, an extension, leading zeros", "7.1", b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;a=\"b\"\r\nabc\r\n0002\r\nde\r\n0\r\n\r\n", Passed("POST /x HTTP/1.1", &[("content-length", "!")], "abcde")),
    ("capital digits", "7.1", b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n", Passed("POST /x HTTP/1.1", &[], "0123456789")),
    ("trailers that may not be there", "6.5.1", b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nContent-Length: 9\r\nAuthorization: b\r\n\r\n", Passed("POST /x HTTP/1.1", &[("authorization", "!"), ("content-length", "!")], "a")),
    ("a size with a sign", "7.1", b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n+3\r\nabc\r\n0\r\n\r\n", Refused(400)),
    ("a size with 0x", "7.1", b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n", Refused(400)),
    ("a size that overflows", "7.1", b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000003\r\nabc\r\n0\r\n\r\n", Refused(400)),
    ("a size after a blank", "7.1", b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n 3\r\nabc\r\n0\r\n\r\n", Refused(400)),
    ("a size before a blank", "7.1", b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n", Refused(400)),
    ("no size", "7.1", b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n\r\nabc\r\n0\r\n\r\n", Refused(400)),
    ("a size before a bare LF", "2.2", b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n", Refused(400)),
    ("smuggling: a bare LF in an extension", "7.1.1", b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2;\nxx\r\n4c\r\n0\r\n\r\n", Refused(400)),
    ("a bare CR in an extension", "7.1.1", b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;\rx\r\nabc\r\n0\r\n\r\n", Refused(400)),
    ("an extension without end", "7.1.1", concat_bytes_of_extension(), Refused(400)),
    ("a chunk longer than its size", "7.1", b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", Refused(400)),
    ("no CRLF after a chunk", "7.1", b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc0\r\n\r\n", Refused(400)),
    ("a trailer with a bare LF", "7.1.2", b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: 1\n\r\n", Refused(400)),
    ("a trailer without a colon", "7.1.2", b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nGET / HTTP/1.1\r\n\r\n", Refused(400)),
];

const fn concat_bytes_of_extension() -> &'static [u8] {
    const HEAD: &[u8] = b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;";
    const ALL: [u8; HEAD.len() + 600] = {
        let mut all = [b'x'; HEAD.len() + 600];
        let mut at = 0;
        while at < HEAD.len() {
            all[at] = HEAD[at];
            at += 1;
        }
        all
    };
    &ALL
}

/// Line ends, and characters that a line must not contain.
pub(crate) const LINES: &[Case] = &[
    ("a bare LF after the request line", "2.2", b"GET /x HTTP/1.1\nHost: h\r\n\r\n", Refused(400)),
    ("a bare LF after a field", "2.2", b"GET /x HTTP/1.1\r\nHost: h\nX: 1\r\n\r\n", Refused(400)),
    ("a bare LF at the end", "2.2", b"GET /x HTTP/1.1\r\nHost: h\r\n\n", Refused(400)),
    ("bare LFs alone", "2.2", b"GET /x HTTP/1.1\nHost: h\n\n", Refused(400)),
    ("a bare CR in a value", "2.2", b"GET /x HTTP/1.1\r\nHost: h\r\nX: a\rb\r\n\r\n", Refused(400)),
    ("two CRs before the LF", "2.2", b"GET /x HTTP/1.1\r\nHost: h\r\nX: a\r\r\n\r\n", Refused(400)),
    ("a bare CR in the request line", "2.2", b"GET /x\rHTTP/1.1 HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    ("a folded value", "5.2", b"GET /x HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n", Refused(400)),
    ("a blank before the first field", "2.2", b"GET /x HTTP/1.1\r\n X: a\r\nHost: h\r\n\r\n", Refused(400)),
    ("NUL in a value", "5.5", b"GET /x HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n", Refused(400)),
    ("NUL in a name", "5.1", b"GET /x HTTP/1.1\r\nHost: h\r\nX\0: a\r\n\r\n", Refused(400)),
    ("DEL in a value", "5.5", b"GET /x HTTP/1.1\r\nHost: h\r\nX: a\x7fb\r\n\r\n", Refused(400)),
    ("a blank before the colon", "5.1", b"GET /x HTTP/1.1\r\nHost: h\r\nX : a\r\n\r\n", Refused(400)),
    ("no colon", "5", b"GET /x HTTP/1.1\r\nHost: h\r\nX\r\n\r\n", Refused(400)),
    ("no name", "5", b"GET /x HTTP/1.1\r\nHost: h\r\n: a\r\n\r\n", Refused(400)),
    ("a name that is no token", "5.1", b"GET /x HTTP/1.1\r\nHost: h\r\nX(y): a\r\n\r\n", Refused(400)),
    ("a name beyond ASCII", "5.1", b"GET /x HTTP/1.1\r\nHost: h\r\nX\xe9: a\r\n\r\n", Refused(400)),
    ("one blank line before", "2.2", b"\r\nGET /x HTTP/1.1\r\nHost: h\r\n\r\n", Passed("GET /x HTTP/1.1", &[], "")),
    ("two blank lines before", "2.2", b"\r\n\r\nGET /x HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    (
        "blanks around a value, none in it",
        "5.1",
        b"GET /x HTTP/1.1\r\nHost: h\r\nX:\t a  b \t\r\nY:\r\n\r\n",
        Passed("GET /x HTTP/1.1", &[("x", "a  b"), ("y", "")], ""),
    ),
    (
        "a value beyond ASCII",
        "5.5",
        b"GET /x HTTP/1.1\r\nHost: h\r\nX: \xe9\r\n\r\n",
        Passed("GET /x HTTP/1.1", &[("x", "\u{e9}")], ""),
    ),
    (
        "names in any case",
        "5.1",
        b"GET /x HTTP/1.1\r\nHOST: h\r\nx-LoUd: 1\r\n\r\n",
        Passed("GET /x HTTP/1.1", &[("X-Loud", "1")], ""),
    ),
];

/// Request lines, targets and versions.
pub(crate) const TARGETS: &[Case] = &[
    (
        "a path is passed as sent",
        "3.2.1",
        b"GET //a/../b/./%2f%2E;c?d=/../e&&f=? HTTP/1.1\r\nHost: h\r\n\r\n",
        Passed("GET //a/../b/./%2f%2E;c?d=/../e&&f=? HTTP/1.1", &[], ""),
    ),
    (
        "a backslash is passed as sent",
        "3.2.1",
        b"GET /a\\..\\b?\\ HTTP/1.1\r\nHost: h\r\n\r\n",
        Passed("GET /a\\..\\b?\\ HTTP/1.1", &[], ""),
    ),
    (
        "absolute form: the target says whom",
        "3.2.2",
        b"GET http://target.example:81/x HTTP/1.1\r\nHost: other.example\r\n\r\n",
        Passed("GET /x HTTP/1.1", &[("x-forwarded-host", "target.example:81")], ""),
    ),
    ("absolute form of another scheme", "3.2.2", b"GET ftp://h/x HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    ("absolute form with a user", "3.2.2", b"GET http://u:p@h/x HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    ("a fragment", "3.2", b"GET /x#y HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    ("a target beyond ASCII", "3.2", b"GET /\xc3\xa9 HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    ("a relative target", "3.2", b"GET x HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    ("no target", "3", b"GET  HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    ("two blanks in the request line", "3", b"GET  /x HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    ("a tab in the request line", "3", b"GET\t/x HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    ("a fourth word", "3", b"GET /x y HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    ("asterisk of a GET", "3.2.4", b"GET * HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    ("CONNECT", "3.2.3", b"CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n", Answered(405)),
    ("CONNECT of a path", "3.2.3", b"CONNECT /x HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    ("an unknown method", "9110 9.1", b"BREW /x HTTP/1.1\r\nHost: h\r\n\r\n", Passed("BREW /x HTTP/1.1", &[], "")),
    (
        "a method in small letters is another",
        "9110 9.1",
        b"get /x HTTP/1.1\r\nHost: h\r\n\r\n",
        Passed("get /x HTTP/1.1", &[], ""),
    ),
    ("a method that is no token", "9110 9.1", b"GE(T /x HTTP/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    ("HTTP/0.9", "2.3", b"GET /x\r\n", Refused(400)),
    ("HTTP/1.0 without Host", "3.2", b"GET /x HTTP/1.0\r\n\r\n", Passed("GET /x HTTP/1.1", &[], "")),
    ("HTTP/1.2 is read as 1.1", "9110 2.5", b"GET /x HTTP/1.2\r\nHost: h\r\n\r\n", Passed("GET /x HTTP/1.1", &[], "")),
    ("HTTP/2.0 in a request line", "9110 2.5", b"GET /x HTTP/2.0\r\nHost: h\r\n\r\n", Refused(505)),
    ("a version in small letters", "2.3", b"GET /x http/1.1\r\nHost: h\r\n\r\n", Refused(400)),
    ("a version of more digits", "2.3", b"GET /x HTTP/1.10\r\nHost: h\r\n\r\n", Refused(400)),
];

/// `Host`, and hop-by-hop fields.
pub(crate) const FIELDS: &[Case] = &[
    ("no Host", "3.2", b"GET /x HTTP/1.1\r\n\r\n", Refused(400)),
    ("two Hosts", "3.2", b"GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", Refused(400)),
    ("one Host twice", "3.2", b"GET /x HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", Refused(400)),
    ("two Hosts in HTTP/1.0", "3.2", b"GET /x HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", Refused(400)),
    ("a Host with a path", "3.2", b"GET /x HTTP/1.1\r\nHost: a/b\r\n\r\n", Refused(400)),
    ("a Host with a user", "3.2", b"GET /x HTTP/1.1\r\nHost: u@a\r\n\r\n", Refused(400)),
    ("a Host with a port that is none", "3.2", b"GET /x HTTP/1.1\r\nHost: a:99999\r\n\r\n", Refused(400)),
    ("a Host that is a list", "3.2", b"GET /x HTTP/1.1\r\nHost: a, b\r\n\r\n", Refused(400)),
    ("smuggling: h2c is not passed on", "9110 7.8", b"GET /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", Passed("GET /x HTTP/1.1", &[("upgrade", "!"), ("http2-settings", "!")], "")),
    ("fields that Connection names end here", "9110 7.6.1", b"GET /x HTTP/1.1\r\nHost: h\r\nConnection: X-Hop , x-other\r\nX-Hop: 1\r\nX-Other: 2\r\nX-Kept: 3\r\n\r\n", Passed("GET /x HTTP/1.1", &[("x-hop", "!"), ("x-other", "!"), ("x-kept", "3")], "")),
    ("other fields of one hop end here", "9110 7.6.1", b"GET /x HTTP/1.1\r\nHost: h\r\nKeep-Alive: 5\r\nProxy-Connection: keep-alive\r\nTE: gzip\r\n\r\n", Passed("GET /x HTTP/1.1", &[("keep-alive", "!"), ("proxy-connection", "!"), ("te", "!")], "")),
    ("smuggling: Connection names the length", "9110 7.6.1", b"POST /x HTTP/1.1\r\nHost: h\r\nConnection: Content-Length\r\nContent-Length: 3\r\n\r\nabc", Passed("POST /x HTTP/1.1", &[], "abc")),
    ("smuggling: Connection names what the gateway sets", "9110 7.6.1", b"GET /x HTTP/1.1\r\nHost: h\r\nConnection: X-Forwarded-For, Host\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n", Passed("GET /x HTTP/1.1", &[("x-forwarded-for", "127.0.0.1")], "")),
    ("another expectation", "9110 10.1.1", b"POST /x HTTP/1.1\r\nHost: h\r\nExpect: a miracle\r\nContent-Length: 3\r\n\r\nabc", Refused(417)),
    ("an expectation of HTTP/1.0", "9110 10.1.1", b"POST /x HTTP/1.0\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc", Passed("POST /x HTTP/1.1", &[("expect", "!")], "abc")),
    ("fields of one name keep their order", "9110 5.3", b"GET /x HTTP/1.1\r\nHost: h\r\nCookie: a=1\r\nX-A: 1\r\nX-B: 2\r\nX-A: 3\r\nCookie: b=2\r\n\r\n", Passed("GET /x HTTP/1.1", &[("x-a", "1|3"), ("cookie", "a=1|b=2")], "")),
    ("TRACE", "9110 9.3.8", b"TRACE /x HTTP/1.1\r\nHost: h\r\n\r\n", Answered(405)),
];
