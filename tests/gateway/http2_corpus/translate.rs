//! Requests of the HTTP/1 corpus as HTTP/2 says them, and those whose result differs there.

use super::Fields;
use crate::http1_corpus::cases::Want;

/// The result of a case of the HTTP/1 corpus in HTTP/2, if it is another one.
pub(super) enum Instead {
    /// The request is rejected, because HTTP/2 is stricter.
    Rejected(&'static str),
    /// The service gets another form of the same request.
    Passed(Want, &'static str),
    /// HTTP/2 has no way to express the request.
    NoMeaning(&'static str),
}

use Instead::{NoMeaning, Passed, Rejected};

const OF_CONNECTION: &str = "fields of a connection make a request of HTTP/2 malformed (RFC 9113 section 8.2.2)";
const BLANKS: &str = "a value neither begins nor ends with a blank (RFC 9113 section 8.2.1)";
const NO_LINES: &str = "a head is a field block without lines, and a flag ends it";
const NO_VERSION: &str = "a request states no version";

/// Every case whose result differs, by its name in the HTTP/1 corpus, with the reason.
pub(super) const DIFFERENCES: &[(&str, Instead)] = &[
    ("a length with blanks around it", Rejected(BLANKS)),
    ("chunked after a tab, in capitals", Rejected(OF_CONNECTION)),
    ("a bare LF at the end", NoMeaning(NO_LINES)),
    ("bare LFs alone", NoMeaning(NO_LINES)),
    ("no colon", NoMeaning("a name and a value have a length each, and no colon between them")),
    ("one blank line before", NoMeaning(NO_LINES)),
    ("two blank lines before", NoMeaning(NO_LINES)),
    ("blanks around a value, none in it", Rejected(BLANKS)),
    (
        "absolute form: the target says whom",
        Rejected("scheme and authority are fields of their own, and :path begins with a slash"),
    ),
    ("HTTP/0.9", NoMeaning(NO_VERSION)),
    ("HTTP/1.0 without Host", Rejected("every request names its authority")),
    ("HTTP/1.2 is read as 1.1", NoMeaning(NO_VERSION)),
    ("HTTP/2.0 in a request line", NoMeaning(NO_VERSION)),
    ("a version in small letters", NoMeaning(NO_VERSION)),
    ("a version of more digits", NoMeaning(NO_VERSION)),
    ("smuggling: h2c is not passed on", Rejected(OF_CONNECTION)),
    ("fields that Connection names end here", Rejected(OF_CONNECTION)),
    ("other fields of one hop end here", Rejected(OF_CONNECTION)),
    ("smuggling: Connection names the length", Rejected(OF_CONNECTION)),
    ("smuggling: Connection names what the gateway sets", Rejected(OF_CONNECTION)),
    ("an expectation of HTTP/1.0", NoMeaning(NO_VERSION)),
    (
        "fields of one name keep their order",
        Passed(
            Want::Passed("GET /x HTTP/1.1", &[("x-a", "1|3"), ("cookie", "a=1; b=2")], ""),
            "parts of a cookie are joined (RFC 9113 section 8.2.3)",
        ),
    ),
];

/// Says a request of HTTP/1 in HTTP/2, without a judgement: what stands between the CRLFs is passed on as it is. Returns its
/// fields, where `Host` is `:authority`, and its body.
pub(super) fn request(sent: &[u8]) -> (Fields, Vec<u8>) {
    let end = sent.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let (head, body) = sent.split_at(end.map_or(sent.len(), |end| end + 4));
    let head: String = head.strip_suffix(b"\r\n\r\n").unwrap_or(head).iter().copied().map(char::from).collect();
    let mut lines = head.split("\r\n");
    let line = lines.next().unwrap_or_default();
    let (method, rest) = line.split_once(' ').unwrap_or((line, ""));
    let target = rest.rsplit_once(' ').map_or("", |(target, _version)| target);
    let mut fields: Fields = Vec::new();
    for line in lines {
        match (fields.last_mut(), line.split_once(':')) {
            // A folded line is part of the value before it.
            (Some((_, value)), _) if line.starts_with([' ', '\t']) => value.push_str(&format!("\r\n{line}")),
            (_, Some((name, value))) => {
                let value = value.strip_prefix(' ').unwrap_or(value);
                fields.push((name.to_ascii_lowercase(), value.to_owned()));
            }
            (_, None) => fields.push((line.to_owned(), String::new())),
        }
    }
    let hosts: Vec<usize> = (0..fields.len()).filter(|at| fields[*at].0 == "host").collect();
    let authority = if let [at] = hosts[..] { Some(fields.remove(at).1) } else { None };
    let mut pseudo: Vec<(&str, String)> = vec![(":method", method.to_owned())];
    if method == "CONNECT" && !target.starts_with('/') {
        pseudo.push((":authority", target.to_owned()));
    } else {
        pseudo.extend([(":scheme", "http".to_owned()), (":path", target.to_owned())]);
        pseudo.extend(authority.map(|authority| (":authority", authority)));
    }
    let pseudo = pseudo.into_iter().map(|(name, value)| (name.to_owned(), value));
    (pseudo.chain(fields).collect(), body.to_vec())
}

/// Names the authority by a field `host` in place of `:authority`, which RFC 9113 section 8.3.1 allows; `None` if there is none.
pub(super) fn with_host_field(fields: &Fields) -> Option<Fields> {
    let at = fields.iter().position(|(name, _)| name == ":authority")?;
    if fields[0].1 == "CONNECT" {
        return None;
    }
    let mut fields = fields.clone();
    let (_, authority) = fields.remove(at);
    fields.push(("host".into(), authority));
    Some(fields)
}
