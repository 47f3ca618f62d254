//! A program of somebody else's that a test stands on, in a process of its own: found or loudly missed, started on a
//! free port with its output in a file, and gone with the test, however the test ends.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::process::watch;

/// How long a start, or an end, may take.
const WAIT: Duration = Duration::from_secs(30);
/// How much of an output an error shows.
const TAIL_LEN: u64 = 4096;
/// Ports that the system hands to nobody by itself: below where outgoing connections begin, so that a port stays free
/// while whoever listened on it is down.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// The repository's root.
pub fn root() -> PathBuf {
    let manifest_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    // A shared target folder can hold what another clone compiled; at run time cargo says where this one is.
    let manifest_dir = std::env::var_os("CARGO_MANIFEST_DIR").map_or(manifest_dir.to_owned(), PathBuf::from);
    let root = manifest_dir.ancestors().find(|folder| folder.join("Cargo.lock").is_file());
    root.unwrap_or(&manifest_dir).to_owned()
}

/// Finds a program in `.venv/bin` or on PATH or where Debian puts a system's servers.
///
/// # Errors
/// When it is nowhere, with what installs it: a test without its parts fails.
pub fn program(name: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = root().join(".venv/bin");
    let folders = [own].into_iter().chain(std::env::split_paths(&path)).chain(["/usr/sbin".into()]);
    let found = folders.map(|folder| folder.join(name)).find(|file| file.is_file());
    found.with_context(|| format!("{name} is missing and this test needs it: run scripts/setup-tests.sh"))
}

/// Empties a command's environment but for the place where a program that counts what it runs of itself writes it down:
/// `make coverage`.
pub fn clear_environment(command: &mut Command) -> &mut Command {
    const COUNTS: &str = "LLVM_PROFILE_FILE";
    command.env_clear().envs(std::env::var_os(COUNTS).map(|file| (COUNTS, file)))
}

/// A port of 127.0.0.1 that is free and stays so until it is listened on, restarts included.
///
/// # Errors
/// When none is.
pub fn free_port() -> anyhow::Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let len = PORTS.end - PORTS.start;
    // Test processes run side by side: each begins elsewhere.
    let start = (std::process::id() as u16).wrapping_mul(97) % len;
    for _ in 0..len {
        let port = PORTS.start + (start + NEXT.fetch_add(1, Ordering::Relaxed) % len) % len;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port is free")
}

/// The process.
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
    /// When it cannot be started.
    pub fn start(mut command: Command, output: &Path) -> anyhow::Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let file = File::create(output)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let watcher = Some(watch(&child)?);
        Ok(Daemon { name, child, watcher, output: output.to_owned() })
    }

    /// Waits until somebody accepts connections at `address`.
    ///
    /// # Errors
    /// When nobody does, or the process has ended; with the end of its output.
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

    /// The end of its output.
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

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// When it is gone.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.child.id())?).context("pid")?;
        kill_process(pid, signal).with_context(|| format!("{} is gone", self.name))
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it does not end.
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
        // After the child: its number must not be another's when the watcher is told.
        if let Some(mut watcher) = self.watcher.take() {
            let _ = watcher.kill();
            let _ = watcher.wait();
        }
    }
}
