//! The copy of the workspace that contains the mutants, and its build.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::mutant::Mutant;
use super::schemata::{self, SWITCH_MODULE, Schemata};
use crate::shell;

/// Rounds of builds until all mutants that do not compile are left out; the compiler reports later kinds of errors only when
/// the earlier ones are gone.
const ROUNDS_MAX: usize = 30;

/// The compiler's code of a match that lacks patterns.
const MISSING_PATTERN: &str = "E0004";

/// End of the names of a package's test programs, in the copy alone: `--lib` or `--test=vectors` would select those of all packages,
/// and one package alone would build its dependencies with other features than the workspace.
const OF_COPY: &str = "with-mutants";

/// The manifest of the test kit, and its features by default.
const TESTKIT: &str = "crates/testkit/Cargo.toml";
const SERVERS: &str = r#"default = ["servers"]"#;

/// The tests of a package, built with all mutants that compile.
pub(super) struct Build {
    pub(super) binaries: Vec<Binary>,
    /// Mutants that do not compile.
    pub(super) unviable: BTreeSet<u32>,
    /// Mutants that a switch cannot select.
    pub(super) left_out: BTreeSet<u32>,
}

/// A program of tests, and the folder in which they run.
#[derive(Clone)]
pub(super) struct Binary {
    pub(super) path: PathBuf,
    pub(super) name: String,
    /// The folder in which its tests run.
    pub(super) folder: PathBuf,
}

/// Returns the folder of everything that a run leaves.
pub(super) fn folder() -> PathBuf {
    shell::target_dir().join("evidence/mutation")
}

/// Builds `targets` of a package (`--lib`, `--test=NAME`) with the mutants in it; of its root only `modules`, if there are any.
///
/// # Errors
/// The package does not compile for a reason other than a mutant.
pub(super) fn build(package: &str, modules: &[&str], targets: &[&str], mutants: &[&Mutant]) -> anyhow::Result<Build> {
    let mut files: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants {
        files.entry(&mutant.file).or_default().push(mutant);
    }
    let package_folder = package_folder(mutants)?;
    let root = format!("{package_folder}/src/lib.rs");
    files.entry(&root).or_default();
    let tests = test_programs(&package_folder, targets)?;
    let tree = copy_workspace(&files, &package_folder, &tests)?;
    let mut built = Build { binaries: Vec::new(), unviable: BTreeSet::new(), left_out: BTreeSet::new() };
    let mut texts: BTreeMap<&str, Schemata> = BTreeMap::new();
    for round in 0..ROUNDS_MAX {
        for (&file, mutants) in &files {
            let chosen: Vec<(u32, &Mutant)> = mutants
                .iter()
                .filter(|mutant| !built.unviable.contains(&mutant.number))
                .map(|mutant| (mutant.number, *mutant))
                .collect();
            let mut source = std::fs::read_to_string(shell::root().join(file)).with_context(|| file.to_owned())?;
            if file == root && !modules.is_empty() {
                source = schemata::with_modules(&source, modules).with_context(|| file.to_owned())?;
            }
            let made = Schemata::new(&source, &chosen).with_context(|| file.to_owned())?;
            built.left_out.extend(&made.left_out);
            let module = if file == root { SWITCH_MODULE } else { "" };
            write_if_changed(&tree.join(file), format!("{}{module}", made.text).as_bytes())?;
            texts.insert(file, made);
        }
        let mut arguments = vec!["test", "--no-run", "--workspace"];
        arguments.extend(tests.iter().flat_map(|(name, _)| ["--test", name.as_str()]));
        match cargo(&tree, &arguments, &texts)? {
            Compilation::Errors(numbers) => {
                println!("mutation: {package}: round {round}: {} mutants do not compile", numbers.len());
                built.unviable.extend(numbers);
            }
            Compilation::Binaries(found) => {
                built.binaries = found;
                return Ok(built);
            }
        }
    }
    bail!("{package} does not compile after {ROUNDS_MAX} rounds")
}

/// Returns the test programs of `targets` in the copy: their names there, and their roots.
fn test_programs(package_folder: &str, targets: &[&str]) -> anyhow::Result<Vec<(String, String)>> {
    let program = |target: &&str| {
        let Some(name) = target.strip_prefix("--test=") else {
            ensure!(*target == "--lib", "no target of a package: {target}");
            return Ok((format!("unit-tests-{OF_COPY}"), "src/lib.rs".to_owned()));
        };
        let roots = [format!("tests/{name}.rs"), format!("tests/{name}/main.rs")];
        let exists = |root: &String| shell::root().join(package_folder).join(root).exists();
        let root = roots.into_iter().find(exists).with_context(|| format!("{package_folder} has no test {name}"))?;
        Ok((format!("{name}-{OF_COPY}"), root))
    };
    targets.iter().map(program).collect()
}

fn package_folder(mutants: &[&Mutant]) -> anyhow::Result<String> {
    let file = &mutants.first().context("the package has no mutants")?.file;
    let (folder, _) = file.split_once("/src/").with_context(|| format!("{file} is not in a folder src"))?;
    Ok(folder.to_owned())
}

/// Copies the files that git tracks, except those that `mutated` names, and leaves those that are the same, so that cargo builds
/// only what changed. Adds the test programs to the package's manifest.
fn copy_workspace(
    mutated: &BTreeMap<&str, Vec<&Mutant>>,
    package_folder: &str,
    tests: &[(String, String)],
) -> anyhow::Result<PathBuf> {
    let tree = folder().join("tree");
    let manifest = format!("{package_folder}/Cargo.toml");
    for path in shell::tracked_files()?.iter().filter(|path| !mutated.contains_key(path.as_str())) {
        let mut content = std::fs::read(shell::root().join(path))?;
        if path == "Cargo.toml" {
            // Lints would reject what mutants leave unused.
            let manifest = String::from_utf8(content)?;
            content = manifest.replace("\"deny\"", "\"allow\"").replace("\"warn\"", "\"allow\"").into_bytes();
        } else if path == TESTKIT && package_folder == "crates/proto" {
            // The test servers depend on proto, so that it would need all its modules, and they a build after each change of it.
            let manifest = String::from_utf8(content)?;
            ensure!(manifest.contains(SERVERS), "{TESTKIT} does not have {SERVERS}");
            content = manifest.replace(SERVERS, "default = []").into_bytes();
        } else if *path == manifest {
            for (name, root) in tests {
                content.extend(format!("\n[[test]]\nname = \"{name}\"\npath = \"{root}\"\n").into_bytes());
            }
        }
        write_if_changed(&tree.join(path), &content)?;
    }
    let venv = tree.join(".venv");
    if !venv.exists() && shell::root().join(".venv").exists() {
        std::os::unix::fs::symlink(shell::root().join(".venv").canonicalize()?, venv)?;
    }
    Ok(tree)
}

fn write_if_changed(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    if std::fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    std::fs::create_dir_all(path.parent().context("a file has a folder")?)?;
    std::fs::write(path, content).with_context(|| path.display().to_string())
}

enum Compilation {
    Errors(BTreeSet<u32>),
    Binaries(Vec<Binary>),
}

/// Runs cargo in the copy and reads its messages.
fn cargo(tree: &Path, arguments: &[&str], schemata: &BTreeMap<&str, Schemata>) -> anyhow::Result<Compilation> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).args(["--locked", "--quiet", "--message-format=json"]).current_dir(tree);
    command.env("CARGO_TARGET_DIR", shell::target_dir()).env("CARGO_INCREMENTAL", "1").stderr(Stdio::inherit());
    command.env_remove("CARGO_MANIFEST_DIR");
    let output = command.output().context("cannot start cargo")?;
    let mut numbers = BTreeSet::new();
    let mut binaries = Vec::new();
    let mut unexplained = None;
    for line in output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let message: Value = serde_json::from_slice(line)?;
        if message.get("reason").and_then(Value::as_str) == Some("compiler-artifact") {
            binaries.extend(binary(&message));
        }
        let Some(diagnostic) = message.get("message").filter(|diagnostic| is_error(diagnostic)) else { continue };
        let found = blamed(diagnostic, schemata);
        if found.is_empty() {
            let text = diagnostic.get("rendered").and_then(Value::as_str).unwrap_or_default();
            unexplained.get_or_insert(text.to_owned());
        }
        numbers.extend(found);
    }
    if output.status.success() {
        return Ok(Compilation::Binaries(binaries));
    }
    ensure!(!numbers.is_empty(), "no mutant is to blame:\n{}", unexplained.unwrap_or_default());
    Ok(Compilation::Errors(numbers))
}

/// An error with a place; the last line of each failed build ("aborting due to …") has none.
fn is_error(diagnostic: &Value) -> bool {
    let has_place = diagnostic.get("spans").and_then(Value::as_array).is_some_and(|spans| !spans.is_empty());
    diagnostic.get("level").and_then(Value::as_str) == Some("error") && has_place
}

/// Returns the mutants at the primary place of an error, or else at any place that it names, or else those that return from the
/// function before it.
fn blamed(diagnostic: &Value, schemata: &BTreeMap<&str, Schemata>) -> BTreeSet<u32> {
    let spans = diagnostic.get("spans").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let at = |span: &Value| -> Vec<u32> {
        let of_macro = span.pointer("/expansion/span").filter(|outer| !outer.is_null());
        let mut found = named(span, schemata);
        if let (true, Some(outer)) = (found.is_empty(), of_macro) {
            found = named(outer, schemata);
        }
        found
    };
    let is_primary = |span: &&Value| span.get("is_primary").and_then(Value::as_bool) == Some(true);
    let primary: BTreeSet<u32> = spans.iter().filter(is_primary).flat_map(at).collect();
    if diagnostic.pointer("/code/code").and_then(Value::as_str) == Some(MISSING_PATTERN) {
        let last = |span: &Value| place(span, schemata).and_then(|(made, range)| made.last_arm(&range));
        let arms: BTreeSet<u32> = spans.iter().filter(is_primary).filter_map(last).collect();
        return if arms.is_empty() { primary } else { arms };
    }
    let found = if primary.is_empty() { spans.iter().flat_map(at).collect() } else { primary };
    if !found.is_empty() {
        return found;
    }
    let before = |span: &Value| place(span, schemata).map_or(&[][..], |(made, range)| made.of_function(&range));
    spans.iter().filter(is_primary).flat_map(before).copied().collect()
}

fn named(span: &Value, schemata: &BTreeMap<&str, Schemata>) -> Vec<u32> {
    place(span, schemata).map_or_else(Vec::new, |(made, range)| made.at(&range).to_vec())
}

/// Returns the file that a message is about, and the range in it.
fn place<'a>(span: &Value, schemata: &'a BTreeMap<&str, Schemata>) -> Option<(&'a Schemata, Range<usize>)> {
    let byte = |name: &str| span.get(name)?.as_u64().and_then(|at| usize::try_from(at).ok());
    let made = schemata.get(span.get("file_name")?.as_str()?)?;
    Some((made, byte("byte_start")?..byte("byte_end")?))
}

fn binary(message: &Value) -> Option<Binary> {
    let path = PathBuf::from(message.get("executable")?.as_str()?);
    message.pointer("/profile/test")?.as_bool().filter(|&is_test| is_test)?;
    let name = message.pointer("/target/name")?.as_str()?.to_owned();
    let manifest = PathBuf::from(message.get("manifest_path")?.as_str()?);
    Some(Binary { path, name, folder: manifest.parent()?.to_owned() })
}
