//! Certificates from outside of the crate: committed requests and CAs (made by scripts/make-broker-csrs.sh), the
//! commands `openssl`, `zlint` and `go`, and Python's pkilint. The time is fixed at [`ground::NOW_MS`].
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod by_go;
mod checks;
mod copies;
mod ground;
mod handles;
mod linters;
mod matrix;
#[cfg(not(feature = "fips"))]
mod ml_dsa;
mod oldest;
mod refusals;
