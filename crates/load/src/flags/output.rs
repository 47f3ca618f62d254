//! Flags for displays during the run, and for reports after it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;
use sealway_runtime::config::Problems;
use serde::{Deserialize, Serialize};

use super::values::{self, HOUR, MILLISECOND};
use crate::export::Exports;
use crate::report::{Format, check};

/// Flags for displays during the run, and for reports after it.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
#[command(next_help_heading = "Output")]
#[serde(default)]
pub(crate) struct OutputFlags {
    /// Write a report to this file, whose extension decides the form; - is standard output; repeatable
    #[arg(long, short, value_name = "FILE", value_delimiter = '\n')]
    pub(crate) out: Vec<String>,
    /// Form of all reports: json, csv, hlog, junit, markdown, html, text [default: by extension, else json]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// Print plain lines, also on a terminal
    #[arg(long)]
    pub(crate) no_tui: bool,
    /// Print one JSON object per line on standard output, and nothing else there
    #[arg(long)]
    pub(crate) json_lines: bool,
    /// Time between two plain lines [default: 1s]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) interval: Option<String>,
    /// Name of the run in reports [default: the URL's host and path]
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// Serve the figures to Prometheus on this address during the run, such as 127.0.0.1:9464
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) prometheus: Option<String>,
    /// Push the figures to this Pushgateway every 5 s and at the end: http://host:9091
    #[arg(long, value_name = "URL")]
    pub(crate) pushgateway: Option<String>,
    /// Push the figures to this OTLP/HTTP collector every 5 s and at the end: http://host:4318
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<String>,
}

/// Displays during the run, and reports after it.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// Files of reports, each with its format.
    pub(crate) out: Vec<(PathBuf, Format)>,
    /// True if the full screen is off, also on a terminal.
    pub(crate) no_tui: bool,
    /// True if standard output holds JSON lines alone.
    pub(crate) json_lines: bool,
    /// Time between two plain lines.
    pub(crate) interval: Duration,
    /// Exports of the figures during the run.
    pub(crate) exports: Exports,
}

impl Output {
    /// Returns whether a report goes to standard output.
    pub(crate) fn has_stdout_report(&self) -> bool {
        self.out.iter().any(|(file, _)| file.as_os_str() == "-")
    }

    /// Returns whether standard output holds JSON lines or a report, and nothing else may be printed there.
    pub(crate) fn takes_stdout(&self) -> bool {
        self.json_lines || self.has_stdout_report()
    }
}

impl OutputFlags {
    pub(super) fn resolve(&self, problems: &mut Problems) -> Output {
        for file in self.out.iter().filter(|file| file.is_empty()) {
            values::wrong(problems, "--out", file, "a file");
        }
        if self.out.len() > 20 {
            problems.add("--out", "expected at most 20 files");
        }
        if self.json_lines && self.out.iter().any(|file| file == "-") {
            problems.add("--json-lines with --out -", "both write to standard output; remove one");
        }
        let label = self.label.as_deref().unwrap_or_default();
        if label.chars().count() > 200 || label.chars().any(char::is_control) {
            values::wrong(problems, "--label", label, "one line of at most 200 characters");
        }
        let interval = values::time(problems, "--interval", &self.interval, MILLISECOND * 1000..=HOUR);
        let address = "an address and port such as 127.0.0.1:9464";
        Output {
            out: self.files(problems),
            no_tui: self.no_tui,
            json_lines: self.json_lines,
            interval: interval.unwrap_or(Duration::from_secs(1)),
            exports: Exports {
                prometheus: values::parsed(problems, "--prometheus", &self.prometheus, address),
                pushgateway: push(problems, "--pushgateway", &self.pushgateway),
                otlp: push(problems, "--otlp", &self.otlp),
            },
        }
    }

    fn files(&self, problems: &mut Problems) -> Vec<(PathBuf, Format)> {
        let given = values::named(problems, "--format", &self.format);
        if self.format.is_some() && self.out.is_empty() {
            problems.add("--format", "applies to reports: add --out FILE, or --out - for standard output");
        }
        let form = |file: &str, problems: &mut Problems| match given {
            Some(format) => Some(format),
            None if file == "-" => Some(Format::Json),
            None => problems.take(format!("--out {file}"), Format::of(Path::new(file))),
        };
        let mut files = Vec::with_capacity(self.out.len());
        for file in self.out.iter().filter(|file| !file.is_empty()) {
            let Some(form) = form(file, problems) else { continue };
            if let Err(problem) = check(Path::new(file)) {
                problems.add(format!("--out {file}"), problem);
            }
            files.push((PathBuf::from(file), form));
        }
        files
    }
}

/// Resolves the URL of a collector or gateway: `http` with a host.
fn push(problems: &mut Problems, flag: &str, value: &Option<String>) -> Option<Uri> {
    let expected = "an address such as http://localhost:9091";
    let uri: Uri = values::parsed(problems, flag, value, expected)?;
    if uri.scheme_str() != Some("http") || uri.host().is_none_or(str::is_empty) {
        values::wrong(problems, flag, value.as_deref().unwrap_or_default(), expected);
        return None;
    }
    Some(uri)
}
