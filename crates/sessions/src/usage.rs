//! How much each wire is used, and when it last was: what an operator watches until the last old client has gone.

use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Counter, Gauge, counter, gauge};
use sealway_proto::wire::Wire;

use crate::policies::index;

/// What one wire was used for, since this process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireUse {
    /// Sessions granted.
    pub inits: u64,
    /// Sealed calls opened and not replayed.
    pub calls: u64,
    /// When a session was last granted, in milliseconds since the epoch; 0 for never.
    pub last_init_ms: u64,
    /// When a sealed call was last opened; 0 for never.
    pub last_call_ms: u64,
}

/// One thing that a wire is used for.
struct Tally {
    count: Counter,
    last: Gauge,
    counted: AtomicU64,
    last_ms: AtomicU64,
}

impl Tally {
    fn note(&self, now_ms: u64) {
        self.count.increment(1);
        self.counted.fetch_add(1, Ordering::Relaxed);
        // The gauge is set when it is read: here it would be one more write that all threads meet at.
        self.last_ms.store(now_ms, Ordering::Relaxed);
    }

    fn refresh(&self) {
        self.last.set((self.last_ms.load(Ordering::Relaxed) / 1000) as f64);
    }
}

/// Counts the use of all wires.
pub(crate) struct Usage {
    inits: [Tally; Wire::ALL.len()],
    calls: [Tally; Wire::ALL.len()],
}

impl Usage {
    pub(crate) fn new() -> Self {
        let tallies = |count: &'static str, last: &'static str| {
            Wire::ALL.map(|wire| Tally {
                count: counter!(count, "wire" => wire.name()),
                last: gauge!(last, "wire" => wire.name()),
                counted: AtomicU64::new(0),
                last_ms: AtomicU64::new(0),
            })
        };
        Usage {
            inits: tallies("sealway_inits_total", "sealway_last_init_seconds"),
            calls: tallies("sealway_sealed_calls_total", "sealway_last_call_seconds"),
        }
    }

    /// A session was granted.
    pub(crate) fn init(&self, wire: Wire, now_ms: u64) {
        self.inits[index(wire)].note(now_ms);
    }

    /// A sealed call was opened, and is not replayed.
    pub(crate) fn call(&self, wire: Wire, now_ms: u64) {
        self.calls[index(wire)].note(now_ms);
    }

    /// Brings gauges up to date.
    pub(crate) fn refresh(&self) {
        self.inits.iter().chain(&self.calls).for_each(Tally::refresh);
    }

    pub(crate) fn of(&self, wire: Wire) -> WireUse {
        let (inits, calls) = (&self.inits[index(wire)], &self.calls[index(wire)]);
        WireUse {
            inits: inits.counted.load(Ordering::Relaxed),
            calls: calls.counted.load(Ordering::Relaxed),
            last_init_ms: inits.last_ms.load(Ordering::Relaxed),
            last_call_ms: calls.last_ms.load(Ordering::Relaxed),
        }
    }
}
