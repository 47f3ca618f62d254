//! Loads `vectors/`: every file of the folder, none by name. A file that is not a scenario, an unknown type and a member that
//! no reader reads are errors, so that a new vector can never be ignored unnoticed.
//!
//! The meaning of the members: `vectors/README.md`, and `vectors/schema/` beside it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// One scenario of wires 1 and 2.
#[derive(Debug)]
pub struct Vector {
    /// The file's name without `.json`.
    pub name: String,
    /// The purpose of the scenario.
    pub comment: String,
    /// The inputs and outputs of the scenario.
    pub scenario: Scenario,
}

/// The content of a scenario, by its type.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Scenario {
    Init(Box<Init>),
    InitRefused(InitRefused),
    ClientInit(Box<ClientInit>),
    ClientInitRefused(ClientInitRefused),
    Request(Box<Request>),
    RequestRefused(Box<RequestRefused>),
    Answer(Box<Answer>),
    AnswerRefused(Box<AnswerRefused>),
}

/// Bytes, written in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Hex(pub Vec<u8>);

impl TryFrom<String> for Hex {
    type Error = anyhow::Error;

    fn try_from(text: String) -> Result<Self> {
        ensure!(text.len().is_multiple_of(2) && text.is_ascii(), "not hexadecimal: {text}");
        let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).with_context(|| format!("not hexadecimal: {text}"));
        Ok(Hex((0..text.len()).step_by(2).map(byte).collect::<Result<_>>()?))
    }
}

impl Hex {
    /// Returns the bytes, which must be `N`.
    ///
    /// # Panics
    /// The length is another one.
    pub fn array<const N: usize>(&self) -> [u8; N] {
        self.0.as_slice().try_into().unwrap_or_else(|_| panic!("{N} bytes expected, {} given", self.0.len()))
    }
}

/// Bytes in a form of scenarios.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bytes {
    /// Bytes as a text in ASCII.
    Text(String),
    /// Bytes as a text in hexadecimal.
    Hex(Hex),
}

impl Bytes {
    /// Returns the bytes as a slice.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Text(text) => text.as_bytes(),
            Bytes::Hex(hex) => &hex.0,
        }
    }

    /// Returns the bytes as a vector.
    pub fn to_vec(&self) -> Vec<u8> {
        self.as_slice().to_vec()
    }
}

/// Header names and values, in order.
pub type HeaderList = Vec<(String, String)>;

macro_rules! scenario_part {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        #[allow(missing_docs)]
        pub struct $name { $(pub $field: $type),* }
    };
}

pub(crate) use scenario_part;

scenario_part!(
    /// A session as a server stores it.
    Session { id: String, wire: u8, client_id: Option<String>, key_hex: Hex, created_ms: u64, expires_ms: u64 }
);
scenario_part!(
    /// The inputs of the same session on the client's side.
    Client { wire: u8, anonymous: bool, client_id: Option<String>, scalar_hex: Hex, init_answer: String }
);
scenario_part!(
    /// The claim that a store must remember.
    Claim { key_hex: Hex, sealed: bool, stamp_ms: u64, expires_ms: u64 }
);
scenario_part!(
    /// A message on the wire.
    Sealed { headers: HeaderList, body: Bytes }
);
scenario_part!(
    /// A message, its inputs and its form on the wire.
    Message { path: String, stamp: String, nonce: String, iv_hex: Hex, plaintext: Bytes, aad: String, sealed: Sealed }
);
scenario_part!(
    /// An answer, its inputs and its form on the wire.
    AnswerMessage {
        status: u16, stamp_ms: u64, nonce_random_hex: Hex,
        path: String, stamp: String, nonce: String, iv_hex: Hex, plaintext: Bytes, aad: String, sealed: Sealed,
    }
);
scenario_part!(
    /// A request that proves that a client's session has the right key.
    Probe { path: String, stamp: String, nonce: String, iv_hex: Hex, plaintext: Bytes, sealed: Sealed }
);
scenario_part!(
    /// `init`: a server accepts an init.
    Init {
        family: String, headers: HeaderList, body: Bytes, now_ms: u64, window_ms: u64,
        authenticated: bool, client_scalar_hex: Hex, server_scalar_hex: Hex, session_id_random_hex: Hex,
        shared_secret_hex: Hex, key_info: String, answer: String, session: Session, claim: Claim,
    }
);
scenario_part!(
    /// `init-refused`: a server rejects an init.
    InitRefused { family: String, headers: HeaderList, body: Bytes, now_ms: u64, window_ms: u64, code: String }
);
scenario_part!(
    /// `client-init`: a client sends an init, and completes it with the answer.
    ClientInit {
        wire: u8, anonymous: bool, client_id: Option<String>, ttl_sec: Option<u32>, scalar_hex: Hex,
        nonce_random_hex: Hex, sent_ms: u64, request: Sealed, answer: Bytes, received_ms: u64,
        session_id: String, expires_ms: u64, key_hex: Hex, probe: Probe,
    }
);
scenario_part!(
    /// `client-init-refused`: a client rejects an answer.
    ClientInitRefused {
        wire: u8, anonymous: bool, client_id: Option<String>, scalar_hex: Hex, answer: Bytes, code: String,
    }
);
scenario_part!(
    /// `request`: sealed by a client, opened by a server.
    Request { session: Session, client: Client, now_ms: u64, window_ms: u64, request: Message, claim: Claim }
);
scenario_part!(
    /// `request-refused`: a server rejects a request.
    RequestRefused {
        session: Session, path: String, now_ms: u64, window_ms: u64, headers: HeaderList, body: Bytes, code: String,
    }
);
scenario_part!(
    /// `answer`: sealed by a server, opened by a client.
    Answer {
        session: Session, client: Client, now_ms: u64, window_ms: u64, request: Message, answer: AnswerMessage,
        received_ms: u64,
    }
);
scenario_part!(
    /// `answer-refused`: a client rejects an answer.
    AnswerRefused {
        client: Client, request: Message, received_ms: u64, window_ms: u64, status: u16, headers: HeaderList,
        body: Bytes, code: String,
    }
);

/// Returns the folder `vectors/` of this checkout.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors")
}

/// Loads every scenario of `vectors/session`, by name.
///
/// # Errors
/// A file of the folder is not a scenario.
pub fn load_session() -> Result<Vec<Vector>> {
    load(&folder().join("session"))
}

/// Loads every scenario of a folder, by name.
///
/// # Errors
/// A file of the folder is not a scenario.
pub fn load(folder: &Path) -> Result<Vec<Vector>> {
    load_with(folder, read)
}

/// Reads every file of a folder by `read`, by name.
pub(crate) fn load_with<T>(folder: &Path, read: impl Fn(&Path) -> Result<T>) -> Result<Vec<T>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        paths.push(entry?.path());
    }
    paths.sort();
    paths.iter().map(|path| read(path).with_context(|| path.display().to_string())).collect()
}

/// A scenario's head, and the rest for its body.
pub(crate) struct Head {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) comment: String,
    pub(crate) members: Map<String, Value>,
}

/// Reads a scenario's file, which must belong to `spec`.
pub(crate) fn head(path: &Path, spec: &str) -> Result<Head> {
    ensure!(path.extension().is_some_and(|ext| ext == "json"), "not a scenario");
    let mut members: Map<String, Value> = serde_json::from_slice(&fs::read(path)?)?;
    let mut text = |name: &str| match members.remove(name) {
        Some(Value::String(text)) => Ok(text),
        _ => bail!("{name} is absent or no text"),
    };
    let (kind, name, comment) = (text("type")?, text("name")?, text("comment")?);
    ensure!(text("spec")?.starts_with(spec), "spec names no section");
    ensure!(path.file_stem().is_some_and(|stem| *stem == *name), "the file is not called {name}");
    Ok(Head { kind, name, comment, members })
}

fn read(path: &Path) -> Result<Vector> {
    let Head { kind, name, comment, members } = head(path, "session.md#")?;
    let scenario = match kind.as_str() {
        "init" => Scenario::Init(body(members)?),
        "init-refused" => Scenario::InitRefused(body(members)?),
        "client-init" => Scenario::ClientInit(body(members)?),
        "client-init-refused" => Scenario::ClientInitRefused(body(members)?),
        "request" => Scenario::Request(body(members)?),
        "request-refused" => Scenario::RequestRefused(body(members)?),
        "answer" => Scenario::Answer(body(members)?),
        "answer-refused" => Scenario::AnswerRefused(body(members)?),
        unknown => bail!("nobody knows the type {unknown}"),
    };
    Ok(Vector { name, comment, scenario })
}

pub(crate) fn body<T: DeserializeOwned>(members: Map<String, Value>) -> Result<T> {
    Ok(serde_json::from_value(Value::Object(members))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(file: &str, content: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(file), content).unwrap();
        format!("{:#}", load(folder.path()).unwrap_err())
    }

    #[test]
    fn a_scenario_of_an_unknown_type_is_an_error() {
        let content = r#"{"type":"riddle","name":"a","comment":"","spec":"session.md#init"}"#;
        assert!(refusal("a.json", content).contains("nobody knows the type riddle"));
    }

    #[test]
    fn a_scenario_with_a_member_too_many_is_an_error() {
        let content = r#"{"type":"client-init-refused","name":"a","comment":"","spec":"session.md#init","wire":1,
            "anonymous":false,"client_id":null,"scalar_hex":"00","answer":{"hex":""},"code":"x","more":1}"#;
        assert!(refusal("a.json", content).contains("unknown field `more`"));
    }

    #[test]
    fn a_file_that_is_no_scenario_is_an_error() {
        assert!(refusal("notes.txt", "").contains("not a scenario"));
    }

    #[test]
    fn a_scenario_that_is_not_called_like_its_file_is_an_error() {
        let content = r#"{"type":"init","name":"b","comment":"","spec":"session.md#init"}"#;
        assert!(refusal("a.json", content).contains("the file is not called b"));
    }
}
