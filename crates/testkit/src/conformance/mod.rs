//! The conformance driver of Rust, which executes lines: `sdk/conformance/README.md`. It plays both sides over `sealway-proto`,
//! which is the core of the client, of the gateway and of the tower layer alike.
//!
//! It opens no socket and reads no clock; it draws random values from the provider.

mod client;
mod member;
mod server;
mod stream;

use std::collections::HashMap;

use sealway_proto::Error;
use sealway_proto::crypto::agreement::{AgreementProvider, default_agreement_provider};
use sealway_proto::session::native::Suite;
use serde_json::{Value, json};

use client::{ClientCall, Init, Session};
use member::Members;
use server::ServerCall;

/// The cause for which a line has no `ok`.
#[derive(Debug)]
enum Refusal {
    /// The protocol core rejects the input.
    Core(Error),
    /// The driver itself cannot continue.
    Fault(String),
}

type Outcome = Result<Value, Refusal>;

impl From<Error> for Refusal {
    fn from(err: Error) -> Self {
        Refusal::Core(err)
    }
}

impl Refusal {
    fn fault(what: impl Into<String>) -> Self {
        Refusal::Fault(what.into())
    }
}

fn provider() -> &'static dyn AgreementProvider {
    default_agreement_provider()
}

/// Values of the driver by number.
#[derive(Debug)]
struct Handles<T> {
    next: u64,
    held: HashMap<u64, T>,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Handles { next: 1, held: HashMap::new() }
    }
}

impl<T> Handles<T> {
    fn put(&mut self, value: T) -> u64 {
        let handle = self.next;
        self.next += 1;
        self.held.insert(handle, value);
        handle
    }

    fn take(&mut self, members: &Members<'_>, name: &str) -> Result<T, Refusal> {
        let handle = members.number(name)?;
        self.held.remove(&handle).ok_or_else(|| Refusal::fault(format!("{name}: no handle {handle}")))
    }

    fn get(&self, members: &Members<'_>, name: &str) -> Result<&T, Refusal> {
        let handle = members.number(name)?;
        self.held.get(&handle).ok_or_else(|| Refusal::fault(format!("{name}: no handle {handle}")))
    }
}

/// The driver, with its state from line to line.
#[derive(Debug, Default)]
pub struct Driver {
    inits: Handles<Init>,
    sessions: Handles<Session>,
    sealed: Handles<ClientCall>,
    opened: Handles<ServerCall>,
}

impl Driver {
    /// Returns the answer to a line.
    pub fn answer(&mut self, line: &str) -> String {
        let outcome = match serde_json::from_str::<Value>(line) {
            Ok(Value::Object(members)) => self.play(&Members(&members)),
            Ok(_) => Err(Refusal::fault("a line is one JSON object")),
            Err(err) => Err(Refusal::fault(format!("a line is one JSON object: {err}"))),
        };
        let answer = match outcome {
            Ok(ok) => json!({"ok": ok}),
            Err(Refusal::Core(err)) => json!({"error": err.code()}),
            Err(Refusal::Fault(what)) => json!({"fault": what}),
        };
        answer.to_string()
    }

    fn play(&mut self, members: &Members<'_>) -> Outcome {
        match members.text("op")? {
            "hello" => Ok(json!({
                "language": "rust",
                "wires": [1, 2, 3, 4],
                "suites": Suite::ALL.map(Suite::name),
                "kems": client::KEMS.map(|(_, name)| name),
                "roles": ["client", "server"],
            })),
            "client.init" => client::init(&mut self.inits, members),
            "client.finish" => client::finish(&mut self.inits, &mut self.sessions, members),
            "client.renew" => client::renew(&mut self.inits, &self.sessions, members),
            "client.key" => client::key(&mut self.sessions, members),
            "client.seal" => client::seal(&self.sessions, &mut self.sealed, members),
            "client.open" => client::open(&mut self.sealed, members),
            "server.init" => server::init(members),
            "server.renew" => server::renew(members),
            "server.open" => server::open(&mut self.opened, members),
            "server.seal" => server::seal(&mut self.opened, members),
            "reset" => {
                *self = Driver::default();
                Ok(json!({}))
            }
            other => Err(Refusal::fault(format!("unknown op {other:?}"))),
        }
    }
}
