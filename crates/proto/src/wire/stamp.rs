//! Timestamps, the window around the server's clock, and the lifetime of nonces.

use crate::error::Error;
use crate::limits::{TIMESTAMP_DIGITS_MAX, WINDOW_MS_DEFAULT};

/// A timestamp as sent: decimal digits, milliseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp<'a> {
    text: &'a str,
    ms: u64,
}

impl<'a> Timestamp<'a> {
    /// Checks the form: 1 to 15 decimal digits.
    ///
    /// # Errors
    /// [`Error::TimestampInvalid`].
    pub fn parse(text: &'a str) -> Result<Self, Error> {
        if text.is_empty() || text.len() > TIMESTAMP_DIGITS_MAX || !text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(Error::TimestampInvalid);
        }
        let ms = text.parse().map_err(|_| Error::TimestampInvalid)?;
        Ok(Timestamp { text, ms })
    }

    /// Returns the text as sent; the AAD contains this text.
    pub fn as_str(&self) -> &'a str {
        self.text
    }

    /// Returns the time in milliseconds since the epoch.
    pub fn ms(&self) -> u64 {
        self.ms
    }
}

/// The accepted difference of stamps from the clock, and the lifetime of nonces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayPolicy {
    window_ms: u64,
    nonce_ttl_ms: u64,
}

impl ReplayPolicy {
    /// Creates a policy. A stamp is accepted up to and including `window_ms` from the clock, either way. A nonce is kept for
    /// `nonce_ttl_ms`, raised to twice the window: one stamped at the future edge stays acceptable that long.
    // SPEC session.md#nonce-lifetime
    pub fn new(window_ms: u64, nonce_ttl_ms: u64) -> Self {
        ReplayPolicy { window_ms, nonce_ttl_ms: nonce_ttl_ms.max(window_ms.saturating_mul(2)) }
    }

    /// Returns the window, in milliseconds either way.
    pub fn window_ms(&self) -> u64 {
        self.window_ms
    }

    /// Returns the lifetime of a nonce, in milliseconds.
    pub fn nonce_ttl_ms(&self) -> u64 {
        self.nonce_ttl_ms
    }

    /// Returns the same policy with a window of `window_ms_max` at most. The lifetime of nonces stays.
    #[must_use]
    pub fn within(&self, window_ms_max: u64) -> Self {
        ReplayPolicy { window_ms: self.window_ms.min(window_ms_max), ..*self }
    }

    /// Checks a stamp against the clock.
    ///
    /// # Errors
    /// [`Error::TimestampOutsideWindow`].
    pub fn check(&self, stamp: &Timestamp<'_>, now_ms: u64) -> Result<(), Error> {
        self.check_ms(stamp.ms, now_ms)
    }

    /// Checks a stamp in milliseconds since the epoch against the clock.
    ///
    /// # Errors
    /// [`Error::TimestampOutsideWindow`].
    pub fn check_ms(&self, stamp_ms: u64, now_ms: u64) -> Result<(), Error> {
        if stamp_ms.abs_diff(now_ms) <= self.window_ms { Ok(()) } else { Err(Error::TimestampOutsideWindow) }
    }
}

impl Default for ReplayPolicy {
    fn default() -> Self {
        ReplayPolicy::new(WINDOW_MS_DEFAULT, 2 * WINDOW_MS_DEFAULT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_has_1_to_15_digits() {
        for (text, ms) in [("0", 0), ("007", 7), ("999999999999999", 999_999_999_999_999)] {
            let stamp = Timestamp::parse(text).unwrap();
            assert_eq!((stamp.as_str(), stamp.ms()), (text, ms));
        }
        for text in ["", "1000000000000000", "-1", "+1", "1.0", " 1", "1a"] {
            assert_eq!(Timestamp::parse(text), Err(Error::TimestampInvalid), "{text}");
        }
    }

    #[test]
    fn a_window_includes_both_its_edges_and_a_nonce_outlives_it() {
        let policy = ReplayPolicy::new(300, 100);
        assert_eq!((policy.window_ms(), policy.nonce_ttl_ms()), (300, 600));
        assert_eq!(ReplayPolicy::new(300, 601).nonce_ttl_ms(), 601);
        for (stamp, is_within) in [("699", false), ("700", true), ("1300", true), ("1301", false)] {
            let checked = policy.check(&Timestamp::parse(stamp).unwrap(), 1_000);
            assert_eq!(checked.is_ok(), is_within, "{stamp}");
        }
        let narrow = policy.within(200);
        assert_eq!((narrow.window_ms(), narrow.nonce_ttl_ms()), (200, 600));
        assert_eq!(policy.within(400), policy);
        let default = ReplayPolicy::default();
        assert_eq!((default.window_ms(), default.nonce_ttl_ms()), (WINDOW_MS_DEFAULT, 2 * WINDOW_MS_DEFAULT));
    }
}
