//! A Redis Cluster of several servers on this machine.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::{Redis, RedisOptions, WAIT, make_certificates, speak_tls};
use crate::certificates::Certificates;

/// The servers of a cluster.
#[derive(Debug)]
pub struct RedisCluster {
    /// The servers, those first that began as masters.
    pub nodes: Vec<Redis>,
    /// The certificates of all of them, if they use TLS.
    pub certificates: Option<Certificates>,
    _folder: tempfile::TempDir,
}

impl RedisCluster {
    /// Starts `masters` masters, each with `replicas` replicas.
    ///
    /// # Errors
    /// If it does not come up.
    pub fn start(masters: usize, replicas: usize) -> anyhow::Result<Self> {
        RedisCluster::start_with(masters, replicas, &RedisOptions::default())
    }

    /// Starts them with these settings for each server.
    ///
    /// # Errors
    /// If it does not come up.
    pub fn start_with(masters: usize, replicas: usize, options: &RedisOptions) -> anyhow::Result<Self> {
        let count = masters * (1 + replicas);
        let folder = tempfile::Builder::new().prefix("sealway-redis-").tempdir()?;
        let certificates = options.tls.is_some().then(|| make_certificates(folder.path())).transpose()?;
        let start = |_| options.clone().cluster(certificates.clone()).start();
        let nodes = (0..count).map(start).collect::<anyhow::Result<Vec<_>>>()?;
        let mut command = Command::new("redis-cli");
        if let Some(made) = &certificates {
            speak_tls(&mut command, made);
        }
        command.args(["--cluster", "create"]).args(nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)));
        command.args(["--cluster-replicas", &replicas.to_string(), "--cluster-yes"]);
        let output = command.output().context("no redis-cli; install Debian's package redis-tools")?;
        if !output.status.success() {
            bail!("no cluster: {}", String::from_utf8_lossy(&output.stdout));
        }
        let cluster = RedisCluster { nodes, certificates, _folder: folder };
        cluster.wait_until_ok(count - masters)?;
        Ok(cluster)
    }

    /// Returns the URL for clients: every node.
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        let scheme = if self.certificates.is_some() { "rediss-cluster" } else { "redis-cluster" };
        format!("{scheme}://{}", hosts.join(","))
    }

    fn alive(&self) -> impl Iterator<Item = &Redis> {
        self.nodes.iter().filter(|node| node.pid().is_some())
    }

    /// Waits until every living node sees all slots served, and this number of replicas follow their masters.
    ///
    /// # Errors
    /// If they do not.
    pub fn wait_until_ok(&self, replicas: usize) -> anyhow::Result<()> {
        wait("the cluster is not complete", || {
            let followers = self.alive().filter(|node| {
                let text = node.cli(&["INFO", "replication"]).unwrap_or_default();
                text.contains("role:slave") && text.contains("master_link_status:up")
            });
            followers.count() >= replicas && self.is_ok()
        })
    }

    fn is_ok(&self) -> bool {
        self.alive().all(|node| node.cli(&["CLUSTER", "INFO"]).is_ok_and(|text| text.contains("cluster_state:ok")))
    }

    /// Returns the index of the living master that serves a key.
    ///
    /// # Errors
    /// If no master serves it.
    pub fn master_of(&self, key: &str) -> anyhow::Result<usize> {
        let is_master = |node: &Redis| node.cli(&["ROLE"]).is_ok_and(|text| text.starts_with("master"));
        let serves = |node: &Redis| node.pid().is_some() && is_master(node) && node.cli(&["EXISTS", key]).is_ok();
        self.nodes.iter().position(serves).context("nobody serves the key")
    }

    /// Kills a master and waits until a replica has replaced it.
    ///
    /// # Errors
    /// If none does.
    pub fn fail_over(&mut self, index: usize) -> anyhow::Result<()> {
        let before = self.masters();
        self.nodes[index].kill()?;
        self.wait_for_masters(before)
    }

    /// Waits until this number of masters live and serve all slots.
    ///
    /// # Errors
    /// If they do not come to be.
    pub fn wait_for_masters(&self, count: usize) -> anyhow::Result<()> {
        wait("no replica took over", || self.masters() == count && self.is_ok())
    }

    /// Waits until a replica has replaced a master that does not answer, and the others serve all slots.
    ///
    /// # Errors
    /// If none does.
    pub fn wait_for_masters_beside(&self, index: usize) -> anyhow::Result<()> {
        let beside = || self.nodes.iter().enumerate().filter(|(at, node)| *at != index && node.pid().is_some());
        let masters = || beside().filter(|(_, node)| node.cli(&["ROLE"]).is_ok_and(|text| text.starts_with("master")));
        let before = masters().count();
        wait("no replica took over", || {
            let is_ok =
                |node: &Redis| node.cli(&["CLUSTER", "INFO"]).is_ok_and(|text| text.contains("cluster_state:ok"));
            masters().count() > before && beside().all(|(_, node)| is_ok(node))
        })
    }

    fn masters(&self) -> usize {
        let roles = self.alive().map(|node| node.cli(&["ROLE"]).unwrap_or_default());
        roles.filter(|role| role.starts_with("master")).count()
    }
}

pub(super) fn wait(what: &str, mut is_so: impl FnMut() -> bool) -> anyhow::Result<()> {
    let until = Instant::now() + WAIT;
    while !is_so() {
        if Instant::now() > until {
            bail!("{what}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
