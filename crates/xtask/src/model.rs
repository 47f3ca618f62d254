//! `cargo xtask model`: Verifpal and SPASS over the models of `spec/model/`, and its searches.

use crate::shell;

pub(crate) fn run() -> anyhow::Result<()> {
    let runner = "spec/model/run.py";
    anyhow::ensure!(shell::root().join(runner).is_file(), "{runner} is missing: it runs the models of wire 3");
    let (python, verifpal) = (shell::venv_required("python")?, shell::venv_required("verifpal")?);
    shell::run(shell::command(python).arg(runner).env("VERIFPAL", verifpal))
}
