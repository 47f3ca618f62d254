//! One sealed purchase, reported step by step, with a summary of the durations. `--json` prints one line of JSON
//! instead.

#[path = "purchase/mod.rs"]
mod purchase;

use std::process::ExitCode;

use purchase::{BODY, PATH, Setup, fail, milliseconds, say};
use sealway_client::{Timings, Trace};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> ExitCode {
    let (setup, arguments) = match Setup::read() {
        Ok(setup) => setup,
        Err(what) => return fail(2, &what),
    };
    if let Some(other) = arguments.first() {
        return fail(2, &format!("unknown argument {other}: expected --json or nothing"));
    }
    match run(&setup).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => fail(1, &err.to_string()),
    }
}

async fn run(setup: &Setup) -> Result<(), Box<dyn std::error::Error>> {
    let client = setup.client()?;
    setup.narrate(&format!("Agreeing a session of wire {} with {} …", setup.wire.name(), setup.session_url));
    let session = client.session().await?;
    let (id, suite) = (session.id, session.agreed.as_ref().map(|agreed| agreed.suite.name()));
    let sec = session.expires_in_sec;
    setup.narrate(&format!("  session {id}, for {sec} s, suite {}", suite.unwrap_or("P-256 of the old wires")));
    if let Some(agreed) = &session.agreed {
        setup.narrate(&format!("  signed by identity key {}", agreed.key_id));
    }
    setup.narrate(&format!("Sealing POST {PATH} to {} …", setup.server_url));
    let (head, body) = setup.purchase(&client).await?.into_parts();
    let body: Value = body.json().await?;
    setup.narrate(&format!("  {} {body}", head.status.as_u16()));
    let trace = head.extensions.get::<Trace>().ok_or("an exchange without a trace")?;
    let (agreed, call) = (&session.timings, &trace.timings());
    summary(setup, agreed, call, trace.sent());
    if setup.is_json {
        let line = json!({
            "program": "single",
            "language": "rust",
            "wire": setup.wire.number(),
            "suite": suite,
            "session_id": id.as_str(),
            "status": head.status.as_u16(),
            "body": body,
            "timings": {"init": timings(agreed), "call": timings(call)},
        });
        say(&line.to_string());
    }
    if head.status.is_success() { Ok(()) } else { Err(format!("the service answered {}", head.status).into()) }
}

fn timings(of: &Timings) -> Value {
    let crypto: serde_json::Map<String, Value> =
        of.crypto.iter().map(|(name, took)| ((*name).to_owned(), json!(milliseconds(*took)))).collect();
    let server: serde_json::Map<String, Value> = of.server.iter().map(|(name, ms)| (name.clone(), json!(ms))).collect();
    json!({"round_trip_ms": milliseconds(of.round_trip), "http_ms": milliseconds(of.http), "crypto_ms": crypto, "server_ms": server})
}

fn summary(setup: &Setup, agreed: &Timings, call: &Timings, sent: u64) {
    setup.narrate("Where the time went, in milliseconds:");
    for (name, of) in [("init", agreed), ("call", call)] {
        let (round_trip, http) = (milliseconds(of.round_trip), milliseconds(of.http));
        setup.narrate(&format!("  {name}: {round_trip:.3} in all, of which HTTP {http:.3}"));
        for (step, took) in &of.crypto {
            setup.narrate(&format!("    here {step}: {:.3}", milliseconds(*took)));
        }
        for (step, ms) in &of.server {
            setup.narrate(&format!("    there {step}: {ms:.3}"));
        }
    }
    setup.narrate(&format!("  {sent} bytes went out sealed for {} of plaintext", BODY.len()));
}
