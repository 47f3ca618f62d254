//! Header `Server-Timing` (W3C): the duration of each step of an answer.

use std::time::{Duration, Instant};

/// Measures the durations of the steps of one answer.
#[derive(Debug)]
pub struct ServerTiming {
    start: Instant,
    last: Instant,
    steps: Vec<(&'static str, Duration)>,
}

impl ServerTiming {
    /// Starts the measurement of an answer.
    pub fn start() -> Self {
        let now = Instant::now();
        ServerTiming { start: now, last: now, steps: Vec::with_capacity(8) }
    }

    /// Records the time since the last lap under a name. A step in several parts is one entry.
    pub fn lap(&mut self, name: &'static str) {
        let now = Instant::now();
        let took = now - self.last;
        self.last = now;
        match self.steps.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += took,
            None => self.steps.push((name, took)),
        }
    }

    /// Drops the time since the last lap: it belongs to no step.
    pub fn skip(&mut self) {
        self.last = Instant::now();
    }

    /// Drops every step: their names would reveal more than the answer may.
    pub fn forget_steps(&mut self) {
        self.steps.clear();
    }

    /// Returns the time since the start.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Returns the header's value: `name;dur=1.234, …, total;dur=2.345`, in milliseconds with three decimals.
    pub fn header(&self, total: Duration) -> String {
        let mut value = String::with_capacity(32 * (self.steps.len() + 1));
        for (name, took) in &self.steps {
            push(&mut value, name, *took);
            value.push_str(", ");
        }
        push(&mut value, "total", total);
        value
    }
}

fn push(value: &mut String, name: &str, took: Duration) {
    // Integers of 64 bits: formatting a float, or dividing 128 bits, costs more than some of the steps.
    let (ms, rest) = (took.as_secs() * 1000 + u64::from(took.subsec_millis()), took.subsec_micros() % 1000);
    value.push_str(name);
    value.push_str(";dur=");
    push_number(value, ms);
    value.push('.');
    for digit in [rest / 100, rest / 10 % 10, rest % 10] {
        value.push(char::from(b'0' + digit as u8));
    }
}

/// Appends a number in decimal, without an allocation of its own.
fn push_number(value: &mut String, number: u64) {
    if number >= 10 {
        push_number(value, number / 10);
    }
    value.push(char::from(b'0' + (number % 10) as u8));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_three_decimals_and_ends_in_total() {
        let mut value = String::new();
        push(&mut value, "hkdf", Duration::from_nanos(12_034_567));
        assert_eq!(value, "hkdf;dur=12.034");
        let mut timing = ServerTiming::start();
        timing.lap("replay-protection");
        timing.lap("session-get");
        timing.lap("replay-protection");
        let header = timing.header(timing.elapsed());
        let names: Vec<_> = header.split(", ").map(|part| part.split(';').next().unwrap()).collect();
        assert_eq!(names, ["replay-protection", "session-get", "total"]);
    }
}
