//! A running generator: starts it on its core, waits for its end, and measures its processor time and memory.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::procfs;
use crate::servers::LOAD_CORE;

/// The interval between two readings of its memory.
const LOOK: Duration = Duration::from_millis(50);

/// The processor time and memory that a run used.
pub(super) struct Cost {
    /// Processor time from start to exit, in seconds.
    pub(super) cpu_s: f64,
    /// Peak resident memory, in MiB.
    pub(super) rss_mib: f64,
}

/// A generator process that is running.
pub(super) struct Running {
    child: Child,
    what: String,
    rss_kib: u64,
}

impl Running {
    /// Starts the generator on the load's core. Its output goes into `folder`.
    ///
    /// # Errors
    /// If the process does not start.
    pub(super) fn start(command: &[String], folder: &Path, descriptors: Option<u64>) -> anyhow::Result<Self> {
        let what = command.join(" ");
        let file = std::fs::File::create(folder.join("output"))?;
        let limit = descriptors.map_or_else(String::new, |limit| format!("ulimit -n {limit} && "));
        let child = Command::new("sh")
            .args(["-c", &format!("{limit}exec taskset -c {LOAD_CORE} \"$@\""), "sh"])
            .args(command)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {what}"))?;
        Ok(Running { child, what, rss_kib: 0 })
    }

    /// Reads the resident memory, records the peak, and returns the current value in KiB.
    pub(super) fn look(&mut self) -> u64 {
        // The process may have exited, or not started yet.
        let most = procfs::memory_kib(self.child.id(), "VmHWM").unwrap_or_default();
        self.rss_kib = self.rss_kib.max(most);
        procfs::memory_kib(self.child.id(), "VmRSS").unwrap_or_default()
    }

    /// Returns true if the process has exited.
    ///
    /// # Errors
    /// If the system call fails.
    pub(super) fn has_ended(&self) -> anyhow::Result<bool> {
        let pid = Pid::from_raw(i32::try_from(self.child.id())?).context("no process")?;
        // `NOWAIT` leaves the process as a zombie, so that its processor time can still be read.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        Ok(waitid(WaitId::Pid(pid), options)?.is_some())
    }

    /// Waits until the process exits, and returns its cost.
    ///
    /// # Errors
    /// If the process does not exit in time, or fails. The message contains the end of its output.
    pub(super) fn finish(mut self, folder: &Path, patience: Duration) -> anyhow::Result<Cost> {
        let until = Instant::now() + patience;
        while !self.has_ended()? {
            self.look();
            ensure!(Instant::now() < until, "it does not end: {}", self.what);
            std::thread::sleep(LOOK);
        }
        let cpu_s = procfs::cpu_s(self.child.id())?;
        let status = self.child.wait()?;
        let said = std::fs::read_to_string(folder.join("output")).unwrap_or_default();
        let from = said.char_indices().rev().nth(2000).map_or(0, |(at, _)| at);
        ensure!(status.success(), "{status}: {}\n{}", self.what, &said[from..]);
        Ok(Cost { cpu_s, rss_mib: self.rss_kib as f64 / 1024.0 })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
