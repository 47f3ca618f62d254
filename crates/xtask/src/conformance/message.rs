//! Messages of drivers, and the changes to them.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

/// A sealed message: `headers` and `body_hex` as on the wire, and the members that send it.
#[derive(Clone)]
pub(super) struct Message(pub(super) Value);

impl Message {
    /// Creates a request from its sealed parts and its line.
    pub(super) fn request(sealed: &Value, method: &str, target: &str, now_ms: u64) -> Self {
        Message(json!({
            "method": method, "target": target, "headers": sealed["headers"], "body_hex": sealed["body_hex"], "now_ms": now_ms,
        }))
    }

    /// Returns it with the member that names its receiver.
    pub(super) fn to(&self, name: &str, value: &Value) -> Value {
        let mut members = self.0.clone();
        members[name] = value.clone();
        members
    }

    pub(super) fn with(&self, name: &str, value: impl Into<Value>) -> Self {
        let mut changed = self.clone();
        changed.0[name] = value.into();
        changed
    }

    pub(super) fn headers(&self) -> Vec<(String, String)> {
        let pairs = self.0["headers"].as_array().into_iter().flatten();
        pairs
            .map(|pair| {
                (pair[0].as_str().unwrap_or_default().to_owned(), pair[1].as_str().unwrap_or_default().to_owned())
            })
            .collect()
    }

    /// Returns the bytes of the body.
    pub(super) fn body(&self) -> anyhow::Result<Vec<u8>> {
        let digits = self.0["body_hex"].as_str().context("no body")?;
        let byte = |at: usize| digits.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
        (0..digits.len()).step_by(2).map(byte).collect::<Option<_>>().context("the body is not hexadecimal")
    }

    fn with_headers(&self, headers: Vec<(String, String)>) -> Self {
        let pairs: Vec<Value> = headers.into_iter().map(|(name, value)| json!([name, value])).collect();
        self.with("headers", pairs)
    }

    /// Returns the names of the headers, as sent.
    pub(super) fn names(&self) -> Vec<String> {
        self.headers().into_iter().map(|(name, _)| name).collect()
    }

    pub(super) fn header(&self, name: &str) -> Option<String> {
        self.headers().into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(super) fn without(&self, name: &str) -> Self {
        self.with_headers(self.headers().into_iter().filter(|(known, _)| !known.eq_ignore_ascii_case(name)).collect())
    }

    pub(super) fn twice(&self, name: &str) -> anyhow::Result<Self> {
        let mut headers = self.headers();
        let value = self.header(name).with_context(|| format!("no {name}"))?;
        headers.push((name.to_owned(), value));
        Ok(self.with_headers(headers))
    }

    pub(super) fn replaced(&self, name: &str, value: &str) -> Self {
        let headers = self.headers().into_iter();
        let replaced = headers.map(|(known, old)| {
            let value = if known.eq_ignore_ascii_case(name) { value.to_owned() } else { old };
            (known, value)
        });
        self.with_headers(replaced.collect())
    }

    /// Changes the sealed bytes: the body, or the header in base64 that contains them, whose text is changed instead.
    pub(super) fn bytes_changed(&self, change: Change) -> anyhow::Result<Self> {
        let body = self.0["body_hex"].as_str().unwrap_or_default();
        if !body.is_empty() {
            return Ok(self.with("body_hex", change.hex(body)?));
        }
        let name = "X-Sealed";
        let value = self.header(name).context("neither a body nor X-Sealed")?;
        Ok(self.replaced(name, &change.base64(&value)?))
    }
}

/// A change of sealed bytes in transit.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    FirstByte,
    LastByte,
    Shorter,
    Longer,
    Nothing,
    /// The first two frames stand in the other order.
    Swapped,
    /// The last frame is missing.
    Cut,
}

/// Hexadecimal digits of the commit, with which a stream of frames begins.
const COMMIT: usize = 32;

/// Returns where the frames of a stream begin, and where the last ends, in hexadecimal digits.
fn frames(text: &str) -> anyhow::Result<Vec<usize>> {
    let (mut at, mut starts) = (COMMIT, vec![COMMIT]);
    while at < text.len() {
        let head = text.get(at..at + 8).context("a frame without a length")?;
        // The first bit marks the last frame.
        let len = u32::from_str_radix(head, 16)? & 0x7fff_ffff;
        at += 8 + 2 * usize::try_from(len)?;
        starts.push(at);
    }
    ensure!(at == text.len() && starts.len() > 2, "a stream of {} frames, of {} digits", starts.len() - 1, text.len());
    Ok(starts)
}

impl Change {
    fn hex(self, text: &str) -> anyhow::Result<String> {
        ensure!(text.len() >= 4 && text.is_ascii(), "too short to change");
        let flip = |digit: char| if digit == '0' { '1' } else { '0' };
        let mut digits: Vec<char> = text.chars().collect();
        let last = digits.len() - 1;
        match self {
            Change::FirstByte => digits[0] = flip(digits[0]),
            Change::LastByte => digits[last] = flip(digits[last]),
            Change::Shorter => digits.truncate(last - 1),
            Change::Longer => digits.extend(['0', '0']),
            Change::Nothing => digits.clear(),
            Change::Swapped => {
                let starts = frames(text)?;
                digits[starts[0]..starts[2]].rotate_left(starts[1] - starts[0]);
            }
            Change::Cut => {
                let starts = frames(text)?;
                digits.truncate(starts[starts.len() - 2]);
            }
        }
        Ok(digits.into_iter().collect())
    }

    /// Changes whole groups of four characters, so that the text stays canonical base64.
    fn base64(self, text: &str) -> anyhow::Result<String> {
        ensure!(text.len() >= 16 && text.is_ascii(), "too short to change");
        let flip = |letter: &str| if letter == "A" { "B" } else { "A" };
        // The group before the last has no padding.
        let at = text.len() - 8;
        Ok(match self {
            Change::FirstByte => format!("{}{}", flip(&text[..1]), &text[1..]),
            Change::LastByte => format!("{}{}{}", &text[..at], flip(&text[at..=at]), &text[at + 1..]),
            Change::Shorter => text[4..].to_owned(),
            Change::Longer => format!("AAAA{text}"),
            Change::Nothing => String::new(),
            Change::Swapped | Change::Cut => anyhow::bail!("a stream in a header is one frame"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_changes() {
        for change in [Change::FirstByte, Change::LastByte, Change::Shorter, Change::Longer, Change::Nothing] {
            assert_ne!(change.hex("00ff00ff").unwrap(), "00ff00ff", "{change:?}");
            assert_ne!(change.base64("QUJDREVGR0hJSktMTU4=").unwrap(), "QUJDREVGR0hJSktMTU4=", "{change:?}");
        }
        let stream = format!("{}00000002aaaa00000001bb80000001cc", "0".repeat(COMMIT));
        assert!(Change::Swapped.hex(&stream).unwrap().ends_with("000000001bb00000002aaaa80000001cc"));
        assert!(Change::Cut.hex(&stream).unwrap().ends_with("aaaa00000001bb"));
        assert!(Change::Cut.hex(&stream[..stream.len() - 2]).is_err());
        let message = Message(json!({"headers": [["X-Kid", "a"], ["X-Seal", "3"]], "body_hex": "00ff00ff"}));
        assert_eq!(message.without("x-kid").names(), ["X-Seal"]);
        assert_eq!(message.twice("X-Kid").unwrap().names(), ["X-Kid", "X-Seal", "X-Kid"]);
        assert_eq!(message.replaced("x-seal", "2").header("X-SEAL").unwrap(), "2");
    }
}
