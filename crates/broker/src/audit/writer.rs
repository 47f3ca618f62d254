//! Writes lines of an audit log: JSON, each with the SHA-256 of the previous hash and of its own bytes. Failed lines
//! leave no trace in the file.
//!
//! A line is `BODY,"hash":"HEX"}`, where HEX is SHA-256 over the 32 bytes of the previous line's hash and the bytes of
//! BODY. A file's first line contains the previous hash: 32 zero bytes, or the last one of the file that it continues.
// SPEC broker.md#audit

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use sealway_runtime::clock::{Clock, iso8601};
use serde::Serialize;

use crate::hash::hex;

/// A SHA-256 hash of the chain.
pub(super) type Hash = [u8; 32];

/// Longest line with its line feed, in bytes: strings are truncated to fit.
pub(super) const LINE_LEN_MAX: usize = 8 * 1024;
/// Longest name in a line, in bytes.
const NAME_LEN_MAX: usize = 256;
/// Bytes between a line's body and its hash, and after the hash.
pub(super) const HASH_KEY: &str = ",\"hash\":\"";
pub(super) const HASH_END: &str = "\"}";

/// Record of an operation and its result, without any input.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Entry<'a> {
    /// True before the operation is done; another line records its result.
    #[serde(skip)]
    pub is_intent: bool,
    /// User id of the caller.
    pub uid: u32,
    /// Group id of the caller.
    pub gid: u32,
    /// Process id of the caller at its connection; another process may have it by now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Name of the caller's token, for a caller of the transit API.
    #[serde(serialize_with = "cut_option", skip_serializing_if = "Option::is_none")]
    pub token: Option<&'a str>,
    /// Name of the operation, such as `HashData`.
    #[serde(serialize_with = "cut")]
    pub operation: &'a str,
    /// Name of the wire, such as `v1` or `w3`.
    #[serde(serialize_with = "cut")]
    pub wire: &'a str,
    /// Name of the profile, as the caller sent it.
    #[serde(serialize_with = "cut_option", skip_serializing_if = "Option::is_none")]
    pub profile: Option<&'a str>,
    /// Id of a key of the store.
    #[serde(serialize_with = "cut_option", skip_serializing_if = "Option::is_none")]
    pub key: Option<&'a str>,
    /// Version of the key, if one was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_version: Option<u32>,
    /// Number of inputs in the batch.
    pub count: u32,
    /// Length of all inputs together, in bytes.
    pub bytes_in: u64,
    /// Length of all outputs together, in bytes.
    pub bytes_out: u64,
    /// gRPC code of the answer, 0 for success.
    pub code: u8,
}

/// Event of a log file, other than an operation.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(super) enum Event {
    /// First line of a file: its random id, the hash that it continues, the crypto library with its certificate or
    /// "none", and its present name, which identifies it after a rename.
    Begin { format: u32, file: String, previous: String, module: String, certificate: &'static str, name: String },
    /// A process has opened the file.
    Opened { pid: u32, module: String, certificate: &'static str },
    /// A process has opened the file, and truncated an incomplete line of an earlier process.
    Recovered { pid: u32, module: String, certificate: &'static str, torn_bytes: u64, torn_sha256: String },
    /// Writing works again; this many operations were rejected meanwhile.
    Resumed { refused: u64 },
    /// The file was closed; the file of this id continues from the line before this one.
    End { next: String },
}

/// Content of a line without the members of the chain: JSON members without braces.
#[derive(Clone, Debug)]
pub(super) struct Members(Vec<u8>);

impl Members {
    pub(super) fn of_entry(entry: &Entry<'_>) -> Members {
        let kind = if entry.is_intent { "intent" } else { "operation" };
        let mut members = format!("\"kind\":\"{kind}\",").into_bytes();
        members.extend(inner(entry));
        Members(members)
    }

    /// For tests of invalid lines.
    #[cfg(test)]
    pub(super) fn raw(members: &str) -> Members {
        Members(members.as_bytes().to_vec())
    }

    pub(super) fn of_event(event: &Event) -> Members {
        Members(inner(event))
    }
}

fn inner(value: &impl Serialize) -> Vec<u8> {
    // Structs of numbers and strings always serialize; otherwise the line would be written without content.
    let json = serde_json::to_vec(value).unwrap_or_else(|_| b"{}".to_vec());
    json.get(1..json.len() - 1).unwrap_or_default().to_vec()
}

/// Appends a line to a buffer and returns its hash.
pub(super) fn push(buffer: &mut Vec<u8>, previous: &Hash, seq: u64, time: &str, members: &Members) -> Hash {
    let begin = buffer.len();
    buffer.extend(format!("{{\"seq\":{seq},\"time\":\"{time}\",").into_bytes());
    buffer.extend_from_slice(&members.0);
    let hash = hash(previous, &buffer[begin..]);
    buffer.extend_from_slice(HASH_KEY.as_bytes());
    buffer.extend(hex(&hash).into_bytes());
    buffer.extend_from_slice(HASH_END.as_bytes());
    buffer.push(b'\n');
    hash
}

pub(super) fn hash(previous: &Hash, body: &[u8]) -> Hash {
    let mut context = Context::new(&SHA256);
    context.update(previous);
    context.update(body);
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

fn cut<S: serde::Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&text[..text.floor_char_boundary(NAME_LEN_MAX)])
}

fn cut_option<S: serde::Serializer>(text: &Option<&str>, to: S) -> Result<S::Ok, S::Error> {
    cut(text.unwrap_or_default(), to)
}

/// File of a log, with the state of its chain.
pub(super) struct LogFile {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) hash: Hash,
    /// Sequence number of the next line.
    pub(super) seq: u64,
    /// Length of the whole lines, in bytes.
    pub(super) len: u64,
    /// True if bytes may follow them, which have to be truncated before the next write.
    is_dirty: bool,
    /// Operations rejected since the last successful write.
    pub(super) refused: u64,
}

impl LogFile {
    pub(super) fn new(file: File, path: &Path, clock: Arc<dyn Clock>, hash: Hash, seq: u64) -> LogFile {
        LogFile { file, path: path.to_owned(), clock, hash, seq, len: 0, is_dirty: false, refused: 0 }
    }

    /// Appends all lines or none. They may not be on the disk yet.
    ///
    /// # Errors
    /// The lines were not written; the next call tries again.
    pub(super) fn append(&mut self, lines: &[Members]) -> io::Result<()> {
        let done = self.try_append(lines);
        if done.is_err() {
            self.give_up(lines.len());
        }
        done
    }

    /// Appends all lines or none, and syncs them to the disk.
    ///
    /// # Errors
    /// The lines may not be on the disk: then none of them stays in the file.
    pub(super) fn append_durably(&mut self, lines: &[Members]) -> io::Result<()> {
        let before = (self.hash, self.seq, self.len, self.refused);
        self.append(lines)?;
        let synced = self.file.sync_data();
        if synced.is_err() {
            (self.hash, self.seq, self.len, self.refused) = before;
            // The kernel may have dropped pages that it could not write: the lines are truncated, and a retry writes
            // them again.
            self.is_dirty = true;
            self.give_up(lines.len());
        }
        synced
    }

    fn try_append(&mut self, lines: &[Members]) -> io::Result<()> {
        self.settle()?;
        let time = iso8601(self.clock.now_ms());
        let (mut hash, mut seq) = (self.hash, self.seq);
        let mut buffer = Vec::with_capacity(512 * (lines.len() + 1));
        let resumed = (self.refused > 0).then(|| Members::of_event(&Event::Resumed { refused: self.refused }));
        for members in resumed.iter().chain(lines) {
            hash = push(&mut buffer, &hash, seq, &time, members);
            seq = seq.saturating_add(1);
        }
        self.is_dirty = true;
        self.file.write_all(&buffer)?;
        self.is_dirty = false;
        self.len += buffer.len() as u64;
        (self.hash, self.seq, self.refused) = (hash, seq, 0);
        Ok(())
    }

    /// Truncates the rest of a failed write, and checks that the file is unchanged: a deleted, truncated or
    /// foreign-written file would lose the lines.
    fn settle(&mut self) -> io::Result<()> {
        if self.is_dirty {
            self.file.set_len(self.len)?;
            self.is_dirty = false;
        }
        let metadata = self.file.metadata()?;
        if metadata.nlink() == 0 {
            return Err(io::Error::other("the file was deleted; SIGHUP begins another"));
        }
        if metadata.len() != self.len {
            return Err(io::Error::other(
                "another process has changed the file; move it aside, and SIGHUP begins a new one",
            ));
        }
        Ok(())
    }

    fn give_up(&mut self, lines: usize) {
        self.refused += lines as u64;
        if self.is_dirty && self.file.set_len(self.len).is_ok() {
            self.is_dirty = false;
        }
    }
}
