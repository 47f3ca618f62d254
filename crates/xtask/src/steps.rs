//! Steps of a job: each is announced, timed and counted, and a failed one does not hide the next.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::bail;

/// A job that is running, and its steps so far.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<StepResult>,
}

struct StepResult {
    name: &'static str,
    took: Duration,
    error: Option<String>,
}

impl Steps {
    /// Runs one step now, and records its result.
    pub(crate) fn step(&mut self, name: &'static str, run: impl FnOnce() -> anyhow::Result<()>) {
        println!("\n==> {name}");
        let start = Instant::now();
        let error = run().err().map(|error| format!("{error:#}"));
        let took = start.elapsed();
        match &error {
            None => println!("==> {name}: passed in {:.1} s", took.as_secs_f64()),
            Some(error) => println!("==> {name}: FAILED in {:.1} s: {error}", took.as_secs_f64()),
        }
        self.done.push(StepResult { name, took, error });
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
        let total: Duration = self.done.iter().map(|done| done.took).sum();
        let _ = writeln!(text, "{:width$}          {:>8.1} s", "all steps", total.as_secs_f64());
        let _ = writeln!(text, "steps: {} passed, {failed} failed", self.done.len() - failed);
        text
    }
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
    fn a_job_passes_only_if_some_step_ran() {
        assert!(Steps::default().finish().is_err());
        let mut steps = Steps::default();
        steps.step("passes", || Ok(()));
        assert!(steps.finish().is_ok());
    }
}
