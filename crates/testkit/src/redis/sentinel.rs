//! A master with replicas, and the Sentinels that promote one of them.

use std::process::Command;

use anyhow::{Context, bail};

use super::cluster::wait;
use super::{Redis, RedisOptions};
use crate::daemon::{Daemon, free_port};

/// The name that the Sentinels have for the master.
const NAME: &str = "main";

/// The servers, and their Sentinels.
#[derive(Debug)]
pub struct RedisSentinel {
    /// The servers; the first one began as the master.
    pub nodes: Vec<Redis>,
    sentinels: Vec<(Daemon, u16)>,
    _folder: tempfile::TempDir,
}

impl RedisSentinel {
    /// Starts a master with `replicas` replicas and three Sentinels, which promote one half a second after they lost it.
    ///
    /// # Errors
    /// If it does not come up.
    pub fn start(replicas: usize, options: &RedisOptions) -> anyhow::Result<Self> {
        let options = options.clone().config("repl-diskless-sync-delay 0");
        let master = options.clone().start()?;
        let port = master.port;
        let mut nodes = vec![master];
        for _ in 0..replicas {
            nodes.push(options.clone().config(&format!("replicaof 127.0.0.1 {port}")).start()?);
        }
        wait("the replicas do not follow", || {
            let text = nodes[0].cli(&["INFO", "replication"]).unwrap_or_default();
            text.matches("state=online").count() == replicas
        })?;
        let folder = tempfile::Builder::new().prefix("sealway-redis-").tempdir()?;
        let mut sentinels = Vec::new();
        for index in 0..3 {
            let (own, config) = (free_port()?, folder.path().join(format!("sentinel{index}.conf")));
            let text = format!(
                "port {own}\nbind 127.0.0.1\ndir {}\nsentinel monitor {NAME} 127.0.0.1 {port} 2\n\
                 sentinel down-after-milliseconds {NAME} 500\nsentinel failover-timeout {NAME} 3000\n\
                 sentinel parallel-syncs {NAME} 2\n",
                folder.path().display()
            );
            std::fs::write(&config, text)?;
            let mut command = Command::new(options.program()?);
            command.arg(&config).arg("--sentinel").current_dir(folder.path());
            let mut daemon = Daemon::start(command, &folder.path().join(format!("sentinel{index}.log")))?;
            daemon.wait_for(([127, 0, 0, 1], own).into())?;
            sentinels.push((daemon, own));
        }
        let started = RedisSentinel { nodes, sentinels, _folder: folder };
        wait("the Sentinels do not find each other", || {
            let knows = |at| {
                let known = |field| started.ask(at, field).is_ok_and(|value| value == replicas.to_string());
                known("num-slaves") && started.ask(at, "num-other-sentinels").is_ok_and(|value| value == "2")
            };
            (0..3).all(knows)
        })?;
        Ok(started)
    }

    /// Returns the URL for clients: every Sentinel.
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.sentinels.iter().map(|(_, port)| format!("127.0.0.1:{port}")).collect();
        format!("redis+sentinel://{}/{NAME}", hosts.join(","))
    }

    /// Returns a field of what a Sentinel knows about the master.
    fn ask(&self, sentinel: usize, field: &str) -> anyhow::Result<String> {
        let port = self.sentinels[sentinel].1.to_string();
        let output = Command::new("redis-cli").args(["-e", "-p", &port, "SENTINEL", "MASTER", NAME]).output()?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stdout));
        }
        let text = String::from_utf8(output.stdout)?;
        let mut lines = text.lines().skip_while(|line| *line != field);
        lines.nth(1).map(ToOwned::to_owned).with_context(|| format!("no field {field}"))
    }

    /// Returns the index of the master, on which all Sentinels agree.
    ///
    /// # Errors
    /// If they do not agree.
    pub fn master(&self) -> anyhow::Result<usize> {
        let ports = (0..3).map(|at| self.ask(at, "port")).collect::<anyhow::Result<Vec<_>>>()?;
        let place = |port: &String| self.nodes.iter().position(|node| node.port.to_string() == *port);
        let places: Vec<_> = ports.iter().map(place).collect();
        match places[..] {
            [Some(one), Some(two), Some(three)] if one == two && two == three => Ok(one),
            _ => bail!("the Sentinels name {ports:?}"),
        }
    }

    /// Waits until another server than `index` is the master, and takes writes; returns its index.
    ///
    /// # Errors
    /// If none is.
    pub fn wait_for_other_than(&self, index: usize) -> anyhow::Result<usize> {
        let mut master = index;
        wait("no replica was promoted", || {
            master = self.master().unwrap_or(index);
            master != index && self.nodes[master].cli(&["ROLE"]).is_ok_and(|text| text.starts_with("master"))
        })?;
        Ok(master)
    }

    /// Waits until this number of replicas follow the master.
    ///
    /// # Errors
    /// If they do not.
    pub fn wait_for_replicas(&self, count: usize) -> anyhow::Result<()> {
        wait("the replicas do not follow", || {
            let Ok(master) = self.master() else { return false };
            let text = self.nodes[master].cli(&["INFO", "replication"]).unwrap_or_default();
            text.matches("state=online").count() >= count
        })
    }
}
