//! The Performance Metrics Summary: durations of each exchange by step.

use std::fmt::Write;
use std::time::Duration;

use sealway_client::Timings;

const RULE: &str = "============================================================";
/// Width of the column of names.
const NAME_WIDTH: usize = 34;

/// Formats one block for each endpoint, under a title between rules.
pub(crate) fn lay_out(endpoints: &[(&str, &Timings)]) -> String {
    let mut text = format!("{RULE}\nPerformance Metrics Summary\n{RULE}\n");
    for (endpoint, timings) in endpoints {
        let _ = writeln!(text, "\n{endpoint}");
        line(&mut text, "  Total Round-Trip", ms(timings.round_trip));
        line(&mut text, "  HTTP Request Time", ms(timings.http));
        let crypto = timings.crypto.iter().map(|(_, took)| *took).sum();
        line(&mut text, "  Client Crypto Operations", ms(crypto));
        for (name, took) in &timings.crypto {
            line(&mut text, &format!("    - {name}"), ms(*took));
        }
        let total = timings.server.iter().find(|(name, _)| name == "total");
        line(&mut text, "  Server Timing", total.map_or(0.0, |(_, ms)| *ms));
        // `total` comes last, wherever the header has it.
        let steps = timings.server.iter().filter(|(name, _)| name != "total");
        for (name, ms) in steps.chain(total) {
            line(&mut text, &format!("    - {name}"), *ms);
        }
    }
    let _ = writeln!(text, "\n{RULE}");
    text
}

fn line(text: &mut String, name: &str, ms: f64) {
    let _ = writeln!(text, "{name:<NAME_WIDTH$} {ms:>10.3} ms");
}

fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_padded_numbers_have_three_decimals_and_total_comes_last() {
        let timings = Timings {
            round_trip: Duration::from_micros(12_345),
            http: Duration::from_micros(11_000),
            crypto: vec![("aes-gcm-encrypt", Duration::from_micros(5)), ("aes-gcm-decrypt", Duration::from_micros(6))],
            server: vec![("total".into(), 1.5), ("upstream".into(), 0.25)],
        };
        let text = lay_out(&[("POST /transaction/purchase", &timings)]);
        let block: Vec<&str> = text.lines().skip(4).collect();
        assert_eq!(block[0], "POST /transaction/purchase");
        let names: Vec<String> = block[1..9].iter().map(|line| line[..NAME_WIDTH].trim_end().to_owned()).collect();
        assert_eq!(
            names,
            [
                "  Total Round-Trip",
                "  HTTP Request Time",
                "  Client Crypto Operations",
                "    - aes-gcm-encrypt",
                "    - aes-gcm-decrypt",
                "  Server Timing",
                "    - upstream",
                "    - total"
            ]
        );
        assert!(block[1].ends_with("    12.345 ms"), "{}", block[1]);
        assert!(block[3].ends_with(" 0.011 ms"), "{}", block[3]);
    }
}
