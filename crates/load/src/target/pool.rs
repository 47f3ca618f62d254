//! Connections that several workers of a shard share, each worker with a stream of its own.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use tokio::sync::OnceCell;

use crate::record::Failure;

/// Established connection; its clones share it.
pub(super) trait Live: Clone {
    /// Returns whether the connection accepts no more requests.
    fn is_closed(&self) -> bool;
}

/// Shared connections of one shard.
pub(super) struct Pool<L> {
    /// Maximum number of workers on one connection.
    streams: usize,
    shared: RefCell<Vec<Weak<Line<L>>>>,
}

struct Line<L> {
    users: Cell<usize>,
    live: OnceCell<L>,
}

/// Seat of one worker on a connection, held until it is dropped.
pub(super) struct Seat<L>(Rc<Line<L>>);

impl<L> Drop for Seat<L> {
    fn drop(&mut self) {
        self.0.users.set(self.0.users.get() - 1);
    }
}

impl<L: Live> Pool<L> {
    /// Creates an empty pool with this many workers a connection, at least 1.
    pub(super) fn new(streams: usize) -> Self {
        Pool { streams: streams.max(1), shared: RefCell::default() }
    }

    /// Takes a seat on a connection with a free one, or opens a new connection. Workers that arrive while it is being opened
    /// wait for it.
    ///
    /// # Errors
    /// A failure that says why the connection was not opened. Each waiting worker then tries to open it.
    pub(super) async fn seat(&self, open: impl Future<Output = Result<L, Failure>>) -> Result<(Seat<L>, L), Failure> {
        let seat = self.place();
        let live = seat.0.live.get_or_try_init(|| open).await?.clone();
        Ok((seat, live))
    }

    fn place(&self) -> Seat<L> {
        let fresh = || Rc::new(Line { users: Cell::new(1), live: OnceCell::new() });
        if self.streams == 1 {
            return Seat(fresh());
        }
        let mut shared = self.shared.borrow_mut();
        let is_closed = |line: &Rc<Line<L>>| line.live.get().is_some_and(L::is_closed);
        shared.retain(|line| line.upgrade().is_some_and(|line| !is_closed(&line)));
        let free = shared.iter().filter_map(Weak::upgrade).find(|line| line.users.get() < self.streams);
        if let Some(line) = free {
            line.users.set(line.users.get() + 1);
            return Seat(line);
        }
        let line = fresh();
        shared.push(Rc::downgrade(&line));
        Seat(line)
    }
}
