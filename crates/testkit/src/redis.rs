//! A real `redis-server`, or `valkey-server`, in a process and a folder of its own, with a clock that a test may set; a
//! cluster of them; and a master with replicas and Sentinels. They end with the test: by a signal when dropped, and by a
//! watcher if the test process itself ends first.

use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::certificates::Certificates;
use crate::daemon::program;
use crate::process::watch;

mod cluster;
pub(crate) mod faketime;
mod sentinel;

pub use cluster::RedisCluster;
pub use sentinel::RedisSentinel;

/// Longest time for a start, or an end.
const WAIT: Duration = Duration::from_secs(30);
/// Ports are drawn from this range: below those that the system assigns to outgoing connections, so that a port stays free
/// while its server is down for a moment.
const PORTS: std::ops::Range<u16> = 11_000..32_000;

/// The settings of a server to start.
#[derive(Clone, Debug, Default)]
pub struct RedisOptions {
    config: String,
    password: Option<String>,
    acl: Option<String>,
    unix: bool,
    tls: Option<bool>,
    certificates: Option<Certificates>,
    clock_ms: Option<u64>,
    cluster: bool,
    valkey: bool,
}

impl RedisOptions {
    /// Sets the default user's password.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Sets the lines of an ACL file, `user NAME …` each. The default user stays, unless a line changes it.
    pub fn acl(mut self, lines: &str) -> Self {
        self.acl = Some(lines.into());
        self
    }

    /// Sets the largest memory, such as `3mb`, and the policy when it is full, such as `noeviction`.
    pub fn maxmemory(self, bytes: &str, policy: &str) -> Self {
        self.config(&format!("maxmemory {bytes}")).config(&format!("maxmemory-policy {policy}"))
    }

    /// Writes every change to its append-only file before it answers.
    pub fn appendonly(self) -> Self {
        self.config("appendonly yes").config("appendfsync always")
    }

    /// Adds a line to its configuration.
    pub fn config(mut self, line: &str) -> Self {
        self.config.push_str(line);
        self.config.push('\n');
        self
    }

    /// Listens on a unix socket only.
    pub fn unix_socket(mut self) -> Self {
        self.unix = true;
        self
    }

    /// Listens with TLS only; `client_certificates` requires certificates of clients.
    pub fn tls(mut self, client_certificates: bool) -> Self {
        self.tls = Some(client_certificates);
        self
    }

    /// Runs with a clock that begins at this time and that [`Redis::set_clock`] moves.
    pub fn clock(mut self, now_ms: u64) -> Self {
        self.clock_ms = Some(now_ms);
        self
    }

    /// Runs Valkey in place of Redis.
    pub fn valkey(mut self) -> Self {
        self.valkey = true;
        self
    }

    fn program(&self) -> anyhow::Result<PathBuf> {
        program(if self.valkey { "valkey-server" } else { "redis-server" })
    }

    pub(crate) fn cluster(mut self, certificates: Option<Certificates>) -> Self {
        self.cluster = true;
        self.certificates = certificates;
        self
    }

    /// Starts it and waits until it serves.
    ///
    /// # Errors
    /// If it is not installed, or ends instead, with its log.
    pub fn start(self) -> anyhow::Result<Redis> {
        let folder = tempfile::Builder::new().prefix("sealway-redis-").tempdir()?;
        let certificates = match (self.tls, &self.certificates) {
            (Some(_), None) => Some(make_certificates(folder.path())?),
            (_, shared) => shared.clone(),
        };
        let mut redis = Redis { port: 0, options: self, certificates, folder, child: None, watcher: None };
        // Another process may take the port between the check and the start.
        let mut tries = 3;
        loop {
            redis.port = free_port()?;
            match redis.start_again() {
                Ok(()) => return Ok(redis),
                Err(err) if tries == 0 || !err.to_string().contains("in use") => return Err(err),
                Err(_) => tries -= 1,
            }
        }
    }
}

fn make_certificates(folder: &Path) -> anyhow::Result<Certificates> {
    Certificates::make(folder, "DNS:localhost,IP:127.0.0.1", "client")
}

/// Makes `redis-cli` connect over TLS.
fn speak_tls(command: &mut Command, made: &Certificates) {
    command.arg("--tls").arg("--cacert").arg(&made.ca);
    command.arg("--cert").arg(&made.client.0).arg("--key").arg(&made.client.1);
}

/// Returns a free port, with a free one 10,000 above for the bus of a cluster.
fn free_port() -> anyhow::Result<u16> {
    for n in 0..1000_u64 {
        let room = u64::from(PORTS.end - PORTS.start - 10_000);
        let port = PORTS.start + u16::try_from(RandomState::new().hash_one(n) % room)?;
        if [port, port + 10_000].iter().all(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()) {
            return Ok(port);
        }
    }
    bail!("no free port")
}

/// A running `redis-server` and its folder.
#[derive(Debug)]
pub struct Redis {
    /// The port, also if it listens only on a unix socket.
    pub port: u16,
    options: RedisOptions,
    certificates: Option<Certificates>,
    folder: tempfile::TempDir,
    child: Option<Child>,
    watcher: Option<Child>,
}

impl Redis {
    /// Starts a server with default settings, which keeps nothing on the disk.
    ///
    /// # Errors
    /// [`RedisOptions::start`].
    pub fn start() -> anyhow::Result<Redis> {
        RedisOptions::default().start()
    }

    /// Returns default settings, to be changed.
    pub fn options() -> RedisOptions {
        RedisOptions::default()
    }

    /// Returns the URL for clients; without a password.
    pub fn url(&self) -> String {
        if self.options.unix {
            format!("redis+unix://{}", self.socket().display())
        } else if self.options.tls.is_some() {
            format!("rediss://localhost:{}", self.port)
        } else {
            format!("redis://127.0.0.1:{}", self.port)
        }
    }

    /// Returns the URL with the default user's password.
    pub fn url_with_password(&self) -> String {
        let password = self.options.password.as_deref().unwrap_or_default();
        self.url().replacen("://", &format!("://:{password}@"), 1)
    }

    /// Returns the folder of the server.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns its unix socket, if it has one.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("redis.sock")
    }

    /// Returns its certificates, if it uses TLS.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref()
    }

    /// Returns its process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Returns the log since its last start.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("redis.log")).unwrap_or_default()
    }

    /// Starts it on the same port, with the data on the disk.
    ///
    /// # Errors
    /// As [`RedisOptions::start`].
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        self.kill()?;
        let config = self.folder.path().join("redis.conf");
        std::fs::write(&config, self.config_text()?)?;
        let log = std::fs::File::create(self.folder.path().join("redis.log"))?;
        let mut command = Command::new(self.options.program()?);
        command.arg(&config).current_dir(self.folder.path());
        if let Some(clock_ms) = self.options.clock_ms {
            let file = faketime::file(self.folder.path());
            // A restart leaves the clock unchanged.
            if !file.exists() {
                faketime::set(&file, clock_ms)?;
            }
            faketime::apply(&mut command, &file)?;
        }
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().context("cannot start the server")?;
        self.watcher = Some(watch(&child)?);
        self.child = Some(child);
        self.wait_until_ready()
    }

    /// Starts it on the same port without data on the disk.
    ///
    /// # Errors
    /// As [`RedisOptions::start`].
    pub fn start_again_empty(&mut self) -> anyhow::Result<()> {
        self.kill()?;
        for entry in std::fs::read_dir(self.folder.path())? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.starts_with("appendonlydir") {
                std::fs::remove_dir_all(&path)?;
            } else if Path::new(name).extension().is_some_and(|end| end == "rdb") {
                std::fs::remove_file(&path)?;
            }
        }
        self.start_again()
    }

    fn config_text(&self) -> anyhow::Result<String> {
        let mut text = String::from("bind 127.0.0.1\nsave \"\"\nstop-writes-on-bgsave-error no\ndaemonize no\n");
        let plain = if self.options.unix || self.options.tls.is_some() { 0 } else { self.port };
        writeln!(text, "port {plain}\ndir {}", self.folder.path().display())?;
        if self.options.unix {
            writeln!(text, "unixsocket {}", self.socket().display())?;
        }
        if let (Some(ask), Some(made)) = (self.options.tls, &self.certificates) {
            let ask = if ask { "yes" } else { "no" };
            writeln!(text, "tls-port {}\ntls-auth-clients {ask}", self.port)?;
            writeln!(text, "tls-ca-cert-file {}", made.ca.display())?;
            writeln!(text, "tls-cert-file {}\ntls-key-file {}", made.server.0.display(), made.server.1.display())?;
            if self.options.cluster {
                text.push_str("tls-cluster yes\ntls-replication yes\n");
                let (cert, key) = (made.client.0.display(), made.client.1.display());
                writeln!(text, "tls-client-cert-file {cert}\ntls-client-key-file {key}")?;
            }
        }
        if let Some(password) = &self.options.password {
            writeln!(text, "requirepass {password}")?;
        }
        if let Some(lines) = &self.options.acl {
            lines.lines().for_each(|line| text.push_str(&format!("{line}\n")));
        }
        if self.options.cluster {
            text.push_str("cluster-enabled yes\ncluster-config-file nodes.conf\ncluster-node-timeout 1000\n");
            text.push_str("cluster-replica-validity-factor 0\nrepl-diskless-sync-delay 0\n");
        }
        text.push_str(&self.options.config);
        Ok(text)
    }

    fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let until = Instant::now() + WAIT;
        loop {
            let log = self.log();
            // One line a listener; the last one follows the others at once.
            if log.contains("eady to accept connections") {
                return Ok(());
            }
            let has_ended = self.child.as_mut().context("no process")?.try_wait()?.is_some();
            if has_ended || Instant::now() > until {
                bail!("redis-server does not serve:\n{log}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills it by SIGKILL: nothing is written any more.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        // After the child: otherwise the watcher could signal another process that reuses its id.
        if let Some(mut watcher) = self.watcher.take() {
            watcher.kill()?;
            watcher.wait()?;
        }
        Ok(())
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = self.pid().context("it does not run")?;
        Ok(kill_process(Pid::from_raw(i32::try_from(pid)?).context("pid")?, signal)?)
    }

    /// Stops it by SIGSTOP: connections stay, nothing is answered.
    ///
    /// # Errors
    /// If it does not run.
    pub fn pause(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Resumes it by SIGCONT, after a pause.
    ///
    /// # Errors
    /// If it does not run.
    pub fn resume(&self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Writes its data to its RDB file, and returns that file's bytes.
    ///
    /// # Errors
    /// If it cannot.
    pub fn save(&self) -> anyhow::Result<Vec<u8>> {
        self.cli(&["SAVE"])?;
        Ok(std::fs::read(self.folder.path().join("dump.rdb"))?)
    }

    /// Moves its clock; only after [`RedisOptions::clock`].
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn set_clock(&self, now_ms: u64) -> anyhow::Result<()> {
        if self.options.clock_ms.is_none() {
            bail!("it runs under the system's clock");
        }
        faketime::set(&faketime::file(self.folder.path()), now_ms)
    }

    /// Returns the output of `redis-cli` for a command, as the default user.
    ///
    /// # Errors
    /// If it cannot connect, or the server answers with an error.
    pub fn cli(&self, args: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new("redis-cli");
        command.args(["-e", "--no-auth-warning"]);
        if self.options.unix {
            command.arg("-s").arg(self.socket());
        } else {
            command.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        }
        if let Some(made) = &self.certificates {
            speak_tls(&mut command, made);
        }
        if let Some(password) = &self.options.password {
            command.env("REDISCLI_AUTH", password);
        }
        let output = command.args(args).output().context("no redis-cli; install Debian's package redis-tools")?;
        let text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        if !output.status.success() {
            bail!("redis-cli {args:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(text)
    }

    /// Returns the processor time that it has used, its threads included.
    ///
    /// # Errors
    /// If it does not run.
    pub fn cpu_time(&self) -> anyhow::Result<Duration> {
        let pid = self.pid().context("it does not run")?;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // The name, in parentheses, may contain any character; utime and stime are the 12th and 13th after it.
        let (_, fields) = stat.rsplit_once(')').context("stat")?;
        let mut fields = fields.split_ascii_whitespace().skip(11);
        let mut next = || fields.next().context("stat")?.parse::<u64>().context("stat");
        let ticks = next()? + next()?;
        Ok(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
