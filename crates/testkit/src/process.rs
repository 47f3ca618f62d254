//! A real `sealway serve` in a process of its own, on ports of its own, with its log collected. It ends with the test: by a
//! signal when dropped, and by a watcher if the test process itself ends first.

use std::collections::HashMap;
use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::daemon::clear_environment;

/// Longest time for a start, or an end.
const WAIT: Duration = Duration::from_secs(30);

/// The bearer token of every test's admin listener.
pub const ADMIN_TOKEN: &str = "test-admin-token-0123456789";

/// Lines of a log as they arrive.
#[derive(Debug, Default)]
struct Log {
    lines: Mutex<Vec<String>>,
    more: Condvar,
}

impl Log {
    /// Keeps a line. Over the bound the middle is dropped: the beginning and the end are the most useful.
    fn push(&self, line: String, lines_max: usize) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push(line);
        if lines.len() > lines_max {
            lines.drain(lines_max / 4..lines_max / 2);
        }
        drop(lines);
        self.more.notify_all();
    }
}

/// A running server and its log.
#[derive(Debug)]
pub struct Server {
    child: Child,
    watcher: Option<Child>,
    log: Arc<Log>,
    reader: Option<std::thread::JoinHandle<()>>,
    /// The addresses that it listens on, in the order of the configuration.
    pub addresses: Vec<SocketAddr>,
    /// The address of its admin listener, if it has one.
    pub admin: Option<SocketAddr>,
    /// The folder of its configuration; removed with the server unless the test owns it.
    pub folder: PathBuf,
    owned: Option<tempfile::TempDir>,
    /// The section of its configuration that the test does not set.
    telemetry: String,
}

/// The settings of a server to start.
#[derive(Debug)]
pub struct Launch<'a> {
    binary: &'a Path,
    config: String,
    folder: Option<PathBuf>,
    env: HashMap<String, String>,
    log_level: &'a str,
    log_lines_max: usize,
    file_limit_survivable: bool,
    is_litegateway: bool,
    arguments: Vec<String>,
    descriptors_max: Option<u32>,
}

impl<'a> Launch<'a> {
    /// Creates a launch of `sealway serve` with this configuration (all but `telemetry:`), in a fresh folder where
    /// `admin.token` contains [`ADMIN_TOKEN`].
    pub fn new(binary: &'a str, config: &str) -> Self {
        Launch {
            binary: Path::new(binary),
            config: config.to_owned(),
            folder: None,
            env: HashMap::new(),
            log_level: "info",
            log_lines_max: usize::MAX,
            file_limit_survivable: false,
            is_litegateway: false,
            arguments: Vec::new(),
            descriptors_max: None,
        }
    }

    /// Limits the number of its open files and connections.
    pub fn descriptors_max(mut self, descriptors_max: u32) -> Self {
        self.descriptors_max = Some(descriptors_max);
        self
    }

    /// Adds an argument of `sealway serve`.
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Creates a launch of `sealway serve --litegateway`, configured by the variables of [`Launch::env`] alone. It listens on
    /// the addresses of every interface.
    pub fn litegateway(binary: &'a str) -> Self {
        let launch = Launch { is_litegateway: true, ..Launch::new(binary, "") };
        launch.env("RUST_LOG", "info").env("SEALWAY_TELEMETRY__LOG_FORMAT", "json")
    }

    /// Uses a folder that outlives the server.
    pub fn folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    /// Sets an environment variable; the server has no others but `PATH`.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Sets the level of its log.
    pub fn log_level(mut self, level: &'a str) -> Self {
        self.log_level = level;
        self
    }

    /// Keeps only this number of lines of its log, for long runs; [`Server::wait_for_log`] then counts from 0 alone.
    pub fn log_lines_max(mut self, lines_max: usize) -> Self {
        self.log_lines_max = lines_max;
        self
    }

    /// Lets it survive when [`Server::forbid_file_writes`] makes its writes fail.
    pub fn surviving_file_limit(mut self) -> Self {
        self.file_limit_survivable = true;
        self
    }

    /// Starts it and waits until it serves.
    ///
    /// # Errors
    /// If it ends instead, with its log.
    pub fn start(self) -> anyhow::Result<Server> {
        let owned = match &self.folder {
            None => Some(tempfile::Builder::new().prefix("sealway-test-").tempdir()?),
            Some(_) => None,
        };
        let folder = match (&self.folder, &owned) {
            (Some(folder), _) => folder.clone(),
            (None, Some(owned)) => owned.path().to_owned(),
            (None, None) => bail!("no folder"),
        };
        let config = folder.join("serve.yaml");
        let telemetry = format!("\ntelemetry: {{ log_format: json, log_level: \"{}\" }}\n", self.log_level);
        std::fs::write(&config, self.config + telemetry.as_str())?;
        let token = folder.join("admin.token");
        std::fs::write(&token, ADMIN_TOKEN)?;
        std::fs::set_permissions(&token, Permissions::from_mode(0o600))?;
        let mut first = String::new();
        if self.file_limit_survivable {
            // An ignored SIGXFSZ stays ignored across exec; a write over the limit then fails with EFBIG.
            first.push_str("trap '' XFSZ; ");
        }
        if let Some(max) = self.descriptors_max {
            first.push_str(&format!("ulimit -n {max}; "));
        }
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{first}exec \"$0\" \"$@\"")]).arg(self.binary);
        match self.is_litegateway {
            true => command.args(["serve", "--litegateway"]),
            false => command.arg("serve").arg("--config").arg(&config),
        };
        command.args(&self.arguments);
        clear_environment(&mut command).envs(&self.env).env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {}", self.binary.display()))?;
        let log = Arc::new(Log::default());
        let stderr = child.stderr.take().context("no log")?;
        let (lines, lines_max) = (log.clone(), self.log_lines_max);
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                lines.push(String::from_utf8_lossy(&line).into_owned(), lines_max);
            }
        });
        let watcher = watch(&child)?;
        let mut server = Server {
            child,
            watcher: Some(watcher),
            log,
            reader: Some(reader),
            addresses: Vec::new(),
            admin: None,
            folder,
            owned,
            telemetry,
        };
        let line = server.wait_for_log(0, |line| line["message"] == "serving")?;
        server.addresses = addresses(&line["addresses"]);
        server.admin = addresses(&line["admin"]).first().copied();
        if server.addresses.is_empty() {
            bail!("the log names no address: {line}");
        }
        Ok(server)
    }
}

/// Parses addresses as logged: `[127.0.0.1:1, [::1]:1]`.
fn addresses(list: &Value) -> Vec<SocketAddr> {
    let text = list.as_str().unwrap_or_default();
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or_default();
    inner.split(", ").filter_map(|address| address.parse().ok()).collect()
}

/// Starts a watcher that ends the server if this process ends without dropping it, as with a server in a `static`: the
/// watcher's standard input closes then.
pub(crate) fn watch(child: &Child) -> anyhow::Result<Child> {
    let script = format!("read _; kill -9 {} 2>/dev/null", child.id());
    let mut watcher = Command::new("sh");
    watcher.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    watcher.spawn().context("no watcher")
}

impl Server {
    /// Returns the first address of the configuration.
    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Returns the address of the admin listener.
    pub fn admin(&self) -> SocketAddr {
        self.admin.expect("the configuration has an admin listener")
    }

    /// Returns the lines logged until now.
    pub fn log(&self) -> Vec<String> {
        self.log.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for a log line that `fits`, without the first `from`; lines that are not JSON are `Null`.
    ///
    /// # Errors
    /// The line does not come; the text has those that did.
    pub fn wait_for_log(&mut self, from: usize, fits: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        let until = Instant::now() + WAIT;
        let mut looked_at = from;
        loop {
            // The last lines may still be in the pipe when the process has ended.
            let is_read = self.reader.as_ref().is_none_or(std::thread::JoinHandle::is_finished);
            let has_ended = is_read && self.child.try_wait()?.is_some();
            let mut lines = self.log.lines.lock().unwrap_or_else(PoisonError::into_inner);
            for line in lines.iter().skip(looked_at) {
                let value = serde_json::from_str(line).unwrap_or_default();
                if fits(&value) {
                    return Ok(value);
                }
            }
            looked_at = lines.len();
            if has_ended || Instant::now() > until {
                let state = if has_ended { "the server ended" } else { "the line did not come in time" };
                bail!("{state}; its log:\n{}", lines.join("\n"));
            }
            lines = self
                .log
                .more
                .wait_timeout(lines, Duration::from_millis(50))
                .map_or_else(|poisoned| poisoned.into_inner().0, |(lines, _)| lines);
            drop(lines);
        }
    }

    /// Returns the id of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.child.id()).ok()?)
    }

    /// Asks it to stop; it still answers the requests in flight.
    ///
    /// # Errors
    /// If it is gone.
    pub fn terminate(&self) -> anyhow::Result<()> {
        Ok(kill_process(self.pid().context("pid")?, Signal::TERM)?)
    }

    /// Asks it to read its configuration again.
    ///
    /// # Errors
    /// If it is gone.
    pub fn hang_up(&self) -> anyhow::Result<()> {
        Ok(kill_process(self.pid().context("pid")?, Signal::HUP)?)
    }

    /// Writes another configuration to the file of its own; it does not read the file before it is asked.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_config(&self, config: &str) -> anyhow::Result<()> {
        Ok(std::fs::write(self.folder.join("serve.yaml"), config.to_owned() + self.telemetry.as_str())?)
    }

    /// Makes every write to a file fail from now on, as on a full disk.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn forbid_file_writes(&self) -> anyhow::Result<()> {
        let limit = rustix::process::Rlimit { current: Some(0), maximum: None };
        rustix::process::prlimit(self.pid(), rustix::process::Resource::Fsize, limit)?;
        Ok(())
    }

    /// Ends the effect of [`Server::forbid_file_writes`].
    ///
    /// # Errors
    /// If the system refuses.
    pub fn allow_file_writes(&self) -> anyhow::Result<()> {
        let limit = rustix::process::Rlimit { current: None, maximum: None };
        rustix::process::prlimit(self.pid(), rustix::process::Resource::Fsize, limit)?;
        Ok(())
    }

    /// Waits for the end of the process.
    ///
    /// # Errors
    /// If it does not end.
    pub fn wait(&mut self) -> anyhow::Result<ExitStatus> {
        let until = Instant::now() + WAIT;
        loop {
            if let Some(status) = self.child.try_wait()? {
                if let Some(reader) = self.reader.take() {
                    let _ = reader.join();
                }
                return Ok(status);
            }
            if Instant::now() > until {
                bail!("it does not end");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends SIGTERM, and waits for its end.
    ///
    /// # Errors
    /// If it does not end.
    pub fn stop(&mut self) -> anyhow::Result<ExitStatus> {
        self.terminate()?;
        self.wait()
    }

    /// Kills it by SIGKILL, without a graceful end.
    ///
    /// # Errors
    /// If it is gone.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.wait().map(drop)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // After the child: otherwise the watcher could signal another process that reuses its id.
        if let Some(mut watcher) = self.watcher.take() {
            let _ = watcher.kill();
            let _ = watcher.wait();
        }
        drop(self.owned.take());
    }
}

/// Returns true if the writable memory of a process contains one of these byte strings.
///
/// # Errors
/// If the process is gone, or its memory cannot be read.
pub fn memory_holds(pid: u32, wanted: &[&[u8]]) -> anyhow::Result<bool> {
    const STEP: usize = 64 * 1024;
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let memory = std::fs::File::open(format!("/proc/{pid}/mem"))?;
    let longest = wanted.iter().map(|bytes| bytes.len()).max().unwrap_or_default();
    let (mut bytes, zeros) = (vec![0; STEP + longest], vec![0; STEP + longest]);
    for line in maps.lines().filter(|line| line.split_whitespace().nth(1).is_some_and(|mode| mode.starts_with("rw"))) {
        let (from, to) = line.split_whitespace().next().and_then(|area| area.split_once('-')).context("no area")?;
        let (from, to) = (u64::from_str_radix(from, 16)?, u64::from_str_radix(to, 16)?);
        // Each step overlaps the next one, to find a string that lies across both.
        for at in (from..to).step_by(STEP) {
            let len = usize::try_from(to - at)?.min(bytes.len());
            // Some areas are not readable; the heap and the stacks are. Most of the heap was never touched.
            let Ok(read) = memory.read_at(&mut bytes[..len], at) else { break };
            let read = &bytes[..read];
            let holds = |wanted: &&[u8]| read.windows(wanted.len()).any(|window| window == *wanted);
            if read != &zeros[..read.len()] && wanted.iter().any(holds) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
