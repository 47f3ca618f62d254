//! Certificates from outside: committed requests and CAs (scripts/make-broker-csrs.sh made them), the commands `openssl`,
//! `zlint` and `go`, and Python's pkilint. Time stands still at [`ground::NOW_MS`].
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod by_go;
mod checks;
mod copies;
mod ground;
mod handles;
mod linters;
mod matrix;
mod oldest;
mod refusals;
