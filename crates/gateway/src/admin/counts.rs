//! Counts of requests and rejections, read from the process's own metrics, so that the page and a scraper agree.

use std::collections::BTreeMap;

use serde::Serialize;

/// Requests by route and class of status, and rejections.
#[derive(Debug, Default)]
pub(super) struct Counts {
    requests: BTreeMap<String, BTreeMap<String, u64>>,
    refusals: Vec<Refusals>,
}

/// Number of rejections of one class by one part of the gateway.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub(super) struct Refusals {
    /// Part that rejected: `init`, `call`, `seal`, `authority`; `http` for requests rejected before routing.
    on: String,
    /// Class of the rejection; for `http` the status.
    class: String,
    /// Name of the listener, for `http` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    listener: Option<String>,
    count: u64,
}

impl Counts {
    /// Parses counters from Prometheus' text format.
    pub(super) fn read(text: &str) -> Self {
        let mut counts = Counts::default();
        for (name, mut labels, count) in text.lines().filter_map(sample) {
            let count = count as u64;
            let mut label = |name| labels.remove(name).unwrap_or_default();
            match name {
                "sealway_requests_total" => {
                    counts.requests.entry(label("route")).or_default().insert(label("status"), count);
                }
                "sealway_refusals_total" => {
                    let (on, class) = (label("on"), label("class"));
                    counts.refusals.push(Refusals { on, class, listener: None, count });
                }
                "sealway_refused_requests_total" => {
                    let (listener, class) = (Some(label("listener")), label("status"));
                    counts.refusals.push(Refusals { on: "http".into(), class, listener, count });
                }
                _ => {}
            }
        }
        // Some counters begin at 0.
        counts.refusals.retain(|refusals| refusals.count > 0);
        counts.refusals.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| (&a.on, &a.class).cmp(&(&b.on, &b.class))));
        counts
    }

    /// Returns the requests of a route by class of status, without zero counts.
    pub(super) fn requests(&self, route: &str) -> BTreeMap<&str, u64> {
        let of_route = self.requests.get(route).into_iter().flatten();
        of_route.filter(|(_, count)| **count > 0).map(|(status, count)| (status.as_str(), *count)).collect()
    }

    /// Returns the rejections, the most frequent first.
    pub(super) fn refusals(&self) -> &[Refusals] {
        &self.refusals
    }
}

/// Returns the sum of all series of a metric that have these labels; `None` if there is none.
pub(super) fn sum(text: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let lines = text.lines().filter(|line| line.starts_with(name)).filter_map(sample);
    let fits = |found: &BTreeMap<&str, String>| {
        labels.iter().all(|(label, value)| found.get(label).is_some_and(|found| found == value))
    };
    let values = lines.filter(|(found, labels, _)| *found == name && fits(labels)).map(|(_, _, value)| value);
    values.reduce(|sum, value| sum + value)
}

/// Parses the name, labels and value of a series; `None` for any other line.
fn sample(line: &str) -> Option<(&str, BTreeMap<&str, String>, f64)> {
    let mut labels = BTreeMap::new();
    let Some((name, mut rest)) = line.split_once('{') else {
        let (name, value) = line.split_once(' ')?;
        return Some((name, labels, value.parse().ok()?));
    };
    loop {
        let (label, after) = rest.split_once("=\"")?;
        let (value, after) = quoted(after)?;
        labels.insert(label, value);
        match after.strip_prefix(',') {
            Some(after) => rest = after,
            None => return Some((name, labels, after.strip_prefix("} ")?.parse().ok()?)),
        }
    }
}

/// Parses a label's value up to its closing quote; returns it and the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_counters_whatever_is_in_a_label() {
        let counts = Counts::read(
            r#"# TYPE sealway_requests_total counter
sealway_requests_total{route="a \"b\", {c\\}",status="2xx"} 7
sealway_requests_total{route="a \"b\", {c\\}",status="4xx"} 0
sealway_refusals_total{on="call",class="replayed"} 2
sealway_refusals_total{on="call",class="unsealable"} 0
sealway_refused_requests_total{listener="main",status="400"} 5
sealway_sessions 3
sealway_request_seconds{route="x",quantile="0.5"} 0.1
sealway_requests_total{route="cut
"#,
        );
        assert_eq!(counts.requests(r#"a "b", {c\}"#), BTreeMap::from([("2xx", 7)]));
        assert!(counts.requests("x").is_empty());
        let refusals: Vec<_> = counts.refusals().iter().map(|one| (&*one.on, &*one.class, one.count)).collect();
        assert_eq!(refusals, [("http", "400", 5), ("call", "replayed", 2)]);
        assert_eq!(counts.refusals()[0].listener.as_deref(), Some("main"));
    }
}
