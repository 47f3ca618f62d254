//! Self-contained HTML page: no network, and no script except for the values under the pointer. This module draws the SVG
//! charts itself; each figure in them is in a table too.
//!
//! The page contains text of a server. It is escaped; should that fail, the content security policy still allows only the
//! one script and the one style whose hashes it names.

mod axis;
mod buckets;
mod chart;
mod charts;
mod tables;

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::document::Report;
use super::escape::markup;
use super::tuned_forms::Table;
use super::units::{counted, rate, share, time};
use super::words;
use crate::record::Phase;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("hover.js");

pub(super) fn render(report: &Report) -> String {
    let (buckets, each) = buckets::of(report);
    let mut body = header(report);
    body.push_str("<main>");
    tiles(&mut body, report);
    body.push_str(&tables::thresholds(report));
    if buckets.is_empty() {
        body.push_str(r#"<p class="card wide">The run ended within its first second, so there are no charts.</p>"#);
    } else {
        body.push_str(r#"<div class="cards wide">"#);
        body.push_str(&charts::throughput(report, &buckets));
        body.push_str(&charts::times(report, &buckets));
        body.push_str(&charts::heat(&buckets));
        body.push_str(&charts::distribution(report));
        body.push_str(&charts::open_things(&buckets));
        body.push_str(&tables::totals(report));
        body.push_str("</div>");
        if each > 1 {
            let _ = write!(
                body,
                r#"<p class="soft">Each point covers {each} seconds: rates are means, times are those of the slowest second.</p>"#
            );
        }
    }
    body.push_str(&tables::phases(report));
    body.push_str(r#"<div class="cards">"#);
    body.push_str(&tables::faults(report));
    body.push_str(&tables::statuses(report));
    body.push_str("</div>");
    if !buckets.is_empty() {
        body.push_str(&tables::over_time(&buckets, each));
    }
    body.push_str(&tables::asked(report));
    body.push_str("</main>");
    footer(&mut body, &report.machine.sealway, &report.started_at);
    page(&report.label, &body)
}

/// Renders the page of a search or a matrix: its sentences and its table.
pub(super) fn table_page(table: &Table) -> String {
    let mut body = format!("<header><h1>{}</h1>", markup(&table.title));
    notices(&mut body, table.warnings.iter().map(|warning| (false, warning.as_str())));
    body.push_str("</header><main>");
    table.sentences.iter().for_each(|sentence| _ = write!(body, "<p>{}</p>", markup(sentence)));
    // Columns after the first may hold words.
    let rows: Vec<_> = table
        .rows
        .iter()
        .map(|row| {
            row.iter()
                .enumerate()
                .map(|(index, cell)| {
                    if index > 0 && cell.contains(": ") || table.columns[index] == "verdict" {
                        tables::wordy(cell)
                    } else {
                        markup(cell)
                    }
                })
                .collect()
        })
        .collect();
    let _ = write!(
        body,
        r#"<section class="card wide">{}</section></main>"#,
        tables::table(&table.title, &table.columns, &rows)
    );
    footer(&mut body, env!("CARGO_PKG_VERSION"), &table.started_at);
    page(&table.title, &body)
}

fn header(report: &Report) -> String {
    let badge = match words::verdict(report) {
        "no thresholds" => String::new(),
        "passed" => r#" <span class="badge good">passed</span>"#.to_owned(),
        other => format!(r#" <span class="badge bad">{other}</span>"#),
    };
    let mut out = format!("<header><h1>{}{badge}</h1>", markup(&report.label));
    let _ = write!(out, r#"<p class="soft">{}</p>"#, markup(&words::headline(report)));
    let all = words::notices(report);
    notices(&mut out, all.iter().map(|(grave, notice)| (*grave, notice.as_str())));
    out + "</header>"
}

fn notices<'a>(out: &mut String, notices: impl Iterator<Item = (bool, &'a str)>) {
    for (grave, notice) in notices {
        let class = if grave { "notice grave" } else { "notice" };
        let _ = write!(out, r#"<p class="{class}" role="note">{}</p>"#, markup(notice));
    }
}

fn tiles(out: &mut String, report: &Report) {
    let (counts, rates) = (&report.counts, &report.rates);
    out.push_str(r#"<dl class="tiles">"#);
    let mut tile = |name: &str, value: &str, alarm: bool, small: &str| {
        let class = if alarm { r#" class="alarm""# } else { "" };
        let (value, small) = (markup(value), markup(small));
        let _ = write!(out, r#"<div class="tile"><dt>{name}</dt><dd{class}>{value}<small>{small}</small></dd></div>"#);
    };
    tile("succeeded", &rate(rates.succeeded_per_s), false, &counted(counts.succeeded, "request"));
    tile("failed", &share(rates.failed_share), counts.failed > 0, &counted(counts.failed, "request"));
    if let Some(response) = report.phase(Phase::Response).filter(|times| times.count > 0) {
        let service = report.phase(Phase::Service).filter(|times| times.count > 0);
        let figures = [
            ("p50", response.p50_ns, service.map(|times| times.p50_ns)),
            ("p95", response.p95_ns, service.map(|times| times.p95_ns)),
            ("p99", response.p99_ns, service.map(|times| times.p99_ns)),
            ("max", response.max_ns, service.map(|times| times.max_ns)),
        ];
        for (name, ns, of_service) in figures {
            let small = of_service.map_or(String::new(), |ns| format!("service {}", time(ns as f64)));
            tile(&format!("response {name}"), &time(ns as f64), false, &small);
        }
    }
    out.push_str("</dl>");
}

fn footer(out: &mut String, version: &str, started_at: &str) {
    let _ = write!(out, "<footer>Started at {}; sealway load {}.</footer>", markup(started_at), markup(version));
}

fn page(title: &str, body: &str) -> String {
    let policy = format!(
        "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'",
        source(STYLE),
        source(SCRIPT)
    );
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{} - sealway load</title>\
         <style>{STYLE}</style></head>\n<body>{body}<script>{SCRIPT}</script></body></html>\n",
        markup(title)
    )
}

/// Returns the SHA-256 source of this text for the content security policy.
fn source(text: &str) -> String {
    let suite = rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
    // The suite is one of TLS 1.3; otherwise the page would only lose its style and script.
    let Some(suite) = suite.tls13() else { return "'none'".to_owned() };
    let hash = suite.common.hash_provider.hash(text.as_bytes());
    format!("'sha256-{}'", STANDARD.encode(hash.as_ref()))
}
