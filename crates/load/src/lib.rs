//! The load generator: offers a load to a target, measures what came of it, and says what limited it.
//!
//! [`plan`] is what is asked for, [`engine`] offers it, [`target`] is how one request is made, [`record`] is what was
//! seen. All times are measured by the monotonic clock and kept in nanoseconds.
//!
//! It may not know how servers are built: it drives them from outside, as any client would.
#![warn(missing_docs)]

pub mod autotune;
pub mod channel;
pub mod engine;
pub mod export;
mod figures;
pub mod flags;
pub mod jmeter;
pub mod matrix;
pub mod plain;
pub mod plan;
pub mod preset;
pub mod progress;
pub mod record;
pub mod report;
pub mod request;
pub mod run;
pub mod target;
pub mod thresholds;
pub mod tui;
