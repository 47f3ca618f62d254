//! The summary of a load, as a table and with the assertions of tests.

use std::fmt;
use std::time::Duration;

/// The counts of a load over a time.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The time that the counts cover.
    pub time: Duration,
    /// Sessions that a gateway acknowledged.
    pub inits: u64,
    /// Purchases whose answer opened and was right.
    pub purchases: u64,
    /// Captured requests that were answered again.
    pub replays: u64,
    /// Replays that were accepted for the first time: their first answer was lost or a 5xx.
    pub late_firsts: u64,
    /// Answers of 5xx with `Retry-After`, to clients and replayers.
    pub unavailable: u64,
    /// Fresh requests that were rejected with a 400.
    pub refused: u64,
    /// Connections that the gateway refused.
    pub not_connected: u64,
    /// Connections that failed before the answer was complete.
    pub broken: u64,
    /// The slowest answer, in milliseconds, since the load began.
    pub slowest_ms: u64,
    /// The slowest 5xx, in milliseconds, since the load began.
    pub slowest_refusal_ms: u64,
    /// The violations, a sentence each; the first fifty since the load began.
    pub wrong: Vec<String>,
}

impl Summary {
    /// Returns the counts since `before`.
    pub fn since(&self, before: &Summary) -> Summary {
        Summary {
            time: self.time.saturating_sub(before.time),
            inits: self.inits - before.inits,
            purchases: self.purchases - before.purchases,
            replays: self.replays - before.replays,
            late_firsts: self.late_firsts - before.late_firsts,
            unavailable: self.unavailable - before.unavailable,
            refused: self.refused - before.refused,
            not_connected: self.not_connected - before.not_connected,
            broken: self.broken - before.broken,
            ..self.clone()
        }
    }

    /// Prints the table, and asserts that there is no violation, and at least this number of purchases.
    ///
    /// # Panics
    /// An assertion does not hold.
    #[expect(clippy::print_stdout, reason = "the table is the record of a test that passes")]
    pub fn assert_right(&self, what: &str, purchases_min: u64) {
        println!("{what}\n{self}");
        assert!(self.wrong.is_empty(), "{what}: {} wrong answers:\n{}", self.wrong.len(), self.wrong.join("\n"));
        assert!(self.purchases >= purchases_min, "{what}: too little good work, {purchases_min} expected:\n{self}");
    }

    /// Asserts, for a time without faults, that all answers are good.
    ///
    /// # Panics
    /// An assertion does not hold.
    pub fn assert_calm(&self, what: &str, purchases_min: u64) {
        self.assert_right(what, purchases_min);
        let troubles = self.unavailable + self.refused + self.not_connected + self.broken;
        assert_eq!(troubles, 0, "{what}: all was up, and yet:\n{self}");
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.time.as_secs_f64();
        writeln!(f, "  {:<34}{seconds:>9.1}", "seconds")?;
        for (name, value) in [
            ("sessions acknowledged", self.inits),
            ("purchases answered rightly", self.purchases),
            ("captured requests sent again", self.replays),
            ("  accepted for the first time", self.late_firsts),
            ("5xx with Retry-After", self.unavailable),
            ("fresh requests refused with 400", self.refused),
            ("connections refused", self.not_connected),
            ("connections broken", self.broken),
            ("slowest answer, ms", self.slowest_ms),
            ("slowest 5xx, ms", self.slowest_refusal_ms),
        ] {
            writeln!(f, "  {name:<34}{value:>9}")?;
        }
        write!(f, "  {:<34}{:>9}", "wrong", self.wrong.len())
    }
}
