//! `cargo xtask coverage`: the lines of the broker and of the client that their tests and the end-to-end tests of the broker
//! run, measured on an instrumented program. It has a target folder of its own: the instrumentation is in everything that is
//! built.
//!
//! Not counted: generated code, and tests themselves, which would raise the share. A process that is killed reports nothing, so
//! the result is a lower bound.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use crate::shell;

/// The crates, by their folders and packages.
const CRATES: &[(&str, &str)] = &[("crates/broker/src/", "sealway-broker"), ("crates/client/src/", "sealway-client")];
/// The tests of the crates themselves and, of the end-to-end tests, those of the broker and those of the command line, whose calls
/// the client makes.
const SELECTED: &str = "not (binary(=commands) | binary(=load)) | test(/^(command_line|broker)::/)";
/// The required share of a crate's lines, in per cent.
const LEAST: usize = 80;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Tell the lines that no test runs too
    #[arg(long)]
    missing: bool,
    /// Run nothing: tell of the last run once more
    #[arg(long)]
    again: bool,
}

/// The lines that can run, each with whether it was run.
type Lines = BTreeMap<usize, bool>;

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if !arguments.again {
        // First: if it creates .venv anew, everything in it must be installed again.
        shell::run(&mut shell::command("scripts/setup-tests.sh"))?;
    }
    shell::run(&mut shell::command("scripts/setup-coverage.sh"))?;
    if !arguments.again {
        measure()?;
    }
    // A process that was killed while it wrote its counts leaves an unreadable file, and only that one is left out.
    let report = shell::output(llvm_cov()?.args(["report", "--lcov", "--failure-mode", "all"]))?;
    let mut below = Vec::new();
    for (folder, package) in CRATES {
        let files = files(&report, folder)?;
        print!("{}", table(&files, arguments.missing));
        let (run, all) = files.values().map(share).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        ensure!(all > 0, "{package}: no line was counted");
        println!("{:7} of {:7} lines, {}  {package}\n", run, all, percent(run, all));
        if run * 100 < all * LEAST {
            below.push(*package);
        }
    }
    ensure!(below.is_empty(), "less than {LEAST} % of the lines are run: {}", below.join(", "));
    Ok(())
}

/// Builds, and runs the tests.
fn measure() -> anyhow::Result<()> {
    shell::run(llvm_cov()?.args(["clean", "--profraw-only"]))?;
    let mut tests = llvm_cov()?;
    tests.args(["--no-report", "nextest", "--locked", "--no-fail-fast"]);
    for (_, package) in CRATES {
        tests.args(["--package", package]);
    }
    // The program and the tests that start it.
    tests.args(["--package", "sealway-cli", "--bin", "sealway", "--lib"]);
    tests.args(["--test", "broker", "--test", "commands", "--test", "load", "-E", SELECTED]);
    for (folder, _) in CRATES {
        for name in names(&shell::root().join(folder).with_file_name("tests"))? {
            tests.args(["--test", &name]);
        }
    }
    shell::run(&mut tests)
}

/// Returns the names of a folder's tests: its files, and folders with a `main.rs`.
fn names(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    if !folder.is_dir() {
        return Ok(found);
    }
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") || path.join("main.rs").is_file() {
            found.extend(path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned));
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the program that builds with instrumentation and merges the counts, over the tools of the compiler's own LLVM.
fn llvm_cov() -> anyhow::Result<std::process::Command> {
    let mut command = shell::command(shell::venv_required("cargo-llvm-cov")?);
    let tools = PathBuf::from(format!("/usr/lib/llvm-{}/bin", llvm_version()?));
    command.arg("llvm-cov").env("LLVM_COV", tools.join("llvm-cov")).env("LLVM_PROFDATA", tools.join("llvm-profdata"));
    // Incremental builds would only cost disk here.
    command.env("CARGO_LLVM_COV_TARGET_DIR", target_dir()?).env("CARGO_INCREMENTAL", "0");
    // Cargo finds nextest there.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [shell::root().join(".venv/bin")].into_iter().chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(folders)?);
    Ok(command)
}

/// Returns the major version of the compiler's LLVM: only tools of the same version can read its counts.
fn llvm_version() -> anyhow::Result<String> {
    let told = shell::output(shell::command("rustc").arg("-vV"))?;
    let version = told.lines().find_map(|line| line.strip_prefix("LLVM version: ")?.split('.').next());
    version.map(str::to_owned).context("rustc -vV tells no version of LLVM")
}

/// Returns a folder below the user's cache: it holds another build of the product and its libraries.
fn target_dir() -> anyhow::Result<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    Ok(cache.context("neither XDG_CACHE_HOME nor HOME is set")?.join("sealway/coverage"))
}

/// Returns the lines of a crate's files, from a report in lcov's form.
fn files(report: &str, folder: &str) -> anyhow::Result<BTreeMap<String, Lines>> {
    let mut files = BTreeMap::new();
    let mut current: Option<(String, Lines)> = None;
    let root = shell::root();
    for line in report.lines() {
        if let Some(path) = line.strip_prefix("SF:") {
            let name = Path::new(path).strip_prefix(&root).ok().and_then(Path::to_str).unwrap_or_default();
            current = is_counted(name, folder).then(|| (name.to_owned(), Lines::new()));
        } else if let (Some(counts), Some((_, lines))) = (line.strip_prefix("DA:"), &mut current) {
            let (number, count) = counts.split_once(',').context("a line of the report is cut")?;
            let (number, count): (usize, u64) = (number.parse()?, count.parse()?);
            lines.insert(number, count > 0);
        } else if line == "end_of_record"
            && let Some((name, mut lines)) = current.take()
        {
            let text = std::fs::read_to_string(root.join(&name)).with_context(|| name.clone())?;
            // Every file's tests are at its end.
            lines.split_off(&tests_begin(&text));
            files.insert(name, lines);
        }
    }
    if files.is_empty() {
        bail!("the report has no file of {folder}");
    }
    Ok(files)
}

fn is_counted(name: &str, folder: &str) -> bool {
    name.starts_with(folder)
        && !name.contains("/generated/")
        && !name.ends_with("/tests.rs")
        && !name.ends_with("_tests.rs")
        && !TEST_MODULES.contains(&name)
}

/// Modules of tests with other names.
const TEST_MODULES: &[&str] = &["crates/broker/src/operation/sign/published.rs"];

/// Returns the line at which a file's own tests begin; beyond its end if it has none.
fn tests_begin(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let begin = lines.windows(2).position(|pair| pair[0] == "#[cfg(test)]" && pair[1].ends_with('{'));
    begin.map_or(usize::MAX, |index| index + 1)
}

fn share(lines: &Lines) -> (usize, usize) {
    (lines.values().filter(|run| **run).count(), lines.len())
}

fn percent(run: usize, all: usize) -> String {
    let tenths = run * 1000 / all.max(1);
    format!("{:3}.{} %", tenths / 10, tenths % 10)
}

/// Formats a line for each file.
fn table(files: &BTreeMap<String, Lines>, missing: bool) -> String {
    let mut text = String::new();
    for (name, lines) in files.iter().filter(|(_, lines)| !lines.is_empty()) {
        let (run, all) = share(lines);
        text += &format!("{run:7} of {all:7} lines, {}  {name}\n", percent(run, all));
        if missing && run < all {
            text += &format!("        not run: {}\n", ranges(lines).join(" "));
        }
    }
    text
}

/// Returns the lines that were not run, as ranges; lines between them that cannot run do not split a range.
fn ranges(lines: &Lines) -> Vec<String> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    let mut goes_on = false;
    for (number, run) in lines {
        match found.last_mut() {
            Some(last) if goes_on && !run => last.1 = *number,
            _ if !run => found.push((*number, *number)),
            _ => {}
        }
        goes_on = !run;
    }
    found.iter().map(|(from, to)| if from == to { from.to_string() } else { format!("{from}-{to}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_without_generated_code_and_without_tests() {
        let root = shell::root();
        let record = |name: &str, lines: &str| format!("SF:{}\n{lines}end_of_record\n", root.join(name).display());
        let report = [
            record("crates/client/src/lib.rs", "DA:1,1\nDA:2,0\nDA:3,7\n"),
            record("crates/client/src/broker/generated/v1.rs", "DA:1,0\n"),
            record("crates/client/src/broker/call_tests.rs", "DA:1,5\n"),
            record("crates/broker/src/lib.rs", "DA:1,5\n"),
        ]
        .concat();
        let files = files(&report, "crates/client/src/").unwrap();
        assert_eq!(files.keys().collect::<Vec<_>>(), ["crates/client/src/lib.rs"]);
        assert_eq!(files.values().map(share).collect::<Vec<_>>(), [(2, 3)]);
        assert_eq!(table(&files, true).lines().last().unwrap().trim(), "not run: 2");
        assert!(super::files(&report, "crates/other/src/").is_err());
    }

    #[test]
    fn the_tests_at_the_end_of_a_file_are_no_part_of_it() {
        assert_eq!(tests_begin("fn a() {}\n\n#[cfg(test)]\nmod tests {\n"), 3);
        assert_eq!(tests_begin("#[cfg(test)]\nmod published;\nfn a() {}\n"), usize::MAX);
    }

    #[test]
    fn uncovered_lines_are_reported_as_ranges() {
        let lines = [(1, true), (4, false), (5, false), (9, false), (11, true), (12, false)];
        assert_eq!(ranges(&lines.into_iter().collect()), ["4-9", "12"]);
        assert_eq!((percent(799, 1000), percent(3, 3)), (" 79.9 %".to_owned(), "100.0 %".to_owned()));
    }

    #[test]
    fn the_selected_end_to_end_tests_are_there() {
        for file in ["broker/main.rs", "load/broker.rs", "commands/command_line.rs"] {
            assert!(shell::root().join("tests").join(file).is_file(), "{file}");
        }
    }
}
