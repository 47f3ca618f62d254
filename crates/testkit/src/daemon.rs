//! An external program that a test uses, in a process of its own: found or loudly missed, started on a free port with its
//! output in a file, and ended with the test, however the test ends.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

pub use crate::place::root;
use crate::process::watch;

/// Longest time for a start, or an end.
const WAIT: Duration = Duration::from_secs(30);
/// Longest part of an output that an error shows, in bytes.
const TAIL_LEN: u64 = 4096;
/// Ports that the system does not assign by itself: below the range of outgoing connections, so that a port stays free while
/// its server is down.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// Finds a program in `.venv/bin`, on PATH, or in Debian's folder for a system's servers.
///
/// # Errors
/// The program is not found; the text says how to install it: a test without its parts fails.
pub fn program(name: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = root().join(".venv/bin");
    let folders = [own].into_iter().chain(std::env::split_paths(&path)).chain(["/usr/sbin".into()]);
    let found = folders.map(|folder| folder.join(name)).find(|file| file.is_file());
    found.with_context(|| format!("{name} is missing and this test needs it: run scripts/setup-tests.sh"))
}

/// Clears a command's environment except for the path at which an instrumented program writes its counts: `make coverage`.
pub fn clear_environment(command: &mut Command) -> &mut Command {
    const COUNTS: &str = "LLVM_PROFILE_FILE";
    command.env_clear().envs(std::env::var_os(COUNTS).map(|file| (COUNTS, file)))
}

/// Returns a port of 127.0.0.1 that is free and stays so until a server listens on it, restarts included.
///
/// # Errors
/// If none is.
pub fn free_port() -> anyhow::Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let len = PORTS.end - PORTS.start;
    // Test processes run in parallel: each begins at another port.
    let start = (std::process::id() as u16).wrapping_mul(97) % len;
    for _ in 0..len {
        let port = PORTS.start + (start + NEXT.fetch_add(1, Ordering::Relaxed) % len) % len;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port is free")
}

/// The process, and the watcher that ends it.
#[derive(Debug)]
pub struct Daemon {
    name: String,
    child: Child,
    watcher: Option<Child>,
    output: PathBuf,
}

impl Daemon {
    /// Starts it with its output in `output`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(mut command: Command, output: &Path) -> anyhow::Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let file = File::create(output)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let watcher = Some(watch(&child)?);
        Ok(Daemon { name, child, watcher, output: output.to_owned() })
    }

    /// Waits until the program accepts connections at `address`.
    ///
    /// # Errors
    /// Nothing listens in time, or the process has ended; the text has the end of its output.
    pub fn wait_for(&mut self, address: SocketAddr) -> anyhow::Result<()> {
        let until = Instant::now() + WAIT;
        while TcpStream::connect_timeout(&address, WAIT).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended with {status}:\n{}", self.name, self.tail());
            }
            if Instant::now() > until {
                bail!("{} does not listen on {address}:\n{}", self.name, self.tail());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Returns the end of its output.
    pub fn tail(&self) -> String {
        let read = || -> std::io::Result<Vec<u8>> {
            let mut file = File::open(&self.output)?;
            let len = file.metadata()?.len();
            file.seek(SeekFrom::Start(len.saturating_sub(TAIL_LEN)))?;
            let mut bytes = Vec::new();
            file.take(TAIL_LEN).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
    }

    /// Returns the id of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the process. After SIGSTOP, waits until no thread of it runs any more.
    ///
    /// # Errors
    /// If it is gone.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.child.id())?).context("pid")?;
        kill_process(pid, signal).with_context(|| format!("{} is gone", self.name))?;
        let end = Instant::now() + WAIT;
        while signal == Signal::STOP && !self.is_stopped()? {
            ensure!(Instant::now() < end, "{} does not stop", self.name);
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// True if each of its threads is stopped, or has ended.
    fn is_stopped(&self) -> anyhow::Result<bool> {
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let Ok(stat) = std::fs::read_to_string(thread?.path().join("stat")) else { continue };
            let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
            if !matches!(state, Some('T' | 'Z')) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the exit status of the process, if it has ended.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits for the end of the process.
    ///
    /// # Errors
    /// If it does not end.
    pub fn wait(&mut self) -> anyhow::Result<ExitStatus> {
        let until = Instant::now() + WAIT;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > until {
                bail!("{} does not end", self.name);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // After the child: otherwise the watcher could signal another process that reuses its id.
        if let Some(mut watcher) = self.watcher.take() {
            let _ = watcher.kill();
            let _ = watcher.wait();
        }
    }
}
