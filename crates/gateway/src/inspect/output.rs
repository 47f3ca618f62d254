//! Output of opened messages: lines with the number of their exchange and a direction, bounded for each message. A
//! peer's text never reaches a terminal as a control character.

use std::fmt::Write as _;
use std::io::Write;
use std::sync::Arc;

use parking_lot::Mutex;
use sealway_proto::session::native::InnerHeaders;

/// Maximum number of bytes of a body that are shown.
pub(super) const BODY_SHOWN_MAX: usize = 16 * 1024;
/// Maximum number of bytes of binary data that are shown.
const HEX_MAX: usize = 32;
/// Length of the longest character without its last byte: the most that one piece leaves for the next.
const CHAR_REST_MAX: usize = 3;

/// Output of lines; those of one message are never interrupted by another's.
#[derive(Clone)]
pub(super) struct Out(Arc<Mutex<Box<dyn Write + Send>>>);

impl Out {
    pub(super) fn new(out: Box<dyn Write + Send>) -> Self {
        Out(Arc::new(Mutex::new(out)))
    }

    fn write(&self, lines: &str) {
        let mut out = self.0.lock();
        // Traffic goes on even if nothing reads the output.
        let _ = out.write_all(lines.as_bytes()).and_then(|()| out.flush());
    }
}

/// Output of one message.
pub(super) struct MessageOutput {
    out: Out,
    /// Prefix of each line.
    mark: String,
    /// Length of the body so far, in bytes.
    len: usize,
    /// Incomplete character at the end of the last piece.
    rest: Vec<u8>,
}

impl MessageOutput {
    pub(super) fn new(out: Out, mark: String) -> Self {
        MessageOutput { out, mark, len: 0, rest: Vec::new() }
    }

    /// Writes a line about the message.
    pub(super) fn line(&self, text: &str) {
        self.out.write(&format!("{} {text}\n", self.mark));
    }

    /// Writes the headers within the seal.
    pub(super) fn headers(&self, headers: &InnerHeaders) {
        let mut lines = String::new();
        for (name, value) in headers.iter() {
            // Writing to a String cannot fail.
            let _ = writeln!(lines, "{} {name}: {}", self.mark, plain(&String::from_utf8_lossy(value)));
        }
        self.out.write(&lines);
    }

    /// Writes the next piece of the body; `is_last` marks the final one.
    pub(super) fn body(&mut self, piece: &[u8], is_last: bool) {
        let left = BODY_SHOWN_MAX.saturating_sub(self.len);
        self.len = self.len.saturating_add(piece.len());
        if left == 0 || (piece.is_empty() && self.rest.is_empty()) {
            return;
        }
        let is_cut = piece.len() > left;
        let mut bytes = std::mem::take(&mut self.rest);
        bytes.extend_from_slice(piece.get(..left).unwrap_or(piece));
        let mut lines = String::new();
        match text(&bytes) {
            Some((shown, rest)) if !is_last || is_cut || rest.is_empty() => {
                self.rest = rest.to_vec();
                for line in shown.lines() {
                    let _ = writeln!(lines, "{} | {}", self.mark, plain(line));
                }
            }
            _ => {
                let _ = write!(lines, "{} {} bytes: ", self.mark, bytes.len());
                for byte in bytes.iter().take(HEX_MAX) {
                    let _ = write!(lines, "{byte:02x}");
                }
                lines.push_str(if bytes.len() > HEX_MAX { "…\n" } else { "\n" });
            }
        }
        if is_cut {
            self.rest.clear();
            let _ = writeln!(lines, "{} … cut here: more than {BODY_SHOWN_MAX} bytes are not shown", self.mark);
        }
        self.out.write(&lines);
    }

    /// Writes the end of a complete message.
    pub(super) fn end(&self, frames: u64) {
        self.line(&format!("end: a body of {} bytes, frames: {frames}", self.len));
    }
}

/// Splits bytes into text and an incomplete character at its end; `None` if they are no text.
fn text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (text, rest) = match str::from_utf8(bytes) {
        Ok(text) => (text, &[][..]),
        Err(err) if err.error_len().is_some() => return None,
        Err(err) => {
            let (text, rest) = bytes.split_at_checked(err.valid_up_to())?;
            (str::from_utf8(text).ok()?, rest)
        }
    };
    let is_text = text.chars().all(|char| !char.is_control() || matches!(char, '\n' | '\r' | '\t'));
    (is_text && rest.len() <= CHAR_REST_MAX).then_some((text, rest))
}

/// Escapes characters that control a terminal.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        // Characters that change the writing direction could hide text too.
        let turns = matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if (char.is_control() && char != '\t') || turns {
            out.extend(char.escape_unicode());
        } else {
            out.push(char);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn shown(pieces: &[&[u8]]) -> String {
        let kept = Buffer::default();
        let mut shown = MessageOutput::new(Out::new(Box::new(kept.clone())), "#1 >".into());
        for (at, piece) in pieces.iter().enumerate() {
            shown.body(piece, at + 1 == pieces.len());
        }
        shown.end(pieces.len() as u64);
        let bytes = kept.0.lock().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn text_is_shown_as_text_wherever_its_characters_are_cut() {
        let (whole, euro) = ("a €", "€".as_bytes());
        assert!(shown(&[whole.as_bytes()]).starts_with("#1 > | a €\n#1 > end: a body of 5 bytes"));
        assert_eq!(shown(&[&euro[..1], &euro[1..]]), "#1 > | €\n#1 > end: a body of 3 bytes, frames: 2\n");
        assert_eq!(shown(&[b"a\nb", b""]), "#1 > | a\n#1 > | b\n#1 > end: a body of 3 bytes, frames: 2\n");
    }

    #[test]
    fn binary_bodies_are_shown_by_length_and_first_bytes() {
        assert!(shown(&[&[0xff; 100]]).starts_with(&format!("#1 > 100 bytes: {}…\n", "ff".repeat(32))));
        assert!(shown(&[b"\x1b[2J"]).starts_with("#1 > 4 bytes: 1b5b324a\n"), "a terminal gets no control character");
        assert!(shown(&["\u{9b}2J".as_bytes()]).starts_with("#1 > 4 bytes: c29b324a\n"));
        assert!(shown(&[&"€".as_bytes()[..1]]).starts_with("#1 > 1 bytes: e2\n"), "an end that is none");
        assert_eq!(plain("a\x1b\u{202e}\r"), "a\\u{1b}\\u{202e}\\u{d}");
    }

    #[test]
    fn a_body_is_cut_at_its_bound_and_counted_to_its_end() {
        let piece = vec![b'x'; 10_000];
        let said = shown(&[&piece, &piece, &piece]);
        assert_eq!(said.matches('x').count(), BODY_SHOWN_MAX);
        assert!(said.contains("cut here") && said.ends_with("a body of 30000 bytes, frames: 3\n"));
        assert_eq!(said.matches("cut here").count(), 1);
    }
}
