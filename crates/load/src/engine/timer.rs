//! Timer as precise as the kernel allows: tokio's own has a granularity of a millisecond, which every measured response time
//! would include.

use std::time::Instant;

#[cfg(target_os = "linux")]
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

/// Precise timer of one task.
#[derive(Debug)]
pub(super) struct Timer {
    /// `None` if the kernel provides none: tokio's timer is used then, and the measured lag shows it.
    #[cfg(target_os = "linux")]
    descriptor: Option<tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>>,
}

impl Timer {
    /// Creates a timer on the current event loop.
    pub(super) fn new() -> Self {
        #[cfg(target_os = "linux")]
        return Timer { descriptor: descriptor() };
        #[cfg(not(target_os = "linux"))]
        Timer {}
    }

    /// Waits until this time; returns at once if it has passed. May be dropped at any await.
    pub(super) async fn until(&mut self, at: Instant) {
        #[cfg(target_os = "linux")]
        if let Some(descriptor) = &self.descriptor {
            loop {
                let left = at.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return;
                }
                // Arming the timer clears an earlier expiration, so there is nothing to read. Readiness left by a dropped
                // wait costs one more turn of this loop.
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
    // The replacement of this function is unsafe.
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
        // Only the best of the measurements counts: load of the machine may delay the others.
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
