//! `cargo xtask model`: Verifpal over the models of `spec/model/`, where it is installed. Where it is not, the models' own
//! runner says so and sees no more than that they are consistent.

use crate::shell;

pub(crate) fn run() -> anyhow::Result<()> {
    let runner = "spec/model/run.py";
    anyhow::ensure!(shell::root().join(runner).is_file(), "{runner} is missing: it runs the models of wire 3");
    let python = shell::venv_required("python")?;
    shell::run(shell::command(python).arg(runner))
}
