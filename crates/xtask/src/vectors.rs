//! `cargo xtask vectors`: the reference, which shares no code with the product, writes vectors/ or compares with it.

use crate::shell;

pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    let generator = "vectors/reference/generate.py";
    anyhow::ensure!(shell::root().join(generator).is_file(), "{generator} is missing: it writes the vectors");
    let python = shell::venv_required("python")?;
    shell::run(shell::command(python).arg(generator).arg(if check { "--check" } else { "--write" }))
}
