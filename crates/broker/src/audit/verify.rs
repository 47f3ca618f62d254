//! Verifying a log: from its first line to its last, nothing changed, taken out, put in or moved.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::line::{self, Hash, LINE_LEN_MAX};

/// What a log that holds has told. A chain cannot show that its end was cut off: note [`Verified::last_hash`] elsewhere, and ask
/// for it the next time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The random id of the file.
    pub file: String,
    /// Whole lines.
    pub lines: u64,
    /// Of the first line and the last; a file that goes on from another goes on counting.
    pub seq: (u64, u64),
    /// When the first line was written and when the last.
    pub time: (String, String),
    /// The hash that it goes on from, in hexadecimal; zeros for none.
    pub previous: String,
    /// Of the last line, in hexadecimal.
    pub last_hash: String,
    /// The id of the file that goes on, once it was put aside: then nothing was cut off its end.
    pub next: Option<String>,
    /// Lines that a stopped process had not written to their end and that were put aside, by the line that says so.
    pub recovered: Vec<u64>,
    /// How many operations were refused because the log could not be written.
    pub refused: u64,
    /// Bytes behind the last whole line: one is being written, or a process was stopped while it wrote.
    pub torn_bytes: u64,
    /// The hash that the next file goes on from: of the last line but a closing one.
    onward: Hash,
    begins_from: Hash,
}

impl Verified {
    /// Whether nothing is known that went before: the first log there ever was, or one whose predecessor was not found.
    pub fn begins_a_chain(&self) -> bool {
        self.begins_from == Hash::default()
    }
}

/// Where a log does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The file.
    pub path: PathBuf,
    /// From 1; 0 where it is of no line.
    pub line: u64,
    /// What is wrong.
    pub text: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        f.write_str(&self.text)
    }
}

impl std::error::Error for Broken {}

/// Verifies one file.
///
/// # Errors
/// The first place where it does not hold.
pub fn verify(path: &Path) -> Result<Verified, Broken> {
    verify_to(path, None)
}

/// Verifies files that go on from each other, the oldest first, and that a line has the hash which was noted as the last one.
///
/// # Errors
/// The first place where they do not hold.
pub fn verify_all(paths: &[PathBuf], last: Option<&str>) -> Result<Vec<Verified>, Broken> {
    let mut all: Vec<Verified> = Vec::new();
    let wanted = last.map(Wanted::parse).transpose().map_err(|text| Broken { path: PathBuf::new(), line: 0, text })?;
    let mut wanted = wanted;
    for path in paths {
        let verified = verify_to(path, wanted.as_mut())?;
        if let Some(before) = all.last() {
            let broken = |text: &str| Broken { path: path.clone(), line: 1, text: text.into() };
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
        return Err(Broken { path: path.clone(), line: 0, text: text.into() });
    }
    Ok(all)
}

/// A hash that some line has to have.
struct Wanted {
    hash: Hash,
    is_found: bool,
}

impl Wanted {
    fn parse(text: &str) -> Result<Wanted, String> {
        let hash = line::unhex(text.trim().to_ascii_lowercase().as_bytes());
        let hash = hash.ok_or("the noted hash is not 64 hexadecimal digits")?;
        Ok(Wanted { hash, is_found: false })
    }
}

fn verify_to(path: &Path, mut wanted: Option<&mut Wanted>) -> Result<Verified, Broken> {
    let broken = |line: u64, text: String| Broken { path: path.to_owned(), line, text };
    let file = File::open(path).map_err(|err| broken(0, format!("cannot be read: {err}")))?;
    let mut lines = BufReader::with_capacity(256 * 1024, file);
    let mut bytes = Vec::with_capacity(LINE_LEN_MAX);
    let mut chain: Option<Verified> = None;
    let mut at = 0;
    loop {
        at += 1;
        bytes.clear();
        let read = (&mut lines).take(LINE_LEN_MAX as u64).read_until(b'\n', &mut bytes);
        read.map_err(|err| broken(at, format!("cannot be read: {err}")))?;
        let Some(line) = bytes.strip_suffix(b"\n") else {
            // Whatever follows is behind the last whole line.
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
            wanted.is_found |= line::hex(&wanted.hash) == chain.last_hash;
        }
    }
}

/// One line further.
fn step(chain: Option<Verified>, line: &[u8], at: u64) -> Result<Verified, String> {
    let read = line::read(line)?;
    let head = read.head;
    let hash = line::hex(&read.hash);
    let Some(mut chain) = chain else {
        let (Some(file), Some(previous), "begin") = (head.file, head.previous, head.kind.as_str()) else {
            return Err("is not the first line of a log: lines before it were taken out".into());
        };
        let begins_from = line::unhex(previous.as_bytes()).ok_or("names no hash that it goes on from")?;
        if !line::follows(line, &begins_from) {
            return Err("was changed".into());
        }
        return Ok(Verified {
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
    let previous = line::unhex(chain.last_hash.as_bytes()).unwrap_or_default();
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
