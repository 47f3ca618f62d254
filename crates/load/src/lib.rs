//! The load generator: offers a load to a target, measures what came of it, and says what limited it.
//!
//! [`plan`] is what is asked for, [`engine`] offers it, `target` is how one request is made, [`record`] is what was
//! seen. All times are measured by the monotonic clock and kept in nanoseconds.
//!
//! It may not know how servers are built: it drives them from outside, as any client would.
#![warn(missing_docs)]

mod autotune;
mod channel;
pub mod engine;
mod export;
mod figures;
pub mod flags;
mod jmeter;
mod matrix;
mod plain;
pub mod plan;
mod preset;
pub mod progress;
pub mod record;
mod report;
mod request;
pub mod run;
mod target;
mod thresholds;
pub mod tui;
