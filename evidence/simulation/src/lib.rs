//! Deterministic simulation: gateways of the product over models of its stores, clients of the product, and an attacker's network, in one
//! thread with simulated time. All that happens follows from one seed. `docs/assurance/simulation.md`.
#![warn(missing_docs)]

mod attacker;
mod client;
mod gateway;
mod net;
mod planted;
mod postgres;
mod provider;
mod redis;
pub mod relay;
mod rng;
mod scenario;
mod world;

pub use postgres::{PostgresModel, known_statements};
pub use scenario::{Outcome, run, run_with};
pub use world::{Counts, Defect};
