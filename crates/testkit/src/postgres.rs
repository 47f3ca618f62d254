//! A real PostgreSQL server in a folder and on a port of its own. It ends with the test: by a signal when dropped, and by a
//! watcher if the test process itself ends first.
//!
//! This module does not know the content of the databases.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::certificates::Certificates;
use crate::daemon::free_port;
use crate::postgres::template::{Template, template};

mod backup;
mod template;
mod tree;

/// Longest time for a start, or an end.
const WAIT: Duration = Duration::from_secs(60);
/// The role that owns everything.
pub const USER: &str = "postgres";

/// The settings of a server to start.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    password: Option<String>,
    names: Option<String>,
    wants_certificates: bool,
    settings: Vec<(String, String)>,
}

impl Launch {
    /// Requires this password of [`USER`] over TCP (SCRAM); connections over its socket are trusted.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Accepts only TLS over TCP, with a certificate for these names, as [`Certificates::make`] has them.
    pub fn tls(mut self, names: &str) -> Self {
        self.names = Some(names.to_owned());
        self
    }

    /// Requires over TCP a certificate of its authority that names [`USER`], and nothing else. Only with [`Launch::tls`].
    pub fn client_certificates(mut self) -> Self {
        self.wants_certificates = true;
        self
    }

    /// Sets a line of `postgresql.conf`.
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Creates the server's folder, starts it, and waits until it answers.
    ///
    /// # Errors
    /// If PostgreSQL 15 or newer is not installed, or does not start, with its log.
    pub fn start(self) -> anyhow::Result<Postgres> {
        let template = template()?;
        let folder = tempfile::Builder::new().prefix("sealway-pg-").tempdir()?;
        let data = folder.path().join("data");
        copy(&template.data(), &data)?;
        let certificates = match &self.names {
            Some(names) => Some(Certificates::make(folder.path(), names, USER)?),
            None => None,
        };
        let method = match &self.password {
            _ if self.wants_certificates => "cert",
            Some(_) => "scram-sha-256",
            None => "trust",
        };
        let host = if certificates.is_some() { "hostssl" } else { "host" };
        let trust = "local all,replication all trust\nhost replication all 127.0.0.1/32 trust\n";
        fs::write(data.join("pg_hba.conf"), format!("{trust}{host} all all 127.0.0.1/32 {method}\n"))?;
        let mut settings = format!("unix_socket_directories = '{}'\n", folder.path().display());
        settings += "listen_addresses = '127.0.0.1'\nmax_connections = 200\nshared_buffers = 32MB\n";
        if let Some(certificates) = &certificates {
            let (server, key) = &certificates.server;
            settings += &format!("ssl = on\nssl_cert_file = '{}'\n", server.display());
            settings += &format!("ssl_key_file = '{}'\nssl_ca_file = '{}'\n", key.display(), certificates.ca.display());
            fs::set_permissions(key, fs::Permissions::from_mode(0o600))?;
        }
        for (name, value) in &self.settings {
            settings += &format!("{name} = '{value}'\n");
        }
        fs::write(data.join("postgresql.auto.conf"), settings)?;
        if let Some((uid, gid)) = owner()? {
            give(folder.path(), uid, gid)?;
        }
        let port = free_port()?;
        let mut server = Postgres { folder, template, port, child: None, password: None, certificates };
        server.start_again()?;
        if let Some(password) = self.password {
            server.psql(&format!("ALTER ROLE {USER} PASSWORD '{password}'"))?;
            server.password = Some(password);
        }
        Ok(server)
    }
}

/// A server, and the shell that ends it if this process ends without dropping it: its standard input closes then.
#[derive(Debug)]
struct Running {
    postmaster: Child,
    watcher: Child,
}

/// A server in its folder.
#[derive(Debug)]
pub struct Postgres {
    folder: tempfile::TempDir,
    /// Kept for the next server of this process.
    template: Arc<Template>,
    /// The port that it listens on, on 127.0.0.1.
    pub port: u16,
    /// Its certificates, if it uses TLS.
    pub certificates: Option<Certificates>,
    password: Option<String>,
    child: Option<Running>,
}

impl Postgres {
    /// Starts a server that trusts every connection from this machine.
    ///
    /// # Errors
    /// As [`Launch::start`].
    pub fn start() -> anyhow::Result<Self> {
        Launch::default().start()
    }

    /// Returns one server for all tests of this process, which use a database each. It runs until the process ends.
    ///
    /// # Panics
    /// If it cannot be started, with the reason.
    pub fn shared() -> &'static Postgres {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(|| Postgres::start().unwrap_or_else(|err| panic!("{err:#}")))
    }

    /// Returns a URL of the database `postgres`, over TCP.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// Returns a URL of a database, over TCP. A server with TLS is verified against its own authority.
    pub fn url_of(&self, database: &str) -> String {
        let password = self.password.as_ref().map(|password| format!(":{password}")).unwrap_or_default();
        let host = if self.certificates.is_some() { "localhost" } else { "127.0.0.1" };
        let tls = self
            .certificates
            .as_ref()
            .map(|certificates| format!("?sslmode=verify-full&sslrootcert={}", certificates.ca.display()));
        format!("postgres://{USER}{password}@{host}:{}/{database}{}", self.port, tls.unwrap_or_default())
    }

    /// Returns a URL of a database, over the unix socket.
    pub fn socket_url(&self, database: &str) -> String {
        format!("postgres://{USER}@/{database}?host={}&port={}", self.folder.path().display(), self.port)
    }

    /// Creates an empty database; returns its URL.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn create_database(&self) -> anyhow::Result<String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        self.psql(&format!("CREATE DATABASE {name}"))?;
        Ok(self.url_of(&name))
    }

    /// Starts a standby that follows this server through `from`, an address of it, as the synchronous standby `standby` if
    /// the server asks for that one.
    ///
    /// # Errors
    /// If it does not start, with its log.
    pub fn standby(&self, from: SocketAddr) -> anyhow::Result<Postgres> {
        let folder = tempfile::Builder::new().prefix("sealway-pg-").tempdir()?;
        if let Some((uid, gid)) = owner()? {
            give(folder.path(), uid, gid)?;
        }
        let data = folder.path().join("data");
        let primary =
            format!("host={} port={} user={USER} application_name=standby connect_timeout=2", from.ip(), from.port());
        let mut command = program("pg_basebackup")?;
        command.args(["-d", &primary, "-R", "-X", "stream", "-c", "fast", "--no-sync", "-D"]).arg(&data);
        let done =
            command.current_dir(folder.path()).stdin(Stdio::null()).output().context("cannot run pg_basebackup")?;
        if !done.status.success() {
            bail!("pg_basebackup: {}", String::from_utf8_lossy(&done.stderr));
        }
        let settings = data.join("postgresql.auto.conf");
        let text = format!(
            "{}unix_socket_directories = '{}'\nwal_retrieve_retry_interval = '200ms'\n",
            fs::read_to_string(&settings)?,
            folder.path().display()
        );
        fs::write(&settings, text)?;
        let (template, password, certificates) = (self.template.clone(), self.password.clone(), None);
        let mut server = Postgres { folder, template, port: free_port()?, child: None, password, certificates };
        server.start_again()?;
        Ok(server)
    }

    /// Promotes this standby to a primary.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn promote(&self) -> anyhow::Result<()> {
        self.psql("SELECT pg_promote()").map(drop)
    }

    /// Returns the postmaster's process id.
    ///
    /// # Errors
    /// If it does not run.
    pub fn pid(&self) -> anyhow::Result<Pid> {
        let running = self.child.as_ref().context("PostgreSQL does not run")?;
        Pid::from_raw(i32::try_from(running.postmaster.id())?).context("pid")
    }

    /// Starts it again in its folder and on its port.
    ///
    /// # Errors
    /// If it does not start, with its log.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        if self.child.is_some() {
            bail!("PostgreSQL runs already");
        }
        let data = self.folder.path().join("data");
        let log = self.folder.path().join("log");
        let mut command = program("postgres")?;
        command.arg("-D").arg(&data).args(["-p", &self.port.to_string()]).current_dir(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(fs::OpenOptions::new().create(true).append(true).open(&log)?);
        let postmaster = command.spawn().context("cannot start postgres")?;
        let script = format!("read _; kill -9 {} 2>/dev/null; sleep 1; rm -rf \"$@\"", postmaster.id());
        let mut watcher = Command::new("sh");
        watcher.args(["-c", &script, "sh"]).arg(self.folder.path()).args(self.template.own());
        watcher.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let pid = postmaster.id().to_string();
        let mut running = Running { postmaster, watcher: watcher.spawn().context("no watcher")? };
        let until = Instant::now() + WAIT;
        loop {
            // The first line is the process's number, the eighth its state.
            let state = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
            let lines: Vec<&str> = state.lines().map(str::trim).collect();
            if lines.first() == Some(&pid.as_str()) && matches!(lines.get(7), Some(&("ready" | "standby"))) {
                break;
            }
            if Instant::now() > until || running.postmaster.try_wait()?.is_some() {
                let _ = running.postmaster.kill();
                self.child = Some(running);
                self.wait()?;
                bail!("PostgreSQL does not start:\n{}", fs::read_to_string(&log).unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.child = Some(running);
        Ok(())
    }

    /// Kills the postmaster by SIGKILL. Its children end by themselves when they see it gone; this waits for them, so that it
    /// can be started again.
    ///
    /// # Errors
    /// If they do not end.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        let children = tree::children(self.pid()?);
        kill_process(self.pid()?, Signal::KILL)?;
        self.wait()?;
        tree::wait_for_end(&children, WAIT)
    }

    /// Shuts it down fast: clients are disconnected, committed data is on the disk.
    ///
    /// # Errors
    /// If it does not end.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        kill_process(self.pid()?, Signal::INT)?;
        self.wait()
    }

    /// Waits for the postmaster's end.
    fn wait(&mut self) -> anyhow::Result<()> {
        let Some(running) = &mut self.child else { return Ok(()) };
        let until = Instant::now() + WAIT;
        while running.postmaster.try_wait()?.is_none() {
            if Instant::now() > until {
                bail!("PostgreSQL does not end");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // After the postmaster: otherwise the watcher could signal another process that reuses its id.
        let _ = running.watcher.kill();
        let _ = running.watcher.wait();
        self.child = None;
        Ok(())
    }

    /// Stops the postmaster and all its children by SIGSTOP: connections stay open, and nothing answers.
    ///
    /// # Errors
    /// If it does not run.
    pub fn pause(&self) -> anyhow::Result<()> {
        let pid = self.pid()?;
        // The postmaster first: it creates no more children then.
        kill_process(pid, Signal::STOP)?;
        tree::signal(&tree::children(pid), Signal::STOP);
        Ok(())
    }

    /// Resumes the server after [`Postgres::pause`].
    ///
    /// # Errors
    /// If it does not run.
    pub fn resume(&self) -> anyhow::Result<()> {
        let pid = self.pid()?;
        tree::signal(&tree::children(pid), Signal::CONT);
        Ok(kill_process(pid, Signal::CONT)?)
    }

    /// Runs SQL in the database `postgres`; returns rows as lines, columns separated by `|`.
    ///
    /// # Errors
    /// The error of the server.
    pub fn psql(&self, sql: &str) -> anyhow::Result<String> {
        self.psql_in("postgres", sql)
    }

    /// Runs SQL in a database, given by its name or its URL.
    ///
    /// # Errors
    /// The error of the server.
    pub fn psql_in(&self, database: &str, sql: &str) -> anyhow::Result<String> {
        self.client("psql", database, &["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql])
    }

    fn client(&self, name: &str, database: &str, arguments: &[&str]) -> anyhow::Result<String> {
        let database = database.split('?').next().and_then(|url| url.rsplit('/').next()).unwrap_or_default();
        let mut command = Command::new(binary(name)?);
        command.arg("-h").arg(self.folder.path()).args(["-p", &self.port.to_string(), "-U", USER, "-d", database]);
        let done = command.args(arguments).stdin(Stdio::null()).output()?;
        if !done.status.success() {
            bail!("{name}: {}", String::from_utf8_lossy(&done.stderr));
        }
        Ok(String::from_utf8(done.stdout)?.trim_end().to_owned())
    }

    /// Returns the processor time that the server has used since its start: that of the postmaster, of its children, and of
    /// those that have ended.
    ///
    /// # Errors
    /// If it does not run.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        Ok(tree::cpu(self.pid()?))
    }

    /// Returns the log of the server.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Ok(pid) = self.pid() {
            let children = tree::children(pid);
            let _ = kill_process(pid, Signal::KILL);
            // Stopped ones do not see that it is gone.
            tree::signal(&children, Signal::KILL);
            let _ = self.wait();
            let _ = tree::wait_for_end(&children, WAIT);
        }
    }
}

/// Returns a server's program, to be run as a user that it accepts.
fn program(name: &str) -> anyhow::Result<Command> {
    let mut command = Command::new(binary(name)?);
    if let Some((uid, gid)) = owner()? {
        command.uid(uid).gid(gid);
    }
    Ok(command)
}

/// Finds a program of the newest installed server.
fn binary(name: &str) -> anyhow::Result<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin").join(name)))
        })
        .filter(|(_, path)| path.exists())
        .collect();
    found.sort();
    let in_path = std::env::var_os("PATH").unwrap_or_default();
    let found = found.pop().map(|(_, path)| path);
    let found =
        found.or_else(|| std::env::split_paths(&in_path).map(|folder| folder.join(name)).find(|path| path.exists()));
    found.with_context(|| format!("{name} is not installed; install PostgreSQL 15, as Debian's package postgresql-15"))
}

/// Returns the user to run as: PostgreSQL refuses to run as root, and runs as the user `postgres` then.
pub(crate) fn owner() -> anyhow::Result<Option<(u32, u32)>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let user = users.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|user| user.first() == Some(&USER));
    let user = user.context("there is no user postgres; install PostgreSQL 15, as Debian's package postgresql-15")?;
    let number = |at: usize| user.get(at).and_then(|number| number.parse().ok()).context("/etc/passwd");
    Ok(Some((number(2)?, number(3)?)))
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir(to)?;
    fs::set_permissions(to, fs::Permissions::from_mode(fs::metadata(from)?.mode() & 0o777))?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Gives a folder and its content to a user.
fn give(path: &Path, uid: u32, gid: u32) -> anyhow::Result<()> {
    std::os::unix::fs::chown(path, Some(uid), Some(gid))?;
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path(), uid, gid)?;
        }
    }
    Ok(())
}
