//! Profiles: what the operator's file says of how each operation is done, resolved and checked.

pub mod policy;

pub use policy::Profile;
