//! Workflows of the forge, linted by actionlint.

use anyhow::ensure;

use crate::{release, shell};

const FOLDER: &str = ".github/workflows";

/// Lints each workflow, and the scripts in it by shellcheck.
pub(crate) fn lint() -> anyhow::Result<()> {
    let files = release::files(&shell::root().join(FOLDER))?;
    ensure!(!files.is_empty(), "{FOLDER} has no workflow");
    shell::run(shell::command(release::tool("actionlint")?).args(files))
}
