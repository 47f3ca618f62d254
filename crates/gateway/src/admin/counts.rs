//! Counts of requests, rejections and openings without a session, read from the process's own metrics, so that the page and a scraper agree.

use std::collections::BTreeMap;

use serde::Serialize;

/// Requests by route and class of status, rejections, and openings without a session.
#[derive(Debug, Default)]
pub(super) struct Counts {
    requests: BTreeMap<String, BTreeMap<String, u64>>,
    refusals: Vec<Refusals>,
    /// Openings by mode and KEM.
    openings: BTreeMap<(String, String), OpeningCounts>,
    /// Requests to each key of a one-shot mode, by its name.
    to_keys: BTreeMap<String, u64>,
}

/// Openings of one mode and KEM, by their result.
#[derive(Debug, Default, Serialize, PartialEq, Eq)]
pub(super) struct OpeningCounts {
    mode: String,
    kem: String,
    ok: u64,
    rejected: u64,
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
                "sealway_one_shot_opens_total" => {
                    let (mode, kem) = (label("mode"), label("kem"));
                    let opened = counts.openings.entry((mode.clone(), kem.clone())).or_default();
                    (opened.mode, opened.kem) = (mode, kem);
                    match &*label("result") {
                        "ok" => opened.ok = count,
                        _ => opened.rejected = count,
                    }
                }
                "sealway_one_shot_key_used_total" => {
                    counts.to_keys.insert(label("key_id"), count);
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

    /// Returns the openings by mode and KEM.
    pub(super) fn openings(&self) -> impl Iterator<Item = &OpeningCounts> {
        self.openings.values()
    }

    /// Returns the requests to a key of a one-shot mode.
    pub(super) fn to_key(&self, name: &str) -> u64 {
        self.to_keys.get(name).copied().unwrap_or_default()
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
sealway_one_shot_opens_total{mode="hpke",kem="x-wing",result="ok"} 8
sealway_one_shot_opens_total{mode="hpke",kem="x-wing",result="rejected"} 3
sealway_one_shot_key_used_total{use="hpke",key_id="0a"} 8
sealway_sessions 3
sealway_request_seconds{route="x",quantile="0.5"} 0.1
sealway_requests_total{route="cut
"#,
        );
        assert_eq!(counts.requests(r#"a "b", {c\}"#), BTreeMap::from([("2xx", 7)]));
        assert!(counts.requests("x").is_empty());
        let refusals: Vec<_> = counts.refusals().iter().map(|one| (&*one.on, &*one.class, one.count)).collect();
        assert_eq!(refusals, [("http", "400", 5), ("call", "replayed", 2)]);
        let opened = OpeningCounts { mode: "hpke".into(), kem: "x-wing".into(), ok: 8, rejected: 3 };
        assert_eq!(counts.openings().collect::<Vec<_>>(), [&opened]);
        assert_eq!((counts.to_key("0a"), counts.to_key("0b")), (8, 0));
        assert_eq!(counts.refusals()[0].listener.as_deref(), Some("main"));
    }
}
