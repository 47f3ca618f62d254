//! The HTTP/1 corpus through HTTP/2, and requests that only HTTP/2 can say. What HTTP/1 rejects is rejected over HTTP/2 as well:
//! the stream ends without an answer or with a status of 4xx, the service gets nothing, and the connection's next request is
//! served. What passes arrives with the same meaning, exactly once.

mod answers;
mod cases;
mod translate;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use anyhow::ensure;
use cases::{Own, Part};
use translate::{DIFFERENCES, Instead};

use crate::http1_corpus::cases::{self as http1, Case, Want};
use crate::http1_corpus::{Recorder, expect, values, with};
use crate::raw_http2::{DATA, END_HEADERS, END_STREAM, Fields, HEADERS, Outcome, Wire, block, frame, outcome};

/// A second request on the connection.
const TAIL: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":path", "/tail"), (":authority", "tail.example")];
/// Fields that the gateway adds to requests. Those about framing are checked by the services.
const ADDED: [&str; 10] = [
    "host",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "via",
    "traceparent",
    "forwarded",
    "connection",
    "content-length",
    "transfer-encoding",
];

fn headers(flags: u8, stream: u32, fields: &Fields) -> Vec<u8> {
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    frame(HEADERS, END_HEADERS | flags, stream, &block(&fields))
}

/// Returns the frames of a request on stream 1.
fn frames(fields: &Fields, body: &[u8]) -> Vec<u8> {
    if body.is_empty() {
        return headers(END_STREAM, 1, fields);
    }
    [headers(0, 1, fields), frame(DATA, END_STREAM, 1, body)].concat()
}

/// Sends the tail, which is the next and only request that the service gets.
fn check_tail(wire: &mut Wire, upstream: &dyn Recorder) -> anyhow::Result<()> {
    wire.write(&frame(HEADERS, END_HEADERS | END_STREAM, 3, &block(&TAIL)))?;
    let Outcome::Answered(answer) = outcome(wire, 3)? else { anyhow::bail!("the next request is not answered") };
    ensure!((answer.value(":status"), &answer.body[..]) == (Some("200"), b"served"), "the next request: {answer:?}");
    let (received, body) = upstream.next()?;
    ensure!(received.line == "GET /tail HTTP/1.1" && body.is_empty(), "it reached the service: {received:?} {body:?}");
    Ok(())
}

/// Sends a request on stream 1. `names` are those that the service may get.
fn check(
    to: SocketAddr,
    upstream: &dyn Recorder,
    sent: &[u8],
    names: &BTreeSet<&str>,
    want: &Want,
) -> anyhow::Result<()> {
    let mut wire = Wire::open(to, &[])?;
    wire.write(sent)?;
    let got = outcome(&mut wire, 1)?;
    match (want, got) {
        (Want::Passed(line, fields, body), Outcome::Answered(answer)) => {
            ensure!((answer.value(":status"), &answer.body[..]) == (Some("200"), b"served"), "{answer:?}");
            let (received, got) = upstream.next()?;
            let is_right = |result: Result<(), String>| result.map_err(anyhow::Error::msg);
            is_right(expect("line", received.line.as_str(), *line))?;
            for (name, value) in *fields {
                is_right(expect(name, values(&received, name), (*value != "!").then(|| (*value).to_owned())))?;
            }
            is_right(expect("body", String::from_utf8_lossy(&got).as_ref(), *body))?;
            let other = received.headers.iter().find(|(name, _)| {
                let name = name.to_ascii_lowercase();
                let is_expected = fields.iter().any(|(known, _)| *known == name);
                !is_expected && !names.contains(name.as_str()) && !ADDED.contains(&name.as_str())
            });
            ensure!(other.is_none(), "a field that was not sent: {other:?}");
        }
        (Want::Refused(_) | Want::Answered(_), Outcome::Answered(answer)) => {
            let status: u16 = answer.value(":status").unwrap_or_default().parse()?;
            ensure!((400..500).contains(&status), "{answer:?}");
        }
        (Want::Refused(_) | Want::Answered(_), Outcome::Reset(_, part)) => {
            ensure!(part.head.is_empty(), "an answer has begun: {part:?}");
        }
        (_, got) => anyhow::bail!("{got:?}"),
    }
    check_tail(&mut wire, upstream)
}

fn names(fields: &Fields) -> BTreeSet<&str> {
    fields.iter().map(|(name, _)| name.as_str()).collect()
}

/// Drains requests that a failed case let through: they must not count for the next one.
fn drain(upstream: &dyn Recorder) {
    while !upstream.is_untouched() {}
}

fn check_http1_cases(cases: &[Case]) {
    with(|to, upstream| {
        let mut failed = Vec::new();
        for (name, section, sent, want) in cases {
            let difference = DIFFERENCES.iter().find(|(known, _)| known == name).map(|(_, instead)| instead);
            let want = match difference {
                Some(Instead::NoMeaning(_)) => continue,
                Some(Instead::Rejected(_)) => &Want::Refused(400),
                Some(Instead::Passed(want, _)) => want,
                None => want,
            };
            let (fields, body) = translate::request(sent);
            for fields in [translate::with_host_field(&fields), Some(fields)].into_iter().flatten() {
                if let Err(err) = check(to, upstream, &frames(&fields, &body), &names(&fields), want) {
                    failed.push(format!("{name} ({section}): {err:#}\n    {fields:?}"));
                    drain(upstream);
                }
            }
        }
        assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
    });
}

#[test]
fn each_difference_to_the_http1_corpus_is_one_of_its_cases() {
    let all = [http1::LENGTHS, http1::LINES, http1::TARGETS, http1::FIELDS].concat();
    for (name, instead) in DIFFERENCES {
        let (Instead::Rejected(why) | Instead::Passed(_, why) | Instead::NoMeaning(why)) = instead;
        println!("{name}: {why}");
        assert_eq!(all.iter().filter(|case| case.0 == *name).count(), 1, "{name}");
    }
}

// Chunks of HTTP/1 have no meaning in HTTP/2, whose frames have a length each; bodies and trailers are among the cases of its own.

#[test]
fn lengths_that_http1_refuses_are_refused_over_http2() {
    check_http1_cases(http1::LENGTHS);
}

#[test]
fn characters_that_http1_refuses_are_refused_over_http2() {
    check_http1_cases(http1::LINES);
}

#[test]
fn targets_and_methods_that_http1_refuses_are_refused_over_http2_and_others_pass_as_sent() {
    check_http1_cases(http1::TARGETS);
}

#[test]
fn hosts_and_fields_that_http1_refuses_are_refused_over_http2() {
    check_http1_cases(http1::FIELDS);
}

fn owned(fields: &[(&str, &str)]) -> Fields {
    fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn check_own_cases(cases: &[Own]) {
    with(|to, upstream| {
        let mut failed = Vec::new();
        for (name, parts, want) in cases {
            let mut sent = Vec::new();
            let mut sent_names = Fields::new();
            for (at, part) in parts.iter().enumerate() {
                let flags = if at + 1 == parts.len() { END_STREAM } else { 0 };
                match part {
                    Part::Head(fields) => {
                        sent.extend(headers(flags, 1, &owned(fields)));
                        sent_names.extend(owned(fields));
                    }
                    Part::Data(data) => sent.extend(frame(DATA, flags, 1, data)),
                    Part::Trailers(fields) => {
                        sent.extend(headers(flags, 1, &owned(fields)));
                        sent_names.extend(
                            fields.iter().map(|(name, value)| (format!("trailer {name}"), (*value).to_owned())),
                        );
                    }
                    Part::Frame(kind, flags, payload) => sent.extend(frame(*kind, *flags, 1, payload)),
                }
            }
            if let Err(err) = check(to, upstream, &sent, &names(&sent_names), want) {
                failed.push(format!("{name}: {err:#}"));
                drain(upstream);
            }
        }
        assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), cases.len(), failed.join("\n"));
    });
}

#[test]
fn no_pseudo_header_carries_a_second_request_to_a_service() {
    check_own_cases(cases::PSEUDO_HEADERS);
}

#[test]
fn no_field_carries_a_second_request_to_a_service() {
    check_own_cases(cases::FIELDS);
}

#[test]
fn a_body_is_as_long_as_announced_and_is_no_second_request() {
    check_own_cases(cases::BODIES);
}

#[test]
fn trailers_are_checked_as_heads_are() {
    check_own_cases(cases::TRAILERS);
}
