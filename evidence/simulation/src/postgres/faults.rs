//! Faults of the server: crashes, halts, steps of its clock, and the promotion of its standby.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{HOST, Postgres, Standby, State, take_back};
use crate::world::Defect;

/// A kind of fault of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    Crash,
    Hang,
    Clock,
    FailOver,
}

impl Postgres {
    fn range(&self, low: u64, high: u64) -> u64 {
        self.world.rng.lock().range(low, high)
    }

    /// Brings a fault over the server, and heals it later.
    pub(crate) fn strike(self: &Arc<Self>, trouble: Trouble) {
        match trouble {
            Trouble::Crash => self.crash(),
            Trouble::Hang => self.hang(),
            Trouble::Clock => self.step_clock(),
            Trouble::FailOver => self.fail_over(),
        }
    }

    fn disturb(&self) {
        (0..self.gateways).for_each(|gateway| self.world.disturb(gateway));
    }

    /// Ends all processes. What is committed stays.
    fn crash(self: &Arc<Self>) {
        self.event("the server crashes");
        let mut state = self.state.lock();
        stop(&mut state);
        if self.world.defect == Some(Defect::CommitsLost) {
            lose(&mut state, Duration::from_millis(500));
        }
        drop(state);
        self.come_back(4000);
    }

    /// Breaks all connections, and accepts new ones after a while.
    fn come_back(self: &Arc<Self>, longest_ms: u64) {
        self.network.reset(None, HOST);
        self.disturb();
        let (postgres, down, starting) = (self.clone(), self.range(100, longest_ms), self.range(0, 500));
        let generation = self.state.lock().generation;
        tokio::spawn(async move {
            let is_last = |state: &State| state.generation == generation;
            sleep(Duration::from_millis(down)).await;
            {
                let mut state = postgres.state.lock();
                if !is_last(&state) {
                    return;
                }
                (state.is_up, state.is_starting) = (true, true);
            }
            sleep(Duration::from_millis(starting)).await;
            let mut state = postgres.state.lock();
            if is_last(&state) {
                state.is_starting = false;
                drop(state);
                postgres.event("the server is up");
                postgres.disturb();
            }
        });
    }

    /// Has the server stand still for a while; its connections stay.
    fn hang(self: &Arc<Self>) {
        self.event("the server stands still");
        self.state.lock().is_hung = true;
        self.disturb();
        let (postgres, ms) = (self.clone(), self.range(100, 4000));
        tokio::spawn(async move {
            sleep(Duration::from_millis(ms)).await;
            postgres.state.lock().is_hung = false;
            postgres.event("the server goes on");
            postgres.changed.notify_waiters();
            postgres.disturb();
        });
    }

    /// Sets the clock forward or back for a while. The promise for an asynchronous standby is one of clocks that agree.
    fn step_clock(self: &Arc<Self>) {
        if self.standby == Standby::Asynchronous {
            return;
        }
        let ms = if self.world.rng.lock().chance(500) { self.range(200, 3000) } else { self.range(15_000, 40_000) };
        let ms = if self.world.rng.lock().chance(500) { ms.cast_signed() } else { -ms.cast_signed() };
        self.event(&format!("the clock steps by {ms} ms"));
        self.state.lock().skew_ms += ms;
        let (postgres, wait) = (self.clone(), self.range(100, 4000));
        tokio::spawn(async move {
            sleep(Duration::from_millis(wait)).await;
            postgres.event(&format!("the clock steps by {} ms", -ms));
            postgres.state.lock().skew_ms -= ms;
        });
    }

    /// Promotes the standby after the server has ended.
    fn fail_over(self: &Arc<Self>) {
        let lag = Duration::from_millis(self.range(0, 800));
        self.event(&format!("the server ends for good, and its standby is promoted: {:?}", self.standby));
        let skew_ms = self.range(0, 300).cast_signed() - 150;
        let mut state = self.state.lock();
        stop(&mut state);
        if self.standby == Standby::Asynchronous {
            lose(&mut state, lag);
            state.skew_ms = skew_ms;
            self.world.store_lost();
        }
        if self.world.defect != Some(Defect::SameTimeline) {
            state.timeline += 1;
        }
        drop(state);
        self.come_back(2000);
    }
}

fn stop(state: &mut State) {
    state.generation += 1;
    (state.is_up, state.is_starting, state.is_hung) = (false, false, false);
    state.locks.clear();
    state.listeners.clear();
}

/// Takes back the commits of the last time.
fn lose(state: &mut State, lag: Duration) {
    let now = Instant::now();
    while state.log.back().is_some_and(|commit| commit.at + lag > now) {
        if let Some(commit) = state.log.pop_back() {
            take_back(&mut state.tables, commit.undo);
        }
    }
}
