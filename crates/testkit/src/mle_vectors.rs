//! Loads `vectors/mle`, as strictly as [`crate::vectors`] loads the rest.

use std::path::Path;

use anyhow::{Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::vectors::{Head, body, folder, head, load_with, scenario_part};

/// One scenario of message-level encryption.
#[derive(Debug)]
pub struct MleVector {
    /// The file's name without `.json`.
    pub name: String,
    /// The purpose of the scenario.
    pub comment: String,
    /// The inputs and outputs of the scenario.
    pub scenario: MleScenario,
}

/// The content of a scenario, by its type.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum MleScenario {
    Open(Box<MleOpen>),
    Refused(Box<MleRefused>),
}

/// Bytes, written in base64 with padding.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Base64(pub Vec<u8>);

impl TryFrom<String> for Base64 {
    type Error = base64::DecodeError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        STANDARD.decode(text).map(Base64)
    }
}

/// The key that opens, its one algorithm and its name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MleKey {
    /// The private key in PKCS#8.
    pub private_key_pem: String,
    /// The `alg` of the key.
    pub alg: String,
    /// The name of the key.
    pub kid: String,
    /// The certificate of the key, where the key has one.
    #[serde(default)]
    pub certificate_pem: Option<String>,
}

/// The settings of a generic profile, whose body is the bare token.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MleGeneric {
    /// Allowed `alg` of both directions.
    pub algs: Vec<String>,
    /// Allowed `enc` of both directions.
    pub encs: Vec<String>,
    /// The unit of `iat`, `seconds` or `milliseconds`; absent in a profile without times.
    #[serde(default)]
    pub iat: Option<String>,
}

scenario_part!(
    /// `mle-open`: a message opens to its plaintext.
    MleOpen {
        profile: String, generic: Option<MleGeneric>, message: String, now_ms: u64, key: MleKey, body: String,
        plaintext_base64: Base64,
    }
);
scenario_part!(
    /// `mle-refused`: a message is refused for a class.
    MleRefused {
        profile: String, generic: Option<MleGeneric>, message: String, now_ms: u64, key: MleKey, body: String,
        class: String,
    }
);

/// Loads every scenario of `vectors/mle`, by name.
///
/// # Errors
/// A file of the folder is not a scenario.
pub fn load_mle() -> Result<Vec<MleVector>> {
    load_with(&folder().join("mle"), read)
}

fn read(path: &Path) -> Result<MleVector> {
    let Head { kind, name, comment, members } = head(path, "mle.md#")?;
    let scenario = match kind.as_str() {
        "mle-open" => MleScenario::Open(body(members)?),
        "mle-refused" => MleScenario::Refused(body(members)?),
        unknown => bail!("nobody knows the type {unknown}"),
    };
    Ok(MleVector { name, comment, scenario })
}
