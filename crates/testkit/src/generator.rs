//! A real `sealway load` in a process of its own: its output, its exit code, and its report.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::daemon::clear_environment;

/// Longest time for a run.
const WAIT: Duration = Duration::from_secs(120);

/// A run that has ended.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// The text of standard output.
    pub out: String,
    /// The text of standard error.
    pub err: String,
    /// The report in JSON; null if it was not requested, or not written.
    pub report: Value,
}

/// The way to run the load generator.
#[derive(Clone, Debug)]
pub struct Generator<'a> {
    binary: &'a str,
    env: HashMap<String, String>,
    before: Vec<String>,
    reports: bool,
}

impl<'a> Generator<'a> {
    /// Creates a run of this binary, with a report.
    pub fn new(binary: &'a str) -> Self {
        Generator { binary, env: HashMap::new(), before: Vec::new(), reports: true }
    }

    /// Requests a run without a report.
    pub fn without_report(mut self) -> Self {
        self.reports = false;
        self
    }

    /// Sets an environment variable; only those and PATH are set.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Runs it through this command, such as `taskset -c 1`.
    pub fn by(mut self, words: &[&str]) -> Self {
        self.before = words.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Runs `sealway load` with these arguments, to its end.
    ///
    /// # Errors
    /// If it does not start, or does not end in two minutes.
    pub fn run(&self, arguments: &[&str]) -> anyhow::Result<Ran> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("report.json");
        let (out, err) = (folder.path().join("out"), folder.path().join("err"));
        let words: Vec<&str> = self.before.iter().map(String::as_str).chain([self.binary, "load"]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(arguments);
        if self.reports {
            command.arg("--out").arg(&file);
        }
        clear_environment(&mut command).env("PATH", std::env::var_os("PATH").unwrap_or_default()).envs(&self.env);
        command.stdin(Stdio::null()).stdout(std::fs::File::create(&out)?).stderr(std::fs::File::create(&err)?);
        let mut child = command.spawn().with_context(|| format!("cannot start {}", words[0]))?;
        let until = Instant::now() + WAIT;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if Instant::now() > until {
                let _ = child.kill();
                let _ = child.wait();
                bail!("it does not end: {arguments:?}\n{}", text(&err));
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let report = std::fs::read(&file).ok().map(|bytes| serde_json::from_slice(&bytes)).transpose();
        let report = report.context("the report is not JSON")?.unwrap_or_default();
        Ok(Ran { code: status.code(), out: text(&out), err: text(&err), report })
    }
}

fn text(file: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(file).unwrap_or_default()).into_owned()
}

impl Ran {
    /// Returns a count of the report's `counts`.
    pub fn count(&self, name: &str) -> u64 {
        self.report["counts"][name].as_u64().unwrap_or_else(|| panic!("no count {name}: {}", self.told()))
    }

    /// Returns the number of failures of a class.
    pub fn faults(&self, class: &str) -> u64 {
        let faults = self.report["faults"].as_array().unwrap_or_else(|| panic!("no faults: {}", self.told()));
        faults.iter().filter(|fault| fault["class"] == class).filter_map(|fault| fault["count"].as_u64()).sum()
    }

    /// Returns the classes of the failures, with their counts, by name.
    pub fn fault_classes(&self) -> Vec<(String, u64)> {
        let faults = self.report["faults"].as_array().unwrap_or_else(|| panic!("no faults: {}", self.told()));
        let pair = |fault: &Value| Some((fault["class"].as_str()?.to_owned(), fault["count"].as_u64()?));
        let mut pairs: Vec<_> = faults.iter().filter_map(pair).collect();
        pairs.sort();
        pairs
    }

    /// Returns the text of the first failure of this class.
    pub fn example(&self, class: &str) -> String {
        let faults = self.report["faults"].as_array().cloned().unwrap_or_default();
        let fault = faults.iter().find(|fault| fault["class"] == class);
        fault.and_then(|fault| fault["example"].as_str()).unwrap_or_default().to_owned()
    }

    /// Returns a figure of a phase, such as `p99`, in milliseconds.
    pub fn ms(&self, phase: &str, figure: &str) -> f64 {
        let phases = self.report["phases"].as_array().cloned().unwrap_or_default();
        let found = phases.iter().find(|one| one["phase"] == phase).map(|one| &one[format!("{figure}_ns")]);
        found.and_then(Value::as_f64).unwrap_or_else(|| panic!("no {figure} of {phase}: {}", self.told())) / 1e6
    }

    /// Returns the 99th percentile of its own timers' lag, in milliseconds.
    pub fn lag_p99_ms(&self) -> f64 {
        self.report["generator"]["lag_p99_ns"].as_f64().unwrap_or_default() / 1e6
    }

    /// Returns everything about the run, for a message.
    pub fn told(&self) -> String {
        let mut report = self.report.clone();
        if let Some(report) = report.as_object_mut() {
            // They are long, and of no use to a reader.
            report.remove("histograms");
            report.remove("seconds");
        }
        format!("exit code {:?}\n{}\n{}\n{report:#}", self.code, self.out, self.err)
    }
}
