//! The published figures of the replaced broker compared with those of Sealway's broker, and the goals of Sealway's broker.

use super::Figures;
use super::cases::{BATCH, ECHO, HASH, HASH_OPEN, HEALTH, IN_FLIGHT, PING, Row};
use crate::table::verdict;

/// A line of the report: the indicator, its goal, the measured figure, and the verdict.
pub(super) struct Line {
    pub(super) what: String,
    pub(super) goal: String,
    pub(super) figure: String,
    pub(super) verdict: &'static str,
}

fn line(what: impl Into<String>, goal: impl Into<String>, figure: String, verdict: &'static str) -> Line {
    Line { what: what.into(), goal: goal.into(), figure, verdict }
}

impl Figures {
    /// Returns the row with this name, number of calls in flight and number of inputs.
    pub(super) fn row(&self, name: &str, in_flight: usize, inputs: usize) -> anyhow::Result<&Row> {
        let is_it = |row: &&Row| row.name == name && row.in_flight == in_flight && row.inputs == inputs;
        self.rows.iter().find(is_it).ok_or_else(|| anyhow::anyhow!("no row {name}"))
    }

    /// Returns the indicators that the old broker publishes.
    pub(super) fn old(&self) -> anyhow::Result<Vec<Line>> {
        let mut lines = Vec::new();
        let certificate = "sign certificate P-384";
        for (what, name, most_us, least_rate) in [
            ("hash", HASH_OPEN, 125.0, 8_000.0),
            ("health", HEALTH, 125.0, 8_000.0),
            ("sign", certificate, 1_400.0, 750.0),
        ] {
            let row = self.row(name, 1, 1)?;
            let us = format!("{:.0} µs", row.p50_us);
            lines.push(line(
                format!("{what}: latency"),
                format!("< {most_us:.0} µs"),
                us,
                verdict(row.p50_us, most_us),
            ));
            let rate = format!("{:.0}/s", row.rate);
            let reached = verdict(least_rate, row.rate);
            lines.push(line(format!("{what}: one after another"), format!("> {least_rate:.0}/s"), rate, reached));
        }
        for (what, name) in [("hash", HASH_OPEN), ("health", HEALTH), ("sign", certificate)] {
            let (one, many) = (self.row(name, 1, 1)?, self.row(name, IN_FLIGHT, 1)?);
            let gain = format!("{:.2} x ({:.0}/s)", many.rate / one.rate, many.rate);
            lines.push(line(format!("{what}: gain of {IN_FLIGHT} at a time"), "told", gain, ""));
        }
        let grown = self.ours.after_calls.saturating_sub(self.ours.started) as f64 / super::CALLS as f64;
        let figure = format!("{grown:.3} KiB of resident memory");
        lines.push(line("memory an operation", "< 35 KB allocated", figure, verdict(grown, 35.0)));
        lines.push(line("start until it listens", "told", format!("{:.1} ms", self.starts_ms), ""));
        lines.push(match &self.fips {
            None => line("FIPS against plain", "told", "not built here: --fips PATH".into(), ""),
            Some(rows) => {
                let cpu =
                    |name: &str| rows.iter().find(|row| row.name == name && row.inputs == 1).map(|row| row.cpu_us);
                let ratio = |name: &str| Some(cpu(name)? / self.row(name, 1, 1).ok()?.cpu_us);
                let told = |name: &str| ratio(name).map_or_else(|| "?".into(), |ratio| format!("{ratio:.2} x"));
                let figure = format!("CPU of hash {}, of sign {}", told(HASH_OPEN), told(certificate));
                line("FIPS against plain", "told", figure, "")
            }
        });
        Ok(lines)
    }

    /// Returns the goals of Sealway's own broker.
    pub(super) fn goals(&self) -> anyhow::Result<Vec<Line>> {
        let mut lines = Vec::new();
        let (hash, echo, ping) = (self.row(HASH, 1, 1)?, self.row(ECHO, 1, 1)?, self.row(PING, 1, 1)?);
        let share = hash.cpu_us / echo.cpu_us;
        let goal = "server CPU of a sync hash, of the grpc-go echo's";
        lines.push(line(goal, "<= 0.5 x", format!("{share:.2} x"), verdict(share, 0.5)));
        let figure = format!("{:.1} x in time, {:.1} x in CPU", hash.p50_us / ping.p50_us, hash.cpu_us / ping.cpu_us);
        lines.push(line("a sync hash, of the bare socket's round trip", "told", figure, ""));
        let each = self.row(HASH, 1, BATCH)?.cpu_us / BATCH as f64;
        let what = format!("a batch of {BATCH} SHA-256 of 64 B, CPU each");
        lines.push(line(what, "<= 3 µs", format!("{each:.2} µs"), verdict(each, 3.0)));
        for key in &self.bare.keys {
            let each = self.row(&format!("sign data {}", key.name), 1, BATCH)?.cpu_us / BATCH as f64;
            let over = each - key.sign / 1e3;
            let what = format!("a batch of {BATCH} signatures {}, CPU each over the bare one", key.name);
            let figure = format!("{over:.2} µs (bare {:.1} µs)", key.sign / 1e3);
            lines.push(line(what, "<= 2 µs", figure, verdict(over, 2.0)));
        }
        for key in &self.bare.keys {
            let ratio = key.issue / key.verify_and_sign;
            let what = format!("handler of sign certificate {}, of CSR verify and CA sign", key.name);
            let figure = format!("{ratio:.2} x ({:.1} of {:.1} µs)", key.issue / 1e3, key.verify_and_sign / 1e3);
            lines.push(line(what, "<= 1.3 x", figure, verdict(ratio, 1.3)));
        }
        let mib = self.ours.after_calls as f64 / 1024.0;
        let what = format!("resident memory after {} calls", super::CALLS);
        lines.push(line(what, "< 20 MiB", format!("{mib:.1} MiB"), verdict(mib, 20.0)));
        Ok(lines)
    }

    /// Returns the figures to compare between results: ratios, which differ less between machines than times do.
    pub(super) fn ratios(&self) -> anyhow::Result<Vec<(String, f64)>> {
        let ping = self.row(PING, 1, 1)?;
        let mut ratios = Vec::new();
        for row in self.rows.iter().filter(|row| row.name != ECHO && row.name != PING) {
            let name = format!("{}, {} at a time, {} a call", row.name, row.in_flight, row.inputs);
            let bare = self.bare.keys.iter().find(|key| row.name.ends_with(key.name));
            let (of, base) = match bare {
                Some(key) if row.name.starts_with("sign data") => {
                    ("bare signature", key.sign / 1e3 * row.inputs as f64)
                }
                Some(key) => ("bare verify and sign", key.verify_and_sign / 1e3),
                // The echo's row with the same number of calls in flight.
                None => ("grpc-go echo", self.row(ECHO, row.in_flight, 1)?.cpu_us),
            };
            ratios.push((format!("CPU of {name} / {of}"), row.cpu_us / base));
        }
        ratios.push(("p50 of hash sha-256 / bare socket".into(), self.row(HASH, 1, 1)?.p50_us / ping.p50_us));
        Ok(ratios)
    }
}
