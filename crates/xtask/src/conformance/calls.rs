//! Valid sealed calls: both ends return the plaintext of the other.

use anyhow::ensure;
use serde_json::{Value, json};

use super::Tally;
use super::agreed::{Family, NOW_MS, SessionPair};
use super::driver::Driver;
use super::message::Message;

/// A call and its answer, in the clear.
struct Call {
    name: &'static str,
    method: &'static str,
    target: &'static str,
    headers: Value,
    body: Vec<u8>,
    status: u16,
    answer_headers: Value,
    answer: Vec<u8>,
}

const JSON: &[u8] = br#"{"schemeCode":"AEF","amount":5000}"#;
const TARGET: &str = "/transaction/purchase";

fn call(name: &'static str, method: &'static str, body: &[u8], status: u16, answer: &[u8]) -> Call {
    let headers = json!([]);
    Call {
        name,
        method,
        target: TARGET,
        headers: headers.clone(),
        body: body.to_vec(),
        status,
        answer_headers: headers,
        answer: answer.to_vec(),
    }
}

fn calls(wire: u64) -> Vec<Call> {
    let mut calls = vec![
        call("a purchase", "POST", JSON, 200, JSON),
        call("an empty body", "POST", b"", 200, b""),
        call("a long body", "POST", &[b'x'; 65_537], 200, &[b'y'; 65_537]),
    ];
    if wire == 3 {
        let headers = json!([["content-type", "application/json"], ["x-hidden", "secret, é and\ttab"]]);
        calls.extend([
            Call {
                target: "/transaction/purchase?a=1&b=%20",
                headers: headers.clone(),
                answer_headers: headers,
                ..call("headers within", "PUT", JSON, 201, JSON)
            },
            call("no body", "GET", b"", 200, JSON),
            call("an answer without a body", "DELETE", b"", 204, b""),
            call("an answer to HEAD", "HEAD", b"", 200, b""),
            call("many frames", "PATCH", &[7; 200_000], 404, &[8; 200_000]),
        ]);
    }
    calls
}

/// Plays all calls through both ends. Whatever the server, the claim must be the reference's.
pub(super) fn right(
    client: &mut Driver,
    server: &mut Driver,
    reference: &mut Driver,
    family: &Family,
    session: &SessionPair,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    for call in calls(family.wire) {
        let name = format!("{}: {}", family.name, call.name);
        if family.path.ends_with("/anon") && call.body.len() > 4096 {
            continue;
        }
        let held = through(client, server, reference, session, &call);
        tally.cell(&name, held);
    }
    Ok(())
}

fn through(
    client: &mut Driver,
    server: &mut Driver,
    reference: &mut Driver,
    session: &SessionPair,
    call: &Call,
) -> anyhow::Result<()> {
    let body_hex = hex(&call.body);
    let sealed = client.must(
        "client.seal",
        json!({
            "session": session.client, "method": call.method, "target": call.target, "headers": call.headers,
            "body_hex": body_hex, "now_ms": NOW_MS,
        }),
    )?;
    let request = Message::request(&sealed, call.method, call.target, NOW_MS).to("session", &session.record);
    let opened = server.must("server.open", request.clone())?;
    ensure!(opened["body_hex"] == body_hex, "another body came out");
    ensure!(opened["headers"] == call.headers, "other headers came out: {}", opened["headers"]);
    let claim = &reference.must("server.open", request)?["claim_hex"];
    ensure!(claim.is_string() && opened["claim_hex"] == *claim, "another claim: {}", opened["claim_hex"]);

    let answer_hex = hex(&call.answer);
    let answer = server.must(
        "server.seal",
        json!({
            "call": opened["call"], "status": call.status, "headers": call.answer_headers, "body_hex": answer_hex,
            "now_ms": NOW_MS,
        }),
    )?;
    ensure!(answer["status"] == call.status, "another status: {}", answer["status"]);
    let message = Message(json!({
        "status": answer["status"], "headers": answer["headers"], "body_hex": answer["body_hex"], "now_ms": NOW_MS,
    }));
    let read = client.must("client.open", message.to("call", &sealed["call"]))?;
    ensure!(read["body_hex"] == answer_hex, "another answer came out");
    ensure!(read["headers"] == call.answer_headers, "other headers of the answer: {}", read["headers"]);
    Ok(())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
