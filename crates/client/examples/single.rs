//! One sealed purchase, told step by step, with a summary of where the time went. `--json` prints one line of JSON instead.

#[path = "purchase/mod.rs"]
mod purchase;

use std::process::ExitCode;

use purchase::{BODY, PATH, Setup, fail, milliseconds, say};
use sealway_client::{Answer, Timings};
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
    let (id, life_sec, agreed) = client.connect().await?;
    let recognised = client.recognised().await?;
    let suite = recognised.as_ref().map(|recognised| recognised.suite.name());
    setup.narrate(&format!("  session {id}, for {life_sec} s, suite {}", suite.unwrap_or("P-256 of the old wires")));
    if let Some(recognised) = &recognised {
        setup.narrate(&format!("  signed by identity key {}", recognised.key_id));
    }
    setup.narrate(&format!("Sealing POST {PATH} to {} …", setup.server_url));
    let answer = setup.purchase(&client).await?;
    let body: Value = serde_json::from_slice(&answer.body)?;
    setup.narrate(&format!("  {} {body}", answer.status.as_u16()));
    summary(setup, &agreed, &answer);
    if setup.is_json {
        let line = json!({
            "program": "single",
            "language": "rust",
            "wire": setup.wire.number(),
            "suite": suite,
            "session_id": id.as_str(),
            "status": answer.status.as_u16(),
            "body": body,
            "timings": {"init": timings(&agreed), "call": timings(&answer.timings)},
        });
        say(&line.to_string());
    }
    if answer.status.is_success() { Ok(()) } else { Err(format!("the service answered {}", answer.status).into()) }
}

fn timings(of: &Timings) -> Value {
    let crypto: serde_json::Map<String, Value> =
        of.crypto.iter().map(|(name, took)| ((*name).to_owned(), json!(milliseconds(*took)))).collect();
    let server: serde_json::Map<String, Value> = of.server.iter().map(|(name, ms)| (name.clone(), json!(ms))).collect();
    json!({"round_trip_ms": milliseconds(of.round_trip), "http_ms": milliseconds(of.http), "crypto_ms": crypto, "server_ms": server})
}

fn summary(setup: &Setup, agreed: &Timings, answer: &Answer) {
    setup.narrate("Where the time went, in milliseconds:");
    for (name, of) in [("init", agreed), ("call", &answer.timings)] {
        let (round_trip, http) = (milliseconds(of.round_trip), milliseconds(of.http));
        setup.narrate(&format!("  {name}: {round_trip:.3} in all, of which HTTP {http:.3}"));
        for (step, took) in &of.crypto {
            setup.narrate(&format!("    here {step}: {:.3}", milliseconds(*took)));
        }
        for (step, ms) in &of.server {
            setup.narrate(&format!("    there {step}: {ms:.3}"));
        }
    }
    setup.narrate(&format!("  {} bytes went out sealed for {} of plaintext", answer.seen.request_len, BODY.len()));
}
