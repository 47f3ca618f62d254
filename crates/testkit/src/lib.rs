//! x
pub mod store_contract;
