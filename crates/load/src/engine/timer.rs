//! Waiting for a moment as precisely as the kernel can: tokio's own timer has a grain of a millisecond, which would be
//! part of every response time that is told.

use std::time::Instant;

#[cfg(target_os = "linux")]
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

/// A timer for one task.
#[derive(Debug)]
pub(super) struct Timer {
    /// None where the kernel gives none: then tokio's timer has to do, and the lag that is measured says so.
    #[cfg(target_os = "linux")]
    descriptor: Option<tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>>,
}

impl Timer {
    /// On the event loop that it is called on.
    pub(super) fn new() -> Self {
        #[cfg(target_os = "linux")]
        return Timer { descriptor: descriptor() };
        #[cfg(not(target_os = "linux"))]
        Timer {}
    }

    /// Until this moment; not at all if it has passed. May be dropped at any await.
    pub(super) async fn until(&mut self, at: Instant) {
        #[cfg(target_os = "linux")]
        if let Some(descriptor) = &self.descriptor {
            loop {
                let left = at.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return;
                }
                // Arming it forgets an earlier end, so that there is nothing to read: what is left of readiness by a
                // wait that was dropped costs one more turn here.
                let (Ok(tv_sec), tv_nsec) = (left.as_secs().try_into(), left.subsec_nanos().into()) else { break };
                let once = Itimerspec {
                    it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
                    it_value: Timespec { tv_sec, tv_nsec },
                };
                if rustix::time::timerfd_settime(descriptor, TimerfdTimerFlags::empty(), &once).is_err() {
                    break;
                }
                match descriptor.readable().await {
                    Ok(mut ready) => ready.clear_ready(),
                    Err(_) => break,
                }
            }
        }
        tokio::time::sleep_until(at.into()).await;
    }
}

#[cfg(target_os = "linux")]
fn descriptor() -> Option<tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags).ok()?;
    // The way that took its place is an unsafe function.
    #[allow(deprecated, reason = "unsound only for what changes its descriptor, which an owned one does not")]
    tokio::io::unix::AsyncFd::with_interest(timer, tokio::io::Interest::READABLE).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_wait_ends_not_before_its_moment_and_well_within_a_millisecond_of_it() {
        let mut timer = Timer::new();
        let mut late = Vec::new();
        for _ in 0..50 {
            let at = Instant::now() + Duration::from_micros(700);
            timer.until(at).await;
            let now = Instant::now();
            assert!(now >= at);
            late.push(now - at);
        }
        // The best of them: others may have been held up by what else the machine does.
        let best = late.iter().min().unwrap();
        assert!(*best < Duration::from_micros(300), "{best:?}");
    }

    #[tokio::test]
    async fn a_wait_that_was_dropped_does_not_end_the_next_one_early() {
        let mut timer = Timer::new();
        let at = Instant::now() + Duration::from_millis(2);
        let _ = tokio::time::timeout(Duration::from_micros(1), timer.until(at)).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        let at = Instant::now() + Duration::from_millis(3);
        timer.until(at).await;
        assert!(Instant::now() >= at);
    }
}
