//! The last lines of the log, kept in memory for observers of a running process.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Most lines that are kept.
const LINES_MAX: usize = 2000;
/// Most bytes that are kept, over all lines.
const BYTES_MAX: usize = 2 * 1024 * 1024;
/// Longest line, in bytes; a longer one is cut.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// A line and its number; numbers rise by one.
pub type Line = (u64, Arc<str>);

/// The last lines, in the configured format.
#[derive(Debug, Default)]
pub struct LogTail {
    kept: Mutex<Tail>,
    more: Notify,
}

#[derive(Debug, Default)]
struct Tail {
    lines: VecDeque<Arc<str>>,
    bytes: usize,
    /// Number of lines since the start.
    count: u64,
}

/// Returns the log of this process.
pub fn log_tail() -> &'static LogTail {
    static TAIL: LazyLock<LogTail> = LazyLock::new(LogTail::default);
    &TAIL
}

impl LogTail {
    /// Returns the kept lines numbered `from` and up, and the number of the next line.
    pub fn since(&self, from: u64) -> (Vec<Line>, u64) {
        let kept = self.kept.lock();
        let first = kept.count - kept.lines.len() as u64;
        let skip = usize::try_from(from.saturating_sub(first)).unwrap_or(usize::MAX);
        let lines = kept.lines.iter().enumerate().skip(skip);
        (lines.map(|(index, line)| (first + index as u64, line.clone())).collect(), kept.count)
    }

    /// Resolves when a line has been added since the last call.
    pub async fn more(&self) {
        self.more.notified().await;
    }

    fn push(&self, text: &str) {
        let mut kept = self.kept.lock();
        for line in text.lines().filter(|line| !line.is_empty()) {
            let line: Arc<str> = without_colours(&line[..line.floor_char_boundary(LINE_BYTES_MAX)]).into();
            kept.bytes += line.len();
            kept.lines.push_back(line);
            kept.count += 1;
        }
        while kept.lines.len() > LINES_MAX || kept.bytes > BYTES_MAX {
            let Some(oldest) = kept.lines.pop_front() else { break };
            kept.bytes -= oldest.len();
        }
        drop(kept);
        self.more.notify_waiters();
    }
}

/// Removes the escapes that colour a line on a terminal, and every other control character.
fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            // ESC [ parameters letter
            let _ = characters.by_ref().find(char::is_ascii_alphabetic);
        } else if !character.is_control() || character == '\t' {
            plain.push(character);
        }
    }
    plain
}

/// A writer to standard error and to the tail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tee;

impl Write for Tee {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        log_tail().push(&String::from_utf8_lossy(bytes));
        io::stderr().write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_within_bounds_and_numbered() {
        let tail = LogTail::default();
        assert_eq!(tail.since(0), (Vec::new(), 0));
        tail.push("one\ntwo\n");
        tail.push("\u{1b}[2m\u{1b}[32m INFO\u{1b}[0m three\u{7}\n");
        let (lines, next) = tail.since(1);
        assert_eq!(lines, [(1, Arc::from("two")), (2, Arc::from(" INFO three"))]);
        assert_eq!((next, tail.since(3).0.len(), tail.since(99).0.len()), (3, 0, 0));
        for _ in 0..LINES_MAX {
            tail.push("x\n");
        }
        let (lines, next) = tail.since(0);
        assert_eq!((lines.len(), lines[0].0, next), (LINES_MAX, 3, 2003));
        for _ in 0..200 {
            tail.push(&"\u{e9}".repeat(LINE_BYTES_MAX));
        }
        let bytes: usize = tail.since(0).0.iter().map(|(_, line)| line.len()).sum();
        assert!(bytes <= BYTES_MAX && bytes > BYTES_MAX - LINE_BYTES_MAX, "{bytes}");
    }
}
