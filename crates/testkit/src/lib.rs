//! Dev only: what the tests of several crates share.

pub mod broker;
pub mod certificates;
pub mod channel_vectors;
pub mod daemon;
pub mod fleet;
pub mod generator;
pub mod ground;
pub mod haproxy;
pub mod history;
pub mod load;
pub mod postgres;
pub mod process;
pub mod raw_http;
pub mod raw_ws;
pub mod redis;
pub mod relay;
pub mod scripted;
pub mod session3_vectors;
pub mod steady;
pub mod store_contract;
pub mod terminal;
pub mod toxiproxy;
pub mod upstream;
pub mod vectors;
pub mod wire3_client;
pub mod wire_client;
