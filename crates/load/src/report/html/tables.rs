//! Figures of a page as HTML tables.

use std::fmt::Write;

use super::super::document::{PhaseTimes, Report};
use super::super::escape::markup;
use super::super::units::{bytes, count, digits, in_unit, length, rate, share, time};
use super::super::words;
use super::chart::span;
use crate::record::Second;

/// Opening tag of a cell of words.
const WORDY: &str = r#"<td class="words">"#;

/// Renders a table with a caption for assistive technology. The cells must be escaped.
pub(super) fn table(caption: &str, columns: &[&str], rows: &[Vec<String>]) -> String {
    let caption = markup(caption);
    let mut out =
        format!(r#"<div class="scroll" role="region" aria-label="{caption}" tabindex="0"><table><thead><tr>"#);
    for (index, name) in columns.iter().enumerate() {
        let wordy = rows.iter().any(|row| row[index].starts_with(WORDY));
        let class = if wordy { r#" class="words""# } else { "" };
        let _ = write!(out, r#"<th scope="col"{class}>{}</th>"#, markup(name));
    }
    out.push_str("</tr></thead><tbody>");
    for row in rows {
        out.push_str("<tr>");
        for (index, cell) in row.iter().enumerate() {
            match (index, cell.starts_with("<td")) {
                (0, _) => _ = write!(out, r#"<th scope="row">{cell}</th>"#),
                (_, true) => out.push_str(cell),
                (_, false) => _ = write!(out, "<td>{cell}</td>"),
            }
        }
        out.push_str("</tr>");
    }
    out + "</tbody></table></div>"
}

/// Renders a cell of words, which may wrap.
pub(super) fn wordy(text: &str) -> String {
    format!("{WORDY}{}</td>", markup(text))
}

fn section(title: &str, inner: &str) -> String {
    format!(r#"<section class="card wide"><h2>{}</h2>{inner}</section>"#, markup(title))
}

pub(super) fn thresholds(report: &Report) -> String {
    if report.thresholds.is_empty() {
        return String::new();
    }
    let rows: Vec<_> = report
        .thresholds
        .iter()
        .map(|checked| {
            let measured = checked.measured.map_or("no data".to_owned(), |value| in_unit(value, checked.unit));
            let (class, word) = if checked.passed { ("met", "met") } else { ("missed", "missed") };
            vec![markup(&checked.threshold), markup(&measured), format!(r#"<td class="{class}">{word}</td>"#)]
        })
        .collect();
    section("Thresholds", &table("Thresholds", &["threshold", "measured", "verdict"], &rows))
}

pub(super) fn phases(report: &Report) -> String {
    let columns = ["time", "count", "mean", "p50", "p75", "p90", "p95", "p99", "p99.9", "max"];
    let rows: Vec<_> = report
        .phases
        .iter()
        .filter(|one| one.times.count > 0)
        .map(|PhaseTimes { phase, times }| {
            let all =
                [times.p50_ns, times.p75_ns, times.p90_ns, times.p95_ns, times.p99_ns, times.p999_ns, times.max_ns];
            let mut row = vec![markup(words::phase(*phase)), count(times.count), time(times.mean_ns)];
            row.extend(all.map(|ns| time(ns as f64)));
            row
        })
        .collect();
    if rows.is_empty() {
        return section("Times by phase", "<p>No request ended.</p>");
    }
    section("Times by phase", &table("Times by phase", &columns, &rows))
}

pub(super) fn faults(report: &Report) -> String {
    let faults: Vec<_> = report
        .faults
        .iter()
        .map(|failure| {
            vec![
                markup(words::class(failure.class)),
                count(failure.count),
                markup(&share(failure.share)),
                wordy(&failure.example),
            ]
        })
        .collect();
    let failures = if faults.is_empty() {
        "<p>No request failed.</p>".to_owned()
    } else {
        table("Failures by class", &["class", "count", "share", "first example"], &faults)
    };
    section("Failures", &failures)
}

pub(super) fn statuses(report: &Report) -> String {
    let all: u64 = report.statuses.iter().fold(0, |all, seen| all.saturating_add(seen.count));
    let rows: Vec<_> = report
        .statuses
        .iter()
        .map(|seen| {
            vec![seen.status.to_string(), count(seen.count), markup(&share(seen.count as f64 / all.max(1) as f64))]
        })
        .collect();
    let inner = if rows.is_empty() {
        "<p>No response had a status code.</p>".to_owned()
    } else {
        table("Responses by status code", &["status", "count", "share"], &rows)
    };
    section("Status codes", &inner)
}

pub(super) fn totals(report: &Report) -> String {
    let (counts, rates, generator) = (&report.counts, &report.rates, &report.generator);
    let pair = |name: &str, value: String| (name.to_owned(), value);
    list(
        "Connections, traffic and generator",
        &[
            pair("requests due, started", format!("{}, {}", count(counts.due), count(counts.started))),
            pair("unfinished at the end", count(counts.unfinished)),
            pair("due but not sent", count(counts.unsent)),
            pair(
                "connections",
                format!("{} opened in {} attempts", count(counts.connections_opened), count(counts.connections_tried)),
            ),
            pair(
                "TLS handshakes",
                format!("{} full, {} resumed", count(counts.handshakes_full), count(counts.handshakes_resumed)),
            ),
            pair(
                "reconnections",
                format!("{} to replace a connection that the server closed", count(counts.reconnections)),
            ),
            pair("sessions agreed", {
                let suites = counts.sessions_by_suite.words();
                let all = count(counts.sessions_agreed);
                if suites.is_empty() { all } else { format!("{all} ({suites})") }
            }),
            pair(
                "keys fetched, requests repeated",
                format!("{}, {}", count(counts.keys_fetched), count(counts.repeats)),
            ),
            pair("sent", format!("{}/s", bytes(rates.sent_bytes_per_s))),
            pair("received", format!("{}/s", bytes(rates.received_bytes_per_s))),
            pair("bottleneck", words::limit(&report.limit)),
            pair(
                "generator CPU",
                format!(
                    "{} of {} cores, busiest thread {} of a core",
                    digits(generator.cpu),
                    generator.cores,
                    share(generator.cpu_busiest)
                ),
            ),
            pair(
                "generator timer delay",
                format!("p99 {}, max {}", length(generator.lag_p99), length(generator.lag_max)),
            ),
            pair("generator memory", bytes(generator.memory_bytes as f64)),
        ],
    )
}

pub(super) fn asked(report: &Report) -> String {
    let (asked, machine) = (&report.asked, &report.machine);
    let pair = |name: &str, value: String| (name.to_owned(), value);
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let bound = |value: Option<String>| value.unwrap_or("no bound".to_owned());
    let mut pairs = vec![
        pair("target", format!("{} {}", asked.method, asked.url)),
        pair("path", asked.path.clone()),
        pair("protocol", asked.protocol.name().to_owned()),
        pair("headers", if asked.headers.is_empty() { "none".to_owned() } else { asked.headers.join(", ") }),
        pair("arrival", asked.arrival.words()),
        pair("duration", bound(asked.duration_s.map(|seconds| time(seconds * 1e9)))),
        pair("requests", bound(asked.requests.map(count))),
        pair("warm-up", time(asked.warm_up_s * 1e9)),
        pair("connections reused", yes(asked.connections.reuse)),
        pair("streams per connection", asked.connections.streams.to_string()),
        pair(
            "timeouts",
            format!("connect {}, request {}", length(asked.timeouts.connect), length(asked.timeouts.request)),
        ),
    ];
    if let Some(tls) = &asked.tls {
        pairs.push(pair("minimum TLS version", tls.min_version.name().to_owned()));
        pairs.push(pair("TLS resumption", tls.resumption.name().to_owned()));
        pairs.push(pair("server certificate verified", yes(tls.verify)));
        pairs.push(pair("client certificate", yes(tls.client_certificate)));
    }
    if let Some(sealed) = &asked.sealed {
        pairs.push(pair("sealed", format!("wire {}, {}", sealed.wire, sealed.agree)));
        if let Some(trust) = &sealed.trust {
            pairs.push(pair("identity key trust", trust.replace('_', " ")));
        }
    }
    if let Some(mle) = &asked.mle {
        pairs.push(pair("messages", mle.profile.clone()));
    }
    if let Some(one_shot) = &asked.one_shot {
        pairs.push(pair("without a session", one_shot.words()));
    }
    if let Some(broker) = &asked.broker {
        pairs.push(pair("broker", broker.words()));
    }
    pairs.extend(asked.assertions.iter().map(|assertion| pair("assertion", assertion.clone())));
    pairs.push(pair("threads, seed", format!("{}, {}", asked.threads, asked.seed)));
    let at = format!(
        "{} {} {}, {} cores, {}",
        machine.os, machine.kernel, machine.architecture, machine.cores, machine.processor
    );
    pairs.push(pair("machine", at));
    list("Configuration and machine", &pairs)
}

fn list(title: &str, pairs: &[(String, String)]) -> String {
    let mut inner = String::from(r#"<dl class="plain">"#);
    pairs.iter().for_each(|(name, value)| _ = write!(inner, "<dt>{}</dt><dd>{}</dd>", markup(name), markup(value)));
    section(title, &(inner + "</dl>"))
}

/// Renders the figures of the charts over time, for readers who do not see the charts.
pub(super) fn over_time(buckets: &[Second], each: usize) -> String {
    let columns = ["time", "due", "succeeded", "failed", "p50", "p95", "p99", "max", "in flight", "connections"];
    let rows: Vec<_> = buckets
        .iter()
        .map(|bucket| {
            let (counts, response) = (&bucket.counts, &bucket.response);
            let rates = [counts.due, counts.succeeded, counts.failed].map(|count| rate(bucket.per_second(count)));
            let times = [response.p50_ns, response.p95_ns, response.p99_ns, response.max_ns];
            let shown = |ns: u64| if response.count > 0 { time(ns as f64) } else { "none".to_owned() };
            let mut row = vec![span(bucket)];
            row.extend(rates.into_iter().chain(times.map(shown)));
            row.extend([count(bucket.in_flight), count(bucket.connections)]);
            row
        })
        .collect();
    let what = if each == 1 { "per second".to_owned() } else { format!("per {each} seconds") };
    let title = format!("Chart data as a table, {what}");
    format!("<details><summary>{title}</summary>{}</details>", table(&title, &columns, &rows))
}
