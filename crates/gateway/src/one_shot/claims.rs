//! The keys that claims without a stamp were made under. Such a claim ends with its key, and has the key's configuration in its scope: a key
//! that lived longer afterwards, or had another configuration, would accept its old requests again.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use sealway_runtime::clock::iso8601;

use super::key::{Condition, Key, Purpose};

/// Each key that this process accepted, by its public half: also one that is no longer in the file.
#[derive(Clone, Debug, Default)]
pub(super) struct ClaimedKeys(HashMap<Vec<u8>, ClaimedKey>);

/// The public properties of a key that its claims depend on.
#[derive(Clone, Debug)]
struct ClaimedKey {
    config: Bytes,
    end_ms: u64,
}

impl ClaimedKeys {
    /// Notes keys that were in force until `now_ms`. A key of wire 4 has claims with a stamp alone, and one of the future has none yet.
    pub(super) fn note<'a>(&mut self, keys: impl Iterator<Item = &'a Arc<Key>>, now_ms: u64) {
        for key in keys.filter(|key| key.purpose() != Purpose::Hpke) {
            if key.times().condition(now_ms) != Condition::Future {
                let claimed = ClaimedKey { config: key.encoded().clone(), end_ms: key.times().accepted_until_ms };
                self.0.insert(key.config().public_key().as_bytes().to_vec(), claimed);
            }
        }
    }

    /// Checks that a key which was in force stays what its claims were made for.
    ///
    /// # Errors
    /// A text that names the member of the key.
    pub(super) fn check(&self, key: &Key) -> Result<(), String> {
        let Some(known) = self.0.get(key.config().public_key().as_bytes()) else { return Ok(()) };
        let end_ms = key.times().accepted_until_ms;
        if end_ms > known.end_ms {
            let (end, known_end) = (iso8601(end_ms), iso8601(known.end_ms));
            return Err(format!(
                "accepted_until: {end}, after the end that was in force, {known_end}, with which the claims of its requests end: they \
                 would be accepted again. Add another key instead"
            ));
        }
        if *key.encoded() != known.config {
            return Err("suites: key_id and suites of a key that was in force must not change: its requests would be accepted again. Add \
                        another key instead"
                .into());
        }
        Ok(())
    }
}
