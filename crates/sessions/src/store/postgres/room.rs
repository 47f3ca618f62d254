//! Remaining room in the database, as far as this process knows: the last sweep's count plus this process's own inserts
//! since. Exact while only one process uses the database.

use std::sync::atomic::{AtomicI64, Ordering};

/// A counter with a bound.
#[derive(Debug)]
pub(super) struct Room {
    taken: AtomicI64,
    /// Part of `taken` that is not yet committed, so that no count includes it.
    in_flight: AtomicI64,
    max: i64,
}

/// A reserved place, released when dropped unless it was filled.
pub(super) struct Place<'a>(&'a Room, bool);

impl Room {
    pub(super) fn new(max: usize) -> Self {
        let max = i64::try_from(max).unwrap_or(i64::MAX);
        Room { taken: AtomicI64::new(0), in_flight: AtomicI64::new(0), max }
    }

    /// Reserves a place; `None` if there is no room.
    pub(super) fn take(&self) -> Option<Place<'_>> {
        if self.taken.fetch_add(1, Ordering::AcqRel) >= self.max {
            self.taken.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        Some(Place(self, false))
    }

    /// Releases `n` places after rows were removed.
    pub(super) fn give(&self, n: i64) {
        self.taken.fetch_sub(n, Ordering::AcqRel);
    }

    /// Sets the number of rows that a sweep counted; places in flight are added.
    pub(super) fn set(&self, counted: i64) {
        self.taken.store(counted.saturating_add(self.in_flight.load(Ordering::Acquire)), Ordering::Release);
    }

    /// Returns the number of taken places.
    pub(super) fn len(&self) -> usize {
        usize::try_from(self.taken.load(Ordering::Acquire)).unwrap_or(0)
    }

    /// Returns the bound plus one: a count need not go further.
    pub(super) fn count_max(&self) -> i64 {
        self.max.saturating_add(1)
    }
}

impl Place<'_> {
    /// Marks the place as filled, so that it stays taken.
    pub(super) fn fill(mut self) {
        self.1 = true;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
        if !self.1 {
            self.0.taken.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
