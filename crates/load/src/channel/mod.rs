//! Parts of a run of channels besides the engine: grants, a relay of its own, counts of the channels, costs of processes, the
//! check that a size fits into the machine, and the document of the run.
//!
//! [`Grants`] → engine, which makes channels by [`crate::target`] → [`Tally`] → [`ChannelReport`], whose fields are those of
//! `spec/load-channel.schema.json`.
//!
//! This module must not know how relays are built: it starts one by its command line and watches its process from outside.

mod document;
mod fits;
mod grants;
mod limits;
mod process;
mod relay;
mod settings;
mod stage;
mod tally;
mod text;

pub(crate) use self::document::{ChannelReport, Facts, StoppedSize, SweepReport};
pub(crate) use self::fits::{Room, sources};
pub(crate) use self::grants::Grants;
pub(crate) use self::limits::named;
pub(crate) use self::process::{Cost, Watch};
pub(crate) use self::relay::{Relay, RelayLimits};
pub(crate) use self::settings::{Origin, Settings, Size, plan};
pub(crate) use self::stage::{ChannelFailure, FailureStage, TimedStage};
pub(crate) use self::tally::{ChannelCounts, Failures, Tally, percentile};
