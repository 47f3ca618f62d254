//! `cargo xtask fuzz`: builds a target of the crate `fuzz` with libFuzzer's coverage and runs it.
//!
//! Not cargo-fuzz, which wants a nightly toolchain: the same instrumentation is in stable's LLVM, and asking for it by
//! flag works wherever the workspace builds.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail, ensure};

use crate::shell;

const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// The form of a build of the targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As a release, with the coverage of all crates.
    Whole,
    /// With the checks of a debug build, optimised a little, and with the coverage of this repository's crates: libraries are those
    /// that the tests have built. Minutes in place of an hour, and slower targets.
    Own,
}

/// The flags of cargo-fuzz, without the address sanitizer (nightly only; the fuzzed code has no `unsafe`).
const FLAGS: &[&str] = &[
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];
/// Further flags of a release: with the checks that it leaves out.
const RELEASE_FLAGS: &[&str] = &["-Ccodegen-units=1", "-Cdebug-assertions", "-Coverflow-checks"];
/// Calls the compiler with the flags, but for a build script or a macro, which runs without libFuzzer.
const WRAPPER: &str = r#"#!/bin/sh
case " $* " in
*" build_script_build "* | *" proc-macro "* | *" - "*) exec "$@" ;;
esac
exec "$@" FLAGS
"#;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A file of fuzz/src/bin without `.rs`; all of them in turn if left out
    target: Option<String>,
    /// Stop after this many executions (a minute a target if left out)
    #[arg(long)]
    runs: Option<u64>,
    /// Stop after this many seconds
    #[arg(long)]
    seconds: Option<u64>,
    /// Further arguments for libFuzzer, such as a crash file to run again
    #[arg(last = true)]
    rest: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let targets = targets()?;
    let chosen = choose(&targets, arguments.target.as_deref())?;
    build(&chosen, Form::Whole)?;
    let mut crashed = Vec::new();
    for target in &chosen {
        println!("==> fuzz {target}");
        if let Err(error) = fuzz(target, arguments) {
            println!("==> fuzz {target}: {error:#}");
            crashed.push(target.as_str());
        }
    }
    ensure!(crashed.is_empty(), "failed: {}. The inputs are in fuzz/artifacts", crashed.join(", "));
    Ok(())
}

/// Returns every file of fuzz/src/bin: listed by directory, never by hand.
///
/// # Errors
/// The folder cannot be read, or is empty.
pub(crate) fn targets() -> anyhow::Result<Vec<String>> {
    let folder = shell::root().join("fuzz/src/bin");
    let mut targets = Vec::new();
    for entry in std::fs::read_dir(&folder).context("fuzz/src/bin is missing: it holds a file for each target")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            targets.extend(path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned));
        }
    }
    targets.sort();
    ensure!(!targets.is_empty(), "fuzz/src/bin holds no target");
    Ok(targets)
}

fn choose(targets: &[String], wanted: Option<&str>) -> anyhow::Result<Vec<String>> {
    match wanted {
        None => Ok(targets.to_vec()),
        Some(name) if targets.iter().any(|target| target == name) => Ok(vec![name.to_owned()]),
        Some(name) => bail!("there is no target {name}; there are: {}", targets.join(", ")),
    }
}

fn fuzz_dir() -> PathBuf {
    shell::target_dir().join("fuzz")
}

/// Builds targets with the instrumentation.
///
/// # Errors
/// They do not compile.
pub(crate) fn build(targets: &[String], form: Form) -> anyhow::Result<()> {
    match form {
        Form::Whole => build_whole(targets),
        Form::Own => build_own(targets),
    }
}

fn build_own(targets: &[String]) -> anyhow::Result<()> {
    let wrapper = fuzz_dir().join("rustc");
    std::fs::create_dir_all(fuzz_dir())?;
    std::fs::write(&wrapper, WRAPPER.replace("FLAGS", &FLAGS.join(" ")))?;
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755))?;
    // With the features of the whole workspace, so that its libraries are those of the tests.
    let mut cargo = shell::cargo(&["build", "--locked", "--workspace", "--features", "sealway-fuzz/libfuzzer"]);
    cargo.args(targets.iter().flat_map(|target| ["--bin", target]));
    shell::run(cargo.env("RUSTC_WORKSPACE_WRAPPER", wrapper).env("CARGO_PROFILE_DEV_OPT_LEVEL", "1"))
}

fn build_whole(targets: &[String]) -> anyhow::Result<()> {
    let mut cargo = shell::cargo(&["build", "--release", "--locked", "-p", "sealway-fuzz", "--features", "libfuzzer"]);
    // With a named triple, build scripts and macros are built without the flags.
    cargo.args(["--target", TRIPLE]).arg("--target-dir").arg(fuzz_dir());
    for target in targets {
        cargo.args(["--bin", target]);
    }
    // Without LTO the build takes a fraction of the time; with symbols a crash is readable.
    cargo.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_STRIP", "none");
    let flags = [FLAGS, RELEASE_FLAGS].concat().join(" ");
    shell::run(cargo.env("RUSTFLAGS", flags).env_remove("CARGO_ENCODED_RUSTFLAGS"))
}

fn fuzz(target: &str, arguments: &Arguments) -> anyhow::Result<()> {
    let folders = Folders::of(target)?;
    let mut fuzzer = fuzzer(target, &folders, Form::Whole);
    fuzzer.args(limits(arguments)).args(&arguments.rest);
    // A file among the arguments is run again; folders would be run with it.
    if !arguments.rest.iter().any(|argument| !argument.starts_with('-')) {
        fuzzer.args(folders.inputs());
    }
    shell::run(&mut fuzzer)
}

/// Folders of a target: inputs that a run adds, crashes, and the corpus.
pub(crate) struct Folders {
    /// New inputs of the fuzzer, which git ignores.
    pub(crate) grown: PathBuf,
    /// Inputs of crashes, which git ignores.
    pub(crate) artifacts: PathBuf,
    /// Inputs that a person chose to keep.
    pub(crate) corpus: PathBuf,
}

impl Folders {
    /// Returns the folders of a target, and creates those that git ignores.
    ///
    /// # Errors
    /// One cannot be created.
    pub(crate) fn of(target: &str) -> anyhow::Result<Self> {
        let folder = |name: &str| shell::root().join("fuzz").join(name).join(target);
        let folders = Folders { grown: folder("grown"), artifacts: folder("artifacts"), corpus: folder("corpus") };
        std::fs::create_dir_all(&folders.grown)?;
        std::fs::create_dir_all(&folders.artifacts)?;
        Ok(folders)
    }

    /// Returns the folders that libFuzzer reads; it writes to the first one.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.grown, &self.corpus].into_iter().filter(|folder| folder.is_dir())
    }
}

/// Returns the command of a target that was built, without bounds and inputs.
pub(crate) fn fuzzer(target: &str, folders: &Folders, form: Form) -> Command {
    let folder = match form {
        Form::Whole => fuzz_dir().join(TRIPLE).join("release"),
        Form::Own => shell::target_dir().join("debug"),
    };
    let mut fuzzer = shell::command(folder.join(target));
    fuzzer.arg(format!("-artifact_prefix={}/", folders.artifacts.display()));
    fuzzer
}

/// Returns the bounds of a run, never none: a minute by default.
fn limits(arguments: &Arguments) -> Vec<String> {
    let mut limits = Vec::new();
    limits.extend(arguments.runs.map(|runs| format!("-runs={runs}")));
    limits.extend(arguments.seconds.map(|seconds| format!("-max_total_time={seconds}")));
    if limits.is_empty() {
        limits.push("-max_total_time=60".to_owned());
    }
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_target_is_refused_with_the_list() {
        let targets = ["body".to_owned(), "open".to_owned()];
        assert_eq!(choose(&targets, Some("open")).unwrap(), ["open"]);
        assert_eq!(choose(&targets, None).unwrap(), targets);
        assert!(choose(&targets, Some("opne")).unwrap_err().to_string().ends_with("there are: body, open"));
    }

    #[test]
    fn a_run_always_has_a_bound() {
        let arguments = |runs, seconds| Arguments { target: None, runs, seconds, rest: Vec::new() };
        assert_eq!(limits(&arguments(None, None)), ["-max_total_time=60"]);
        assert_eq!(limits(&arguments(Some(9), None)), ["-runs=9"]);
        assert_eq!(limits(&arguments(Some(9), Some(8))), ["-runs=9", "-max_total_time=8"]);
    }
}
