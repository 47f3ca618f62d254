//! Keys of the broker's store, by their ids. Private and secret keys never come back.

use sealway_proto::broker::v1;

use super::call::Client;
use super::connection::{Line, origin};
use super::error::{Code, Error, Sent};
use super::generated::v1::keys_client::KeysClient;
use super::retry::Repeat;

/// A key, without what is secret of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its id.
    pub id: String,
    /// Such as `aes-256-gcm`, `ecdsa-p384`, `ml-kem-768`.
    pub algorithm: String,
    /// Its versions; the last one that is enabled seals and signs.
    pub versions: Vec<KeyVersion>,
    /// Whether it came from outside.
    pub is_imported: bool,
}

/// A version of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyVersion {
    /// Its number, from 1.
    pub version: u32,
    /// Whether it may be used.
    pub is_enabled: bool,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
}

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    /// The key's version.
    pub version: u32,
    /// SubjectPublicKeyInfo.
    pub der: Vec<u8>,
}

macro_rules! call {
    ($client:expr, $name:literal, $repeat:ident, $method:ident, $request:expr) => {{
        let max = $client.message_len_max();
        let send = |line: Line, request| {
            let mut stub = KeysClient::with_origin(line, origin()).max_decoding_message_size(max);
            async move { stub.$method(request).await }
        };
        $client.call($name, Repeat::$repeat, $request, send).await?
    }};
}

impl Client {
    /// Makes a key of this algorithm. Not repeated once it may have reached the broker.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn generate_key(&self, key: &str, algorithm: &str) -> Result<Key, Error> {
        let request = v1::GenerateRequest { key_id: key.to_owned(), algorithm: algorithm.to_owned() };
        let answer = call!(self, "Generate", Unsent, generate, request);
        told("Generate", answer)
    }

    /// Takes a key in: PKCS#8 (DER or PEM) of a private key, the bytes of a secret one. Not repeated once it may have
    /// reached the broker.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn import_key(&self, key: &str, algorithm: &str, material: &[u8]) -> Result<Key, Error> {
        let material = material.to_vec();
        let request = v1::ImportRequest { key_id: key.to_owned(), algorithm: algorithm.to_owned(), material };
        let answer = call!(self, "Import", Unsent, import, request);
        told("Import", answer)
    }

    /// Adds a version, which seals and signs from then on; made by the broker where `material` is empty. Not repeated once it
    /// may have reached the broker.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn rotate_key(&self, key: &str, material: &[u8]) -> Result<Key, Error> {
        let request = v1::RotateRequest { key_id: key.to_owned(), material: material.to_vec() };
        let answer = call!(self, "Rotate", Unsent, rotate, request);
        told("Rotate", answer)
    }

    /// Keys after this one (empty: from the first), at most so many (0: as many as the broker gives), and whether there are
    /// more.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn list_keys(&self, after: &str, limit: u32) -> Result<(Vec<Key>, bool), Error> {
        let request = v1::ListRequest { after: after.to_owned(), limit };
        let answer = call!(self, "List", Always, list, request);
        Ok((answer.keys.into_iter().map(Key::from).collect(), answer.has_more))
    }

    /// Takes a version out of use, or all of them with 0.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn disable_key(&self, key: &str, version: u32) -> Result<Key, Error> {
        let request = v1::DisableRequest { key_id: key.to_owned(), version };
        let answer = call!(self, "Disable", Always, disable, request);
        told("Disable", answer)
    }

    /// Takes a version back into use.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn enable_key(&self, key: &str, version: u32) -> Result<Key, Error> {
        let request = v1::EnableRequest { key_id: key.to_owned(), version };
        let answer = call!(self, "Enable", Always, enable, request);
        told("Enable", answer)
    }

    /// The public key of a version; 0 takes the current one.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn public_key(&self, key: &str, version: u32) -> Result<PublicKey, Error> {
        let request = v1::PublicKeyRequest { key_id: key.to_owned(), version };
        let answer = call!(self, "PublicKey", Always, public_key, request);
        Ok(PublicKey { version: answer.version, der: answer.der })
    }
}

fn told(operation: &'static str, answer: v1::KeyResponse) -> Result<Key, Error> {
    let missing = || Error {
        operation,
        code: Code::Internal,
        text: "the broker said nothing of the key".into(),
        sent: Sent::Answered,
        attempts: 1,
    };
    answer.key.map(Key::from).ok_or_else(missing)
}

impl From<v1::Key> for Key {
    fn from(key: v1::Key) -> Self {
        let versions = key.versions.iter().map(|version| KeyVersion {
            version: version.version,
            is_enabled: version.state() == v1::KeyState::Enabled,
            created_ms: version.created_ms,
        });
        Key { id: key.key_id, algorithm: key.algorithm, versions: versions.collect(), is_imported: key.is_imported }
    }
}
