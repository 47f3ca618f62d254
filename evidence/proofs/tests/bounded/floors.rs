//! Nonces across restarts of the embedded store: `crates/sessions/src/store/embedded.rs` and the files below it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use sealway_proto::crypto::default_provider;
use sealway_proto::session::{Claim, ClaimKey};
use sealway_proto::wire::ReplayPolicy;
use sealway_sessions::kek::KeyRing;
use sealway_sessions::store::{Embedded, MemoryLimits, Store};
use tempfile::TempDir;

use crate::cases::Choice;
use crate::{Counterexample, Outcome, ensure};

/// The name of the harness.
pub(crate) const NAME: &str = "restart-floors";
/// The property that it checks.
pub(crate) const PROPERTY: &str = "For every sequence of claims, steps of the clock, ahead and back, sweeps, crashes and restarts of a store on a \
     disk, each nonce is granted once over all lives of the store. A crash falls between two writes of the store.";

/// An event in the lives of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A message is claimed, by its number in [`MESSAGES`].
    Claim(usize),
    /// The clock moves by milliseconds, ahead or back.
    Clock(i64),
    Sweep,
    /// The process is killed, and starts again on what its disk has.
    Crash,
    /// The process ends in order, and starts again.
    Restart,
}

const START_MS: i64 = 1_000_000;
const WINDOW_MS: u64 = 4000;
/// Stamps of messages: on the clock, and ahead of it.
const MESSAGES: [i64; 2] = [START_MS, START_MS + 3000];

pub(crate) const EVENTS: &[Event] = &[
    Event::Claim(0),
    Event::Claim(1),
    Event::Clock(3000),
    Event::Clock(-3000),
    Event::Clock(20_000),
    Event::Sweep,
    Event::Crash,
    Event::Restart,
];
/// Number of threads: a store that opens after a crash waits for its floor.
const THREADS: usize = 48;

/// The files of one life: an image of the file at its beginning, and one of now.
pub(crate) struct Life {
    /// The file as it was when the store was opened.
    pub(crate) before: PathBuf,
    /// The file that the store writes.
    pub(crate) file: PathBuf,
}

/// Copies what a crash leaves on the disk to a new file.
pub(crate) type Crash<'a> = &'a (dyn Fn(&Life, &Path) -> std::io::Result<()> + Sync);

/// Copies all that was written.
pub(crate) fn crash(life: &Life, to: &Path) -> std::io::Result<()> {
    std::fs::copy(&life.file, to).map(|_| ())
}

/// Checks every sequence of exactly `len` events that ends in a claim; shorter ones are their beginnings.
pub(crate) fn check(crash: Crash<'_>, len: usize) -> Outcome {
    let mut choice = Choice::new(vec![EVENTS.len(); len]);
    let mut all = Vec::new();
    while let Some(indices) = choice.next() {
        let events: Vec<Event> = indices.iter().filter_map(|index| EVENTS.get(*index).copied()).collect();
        let claims = |events: &[Event]| events.iter().filter(|event| matches!(event, Event::Claim(_))).count();
        // A replay takes two claims, of which one is the last event.
        if matches!(events.last(), Some(Event::Claim(_))) && claims(&events) > 1 {
            all.push(events);
        }
    }
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folder = folder.map_err(|err| Counterexample(format!("no folder: {err}")))?;
    let (next, is_found) = (AtomicUsize::new(0), AtomicBool::new(false));
    let keys = folder.path().join("keys");
    KeyRing::generate(default_provider(), &keys).map_err(|err| Counterexample(err.to_string()))?;
    let work = || -> Outcome {
        let mut cases = 0;
        while let Some(events) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            if is_found.load(Ordering::Relaxed) {
                break;
            }
            cases += run(crash, &keys, events).inspect_err(|_| is_found.store(true, Ordering::Relaxed))?;
        }
        Ok(cases)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        let panicked = |_| Err(Counterexample("the code panicked".into()));
        // All threads end before the first counter-example is returned.
        let outcomes: Vec<Outcome> = threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect();
        outcomes.into_iter().sum()
    })
}

fn run(crash: Crash<'_>, keys: &Path, events: &[Event]) -> Outcome {
    let failed = |what: &str| Counterexample(format!("{events:?}: {what}"));
    let folder = keys.parent().and_then(|parent| TempDir::new_in(parent).ok()).ok_or_else(|| failed("no folder"))?;
    let policy = ReplayPolicy::new(WINDOW_MS, 0);
    let (mut now_ms, mut lives) = (START_MS, 0);
    let mut open = |from: Option<&Life>, is_crash: bool, now_ms: i64| -> Result<(Embedded, Life), Counterexample> {
        lives += 1;
        let life = Life {
            before: folder.path().join(format!("before-{lives}")),
            file: folder.path().join(format!("store-{lives}")),
        };
        if let Some(from) = from {
            let copied =
                if is_crash { crash(from, &life.file) } else { std::fs::copy(&from.file, &life.file).map(|_| ()) };
            copied.map_err(|err| failed(&format!("the disk: {err}")))?;
        }
        let ring = KeyRing::load(default_provider(), keys).map_err(|err| failed(&err.to_string()))?;
        let opened = Embedded::open(
            default_provider(),
            &life.file,
            Arc::new(ring),
            MemoryLimits::DEFAULT,
            now_ms.unsigned_abs(),
        );
        let store = opened.map_err(|err| failed(&err.to_string()))?;
        std::fs::copy(&life.file, &life.before).map_err(|err| failed(&format!("the disk: {err}")))?;
        Ok((store, life))
    };
    let (mut store, mut life) = open(None, false, now_ms)?;
    let mut granted = [false; MESSAGES.len()];
    for event in events {
        match event {
            Event::Clock(by) => now_ms += by,
            Event::Sweep => {
                let _ = wait(store.sweep(now_ms.unsigned_abs()));
            }
            Event::Crash => {
                // The ceiling of a stamp is written ahead, and within milliseconds.
                while store.status().pool.waiting > 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                let (next, at) = open(Some(&life), true, now_ms)?;
                (store, life) = (next, at);
            }
            Event::Restart => {
                drop(store);
                (store, life) = open(Some(&life), false, now_ms)?;
            }
            Event::Claim(message) => {
                let (Some(stamp_ms), Some(granted)) = (MESSAGES.get(*message), granted.get_mut(*message)) else {
                    continue;
                };
                let key = ClaimKey([*message as u8; 16]);
                let claim = Claim::passed_on(key, true, stamp_ms.unsigned_abs(), now_ms.unsigned_abs(), &policy);
                let Ok(claim) = claim else { continue };
                let reserved = wait(store.reserve(&claim));
                ensure!(reserved.is_err() || !*granted, "{events:?}: message {message} is accepted twice");
                let may_fail = *granted || events.first() != Some(event);
                ensure!(reserved.is_ok() || may_fail, "{events:?}: message {message} is rejected at its first use");
                *granted |= reserved.is_ok();
            }
        }
    }
    Ok(1)
}

/// Waits for an operation of a store.
fn wait<T>(mut operation: impl Future<Output = T> + Unpin) -> T {
    loop {
        // The writer thread answers within a few milliseconds, and wakes nobody here.
        if let Some(output) = (&mut operation).now_or_never() {
            return output;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound;
    use crate::report::{finds, holds};

    #[test]
    fn restarts_hold_their_property() {
        let bounds = format!(
            "sequences of up to {} of {} events, 2 messages, on the clock and ahead of it",
            bound(4, 5),
            EVENTS.len()
        );
        holds(NAME, PROPERTY, &bounds, || check(&crash, bound(4, 5)));
    }

    #[test]
    fn a_crash_that_loses_what_was_written_is_found() {
        finds(NAME, "a nonce that is stamped ahead is granted before it is on the disk", || {
            check(&|life, to| std::fs::copy(&life.before, to).map(|_| ()), 3)
        });
    }
}
