//! Steps of a job: each is announced, timed and counted, and a failed one does not hide the next.

use std::fmt::Write as _;
use std::io::{Read as _, Seek as _};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::shell;

/// A job that is running, and its steps so far.
pub(crate) struct Steps {
    begin: Instant,
    done: Vec<StepResult>,
}

impl Default for Steps {
    fn default() -> Self {
        Steps { begin: Instant::now(), done: Vec::new() }
    }
}

/// Steps that run one after the other beside others.
pub(crate) struct Lane(JoinHandle<Vec<Output>>);

/// The name of a step, its time, what it printed, and its result.
type Output = (&'static str, Duration, Vec<u8>, anyhow::Result<()>);

struct StepResult {
    name: &'static str,
    took: Duration,
    error: Option<String>,
    /// Lines of its output that tell of failures, for a reader who has only the end of the whole output.
    reasons: Vec<String>,
}

impl Steps {
    /// Runs one step now, and records its result.
    pub(crate) fn step(&mut self, name: &'static str, run: impl FnOnce() -> anyhow::Result<()>) {
        println!("\n==> {name}");
        let start = Instant::now();
        let result = run();
        self.record(name, start.elapsed(), result, Vec::new());
    }

    /// Starts steps as processes, one after the other, beside those that follow. [`Steps::join`] waits for them, and prints their
    /// output.
    pub(crate) fn start(steps: Vec<(&'static str, Command)>) -> Lane {
        for (name, _) in &steps {
            println!("\n==> {name}: runs beside the next steps, and prints its output after them");
        }
        let run = |(name, command)| {
            let start = Instant::now();
            let (output, result) = captured(command);
            (name, start.elapsed(), output, result)
        };
        Lane(std::thread::spawn(move || steps.into_iter().map(run).collect()))
    }

    /// Waits for steps that [`Steps::start`] has started, and records their results.
    pub(crate) fn join(&mut self, lane: Lane) {
        let done = lane.0.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        for (name, took, output, result) in done {
            let output = String::from_utf8_lossy(&output);
            println!("\n==> {name}\n{output}");
            self.record(name, took, result, reasons(&output));
        }
    }

    /// Runs a step, and beside it others, as processes, and waits for all of them.
    pub(crate) fn beside(
        &mut self,
        first: (&'static str, impl FnOnce() -> anyhow::Result<()>),
        others: Vec<(&'static str, Command)>,
    ) {
        let lane = Steps::start(others);
        self.step(first.0, first.1);
        self.join(lane);
    }

    fn record(&mut self, name: &'static str, took: Duration, result: anyhow::Result<()>, reasons: Vec<String>) {
        let error = result.err().map(|error| format!("{error:#}"));
        match &error {
            None => println!("==> {name}: passed in {:.1} s", took.as_secs_f64()),
            Some(error) => println!("==> {name}: FAILED in {:.1} s: {error}", took.as_secs_f64()),
        }
        self.done.push(StepResult { name, took, error, reasons });
    }

    /// Prints the table and the closing line.
    ///
    /// # Errors
    /// A step failed, or none ran.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        print!("\n{}", self.summary());
        let failed: Vec<_> = self.done.iter().filter(|done| done.error.is_some()).map(|done| done.name).collect();
        if self.done.is_empty() {
            bail!("no step ran");
        }
        if !failed.is_empty() {
            bail!("failed: {}", failed.join(", "));
        }
        Ok(())
    }

    fn summary(&self) -> String {
        let width = self.done.iter().map(|done| done.name.len()).max().unwrap_or(0);
        let mut text = String::new();
        for done in &self.done {
            let result = if done.error.is_none() { "passed" } else { "FAILED" };
            let _ = writeln!(text, "{:width$}  {result}  {:>8.1} s", done.name, done.took.as_secs_f64());
        }
        let failed = self.done.iter().filter(|done| done.error.is_some()).count();
        let _ = writeln!(text, "{:width$}          {:>8.1} s", "all steps", self.begin.elapsed().as_secs_f64());
        let _ = writeln!(text, "steps: {} passed, {failed} failed", self.done.len() - failed);
        for done in self.done.iter().filter(|done| done.error.is_some()) {
            for reason in &done.reasons {
                let _ = writeln!(text, "{}: {reason}", done.name);
            }
        }
        text
    }
}

/// Returns the first lines of an output that tell of failures, without colours: at most 8, each of at most 160 characters. Lines
/// before the first `FAIL` are those of tests that passed, if there is one.
fn reasons(output: &str) -> Vec<String> {
    const WORDS: [&str; 5] = ["FAIL", "ERROR", "Error:", "error:", "panicked"];
    let plain = output.split('\u{1b}').enumerate().map(|(at, part)| match part.split_once('m') {
        Some((code, text)) if at > 0 && code.starts_with('[') => text,
        _ => part,
    });
    let plain: String = plain.collect();
    let from = plain.find("FAIL").map_or(0, |at| plain[..at].rfind('\n').map_or(0, |end| end + 1));
    let telling = plain[from..].lines().filter(|line| WORDS.iter().any(|word| line.contains(word)));
    telling.take(8).map(|line| line.trim().chars().take(160).collect()).collect()
}

/// Runs a command, and returns what it printed to both of its outputs, in order.
fn captured(mut command: Command) -> (Vec<u8>, anyhow::Result<()>) {
    let mut output = Vec::new();
    let mut run = || {
        let mut file = tempfile::tempfile()?;
        let result = shell::run(command.stdout(file.try_clone()?).stderr(file.try_clone()?));
        file.rewind()?;
        file.read_to_end(&mut output)?;
        result
    };
    let result = run();
    (output, result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_fails_the_job_but_not_the_next_step() {
        let mut steps = Steps::default();
        let mut ran_after = false;
        steps.step("breaks", || bail!("on purpose"));
        steps.step("goes on", || {
            ran_after = true;
            Ok(())
        });
        assert!(ran_after);
        assert!(steps.summary().ends_with("steps: 1 passed, 1 failed\n"), "{}", steps.summary());
        assert_eq!(steps.finish().unwrap_err().to_string(), "failed: breaks");
    }

    #[test]
    fn a_failed_process_beside_a_step_fails_the_job_with_its_output() {
        let mut command = shell::command("sh");
        command.args(["-c", "echo said; echo why >&2; exit 3"]);
        let (output, result) = captured(command);
        assert_eq!(String::from_utf8(output).unwrap(), "said\nwhy\n");
        assert!(result.unwrap_err().to_string().contains("exit status: 3"));
        let mut steps = Steps::default();
        steps.beside(
            ("passes", || Ok(())),
            vec![("breaks", shell::command("false")), ("goes on", shell::command("true"))],
        );
        assert!(steps.summary().ends_with("steps: 2 passed, 1 failed\n"), "{}", steps.summary());
    }

    #[test]
    fn the_summary_ends_with_what_a_failed_process_said_of_its_failure() {
        let mut command = shell::command("sh");
        command.args([
            "-c",
            r"printf 'Error: expected\n \033[31mFAIL\033[39m one.test.ts\nAssertionError: no\nend\n'; exit 1",
        ]);
        let mut steps = Steps::default();
        steps.beside(("passes", || Ok(())), vec![("breaks", command)]);
        let expected = "1 failed\nbreaks: FAIL one.test.ts\nbreaks: AssertionError: no\n";
        assert!(steps.summary().ends_with(expected), "{}", steps.summary());
    }

    #[test]
    fn a_job_passes_only_if_some_step_ran() {
        assert!(Steps::default().finish().is_err());
        let mut steps = Steps::default();
        steps.step("passes", || Ok(()));
        assert!(steps.finish().is_ok());
    }
}
