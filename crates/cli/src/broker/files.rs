//! `sealway broker profiles` and `sealway broker audit`: the files of a broker, without one that serves.

use std::path::PathBuf;
use std::process::ExitCode;

use sealway_broker::audit;
use sealway_broker::profile::{self, Leniency};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Profiles {
    /// Say what is in a file of profiles, or everything that is wrong with it
    Check {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Warn of unknown keys, and go on
        #[arg(long)]
        lenient: bool,
    },
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Audit {
    /// Say whether nothing in an audit log was changed, taken out, put in or moved
    Verify {
        /// The log; several that go on from each other, the oldest first
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
        /// The last hash as it was noted earlier: without it nothing shows that the end was cut off
        #[arg(long, value_name = "HASH")]
        last: Option<String>,
    },
}

pub(super) fn profiles(action: Profiles) -> ExitCode {
    let Profiles::Check { file, lenient } = action;
    said(profile::check(&file, if lenient { Leniency::Lenient } else { Leniency::Strict }))
}

pub(super) fn audit(action: Audit) -> ExitCode {
    let Audit::Verify { files, last } = action;
    said(audit::report(&files, last.as_deref()).map_err(|broken| broken.to_string()))
}

/// What was found to standard output, what is wrong to standard error.
fn said(outcome: Result<String, String>) -> ExitCode {
    match outcome {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(text) => {
            eprintln!("sealway: {text}");
            ExitCode::FAILURE
        }
    }
}
