//! Fixtures of the tests: a store in memory, profiles of one operation, a key-encryption key.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use sealway_broker::keys::{Algorithm, Backend, Kek, Key, Store};
use sealway_broker::profile::Profile;
use sealway_broker::profile::policy::{EncryptAlgorithm, EncryptPolicy};

/// A key-encryption key of 32 fixed bytes.
pub(crate) const KEK: &str = "first 4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b";

pub(crate) fn kek() -> Kek {
    Kek::parse("test", KEK).unwrap()
}

/// Storage in memory, which fails on demand.
#[derive(Clone, Default)]
pub(crate) struct Memory(pub(crate) Arc<Mutex<Files>>);

#[derive(Default)]
pub(crate) struct Files {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    pub(crate) writes: usize,
    pub(crate) is_full: bool,
}

impl Backend for Memory {
    fn load(&self) -> io::Result<Vec<(String, Vec<u8>)>> {
        Ok(self.0.lock().unwrap().files.clone().into_iter().collect())
    }

    fn replace(&self, id: &str, bytes: &[u8]) -> io::Result<()> {
        let mut files = self.0.lock().unwrap();
        if files.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        files.writes += 1;
        files.files.insert(id.into(), bytes.into());
        Ok(())
    }

    fn remove(&self, id: &str) -> io::Result<()> {
        let mut files = self.0.lock().unwrap();
        files.writes += 1;
        files.files.remove(id).map(|_| ()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

pub(crate) fn store() -> Store {
    Store::over(Memory::default(), kek()).unwrap()
}

pub(crate) fn algorithm(name: &str) -> Algorithm {
    Algorithm::parse(name).unwrap()
}

/// Generates a key whose id is its algorithm.
pub(crate) fn made(store: &Store, name: &str) -> Arc<Key> {
    store.generate(name, algorithm(name), 1).unwrap()
}

/// A profile without any operation.
pub(crate) fn empty() -> Profile {
    Profile { name: "Test".into(), ..Profile::default() }
}

pub(crate) fn encrypting(algorithm: EncryptAlgorithm, is_nonce_callers: bool, tag_len: usize) -> Profile {
    Profile { encrypt: Some(EncryptPolicy { algorithm, is_nonce_callers, tag_len }), ..empty() }
}

pub(crate) const CIPHERS: [(&str, EncryptAlgorithm); 5] = [
    ("aes-128-gcm", EncryptAlgorithm::Aes128Gcm),
    ("aes-192-gcm", EncryptAlgorithm::Aes192Gcm),
    ("aes-256-gcm", EncryptAlgorithm::Aes256Gcm),
    ("aes-256-gcm-siv", EncryptAlgorithm::Aes256GcmSiv),
    ("chacha20-poly1305", EncryptAlgorithm::ChaCha20Poly1305),
];
