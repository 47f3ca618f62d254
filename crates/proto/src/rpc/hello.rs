//! The prologue of a stream: its kind, and the version of the kind. SPEC rpc.md#prologue

use alloc::string::String;
use alloc::vec::Vec;

use serde_json::{Map, Value};

use super::{FrameError, HELLO_LEN_MAX, frame};

/// Longest name of a kind, in bytes.
pub const KIND_LEN_MAX: usize = 64;

/// The first frame of a stream, which the opener sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The kind of the stream: `rpc`, `tcp`, or a name that both ends know; 1 to 64 bytes of visible ASCII.
    pub kind: String,
    /// The version of the kind, by default 1.
    pub version: u32,
}

impl Hello {
    /// The kind of streams that carry remote calls.
    pub const RPC: &'static str = "rpc";

    /// Creates the prologue for version 1 of `kind`.
    ///
    /// # Errors
    /// [`FrameError::Field`] if `kind` is empty, longer than 64 bytes or not visible ASCII.
    pub fn new(kind: &str) -> Result<Self, FrameError> {
        if kind.is_empty() || kind.len() > KIND_LEN_MAX || !kind.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(FrameError::Field("kind"));
        }
        Ok(Hello { kind: kind.into(), version: 1 })
    }

    /// Parses the JSON of the frame. Unknown members are ignored.
    ///
    /// # Errors
    /// [`FrameError`].
    pub fn parse(json: &[u8]) -> Result<Self, FrameError> {
        let value: Value = serde_json::from_slice(json).map_err(|_| FrameError::NotJson)?;
        let members = value.as_object().ok_or(FrameError::NotJson)?;
        let kind = members.get("kind").and_then(Value::as_str).ok_or(FrameError::Field("kind"))?;
        let version = members.get("v").and_then(Value::as_u64).and_then(|version| u32::try_from(version).ok());
        let version = version.filter(|version| *version > 0).ok_or(FrameError::Field("v"))?;
        Ok(Hello { version, ..Hello::new(kind)? })
    }

    /// Appends the whole frame, with its length.
    ///
    /// # Errors
    /// None for a value from [`Hello::new`] or [`Hello::parse`].
    pub fn append(&self, out: &mut Vec<u8>) -> Result<(), FrameError> {
        let mut members = Map::new();
        members.insert("kind".into(), Value::from(self.kind.as_str()));
        members.insert("v".into(), Value::from(self.version));
        let text = serde_json::to_vec(&members).map_err(|_| FrameError::NotJson)?;
        frame::append(out, HELLO_LEN_MAX, |out| out.extend_from_slice(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prologue_of_remote_calls_has_its_bytes() {
        let mut out = Vec::new();
        Hello::new(Hello::RPC).unwrap().append(&mut out).unwrap();
        assert_eq!(out, b"\0\0\0\x14{\"kind\":\"rpc\",\"v\":1}");
        assert_eq!(Hello::parse(&out[4..]).unwrap(), Hello::new("rpc").unwrap());
    }

    #[test]
    fn malformed_prologues_are_rejected_with_the_member_at_fault() {
        for (text, fault) in [
            ("", FrameError::NotJson),
            ("[]", FrameError::NotJson),
            ("{}", FrameError::Field("kind")),
            (r#"{"kind":7,"v":1}"#, FrameError::Field("kind")),
            (r#"{"kind":"","v":1}"#, FrameError::Field("kind")),
            ("{\"kind\":\"a b\",\"v\":1}", FrameError::Field("kind")),
            (r#"{"kind":"rpc"}"#, FrameError::Field("v")),
            (r#"{"kind":"rpc","v":0}"#, FrameError::Field("v")),
            (r#"{"kind":"rpc","v":4294967296}"#, FrameError::Field("v")),
        ] {
            assert_eq!(Hello::parse(text.as_bytes()), Err(fault), "{text}");
        }
    }
}
