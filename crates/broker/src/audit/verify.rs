//! Verifies a log from its first line to its last: no line changed, removed, inserted or moved.

use std::fmt::{self, Write};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::line;
use super::writer::{Hash, LINE_LEN_MAX};
use crate::hash::{hex, unhex};

/// Facts of a valid log. A chain cannot show that its end was removed: note [`Summary::last_hash`] elsewhere, and pass
/// it to the next verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Random id of the file.
    pub file: String,
    /// Number of lines that end with a line feed, the first line included.
    pub lines: u64,
    /// Sequence numbers of the first and the last line; a file that continues another one continues its numbers.
    pub seq: (u64, u64),
    /// Times of the first and the last line.
    pub time: (String, String),
    /// Hash that the file continues from, in hexadecimal; zeros for none.
    pub previous: String,
    /// Hash of the last line, in hexadecimal.
    pub last_hash: String,
    /// Id of the next file, if the log was closed: then nothing was cut off its end.
    pub next: Option<String>,
    /// Lines that report the removal of torn bytes after an interrupted process, by number.
    pub recovered: Vec<u64>,
    /// Operations that were rejected because the log could not be written.
    pub refused: u64,
    /// Bytes after the last whole line: a line is being written, or a process was interrupted.
    pub torn_bytes: u64,
    /// Hash that the next file continues from: of the last line other than a closing one.
    onward: Hash,
    begins_from: Hash,
}

impl Summary {
    /// True if the log continues no other one: the first log of all, or one whose predecessor was not found.
    pub fn begins_a_chain(&self) -> bool {
        self.begins_from == Hash::default()
    }
}

/// Place at which a log is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Path of the invalid file.
    pub path: PathBuf,
    /// Line from 1; 0 if it concerns no line.
    pub line: u64,
    /// Sentence that describes the defect.
    pub text: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        f.write_str(&self.text)
    }
}

impl std::error::Error for Breach {}

/// Verifies one file of a log.
///
/// # Errors
/// The first invalid place.
pub fn verify(path: &Path) -> Result<Summary, Breach> {
    verify_to(path, None)
}

/// Verifies files that continue each other, the oldest first, and that one line has the hash noted as the last one.
///
/// # Errors
/// The first invalid place.
pub fn verify_all(paths: &[PathBuf], last: Option<&str>) -> Result<Vec<Summary>, Breach> {
    let mut all: Vec<Summary> = Vec::new();
    let mut wanted =
        last.map(NotedHash::parse).transpose().map_err(|text| Breach { path: PathBuf::new(), line: 0, text })?;
    for path in paths {
        let verified = verify_to(path, wanted.as_mut())?;
        if let Some(before) = all.last() {
            let broken = |text: &str| Breach { path: path.clone(), line: 1, text: text.into() };
            if verified.begins_a_chain() {
                return Err(broken(
                    "does not go on from the end of the file before it: when it was begun, no file was found to go on from",
                ));
            }
            if verified.begins_from != before.onward {
                return Err(broken("does not go on from the end of the file before it"));
            }
            if before.next.as_ref().is_some_and(|next| *next != verified.file) {
                return Err(broken("is not the file that the one before it names as the next"));
            }
        }
        all.push(verified);
    }
    if let (Some(wanted), Some(path)) = (wanted, paths.last())
        && !wanted.is_found
    {
        let text =
            "no line has the hash that was noted as the last one: lines were cut off the end, or all were made anew";
        return Err(Breach { path: path.clone(), line: 0, text: text.into() });
    }
    Ok(all)
}

/// A noted hash, and if a line has it.
struct NotedHash {
    hash: Hash,
    is_found: bool,
}

impl NotedHash {
    fn parse(text: &str) -> Result<NotedHash, String> {
        let hash = unhex(text.trim().to_ascii_lowercase().as_bytes());
        let hash = hash.ok_or("the noted hash is not 64 hexadecimal digits")?;
        Ok(NotedHash { hash, is_found: false })
    }
}

fn verify_to(path: &Path, mut wanted: Option<&mut NotedHash>) -> Result<Summary, Breach> {
    let broken = |line: u64, text: String| Breach { path: path.to_owned(), line, text };
    let file = File::open(path).map_err(|err| broken(0, format!("cannot be read: {err}")))?;
    let mut lines = BufReader::with_capacity(256 * 1024, file);
    let mut bytes = Vec::with_capacity(LINE_LEN_MAX);
    let mut chain: Option<Summary> = None;
    let mut at = 0;
    loop {
        at += 1;
        bytes.clear();
        let read = (&mut lines).take(LINE_LEN_MAX as u64).read_until(b'\n', &mut bytes);
        read.map_err(|err| broken(at, format!("cannot be read: {err}")))?;
        let Some(line) = bytes.strip_suffix(b"\n") else {
            // The rest is after the last whole line.
            let rest = std::io::copy(&mut lines, &mut std::io::sink()).map_err(|err| broken(at, err.to_string()))?;
            let torn_bytes = bytes.len() as u64 + rest;
            if rest > 0 && bytes.len() == LINE_LEN_MAX {
                return Err(broken(at, format!("is longer than {LINE_LEN_MAX} bytes")));
            }
            let Some(mut chain) = chain else { return Err(broken(0, "holds no line".into())) };
            chain.torn_bytes = torn_bytes;
            return Ok(chain);
        };
        chain = Some(step(chain, line, at).map_err(|text| broken(at, text))?);
        if let (Some(wanted), Some(chain)) = (wanted.as_deref_mut(), &chain) {
            wanted.is_found |= hex(&wanted.hash) == chain.last_hash;
        }
    }
}

/// Verifies the next line of a chain.
fn step(chain: Option<Summary>, line: &[u8], at: u64) -> Result<Summary, String> {
    let read = line::read(line)?;
    let head = read.head;
    let hash = hex(&read.hash);
    let Some(mut chain) = chain else {
        let (Some(file), Some(previous), "begin") = (head.file, head.previous, head.kind.as_str()) else {
            return Err("is not the first line of a log: lines before it were taken out".into());
        };
        let begins_from = unhex(previous.as_bytes()).ok_or("names no hash that it goes on from")?;
        if !line::follows(line, &begins_from) {
            return Err("was changed".into());
        }
        return Ok(Summary {
            file,
            lines: 1,
            seq: (head.seq, head.seq),
            time: (head.time.clone(), head.time),
            previous,
            last_hash: hash,
            next: None,
            recovered: Vec::new(),
            refused: 0,
            torn_bytes: 0,
            onward: read.hash,
            begins_from,
        });
    };
    if chain.next.is_some() {
        return Err("follows a closing line: it was put in".into());
    }
    let previous = unhex(chain.last_hash.as_bytes()).unwrap_or_default();
    if !line::follows(line, &previous) {
        let text = match head.seq.checked_sub(chain.seq.1) {
            Some(1) => "was changed, or the line before it was".into(),
            Some(more) if more > 1 => format!("does not follow: {} lines before it were taken out", more - 1),
            _ => "does not follow: it was put in or moved".into(),
        };
        return Err(text);
    }
    if Some(head.seq) != chain.seq.1.checked_add(1) || head.kind == "begin" {
        return Err("does not count on: it was put in".into());
    }
    match head.kind.as_str() {
        "end" => chain.next = Some(head.next.unwrap_or_default()),
        _ => chain.onward = read.hash,
    }
    if head.torn_bytes.is_some() {
        chain.recovered.push(at);
    }
    chain.refused = chain.refused.saturating_add(head.refused.unwrap_or_default());
    (chain.lines, chain.seq.1, chain.time.1, chain.last_hash) = (at, head.seq, head.time, hash);
    Ok(chain)
}

/// Verifies files that continue each other, the oldest first, and reports their facts. `last` is a previously noted
/// last hash: without it, a chain cannot show that its end was removed.
///
/// # Errors
/// The first invalid place.
pub fn report(paths: &[PathBuf], last: Option<&str>) -> Result<String, Breach> {
    let mut said = String::new();
    for (path, log) in paths.iter().zip(verify_all(paths, last)?) {
        let ((from, to), (first, until)) = (log.seq, &log.time);
        let _ = writeln!(said, "{}: {} lines hold, {from} to {to}, {first} to {until}", path.display(), log.lines);
        if log.begins_a_chain() {
            let _ = writeln!(said, "  begins a chain: when it was begun, no file was found that it could go on from");
        } else if path == &paths[0] {
            let _ = writeln!(said, "  goes on from the hash {}", log.previous);
        }
        for line in &log.recovered {
            let _ = writeln!(said, "  line {line} says that a line which was not whole was put aside");
        }
        if log.refused > 0 {
            let _ = writeln!(said, "  {} operations were refused because the log could not be written", log.refused);
        }
        if log.torn_bytes > 0 {
            let _ = writeln!(said, "  {} bytes follow that are no whole line", log.torn_bytes);
        }
        match &log.next {
            Some(next) => _ = writeln!(said, "  closed; goes on in the file with the id {next}"),
            None => _ = writeln!(said, "  last hash {}", log.last_hash),
        }
    }
    Ok(said.trim_end().to_owned())
}
