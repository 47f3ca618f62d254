//! The lines of an audit log: JSON, each with the SHA-256 of the one before it and of its own bytes.
//!
//! A line is `BODY,"hash":"HEX"}`, where HEX is SHA-256 over the 32 bytes of the previous line's hash and the bytes of BODY.
//! In a file's first line the previous hash is written out: 32 zero bytes, or that of the file which it goes on from.
// SPEC broker.md#audit

use aws_lc_rs::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

/// A hash of the chain.
pub(super) type Hash = [u8; 32];

/// Longest line with its end, in bytes: strings are cut to fit.
pub(super) const LINE_LEN_MAX: usize = 8 * 1024;
/// Longest name in a line, in bytes.
const NAME_LEN_MAX: usize = 256;
/// What stands between a line's body and its hash, and behind it.
const HASH_KEY: &str = ",\"hash\":\"";
const HASH_END: &str = "\"}";

/// What was asked for and how it ended. Nothing of it is an input.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Entry<'a> {
    /// It is about to be done, and another line says what came of it.
    #[serde(skip)]
    pub is_intent: bool,
    /// The caller's user.
    pub uid: u32,
    /// The caller's group.
    pub gid: u32,
    /// The caller's process when it connected; its number may be another's by now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Such as `HashData`.
    #[serde(serialize_with = "cut")]
    pub operation: &'a str,
    /// Which wire it came by, such as `v1` or `w3`.
    #[serde(serialize_with = "cut")]
    pub wire: &'a str,
    /// As the caller named it.
    #[serde(serialize_with = "cut_option", skip_serializing_if = "Option::is_none")]
    pub profile: Option<&'a str>,
    /// The id of a key of the store.
    #[serde(serialize_with = "cut_option", skip_serializing_if = "Option::is_none")]
    pub key: Option<&'a str>,
    /// Its version, where one was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_version: Option<u32>,
    /// How many inputs the batch had.
    pub count: u32,
    /// All inputs together.
    pub bytes_in: u64,
    /// All outputs together.
    pub bytes_out: u64,
    /// The code of gRPC that was answered, 0 for success.
    pub code: u8,
}

/// What a line is about.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(super) enum Event {
    /// A file begins: its random id, the hash that it goes on from, the cryptographic library and the certificate of that one's
    /// validation, or "none"; the name that it has now, by which it is known when it was renamed.
    Begin { format: u32, file: String, previous: String, module: String, certificate: &'static str, name: String },
    /// A process has opened the file.
    Opened { pid: u32, module: String, certificate: &'static str },
    /// As `Opened`, and what an earlier process had not written to its end was cut off.
    Recovered { pid: u32, module: String, certificate: &'static str, torn_bytes: u64, torn_sha256: String },
    /// Writing works again; so many operations were refused meanwhile.
    Resumed { refused: u64 },
    /// The file was put aside; the one of this id goes on from the line before this one.
    End { next: String },
}

/// What goes into a line, short of what the chain adds: the JSON members, without braces.
#[derive(Clone, Debug)]
pub(super) struct Members(Vec<u8>);

impl Members {
    pub(super) fn of_entry(entry: &Entry<'_>) -> Members {
        let kind = if entry.is_intent { "intent" } else { "operation" };
        let mut members = format!("\"kind\":\"{kind}\",").into_bytes();
        members.extend(inner(entry));
        Members(members)
    }

    /// For tests of lines that nobody writes.
    #[cfg(test)]
    pub(super) fn raw(members: &str) -> Members {
        Members(members.as_bytes().to_vec())
    }

    pub(super) fn of_event(event: &Event) -> Members {
        Members(inner(event))
    }
}

fn inner(value: &impl Serialize) -> Vec<u8> {
    // Structs of numbers and strings always serialize; were it not so, the line would say nothing but be there.
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

/// A line as it is read back.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) hash: Hash,
    pub(super) head: Head,
}

/// What of a line matters to the chain.
#[derive(Debug, Deserialize)]
pub(super) struct Head {
    pub(super) seq: u64,
    pub(super) time: String,
    pub(super) kind: String,
    pub(super) file: Option<String>,
    pub(super) name: Option<String>,
    pub(super) previous: Option<String>,
    pub(super) next: Option<String>,
    pub(super) refused: Option<u64>,
    pub(super) torn_bytes: Option<u64>,
}

/// Reads a line without its end. The hash is what it says; whether that is so is [`Read::follows`]'s to tell.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read(line: &[u8]) -> Result<Read, &'static str> {
    let (_, hash) = split(line).ok_or("does not end with a hash")?;
    let head: Head = serde_json::from_slice(line).map_err(|_| "is not a line of an audit log")?;
    Ok(Read { hash, head })
}

/// Whether a line's hash is that of a previous hash and its body.
pub(super) fn follows(line: &[u8], previous: &Hash) -> bool {
    split(line).is_some_and(|(body, said)| hash(previous, body) == said)
}

fn split(line: &[u8]) -> Option<(&[u8], Hash)> {
    let rest = line.strip_suffix(HASH_END.as_bytes())?;
    let (rest, digits) = rest.split_at_checked(rest.len().checked_sub(64)?)?;
    Some((rest.strip_suffix(HASH_KEY.as_bytes())?, unhex(digits)?))
}

fn hash(previous: &Hash, body: &[u8]) -> Hash {
    let mut context = Context::new(&SHA256);
    context.update(previous);
    context.update(body);
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]).collect()
}

/// 64 lower-case digits.
pub(super) fn unhex(digits: &[u8]) -> Option<Hash> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut hash = [0; 32];
    if digits.len() != 64 {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(hash)
}

fn cut<S: serde::Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&text[..text.floor_char_boundary(NAME_LEN_MAX)])
}

fn cut_option<S: serde::Serializer>(text: &Option<&str>, to: S) -> Result<S::Ok, S::Error> {
    cut(text.unwrap_or_default(), to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_members_in_their_order_and_a_hash_over_the_one_before() {
        let long = "\u{1}".repeat(10_000);
        let entry =
            Entry { uid: 1, gid: 2, operation: "HashData", wire: "v1", profile: Some("a\"\n"), ..Entry::default() };
        let mut buffer = Vec::new();
        let hash = push(&mut buffer, &[7; 32], 3, "T", &Members::of_entry(&entry));
        let text = String::from_utf8(buffer.clone()).unwrap();
        let body = "{\"seq\":3,\"time\":\"T\",\"kind\":\"operation\",\"uid\":1,\"gid\":2,\"operation\":\"HashData\",\"wire\":\"v1\",\
                    \"profile\":\"a\\\"\\n\",\"count\":0,\"bytes_in\":0,\"bytes_out\":0,\"code\":0";
        assert_eq!(text, format!("{body},\"hash\":\"{}\"}}\n", hex(&hash)));
        let mut both = vec![7; 32];
        both.extend_from_slice(body.as_bytes());
        assert_eq!(hash.as_slice(), aws_lc_rs::digest::digest(&SHA256, &both).as_ref());
        let line = &buffer[..buffer.len() - 1];
        assert_eq!((read(line).unwrap().hash, read(line).unwrap().head.seq), (hash, 3));
        assert!(follows(line, &[7; 32]) && !follows(line, &[8; 32]));
        let entry = Entry { profile: Some(&long), key: Some(&long), operation: &long, wire: &long, ..entry };
        let mut buffer = Vec::new();
        push(&mut buffer, &hash, u64::MAX, "T", &Members::of_entry(&entry));
        assert!(buffer.len() < LINE_LEN_MAX, "{}", buffer.len());
        for wrong in [&b""[..], b"{}", b"\"}", &line[1..], &line[..line.len() - 1]] {
            assert!(read(wrong).is_err());
        }
        assert_eq!(unhex(hex(&hash).as_bytes()), Some(hash));
        assert_eq!(unhex(hex(&hash).to_uppercase().as_bytes()), None);
    }
}
