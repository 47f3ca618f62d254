//! `broker-key-file`: a key file as a store loads it at start. `broker-key-import`: an algorithm on the first line, then the
//! material of a key that a caller imports.

use std::io;

use sealway_broker::keys::{Algorithm, Backend, Kek, Store};
use sealway_broker::refusal::Code;

/// A store backend with one file or none. It drops all writes.
struct One(Option<Vec<u8>>);

impl Backend for One {
    fn load(&self) -> io::Result<Vec<(String, Vec<u8>)>> {
        Ok(self.0.iter().map(|bytes| ("k".into(), bytes.clone())).collect())
    }

    fn replace(&self, _id: &str, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, _id: &str) -> io::Result<()> {
        Ok(())
    }
}

fn kek() -> Kek {
    Kek::parse("fuzz", &format!("k {}", "6b".repeat(32))).expect("a key-encryption key")
}

/// The fuzz target for key files.
pub fn key_file(data: &[u8]) {
    match Store::over(One(Some(data.to_vec())), kek()) {
        Ok(store) => {
            let key = store.get("k").expect("the key whose file it is");
            assert!(!key.versions().is_empty() && key.versions().len() <= 1000);
        }
        Err(err) => {
            let text = String::from_utf8_lossy(data);
            for word in text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| word.len() >= 33) {
                assert!(!err.0.contains(word), "the error shows the file's text: {err}");
            }
        }
    }
}

/// The fuzz target for key imports.
pub fn key_import(data: &[u8]) {
    let at = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (name, material) = (&data[..at], data.get(at + 1..).unwrap_or_default());
    let Some(algorithm) = std::str::from_utf8(name).ok().and_then(Algorithm::parse) else { return };
    let store = Store::over(One(None), kek()).expect("an empty store");
    match store.import("k", algorithm, material, 1) {
        Ok(key) => {
            // An imported key works from then on.
            assert_eq!(key.public_key(0).is_ok(), algorithm.is_asymmetric(), "{algorithm}");
        }
        Err(refusal) => {
            assert_eq!(refusal.code, Code::InvalidArgument, "{algorithm}: {refusal}");
            assert!(refusal.text.len() < 160, "{refusal}");
        }
    }
}
