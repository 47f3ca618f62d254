//! What servers that share a store agree on: rows and what wraps their keys, and the script that reserves nonces.
//! `spec/redis-store.md`.

pub mod keys;
pub mod row;
pub mod script;
