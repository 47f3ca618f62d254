//! Load generator: offers a load to a target, measures the responses, and names the bottleneck.
//!
//! [`plan`] describes a run, [`engine`] offers its load, `target` makes one request, and [`record`] holds the measurements. All
//! times come from the monotonic clock and are kept in nanoseconds.
//!
//! The crate must not know how servers are built: it drives them from outside, as any client would.
#![warn(missing_docs)]

mod autotune;
mod channel;
pub mod engine;
mod export;
mod figures;
pub mod flags;
mod jmeter;
mod matrix;
mod named;
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
