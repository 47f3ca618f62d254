//! Generated events, and tests of the whole screen.

pub(crate) mod generated;
mod snapshots;
