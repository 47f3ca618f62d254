//! The messages of the broker's wires, generated from spec/broker*.proto. A message that contains bytes or a private key prints
//! only its name in `Debug`.
#![allow(
    missing_docs,
    clippy::derive_partial_eq_without_eq,
    clippy::module_inception,
    reason = "generated: the fields are explained where they are defined, in spec/"
)]

use core::marker::PhantomData;

pub mod health;
pub mod open;
pub mod v1;
pub mod w0;

/// End of the text of an error that passes by itself: the same call may succeed later. With code 9 it is the caller's own share of
/// something that is used up.
pub const TRY_AGAIN_LATER: &str = "; try again later";

/// A method of a gRPC service: a request of type `Q` is answered by an `A` (by a stream of them if the service says so).
pub struct Method<Q, A> {
    /// The path of its HTTP/2 request: `/package.Service/Name`.
    pub path: &'static str,
    messages: PhantomData<fn(Q) -> A>,
}

impl<Q, A> Method<Q, A> {
    pub(crate) const fn new(path: &'static str) -> Self {
        Method { path, messages: PhantomData }
    }

    /// Its name within its service, such as `Hash`.
    pub fn name(&self) -> &'static str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}
