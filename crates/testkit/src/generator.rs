//! A real `sealway load` in a process of its own: what it said, how it ended, and its report.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::daemon::clear_environment;

/// How long a run may take.
const WAIT: Duration = Duration::from_secs(120);

/// A run that has ended.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
    /// The report in JSON; null if it was not asked for, or not written.
    pub report: Value,
}

/// How to run it.
#[derive(Clone, Debug)]
pub struct Generator<'a> {
    binary: &'a str,
    env: HashMap<String, String>,
    before: Vec<String>,
    reports: bool,
}

impl<'a> Generator<'a> {
    /// By this binary, with a report.
    pub fn new(binary: &'a str) -> Self {
        Generator { binary, env: HashMap::new(), before: Vec::new(), reports: true }
    }

    /// Asks for no report.
    pub fn without_report(mut self) -> Self {
        self.reports = false;
        self
    }

    /// Sets an environment variable; there is none but those, and PATH.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Runs it by way of this command, such as `taskset -c 1`.
    pub fn by(mut self, words: &[&str]) -> Self {
        self.before = words.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// `sealway load` with these arguments, to its end.
    ///
    /// # Errors
    /// When it does not start, or does not end in two minutes.
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
    /// A count of the report's `counts`.
    pub fn count(&self, name: &str) -> u64 {
        self.report["counts"][name].as_u64().unwrap_or_else(|| panic!("no count {name}: {}", self.told()))
    }

    /// How many failures of a class there were.
    pub fn faults(&self, class: &str) -> u64 {
        let faults = self.report["faults"].as_array().unwrap_or_else(|| panic!("no faults: {}", self.told()));
        faults.iter().filter(|fault| fault["class"] == class).filter_map(|fault| fault["count"].as_u64()).sum()
    }

    /// The classes of failures that there were, with their counts, by name.
    pub fn fault_classes(&self) -> Vec<(String, u64)> {
        let faults = self.report["faults"].as_array().unwrap_or_else(|| panic!("no faults: {}", self.told()));
        let pair = |fault: &Value| Some((fault["class"].as_str()?.to_owned(), fault["count"].as_u64()?));
        let mut pairs: Vec<_> = faults.iter().filter_map(pair).collect();
        pairs.sort();
        pairs
    }

    /// The first failure's words, of this class.
    pub fn example(&self, class: &str) -> String {
        let faults = self.report["faults"].as_array().cloned().unwrap_or_default();
        let fault = faults.iter().find(|fault| fault["class"] == class);
        fault.and_then(|fault| fault["example"].as_str()).unwrap_or_default().to_owned()
    }

    /// A figure of a phase, such as `p99`, in milliseconds.
    pub fn ms(&self, phase: &str, figure: &str) -> f64 {
        let phases = self.report["phases"].as_array().cloned().unwrap_or_default();
        let found = phases.iter().find(|one| one["phase"] == phase).map(|one| &one[format!("{figure}_ns")]);
        found.and_then(Value::as_f64).unwrap_or_else(|| panic!("no {figure} of {phase}: {}", self.told())) / 1e6
    }

    /// How late 99 of 100 of its own timers were at most, in milliseconds.
    pub fn lag_p99_ms(&self) -> f64 {
        self.report["generator"]["lag_p99_ns"].as_f64().unwrap_or_default() / 1e6
    }

    /// Everything, for a message.
    pub fn told(&self) -> String {
        let mut report = self.report.clone();
        if let Some(report) = report.as_object_mut() {
            // They are long, and nobody reads them.
            report.remove("histograms");
            report.remove("seconds");
        }
        format!("exit code {:?}\n{}\n{}\n{report:#}", self.code, self.out, self.err)
    }
}
