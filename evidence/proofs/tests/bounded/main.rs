//! Evidence: properties of parsers, decisions and replay windows, checked for every input within a bound.
//!
//! A harness is a function over the code under test. It enumerates all inputs within its bound, and returns the number of
//! cases or the first [`Counterexample`]. Each harness has two tests: it holds for the product's code, and it finds a planted
//! defect. `cargo xtask evidence proofs` runs the long form, and plants the defects of `defects/` in the product's own source.
//!
//! Code that the product keeps private is compiled here from the same files, see [`production`].

extern crate alloc;

mod base64;
mod cases;
mod channel_records;
mod claims;
mod floors;
mod h1_body;
mod h1_head;
mod h2_frames;
mod integers;
mod native_frames;
mod nonces;
mod production;
mod routes;
mod tokens;

mod report;

/// The bounds on channel frames, where the product's files look for them.
mod channel {
    pub(crate) use sealway_proto::channel::{ChannelError, limits};
}

/// The bounds of the session wires, where the product's files look for them.
mod limits {
    pub(crate) use sealway_proto::limits::TAG_LEN;
}

/// An input for which a property does not hold, with the defect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counterexample(pub(crate) String);

/// The number of checked cases, or the first case for which the property does not hold.
pub(crate) type Outcome = Result<u64, Counterexample>;

/// Returns a [`Counterexample`] unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::Counterexample(format!($($text)+)));
        }
    };
}
pub(crate) use ensure;

/// Returns whether the long form runs, with its larger bounds: `SEALWAY_PROOFS=long`.
pub(crate) fn is_long() -> bool {
    std::env::var_os("SEALWAY_PROOFS").is_some_and(|form| form == "long")
}

/// Returns the bound of the form that runs.
pub(crate) fn bound<T>(short: T, long: T) -> T {
    if is_long() { long } else { short }
}
