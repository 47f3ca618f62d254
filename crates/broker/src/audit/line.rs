//! Parses lines of an audit log.
// SPEC broker.md#audit

use serde::Deserialize;

use super::writer::{HASH_END, HASH_KEY, Hash, hash};
use crate::hash::unhex;

/// A parsed line of an audit log.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) hash: Hash,
    pub(super) head: Head,
}

/// Members of a line that the chain needs.
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

/// Parses a line without its line feed. The hash is the claimed one; [`follows`] verifies it.
///
/// # Errors
/// The defect of the line.
pub(super) fn read(line: &[u8]) -> Result<Line, &'static str> {
    let (_, hash) = split(line).ok_or("does not end with a hash")?;
    let head: Head = serde_json::from_slice(line).map_err(|_| "is not a line of an audit log")?;
    Ok(Line { hash, head })
}

/// True if a line's hash is that of the previous hash and its own body.
pub(super) fn follows(line: &[u8], previous: &Hash) -> bool {
    split(line).is_some_and(|(body, said)| hash(previous, body) == said)
}

fn split(line: &[u8]) -> Option<(&[u8], Hash)> {
    let rest = line.strip_suffix(HASH_END.as_bytes())?;
    let (rest, digits) = rest.split_at_checked(rest.len().checked_sub(64)?)?;
    Some((rest.strip_suffix(HASH_KEY.as_bytes())?, unhex(digits)?))
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::digest::SHA256;

    use super::super::writer::{Entry, LINE_LEN_MAX, Members, push};
    use super::*;
    use crate::hash::hex;

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
