//! One call, from its arrival to its answer, whatever its wire: who asks, under which trace, and what was made of it.

use std::sync::Arc;

use tonic::{Request, Status};

/// Who is at the other end of a connection, as the kernel tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The user.
    pub uid: u32,
    /// Its main group.
    pub gid: u32,
    /// The process that connected, where the kernel tells.
    pub pid: Option<i32>,
}

/// A call that is being answered. It travels with the request.
#[derive(Clone, Debug)]
pub(super) struct Call(Arc<Facts>);

#[derive(Debug)]
struct Facts {
    peer: Peer,
}

impl Call {
    /// A call that has just arrived.
    pub(super) fn new(peer: Peer) -> Call {
        Call(Arc::new(Facts { peer }))
    }

    /// The call that a request belongs to.
    pub(super) fn of<T>(request: &Request<T>) -> Result<Call, Status> {
        request.extensions().get::<Call>().cloned().ok_or_else(|| Status::internal("a request without its call"))
    }

    /// Who asks.
    pub(super) fn peer(&self) -> &Peer {
        &self.0.peer
    }
}
