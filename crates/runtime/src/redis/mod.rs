//! Connections to Redis: one server, the master that Sentinels name, or a Redis Cluster.
//!
//! It does not know what is kept there. Messages never contain a password.

mod link;
mod sentinel;
mod settings;

pub use link::{Link, Trouble, check_server, field, listen};
pub use sentinel::{Master, Sentinels};
pub use settings::{Invalid, Node, Settings, TlsFiles, check_prefix};
