//! Turns for signatures of a slow key, with the same share for each listener, and for each client of a listener.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Most handshakes of one listener that wait for a turn.
pub(super) const WAITING_MAX: usize = 256;
/// Most of them that are of one client: a quarter, as of other resources that clients share.
pub(super) const CLIENT_WAITING_MAX: usize = WAITING_MAX / 4;

/// Turns for signatures: as many at once as the key has sessions. Listeners that wait get them in rotation, so that one of them
/// delays the others by one signature each; so do the clients of a listener.
#[derive(Debug)]
pub struct Turns(Mutex<State>);

#[derive(Debug)]
struct State {
    free: usize,
    /// Listeners that wait, the next one first.
    lanes: VecDeque<(u64, Queue)>,
}

/// Handshakes of one listener that wait: its clients by their networks, the next one first, each with its handshakes in the
/// order of their arrival. No client has none.
#[derive(Debug, Default)]
struct Queue(VecDeque<(Option<IpAddr>, VecDeque<oneshot::Sender<Turn>>)>);

/// The reason why a handshake does not wait for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Busy {
    /// Too many handshakes of its listener wait.
    Listener,
    /// Too many handshakes of its client wait at this listener.
    Client,
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

impl Queue {
    /// Enters a handshake of a client.
    fn enter(&mut self, client: Option<IpAddr>) -> Result<oneshot::Receiver<Turn>, Busy> {
        if self.check(client).is_err() {
            self.forget_closed();
            self.check(client)?;
        }
        let (sender, receiver) = oneshot::channel();
        match self.0.iter_mut().find(|(other, _)| *other == client) {
            Some((_, waiting)) => waiting.push_back(sender),
            None => self.0.push_back((client, VecDeque::from([sender]))),
        }
        Ok(receiver)
    }

    fn check(&self, client: Option<IpAddr>) -> Result<(), Busy> {
        let of_client = self.0.iter().find(|(other, _)| *other == client).map_or(0, |(_, waiting)| waiting.len());
        if client.is_some() && of_client >= CLIENT_WAITING_MAX {
            return Err(Busy::Client);
        }
        let all: usize = self.0.iter().map(|(_, waiting)| waiting.len()).sum();
        if all >= WAITING_MAX { Err(Busy::Listener) } else { Ok(()) }
    }

    fn forget_closed(&mut self) {
        self.0.retain_mut(|(_, waiting)| {
            waiting.retain(|sender| !sender.is_closed());
            !waiting.is_empty()
        });
    }

    /// Removes the first handshake of the next client, which is the last one then.
    fn leave(&mut self) -> Option<oneshot::Sender<Turn>> {
        let (client, mut waiting) = self.0.pop_front()?;
        let next = waiting.pop_front();
        if !waiting.is_empty() {
            self.0.push_back((client, waiting));
        }
        next
    }
}

impl Turns {
    /// Creates turns of which `sessions` run at once, at least one.
    pub fn new(sessions: usize) -> Turns {
        Turns(Mutex::new(State { free: sessions.max(1), lanes: VecDeque::new() }))
    }

    /// Waits for a turn of a listener, by its number, and of a client, by its network. A client without one, such as of a Unix
    /// socket, has the bound of its listener alone.
    ///
    /// # Errors
    /// [`Busy`], at once.
    pub(super) async fn turn(self: &Arc<Self>, lane: u64, client: Option<IpAddr>) -> Result<Turn, Busy> {
        let receiver = {
            let mut state = self.0.lock();
            if state.free > 0 {
                state.free -= 1;
                return Ok(Turn(Some(self.clone())));
            }
            match state.lanes.iter_mut().find(|(number, _)| *number == lane) {
                Some((_, queue)) => queue.enter(client)?,
                None => {
                    let mut queue = Queue::default();
                    let receiver = queue.enter(client)?;
                    state.lanes.push_back((lane, queue));
                    receiver
                }
            }
        };
        receiver.await.map_err(|_| Busy::Listener)
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
                    Some((lane, mut queue)) => {
                        let next = queue.leave();
                        if !queue.0.is_empty() {
                            state.lanes.push_back((lane, queue));
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

    fn client(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([192, 0, 2, last]))
    }

    #[tokio::test]
    async fn a_listener_with_many_handshakes_delays_another_by_one_turn() {
        let turns = Arc::new(Turns::new(1));
        let held = turns.turn(1, None).await.unwrap();
        let mut greedy: Vec<_> = (0..10).map(|_| Box::pin(turns.turn(1, None))).collect();
        assert!(greedy.iter_mut().all(|turn| turn.now_or_never().is_none()));
        let mut other = Box::pin(turns.turn(2, None));
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
    async fn a_client_with_many_handshakes_has_its_share_and_delays_another_by_one_turn() {
        let turns = Arc::new(Turns::new(1));
        let held = turns.turn(1, client(1)).await.unwrap();
        let mut greedy: Vec<_> = (0..CLIENT_WAITING_MAX).map(|_| Box::pin(turns.turn(1, client(1)))).collect();
        assert!(greedy.iter_mut().all(|turn| turn.now_or_never().is_none()));
        assert_eq!(turns.turn(1, client(1)).now_or_never().unwrap().unwrap_err(), Busy::Client);
        // Its share of another listener is another one.
        let mut elsewhere = Box::pin(turns.turn(2, client(1)));
        assert!((&mut elsewhere).now_or_never().is_none());
        let mut other = Box::pin(turns.turn(1, client(2)));
        assert!((&mut other).now_or_never().is_none());
        drop(held);
        let first = (&mut greedy[0]).now_or_never().unwrap();
        drop(first);
        drop((&mut elsewhere).now_or_never().unwrap());
        assert!((&mut greedy[1]).now_or_never().is_none());
        drop((&mut other).now_or_never().unwrap().unwrap());
        assert!((&mut greedy[1]).now_or_never().is_some());
        // Places of handshakes that ended meanwhile are free.
        let mut next = Box::pin(turns.turn(1, client(1)));
        assert!((&mut next).now_or_never().is_none());
        greedy.clear();
        assert!(next.now_or_never().unwrap().is_ok());
    }

    #[tokio::test]
    async fn a_listener_waits_within_its_bound_and_dropped_handshakes_leave_their_places() {
        let turns = Arc::new(Turns::new(2));
        let held = [turns.turn(1, None).await.unwrap(), turns.turn(1, None).await.unwrap()];
        let mut waiting: Vec<_> =
            (0..WAITING_MAX).map(|at| Box::pin(turns.turn(1, client(u8::try_from(at % 8).unwrap())))).collect();
        assert!(waiting.iter_mut().all(|turn| turn.now_or_never().is_none()));
        for client in [None, client(1), client(9)] {
            assert_eq!(turns.turn(1, client).now_or_never().unwrap().unwrap_err(), Busy::Listener);
        }
        let mut other = Box::pin(turns.turn(2, None));
        assert!((&mut other).now_or_never().is_none());
        drop(waiting);
        let mut again = Box::pin(turns.turn(1, None));
        assert!((&mut again).now_or_never().is_none());
        drop(held);
        assert!((&mut other).now_or_never().unwrap().is_ok() && (&mut again).now_or_never().unwrap().is_ok());
        drop((other, again));
        // Both are free again, whatever was dropped.
        let _both = [turns.turn(3, None).await.unwrap(), turns.turn(3, None).await.unwrap()];
        assert_eq!(turns.0.lock().free, 0);
    }
}
