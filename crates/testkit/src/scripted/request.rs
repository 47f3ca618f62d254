//! Requests, parsed as simply as a server of tests may: it trusts its clients.

use tokio::io::{AsyncRead, AsyncReadExt};

/// Longest head of a request, in bytes.
const HEAD_MAX: usize = 64 * 1024;

/// Input that is not yet consumed.
#[derive(Debug, Default)]
pub(super) struct Input {
    bytes: Vec<u8>,
    /// Offset up to which no head ends.
    looked_at: usize,
}

/// The head of a request.
#[derive(Debug)]
pub(super) struct Head {
    /// Length of the body, in bytes.
    pub(super) body_len: usize,
    /// Set if the connection ends with the answer.
    pub(super) closes: bool,
    /// Set if the request is recorded.
    pub(super) counts: bool,
}

impl Input {
    /// Reads more from the stream; returns the number of bytes. 0 is its end.
    pub(super) async fn more(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<usize> {
        stream.read_buf(&mut self.bytes).await
    }

    /// Returns the next head, if it is whole.
    pub(super) fn head(&mut self) -> Option<Head> {
        let from = self.looked_at.saturating_sub(3);
        let Some(end) = self.bytes[from..].windows(4).position(|four| four == b"\r\n\r\n") else {
            self.looked_at = self.bytes.len();
            return None;
        };
        let text = String::from_utf8_lossy(&self.bytes[..from + end]).to_ascii_lowercase();
        let value = |name: &str| {
            let mut lines = text.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
            lines.find(|(found, _)| *found == name).map(|(_, value)| value.trim().to_owned())
        };
        let head = Head {
            body_len: value("content-length").and_then(|len| len.parse().ok()).unwrap_or_default(),
            closes: value("connection").is_some_and(|value| value == "close"),
            counts: !text.split(' ').nth(1).is_some_and(|path| path.starts_with("/warm")),
        };
        self.bytes.drain(..from + end + 4);
        self.looked_at = 0;
        Some(head)
    }

    /// Returns whether the input is longer than a head may be.
    pub(super) fn is_too_much(&self) -> bool {
        self.looked_at > HEAD_MAX
    }

    /// Returns the body of this length, if it is whole.
    pub(super) fn body(&mut self, len: usize) -> Option<Vec<u8>> {
        (self.bytes.len() >= len).then(|| self.bytes.drain(..len).collect())
    }
}
