//! Literals that a peer repeats: some servers fill the table in each block and never refer to it (nginx).
//!
//! Only literals that enter the dynamic table are remembered, those with a name of the static table.

use super::decoder::Entry;
use super::index::hash;

/// Most literals that are remembered.
const KNOWN_MAX: usize = 8;
/// Number of literals that are remembered by their hashes to see them repeat.
const RECENT: usize = 16;
/// Longest text of a literal that is remembered, in bytes.
const TEXT_MAX: usize = 64;

/// The value of a literal as it is encoded, and the index of its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Literal<'a> {
    name: usize,
    is_coded: bool,
    text: &'a [u8],
    hash: u32,
}

impl<'a> Literal<'a> {
    /// Returns the literal, if it is short enough to be remembered.
    pub(super) fn new(name: usize, is_coded: bool, text: &'a [u8]) -> Option<Self> {
        let seed = name as u64 * 2 + u64::from(is_coded);
        (text.len() <= TEXT_MAX).then(|| Literal { name, is_coded, text, hash: hash(seed, text) as u32 })
    }
}

/// A literal and its field.
#[derive(Debug)]
struct MemoEntry {
    name: usize,
    is_coded: bool,
    text: Box<[u8]>,
    hash: u32,
    entry: Entry,
}

/// The literals of a connection that have repeated.
#[derive(Debug, Default)]
pub(super) struct Memo {
    known: Vec<MemoEntry>,
    /// Position in `known` that is replaced next.
    next_known: usize,
    recent: [u32; RECENT],
    /// Position in `recent` that is replaced next.
    next_recent: usize,
}

impl Memo {
    /// Returns the field of a literal that has repeated.
    pub(super) fn get(&self, literal: Literal<'_>) -> Option<&Entry> {
        let is_it = |known: &&MemoEntry| {
            known.hash == literal.hash
                && known.name == literal.name
                && known.is_coded == literal.is_coded
                && *known.text == *literal.text
        };
        self.known.iter().find(is_it).map(|known| &known.entry)
    }

    /// Notes that a literal was decoded. Returns whether it was decoded lately, and should be stored.
    pub(super) fn is_repeated(&mut self, literal: Literal<'_>) -> bool {
        let is_repeated = self.recent.contains(&literal.hash);
        if !is_repeated && let Some(recent) = self.recent.get_mut(self.next_recent) {
            *recent = literal.hash;
            self.next_recent = (self.next_recent + 1) % RECENT;
        }
        is_repeated
    }

    /// Stores the field of a literal, whose value must not share memory.
    pub(super) fn store(&mut self, literal: Literal<'_>, entry: Entry) {
        let Literal { name, is_coded, text, hash } = literal;
        let known = MemoEntry { name, is_coded, text: text.into(), hash, entry };
        match self.known.get_mut(self.next_known) {
            Some(slot) => *slot = known,
            None => self.known.push(known),
        }
        self.next_known = (self.next_known + 1) % KNOWN_MAX;
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }
}
