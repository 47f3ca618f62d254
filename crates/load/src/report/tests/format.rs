//! Each form of each kind of run is well-formed, complete, and immune to a server's text.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use super::super::*;
use super::sample::{self, Shape};
use crate::engine::{EndReason, Limit, Outcome};
use crate::progress::{CellSummary, Estimate, OfferedLoad};
use crate::record::Phase;
use crate::thresholds::Threshold;

const SHAPES: [(&str, Shape); 4] =
    [("usual", Shape::Usual), ("stalled", Shape::Stalled), ("empty", Shape::Empty), ("all-failed", Shape::AllFailed)];

fn report(outcome: &Outcome) -> Report {
    let bars = Threshold::parse_list("--threshold", "p99<50ms,errors<1%,rate>900").unwrap();
    Report::new(outcome, &bars, sample::machine())
}

/// Report with hostile text in each field that untrusted input can reach.
fn hostile() -> Report {
    let mut outcome = sample::outcome(3, Shape::Usual, 5, 1.0);
    outcome.plan.label = sample::HOSTILE.to_owned();
    outcome.warnings = vec![sample::HOSTILE.to_owned()];
    outcome.limit = Limit::Generator(sample::HOSTILE.to_owned());
    outcome.ended = EndReason::Failed(sample::HOSTILE.to_owned());
    let mut report = report(&outcome);
    report.machine.processor = sample::HOSTILE.to_owned();
    report.asked.assertions = vec![sample::HOSTILE.to_owned()];
    report
}

fn matrix(name: &str) -> MatrixReport {
    let cell = |name: &str, missing: Option<&str>| CellSummary {
        name: name.to_owned(),
        missing: missing.map(str::to_owned),
        knee: missing.is_none().then_some(OfferedLoad::Concurrency(512)),
        rate: Estimate::new(18_234.0, 211.0),
        failed_share: 0.000_2,
        mean_ns: 21e6,
        p95_ns: 44_000_000,
        p99_ns: 61_000_000,
        runs: 21,
        limit: missing.is_none().then_some(Limit::Target),
    };
    let cells = [cell(name, None), cell("https-mtls-reuse", Some("skipped: no client certificate was given"))];
    MatrixReport::new("gateways", cells.into(), sample::machine(), 1_795_233_780_000, 800.0)
}

fn render(document: &impl Document, format: Format) -> Result<String, file::ReportError> {
    document.render(format)
}

/// Folder that keeps the samples for inspection: `SEALWAY_REPORT_SAMPLES=folder`.
fn folder() -> (PathBuf, Option<tempfile::TempDir>) {
    match std::env::var_os("SEALWAY_REPORT_SAMPLES") {
        Some(folder) => (folder.into(), None),
        None => {
            let folder = tempfile::tempdir().unwrap();
            (folder.path().to_owned(), Some(folder))
        }
    }
}

fn extension(format: Format) -> &'static str {
    match format {
        Format::Json => "json",
        Format::Csv => "csv",
        Format::Hlog => "hlog",
        Format::Junit => "xml",
        Format::Markdown => "md",
        Format::Html => "html",
        Format::Text => "txt",
    }
}

#[test]
fn every_kind_of_run_is_written_in_every_form_by_extension() {
    let (folder, _kept) = folder();
    for (name, shape) in SHAPES {
        let seconds = if shape == Shape::Stalled { 200 } else { 30 };
        let report = report(&sample::outcome(11, shape, seconds, 1.0));
        for format in Format::ALL {
            let path = folder.join(name).with_extension(extension(format));
            write(&path, &report, Format::of(&path).unwrap()).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text, render(&report, format).unwrap());
            assert!(!text.contains("s3cret"), "{name} {format:?}");
            // Base64 may hold any three letters.
            let histograms = matches!(format, Format::Json | Format::Hlog);
            assert!(histograms || !text.contains("NaN"), "{name} {format:?}");
        }
    }
    write(&folder.join("hostile.html"), &hostile(), Format::Html).unwrap();
    write(&folder.join("matrix.html"), &matrix("https-reuse"), Format::Html).unwrap();
    let error = Format::of(&folder.join("a.pdf")).unwrap_err().to_string();
    assert!(error.contains("there is no report format .pdf; use .json, .csv, .hlog"), "{error}");
}

#[test]
fn extensions_of_forms_lead_back_to_them() {
    for format in Format::ALL {
        let path = Path::new("a.b").with_extension(extension(format).to_uppercase());
        assert_eq!(Format::of(&path).unwrap(), format);
    }
    assert_eq!(Format::of(Path::new("-")).unwrap(), Format::Json);
}

#[test]
fn junit_is_xml_that_fails_by_thresholds_and_errs_where_the_figures_mean_nothing() {
    for (name, shape) in SHAPES {
        let text = render(&report(&sample::outcome(11, shape, 8, 1.0)), Format::Junit).unwrap();
        let xml = roxmltree::Document::parse(&text).unwrap_or_else(|err| panic!("{name}: {err}\n{text}"));
        let failures = xml.descendants().filter(|node| node.has_tag_name("failure")).count();
        assert_eq!(xml.root_element().attribute("failures"), Some(failures.to_string().as_str()));
        assert_eq!(xml.descendants().filter(|node| node.has_tag_name("testcase")).count(), 4);
        assert_eq!(failures > 0, shape != Shape::Usual, "{name}");
    }
    let text = render(&hostile(), Format::Junit).unwrap();
    let xml = roxmltree::Document::parse(&text).unwrap();
    let error = xml.descendants().find(|node| node.has_tag_name("error")).unwrap();
    assert!(error.text().unwrap().contains("</script><script>alert(1)</script>"));
    assert_eq!(xml.root_element().attribute("errors"), Some("1"));
}

#[test]
fn the_interval_log_is_read_by_the_histogram_librarys_own_reader() {
    let report = report(&sample::outcome(11, Shape::Usual, 20, 1.0));
    let text = render(&report, Format::Hlog).unwrap();
    assert!(text.starts_with("#[Histogram log format version 1.3]\n#["));
    let (mut tags, mut start) = (Vec::new(), None);
    for entry in IntervalLogIterator::new(text.as_bytes()) {
        match entry.unwrap() {
            LogEntry::StartTime(time) => start = Some(time.as_secs()),
            LogEntry::BaseTime(_) => panic!("there is no base time"),
            LogEntry::Interval(interval) => {
                let tag = interval.tag().unwrap().as_str().to_owned();
                let bytes =
                    base64::Engine::decode(&base64::engine::general_purpose::STANDARD, interval.encoded_histogram());
                let histogram: hdrhistogram::Histogram<u64> =
                    Deserializer::new().deserialize(&mut bytes.unwrap().as_slice()).unwrap();
                if tag == "response" {
                    assert_eq!(histogram.value_at_quantile(0.5), report.phase(Phase::Response).unwrap().p50_ns);
                    assert_eq!(interval.duration().as_secs(), 20);
                }
                tags.push(tag);
            }
        }
    }
    assert_eq!(start, Some(1_795_233_783));
    assert_eq!(tags, ["response", "service", "connect", "tls", "first_byte", "failed"]);
}

#[test]
fn csv_has_as_many_cells_in_each_line_and_no_zero_where_nothing_was_measured() {
    for (name, shape) in SHAPES {
        let text = render(&report(&sample::outcome(11, shape, 8, 1.0)), Format::Csv).unwrap();
        let cells: Vec<Vec<_>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert!(cells.iter().all(|line| line.len() == cells[0].len()), "{name}");
        let p50 = cells[0].iter().position(|name| *name == "response_p50_ns").unwrap();
        assert_eq!(cells[1][p50].is_empty(), matches!(shape, Shape::Empty | Shape::AllFailed), "{name}");
    }
}

#[test]
fn a_page_has_no_script_but_ours_and_asks_nothing_of_a_network() {
    for report in SHAPES.map(|(_, shape)| report(&sample::outcome(11, shape, 8, 1.0))).into_iter().chain([hostile()]) {
        let page = render(&report, Format::Html).unwrap();
        assert_eq!(page.matches("<script").count(), 1);
        for wrong in [" src=", " href=", "url(", "@import", "<link", "<b>", "style=\"", "onload", "\u{1b}", "\u{202e}"]
        {
            assert!(!page.contains(wrong), "{wrong}");
        }
        assert!(page.contains("Content-Security-Policy") && page.contains("default-src 'none'"));
        assert!(page.len() < 600_000, "{}", page.len());
    }
}

#[test]
fn what_limits_or_spoils_a_run_is_reported_before_any_figure_in_every_readable_form() {
    let report = hostile();
    for format in [Format::Text, Format::Markdown, Format::Html] {
        let text = render(&report, format).unwrap();
        let notice = text.find("The generator was the bottleneck, so the figures do not describe the target").unwrap();
        let figure = text.find("/s").unwrap_or(usize::MAX);
        let figure = text.find("succeeded").unwrap_or(figure);
        assert!(notice < figure, "{format:?}");
    }
    for (shape, sentence) in [(Shape::Empty, "No request ended"), (Shape::AllFailed, "Every request failed")] {
        let text = render(&self::report(&sample::outcome(1, shape, 5, 1.0)), Format::Text).unwrap();
        assert!(text.find(sentence).unwrap() < text.find("succeeded").unwrap(), "{text}");
    }
}

#[test]
fn a_terminal_and_a_pull_request_get_no_control_characters_or_markup_of_a_server() {
    for format in [Format::Text, Format::Markdown, Format::Csv, Format::Hlog] {
        let text = render(&hostile(), format).unwrap();
        let wild = text.chars().find(|char| char.is_control() && !matches!(char, '\n' | '\r'));
        assert_eq!(wild, None, "{format:?}");
    }
    let markdown = render(&hostile(), Format::Markdown).unwrap();
    for line in markdown.lines().filter(|line| line.contains("<script>")) {
        let before = &line[..line.find("<script>").unwrap()];
        assert!(before.contains("`` "), "not as code: {line}");
    }
}

#[test]
fn a_matrix_is_a_table_in_each_form_it_has_and_says_which_it_has_not() {
    let matrix = matrix("=<b>|x");
    let text = render(&matrix, Format::Text).unwrap();
    assert!(text.contains("512 workers") && text.contains("18,234/s ± 211/s"), "{text}");
    assert!(text.contains("skipped: no client certificate was given"));
    assert!(render(&matrix, Format::Csv).unwrap().contains("\"'=<b>|x\",\"\",concurrency,512,18234.000,"));
    assert!(render(&matrix, Format::Markdown).unwrap().contains("` =<b>\\|x `"));
    assert!(render(&matrix, Format::Html).unwrap().contains("=&lt;b&gt;|x"));
    assert!(
        render(&matrix, Format::Hlog)
            .unwrap_err()
            .to_string()
            .contains("a search or a matrix cannot be written as hlog")
    );
}

/// Report with large numbers everywhere, long names and a long limit.
fn large() -> Report {
    let mut outcome = sample::outcome(3, Shape::AllFailed, 5, 1.0);
    outcome.plan.label = "label/".repeat(40);
    outcome.plan.target.url = format!("https://host.example/{}?q=1", "path/".repeat(100)).parse().unwrap();
    outcome.limit = Limit::Generator("its busiest thread needed a core for 95 % of the time and more ".repeat(3));
    let counts = &mut outcome.totals.sum.counts;
    for count in [&mut counts.succeeded, &mut counts.failed, &mut counts.unfinished, &mut counts.connections_opened] {
        *count = 999_999_999_999;
    }
    counts.handshakes_full = 999_999_999_999;
    let hours = Duration::from_secs(3600 * 50);
    outcome.totals.sum.times[Phase::Response.index()].record(hours);
    outcome.generator.lag_max = hours;
    report(&outcome)
}

#[test]
fn a_summary_fits_80_columns() {
    let mut reports: Vec<_> = SHAPES.iter().map(|(_, shape)| report(&sample::outcome(11, *shape, 30, 1.0))).collect();
    reports.extend([hostile(), large()]);
    let mut texts: Vec<_> = reports.iter().map(|report| render(report, Format::Text).unwrap()).collect();
    let names = ["https-reuse".to_owned(), "cell/".repeat(30)];
    texts.extend(names.iter().map(|name| render(&matrix(name), Format::Text).unwrap()));
    for text in texts {
        let wide: Vec<_> = text.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{wide:#?}\n{text}");
        assert!(text.lines().all(|line| !line.ends_with(' ')), "{text}");
    }
    let text = render(&large(), Format::Text).unwrap();
    assert!(text.contains("https://host.example/path/") && text.contains("…path/"), "{text}");
    assert!(text.contains("path/?q=1 over http/2") && text.contains("999,999,999,999 succeeded"), "{text}");
}

#[test]
fn a_search_shows_its_points_and_its_knee() {
    let mut search = AutotuneReport::new(&sample::plan(), sample::machine(), 1_795_233_780_000, 90.0);
    search.points = vec![Point {
        offered: OfferedLoad::Concurrency(64),
        repeats_per_s: vec![100.0, 101.5, 99.0],
        succeeded_per_s: Estimate::new(100.2, 3.1),
        failed_share: 0.0,
        mean_ns: 5e6,
        p50_ns: 1_000_000,
        p95_ns: 2_000_000,
        p99_ns: 3_000_000,
        healthy: true,
        verdict: "throughput grows".to_owned(),
        limit: Limit::Target,
    }];
    search.knee = Some(Knee { offered: OfferedLoad::Concurrency(64), succeeded_per_s: Estimate::new(100.2, 3.1) });
    for format in [Format::Text, Format::Markdown, Format::Html] {
        let text = render(&search, format).unwrap();
        assert!(text.contains("The knee is at 64 workers: 100/s ± 3.10/s."), "{text}");
        assert!(text.contains("throughput grows") && text.contains("2.00 ms"), "{text}");
    }
}
