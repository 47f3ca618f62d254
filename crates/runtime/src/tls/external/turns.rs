//! Turns for signatures of a slow key, with the same share for each listener.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Most handshakes of one listener that wait for a turn.
pub(super) const WAITING_MAX: usize = 256;

/// Turns for signatures: as many at once as the key has sessions. Listeners that wait get them in rotation, so that one of them
/// delays the others by one signature each.
#[derive(Debug)]
pub struct Turns(Mutex<State>);

#[derive(Debug)]
struct State {
    free: usize,
    /// Listeners that wait, the next one first, with their handshakes in the order of their arrival.
    lanes: VecDeque<(u64, VecDeque<oneshot::Sender<Turn>>)>,
}

/// A turn; dropping it gives it to the next handshake.
#[derive(Debug)]
pub(super) struct Turn(Option<Arc<Turns>>);

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.0.take() {
            turns.release();
        }
    }
}

impl Turns {
    /// Creates turns of which `sessions` run at once, at least one.
    pub fn new(sessions: usize) -> Turns {
        Turns(Mutex::new(State { free: sessions.max(1), lanes: VecDeque::new() }))
    }

    /// Waits for a turn of a listener, by its number. `None` if too many of its handshakes wait already.
    pub(super) async fn turn(self: &Arc<Self>, lane: u64) -> Option<Turn> {
        let receiver = {
            let mut state = self.0.lock();
            if state.free > 0 {
                state.free -= 1;
                return Some(Turn(Some(self.clone())));
            }
            let (sender, receiver) = oneshot::channel();
            match state.lanes.iter_mut().find(|(number, _)| *number == lane) {
                Some((_, waiting)) => {
                    if waiting.len() >= WAITING_MAX {
                        waiting.retain(|sender| !sender.is_closed());
                    }
                    if waiting.len() >= WAITING_MAX {
                        return None;
                    }
                    waiting.push_back(sender);
                }
                None => state.lanes.push_back((lane, VecDeque::from([sender]))),
            }
            receiver
        };
        receiver.await.ok()
    }

    fn release(self: Arc<Self>) {
        loop {
            let next = {
                let mut state = self.0.lock();
                match state.lanes.pop_front() {
                    None => {
                        state.free += 1;
                        return;
                    }
                    Some((lane, mut waiting)) => {
                        let next = waiting.pop_front();
                        if !waiting.is_empty() {
                            state.lanes.push_back((lane, waiting));
                        }
                        next
                    }
                }
            };
            let Some(next) = next else { continue };
            // Unlocked: a turn that the receiver drops comes back here.
            match next.send(Turn(Some(self.clone()))) {
                Ok(()) => return,
                Err(mut unsent) => drop(unsent.0.take()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_listener_with_many_handshakes_delays_another_by_one_turn() {
        let turns = Arc::new(Turns::new(1));
        let held = turns.turn(1).await.unwrap();
        let mut greedy: Vec<_> = (0..10).map(|_| Box::pin(turns.turn(1))).collect();
        assert!(greedy.iter_mut().all(|turn| turn.now_or_never().is_none()));
        let mut other = Box::pin(turns.turn(2));
        assert!((&mut other).now_or_never().is_none());
        drop(held);
        let first = (&mut greedy[0]).now_or_never().unwrap();
        assert!((&mut other).now_or_never().is_none());
        drop(first);
        assert!((&mut greedy[1]).now_or_never().is_none());
        let second = (&mut other).now_or_never().unwrap().unwrap();
        drop(second);
        assert!((&mut greedy[1]).now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_listener_waits_within_its_bound_and_dropped_handshakes_leave_their_places() {
        let turns = Arc::new(Turns::new(2));
        let held = [turns.turn(1).await.unwrap(), turns.turn(1).await.unwrap()];
        let mut waiting: Vec<_> = (0..WAITING_MAX).map(|_| Box::pin(turns.turn(1))).collect();
        assert!(waiting.iter_mut().all(|turn| turn.now_or_never().is_none()));
        assert!(turns.turn(1).await.is_none());
        let mut other = Box::pin(turns.turn(2));
        assert!((&mut other).now_or_never().is_none());
        drop(waiting);
        let mut again = Box::pin(turns.turn(1));
        assert!((&mut again).now_or_never().is_none());
        drop(held);
        assert!((&mut other).now_or_never().unwrap().is_some() && (&mut again).now_or_never().unwrap().is_some());
        drop((other, again));
        // Both are free again, whatever was dropped.
        let _both = [turns.turn(3).await.unwrap(), turns.turn(3).await.unwrap()];
        assert_eq!(turns.0.lock().free, 0);
    }
}
