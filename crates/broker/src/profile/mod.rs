//! Profiles: the operator's choice of algorithms for each operation, resolved and checked.
//!
//! The module does not know wires, sockets or keys. The file's keys are listed in spec/broker.md.
// SPEC broker.md#profiles

pub mod approval;
mod certificate;
mod constraints;
pub(crate) mod duration;
mod live;
pub(crate) mod load;
mod operations;
pub mod policy;
pub(crate) mod problem;
mod report;
mod resolve;
pub(crate) mod section;
pub mod standards;
pub(crate) mod tree;

pub use live::{Live, LiveFile, Profiles, Reload, RequireFips};
pub use load::load;
pub use policy::Profile;
pub use problem::{Leniency, Problem, lines};
pub use report::check;

#[cfg(test)]
mod tests;
