//! Usage of each wire, by counts and time of last use, by which an operator sees when the last client of an old wire
//! has gone.

use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Counter, Gauge, counter, gauge};
use sealway_proto::wire::Wire;

use crate::policies::index;

/// Usage of one wire since this process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireUse {
    /// Number of sessions that were granted on the wire.
    pub inits: u64,
    /// Number of sealed calls opened and not replayed.
    pub calls: u64,
    /// Time of the last granted session, in milliseconds since the epoch; 0 for never.
    pub last_init_ms: u64,
    /// Time of the last opened sealed call, in milliseconds since the epoch; 0 for never.
    pub last_call_ms: u64,
}

/// Counter and last time of one kind of use.
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
        // The gauge is set at collection: here it would be another write contended by all threads.
        self.last_ms.store(now_ms, Ordering::Relaxed);
    }

    fn refresh(&self) {
        self.last.set((self.last_ms.load(Ordering::Relaxed) / 1000) as f64);
    }
}

/// The wires of sealed calls: those of sessions, and the one without.
const CALL_WIRES: [Wire; 4] = [Wire::V1, Wire::V2, Wire::Native, Wire::OneShot];

/// Usage of all wires since this process started.
pub(crate) struct Usage {
    inits: [Tally; Wire::ALL.len()],
    calls: [Tally; CALL_WIRES.len()],
}

impl Usage {
    pub(crate) fn new() -> Self {
        let tally = |count: &'static str, last: &'static str, wire: Wire| Tally {
            count: counter!(count, "wire" => wire.name()),
            last: gauge!(last, "wire" => wire.name()),
            counted: AtomicU64::new(0),
            last_ms: AtomicU64::new(0),
        };
        Usage {
            inits: Wire::ALL.map(|wire| tally("sealway_inits_total", "sealway_last_init_seconds", wire)),
            calls: CALL_WIRES.map(|wire| tally("sealway_sealed_calls_total", "sealway_last_call_seconds", wire)),
        }
    }

    /// Counts a granted session of a wire.
    pub(crate) fn init(&self, wire: Wire, now_ms: u64) {
        self.inits[index(wire)].note(now_ms);
    }

    /// Counts a sealed call that was opened and is not replayed.
    pub(crate) fn call(&self, wire: Wire, now_ms: u64) {
        self.calls[index(wire)].note(now_ms);
    }

    /// Updates the gauges of the last uses.
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
