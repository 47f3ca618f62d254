//! The whole job for the command line: what was asked for, run, shown, judged, written down. Returns the exit code.
//!
//! 0: the run went as it must. 1: it did not: requests, assertions or thresholds failed, or it could not be measured. 2: the
//! command line is wrong.

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

/// Why a job did not end well.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line is wrong; everything that is, a line each.
    Usage(String),
    /// What was asked for failed; what has to be said, if it was not said yet.
    Failed(Option<String>),
}

impl Failure {
    /// The command line is wrong.
    pub(crate) fn usage(what: impl Display) -> Self {
        Failure::Usage(what.to_string())
    }

    /// Something failed that nobody has said yet.
    pub(crate) fn failed(what: impl Display) -> Self {
        Failure::Failed(Some(what.to_string()))
    }
}

/// `sealway load`.
pub async fn load(args: LoadArgs) -> ExitCode {
    raise_descriptor_limit();
    match job(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(problems)) => {
            for problem in problems.lines() {
                say(format_args!("sealway load: {problem}"));
            }
            ExitCode::from(2)
        }
        Err(Failure::Failed(reason)) => {
            if let Some(reason) = reason {
                say(format_args!("sealway load: {reason}"));
            }
            ExitCode::FAILURE
        }
    }
}

async fn job(args: LoadArgs) -> Result<(), Failure> {
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

/// Resolves flags, or says everything that is wrong with them.
fn checked(url: Option<&str>, flags: &crate::flags::Flags, extra: Extra) -> Result<Job, Failure> {
    resolve(url, flags, extra).map_err(Failure::usage)
}

/// A connection is a descriptor, and the usual limit is that of a program with few of them.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where it cannot be, the run says of what it runs out.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// A line on standard error. A reader who has gone, as after `2>&1 | head`, changes neither the run nor its exit code.
pub(crate) fn say(line: impl Display) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Text on standard output; a reader who has gone is no failure of the run.
pub(crate) fn print(text: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
