//! The wires: paths, messages, bounds and texts. Each call decodes, asks the [`Service`](crate::service::Service), and answers
//! in its wire's own form.

mod bounds;
mod budget;
mod call;
mod certifying;
mod codec;
mod deadline;
mod dev;
mod dispatch;
mod generated;
mod hashing;
mod health;
mod method;
mod open;
mod ours;
mod passage;
mod status;
mod w0;
mod wiped;

pub use dispatch::{Options, Wires};
pub use health::Health;
pub use method::{METHODS, Method};
pub use passage::Answer;
