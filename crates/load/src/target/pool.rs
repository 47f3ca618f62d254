//! Connections that several workers of a shard use at a time, each by streams of its own.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use tokio::sync::OnceCell;

use crate::record::Fault;

/// A connection that stands; its clones are the same one.
pub(super) trait Live: Clone {
    /// Whether no more requests can be sent over it.
    fn is_closed(&self) -> bool;
}

/// The connections of one shard.
pub(super) struct Pool<L> {
    /// Workers on one connection.
    streams: usize,
    shared: RefCell<Vec<Weak<Line<L>>>>,
}

struct Line<L> {
    users: Cell<usize>,
    live: OnceCell<L>,
}

/// A place on a connection, until it is dropped.
pub(super) struct Seat<L>(Rc<Line<L>>);

impl<L> Drop for Seat<L> {
    fn drop(&mut self) {
        self.0.users.set(self.0.users.get() - 1);
    }
}

impl<L: Live> Pool<L> {
    /// Connections for so many workers each, 1 or more.
    pub(super) fn new(streams: usize) -> Self {
        Pool { streams: streams.max(1), shared: RefCell::default() }
    }

    /// Takes a place on a connection that has one, or opens another. Who comes while it is being opened waits for it.
    ///
    /// # Errors
    /// Why it was not opened. Others that waited for it try themselves.
    pub(super) async fn seat(&self, open: impl Future<Output = Result<L, Fault>>) -> Result<(Seat<L>, L), Fault> {
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
