//! Incremental parser of a chunked body (RFC 9112, section 7.1).

use super::answer::malformed;
use crate::record::Failure;

/// Maximum length of a chunk extension, and of all trailers together, in bytes.
const LINE_LEN_MAX: usize = 16 * 1024;

/// Position in a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunks {
    /// In a size line: the size so far and its number of digits.
    Size(u64, usize),
    /// In an extension after the size: the size and the extension's length.
    Extension(u64, usize),
    /// At the LF after a size.
    SizeEnd(u64),
    /// In the data: the number of bytes left.
    Data(u64),
    /// At the CR after the data.
    DataEnd,
    /// At the LF after the data.
    DataLineEnd,
    /// In a trailer line: its length and that of all trailers.
    Trailer(usize, usize),
    /// At the LF of a trailer line: its length and that of all trailers.
    TrailerEnd(usize, usize),
    Whole,
}

impl Default for Chunks {
    fn default() -> Self {
        Chunks::Size(0, 0)
    }
}

impl Chunks {
    pub(super) fn is_whole(&self) -> bool {
        *self == Chunks::Whole
    }

    /// Parses bytes and passes those of the body to `body`. Returns the bytes after the body's end.
    pub(super) fn feed<'a>(
        &mut self,
        mut bytes: &'a [u8],
        body: &mut dyn FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<&'a [u8], Failure> {
        while let (Some(&byte), false) = (bytes.first(), self.is_whole()) {
            let mut taken = 1;
            if let Chunks::Data(left) = *self {
                taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                body(&bytes[..taken])?;
                let left = left - taken as u64;
                *self = if left == 0 { Chunks::DataEnd } else { Chunks::Data(left) };
            } else {
                *self = self.step(byte)?;
            }
            bytes = &bytes[taken..];
        }
        Ok(bytes)
    }

    fn step(self, byte: u8) -> Result<Chunks, Failure> {
        match (self, byte) {
            (Chunks::Size(size, digits), _) => match (char::from(byte).to_digit(16), byte) {
                (Some(digit), _) if digits < 15 => Ok(Chunks::Size(size * 16 + u64::from(digit), digits + 1)),
                (None, b'\r') if digits > 0 => Ok(Chunks::SizeEnd(size)),
                (None, b';' | b' ' | b'\t') if digits > 0 => Ok(Chunks::Extension(size, 0)),
                _ => Err(malformed("a chunk has no size")),
            },
            (Chunks::Extension(size, _), b'\r') => Ok(Chunks::SizeEnd(size)),
            (Chunks::Extension(size, len), _) if len < LINE_LEN_MAX && byte != b'\n' => {
                Ok(Chunks::Extension(size, len + 1))
            }
            (Chunks::SizeEnd(0), b'\n') => Ok(Chunks::Trailer(0, 0)),
            (Chunks::SizeEnd(size), b'\n') => Ok(Chunks::Data(size)),
            (Chunks::DataEnd, b'\r') => Ok(Chunks::DataLineEnd),
            (Chunks::DataLineEnd, b'\n') => Ok(Chunks::default()),
            (Chunks::Trailer(len, all), b'\r') => Ok(Chunks::TrailerEnd(len, all)),
            (Chunks::Trailer(len, all), _) if all < LINE_LEN_MAX && byte != b'\n' => {
                Ok(Chunks::Trailer(len + 1, all + 1))
            }
            (Chunks::TrailerEnd(0, _), b'\n') => Ok(Chunks::Whole),
            (Chunks::TrailerEnd(_, all), b'\n') => Ok(Chunks::Trailer(0, all)),
            _ => Err(malformed("a chunk is longer than its size")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunked_body_is_the_same_however_it_is_cut() {
        let wire = b"5;x=a\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\nX-Sum: 1\r\n\r\nafter";
        for cut in 0..wire.len() - 5 {
            let (mut chunks, mut body) = (Chunks::default(), Vec::new());
            let mut keep = |data: &[u8]| {
                body.extend_from_slice(data);
                Ok(())
            };
            assert!(chunks.feed(&wire[..cut], &mut keep).unwrap().is_empty());
            assert_eq!(chunks.feed(&wire[cut..], &mut keep).unwrap(), b"after", "cut at {cut}");
            assert_eq!((body.as_slice(), chunks), (&b"hello0123456789abcdef"[..], Chunks::Whole));
        }
    }

    #[test]
    fn a_chunk_that_breaks_the_rules_is_refused() {
        for wire in
            [&b"\r\n"[..], b"g\r\n", b"5\nhello", b"3\r\nhello\r\n", b"fffffffffffffffff\r\n", b"0\r\nX: 1\n\r\n"]
        {
            assert!(Chunks::default().feed(wire, &mut |_| Ok(())).is_err(), "{}", wire.escape_ascii());
        }
    }
}
