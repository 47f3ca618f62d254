//! Random connections of HTTP/1: messages near the edges of RFC 9112, and bytes behind them.

use crate::Random;

const METHODS: &[&str] =
    &["GET", "POST", "PUT", "HEAD", "OPTIONS", "DELETE", "PATCH", "M-SEARCH", "get", "X", "CONNECT", "G@T"];
const TARGETS: &[&str] = &[
    "/",
    "/a?b=c",
    "/%2e%2e/a",
    "//a",
    "*",
    "http://h/",
    "http://h:80/a?b",
    "http://h",
    "https://[::1]:8/a",
    "h:443",
    "a",
    "/a#b",
    "/\u{e9}",
    "/a|b",
    "/\"",
    "/a b",
    "http://u@h/",
    "ftp://h/",
    "/\\",
    "",
];
const VERSIONS: &[&str] = &[
    "HTTP/1.1",
    "HTTP/1.1",
    "HTTP/1.1",
    "HTTP/1.1",
    "HTTP/1.0",
    "HTTP/1.2",
    "HTTP/2.0",
    "HTTP/0.9",
    "http/1.1",
    "HTTP/1.10",
    "HTTP/1,1",
];
/// Fields that every implementation reads.
const PLAIN: &[&str] = &[
    "Host: h",
    "host: h",
    "X-A: 1",
    "x-a: 2",
    "Accept: */*",
    "X-B:\t v \t",
    "X-Empty:",
    "Cookie: a=b; c=d",
    "User-Agent: x",
    "Connection: keep-alive",
    "Connection: close",
    "Keep-Alive: timeout=5",
    "TE: trailers",
    "X-Obs: \u{e9}",
];
/// Fields at the edges, most of them about framing.
const EDGES: &[&str] = &[
    "Content-Length: 5",
    "Content-Length: 3",
    "content-length: 05",
    "Content-Length: +5",
    "Content-Length: -1",
    "Content-Length:",
    "Content-Length: 5, 5",
    "Content-Length: 5,3",
    "Content-Length: 0x5",
    "Content-Length: 5 5",
    "Content-Length : 5",
    "Content-Length: 18446744073709551616",
    "Content-Length: 99999999999999999999",
    "Content-Length: 5;",
    "Content-Length:\u{b}5",
    "Transfer-Encoding: chunked",
    "transfer-encoding: Chunked",
    "Transfer-Encoding: chunked, chunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: chunked, gzip",
    "Transfer-Encoding: identity",
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding: \u{b}chunked",
    "Transfer-Encoding: chunked;q=1",
    "Transfer-Encoding:",
    "Transfer-Encoding : chunked",
    "Transfer_Encoding: chunked",
    "Transfer-Encoding: , chunked",
    "Transfer-Encoding: \"chunked\"",
    "Transfer-Encoding: chunked,",
    "Connection: close, x",
    "Connection: x, keep-alive",
    "Connection: transfer-encoding",
    "Connection:",
    "Connection: upgrade",
    "Upgrade: websocket",
    "Expect: 100-continue",
    "Expect: x",
    "Host: h2",
    "Host:",
    "Host: a b",
    "Host: u@h",
    "Host : h",
    " folded",
    "\tfolded",
    "X-A",
    ": v",
    "X A: v",
    "X-A\t: v",
    "X-Nul: a\0b",
    "X-Cr: a\rb",
    "X-Del: \u{7f}",
    "X-Ctl: \u{1}",
    "(x): v",
    "X-\u{e9}: v",
];
const INTERESTING: &[u8] = b"\r\n\r\n :,;\t\0\x0b\x7f/-0159afxX=\"\\\xff\xe9";

fn line_end(random: &mut Random) -> &'static str {
    if random.one_in(60) { random.pick(&["\n", "\r", "\r\r\n", "\n\r\n", " \r\n"]) } else { "\r\n" }
}

/// Writes fields, one of them `Host` as a rule, and returns whether a body is chunked, and the length that it was given.
fn fields(random: &mut Random, out: &mut Vec<u8>, is_request: bool) -> (bool, usize) {
    let mut fields: Vec<&str> = Vec::new();
    if is_request && !random.one_in(12) {
        fields.push("Host: h");
    }
    for _ in 0..random.below(3) {
        let field = random.pick(PLAIN);
        // A second Host is an edge.
        if !field.to_ascii_lowercase().starts_with("host") {
            fields.push(field);
        }
    }
    let (mut chunked, mut len) = (false, 0);
    match random.below(5) {
        0 | 1 => {
            fields.push("Content-Length: 5");
            len = 5;
        }
        2 | 3 => {
            fields.push("Transfer-Encoding: chunked");
            chunked = true;
        }
        _ => {}
    }
    if random.one_in(3) {
        let edge = random.pick(EDGES);
        fields.insert(random.below(fields.len() + 1), edge);
        // Half of the edges of framing frame the message alone.
        let lower = edge.to_ascii_lowercase();
        if random.one_in(2) && (lower.starts_with("content") || lower.starts_with("transfer")) {
            fields.retain(|field| *field == edge || field.starts_with("Host"));
            chunked = lower.starts_with("transfer");
            len = 5;
        }
    }
    for field in fields {
        // Characters below U+0100 are bytes here: some fields have bytes that are no UTF-8.
        out.extend(field.chars().map(|character| character as u8));
        out.extend_from_slice(line_end(random).as_bytes());
    }
    out.extend_from_slice(line_end(random).as_bytes());
    (chunked, len)
}

fn body(random: &mut Random, out: &mut Vec<u8>, (chunked, len): (bool, usize)) {
    if !chunked {
        let len = if random.one_in(10) { random.below(8) } else { len };
        out.extend_from_slice(&b"GET / HTTP/1.1\r\n"[..len]);
        return;
    }
    for _ in 0..random.below(3) {
        let len = 1 + random.below(20);
        let data = random.bytes(len);
        let size = match random.below(12) {
            0 => format!("{:X}", data.len()),
            1 => format!("000{:x}", data.len()),
            2 => format!("{:x};a=b", data.len()),
            3 => format!("{:x} ; a=\"b\"", data.len()),
            4 => format!("{:x};", data.len()),
            5 if random.one_in(2) => {
                let form = random.pick(&[
                    "0x5",
                    "+5",
                    "-5",
                    " 5",
                    "5 ",
                    "5\t",
                    "fffffffffffffffff",
                    "10000000000000005",
                    "",
                    "g",
                    "5;\na",
                    "5;\ra",
                ]);
                (*form).to_owned()
            }
            _ => format!("{:x}", data.len()),
        };
        out.extend_from_slice(size.as_bytes());
        out.extend_from_slice(line_end(random).as_bytes());
        out.extend_from_slice(&data);
        out.extend_from_slice(line_end(random).as_bytes());
    }
    out.extend_from_slice(if random.one_in(30) { b"000" } else { b"0" });
    out.extend_from_slice(line_end(random).as_bytes());
    if random.one_in(8) {
        let trailer = random.pick(&["X-T: 1", "x-t:\t2 ", "Content-Length: 9", "Host: t", "X T: 1", " folded", "X-T"]);
        out.extend_from_slice(trailer.as_bytes());
        out.extend_from_slice(line_end(random).as_bytes());
    }
    out.extend_from_slice(line_end(random).as_bytes());
}

/// Returns what a client sends on one connection: one to three requests, or bytes near them.
pub(crate) fn requests(random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    for number in 0..=random.below(3) {
        if random.one_in(30) {
            out.extend_from_slice(line_end(random).as_bytes());
        }
        let is_edge = random.one_in(6);
        let (method, target, version) = if is_edge {
            (random.pick(METHODS), random.pick(TARGETS), random.pick(VERSIONS))
        } else {
            (random.pick(&METHODS[..3]), random.pick(&TARGETS[..4]), VERSIONS[0])
        };
        let line = if random.one_in(60) {
            format!("{method}  {target} {version}")
        } else {
            format!("{method} {target} {version}")
        };
        out.extend(line.chars().map(|character| character as u8));
        out.extend_from_slice(line_end(random).as_bytes());
        let framing = fields(random, &mut out, true);
        body(random, &mut out, framing);
        if number == 0 && random.one_in(20) {
            out.extend_from_slice(random.pick(&[&b"GET"[..], b"\r\n", b"\0", b"\r\n\r\n", b"\n"]));
        }
    }
    edit(random, &mut out);
    out
}

/// Returns what a server sends on one connection: interim answers as a rule none, an answer, and bytes behind it.
pub(crate) fn response(random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..random.below(5) / 3 {
        out.extend_from_slice(
            random.pick(&[&b"HTTP/1.1 100 Continue\r\n\r\n"[..], b"HTTP/1.1 103 Early Hints\r\nX-A: 1\r\n\r\n"]),
        );
    }
    let version = if random.one_in(8) { random.pick(VERSIONS) } else { VERSIONS[0] };
    let status = if random.one_in(3) {
        random.pick(&[
            "204 No Content",
            "304 Not Modified",
            "205 Reset",
            "404",
            "404 ",
            "099 X",
            "1000 X",
            "20 X",
            "600 X",
            "999 X",
            "200\tOK",
            "200 \u{e9}",
            "200  OK",
            "+200 OK",
            "200 a\0b",
            "200 a\rb",
        ])
    } else {
        "200 OK"
    };
    out.extend(format!("{version} {status}").chars().map(|character| character as u8));
    out.extend_from_slice(line_end(random).as_bytes());
    let framing = fields(random, &mut out, false);
    body(random, &mut out, framing);
    edit(random, &mut out);
    out
}

/// Edits a third of the inputs, and cuts some.
fn edit(random: &mut Random, out: &mut Vec<u8>) {
    if random.one_in(3) {
        for _ in 0..=random.below(2) {
            random.mutate(out, INTERESTING);
        }
    }
    if random.one_in(15) {
        out.truncate(random.below(out.len() + 1));
    }
}
