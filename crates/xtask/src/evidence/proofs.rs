//! Bounded exhaustive checks: the harnesses of `evidence/proofs` in their long form, and again over sources with a planted
//! defect, each of which must fail its harness.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::record::Record;
use crate::shell;

/// The folder of the planted defects.
const DEFECTS: &str = "evidence/proofs/defects";
/// The crates in which a defect can be planted, and all others of the harnesses that do not depend on one of these. They are built
/// under another profile, so that no other build takes their artefacts for its own.
const PLANTED_IN: [&str; 5] =
    ["sealway-awslc", "sealway-exchange", "sealway-pkcs11", "sealway-proto", "sealway-runtime"];

/// The seconds after which no further defect is planted in the source; all are planted if it is not set.
const SECONDS_VARIABLE: &str = "SEALWAY_PROOFS_SECONDS";
/// Names of patches without `.patch`, separated by commas, that are planted before the others.
const FIRST_VARIABLE: &str = "SEALWAY_PROOFS_FIRST";

/// The arguments that build and run the harnesses, with the features that the whole workspace has.
const TEST: [&str; 4] = ["test", "--workspace", "--test", "bounded"];

/// A line of a harness: the property held, or the planted defect was found.
#[derive(Debug, PartialEq)]
enum Line {
    Holds { harness: String, property: String, bound: String, cases: u64, millis: u64 },
    Finds { harness: String, defect: String, counterexample: String },
    Fails { harness: String, counterexample: String },
}

/// A change to the product's source that a harness must find.
#[derive(Debug, PartialEq)]
struct Defect {
    /// The harness that must fail.
    harness: String,
    /// The test that runs the harness.
    test: String,
    what: String,
    file: String,
}

pub(super) fn run() -> anyhow::Result<Record> {
    shell::run(shell::cargo(&TEST).arg("--no-run"))?;
    // The builds with planted defects need as much time as the long form.
    let mut planted_rows = Vec::new();
    let (output, planted) = std::thread::scope(|scope| {
        let long = scope.spawn(|| output(&mut test(&shell::root(), "long", "")));
        let planted = plant(&mut planted_rows);
        (long.join(), planted)
    });
    let output = output.map_err(|_| anyhow::anyhow!("the thread of the long form panicked"))??;
    print!("{}", output.text);
    ensure!(output.is_success, "a property does not hold");
    let lines: Vec<Line> = output.text.lines().filter_map(parse).collect();
    let mut record = Record::default();
    let mut held = Vec::new();
    let mut cases_sum = 0;
    let mut defects = Vec::new();
    for line in lines {
        match line {
            Line::Holds { harness, property, bound, cases, millis } => {
                cases_sum += cases;
                let seconds = format!("{}.{}", millis / 1000, millis % 1000 / 100);
                held.push(vec![harness, property, bound, cases.to_string(), seconds]);
            }
            Line::Finds { harness, defect, counterexample } => {
                defects.push(vec![harness, defect, "around the function".into(), counterexample]);
            }
            Line::Fails { harness, .. } => anyhow::bail!("{harness} failed, but its test did not"),
        }
    }
    held.sort();
    let wrapped = defects.len();
    let planted = planted?;
    defects.append(&mut planted_rows);
    defects.sort();
    record.figure("harnesses that hold", held.len());
    record.figure("cases", cases_sum);
    record.figure("defects planted around the code that are found", format!("{wrapped} of {wrapped}"));
    record.figure("defects planted in the source that are found", format!("{0} of {0}", planted.found));
    record.table("Properties", &["harness", "property", "bound", "cases", "seconds"], held);
    record.table("Planted defects", &["harness", "defect", "place", "counter-example"], defects);
    if !planted.left_out.is_empty() {
        record.missing(
            &format!("{} defects in the source: {}", planted.left_out.len(), planted.left_out.join("; ")),
            &format!("the run planted for {SECONDS_VARIABLE} seconds"),
            "the defects around the functions, which each harness finds",
        );
    }
    gaps(&mut record);
    Ok(record)
}

fn gaps(record: &mut Record) {
    record.missing(
        "Proofs by Kani",
        "`cargo install kani-verifier` builds version 0.68.0, but `cargo kani setup` loads its verifier from a release on GitHub, and no \
         registry has it",
        "exhaustive checks within a bound, over the same properties",
    );
    record.missing(
        "Proofs by Creusot or Prusti",
        "crates.io has neither tool: each is built from its repository with components of a nightly toolchain, Creusot with Why3, Prusti \
         with Viper",
        "the same",
    );
    record.missing(
        "Nonces in PostgreSQL, Redis and their tiers",
        "their rule is in SQL and in Lua, which a server executes",
        "the tests of the stores with real servers",
    );
}

/// The result of planting defects in the source.
#[derive(Debug, Default)]
struct SourceDefects {
    found: usize,
    /// Defects that the time of the run was too short for.
    left_out: Vec<String>,
}

/// Returns the patches of the folder by name, those of [`FIRST_VARIABLE`] before the others.
fn patches(first: &str) -> anyhow::Result<Vec<PathBuf>> {
    let folder = shell::root().join(DEFECTS);
    let mut others: Vec<PathBuf> =
        std::fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    others.sort();
    let mut patches = Vec::new();
    for name in first.split(',').filter(|name| !name.is_empty()) {
        let path = folder.join(format!("{name}.patch"));
        let at = others.iter().position(|other| *other == path);
        patches.push(others.remove(at.with_context(|| format!("{FIRST_VARIABLE}: there is no defect {name}"))?));
    }
    patches.append(&mut others);
    Ok(patches)
}

/// Plants each defect of the folder alone, and runs its harness.
fn plant(rows: &mut Vec<Vec<String>>) -> anyhow::Result<SourceDefects> {
    let patches = patches(&std::env::var(FIRST_VARIABLE).unwrap_or_default())?;
    let bound = match std::env::var(SECONDS_VARIABLE) {
        Ok(seconds) => Duration::from_secs(seconds.parse().with_context(|| SECONDS_VARIABLE.to_owned())?),
        Err(_) => Duration::MAX,
    };
    let begin = Instant::now();
    let mut planted = SourceDefects::default();
    let copy = shell::target_dir().join("evidence-proofs");
    copy_tree(&copy)?;
    let mut missed = Vec::new();
    for patch in &patches {
        let text = std::fs::read_to_string(patch)?;
        let defect = parse_defect(&text).with_context(|| format!("{} has no head", patch.display()))?;
        if begin.elapsed() > bound {
            planted.left_out.push(defect.what);
            continue;
        }
        let start = Instant::now();
        apply(&copy, patch, &[])?;
        let outcome = output(&mut planted_test(&copy, &defect.test));
        apply(&copy, patch, &["--reverse"])?;
        let outcome = outcome?;
        let found = outcome.text.lines().filter_map(parse).find_map(|line| match line {
            Line::Fails { harness, counterexample } if harness == defect.harness => Some(counterexample),
            _ => None,
        });
        let seconds = start.elapsed().as_secs();
        println!("{}: {} ({seconds} s)", defect.what, found.as_deref().unwrap_or("NOT FOUND"));
        ensure!(found.is_some() || outcome.has_run, "{}: the test did not run:\n{}", defect.what, outcome.text);
        match found {
            Some(found) => {
                planted.found += 1;
                rows.push(vec![defect.harness, defect.what, defect.file, found]);
            }
            None => missed.push(defect.what),
        }
    }
    ensure!(missed.is_empty(), "not found: {}", missed.join("; "));
    ensure!(planted.found > 0, "no defect was planted");
    Ok(planted)
}

/// Parses the head of a patch: `Harness:`, `Test:` and `Defect:`, a line each, and the name of the changed file.
fn parse_defect(text: &str) -> Option<Defect> {
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned());
    Some(Defect { harness: value("Harness:")?, test: value("Test:")?, what: value("Defect:")?, file: value("+++ b/")? })
}

/// Parses a line that the harnesses print.
fn parse(line: &str) -> Option<Line> {
    let cells: Vec<&str> = line.strip_prefix("proof\t")?.split('\t').collect();
    let text = |text: &str| text.to_owned();
    match cells[..] {
        ["holds", harness, property, bound, cases, millis] => Some(Line::Holds {
            harness: text(harness),
            property: text(property),
            bound: text(bound),
            cases: cases.parse().ok()?,
            millis: millis.parse().ok()?,
        }),
        ["finds", harness, defect, counterexample] => {
            Some(Line::Finds { harness: text(harness), defect: text(defect), counterexample: text(counterexample) })
        }
        ["fails", harness, counterexample] => {
            Some(Line::Fails { harness: text(harness), counterexample: text(counterexample) })
        }
        _ => None,
    }
}

fn test(root: &Path, form: &str, name: &str) -> Command {
    let mut command = shell::cargo(&TEST);
    command.current_dir(root).env("SEALWAY_PROOFS", form).args(["--", "--nocapture", name]);
    command
}

/// The test of a harness over a copy of the sources.
fn planted_test(copy: &Path, name: &str) -> Command {
    let mut command = shell::cargo(&TEST);
    for name in PLANTED_IN {
        // Any value that no other build has gives artefacts of their own.
        command.arg("--config").arg(format!("profile.dev.package.{name}.codegen-units=13"));
    }
    command.current_dir(copy).env("CARGO_TARGET_DIR", shell::target_dir()).env("SEALWAY_PROOFS", "short");
    // One function changes at a time.
    command.env("CARGO_INCREMENTAL", "1");
    command.args(["--", "--nocapture", name]);
    command
}

struct Output {
    text: String,
    is_success: bool,
    /// Set if the tests were built and run.
    has_run: bool,
}

fn output(command: &mut Command) -> anyhow::Result<Output> {
    let output = command.output().context("cannot start cargo")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let has_run = text.contains("test result: ");
    if !has_run {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(Output { text, is_success: output.status.success(), has_run })
}

/// Copies all files that git knows, with new times, so that cargo builds them anew.
fn copy_tree(copy: &Path) -> anyhow::Result<()> {
    if copy.exists() {
        std::fs::remove_dir_all(copy)?;
    }
    for path in shell::tracked_files()? {
        let (from, to) = (shell::root().join(&path), copy.join(&path));
        if let Some(folder) = to.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let bytes = std::fs::read(&from).with_context(|| format!("cannot read {path}"))?;
        std::fs::write(&to, bytes).with_context(|| format!("cannot write {}", to.display()))?;
    }
    Ok(())
}

/// Applies a patch to the copy, or takes it back.
fn apply(copy: &Path, patch: &Path, options: &[&str]) -> anyhow::Result<()> {
    let mut command = shell::command("patch");
    command.current_dir(copy).args(["--quiet", "--strip=1", "--input"]).arg(patch).args(options);
    shell::run(&mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_harnesses_are_read() {
        let line = parse("proof\tholds\ta\tnothing panics\tup to 3\t12\t3400");
        let (harness, property, bound) = ("a".into(), "nothing panics".into(), "up to 3".into());
        assert_eq!(line, Some(Line::Holds { harness, property, bound, cases: 12, millis: 3400 }));
        let found = parse("proof\tfails\ta\tinput x");
        assert_eq!(found, Some(Line::Fails { harness: "a".into(), counterexample: "input x".into() }));
        assert_eq!(parse("test a ... ok"), None);
    }

    #[test]
    fn named_defects_are_planted_before_the_others() {
        let all = patches("").unwrap();
        let chosen = patches("route-case,floor-ahead").unwrap();
        let names: Vec<_> = chosen.iter().filter_map(|path| path.file_stem()?.to_str()).collect();
        assert_eq!(names[..3], ["route-case", "floor-ahead", "base64-stray-bits"]);
        assert_eq!(chosen.len(), all.len());
        assert!(patches("route-caze").unwrap_err().to_string().contains("there is no defect route-caze"));
    }

    #[test]
    fn each_patch_names_its_harness_and_changes_one_file_that_exists() {
        for entry in std::fs::read_dir(shell::root().join(DEFECTS)).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let defect =
                parse_defect(&text).unwrap_or_else(|| panic!("{}: a line of the head is missing", path.display()));
            assert_eq!(text.lines().filter(|line| line.starts_with("+++ ")).count(), 1, "{}", path.display());
            assert!(shell::root().join(&defect.file).is_file(), "{}: {}", path.display(), defect.file);
        }
    }
}
