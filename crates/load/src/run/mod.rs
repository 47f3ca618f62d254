//! Runs the jobs of `sealway load`: resolves the arguments, runs the plan, displays and judges it, and writes reports.
//!
//! Exit codes: 0, the run passed; 1, requests, assertions or thresholds failed, or nothing could be measured; 2, the command line
//! is wrong.

mod channel;
mod compare;
mod drive;
mod single;
mod source;
mod sweep;
mod view;

use std::fmt::Display;
use std::process::ExitCode;

pub(crate) use self::drive::Driver;
use crate::flags::{Action, Extra, Job, LoadArgs, resolve};

/// Reason why a job failed.
#[derive(Debug)]
pub(crate) enum JobError {
    /// Problems with the command line, a line each.
    Usage(String),
    /// Failure of the job, with its message unless the message was printed already.
    Failed(Option<String>),
}

impl JobError {
    /// Creates the failure of a wrong command line.
    pub(crate) fn usage(what: impl Display) -> Self {
        JobError::Usage(what.to_string())
    }

    /// Creates a failure whose message was not printed yet.
    pub(crate) fn failed(what: impl Display) -> Self {
        JobError::Failed(Some(what.to_string()))
    }
}

/// Runs `sealway load` and returns its exit code.
pub async fn load(args: LoadArgs) -> ExitCode {
    raise_descriptor_limit();
    match job(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(JobError::Usage(problems)) => {
            for problem in problems.lines() {
                say(format_args!("sealway load: {problem}"));
            }
            ExitCode::from(2)
        }
        Err(JobError::Failed(reason)) => {
            if let Some(reason) = reason {
                say(format_args!("sealway load: {reason}"));
            }
            ExitCode::FAILURE
        }
    }
}

async fn job(args: LoadArgs) -> Result<(), JobError> {
    match args.action {
        None => source::run(args).await,
        Some(Action::Autotune { url, search, flags }) => sweep::autotune(url.as_deref(), &search, &flags).await,
        Some(Action::Matrix { file, matrix, search, flags }) => {
            sweep::matrix(file.as_deref(), &matrix, &search, &flags).await
        }
        Some(Action::Compare(args)) => compare::run(&args),
        Some(Action::Channel(args)) => channel::run(&args).await,
    }
}

/// Resolves flags to a job, or returns all problems with them.
fn checked(url: Option<&str>, flags: &crate::flags::Flags, extra: Extra) -> Result<Job, JobError> {
    resolve(url, flags, extra).map_err(JobError::usage)
}

/// Raises the soft limit of descriptors to the hard limit, because each connection needs a descriptor.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If the limit stays low, the run names it as soon as descriptors run out.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Prints a line on standard error. A reader that has gone, as after `2>&1 | head`, changes neither the run nor its exit code.
pub(crate) fn say(line: impl Display) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Prints text on standard output; a reader that has gone does not fail the run.
pub(crate) fn print(text: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
