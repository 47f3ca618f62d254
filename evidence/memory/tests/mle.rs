//! The core of the MLE bridge: the modules of proto's test that need no vectors of the testkit and no clone.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

#[path = "../../../crates/proto/tests/mle/bad.rs"]
mod bad;
#[path = "../../../crates/proto/tests/mle/builder.rs"]
mod builder;
#[path = "../../../crates/proto/tests/mle/ecdh.rs"]
mod ecdh;
#[path = "../../../crates/proto/tests/mle/fle.rs"]
mod fle;
#[path = "../../../crates/proto/tests/mle/keys.rs"]
mod keys;
#[path = "../../../crates/proto/tests/mle/mutation.rs"]
mod mutation;
#[path = "../../../crates/proto/tests/mle/open_banking.rs"]
mod open_banking;
#[path = "../../../crates/proto/tests/mle/replay.rs"]
mod replay;
#[path = "../../../crates/proto/tests/mle/round_trip.rs"]
mod round_trip;
#[path = "../../../crates/proto/tests/mle/setup.rs"]
mod setup;
#[path = "../../../crates/proto/tests/mle/sign.rs"]
mod sign;
#[path = "../../../crates/proto/tests/mle/vectors.rs"]
mod vectors;
#[path = "../../../crates/proto/tests/mle/wycheproof.rs"]
mod wycheproof;
