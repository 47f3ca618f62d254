//! `sealway broker profiles`, `audit` and `token`: a broker's files, without a running broker. Also reads
//! files that are sent to one.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use sealway_broker::audit;
use sealway_broker::profile::{self, Leniency};
use sealway_broker::wire::transit;
use sealway_runtime::output::{out, tell};

#[derive(Debug, clap::Subcommand)]
pub enum Profiles {
    /// Print the profiles of a file, or all its defects
    Check {
        /// File of profiles to check
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Warn of unknown keys instead of rejecting them
        #[arg(long)]
        lenient: bool,
    },
}

#[derive(Debug, clap::Subcommand)]
pub enum Audit {
    /// Verify that no line of an audit log was changed, removed, inserted or moved
    Verify {
        /// Log to verify; several that continue each other, the oldest first
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
        /// Last hash as noted earlier; without it a removed end is not found
        #[arg(long, value_name = "HASH")]
        last: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
pub struct Token {
    /// Name of the caller, as rules for callers have it
    name: String,
    /// File of tokens that gets the hash; made if it is not there
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
}

/// Prints a new token, once its hash is in the file.
pub(crate) fn token(command: &Token) -> anyhow::Result<()> {
    let (token, entry) = transit::draw(&command.name).map_err(|text| anyhow!("{}: {text}", command.name))?;
    let open = OpenOptions::new().append(true).create(true).mode(0o600).open(&command.file);
    let write = open.and_then(|mut file| {
        file.write_all(entry.as_bytes())?;
        file.sync_all()
    });
    write.with_context(|| command.file.display().to_string())?;
    writeln!(out(), "{token}")?;
    Ok(())
}

pub(crate) fn profiles(action: Profiles) -> anyhow::Result<ExitCode> {
    let Profiles::Check { file, lenient } = action;
    print(profile::check(&file, if lenient { Leniency::Lenient } else { Leniency::Strict }))
}

pub(crate) fn audit(action: Audit) -> anyhow::Result<ExitCode> {
    let Audit::Verify { files, last } = action;
    print(audit::report(&files, last.as_deref()).map_err(|broken| broken.to_string()))
}

/// Prints the findings to standard output, or the faults to standard error.
fn print(outcome: Result<String, String>) -> anyhow::Result<ExitCode> {
    match outcome {
        Ok(text) => {
            writeln!(out(), "{text}")?;
            Ok(ExitCode::SUCCESS)
        }
        Err(text) => {
            tell(format_args!("sealway: {text}"));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Reads a file of at most `len_max` bytes.
pub(crate) fn read(path: &Path, len_max: u64) -> anyhow::Result<Vec<u8>> {
    let file = std::fs::File::open(path).with_context(|| path.display().to_string())?;
    // Allocated at full length: a growing buffer would leave copies, and the file may be a key.
    let mut bytes = Vec::with_capacity(usize::try_from(len_max).unwrap_or_default() + 1);
    file.take(len_max + 1).read_to_end(&mut bytes).with_context(|| path.display().to_string())?;
    if bytes.len() as u64 > len_max {
        bail!("{}: longer than {len_max} bytes", path.display());
    }
    Ok(bytes)
}
