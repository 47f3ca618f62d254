//! The demo purchase service behind the layer: sealed `POST /transaction/purchase`, plain `GET /health`.
//!
//! Environment: `PORT` (default 3100; 0 for any), `AUTHORITY_URL` (default http://localhost:3000),
//! `AUTHORITY_SECRET_FILE`. It stops on SIGTERM, and exits with 2 if the environment is invalid.

use std::process::ExitCode;
use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use sealway_proto::crypto::default_provider;
use sealway_tower::{Authority, Clock, Routes, SealLayer, SealMode, Settings, SystemClock};
use serde_json::{Number, Value, json};
use tokio::net::TcpListener;

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Purchase {
    scheme_code: String,
    amount: Number,
}

async fn purchase(body: Bytes) -> Response {
    let Ok(Purchase { scheme_code, amount }) = serde_json::from_slice(&body) else {
        return refusal(StatusCode::BAD_REQUEST, "INVALID_REQUEST");
    };
    let mut id = [0; 8];
    if default_provider().fill_random(&mut id).is_err() {
        return refusal(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL");
    }
    Json(json!({
        "status": "SUCCESS",
        "transactionId": format!("TXN-{:016X}", u64::from_be_bytes(id)),
        "message": format!("Purchase of {amount} in scheme {scheme_code} completed successfully"),
        "schemeCode": scheme_code,
        "amount": amount,
        "timestamp": iso8601(SystemClock.now_ms()),
    }))
    .into_response()
}

fn refusal(status: StatusCode, error: &str) -> Response {
    (status, Json(json!({"error": error}))).into_response()
}

async fn health() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

/// Formats a time in UTC, with milliseconds.
fn iso8601(ms: u64) -> String {
    let (days, rest) = (ms / 86_400_000, ms % 86_400_000);
    // Days since the first of March of year 0, in eras of 400 years: leap days come last in each year.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * from_march + 2) / 5 + 1, (from_march + 2) % 12 + 1);
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", rest % 1000)
}

fn environment() -> Result<(u16, Authority), String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let port = variable("PORT").map_or(Ok(3100), |port| port.parse());
    let port = port.map_err(|_| "PORT: expected 0 to 65535".to_owned())?;
    let url = variable("AUTHORITY_URL").unwrap_or_else(|| "http://localhost:3000".into());
    let file = variable("AUTHORITY_SECRET_FILE").ok_or("AUTHORITY_SECRET_FILE: it must name the authority's secret")?;
    let secret = std::fs::read_to_string(&file).map_err(|err| format!("AUTHORITY_SECRET_FILE: {file}: {err}"))?;
    let authority = Authority::new(&url, secret.trim()).map_err(|err| format!("AUTHORITY_URL: {err}"))?;
    Ok((port, authority))
}

async fn serve(port: u16, authority: Authority) -> std::io::Result<()> {
    let routes = Routes::all(SealMode::Required).exact("/health", SealMode::Off).map_err(std::io::Error::other)?;
    let layer = SealLayer::new(Arc::new(authority), Settings { routes, ..Settings::default() });
    let app = Router::new().route("/transaction/purchase", post(purchase)).route("/health", get(health)).layer(layer);
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let mut stop = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    #[expect(clippy::print_stdout, reason = "the program that starts the server waits for this line")]
    {
        println!("listening http://{}", listener.local_addr()?);
    }
    axum::serve(listener, app)
        .with_graceful_shutdown(async move {
            stop.recv().await;
        })
        .await
}

#[tokio::main]
#[expect(clippy::print_stderr, reason = "what is wrong is said where it was started")]
async fn main() -> ExitCode {
    let (port, authority) = match environment() {
        Ok(environment) => environment,
        Err(what) => {
            eprintln!("{what}");
            return ExitCode::from(2);
        }
    };
    match serve(port, authority).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("{err}");
            ExitCode::FAILURE
        }
    }
}
