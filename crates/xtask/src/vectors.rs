//! `cargo xtask vectors`: the reference, which shares no code with the product, writes vectors/ or compares with it,
//! and the second client of the native protocol plays them.

use crate::shell;

pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    let generator = "vectors/reference/generate.py";
    anyhow::ensure!(shell::root().join(generator).is_file(), "{generator} is missing: it writes the vectors");
    let python = shell::venv_required("python")?;
    shell::run(shell::command(python).arg(generator).arg(if check { "--check" } else { "--write" }))?;
    // A client that was written from spec/session-3.md alone.
    shell::run(shell::command("node").arg(shell::root().join("spec/second-client/play.mjs")))
}
