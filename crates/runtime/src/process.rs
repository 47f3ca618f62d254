//! The resources that this process uses, as the kernel counts them, and a way to use less memory.

use std::time::Duration;

use rustix::process::{Resource, getrlimit};

/// Returns the processor time that this process has used, over all threads; `None` if the kernel does not report it.
pub fn processor_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    ticks(&stat)
        .map(|ticks| Duration::from_millis(ticks.saturating_mul(1000) / rustix::param::clock_ticks_per_second()))
}

/// Parses user and system time from the fields after the name in brackets, which may contain any character.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

/// Returns the start of this process, since 1970; to a clock tick of the kernel, a hundredth of a second.
pub fn start_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: u64 = fields.split_ascii_whitespace().nth(19)?.parse().ok()?;
    let since_boot = Duration::from_millis(ticks.saturating_mul(1000) / rustix::param::clock_ticks_per_second());
    let boot = std::fs::read_to_string("/proc/stat").ok()?;
    let boot = boot.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(Duration::from_secs(boot) + since_boot)
}

/// Returns the resident memory of this process, in bytes.
pub fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Keeps the memory of this process small: it uses only pages of the usual size, since a huge page takes 2 MiB for however
/// little data. Memory that the allocator took before this call stays as it is, so the program starts itself again, once, under
/// the same process id. Call it before there are threads, files or children. If the kernel does not support it, or the
/// program's file is gone, the process continues unchanged.
pub fn keep_small() {
    #[cfg(target_os = "linux")]
    without_huge_pages();
}

#[cfg(target_os = "linux")]
fn without_huge_pages() {
    use std::os::unix::process::CommandExt;

    use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};

    if transparent_huge_pages_are_disabled() != Ok(false) || disable_transparent_huge_pages(true).is_err() {
        return;
    }
    // Only if it is in force now: otherwise this would never end.
    if transparent_huge_pages_are_disabled() == Ok(true)
        && let Ok(program) = std::env::current_exe()
    {
        let mut arguments = std::env::args_os();
        let mut again = std::process::Command::new(program);
        if let Some(name) = arguments.next() {
            again.arg0(name);
        }
        let _failed = again.args(arguments).exec();
    }
}

/// Returns the number of open descriptors of this process. Slow if there are many.
pub fn descriptors() -> Option<u64> {
    // One is that of the listing itself.
    Some((std::fs::read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1))
}

/// Returns the largest number of descriptors; `None` for no bound.
pub fn descriptors_max() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, SystemClock};

    #[test]
    fn the_kernels_counts_are_read() {
        assert_eq!(ticks("7 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 250 50 0"), Some(300));
        assert_eq!(ticks("no fields"), None);
        assert!(processor_time().is_some());
        let now = Duration::from_millis(SystemClock.now_ms());
        let age = now.checked_sub(start_time().unwrap()).unwrap();
        assert!(age < Duration::from_secs(3600), "{age:?}");
        assert!(resident_bytes().unwrap() > 100_000);
        assert!(descriptors().unwrap() >= 3);
        assert!(descriptors_max().is_none_or(|max| max >= 3));
    }
}
