//! One combination that was used, and the search key of its row.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Entry;

/// Longest name of a row, in bytes; longer ones are cut at a character.
pub const NAME_LEN_MAX: usize = 128;

/// The party that used cryptography: a caller of the broker, or a part of the gateway's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party<'a> {
    /// A user of this machine, by its id.
    Uid(u32),
    /// A caller, route, listener, upstream or store: its kind, such as `route`, and its name.
    Named(&'a str, &'a str),
}

impl fmt::Display for Party<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Party::Uid(uid) => write!(f, "uid:{uid}"),
            Party::Named(kind, name) => write!(f, "{kind}:{name}"),
        }
    }
}

impl<'a> Party<'a> {
    /// Parses the text that [`Party`] is shown as.
    pub fn parse(text: &'a str) -> Party<'a> {
        let (kind, name) = text.split_once(':').unwrap_or(("other", text));
        match name.parse() {
            Ok(uid) if kind == "uid" => Party::Uid(uid),
            _ => Party::Named(kind, name),
        }
    }
}

/// A combination of which uses are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use<'a> {
    /// The operation, such as `SignData` or `tls-handshake`.
    pub operation: &'a str,
    /// The algorithm by its name in profiles, in TLS or in JOSE.
    pub algorithm: &'a str,
    /// Size of the key in bits, or number of the parameter set: 3072 of RSA, 768 of ML-KEM-768. 0: the name says it, or
    /// there is no key.
    pub size: u32,
    /// Id of the key; empty for none.
    pub key: &'a str,
    /// The party that used it.
    pub party: Party<'a>,
    /// Version of the protocol, such as `v1` of the broker's wires or `TLSv1.3`.
    pub protocol: &'a str,
}

fn cut(text: &str) -> &str {
    if text.len() <= NAME_LEN_MAX { text } else { &text[..text.floor_char_boundary(NAME_LEN_MAX)] }
}

impl<'a> Use<'a> {
    /// True if every name is shorter than the bound, which is a power of two: one comparison in place of six.
    pub(super) fn is_short(&self) -> bool {
        let party = match self.party {
            Party::Named(kind, name) => kind.len() | name.len(),
            Party::Uid(_) => 0,
        };
        (party | self.operation.len() | self.algorithm.len() | self.key.len() | self.protocol.len()) < NAME_LEN_MAX
    }

    /// Cuts names to their bound.
    pub(super) fn cut(&self) -> Use<'a> {
        let party = match self.party {
            Party::Named(kind, name) => Party::Named(cut(kind), cut(name)),
            uid @ Party::Uid(_) => uid,
        };
        Use {
            operation: cut(self.operation),
            algorithm: cut(self.algorithm),
            key: cut(self.key),
            protocol: cut(self.protocol),
            party,
            size: self.size,
        }
    }
}

/// Folds words into a state by a multiplication of twice their width, as fast hashes do.
fn fold(state: u64, word: u64) -> u64 {
    let wide = u128::from(state ^ word) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
    wide as u64 ^ (wide >> 64) as u64
}

/// Reads up to 8 bytes as a number; equal bytes of one length give equal numbers, and others give others.
fn word(bytes: &[u8]) -> u64 {
    if let Some(all) = bytes.first_chunk() {
        return u64::from_le_bytes(*all);
    }
    if let (Some(head), Some(tail)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return u64::from(u32::from_le_bytes(*head)) << 32 | u64::from(u32::from_le_bytes(*tail));
    }
    match (bytes.first(), bytes.get(bytes.len() / 2), bytes.last()) {
        (Some(first), Some(middle), Some(last)) => u64::from(*first) << 16 | u64::from(*middle) << 8 | u64::from(*last),
        _ => 0,
    }
}

fn fold_text(state: u64, text: &str) -> u64 {
    let mut rest = text.as_bytes();
    let mut state = state ^ rest.len() as u64;
    while let Some((head, tail)) = rest.split_first_chunk::<8>()
        && !tail.is_empty()
    {
        state = fold(state, u64::from_le_bytes(*head));
        rest = tail;
    }
    fold(state, word(rest))
}

/// Compares texts without a call, because most are short.
fn is_same(one: &str, other: &str) -> bool {
    let (mut one, mut other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    while let (Some((a, one_rest)), Some((b, other_rest))) =
        (one.split_first_chunk::<8>(), other.split_first_chunk::<8>())
    {
        if a != b {
            return false;
        }
        (one, other) = (one_rest, other_rest);
    }
    word(one) == word(other)
}

/// Hashes a combination. The seed is random, so that names cannot be chosen to collide.
pub(super) fn mix(seed: u64, used: &Use<'_>) -> u64 {
    let state = [used.operation, used.algorithm, used.key, used.protocol].into_iter().fold(seed, fold_text);
    let state = match used.party {
        Party::Uid(uid) => fold(state, u64::from(uid) << 1 | 1),
        Party::Named(kind, name) => fold_text(fold_text(state, kind), name),
    };
    fold(state, u64::from(used.size))
}

/// A row of the table: a combination, its count and its times.
pub(super) struct Row {
    hash: u64,
    size: u32,
    operation: Box<str>,
    algorithm: Box<str>,
    key: Box<str>,
    protocol: Box<str>,
    /// `None`: a user, by `uid`.
    party: Option<(Box<str>, Box<str>)>,
    uid: u32,
    count: AtomicU64,
    first_ms: u64,
    last_ms: AtomicU64,
}

impl Row {
    pub(super) fn new(used: &Use<'_>, hash: u64, count: u64, (first_ms, last_ms): (u64, u64)) -> Row {
        let (party, uid) = match used.party {
            Party::Uid(uid) => (None, uid),
            Party::Named(kind, name) => (Some((kind.into(), name.into())), 0),
        };
        Row {
            hash,
            size: used.size,
            operation: used.operation.into(),
            algorithm: used.algorithm.into(),
            key: used.key.into(),
            protocol: used.protocol.into(),
            party,
            uid,
            count: AtomicU64::new(count),
            first_ms,
            last_ms: AtomicU64::new(last_ms),
        }
    }

    /// Counts without a lock; threads that meet here write one cache line.
    pub(super) fn count(&self, times: u64, now_ms: u64) {
        self.count.fetch_add(times, Ordering::Relaxed);
        self.last_ms.fetch_max(now_ms, Ordering::Relaxed);
    }

    fn party(&self) -> Party<'_> {
        match &self.party {
            None => Party::Uid(self.uid),
            Some((kind, name)) => Party::Named(kind, name),
        }
    }

    pub(super) fn is_of(&self, used: &Use<'_>, hash: u64) -> bool {
        if self.hash != hash {
            return false;
        }
        let is_party = match (&self.party, used.party) {
            (None, Party::Uid(uid)) => self.uid == uid,
            (Some((kind, name)), Party::Named(other, its)) => is_same(kind, other) && is_same(name, its),
            _ => false,
        };
        self.size == used.size
            && is_party
            && is_same(&self.operation, used.operation)
            && is_same(&self.algorithm, used.algorithm)
            && is_same(&self.key, used.key)
            && is_same(&self.protocol, used.protocol)
    }

    pub(super) fn entry(&self) -> Entry {
        Entry {
            operation: self.operation.to_string(),
            algorithm: self.algorithm.to_string(),
            size: self.size,
            key: self.key.to_string(),
            party: self.party().to_string(),
            protocol: self.protocol.to_string(),
            count: self.count.load(Ordering::Relaxed),
            first_ms: self.first_ms,
            last_ms: self.last_ms.load(Ordering::Relaxed),
        }
    }
}
