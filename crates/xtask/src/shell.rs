//! Commands as the jobs start them: from the repository's root, without the environment that `cargo run` adds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// Returns the root folder of the repository.
pub(crate) fn root() -> PathBuf {
    let manifest_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    // The path is that of the checkout that compiled this program. A shared target folder can contain a binary that another
    // clone compiled; `cargo run` sets the right one at run time.
    let manifest_dir = std::env::var_os("CARGO_MANIFEST_DIR").map_or(manifest_dir.to_owned(), PathBuf::from);
    manifest_dir.ancestors().nth(2).unwrap_or(&manifest_dir).to_owned()
}

/// Creates a command that starts at the root.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    // Build scripts that watch these would run again, and everything that depends on them, at each change between `cargo` and
    // `cargo xtask`.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")) {
            command.env_remove(name);
        }
    }
    command
}

/// Creates a command of this program, for the same checkout.
pub(crate) fn xtask() -> Command {
    // A step may have built this program anew: a path would name the new file, or one that is gone. Not `self`: another program
    // may start the command.
    let mut command = command(format!("/proc/{}/exe", std::process::id()));
    command.env("CARGO_MANIFEST_DIR", root().join("crates/xtask"));
    command
}

/// Creates a cargo command, with the cargo that started this program.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// Returns a command that takes only the processor time that nothing else wants, or little of it where the system allows no idle
/// class.
pub(crate) fn idle(of: &Command) -> Command {
    let is_allowed = output(Command::new("chrt").args(["--idle", "0", "true"])).is_ok();
    let (program, arguments) = if is_allowed { ("chrt", ["--idle", "0"]) } else { ("nice", ["-n", "19"]) };
    let mut idle = command(program);
    idle.args(arguments).arg(of.get_program()).args(of.get_args());
    for (name, value) in of.get_envs() {
        match value {
            Some(value) => idle.env(name, value),
            None => idle.env_remove(name),
        };
    }
    idle
}

/// Returns a program of `.venv/bin`, if it exists.
pub(crate) fn venv(program: &str) -> Option<PathBuf> {
    let path = root().join(".venv/bin").join(program);
    path.is_file().then_some(path)
}

/// Returns a program, as [`venv`], or an error that says how to install it.
pub(crate) fn venv_required(program: &str) -> anyhow::Result<PathBuf> {
    venv(program).with_context(|| format!("{program} is missing from .venv/bin: run scripts/setup-tests.sh"))
}

/// Returns the target folder of cargo.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// Returns the paths of all files that git tracks, or would track, from the root.
///
/// # Errors
/// If this is not a clone.
pub(crate) fn tracked_files() -> anyhow::Result<BTreeSet<String>> {
    let list = output(command("git").args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]))
        .context("the files are those that git lists, so this needs a clone")?;
    let paths = list.split('\0').filter(|path| root().join(path).is_file());
    Ok(paths.map(str::to_owned).collect())
}

/// Runs it with the output of this program; an exit other than 0 is an error.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let line = describe(command);
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(())
}

/// Runs it and returns its output.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let line = describe(command);
    let output =
        command.stderr(std::process::Stdio::inherit()).output().with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` failed: {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` printed what is not UTF-8"))
}

/// Formats the command as a person would type it.
fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.strip_prefix(root()).unwrap_or(program);
    let program = if program.is_absolute() { Path::new(program.file_name().unwrap_or_default()) } else { program };
    let mut line = program.to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_command_is_an_error_that_names_it() {
        let error = run(command("false").arg("now")).unwrap_err().to_string();
        assert!(error.contains("`false now` failed"), "{error}");
        assert!(run(&mut command("true")).is_ok());
    }

    #[test]
    fn a_program_whose_file_is_gone_starts_itself() {
        const REMOVED: &str = "XTASK_TEST_REMOVED";
        if let Some(file) = std::env::var_os(REMOVED) {
            std::fs::remove_file(&file).unwrap();
            let listed = output(xtask().env_remove(REMOVED).arg("--list")).unwrap();
            assert!(listed.contains("a_program_whose_file_is_gone_starts_itself: test"), "{listed}");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("copy");
        std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
        let test = "shell::tests::a_program_whose_file_is_gone_starts_itself";
        let printed = output(command(&copy).args(["--exact", test]).env(REMOVED, &copy)).unwrap();
        assert!(printed.contains("1 passed"), "{printed}");
        assert!(!copy.exists());
    }

    #[test]
    fn the_root_holds_the_workspace() {
        assert!(root().join("Cargo.lock").is_file());
    }
}
