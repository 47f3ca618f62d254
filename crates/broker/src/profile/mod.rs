//! Profiles: what the operator's file says of how each operation is done, resolved and checked.
//!
//! It may not know: wires, sockets, keys. The file's keys are listed in spec/broker.md.
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
mod set;
pub(crate) mod tree;

pub use live::{Live, Reloaded, Watched};
pub use load::{file_in, load};
pub use policy::Profile;
pub use problem::{Leniency, Problem, lines};
pub use report::check;
pub use set::{Profiles, RequireFips};

#[cfg(test)]
mod tests;
