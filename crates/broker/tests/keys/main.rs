//! The key store and what is done with its keys, from outside the crate.

mod ground;
mod interrupted;
mod operations;
mod post_quantum;
mod published;
mod store;
