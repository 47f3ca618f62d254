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

/// Longest file of tokens, in bytes: several times that of the most tokens.
const TOKENS_LEN_MAX: u64 = 1024 * 1024;

/// Prints a new token, once its hash is in the file. A file that would not be read with it is left as it is.
pub(crate) fn token(command: &Token) -> anyhow::Result<()> {
    let path = &command.file;
    let (token, entry) = transit::draw(&command.name).map_err(|text| anyhow!("{}: {text}", command.name))?;
    let known = if path.exists() { String::from_utf8(read(path, TOKENS_LEN_MAX)?) } else { Ok(String::new()) };
    let known = known.map_err(|_| anyhow!("{}: it is not UTF-8", path.display()))?;
    // An editor may have left the last line without its end.
    let entry = if known.is_empty() || known.ends_with('\n') { entry } else { format!("\n{entry}") };
    transit::Tokens::parse(&format!("{known}{entry}"), Leniency::Strict)
        .map_err(|problems| anyhow!("{}:\n{}", path.display(), profile::lines(&problems)))?;
    let open = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    let write = open.and_then(|mut file| {
        file.write_all(entry.as_bytes())?;
        file.sync_all()
    });
    write.with_context(|| path.display().to_string())?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_added_to_a_file_that_is_read_with_it_and_to_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens.yaml");
        let add = |name: &str| token(&Token { name: name.into(), file: file.clone() });
        let read = || std::fs::read_to_string(&file).unwrap();
        add("a").unwrap();
        // As an editor may leave it.
        std::fs::write(&file, read().trim_end()).unwrap();
        add("b").unwrap();
        assert!(transit::Tokens::parse(&read(), Leniency::Strict).is_ok() && read().lines().count() == 2);
        for (text, expected) in [("- {Token: a}\n", "Sha256: required"), ("a: [\n", "line 2"), ("\u{0}", "line 1")] {
            std::fs::write(&file, text).unwrap();
            let error = add("c").unwrap_err().to_string();
            assert!(error.contains(expected) && error.starts_with(file.to_str().unwrap()), "{error}");
            assert_eq!(read(), text);
        }
        std::fs::write(&file, b"\xff").unwrap();
        assert!(add("c").unwrap_err().to_string().contains("UTF-8"));
    }
}
