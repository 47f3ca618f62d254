//! Processor time and memory of this process.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::record::Usage;

/// Returns a function that reports the calling thread's processor time since its last call. Call it on one thread only.
pub(super) fn of_this_thread() -> impl FnMut() -> Usage {
    let stat = File::open("/proc/thread-self/schedstat").ok();
    let mut before = Usage { ran: processor_time(ClockId::ThreadCPUTime), waited: waited(stat.as_ref()) };
    move || {
        let now = Usage { ran: processor_time(ClockId::ThreadCPUTime), waited: waited(stat.as_ref()) };
        let since = Usage { ran: now.ran.saturating_sub(before.ran), waited: now.waited.saturating_sub(before.waited) };
        before = now;
        since
    }
}

/// Returns the processor time of all threads of this process.
pub(super) fn of_this_process() -> Duration {
    processor_time(ClockId::ProcessCPUTime)
}

fn processor_time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns the time that a thread was ready and did not run: the second number of its `schedstat`; 0 if the kernel has none.
fn waited(stat: Option<&File>) -> Duration {
    let mut text = [0; 64];
    let len = stat.and_then(|stat| stat.read_at(&mut text, 0).ok()).unwrap_or(0);
    let text = std::str::from_utf8(&text[..len]).unwrap_or_default();
    Duration::from_nanos(text.split(' ').nth(1).and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

/// Returns the resident memory in bytes; 0 if the system does not report it.
pub(super) fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}
