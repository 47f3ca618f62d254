//! Sample runs, and tests of all forms of a report.

mod format;
pub(crate) mod sample;
mod schema;
