//! Files of a broker, looked at without one: profiles, audit logs. And files that are sent to one.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use sealway_broker::audit;
use sealway_broker::profile::{self, Leniency};

/// Columns of PEM.
const COLUMNS: usize = 64;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Profiles {
    /// Say everything that is wrong with a file, or that nothing is
    Check {
        /// The file
        file: PathBuf,
        /// Warn of unknown keys, as a broker with --lenient does
        #[arg(long)]
        lenient: bool,
    },
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Audit {
    /// Say whether the chain of a log holds
    Verify {
        /// The files, the oldest first, where it was put aside and goes on
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// A hash that was noted as the last: shows that nothing was cut off since
        #[arg(long, value_name = "HASH")]
        last: Option<String>,
    },
}

pub(super) fn profiles(action: Profiles) -> ExitCode {
    let Profiles::Check { file, lenient } = action;
    match profile::load(&file, if lenient { Leniency::Lenient } else { Leniency::Strict }) {
        Ok(profiles) => {
            for warning in profiles.warnings() {
                println!("warning: {warning}");
            }
            println!("{} profiles, nothing wrong", profiles.names().count());
            ExitCode::SUCCESS
        }
        Err(problems) => {
            eprintln!("{}:\n{}", file.display(), profile::lines(&problems));
            ExitCode::FAILURE
        }
    }
}

pub(super) fn audit(action: Audit) -> anyhow::Result<ExitCode> {
    let Audit::Verify { files, last } = action;
    let verified = match audit::verify_all(&files, last.as_deref()) {
        Ok(verified) => verified,
        Err(broken) => {
            eprintln!("sealway: {broken}");
            return Ok(ExitCode::FAILURE);
        }
    };
    for (file, log) in files.iter().zip(&verified) {
        println!(
            "{}: holds: {} lines, {} to {}, last hash {}",
            file.display(),
            log.lines,
            log.time.0,
            log.time.1,
            log.last_hash
        );
        if log.refused > 0 {
            println!("  {} operations were refused because it could not be written", log.refused);
        }
        if log.torn_bytes > 0 {
            println!("  {} bytes of a line that is not whole stand at its end", log.torn_bytes);
        }
        for line in &log.recovered {
            println!("  line {line}: a line that an earlier process had not finished was put aside");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A file of a bounded length.
pub(super) fn read(path: &Path, len_max: u64) -> anyhow::Result<Vec<u8>> {
    let file = std::fs::File::open(path).with_context(|| path.display().to_string())?;
    let mut bytes = Vec::new();
    file.take(len_max + 1).read_to_end(&mut bytes).with_context(|| path.display().to_string())?;
    if bytes.len() as u64 > len_max {
        bail!("{}: longer than {len_max} bytes", path.display());
    }
    Ok(bytes)
}

/// As PEM, with a line end at its end.
pub(super) fn pem(label: &str, der: &[u8]) -> String {
    use base64::Engine;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(COLUMNS).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}
