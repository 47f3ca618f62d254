//! The format that servers with a shared store agree on: rows and the wrapping of their keys, and the script that reserves
//! nonces. `spec/redis-store.md`.

pub mod keys;
pub mod row;
pub mod script;

#[cfg(test)]
mod tests;
