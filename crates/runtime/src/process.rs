//! What this process uses of its machine, as the kernel counts it, and how it uses less.

use std::time::Duration;

use rustix::process::{Resource, getrlimit};

/// Processor time that this process has used until now, over all threads; none where the kernel does not say.
pub fn processor_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    ticks(&stat)
        .map(|ticks| Duration::from_millis(ticks.saturating_mul(1000) / rustix::param::clock_ticks_per_second()))
}

/// User and system time, of the fields after the name in brackets, which may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

/// When this process began, since 1970; to a clock tick of the kernel, a hundredth of a second.
pub fn start_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: u64 = fields.split_ascii_whitespace().nth(19)?.parse().ok()?;
    let since_boot = Duration::from_millis(ticks.saturating_mul(1000) / rustix::param::clock_ticks_per_second());
    let boot = std::fs::read_to_string("/proc/stat").ok()?;
    let boot = boot.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(Duration::from_secs(boot) + since_boot)
}

/// Memory that this process holds, in bytes.
pub fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// For a process that shall stay small: memory in pages of the usual size alone, where a huge page is 2 MiB for however
/// little lies in it. What the allocator took before anything of ours ran stays as large as it is, so this program begins
/// again, once, under the same process id. To be called before there are threads, files or children. Where the kernel
/// grants no such wish, or the program's file is gone, everything goes on as it was.
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
    // Only if it is so now: or this would never end.
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

/// Descriptors that this process has open. Takes the kernel a while where they are many.
pub fn descriptors() -> Option<u64> {
    // One is the listing itself.
    Some((std::fs::read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1))
}

/// How many it may have open; none for no bound.
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
