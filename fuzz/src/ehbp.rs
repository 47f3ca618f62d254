//! `ehbp-frames`: any bytes as the body of a request of the Encrypted HTTP Body Protocol, and as its header.

use sealway_proto::ehbp::{EhbpError, Frames, parse_encapsulated_key};

/// Longest plaintext of a frame.
const PLAINTEXT_MAX: usize = 1000;

/// Returns the ciphertexts and the end of a body that arrives in parts of this many bytes.
fn read(body: &[u8], part: usize) -> (Vec<Vec<u8>>, Result<(), EhbpError>) {
    let (mut frames, mut found) = (Frames::new(PLAINTEXT_MAX), Vec::new());
    for part in body.chunks(part) {
        frames.push(part);
        loop {
            match frames.next_ciphertext() {
                Ok(Some(ciphertext)) => found.push(ciphertext),
                Ok(None) => break,
                Err(err) => return (found, Err(err)),
            }
        }
        assert!(frames.held() < PLAINTEXT_MAX + 20, "more is held than one frame");
    }
    (found, frames.finish())
}

fn read_whole(body: &[u8]) -> (Vec<Vec<u8>>, Result<(), EhbpError>) {
    read(body, body.len().max(1))
}

/// The fuzz target for frames: the first byte is the length of the parts in which the body arrives.
pub fn frames(data: &[u8]) {
    if let Ok(enc) = parse_encapsulated_key(data) {
        let spelt: String = enc.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(spelt.as_bytes(), data, "a secret has one spelling");
    }
    let Some((part, body)) = data.split_first() else { return };
    let (found, end) = read(body, usize::from(*part).max(1));
    let whole = read_whole(body);
    assert_eq!((&found, end), (&whole.0, whole.1), "it depends on the parts");
    assert!(found.iter().all(|ciphertext| (16..=PLAINTEXT_MAX + 16).contains(&ciphertext.len())));
    if end.is_ok() {
        // Written again, without the frames that are skipped, it is read as the same.
        let again: Vec<u8> =
            found.iter().flat_map(|frame| [&(frame.len() as u32).to_be_bytes()[..], frame].concat()).collect();
        assert_eq!(read_whole(&again), (found, Ok(())));
    }
}
