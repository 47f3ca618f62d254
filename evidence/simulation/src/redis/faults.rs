//! Faults of servers, and their fail-over by Sentinels.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::db::Keys;
use super::{Node, Redis, Restart, Role, View, host};

impl Redis {
    /// Restarts a server; its connections break.
    pub(crate) fn restart(&self, index: usize, how: Restart) {
        self.event(&format!("server {index} restarts: {how:?}"));
        self.world.store_lost();
        let mut state = self.state.lock();
        state.ids += 1;
        let id = format!("{:040x}", state.ids);
        if let Some(node) = state.nodes.get_mut(index) {
            node.keys = match how {
                Restart::Empty => Keys::new(),
                Restart::Snapshot(age) => node.snapshots.get(age).cloned().unwrap_or_default(),
            };
            (node.scripts, node.replication_id) = (BTreeMap::new(), id);
            node.log.clear();
            node.listeners.clear();
            if let Role::Replica(of, _) = node.role {
                node.role = Role::Replica(of, None);
            }
        }
        for node in &mut state.nodes {
            if matches!(node.role, Role::Replica(of, _) if of == index) {
                node.role = Role::Replica(index, None);
            }
        }
        drop(state);
        self.network.reset(None, &host(index));
        self.changed.notify_waiters();
    }

    /// Removes all keys of a server (FLUSHALL). Its scripts stay.
    pub(crate) fn flush(&self, index: usize) {
        self.event(&format!("server {index} is flushed"));
        self.world.store_lost();
        let mut state = self.state.lock();
        for node in &mut state.nodes {
            if matches!(node.role, Role::Replica(of, _) if of == index) {
                node.role = Role::Replica(index, None);
            }
        }
        if let Some(node) = state.nodes.get_mut(index) {
            node.keys.clear();
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Sets a server's clock forward or back.
    pub(crate) fn step_clock(&self, index: usize, ms: i64) {
        self.event(&format!("the clock of server {index} steps by {ms} ms"));
        if let Some(node) = self.state.lock().nodes.get_mut(index) {
            node.skew_ms += ms;
        }
    }

    /// Stops a server, or starts it again with its data.
    pub(crate) fn set_up(&self, index: usize, is_up: bool) {
        self.event(&format!("server {index} {}", if is_up { "is up" } else { "is down" }));
        if let Some(node) = self.state.lock().nodes.get_mut(index) {
            node.is_up = is_up;
            node.listeners.clear();
        }
        self.network.reset(None, &host(index));
        self.changed.notify_waiters();
    }

    /// Cuts a server off from the others, or joins it again.
    pub(crate) fn isolate(&self, index: usize, is_isolated: bool) {
        self.event(&format!("server {index} is {} the others", if is_isolated { "cut off from" } else { "with" }));
        if let Some(node) = self.state.lock().nodes.get_mut(index) {
            node.is_isolated = is_isolated;
        }
        self.changed.notify_waiters();
    }

    /// Has the Sentinels promote a replica that they reach. The others learn of it one after the other.
    pub(crate) async fn fail_over(self: Arc<Self>) {
        let old = self.master();
        let chosen = {
            let mut state = self.state.lock();
            let fit = |(_, node): &(usize, &Node)| {
                node.is_up && !node.is_isolated && matches!(node.role, Role::Replica(of, Some(_)) if of == old)
            };
            // The one that has most, as Sentinel chooses.
            let rank = |node: &Node| if let Role::Replica(_, applied) = node.role { applied } else { None };
            let chosen = state.nodes.iter().enumerate().filter(fit).max_by_key(|(_, node)| rank(node));
            let Some((chosen, _)) = chosen else { return };
            state.ids += 1;
            let id = format!("{:040x}", state.ids);
            let Some(node) = state.nodes.get_mut(chosen) else { return };
            (node.role, node.replication_id) = (Role::Master, id);
            node.log.clear();
            chosen
        };
        self.event(&format!("server {chosen} is promoted, {old} was master"));
        self.world.store_lost();
        self.changed.notify_waiters();
        let (sentinels, nodes, term) = {
            let state = self.state.lock();
            (state.views.len(), state.nodes.len(), state.views.iter().map(|view| view.term).max().unwrap_or(0) + 1)
        };
        for number in 0..sentinels {
            let wait = self.world.rng.lock().range(0, 300);
            sleep(Duration::from_millis(wait)).await;
            if let Some(view) = self.state.lock().views.get_mut(number) {
                *view = View { master: chosen, term };
            }
        }
        self.event(&format!("all Sentinels name server {chosen}"));
        for index in (0..nodes).filter(|index| *index != chosen) {
            tokio::spawn(self.clone().follow(index, chosen));
        }
    }

    /// Makes a server a replica of the new master, as soon as the Sentinels reach it.
    async fn follow(self: Arc<Self>, index: usize, master: usize) {
        loop {
            let wait = self.world.rng.lock().range(20, 800);
            sleep(Duration::from_millis(wait)).await;
            if self.master() != master {
                return;
            }
            let mut state = self.state.lock();
            let Some(node) = state.nodes.get_mut(index) else { return };
            if node.is_up && !node.is_isolated {
                node.role = Role::Replica(master, None);
                node.listeners.clear();
                drop(state);
                self.event(&format!("server {index} follows {master}"));
                // Sentinel closes the clients' connections of a server that it makes a replica.
                self.network.reset(None, &host(index));
                self.changed.notify_waiters();
                return;
            }
        }
    }
}
