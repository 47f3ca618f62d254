//! The compared servers. Each is a process on the server's core with its own Unix socket.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::procfs;
use crate::servers::SERVER_CORE;

/// The longest time that a server may need until it listens.
const START_MAX: Duration = Duration::from_secs(20);

/// A server, killed when dropped.
pub(super) struct Process {
    child: Child,
    pub(super) socket: PathBuf,
    /// Time from the start of the process until a client can connect.
    pub(super) start: Duration,
}

impl Process {
    /// Starts a program, whose output goes to a file beside its socket, and waits until it listens there.
    pub(super) fn start(program: &Path, arguments: &[&str], socket: PathBuf) -> anyhow::Result<Self> {
        let log = socket.with_extension("log");
        let output = std::fs::File::create(&log)?;
        let before = Instant::now();
        let child = Command::new("taskset")
            .args(["-c", &SERVER_CORE.to_string()])
            .arg(program)
            .args(arguments)
            .env("TOKIO_WORKER_THREADS", "1")
            // Sealway's log of each call is no part of the comparison: the other servers write none.
            .env("CRYPTO_BROKER_LOG_LEVEL", "warn")
            .env("OTEL_TRACES_EXPORTER", "none")
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("cannot start {} under taskset", program.display()))?;
        let mut process = Process { child, socket, start: Duration::ZERO };
        while std::os::unix::net::UnixStream::connect(&process.socket).is_err() {
            let ended = process.child.try_wait()?;
            if ended.is_some() || before.elapsed() > START_MAX {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                bail!("{} does not listen: {}", program.display(), said.trim());
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        process.start = before.elapsed();
        Ok(process)
    }

    /// Returns the processor time so far in nanoseconds, rounded to the kernel's tick. This counter includes threads that have
    /// ended.
    pub(super) fn cpu_ns(&self) -> anyhow::Result<u64> {
        Ok((procfs::cpu_s(self.child.id())? * 1e9) as u64)
    }

    /// Returns the resident memory in KiB.
    pub(super) fn rss_kib(&self) -> anyhow::Result<u64> {
        procfs::memory_kib(self.child.id(), "VmRSS")
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
