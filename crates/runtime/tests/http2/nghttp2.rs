//! Either side of a conversation by libnghttp2: a small program in C that gets the plan, and says what it has seen.

use std::fmt::Write as _;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

use super::plan::{BodyPlan, Exchange, Plan, Reading, Settings, announce};
use super::verdict::{End, Got, GotAnswer, GotRequest, Record};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http2/nghttp2_peer.c");

/// Compiles the program once, and returns its path.
fn program() -> PathBuf {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(folder.path().join("peer"));
        let compiled = cc.args([PROGRAM, "-lnghttp2"]).output().expect("cc is missing: run scripts/setup-tests.sh");
        let said = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success(), "without libnghttp2-dev, run scripts/setup-tests.sh: {said}");
        folder
    });
    folder.path().join("peer")
}

/// A program that takes part in a conversation.
pub(crate) struct Peer {
    running: JoinHandle<String>,
}

/// Begins a client, or a server. Returns the other end of its connection.
fn begin(
    role: &'static str,
    settings: Settings,
    plan: &Plan,
    fields: impl Fn(&Exchange) -> Fields,
) -> (Peer, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    let far = OwnedFd::from(far.into_std().unwrap());
    let (text, seed) = (text(settings, plan, fields), plan.seed);
    let running = tokio::task::spawn_blocking(move || {
        let program = program();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut command = Command::new(program);
        command.arg(role).arg(file.path()).stdin(Stdio::from(far)).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        // The descriptor of this process would keep the connection open.
        drop(command);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "seed {seed}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    });
    (Peer { running }, near)
}

/// Names, values, and whether they are sensitive.
type Fields = Vec<(String, Vec<u8>, bool)>;

pub(crate) fn client(plan: &Plan) -> (Peer, UnixStream) {
    begin("client", plan.client, plan, |exchange| {
        let mut headers = exchange.headers.clone();
        announce(&mut headers, &exchange.body);
        let pseudo = [
            (":method", exchange.method.as_str()),
            (":scheme", "http"),
            (":authority", "a.example"),
            (":path", &exchange.path),
        ];
        joined(pseudo, &headers)
    })
}

pub(crate) fn server(plan: &Plan) -> (Peer, UnixStream) {
    begin("server", plan.server, plan, |exchange| {
        let mut headers = exchange.answer_headers.clone();
        announce(&mut headers, &exchange.answer);
        joined([(":status", exchange.status.as_str())], &headers)
    })
}

fn joined<'a>(pseudo: impl IntoIterator<Item = (&'a str, &'a str)>, headers: &HeaderMap) -> Fields {
    let pseudo = pseudo.into_iter().map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec(), false));
    pseudo.chain(listed(headers)).collect()
}

fn listed(headers: &HeaderMap) -> Fields {
    let listed =
        headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec(), value.is_sensitive()));
    listed.collect()
}

fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() { "-".into() } else { bytes.iter().map(|byte| format!("{byte:02x}")).collect() }
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.trim_start_matches('-').as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// Writes a plan as the program reads it.
fn text(settings: Settings, plan: &Plan, fields: impl Fn(&Exchange) -> Fields) -> String {
    let mut text = String::new();
    let Settings { streams_max, stream_window, connection_window, frame_max, table_size, .. } = settings;
    let seed = plan.seed;
    writeln!(text, "settings {streams_max} {stream_window} {connection_window} {frame_max} {table_size} {seed}")
        .unwrap();
    let first = Exchange::first(seed);
    for exchange in std::iter::once(&first).chain(&plan.exchanges) {
        let fields = fields(exchange);
        let is_request = fields[0].0 == ":method";
        let body = if is_request { &exchange.body } else { &exchange.answer };
        let BodyPlan { fails_after, is_slow, says_end, salt, .. } = body;
        let number = |count: Option<usize>| count.map_or(-1, |count| count as i64);
        let reading = match exchange.reading {
            Reading::First => 'F',
            Reading::Meanwhile => 'M',
            Reading::Never => 'N',
        };
        let (len, fails, given_up) = (body.len(), number(*fails_after), number(exchange.given_up_after));
        let (slow, end, reads_slowly) = (u8::from(*is_slow), u8::from(*says_end), u8::from(exchange.reads_slowly));
        writeln!(text, "exchange {len} {salt} {fails} {slow} {end} {given_up} {reading} {reads_slowly}").unwrap();
        let mut line = |kind: &str, name: &str, value: &[u8]| {
            writeln!(text, "{kind} {} {}", hex(name.as_bytes()), hex(value)).unwrap();
        };
        for (name, value, is_sensitive) in &fields {
            line(if *is_sensitive { "sensitive" } else { "field" }, name, value);
        }
        for (name, value, _) in body.trailers.iter().flat_map(listed) {
            line("trailer", &name, &value);
        }
        if !is_request {
            for (status, headers) in &exchange.interim {
                writeln!(text, "interim").unwrap();
                for (name, value, _) in joined([(":status", status.as_str())], headers) {
                    writeln!(text, "hint {} {}", hex(name.as_bytes()), hex(&value)).unwrap();
                }
            }
        }
        for piece in &body.pieces {
            writeln!(text, "piece {piece}").unwrap();
        }
    }
    text
}

/// The program's record of one exchange.
#[derive(Default)]
struct Transcript {
    /// Pseudo-headers, and fields, of each head.
    heads: Vec<(Vec<(String, String)>, HeaderMap)>,
    body: Got,
    is_given_up: bool,
    error: Option<String>,
}

fn parse(output: &str) -> Vec<(usize, Transcript)> {
    let mut all: Vec<(usize, Transcript)> = Vec::new();
    for line in output.lines() {
        let mut words = line.split(' ');
        let kind = words.next().unwrap();
        let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if kind == "exchange" {
            all.push((first.parse().unwrap(), Transcript::default()));
            continue;
        }
        let seen = &mut all.last_mut().unwrap().1;
        match kind {
            "head" => seen.heads.push(Default::default()),
            "trailers" => seen.body.trailers = Some(HeaderMap::new()),
            "field" => {
                let (name, value) = (unhex(first), unhex(second));
                if name.starts_with(b":") {
                    let text = |bytes| String::from_utf8(bytes).unwrap();
                    seen.heads.last_mut().unwrap().0.push((text(name), text(value)));
                } else {
                    let name = HeaderName::from_bytes(&name).unwrap();
                    let headers = match &mut seen.body.trailers {
                        Some(trailers) => trailers,
                        None => &mut seen.heads.last_mut().unwrap().1,
                    };
                    headers.append(name, HeaderValue::from_bytes(&value).unwrap());
                }
            }
            "data" => {
                assert!(seen.body.trailers.is_none(), "data follows the trailers");
                seen.body.data.extend_from_slice(&unhex(first));
            }
            "whole" => seen.body.end = End::Whole,
            "early" => {
                seen.body.end = End::Early;
                seen.error = Some(line.to_owned());
            }
            "given-up" => seen.is_given_up = true,
            _ => panic!("{line}"),
        }
    }
    all
}

impl Peer {
    /// Waits for the end of a client, and returns the answers that it got.
    pub(crate) async fn answers(self, plan: &Plan) -> Vec<GotAnswer> {
        let seen = parse(&self.running.await.unwrap());
        assert_eq!(seen.len(), plan.exchanges.len(), "seed {}", plan.seed);
        let answer = |(_, seen): (usize, Transcript)| {
            let heads = seen.heads.into_iter().map(|(pseudo, headers)| {
                let [(name, status)] = &pseudo[..] else { panic!("{pseudo:?}") };
                assert_eq!(name, ":status");
                (status.parse::<StatusCode>().unwrap(), headers)
            });
            let (interim, mut last): (Vec<_>, Vec<_>) = heads.partition(|(status, _)| status.is_informational());
            assert!(last.len() < 2, "seed {}: two answers", plan.seed);
            GotAnswer { interim, head: last.pop(), body: seen.body, is_given_up: seen.is_given_up, error: seen.error }
        };
        seen.into_iter().map(answer).collect()
    }

    /// Waits for the end of a server, and returns the requests that it has seen.
    pub(crate) async fn requests(self, plan: &Plan) -> Arc<Record> {
        let record = Record::default();
        for (number, seen) in parse(&self.running.await.unwrap()) {
            let mut heads = seen.heads.into_iter();
            let (Some((pseudo, headers)), None) = (heads.next(), heads.next()) else { panic!("no head, or two") };
            let value = |name: &str| pseudo.iter().find(|(known, _)| known == name).unwrap().1.clone();
            let mut body = seen.body;
            if plan.exchanges[number].reading == Reading::Never {
                body.end = End::Unread;
            }
            let method: Method = value(":method").parse().unwrap();
            let request = GotRequest { method, authority: value(":authority"), path: value(":path"), headers, body };
            record.lock().insert(number, request);
        }
        Arc::new(record)
    }
}
