//! HTTP/1 against Node (llhttp) and hyper. What ours accepts, the others read the same or reject; what ours rejects and another
//! accepts is of a class in a table. Two readers that disagree on where a message ends are request smuggling.

use std::collections::BTreeMap;

use bytes::BytesMut;
use http::{HeaderMap, Method, Uri};
use sealway_runtime::http::h1::{ChunkStep, Decoder, Fault, Framing, HeadLimits, parse_request, parse_response};
use serde_json::{Value, json};

use crate::peer::Peer;
use crate::{Random, cases, hex, http1_input, hyper, report, unhex};

const LIMITS: HeadLimits = HeadLimits { bytes_max: 16 * 1024, fields_max: 64 };

/// Reasons for which ours rejects what another reader may accept, by the text of the error.
const STRICTER: &[(&str, &str)] = &[
    ("a line ends in a bare LF", "RFC 9112 section 2.2 allows a recipient to accept it"),
    ("a bare LF", "the same, in front of a request"),
    ("a bare CR", "RFC 9112 section 2.2: invalid, or replaced by a blank"),
    ("a second blank line", "RFC 9112 section 2.2 asks for at least one to be ignored"),
    ("no Host", "RFC 9112 section 3.2 asks for 400; a library leaves it to its service"),
    ("Host stands twice", "the same"),
    ("Host is no host", "the same"),
    ("the request target is none", "forms of RFC 9112 section 3.2 only, no fragment, no user, http and https alone"),
    ("no HTTP version", "RFC 9112 section 2.3 has one spelling"),
    ("unsupported version", "major version 1 alone"),
    ("Transfer-Encoding in HTTP/1.0", "RFC 9112 section 6.1: the framing is faulty"),
    ("Transfer-Encoding stands twice", "one field is enough for chunked alone"),
    ("chunked stands twice", "RFC 9112 section 7.1 forbids it"),
    ("unknown transfer coding", "chunked alone"),
    (
        "the last transfer coding is not chunked",
        "the body of a request would have no length; other codings are not supported",
    ),
    ("both Content-Length and Transfer-Encoding", "RFC 9112 section 6.1 allows to reject it"),
    ("Content-Length stands twice", "RFC 9110 section 8.6 allows to reject equal ones"),
    ("Content-Length is no number", "digits alone; RFC 9110 section 8.6 allows to reject a list"),
    ("a chunk's size is no hexadecimal number", "at most 15 digits, blanks only before an extension"),
    ("the reason holds a control character", "RFC 9112 section 4: the reason phrase has none"),
    ("a field value holds a control character", "RFC 9110 section 5.5 allows it to be replaced by a blank"),
    ("a field name is no token", "RFC 9112 section 5.1; folded lines are rejected too (section 5.2)"),
    ("a field line without a colon", "a folded line without a colon (RFC 9112 section 5.2)"),
    ("unknown expectation", "RFC 9110 section 10.1.1 allows 417"),
    ("the status is no three digits", "RFC 9112 section 4; from 100 to 999"),
    ("the request line is no method, target and version", "one blank between the parts"),
    ("the request line holds what is no visible ASCII", "it is another protocol"),
    ("the method is no token", "RFC 9110 section 9.1"),
    ("a chunk does not end in CRLF", "a bare LF there"),
];

/// A message as a reader understood it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Message {
    /// The method and the target of a request, or the status of an answer.
    pub(crate) start: Start,
    /// The fields by name, except those of the connection.
    pub(crate) fields: BTreeMap<String, Vec<Vec<u8>>>,
    pub(crate) body: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Start {
    Request(String, Uri),
    Answer(u16),
}

/// The end of a connection, as a reader understood it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    /// Every byte belongs to a message, or the connection was to be closed.
    Clean,
    /// A message is not complete.
    Incomplete,
    Error(String),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reading {
    pub(crate) messages: Vec<Message>,
    pub(crate) end: End,
}

/// Returns fields that say the same to every reader: those of the connection are known to its ends alone, and Host is replaced if
/// the target has an authority.
pub(crate) fn fields<'a>(
    start: &Start,
    all: impl Iterator<Item = (&'a str, &'a [u8])>,
) -> BTreeMap<String, Vec<Vec<u8>>> {
    let has_authority =
        matches!(start, Start::Request(method, uri) if method != "CONNECT" && uri.authority().is_some());
    let mut fields: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    for (name, value) in all {
        let name = name.to_ascii_lowercase();
        let is_of_connection = ["transfer-encoding", "keep-alive", "connection", "expect"].contains(&name.as_str());
        if !(is_of_connection || has_authority && name == "host") {
            // Ours passes a length on without zeros in front.
            let value = match std::str::from_utf8(value).ok().and_then(|digits| digits.parse::<u64>().ok()) {
                Some(length) if name == "content-length" => length.to_string().into_bytes(),
                _ => trim(value).to_vec(),
            };
            fields.entry(name).or_default().push(value);
        }
    }
    fields
}

fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

pub(crate) fn of_map(headers: &HeaderMap) -> impl Iterator<Item = (&str, &[u8])> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()))
}

/// Reads a body; `None` if it is not complete.
fn body(buffer: &mut BytesMut, framing: Framing) -> Result<Option<Vec<u8>>, Fault> {
    let (mut decoder, mut body) = (Decoder::new(framing), Vec::new());
    loop {
        match decoder.decode(buffer)? {
            ChunkStep::Data(data) => body.extend_from_slice(&data),
            ChunkStep::End(_) => return Ok(Some(body)),
            ChunkStep::More => return Ok(decoder.may_end_here().then_some(body)),
        }
    }
}

/// Reads the requests of a connection with ours.
fn our_requests(input: &[u8]) -> Reading {
    let (mut buffer, mut messages) = (BytesMut::from(input), Vec::new());
    let end = loop {
        let head = match parse_request(&mut buffer, LIMITS) {
            Ok(Some(head)) => head,
            Ok(None) if buffer.is_empty() || buffer.as_ref() == b"\r\n" => break End::Clean,
            Ok(None) => break End::Incomplete,
            Err(fault) => break End::Error(fault.to_string()),
        };
        let start = Start::Request(head.method.to_string(), head.uri);
        let fields = fields(&start, of_map(&head.headers));
        if head.method == Method::CONNECT {
            // What follows is not HTTP.
            messages.push(Message { start, fields, body: Vec::new() });
            break End::Clean;
        }
        match body(&mut buffer, head.framing) {
            Ok(Some(body)) => messages.push(Message { start, fields, body }),
            Ok(None) => break End::Incomplete,
            Err(fault) => break End::Error(fault.to_string()),
        }
        if !head.keep_alive {
            break End::Clean;
        }
    };
    Reading { messages, end }
}

/// Reads the answer on a connection with ours.
fn our_answer(input: &[u8], method: &Method) -> Reading {
    let mut buffer = BytesMut::from(input);
    let reading = |messages, end| Reading { messages, end };
    loop {
        let head = match parse_response(&mut buffer, method, LIMITS) {
            Ok(Some(head)) => head,
            Ok(None) => return reading(Vec::new(), End::Incomplete),
            Err(fault) => return reading(Vec::new(), End::Error(fault.to_string())),
        };
        if head.status.is_informational() && head.status != 101 {
            continue;
        }
        let start = Start::Answer(head.status.as_u16());
        let fields = fields(&start, of_map(&head.headers));
        return match body(&mut buffer, head.framing) {
            Ok(Some(body)) => reading(vec![Message { start, fields, body }], End::Clean),
            Ok(None) => reading(Vec::new(), End::Incomplete),
            Err(fault) => reading(Vec::new(), End::Error(fault.to_string())),
        };
    }
}

/// Reads an answer of the program around Node.
fn of_node(answer: &Value) -> Reading {
    let message = |message: &Value| {
        let text = |name: &str| String::from_utf8_lossy(&unhex(message[name].as_str().unwrap())).into_owned();
        let start = match message["status"].as_u64() {
            Some(status) => Start::Answer(u16::try_from(status).unwrap()),
            // A target that is no URI is a message of its own, which equals no other.
            None => Start::Request(
                message["method"].as_str().unwrap().to_owned(),
                text("target").parse().unwrap_or_else(|_| Uri::from_static("/no-uri")),
            ),
        };
        let raw: Vec<Vec<u8>> =
            message["headers"].as_array().unwrap().iter().map(|text| unhex(text.as_str().unwrap())).collect();
        let names: Vec<String> = raw.iter().step_by(2).map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        let all = names.iter().map(String::as_str).zip(raw.iter().skip(1).step_by(2).map(Vec::as_slice));
        Message { fields: fields(&start, all), start, body: unhex(message["body"].as_str().unwrap()) }
    };
    let end = match answer["end"].as_str().unwrap() {
        "clean" => End::Clean,
        "incomplete" => End::Incomplete,
        code => End::Error(code.to_owned()),
    };
    Reading { messages: answer["messages"].as_array().unwrap().iter().map(message).collect(), end }
}

/// Differences between ours and another reader, counted by class.
#[derive(Default)]
struct Tally {
    agreed: usize,
    messages: usize,
    stricter: BTreeMap<String, usize>,
    stricter_other: BTreeMap<String, usize>,
    wrong: Vec<String>,
}

impl Tally {
    fn compare(&mut self, input: &[u8], ours: &Reading, other: &Reading) {
        let same = ours.messages.iter().zip(&other.messages).take_while(|(ours, other)| ours == other).count();
        self.messages += same;
        let verdict = (ours.messages.len() > same, other.messages.len() > same);
        let class = match (verdict, &ours.end, &other.end) {
            // One message, two readings.
            ((true, true), _, _) => None,
            // Ours goes on where the other has ended: the other must reject it, and never wait for more of it.
            ((true, false), _, End::Error(code)) => Some((&mut self.stricter_other, code.clone())),
            ((true, false), _, _) => None,
            // The other goes on where ours has ended: ours must reject it, for a reason of the table.
            ((false, true), End::Error(text), _) if STRICTER.iter().any(|(known, _)| known == text) => {
                Some((&mut self.stricter, text.clone()))
            }
            ((false, true), _, _) => None,
            // All is read, and the other waits for more.
            ((false, false), End::Clean, End::Incomplete) => None,
            ((false, false), _, _) => {
                self.agreed += 1;
                return;
            }
        };
        match class {
            Some((classes, text)) => *classes.entry(text).or_default() += 1,
            None => self.wrong.push(format!("{}\n  ours: {ours:?}\n  other: {other:?}", input.escape_ascii())),
        }
    }

    fn end(self, what: &str, other: &str) {
        let shown: Vec<&String> = self.wrong.iter().take(6).collect();
        assert!(self.wrong.is_empty(), "{} differences to {other}, such as {shown:#?}", self.wrong.len());
        assert!(self.agreed > 0 && self.messages > 0, "nothing was compared with {other}");
        let sum = |classes: &BTreeMap<String, usize>| classes.values().sum::<usize>();
        let (ours, theirs) = (sum(&self.stricter), sum(&self.stricter_other));
        let result = format!(
            "{} messages read the same; ours alone rejects {ours}, in {} classes of the table; the other alone rejects {theirs}",
            self.messages,
            self.stricter.len(),
        );
        report(what, other, self.agreed + ours + theirs, &result);
    }
}

#[test]
fn requests_of_http_1_are_read_as_node_and_hyper_read_them() {
    let mut random = Random::new(1);
    let mut node = Peer::start("node", "fuzz/peers/http1.mjs");
    let (mut to_node, mut to_hyper) = (Tally::default(), Tally::default());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for _ in 0..cases(3000) / 500 + 1 {
        let inputs: Vec<Vec<u8>> = (0..500).map(|_| http1_input::requests(&mut random)).collect();
        let questions: Vec<Value> = inputs.iter().map(|input| json!({"input": hex(input)})).collect();
        for (input, answer) in inputs.iter().zip(node.ask(&questions)) {
            let ours = our_requests(input);
            to_node.compare(input, &ours, &of_node(&answer));
            to_hyper.compare(input, &ours, &runtime.block_on(hyper::requests(input)));
        }
    }
    to_node.end("HTTP/1 requests", "Node (llhttp)");
    to_hyper.end("HTTP/1 requests", "hyper");
}

#[test]
fn answers_of_http_1_are_read_as_node_and_hyper_read_them() {
    let mut random = Random::new(2);
    let mut node = Peer::start("node", "fuzz/peers/http1.mjs");
    let (mut to_node, mut to_hyper) = (Tally::default(), Tally::default());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let methods = [Method::GET, Method::POST, Method::HEAD];
    for _ in 0..cases(2000) / 500 + 1 {
        let inputs: Vec<_> = (0..500).map(|at| (&methods[at % 3], http1_input::response(&mut random))).collect();
        let question = |(method, input): &(&Method, Vec<u8>)| json!({"method": method.as_str(), "input": hex(input)});
        let questions: Vec<Value> = inputs.iter().map(question).collect();
        for ((method, input), answer) in inputs.iter().zip(node.ask(&questions)) {
            let ours = our_answer(input, method);
            to_node.compare(input, &ours, &of_node(&answer));
            to_hyper.compare(input, &ours, &runtime.block_on(hyper::answer(input, method)));
        }
    }
    to_node.end("HTTP/1 answers", "Node (llhttp)");
    to_hyper.end("HTTP/1 answers", "hyper");
}
