//! The long form of the memory evidence: tests of the crates with `unsafe`, and of proto with each provider, under AddressSanitizer and
//! LeakSanitizer. The C code of AWS-LC and ring is instrumented too. Programs of others load the PKCS#11 module, instrumented.

mod planted;
mod unsafety;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::record::Record;
use crate::shell;

const TRIPLE: &str = "x86_64-unknown-linux-gnu";
const RUST_FLAGS: &str = "-Zsanitizer=address";
const C_FLAGS: &str = "-fsanitize=address -fno-omit-frame-pointer -g1";
const OPTIONS: &str = "allow_addr2line=1:strict_string_checks=1:detect_stack_use_after_return=1";
/// Packages whose tests run under the sanitizer.
const PACKAGES: [&str; 4] =
    ["sealway-awslc", "sealway-pkcs11-module", "sealway-evidence-memory", "sealway-evidence-constant-time"];
const MODULE: &str = "libsealway_pkcs11_module.so";
/// Tests that do not hold under the sanitizer, each with the reason.
const SKIPPED: [(&str, &str); 1] = [(
    "a_key_with_trailing_bytes_is_wiped_from_memory",
    "it counts resident pages, and the sanitizer keeps freed memory",
)];

/// Tests of the module that are left out, each with the reason.
const SKIPPED_OF_MODULE: [(&str, &str); 2] = [
    ("every_command_of_the_guide_does_what_it_says", "its commands are those of the guide, which preload no library"),
    (
        "curl_shows_a_client_certificate_whose_key_is_in_the_broker",
        "Debian 12's curl 7.88.1 waits forever in its first call of setlocale if the sanitizer's library is preloaded, without the module too",
    ),
];

/// A test program that cargo built.
#[derive(Debug, PartialEq)]
struct Program {
    package: String,
    name: String,
    file: PathBuf,
    /// The folder of the package, in which its tests run.
    folder: PathBuf,
}

/// Artefacts of a build: the test programs, and the module in C's form.
#[derive(Debug, Default, PartialEq)]
struct Artefacts {
    programs: Vec<Program>,
    module: Option<PathBuf>,
}

pub(super) fn run() -> anyhow::Result<Record> {
    let mut record = Record::default();
    let unsafety = unsafety::count()?;
    let planted = planted::report()?;
    let built = build()?;
    let reports = tempfile::tempdir()?;
    let mut rows = Vec::new();
    let mut passed = 0;
    for program in &built.programs {
        let count = play(program, reports.path())?;
        println!("{} {}: {count} tests", program.package, program.name);
        passed += count;
        rows.push(vec![program.package.clone(), program.name.clone(), count.to_string()]);
    }
    ensure!(passed > 0, "no test ran");
    let module = built.module.context("cargo built no module")?;
    let of_module = play_module(&module, reports.path())?;
    rows.push(vec!["sealway-cli".into(), "pkcs11, whose programs load the module".into(), of_module.to_string()]);
    let findings = findings(reports.path())?;
    ensure!(findings.is_empty(), "{}", findings.join("\n"));

    record.figure("tests under AddressSanitizer and LeakSanitizer", passed);
    record.figure("tests whose programs load the module under AddressSanitizer", of_module);
    record.figure("errors reported", findings.len());
    record.figure("planted faults reported", format!("{0} of {0}", planted.len()));
    record.figure("`unsafe` blocks", unsafety.iter().map(|of| of.blocks).sum::<usize>());
    record.table("Tests", &["crate", "program", "tests passed"], rows);
    record.table("Planted faults", &["fault", "report"], planted);
    let row = |of: unsafety::Count| vec![of.package, of.blocks.to_string(), of.items.to_string(), of.runs.to_owned()];
    record.table(
        "Crates with `unsafe`",
        &["crate", "blocks", "functions, implementations and declarations", ""],
        unsafety.into_iter().map(row).collect(),
    );
    gaps(&mut record);
    Ok(record)
}

fn gaps(record: &mut Record) {
    record.missing(
        "Miri",
        "the component is not in a registry of packages; it comes from rustup's server alone, and Miri calls no C code",
        "AddressSanitizer, which follows calls into AWS-LC and ring",
    );
    record.missing(
        "ThreadSanitizer",
        "it needs a standard library that is compiled with it (`-Zbuild-std`), and so the component rust-src of rustup",
        "queues and shared state have no `unsafe`: the compiler excludes data races",
    );
    record.missing(
        "tests of proto that read the repository's vectors, and the host of PKCS#11 tokens",
        "they need the testkit, whose 280 crates are not built under a sanitizer",
        "the other tests of proto, and all cases of the constant-time evidence; the host has no `unsafe`",
    );
    for (name, why) in SKIPPED {
        record.missing(name, why, "LeakSanitizer reports what is not freed; the test runs in `make test`");
    }
    for (name, why) in SKIPPED_OF_MODULE {
        record.missing(
            name,
            why,
            "the same programs with the module, by the other tests; the test runs in `make test`",
        );
    }
}

/// Builds the tests with the instrumentation.
fn build() -> anyhow::Result<Artefacts> {
    let mut cargo = shell::command("cargo");
    cargo.args(["+nightly", "test", "--no-run", "--locked", "--target", TRIPLE]);
    cargo.args(PACKAGES.iter().flat_map(|package| ["-p", package]));
    cargo.args(["--features", "sealway-evidence-memory/sanitized", "--lib", "--bins", "--tests"]);
    cargo.arg("--message-format=json-render-diagnostics");
    cargo.env("RUSTFLAGS", RUST_FLAGS).env_remove("CARGO_ENCODED_RUSTFLAGS").env_remove("CARGO");
    cargo.env(format!("CFLAGS_{}", TRIPLE.replace('-', "_")), C_FLAGS);
    cargo.env("CARGO_TARGET_DIR", shell::target_dir().join("asan")).env("CARGO_INCREMENTAL", "0");
    let built = parse(&shell::output(&mut cargo)?)?;
    ensure!(!built.programs.is_empty(), "cargo built no test program");
    Ok(built)
}

/// Parses the messages that cargo prints as JSON.
fn parse(messages: &str) -> anyhow::Result<Artefacts> {
    let mut built = Artefacts::default();
    for line in messages.lines() {
        let message: Value = serde_json::from_str(line).with_context(|| format!("no message of cargo: {line}"))?;
        if message["reason"] != "compiler-artifact" {
            continue;
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let files = message["filenames"].as_array().into_iter().flatten().filter_map(Value::as_str);
        built.module = files.map(PathBuf::from).find(|file| file.ends_with(MODULE)).or(built.module);
        let Some(file) = text(&message["executable"]).filter(|_| message["profile"]["test"] == true) else { continue };
        let manifest = text(&message["manifest_path"]).context("an artifact without a manifest")?;
        let folder = Path::new(&manifest).parent().context("a manifest without a folder")?.to_owned();
        let manifest: toml::Table = std::fs::read_to_string(&manifest)?.parse()?;
        let package = manifest.get("package").and_then(|package| package.get("name")).and_then(toml::Value::as_str);
        built.programs.push(Program {
            package: package.context("a manifest without a name")?.to_owned(),
            name: text(&message["target"]["name"]).context("an artifact without a name")?,
            file: file.into(),
            folder,
        });
    }
    built.programs.sort_by(|one, other| (&one.package, &one.name).cmp(&(&other.package, &other.name)));
    Ok(built)
}

/// Returns the options of the sanitizer, with the file that reports go to.
fn options(reports: &Path, has_leaks: bool) -> String {
    format!("{OPTIONS}:detect_leaks={}:log_path={}", u8::from(has_leaks), reports.join("report").display())
}

/// Runs a test program, and returns the number of tests that passed.
fn play(program: &Program, reports: &Path) -> anyhow::Result<u64> {
    let mut command = shell::command(&program.file);
    command.current_dir(&program.folder).args(SKIPPED.iter().flat_map(|(name, _)| ["--skip", name]));
    command.env("ASAN_OPTIONS", options(reports, true)).env("WYCHEPROOF", shell::root().join(".venv/wycheproof"));
    count_passed(&mut command, reports).with_context(|| format!("{} {}", program.package, program.name))
}

/// Runs the tests of the module with programs of others, which load the instrumented one.
fn play_module(module: &Path, reports: &Path) -> anyhow::Result<u64> {
    let symbols = shell::output(shell::command("nm").arg("-D").arg(module))?;
    ensure!(symbols.contains("__asan_init"), "{} is not instrumented", module.display());
    let mut tests = shell::cargo(&["test", "--workspace", "--locked", "--test", "pkcs11", "--"]);
    tests.args(SKIPPED_OF_MODULE.iter().flat_map(|(name, _)| ["--skip", name]));
    tests.env("SEALWAY_PKCS11_MODULE", module).env("SEALWAY_PKCS11_PRELOAD", runtime()?);
    // Programs end without freeing what they have.
    tests.env("ASAN_OPTIONS", options(reports, false));
    count_passed(&mut tests, reports).context("the tests of the module")
}

/// Returns the path of the sanitizer's runtime that is loaded before a program's own libraries: gcc's.
fn runtime() -> anyhow::Result<PathBuf> {
    let path = PathBuf::from(shell::output(shell::command("cc").arg("-print-file-name=libasan.so"))?.trim());
    ensure!(path.is_absolute(), "cc has no libasan.so");
    // The name may be a link, or a script of the linker.
    path.canonicalize().with_context(|| path.display().to_string())
}

fn count_passed(command: &mut Command, reports: &Path) -> anyhow::Result<u64> {
    let output = command.output()?;
    if !output.status.success() {
        let text = [&output.stdout[..], &output.stderr[..]].concat();
        bail!("{}\n{}\n{}", output.status, String::from_utf8_lossy(&text), findings(reports)?.join("\n"));
    }
    Ok(passed(&String::from_utf8_lossy(&output.stdout)))
}

/// Returns the number of passed tests in the output of test programs.
fn passed(output: &str) -> u64 {
    let counts = output
        .lines()
        .filter_map(|line| line.strip_prefix("test result: ok. ")?.split(' ').next()?.parse::<u64>().ok());
    counts.sum()
}

/// Returns the reports of all processes.
fn findings(reports: &Path) -> anyhow::Result<Vec<String>> {
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(reports)? {
        texts.push(String::from_utf8_lossy(&std::fs::read(entry?.path())?).into_owned());
    }
    Ok(texts)
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
    fn test_programs_and_the_module_are_read_from_the_messages_of_cargo() {
        let manifest = shell::root().join("crates/pkcs11-module/Cargo.toml");
        let artifact = |executable: Value, is_test: bool, files: &[&str]| {
            serde_json::json!({
                "reason": "compiler-artifact", "manifest_path": manifest, "target": { "name": "unit" },
                "profile": { "test": is_test }, "filenames": files, "executable": executable,
            })
        };
        let lines = [
            serde_json::json!({ "reason": "build-finished" }),
            artifact(Value::Null, false, &["/d/libsealway_pkcs11_module.so", "/d/libsealway_pkcs11_module.rlib"]),
            artifact("/d/bin".into(), false, &["/d/bin"]),
            artifact("/d/unit".into(), true, &["/d/unit"]),
        ];
        let built = parse(&lines.map(|line| line.to_string()).join("\n")).unwrap();
        assert_eq!(built.module, Some("/d/libsealway_pkcs11_module.so".into()));
        let program = Program {
            package: "sealway-pkcs11-module".into(),
            name: "unit".into(),
            file: "/d/unit".into(),
            folder: shell::root().join("crates/pkcs11-module"),
        };
        assert_eq!(built.programs, [program]);
    }
}
