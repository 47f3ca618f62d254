//! The trace context of a call, as a value: the client depends on no tracing library.

use std::fmt;

/// A W3C `traceparent` of version 00.
///
/// ```
/// use sealway_client::broker::TraceParent;
/// let parent = TraceParent::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").unwrap();
/// assert_eq!(parent, TraceParent::new(0x0af7651916cd43dd8448eb211c80319c, 0xb7ad6b7169203331, true).unwrap());
/// assert!(TraceParent::parse("00-0-0-01").is_none());
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    trace: u128,
    span: u64,
    flags: u8,
}

impl TraceParent {
    /// Creates the context of this trace and span; `None` if either is 0.
    pub fn new(trace: u128, span: u64, is_sampled: bool) -> Option<Self> {
        (trace != 0 && span != 0).then_some(TraceParent { trace, span, flags: u8::from(is_sampled) })
    }

    /// Parses `00-TRACE-SPAN-FLAGS` in lower-case hexadecimal; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let is_hex = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let mut parts = text.split('-');
        let mut part = |len: usize| parts.next().filter(|part| part.len() == len && is_hex(part));
        if part(2)? != "00" {
            return None;
        }
        let trace = u128::from_str_radix(part(32)?, 16).ok()?;
        let span = u64::from_str_radix(part(16)?, 16).ok()?;
        let flags = u8::from_str_radix(part(2)?, 16).ok()?;
        let is_whole = parts.next().is_none() && trace != 0 && span != 0;
        is_whole.then_some(TraceParent { trace, span, flags })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

impl fmt::Debug for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_parent_round_trips_and_malformed_ones_are_rejected() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
        assert_eq!(TraceParent::parse(text).unwrap().to_string(), text);
        for wrong in [
            "",
            "01-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
            "00-0AF7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01-x",
            "00-+af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
            "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7",
        ] {
            assert_eq!(TraceParent::parse(wrong), None, "{wrong}");
        }
    }
}
