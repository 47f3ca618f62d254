//! Callers: their identity from the kernel, their permissions by rules on profiles, operations and keys, and their
//! share of the broker.
//!
//! The module does not know the content of a profile or a key. All denials have the same text, so that a denial does
//! not reveal what exists.
// SPEC broker.md#callers

mod rules;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{Hash, Hasher};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::net::UnixStream;

use crate::profile::problem::{Leniency, Notes, Problem};
use crate::profile::tree::Node;
use crate::{Code, Refusal, Result};

/// All operations, by the names of policies, audit lines and descriptors.
pub const OPERATIONS: [&str; 28] = [
    "HashData",
    "SignCertificate",
    "EncryptData",
    "DecryptData",
    "Rewrap",
    "SignData",
    "VerifyData",
    "SignDigest",
    "VerifyDigest",
    "Mac",
    "VerifyMac",
    "Derive",
    "Random",
    "Encapsulate",
    "Decapsulate",
    "Unwrap",
    "Information",
    "GenerateKey",
    "ImportKey",
    "ListKeys",
    "RotateKey",
    "DisableKey",
    "EnableKey",
    "PublicKey",
    "ConfigureKey",
    "DeleteKey",
    "Benchmark",
    "FakeEndpoint",
];

/// Name of an operation for a method of our own wire or another: a policy must not depend on the wire.
pub fn operation_name(method: &str) -> &str {
    match method {
        "Hash" => "HashData",
        "Encrypt" => "EncryptData",
        "Decrypt" => "DecryptData",
        "Sign" => "SignData",
        "Verify" => "VerifyData",
        "Generate" => "GenerateKey",
        "Import" => "ImportKey",
        "List" => "ListKeys",
        "Rotate" => "RotateKey",
        "Disable" => "DisableKey",
        "Enable" => "EnableKey",
        name => name,
    }
}

/// Most groups of a process (`NGROUPS_MAX` of Linux).
const GROUPS_MAX: usize = 65_536;

/// Identity of a caller at the time of its connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// User id. An unknown user of another user namespace is the overflow user, 65534.
    pub uid: u32,
    /// Id of the primary group.
    pub gid: u32,
    /// Supplementary groups; empty if the process cannot be inspected.
    pub groups: Arc<[u32]>,
    /// Process id; `None` in another pid namespace. The process may have ended and its id been reused: it decides only
    /// shares of connections, and groups of a process of the same user.
    pub pid: Option<i32>,
    /// Name of the caller's token, for a caller of the transit API. Its user and group are the overflow ids, and only the
    /// rules of its token apply.
    pub token: Option<Arc<str>>,
}

impl Peer {
    /// Identifies a caller of the transit API by the name of its token.
    pub fn of_token(name: Arc<str>) -> Peer {
        Peer { uid: rules::OVERFLOW_ID, gid: rules::OVERFLOW_ID, token: Some(name), ..Peer::default() }
    }

    /// Returns the peer as a caller of tokens, which share their sessions among callers.
    pub(crate) fn of_tokens(&self) -> sealway_pkcs11::Caller {
        let user = match &self.token {
            None => u64::from(self.uid),
            // Beyond all user ids.
            Some(name) => {
                let mut hasher = std::hash::DefaultHasher::new();
                name.hash(&mut hasher);
                hasher.finish() | 1 << 63
            }
        };
        sealway_pkcs11::Caller { user, process: self.pid.map_or(0, |pid| u64::from(pid.unsigned_abs())) }
    }

    /// Asks the kernel for the peer of a connection (SO_PEERCRED).
    ///
    /// # Errors
    /// The kernel does not answer; the connection is to be dropped.
    pub fn of(socket: &UnixStream) -> io::Result<Peer> {
        let known = socket.peer_cred()?;
        let pid = process_of(known.pid());
        let groups = pid.and_then(|pid| supplementary(known.uid(), pid)).unwrap_or_default();
        Ok(Peer { uid: known.uid(), gid: known.gid(), groups, pid, token: None })
    }

    /// True if the caller is in a group, primary or supplementary.
    pub fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

/// Returns the number of a peer's process; the kernel reports 0 for a process of another pid namespace.
fn process_of(pid: Option<i32>) -> Option<i32> {
    pid.filter(|pid| *pid > 0)
}

/// Reads the supplementary groups of a process from `/proc`, if the process runs as this user only. A reused process id
/// then belongs to a process of the same user, through which the caller could have acted anyway.
fn supplementary(uid: u32, pid: i32) -> Option<Arc<[u32]>> {
    groups_of(uid, &std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn groups_of(uid: u32, status: &str) -> Option<Arc<[u32]>> {
    let numbers = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let numbers: Result<Vec<u32>, _> = line.split_ascii_whitespace().take(GROUPS_MAX).map(str::parse).collect();
        numbers.ok()
    };
    // User ids of a status: real, effective, saved, and of the file system.
    let is_its = numbers("Uid:")? == [uid; 4];
    is_its.then(|| numbers("Groups:").map(Arc::from)).flatten()
}

/// Immutable rules for callers: a reload creates new ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callers {
    rules: Vec<Rule>,
    warnings: Vec<Problem>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    subject: Subject,
    profiles: Names,
    operations: Names,
    keys: Names,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    /// Every caller of the socket.
    Any,
    Uid(u32),
    Gid(u32),
    /// Name of a token of the transit API.
    Token(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Names {
    All,
    /// Exact names, and prefixes of names.
    Some {
        exact: Vec<String>,
        prefixes: Vec<String>,
    },
}

impl Callers {
    /// The default: one user, the owner of the socket, may do everything.
    pub fn only(uid: u32) -> Callers {
        let all = Rule { subject: Subject::Uid(uid), profiles: Names::All, operations: Names::All, keys: Names::All };
        Callers { rules: vec![all], warnings: Vec::new() }
    }

    /// Parses a policy: a list of rules.
    ///
    /// # Errors
    /// All defects of the text.
    pub fn parse(text: &str, leniency: Leniency) -> Result<Callers, Vec<Problem>> {
        let root = Node::parse(text).map_err(|err| vec![Problem { line: err.line, ..Problem::of_file(err.text) }])?;
        let mut notes = Notes::new(leniency);
        let callers = Callers::of_node(&root, "", &mut notes);
        let warnings = notes.into_result()?;
        callers.map(|callers| Callers { warnings, ..callers }).ok_or_else(Vec::new)
    }

    /// Warnings of the policy's file; empty for a section in a file of profiles, which has its own warnings.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// Checks a caller's permission for an operation with its profile and key, if any.
    ///
    /// # Errors
    /// A [`Refusal`] with code 7 that does not reveal what exists.
    pub fn allows(&self, peer: &Peer, operation: &str, profile: Option<&str>, key: Option<&str>) -> Result<()> {
        let operation = operation_name(operation);
        let is_allowed = self.rules_of(peer).any(|rule| {
            rule.operations.hold(operation)
                && profile.is_none_or(|profile| rule.profiles.hold(profile))
                && key.is_none_or(|key| rule.keys.hold(key))
        });
        if is_allowed {
            return Ok(());
        }
        Err(Refusal::new(Code::PermissionDenied, "not allowed to this caller"))
    }

    /// True if the caller may use a profile for any operation.
    pub fn may_use(&self, peer: &Peer, profile: &str) -> bool {
        self.rules_of(peer).any(|rule| rule.profiles.hold(profile))
    }

    /// True if the caller may use a key in any operation.
    pub fn may_see(&self, peer: &Peer, key: &str) -> bool {
        self.rules_of(peer).any(|rule| rule.keys.hold(key))
    }

    fn rules_of<'a>(&'a self, peer: &'a Peer) -> impl Iterator<Item = &'a Rule> {
        self.rules.iter().filter(move |rule| match (&rule.subject, &peer.token) {
            (Subject::Token(known), Some(name)) => **known == **name,
            (Subject::Token(_), None) | (_, Some(_)) => false,
            (Subject::Any, None) => true,
            (Subject::Uid(known), None) => *known == peer.uid,
            (Subject::Gid(known), None) => peer.is_in(*known),
        })
    }
}

impl Names {
    fn hold(&self, name: &str) -> bool {
        match self {
            Names::All => true,
            Names::Some { exact, prefixes } => {
                exact.iter().any(|known| known == name) || prefixes.iter().any(|prefix| name.starts_with(prefix))
            }
        }
    }
}

/// A bounded amount that callers share: places of connections and streams, bytes of memory. One user has at most three
/// quarters of it, and one process a quarter of the places, so that no caller takes all.
#[derive(Debug)]
pub(crate) struct Shares {
    max: usize,
    /// Bound for a process; `None` if only its user's bound applies.
    process_max: Option<usize>,
    used: Mutex<Usage>,
}

#[derive(Debug, Default)]
struct Usage {
    all: usize,
    /// Amount by holder, without empty entries.
    of: HashMap<Holder, usize>,
}

/// Holder of a share. Processes of another pid namespace have no id here, and count for their user only. A token of the
/// transit API counts as a user of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Holder {
    User(u32),
    Process(i32),
    Token(Arc<str>),
}

/// Bound that leaves no share for a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoShare {
    /// The whole amount is in use.
    #[error("all {0} places are taken")]
    All(usize),
    /// The caller's user has reached its bound.
    #[error("user {uid} has its share of places, {max}")]
    User { uid: u32, max: usize },
    /// The caller's process has reached its bound.
    #[error("process {pid} has its share of places, {max}")]
    Process { pid: i32, max: usize },
    /// The caller's token has reached its bound.
    #[error("the token has its share of places, {max}")]
    Token { max: usize },
}

/// A reserved amount, released on drop.
#[derive(Debug)]
pub(crate) struct Share {
    shares: Arc<Shares>,
    holders: [Option<Holder>; 2],
    amount: AtomicUsize,
}

impl Shares {
    /// Creates a pool of places, with bounds for users and processes.
    pub(crate) fn places(max: usize) -> Arc<Shares> {
        Arc::new(Shares { max, process_max: Some(max.div_ceil(4)), used: Mutex::default() })
    }

    /// Creates a pool of bytes, with bounds for users only.
    pub(crate) fn bytes(max: usize) -> Arc<Shares> {
        Arc::new(Shares { max, process_max: None, used: Mutex::default() })
    }

    /// Reserves an amount for a caller.
    ///
    /// # Errors
    /// The pool or the caller's part of it is used up.
    pub(crate) fn take(self: &Arc<Self>, peer: &Peer, amount: usize) -> Result<Share, NoShare> {
        let process = self.process_max.and(peer.pid).map(Holder::Process);
        let of_token = || peer.token.clone().map(Holder::Token);
        let holders = [Some(of_token().unwrap_or(Holder::User(peer.uid))), process];
        self.add(&holders, amount)?;
        Ok(Share { shares: self.clone(), holders, amount: AtomicUsize::new(amount) })
    }

    fn add(&self, holders: &[Option<Holder>; 2], amount: usize) -> Result<(), NoShare> {
        let mut used = self.used.lock();
        let is_beyond = |used: usize, max: usize| used.checked_add(amount).is_none_or(|sum| sum > max);
        if is_beyond(used.all, self.max) {
            return Err(NoShare::All(self.max));
        }
        for holder in holders.iter().flatten() {
            let user_max = self.max - self.max / 4;
            let (max, full) = match *holder {
                Holder::User(uid) => (user_max, NoShare::User { uid, max: user_max }),
                Holder::Token(_) => (user_max, NoShare::Token { max: user_max }),
                Holder::Process(pid) => {
                    let max = self.process_max.unwrap_or(self.max);
                    (max, NoShare::Process { pid, max })
                }
            };
            if is_beyond(used.of.get(holder).copied().unwrap_or_default(), max) {
                return Err(full);
            }
        }
        used.all += amount;
        for holder in holders.iter().flatten() {
            *used.of.entry(holder.clone()).or_default() += amount;
        }
        Ok(())
    }
}

impl Share {
    /// Reserves more; false if there is no room.
    pub(crate) fn grow(&self, amount: usize) -> bool {
        let is_added = amount == 0 || self.shares.add(&self.holders, amount).is_ok();
        if is_added {
            self.amount.fetch_add(amount, Ordering::Relaxed);
        }
        is_added
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let amount = *self.amount.get_mut();
        let mut used = self.shares.used.lock();
        used.all -= amount;
        for holder in self.holders.iter().flatten() {
            if let Entry::Occupied(mut held) = used.of.entry(holder.clone()) {
                *held.get_mut() -= amount;
                if *held.get() == 0 {
                    held.remove();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
