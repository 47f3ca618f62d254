//! PEM (RFC 7468, laxly parsed): the first block of a text, with any text before and after it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// A block; its bytes are wiped on drop, as they may be a key.
pub(super) struct Block<'a> {
    pub(super) label: &'a str,
    pub(super) der: Zeroizing<Vec<u8>>,
}

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";
const DASHES: &[u8] = b"-----";
const LABEL_MAX: usize = 64;

/// Finds the first complete block; `None` if there is none. A block may have headers and an empty line before its
/// base64. Linear in the length of the text.
pub(super) fn first(text: &[u8]) -> Option<Block<'_>> {
    let mut rest = text;
    loop {
        let (line, after) = next_line(rest)?;
        if let Some(label) = label(line, BEGIN)
            && let Some(block) = body(label, after)
        {
            return Some(block);
        }
        rest = after;
    }
}

/// Encodes a block: two lines with the label, and base64 in lines of 64 columns.
pub fn encode(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        out.push_str(line);
        out.push('\n');
        rest = after;
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}

/// Splits off a line without its end; `None` at the end of the text.
fn next_line(text: &[u8]) -> Option<(&[u8], &[u8])> {
    if text.is_empty() {
        return None;
    }
    let end = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
    let line = text[..end].trim_ascii_end();
    Some((line, text.get(end + 1..).unwrap_or_default()))
}

fn label<'a>(line: &'a [u8], prefix: &[u8]) -> Option<&'a str> {
    let label = line.strip_prefix(prefix)?.strip_suffix(DASHES)?;
    std::str::from_utf8(label).ok().filter(|label| label.len() <= LABEL_MAX)
}

fn body<'a>(label_begun: &'a str, text: &[u8]) -> Option<Block<'a>> {
    let encoded = encoded(label_begun, text)?;
    // Allocated at full length, so that no copy of a secret is left by growing; only complete blocks reach this point.
    let mut base64 = Zeroizing::new(Vec::with_capacity(encoded.len()));
    let (mut rest, mut in_headers) = (encoded, true);
    while let Some((line, after)) = next_line(rest) {
        rest = after;
        // A header. Those of an encrypted key make no difference: its bytes do not parse as a key.
        if in_headers && line.contains(&b':') {
            continue;
        }
        in_headers = in_headers && line.is_empty();
        base64.extend(line.iter().filter(|byte| !byte.is_ascii_whitespace()));
    }
    let mut der = Zeroizing::new(vec![0; base64.len().div_ceil(4) * 3]);
    let len = STANDARD.decode_slice(&*base64, &mut der).ok()?;
    der.truncate(len);
    Some(Block { label: label_begun, der })
}

/// Returns the text before the block's last line; `None` if another line of dashes comes first.
fn encoded<'a>(label_begun: &str, text: &'a [u8]) -> Option<&'a [u8]> {
    let mut rest = text;
    loop {
        let (line, after) = next_line(rest)?;
        if line.starts_with(DASHES) {
            return (label(line, END)? == label_begun).then(|| &text[..text.len() - rest.len()]);
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(String, Vec<u8>)> {
        first(text.as_bytes()).map(|block| (block.label.to_owned(), block.der.to_vec()))
    }

    #[test]
    fn the_first_whole_block_is_read_whatever_stands_around_it() {
        let text = "Bag Attributes\r\n-----BEGIN X-----\r\nAAEC\r\n-----END X-----\r\n-----BEGIN Y-----\nAA==\n-----END Y-----\n";
        assert_eq!(read(text), Some(("X".to_owned(), vec![0, 1, 2])));
        let broken_first = "-----BEGIN X-----\nAAEC\n-----END Y-----\n-----BEGIN Z-----\nAA==\n-----END Z-----";
        assert_eq!(read(broken_first), Some(("Z".to_owned(), vec![0])));
        let headers = "-----BEGIN X-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES\n\nAAEC\n-----END X-----\n";
        assert_eq!(read(headers), Some(("X".to_owned(), vec![0, 1, 2])));
    }

    #[test]
    fn an_incomplete_pem_block_is_rejected() {
        for text in [
            "",
            "text",
            "-----BEGIN X-----\nAAEC\n",
            "-----BEGIN X-----\nA*EC\n-----END X-----",
            "-----BEGIN X----\nAAEC\n-----END X----",
            " -----BEGIN X-----\nAAEC\n-----END X-----",
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }

    #[test]
    fn pem_has_lines_of_64_columns_and_round_trips() {
        for len in [0, 1, 47, 48, 49, 200] {
            let bytes = vec![0xa5; len];
            let text = encode("CERTIFICATE", &bytes);
            assert!(text.lines().all(|line| line.len() <= 64));
            assert!(text.ends_with("-----END CERTIFICATE-----\n"));
            assert_eq!(read(&text), Some(("CERTIFICATE".to_owned(), bytes)));
        }
    }
}
