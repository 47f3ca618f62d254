//! Turns of long operations, such as RSA signatures with 4096 bits and large batches: each takes a thread for
//! milliseconds. A few run at a time, a bounded number waits, and no caller takes all places.

use std::sync::Arc;

use sealway_proto::broker::TRY_AGAIN_LATER;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::callers::{NoShare, Peer, Share, Shares};
use crate::{Code, Refusal, Result};

/// Most long operations that run or wait. A user has at most three quarters of them, and a process a quarter.
pub(super) const PLACES: usize = 256;

/// Turns of long operations, shared by all callers.
#[derive(Debug)]
pub struct Turns {
    running: Semaphore,
    places: Arc<Shares>,
}

/// A turn, which ends on drop.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    _running: SemaphorePermit<'a>,
    _place: Share,
}

impl Default for Turns {
    /// Creates one turn for each processor.
    fn default() -> Turns {
        Turns::new(std::thread::available_parallelism().map_or(1, usize::from), PLACES)
    }
}

impl Turns {
    /// Creates turns for `running` operations at a time, and places for these and the waiting ones.
    pub(super) fn new(running: usize, places: usize) -> Turns {
        Turns { running: Semaphore::new(running), places: Shares::places(places) }
    }

    /// Waits for a turn, in the order of the calls.
    ///
    /// # Errors
    /// [`Code::FailedPrecondition`]: the caller has its share of places; [`Code::ResourceExhausted`]: all are taken.
    pub(super) async fn take(&self, peer: &Peer) -> Result<Turn<'_>> {
        let full = |why| match why {
            NoShare::All(_) => {
                let text = format!("too many long operations wait: {why}{TRY_AGAIN_LATER}");
                Refusal::new(Code::ResourceExhausted, text)
            }
            why => Refusal::share(format!("too many long operations wait: {why}")),
        };
        let place = self.places.take(peer, 1).map_err(full)?;
        let stopped = |_| Refusal::new(Code::Unavailable, "the broker stops");
        Ok(Turn { _running: self.running.acquire().await.map_err(stopped)?, _place: place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(uid: u32, pid: i32) -> Peer {
        Peer { uid, pid: Some(pid), ..Peer::default() }
    }

    #[tokio::test]
    async fn a_caller_that_fills_its_share_is_refused_and_another_one_waits_for_its_turn() {
        let turns = Arc::new(Turns::new(1, 8));
        let first = turns.take(&peer(1, 1)).await.unwrap();
        // A quarter of the places is a process's: one runs, one waits.
        let waiting = tokio::spawn({
            let turns = turns.clone();
            async move { turns.take(&peer(1, 1)).await.map(drop) }
        });
        while turns.places.take(&peer(1, 1), 1).is_ok() {
            tokio::task::yield_now().await;
        }
        let refusal = turns.take(&peer(1, 1)).await.unwrap_err();
        assert_eq!(refusal.code, Code::FailedPrecondition);
        assert!(refusal.text.contains("process 1 has its share of places, 2; try again later"), "{refusal}");
        let other = tokio::spawn({
            let turns = turns.clone();
            async move { turns.take(&peer(2, 2)).await.map(drop) }
        });
        assert!(!waiting.is_finished() && !other.is_finished());
        drop(first);
        waiting.await.unwrap().unwrap();
        other.await.unwrap().unwrap();
        // All places are free again.
        turns.take(&peer(1, 1)).await.unwrap();
    }
}
