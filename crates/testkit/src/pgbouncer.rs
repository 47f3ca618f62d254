//! A real PgBouncer in front of a PostgreSQL: its database `postgres` in transaction mode, `session` in session mode.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::daemon::{Daemon, free_port, program};
use crate::postgres::{Postgres, USER, owner};

/// A PgBouncer that runs in front of a server.
#[derive(Debug)]
pub struct PgBouncer {
    daemon: Option<Daemon>,
    port: u16,
    folder: tempfile::TempDir,
}

impl PgBouncer {
    /// Starts it. With `ignores_options` it drops settings of sessions, which it rejects otherwise.
    ///
    /// # Errors
    /// If it is not installed, or does not start.
    pub fn start(to: &Postgres, ignores_options: bool) -> anyhow::Result<Self> {
        let (folder, port) = (tempfile::Builder::new().prefix("sealway-pgbouncer-").tempdir()?, free_port()?);
        let server = format!("host=127.0.0.1 port={}", to.port);
        let mut text = format!(
            "[databases]\npostgres = {server} dbname=postgres\nsession = {server} dbname=postgres pool_mode=session\n\
             other = {server} dbname=template1\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\npool_mode = transaction\nauth_type = trust\nauth_file = {}\nmax_client_conn = 500\n\
             default_pool_size = 8\nserver_login_retry = 1\n",
            folder.path().join("users").display()
        );
        if ignores_options {
            writeln!(text, "ignore_startup_parameters = options")?;
        }
        std::fs::write(folder.path().join("pgbouncer.ini"), text)?;
        std::fs::write(folder.path().join("users"), format!("\"{USER}\" \"\"\n"))?;
        if let Some((uid, gid)) = owner()? {
            std::os::unix::fs::chown(folder.path(), Some(uid), Some(gid))?;
        }
        let mut bouncer = PgBouncer { daemon: None, port, folder };
        bouncer.start_again()?;
        Ok(bouncer)
    }

    /// Starts it again on its port.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        let mut command = Command::new(program("pgbouncer")?);
        // It refuses to run as root, like PostgreSQL.
        if let Some((uid, gid)) = owner()? {
            command.uid(uid).gid(gid);
        }
        command.arg(self.folder.path().join("pgbouncer.ini")).current_dir(self.folder.path());
        let mut daemon = Daemon::start(command, &self.folder.path().join("log"))?;
        daemon.wait_for(self.address())?;
        self.daemon = Some(daemon);
        Ok(())
    }

    /// Kills it by SIGKILL; its port stays free.
    pub fn kill(&mut self) {
        self.daemon = None;
    }

    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Returns the URL of one of its databases: `postgres`, `session`, or `other`, which is another one in transaction mode.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{USER}@{}/{database}", self.address())
    }
}
