//! The dynamic table (RFC 7541 sections 2.3.2 and 4): entries in the order of their insertion, bounded by their sizes.

use std::collections::VecDeque;

/// First capacity for entries, so that a connection's first block does not grow the table several times.
const ENTRIES_FIRST: usize = 16;

/// An entry of a dynamic table.
pub(super) trait TableEntry {
    /// Returns the size of the entry (RFC 7541 section 4.1).
    fn size(&self) -> usize;
}

/// A dynamic table of entries `T`. Both directions use it: the decoder with parsed fields, the encoder with text.
#[derive(Debug)]
pub(super) struct Table<T> {
    /// The newest entry is at the back.
    entries: VecDeque<T>,
    /// Sum of the sizes of all entries; at most `capacity`.
    size: usize,
    capacity: usize,
}

impl<T: TableEntry> Table<T> {
    pub(super) fn new(capacity: usize) -> Self {
        Table { entries: VecDeque::new(), size: 0, capacity }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Returns the maximum size, which the encoder of the connection chooses.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Changes the maximum size, and evicts what no longer fits.
    pub(super) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        self.evict(capacity);
    }

    /// Returns an entry by its age: zero is the newest.
    pub(super) fn get(&self, age: usize) -> Option<&T> {
        let position = self.entries.len().checked_sub(age)?.checked_sub(1)?;
        self.entries.get(position)
    }

    /// Inserts an entry, and evicts the oldest ones to make room. An entry that is larger than the table empties
    /// it, and is not inserted (RFC 7541 section 4.4). Returns whether the entry was inserted.
    pub(super) fn insert(&mut self, entry: T) -> bool {
        let size = entry.size();
        let Some(rest) = self.capacity.checked_sub(size) else {
            self.evict(0);
            return false;
        };
        self.evict(rest);
        if self.entries.capacity() == 0 {
            self.entries.reserve(ENTRIES_FIRST);
        }
        self.entries.push_back(entry);
        self.size += size;
        true
    }

    /// Releases the room for further entries.
    pub(super) fn shrink(&mut self) {
        self.entries.shrink_to_fit();
    }

    /// Removes the oldest entries until the others have at most `size_max` bytes.
    fn evict(&mut self, size_max: usize) {
        while self.size > size_max {
            let Some(entry) = self.entries.pop_front() else { return };
            self.size -= entry.size();
        }
    }
}
