//! The encoder's dynamic table, with an index by field and an index by name.
//!
//! Entries with similar hashes form a chain from the newest to the oldest. Eviction does not touch the chains: a link to an
//! evicted entry ends its chain. The hash has no key, and needs none: a look-up visits each entry at most once, whatever values
//! a client makes a service reflect, and the table has at most 128 entries.

use super::table::{Table, TableEntry};
use super::{FIELD_OVERHEAD, static_table};

/// Number of chains of an index.
const CHAINS: usize = 64;

const BY_FIELD: usize = 0;
const BY_NAME: usize = 1;

/// The name of a field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key<'a> {
    /// Index of the name in the static table, or zero.
    pub(super) index: usize,
    /// The name, if it is not in the static table.
    pub(super) text: &'a [u8],
}

impl<'a> Key<'a> {
    pub(super) fn of_index(index: usize) -> Self {
        Key { index, text: &[] }
    }

    pub(super) fn of_text(text: &'a [u8]) -> Self {
        Key { index: 0, text }
    }

    /// Returns the size of the field (RFC 7541 section 4.1).
    pub(super) fn size(self, value: &[u8]) -> usize {
        static_table::name_len(self.index) + self.text.len() + value.len() + FIELD_OVERHEAD
    }

    pub(super) fn hashes(self, value: &[u8]) -> Hashes {
        let name = hash(self.index as u64, self.text);
        Hashes([hash(name, value) as u32, name as u32])
    }
}

/// The hashes of a field, and of its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hashes([u32; 2]);

impl Hashes {
    /// Returns the hash of name and value.
    pub(super) fn field(self) -> u32 {
        self.0[BY_FIELD]
    }
}

#[derive(Debug)]
struct Slot {
    hashes: Hashes,
    /// Numbers of the next older entries in the chains.
    older: [u32; 2],
    /// Index of the name, as in [`Key`].
    index: usize,
    /// Name and value. A copy: a shared value would keep the buffer of a whole message.
    text: Box<[u8]>,
    name_len: usize,
    size: usize,
}

impl TableEntry for Slot {
    fn size(&self) -> usize {
        self.size
    }
}

impl Slot {
    fn has_name(&self, key: Key<'_>) -> bool {
        // Names of the static table are not compared as text: comparing with an empty slice, whose pointer is dangling, is slow
        // with the masked loads of AVX-512.
        self.index == key.index && (key.index > 0 || self.text.get(..self.name_len) == Some(key.text))
    }

    fn has_value(&self, value: &[u8]) -> bool {
        self.text.get(self.name_len..) == Some(value)
    }
}

/// The dynamic table of an encoder.
#[derive(Debug)]
pub(super) struct Index {
    table: Table<Slot>,
    /// Number of the newest entry. Numbers wrap around; a wrong link then is harmless, because entries are compared and each
    /// link must lead to an older entry.
    newest: u32,
    /// Numbers of the newest entries of all chains.
    chains: [[u32; CHAINS]; 2],
}

impl Index {
    pub(super) fn new(capacity: usize) -> Self {
        Index { table: Table::new(capacity), newest: 0, chains: [[0; CHAINS]; 2] }
    }

    pub(super) fn capacity(&self) -> usize {
        self.table.capacity()
    }

    pub(super) fn set_capacity(&mut self, capacity: usize) {
        self.table.set_capacity(capacity);
    }

    /// Releases the room for further entries.
    pub(super) fn shrink(&mut self) {
        self.table.shrink();
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.table.size()
    }

    /// Returns the age of the entry with this name and value.
    pub(super) fn find(&self, key: Key<'_>, value: &[u8], hashes: Hashes) -> Option<usize> {
        let mut entries = self.chain(BY_FIELD, hashes);
        entries.find(|(_, stored)| stored.has_value(value) && stored.has_name(key)).map(|(age, _)| age)
    }

    /// Returns the age of the newest entry with this name, and the number of entries with it, of which it counts `count_max`.
    pub(super) fn find_name(&self, key: Key<'_>, hashes: Hashes, count_max: usize) -> (Option<usize>, usize) {
        let mut entries = self.chain(BY_NAME, hashes).filter(|(_, stored)| stored.has_name(key)).take(count_max);
        match entries.next() {
            Some((age, _)) => (Some(age), 1 + entries.count()),
            None => (None, 0),
        }
    }

    /// Inserts a field as the newest entry, and evicts the oldest ones to make room, as the peer's decoder does.
    pub(super) fn insert(&mut self, key: Key<'_>, value: &[u8], hashes: Hashes) {
        let text = [key.text, value].concat().into_boxed_slice();
        let older = [BY_FIELD, BY_NAME].map(|by| self.chains[by][hashes.0[by] as usize % CHAINS]);
        let stored = Slot { hashes, older, index: key.index, text, name_len: key.text.len(), size: key.size(value) };
        if self.table.insert(stored) {
            self.newest = self.newest.wrapping_add(1);
            for by in [BY_FIELD, BY_NAME] {
                self.chains[by][hashes.0[by] as usize % CHAINS] = self.newest;
            }
        }
    }

    /// Returns the entries with the same hash, and their ages, from the newest on.
    fn chain(&self, by: usize, hashes: Hashes) -> impl Iterator<Item = (usize, &Slot)> {
        let hash = hashes.0[by];
        let mut number = self.chains[by][hash as usize % CHAINS];
        let mut age_min = 0;
        let entries = std::iter::from_fn(move || {
            let age = self.newest.wrapping_sub(number) as usize;
            let stored = self.table.get(age).filter(|_| age >= age_min)?;
            age_min = age + 1;
            number = stored.older[by];
            Some((age, stored))
        });
        entries.filter(move |(_, stored)| stored.hashes.0[by] == hash)
    }
}

/// A multiplicative hash of 16 octets a step: fast, and without any property that an attacker could not break.
pub(super) fn hash(seed: u64, text: &[u8]) -> u64 {
    let mut hash = seed ^ text.len() as u64;
    let (words, rest) = text.as_chunks();
    for word in words {
        let word = u128::from_le_bytes(*word);
        hash = mix(hash, word as u64, (word >> 64) as u64);
    }
    // The last octets; some of them for the second time.
    match (rest.first_chunk(), rest.last_chunk()) {
        (Some(first), Some(last)) => mix(hash, u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => match (rest.first_chunk(), rest.last_chunk()) {
            (Some(first), Some(last)) => mix(hash, u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into()),
            _ => mix(hash, rest.iter().fold(0, |word, octet| (word << 8) | u64::from(*octet)), 0),
        },
    }
}

fn mix(hash: u64, first: u64, second: u64) -> u64 {
    /// 2^64 divided by the golden ratio.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let product = u128::from(hash ^ first ^ FACTOR) * u128::from(second ^ FACTOR.rotate_left(32));
    (product as u64) ^ ((product >> 64) as u64)
}
