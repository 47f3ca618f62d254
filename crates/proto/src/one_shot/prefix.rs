//! The prefix of a request's stream on wire 4: `mode (1) ‖ length of psk_id (1) ‖ psk_id ‖ enc`.
// SPEC one-shot.md#the-request

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::error::Error;
use crate::hpke::Kem;

/// Longest name of a pre-shared key, in bytes.
pub const PSK_ID_LEN_MAX: usize = 64;

/// Returns whether a text has the form of a pre-shared key's name: 1 to 64 visible ASCII characters.
pub fn is_psk_id(text: &str) -> bool {
    (1..=PSK_ID_LEN_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A prefix that was read.
#[derive(Clone, PartialEq, Eq)]
pub struct Prefix {
    /// The name of the pre-shared key in mode psk, `None` in mode base.
    pub psk_id: Option<String>,
    /// The encapsulated secret of HPKE.
    pub enc: Vec<u8>,
}

impl Prefix {
    /// Encodes the prefix. Names of pre-shared keys are at most [`PSK_ID_LEN_MAX`] bytes long.
    pub fn encode(&self) -> Vec<u8> {
        let id = self.psk_id.as_deref().unwrap_or_default();
        [&[u8::from(self.psk_id.is_some()), id.len() as u8], id.as_bytes(), &self.enc].concat()
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prefix").field("psk_id", &self.psk_id).finish_non_exhaustive()
    }
}

/// Reads a prefix that arrives in pieces of any length.
#[derive(Debug)]
pub(crate) struct PrefixReader {
    enc_len: usize,
    bytes: Vec<u8>,
}

impl PrefixReader {
    /// Creates a reader of the prefix to a key of this KEM.
    pub(crate) fn new(kem: Kem) -> Self {
        PrefixReader { enc_len: kem.enc_len(), bytes: Vec::new() }
    }

    /// Takes bytes of the prefix from `input`, and returns it when it is whole. Bytes behind it stay.
    ///
    /// # Errors
    /// [`Error::Unsealable`] for another mode than base and psk, and for a name that does not fit the mode.
    pub(crate) fn read(&mut self, input: &mut &[u8]) -> Result<Option<Prefix>, Error> {
        if !self.take(2, input) {
            return Ok(None);
        }
        let (mode, id_len) = match self.bytes.as_slice() {
            [mode, id_len, ..] => (*mode, usize::from(*id_len)),
            _ => return Ok(None),
        };
        let is_psk = match (mode, id_len) {
            (0, 0) => false,
            (1, 1..=PSK_ID_LEN_MAX) => true,
            _ => return Err(Error::Unsealable),
        };
        if !self.take(2 + id_len + self.enc_len, input) {
            return Ok(None);
        }
        let (id, enc) = self.bytes.get(2..).and_then(|rest| rest.split_at_checked(id_len)).ok_or(Error::Unsealable)?;
        let id = core::str::from_utf8(id).ok().filter(|id| !is_psk || is_psk_id(id)).ok_or(Error::Unsealable)?;
        Ok(Some(Prefix { psk_id: is_psk.then(|| id.into()), enc: enc.to_vec() }))
    }

    /// Takes bytes until there are `len`, and returns whether there are.
    fn take(&mut self, len: usize, input: &mut &[u8]) -> bool {
        let missing = len.saturating_sub(self.bytes.len());
        let (part, rest) = input.split_at_checked(missing).unwrap_or((input, &[]));
        self.bytes.extend_from_slice(part);
        *input = rest;
        part.len() == missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], step: usize) -> Result<Option<(Prefix, usize)>, Error> {
        let mut reader = PrefixReader::new(Kem::X25519);
        let mut left = bytes.len();
        for chunk in bytes.chunks(step) {
            let mut input = chunk;
            let read = reader.read(&mut input)?;
            left -= chunk.len() - input.len();
            if let Some(prefix) = read {
                return Ok(Some((prefix, left)));
            }
            assert!(input.is_empty());
        }
        Ok(None)
    }

    #[test]
    fn a_prefix_comes_out_of_pieces_of_any_length() {
        for psk_id in [None, Some("k"), Some(&*"~".repeat(64))] {
            let prefix = Prefix { psk_id: psk_id.map(Into::into), enc: (0..32).collect() };
            let mut bytes = prefix.encode();
            let len = bytes.len();
            bytes.extend_from_slice(b"more");
            for step in 1..=bytes.len() {
                assert_eq!(read(&bytes, step), Ok(Some((prefix.clone(), 4))), "{step}");
            }
            for cut in 0..len {
                assert_eq!(read(&bytes[..cut], 7), Ok(None), "{cut}");
            }
        }
    }

    #[test]
    fn a_mode_without_its_name_and_a_name_without_its_mode_are_rejected() {
        let enc = [0; 32];
        let of = |head: &[u8], id: &[u8]| [head, id, &enc].concat();
        for bad in [
            of(&[2, 0], b""),
            of(&[255, 0], b""),
            of(&[0, 1], b"a"),
            of(&[1, 0], b""),
            of(&[1, 65], &[b'a'; 65]),
            of(&[1, 1], b" "),
            of(&[1, 1], &[0x7f]),
            of(&[1, 2], "\u{e9}".as_bytes()),
            of(&[1, 1], &[0xff]),
        ] {
            assert_eq!(read(&bad, 1000), Err(Error::Unsealable), "{bad:02x?}");
        }
    }
}
