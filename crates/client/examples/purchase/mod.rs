//! Code that both example programs share: the environment, the client, and one purchase.
//!
//! `SESSION_URL` (default http://localhost:3000), `SERVER_URL` (default: `SESSION_URL`), `SEALWAY_PINS` (key ids or
//! public keys, separated by commas; without it the service is trusted at first use), `SEALWAY_WIRE` (default 3),
//! `SEALWAY_CLIENT_ID` (default sealway-rust).
#![allow(dead_code, reason = "each program uses a part")]

use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, Uri};
use sealway_client::{Body, Builder, Client, Error, Pin, Suite, Trust, TrustStore, Wire};

/// Body of the purchase, as JSON.
pub(crate) const BODY: &str = r#"{"schemeCode":"AEF","amount":5000}"#;
/// Path of the purchase's endpoint.
pub(crate) const PATH: &str = "/transaction/purchase";

/// Settings from the environment and the arguments.
pub(crate) struct Setup {
    pub(crate) session_url: Uri,
    pub(crate) server_url: Uri,
    pub(crate) wire: Wire,
    pub(crate) is_json: bool,
    settings: Builder,
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn url(name: &str, default: &str) -> Result<Uri, String> {
    let text = variable(name).unwrap_or_else(|| default.into());
    let is_http = |url: &Uri| url.authority().is_some() && matches!(url.scheme_str(), Some("http" | "https"));
    let url = text.parse::<Uri>().ok().filter(is_http);
    url.ok_or_else(|| format!("{name}: expected http://HOST[:PORT] or https://HOST[:PORT]"))
}

/// Parses a number from the environment, within bounds.
pub(crate) fn number(name: &str, text: &str, bounds: std::ops::RangeInclusive<usize>) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| bounds.contains(number));
    number.ok_or_else(|| format!("{name}: expected a number of {} to {}", bounds.start(), bounds.end()))
}

impl Setup {
    /// Reads the settings; also returns the arguments other than `--json`.
    pub(crate) fn read() -> Result<(Setup, Vec<String>), String> {
        let mut arguments: Vec<String> = std::env::args().skip(1).collect();
        let is_json = arguments.iter().any(|argument| argument == "--json");
        arguments.retain(|argument| argument != "--json");
        let session_url = url("SESSION_URL", "http://localhost:3000")?;
        let server_url = url("SERVER_URL", &session_url.to_string())?;
        let wire = variable("SEALWAY_WIRE").map_or(Some(3), |wire| wire.parse().ok()).and_then(Wire::from_number);
        let wire = wire.ok_or("SEALWAY_WIRE: expected 1, 2 or 3")?;
        let pins = variable("SEALWAY_PINS").map(|pins| pins.split(',').map(|pin| Pin::parse(pin.trim())).collect());
        let trust = match pins {
            Some(Ok(pins)) => Trust::Pins(pins),
            Some(Err(err)) => return Err(format!("SEALWAY_PINS: {err}")),
            None => {
                if wire == Wire::Native {
                    warn(
                        "SEALWAY_PINS is not set: THE FIRST SERVICE THAT ANSWERS IS TRUSTED. Pin the service's keys before you rely on it.",
                    );
                }
                Trust::FirstUse(TrustStore::Memory)
            }
        };
        // The client's default leaves out P-256 alone; a demo accepts the service's suites.
        let settings = Client::builder(server_url.clone()).authority_url(session_url.clone()).wire(wire).trust(trust);
        let settings = settings.suites(Suite::ALL).total_timeout(Duration::from_secs(10));
        let settings = settings.client_id(variable("SEALWAY_CLIENT_ID").unwrap_or_else(|| "sealway-rust".into()));
        Ok((Setup { session_url, server_url, wire, is_json, settings }, arguments))
    }

    pub(crate) fn client(&self) -> Result<Client, Error> {
        self.settings.clone().build()
    }

    pub(crate) async fn purchase(&self, client: &Client) -> Result<Response<Body>, Error> {
        let mut request = Request::new(Body::from(BODY));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from_static(PATH);
        // Wires 1 and 2 seal no headers; their services assume JSON.
        if self.wire == Wire::Native {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        client.send(request).await
    }

    /// Makes a purchase and reads its whole answer.
    pub(crate) async fn whole(&self, client: &Client) -> Result<Response<Bytes>, Error> {
        let (head, body) = self.purchase(client).await?.into_parts();
        Ok(Response::from_parts(head, body.bytes().await?))
    }

    /// Prints a line for a person, except with `--json`.
    #[expect(clippy::print_stdout, reason = "it is the program's job")]
    pub(crate) fn narrate(&self, line: &str) {
        if !self.is_json {
            println!("{line}");
        }
    }
}

#[expect(clippy::print_stdout, reason = "it is the program's job")]
pub(crate) fn say(line: &str) {
    println!("{line}");
}

#[expect(clippy::print_stderr, reason = "it is the program's job")]
pub(crate) fn warn(line: &str) {
    eprintln!("{line}");
}

pub(crate) fn fail(code: u8, what: &str) -> ExitCode {
    warn(what);
    ExitCode::from(code)
}

pub(crate) fn milliseconds(took: Duration) -> f64 {
    took.as_secs_f64() * 1000.0
}
