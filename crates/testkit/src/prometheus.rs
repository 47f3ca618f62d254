//! A real Prometheus in a process of its own: it scrapes and evaluates rules each second, and answers queries.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::daemon::{Daemon, free_port, program};
use crate::raw_http::Request;

/// Longest time for a start.
const WAIT: Duration = Duration::from_secs(30);
/// Divisor of the durations of rules in tests: minutes last for seconds.
pub const SCALE: u64 = 60;

/// A running server; its data are removed with it.
#[derive(Debug)]
pub struct Prometheus {
    daemon: Daemon,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    /// Starts a server with these rules, and these jobs: the entries of `scrape_configs`, indented by two.
    ///
    /// # Errors
    /// If the program is missing, or does not accept its files; with its output.
    pub fn start(rules: &str, jobs: &str) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("sealway-prometheus-").tempdir()?;
        let path = |name: &str| folder.path().join(name);
        let config = format!(
            "global: {{ scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }}\nrule_files: [rules.yaml]\n\
             scrape_configs:\n{jobs}"
        );
        std::fs::write(path("rules.yaml"), rules)?;
        std::fs::write(path("prometheus.yaml"), config)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let mut command = Command::new(program("prometheus")?);
        command.arg("--config.file").arg(path("prometheus.yaml")).arg("--storage.tsdb.path").arg(path("data"));
        command.args(["--log.level=warn", "--web.listen-address", &address.to_string()]);
        let mut daemon = Daemon::start(command, &path("output"))?;
        daemon.wait_for(address)?;
        let prometheus = Prometheus { daemon, address, _folder: folder };
        let begun = Instant::now();
        // It accepts connections before it serves.
        while !Request::get("/-/ready").send(address).is_ok_and(|answer| answer.status == 200) {
            ensure!(begun.elapsed() < WAIT, "Prometheus is not ready:\n{}", prometheus.daemon.tail());
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(prometheus)
    }

    /// Returns the series that an expression selects now, each with `metric` and `value`.
    ///
    /// # Errors
    /// If the expression is malformed; with Prometheus' message.
    pub fn query(&self, expression: &str) -> anyhow::Result<Vec<Value>> {
        let encode = |byte: u8| match byte {
            byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        };
        let body: String = "query=".chars().map(String::from).chain(expression.bytes().map(encode)).collect();
        let request = Request::post("/api/v1/query", body).header("Content-Type", "application/x-www-form-urlencoded");
        let answer = request.send(self.address)?.json();
        ensure!(answer["status"] == "success", "{expression}: {}", answer["error"]);
        // A scalar has no list.
        Ok(answer["data"]["result"].as_array().cloned().unwrap_or_default())
    }

    /// Returns all alerts that fire now, each with `labels` and `annotations`.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn firing(&self) -> anyhow::Result<Vec<Value>> {
        let answer = Request::get("/api/v1/alerts").send(self.address)?.json();
        let alerts = answer["data"]["alerts"].as_array().context("no alerts")?;
        Ok(alerts.iter().filter(|alert| alert["state"] == "firing").cloned().collect())
    }
}

/// Divides every duration of rules by [`SCALE`]: `5m` becomes `5s`, `[1h]` becomes `[60s]`. Numbers without a unit, such as the
/// days of an expiry in seconds, stay.
pub fn scaled(rules: &str) -> String {
    let mut scaled = String::with_capacity(rules.len());
    for (number, line) in rules.lines().enumerate() {
        scaled.push_str(if number > 0 { "\n" } else { "" });
        if line.trim_start().starts_with(['#']) || line.contains("summary:") {
            scaled.push_str(line);
            continue;
        }
        let mut rest = line;
        while let Some(start) = rest.find(|char: char| char.is_ascii_digit()) {
            let is_word = rest[..start].ends_with(|char: char| char.is_ascii_alphanumeric() || "_.-".contains(char));
            let len = rest[start..].find(|char: char| !char.is_ascii_digit()).unwrap_or(rest.len() - start);
            let (digits, after) = rest[start..].split_at(len);
            let ends =
                !after[after.len().min(1)..].starts_with(|char: char| char.is_ascii_alphanumeric() || char == '_');
            let unit_s = match after.as_bytes().first() {
                _ if is_word || !ends => None,
                Some(b'm') => Some(60),
                Some(b'h') => Some(3600),
                Some(b'd') => Some(86_400),
                _ => None,
            };
            scaled.push_str(&rest[..start]);
            match (unit_s, digits.parse::<u64>()) {
                (Some(unit_s), Ok(count)) => {
                    scaled.push_str(&format!("{}s", count * unit_s / SCALE));
                    rest = &after[1..];
                }
                _ => {
                    scaled.push_str(digits);
                    rest = after;
                }
            }
        }
        scaled.push_str(rest);
    }
    scaled
}

/// Reads the rules of the repository.
///
/// # Errors
/// If there are none.
pub fn rules(root: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(root.join("deploy/prometheus/rules.yaml")).context("deploy/prometheus/rules.yaml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_become_short_and_nothing_else_changes() {
        for (from, to) in [
            ("rate(a[5m])", "rate(a[5s])"),
            ("for: 15m", "for: 15s"),
            ("sum_over_time(sealway:x:rate5m[3d])", "sum_over_time(sealway:x:rate5m[4320s])"),
            ("a offset 1h > 0.25", "a offset 60s > 0.25"),
            ("x - time() < 30 * 86400", "x - time() < 30 * 86400"),
            (r#"{le="0.25",status="5xx"}"#, r#"{le="0.25",status="5xx"}"#),
            ("      summary: of the last 15m", "      summary: of the last 15m"),
            ("a\nb[1m]", "a\nb[1s]"),
        ] {
            assert_eq!(scaled(from), to);
        }
    }
}
