//! A driver of an SDK: a program that executes lines of JSON. `sdk/conformance/README.md`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};

/// Longest time for one answer, including the start of a virtual machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running driver. Ends when it is dropped.
pub(super) struct Driver {
    pub(super) name: &'static str,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<std::io::Result<String>>,
    pub(super) wires: Vec<u64>,
    pub(super) suites: Vec<String>,
    pub(super) kems: Vec<String>,
}

/// The reply of a driver: its result, or the code of its rejection.
pub(super) type Reply = Result<Value, String>;

impl Driver {
    pub(super) fn start(name: &'static str, mut command: Command) -> anyhow::Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("the driver of {name} does not start"))?;
        let output = child.stdout.take().context("no output")?;
        let (to, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                if to.send(line).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        let mut driver = Self { name, child, input, lines, wires: Vec::new(), suites: Vec::new(), kems: Vec::new() };
        let hello = driver.must("hello", json!({}))?;
        driver.wires = hello["wires"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
        driver.suites = strings(&hello["suites"]);
        driver.kems = strings(&hello["kems"]);
        for role in ["client", "server"] {
            if !strings(&hello["roles"]).iter().any(|known| known == role) {
                bail!("the driver of {name} has no side `{role}`");
            }
        }
        if driver.wires != [1, 2, 3, 4] || driver.suites.is_empty() || driver.kems.is_empty() {
            bail!(
                "the driver of {name} has wires {:?}, suites {:?} and KEMs {:?}",
                driver.wires,
                driver.suites,
                driver.kems
            );
        }
        Ok(driver)
    }

    /// Sends one operation. A failure of the driver, and no answer in time, are errors.
    pub(super) fn ask(&mut self, op: &str, mut members: Value) -> anyhow::Result<Reply> {
        members["op"] = op.into();
        let input = self.input.as_mut().context("closed")?;
        writeln!(input, "{members}").and_then(|()| input.flush()).with_context(|| format!("{} is gone", self.name))?;
        let line = match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line?,
            Err(RecvTimeoutError::Timeout) => bail!("{}: no answer to {op} in {PATIENCE:?}", self.name),
            Err(RecvTimeoutError::Disconnected) => bail!("{}: ended at {op}", self.name),
        };
        let answer: Value = serde_json::from_str(&line).with_context(|| format!("{}: {op}: {line}", self.name))?;
        if let Some(made) = answer.get("ok") {
            return Ok(Ok(made.clone()));
        }
        match answer["error"].as_str() {
            Some(code) => Ok(Err(code.to_owned())),
            None => bail!("{}: {op}: {line}", self.name),
        }
    }

    /// Sends an operation that must not be rejected.
    pub(super) fn must(&mut self, op: &str, members: Value) -> anyhow::Result<Value> {
        match self.ask(op, members)? {
            Ok(made) => Ok(made),
            Err(code) => bail!("{}: {op} is refused: {code}", self.name),
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Its input ends, and so does the driver; one that goes on is killed.
        self.input = None;
        for _ in 0..50 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}
