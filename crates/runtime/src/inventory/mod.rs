//! A live inventory of cryptography: each combination of operation, algorithm, size, key, party and protocol that this process
//! used, with its count and the times of its first and last use.
//!
//! Counting a known combination takes no lock and allocates nothing. The table is bounded, as a whole and for each party;
//! operations beyond the bounds are counted together and shown, never dropped silently. A [`Keeper`] writes the table to a
//! folder. It does not know which services count, and holds no input, output or secret.

mod document;
mod keeper;
mod row;
mod rules;

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

pub use document::{DOCUMENT_LEN_MAX, Document, DocumentError, Entry, Gaps, Overflow};
pub use keeper::{KeepError, Keeper, WRITE_INTERVAL};
pub use row::{NAME_LEN_MAX, Party, Use};
pub use rules::{Ban, Properties, Verdict, properties};

use crate::clock::{Clock, SystemClock};
use row::{Row, mix};

/// Most rows of a table.
pub const ROWS_MAX: usize = 4096;
/// Most rows of one party: no caller or route displaces the others.
pub const PARTY_ROWS_MAX: usize = 1024;
/// Places of the index, twice the rows, so that a search ends soon. A power of two.
const PLACES: usize = ROWS_MAX * 2;

/// Table of the counts of one process.
pub struct Inventory {
    seed: u64,
    places: Box<[OnceLock<Box<Row>>]>,
    len: AtomicUsize,
    /// Rows of each party, for insertions alone.
    inserting: Mutex<std::collections::HashMap<String, usize>>,
    overflow: [AtomicU64; 3],
    carried: OnceLock<Earlier>,
}

/// Figures of the earlier processes whose file this one continues.
#[derive(Clone, Copy, Debug, Default)]
struct Earlier {
    since_ms: u64,
    gaps: Gaps,
}

impl Default for Inventory {
    fn default() -> Inventory {
        let places = std::iter::repeat_with(OnceLock::new).take(PLACES).collect();
        Inventory {
            seed: RandomState::new().hash_one(0_u8),
            places,
            len: AtomicUsize::new(0),
            inserting: Mutex::default(),
            overflow: Default::default(),
            carried: OnceLock::new(),
        }
    }
}

impl std::fmt::Debug for Inventory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inventory").field("rows", &self.len).finish_non_exhaustive()
    }
}

/// The place of a combination in the index.
enum Place<'a> {
    Known(&'a Row),
    Free(usize),
    Full,
}

impl Inventory {
    /// Counts `times` operations at `now_ms`, in milliseconds since 1970. Names beyond [`NAME_LEN_MAX`] are cut.
    pub fn count(&self, used: &Use<'_>, times: u64, now_ms: u64) {
        let cut;
        let used = if used.is_short() {
            used
        } else {
            cut = used.cut();
            &cut
        };
        let hash = mix(self.seed, used);
        match self.find(used, hash) {
            Place::Known(row) => row.count(times, now_ms),
            _ => self.insert(used, hash, times, (now_ms, now_ms)),
        }
    }

    fn find(&self, used: &Use<'_>, hash: u64) -> Place<'_> {
        let first = hash as usize % PLACES;
        for step in 0..PLACES {
            let index = (first + step) % PLACES;
            match self.places.get(index).map(OnceLock::get) {
                Some(Some(row)) if row.is_of(used, hash) => return Place::Known(row),
                Some(Some(_)) => {}
                Some(None) => return Place::Free(index),
                None => return Place::Full,
            }
        }
        Place::Full
    }

    /// Adds a row, or counts what has no room. The lock keeps two threads from adding the same row.
    fn insert(&self, used: &Use<'_>, hash: u64, times: u64, (first_ms, last_ms): (u64, u64)) {
        if self.len.load(Ordering::Relaxed) >= ROWS_MAX {
            return self.overflow(times, first_ms, last_ms);
        }
        let mut rows = self.inserting.lock();
        match self.find(used, hash) {
            Place::Known(row) => row.count(times, last_ms),
            Place::Free(index) => {
                let of_party = rows.entry(used.party.to_string()).or_default();
                if self.len.load(Ordering::Relaxed) >= ROWS_MAX || *of_party >= PARTY_ROWS_MAX {
                    return self.overflow(times, first_ms, last_ms);
                }
                *of_party += 1;
                self.len.fetch_add(1, Ordering::Relaxed);
                if let Some(place) = self.places.get(index) {
                    let _ = place.set(Box::new(Row::new(used, hash, times, (first_ms, last_ms))));
                }
            }
            Place::Full => self.overflow(times, first_ms, last_ms),
        }
    }

    fn overflow(&self, times: u64, first_ms: u64, last_ms: u64) {
        let [count, first, last] = &self.overflow;
        count.fetch_add(times, Ordering::Relaxed);
        let _ = first.compare_exchange(0, first_ms, Ordering::Relaxed, Ordering::Relaxed);
        last.fetch_max(last_ms, Ordering::Relaxed);
    }

    /// Returns the counts of now, in the order of their names.
    pub fn document(&self, source: &str, now_ms: u64) -> Document {
        let carried = self.carried.get().copied().unwrap_or_default();
        let rows = self.places.iter().filter_map(OnceLock::get).map(|row| row.entry());
        let [count, first_ms, last_ms] =
            [0, 1, 2].map(|at: usize| self.overflow.get(at).map_or(0, |value| value.load(Ordering::Relaxed)));
        Document::new(source, carried.since_ms, now_ms, rows.collect())
            .with(Overflow { count, first_ms, last_ms }, carried.gaps)
    }

    /// Adds the counts of an earlier process. Called once, before anything is counted.
    fn carry(&self, document: &Document) {
        for entry in &document.rows {
            let used = entry.used();
            let used = used.cut();
            self.insert(&used, mix(self.seed, &used), entry.count, (entry.first_ms, entry.last_ms));
        }
        if document.overflow.count > 0 {
            self.overflow(document.overflow.count, document.overflow.first_ms, document.overflow.last_ms);
        }
        let _ = self.carried.set(Earlier { since_ms: document.since_ms, gaps: document.gaps });
    }
}

static INSTALLED: OnceLock<Arc<Inventory>> = OnceLock::new();

/// Returns the process's inventory, and begins to count at the first call: services do at their start, commands do not.
pub fn install() -> Arc<Inventory> {
    INSTALLED.get_or_init(Arc::default).clone()
}

/// Returns the process's inventory, if it counts.
pub fn installed() -> Option<&'static Arc<Inventory>> {
    INSTALLED.get()
}

/// Counts `times` operations in the process's inventory; nothing before [`install`].
pub fn count(used: &Use<'_>, times: u64, now_ms: u64) {
    if let Some(inventory) = INSTALLED.get() {
        inventory.count(used, times, now_ms);
    }
}

/// Counts `times` operations at the time of the system's clock.
pub fn count_now(used: &Use<'_>, times: u64) {
    if let Some(inventory) = INSTALLED.get() {
        inventory.count(used, times, SystemClock.now_ms());
    }
}

#[cfg(test)]
mod tests;
