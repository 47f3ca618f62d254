//! The long form of the memory evidence: the tests of crates with `unsafe` under AddressSanitizer and LeakSanitizer, with the C code
//! of AWS-LC instrumented too.

use std::path::Path;
use std::process::Command;

use anyhow::{bail, ensure};

use super::record::Record;
use crate::shell;

const TRIPLE: &str = "x86_64-unknown-linux-gnu";
const RUST_FLAGS: &str = "-Zsanitizer=address";
const C_FLAGS: &str = "-fsanitize=address -fno-omit-frame-pointer -g1";
/// Packages whose tests run: the crates with `unsafe`.
const PACKAGES: [&str; 2] = ["sealway-awslc", "sealway-pkcs11-module"];
/// Manifests of crates that may have `unsafe` and do not run here, with the reason.
const ELSEWHERE: [(&str, &str); 1] =
    [("evidence/constant-time/Cargo.toml", "its one instruction sequence is for valgrind")];
/// Tests that count resident pages: the sanitizer keeps freed memory.
const SKIPPED: [&str; 1] = ["a_key_with_trailing_bytes_is_wiped_from_memory"];
/// Planted faults, and the words of the report of each.
const PLANTED: [(&str, &str); 3] =
    [("rust", "heap-buffer-overflow"), ("c", "heap-buffer-overflow"), ("leak", "detected memory leaks")];

pub(super) fn run() -> anyhow::Result<Record> {
    let mut record = Record::default();
    check_packages()?;
    let planted = planted()?;
    let mut test = shell::command("cargo");
    test.args(["+nightly", "test", "--locked", "--target", TRIPLE, "--no-fail-fast"]);
    test.args(PACKAGES.iter().flat_map(|package| ["-p", package]));
    test.args(["--lib", "--tests", "--"]).args(SKIPPED.iter().flat_map(|name| ["--skip", name]));
    test.env("RUSTFLAGS", RUST_FLAGS).env(format!("CFLAGS_{}", TRIPLE.replace('-', "_")), C_FLAGS);
    test.env("CARGO_TARGET_DIR", shell::target_dir().join("asan")).env("CARGO_INCREMENTAL", "0");
    test.env("WYCHEPROOF", shell::root().join(".venv/wycheproof"));
    test.env(
        "ASAN_OPTIONS",
        "detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1:check_initialization_order=1",
    );
    let output = shell::output(&mut test)?;
    let passed = passed(&output);
    ensure!(passed > 0, "no test ran");

    record.figure("tests under AddressSanitizer and LeakSanitizer", passed);
    record.figure("errors reported", 0);
    record.figure("planted faults reported", format!("{} of {}", planted.len(), PLANTED.len()));
    let rows = planted.into_iter().map(|(fault, line)| vec![fault.to_owned(), line]).collect();
    record.table("Planted faults", &["fault", "report"], rows);
    let rows = PACKAGES.iter().map(|package| vec![(*package).to_owned(), "tests run".to_owned()]);
    let elsewhere = ELSEWHERE.iter().map(|(path, why)| vec![(*path).to_owned(), format!("not run: {why}")]);
    record.table("Crates with `unsafe`", &["crate", ""], rows.chain(elsewhere).collect());
    record.missing(
        "Miri",
        "the component is not in a registry of packages; it comes from rustup's server alone, and Miri calls no C code",
        "AddressSanitizer, which follows calls into AWS-LC",
    );
    record.missing(
        "ThreadSanitizer",
        "it needs a standard library that is compiled with it (`-Zbuild-std`), and so the component rust-src of rustup",
        "queues and shared state have no `unsafe`: the compiler excludes data races",
    );
    record.missing(
        SKIPPED[0],
        "it counts resident pages, and the sanitizer keeps freed memory",
        "LeakSanitizer reports what is not freed; the test runs in `make test`",
    );
    Ok(record)
}

/// Checks that no crate may have `unsafe` and is left out: those do not inherit the workspace's lints.
fn check_packages() -> anyhow::Result<()> {
    for path in
        shell::tracked_files()?.iter().filter(|path| path.ends_with("/Cargo.toml") && !path.starts_with("fips/"))
    {
        let manifest: toml::Table = std::fs::read_to_string(shell::root().join(path))?.parse()?;
        let inherits = manifest.get("lints").and_then(|lints| lints.get("workspace")).is_some();
        let name = manifest.get("package").and_then(|package| package.get("name")).and_then(toml::Value::as_str);
        let Some(name) = name.filter(|_| !inherits) else { continue };
        let is_known = PACKAGES.contains(&name) || ELSEWHERE.iter().any(|(known, _)| known == path);
        ensure!(is_known, "{path}: the crate may have unsafe code, and its tests do not run here");
    }
    Ok(())
}

/// Compiles the program with planted faults, and returns the line of each report.
fn planted() -> anyhow::Result<Vec<(&'static str, String)>> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("planted.rs"), include_str!("planted.rs"))?;
    std::fs::write(path("planted.c"), include_str!("planted.c"))?;
    shell::run(in_folder("cc", folder.path()).args(C_FLAGS.split(' ')).args([
        "-O1",
        "-c",
        "planted.c",
        "-o",
        "planted.o",
    ]))?;
    shell::run(in_folder("ar", folder.path()).args(["rcs", "libplanted.a", "planted.o"]))?;
    let mut compile = in_folder("rustc", folder.path());
    compile.args(["+nightly", "-g", RUST_FLAGS, "--edition", "2024", "planted.rs", "-L", ".", "-l", "static=planted"]);
    shell::run(&mut compile)?;
    ensure!(Command::new(path("planted")).output()?.status.success(), "the program without a fault fails");
    let mut lines = Vec::new();
    for (fault, words) in PLANTED {
        let output = Command::new(path("planted")).arg(fault).output()?;
        let report = String::from_utf8_lossy(&output.stderr).into_owned();
        let line = report.lines().find(|line| line.contains(words));
        let Some(line) = line.filter(|_| !output.status.success()) else {
            bail!("{fault}: the planted fault is not reported")
        };
        // Without the process id and the addresses.
        let line = line.split_once("ERROR: ").map_or(line, |(_, line)| line);
        lines.push((fault, line.split(" on address").next().unwrap_or(line).to_owned()));
    }
    Ok(lines)
}

fn in_folder(program: &str, folder: &Path) -> Command {
    let mut command = shell::command(program);
    command.current_dir(folder);
    command
}

/// Returns the number of passed tests in the output of `cargo test`.
fn passed(output: &str) -> u64 {
    let counts = output
        .lines()
        .filter_map(|line| line.strip_prefix("test result: ok. ")?.split(' ').next()?.parse::<u64>().ok());
    counts.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_tests_of_all_programs_are_added() {
        let output = "test result: ok. 12 passed; 0 failed\nx\ntest result: ok. 3 passed; 0 failed\ntest result: FAILED. 9 passed";
        assert_eq!(passed(output), 15);
    }

    #[test]
    fn every_crate_that_may_have_unsafe_code_is_known() {
        check_packages().unwrap();
    }
}
