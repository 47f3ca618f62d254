//! Reviews of the crates of others, a checklist over the files of the repository, and the tests of the threat model.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use super::record::Record;
use crate::vet::{Package, Reviews};
use crate::{shell, tidy};

/// A row of the checklist. The names are those of OpenSSF Scorecard where it has the check.
struct Row {
    name: &'static str,
    /// Returns what was found, or an error that says what is missing.
    check: fn(&Files) -> anyhow::Result<String>,
}

const CHECKLIST: &[Row] = &[
    Row { name: "Pinned-Dependencies: actions", check: pinned_actions },
    Row { name: "Pinned-Dependencies: Cargo, npm, Go", check: lock_files },
    Row { name: "Pinned-Dependencies: Python, by hash", check: hashes },
    Row { name: "Token-Permissions", check: permissions },
    Row { name: "Dangerous-Workflow", check: dangerous },
    Row { name: "Signed-Releases", check: signed },
    Row { name: "Reproducible builds", check: reproducible },
    Row { name: "SBOM and provenance", check: sbom },
    Row { name: "Fuzzing", check: fuzzing },
    Row { name: "SAST", check: lints },
    Row { name: "Vulnerabilities", check: advisories },
    Row { name: "Security-Policy", check: policy },
    Row { name: "License", check: license },
    Row { name: "Binary-Artifacts", check: binaries },
    Row { name: "Security Insights", check: insights },
];

/// Paths of all tracked files of the repository.
struct Files {
    paths: Vec<String>,
}

impl Files {
    fn read(&self, path: &str) -> anyhow::Result<String> {
        ensure!(self.paths.iter().any(|there| there == path), "{path} is missing");
        std::fs::read_to_string(shell::root().join(path)).with_context(|| format!("cannot read {path}"))
    }

    fn workflows(&self) -> anyhow::Result<Vec<(String, String)>> {
        let names = self.paths.iter().filter(|path| path.starts_with(".github/workflows/"));
        let found: Vec<_> = names.map(|path| Ok((path.clone(), self.read(path)?))).collect::<anyhow::Result<_>>()?;
        ensure!(!found.is_empty(), "there is no workflow");
        Ok(found)
    }

    /// Returns an error unless a file contains the text.
    fn has(&self, path: &str, text: &str) -> anyhow::Result<()> {
        ensure!(self.read(path)?.contains(text), "{path} lacks `{text}`");
        Ok(())
    }
}

/// Evaluates the checklist, counts reviews and `unsafe` of dependencies, and the threats that name tests.
///
/// # Errors
/// A file cannot be read. A row of the checklist that fails is recorded, and no error.
pub(super) fn run() -> anyhow::Result<Record> {
    let mut record = Record::default();
    let reviews = Reviews::read()?;
    let secrets = reviews.of_secrets();
    let audited = |package: &Package| reviews.audited.contains(package);
    record.figure("crates of others", reviews.others.len());
    record.figure("reviewed", reviews.audited.len());
    record.figure("exempted", reviews.exempted().len());
    record.figure("of those that touch secrets", secrets.len());
    record.figure("of these reviewed", secrets.iter().filter(|package| audited(package)).count());

    let files = Files { paths: shell::tracked_files()?.into_iter().collect() };
    let mut rows = Vec::new();
    let mut passed = 0;
    for row in CHECKLIST {
        let (mark, found) = match (row.check)(&files) {
            Ok(found) => ("passes", found),
            Err(error) => ("**fails**", format!("{error:#}")),
        };
        passed += usize::from(mark == "passes");
        rows.push(vec![row.name.to_owned(), mark.to_owned(), found]);
    }
    record.figure("rows of the checklist that pass", format!("{passed} of {}", CHECKLIST.len()));
    record.table("Checklist", &["check", "result", "found"], rows);

    let threats = tidy::threats()?;
    ensure!(!threats.is_empty(), "SECURITY.md has no threat");
    let bare: Vec<Vec<String>> =
        threats.iter().filter(|(_, has_test)| !has_test).map(|(name, _)| vec![name.clone()]).collect();
    record.figure("threats", threats.len());
    record.figure("threats with a test", threats.len() - bare.len());
    record.table("Threats without a test", &["threat"], bare);

    let sources = sources()?;
    let mut counts = Vec::new();
    for package in &secrets {
        let counted = sources.get(*package).map(|folder| counted(folder)).transpose()?;
        let cells = counted.map_or(["not fetched".to_owned(), String::new()], |(lines, uses, has_script)| {
            [format!("{uses} in {lines} lines"), if has_script { "yes" } else { "no" }.to_owned()]
        });
        let [uses, script] = cells;
        let review = if audited(package) { "reviewed" } else { "exempted" };
        counts.push(vec![format!("{} {}", package.0, package.1), review.to_owned(), uses, script]);
    }
    record.table("Crates that touch secrets", &["crate", "review", "`unsafe`", "build script"], counts);

    record.missing(
        "reviews of others, which cargo-vet can import",
        "they are fetched from the network, which the machine of the run cannot reach",
        "reviews of our own; `cargo vet check --locked --frozen` reads the same files without the network",
    );
    record.missing(
        "Scorecard's checks of the forge (branch protection, review, maintenance)",
        "they read settings of the hosting service, which are in no file",
        "nothing",
    );
    Ok(record)
}

/// Returns the source folder of each fetched crate.
fn sources() -> anyhow::Result<BTreeMap<Package, PathBuf>> {
    let text = shell::output(&mut shell::cargo(&[
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--offline",
        "--all-features",
    ]))?;
    let value: serde_json::Value = serde_json::from_str(&text)?;
    let packages = value.get("packages").and_then(serde_json::Value::as_array).context("cargo lists no package")?;
    let mut found = BTreeMap::new();
    for package in packages {
        let field = |name| package.get(name).and_then(serde_json::Value::as_str).map(str::to_owned);
        let (Some(name), Some(version), Some(manifest)) = (field("name"), field("version"), field("manifest_path"))
        else {
            bail!("cargo lists a package without a name");
        };
        if let Some(folder) = Path::new(&manifest).parent() {
            found.insert((name, version), folder.to_owned());
        }
    }
    Ok(found)
}

/// Counts lines, lines of code with the word `unsafe`, and whether there is a build script.
fn counted(folder: &Path) -> anyhow::Result<(usize, usize, bool)> {
    let (mut lines, mut uses) = (0, 0);
    let mut folders = vec![folder.join("src")];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path)?;
                lines += text.lines().count();
                uses += text.lines().filter(|line| has_unsafe(line)).count();
            }
        }
    }
    Ok((lines, uses, folder.join("build.rs").is_file()))
}

/// Returns true for a line of code that opens or declares something `unsafe`.
fn has_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe")
}

fn pinned_actions(files: &Files) -> anyhow::Result<String> {
    let mut count = 0;
    for (path, text) in files.workflows()? {
        for line in text.lines() {
            let Some(action) = line.trim_start_matches([' ', '-']).strip_prefix("uses:") else { continue };
            ensure!(is_pinned(action), "{path} uses{action}, which is not pinned by its digest");
            count += 1;
        }
    }
    Ok(format!("{count} actions in the workflows, each by its digest"))
}

fn is_pinned(action: &str) -> bool {
    let action = action.split('#').next().unwrap_or_default().trim();
    let digest = action.split_once('@').map(|(_, digest)| digest.trim_start_matches("sha256:"));
    digest.is_some_and(|digest| [40, 64].contains(&digest.len()) && digest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn lock_files(files: &Files) -> anyhow::Result<String> {
    let mut count = 0;
    for (manifest, lock, dependencies) in [("Cargo.toml", "Cargo.lock", "[workspace]"), ("go.mod", "go.sum", "require")]
    {
        let manifests = files.paths.iter().filter(|path| path.rsplit('/').next() == Some(manifest));
        for path in manifests {
            // One without dependencies of others needs no lock; a crate of a workspace has that of the workspace.
            if !files.read(path)?.contains(dependencies) {
                continue;
            }
            let lock = path.replace(manifest, lock);
            ensure!(files.paths.contains(&lock), "{lock} is missing beside {path}");
            count += 1;
        }
    }
    let packages: Vec<&String> = files.paths.iter().filter(|path| path.ends_with("package.json")).collect();
    for path in packages {
        // A package of a workspace has the lock of a folder above it.
        let mut folders = Path::new(path).ancestors().skip(1);
        let is_locked =
            |folder: &Path| files.paths.iter().any(|there| Path::new(there) == folder.join("package-lock.json"));
        ensure!(folders.any(is_locked), "{path} has no package-lock.json");
        count += 1;
    }
    Ok(format!("{count} manifests with a lock file"))
}

fn hashes(files: &Files) -> anyhow::Result<String> {
    let mut count = 0;
    for path in files.paths.iter().filter(|path| {
        path.rsplit('/').next().is_some_and(|name| name.starts_with("requirements") && name.ends_with(".txt"))
    }) {
        let text = files.read(path)?;
        // A requirement goes on over lines that end with a backslash.
        for requirement in text.replace("\\\n", " ").lines() {
            let is_other = requirement.trim().is_empty() || requirement.trim_start().starts_with(['#', '-']);
            ensure!(is_other || requirement.contains("--hash=sha256:"), "{path}: {requirement} has no hash");
            count += usize::from(!is_other);
        }
    }
    ensure!(count > 0, "there are no requirements");
    Ok(format!("{count} packages with hashes"))
}

fn permissions(files: &Files) -> anyhow::Result<String> {
    let workflows = files.workflows()?;
    for (path, text) in &workflows {
        let (_, of_all) =
            text.split_once("\npermissions:").with_context(|| format!("{path} sets no permissions for all jobs"))?;
        let of_all: Vec<&str> = of_all.lines().skip(1).take_while(|line| line.starts_with(' ')).collect();
        ensure!(!of_all.is_empty() && !of_all.iter().any(|line| line.contains("write")), "{path} lets every job write");
    }
    Ok(format!("read-only for all jobs of {} workflows; those that write say so", workflows.len()))
}

fn dangerous(files: &Files) -> anyhow::Result<String> {
    for (path, text) in files.workflows()? {
        for word in ["pull_request_target", "workflow_run", "github.event.", "github.head_ref"] {
            ensure!(!text.contains(word), "{path} uses {word}");
        }
    }
    Ok("no text or code of a change from outside runs with secrets".to_owned())
}

fn signed(files: &Files) -> anyhow::Result<String> {
    files.has(".github/workflows/release.yml", "minisign -S")?;
    files.has(".github/workflows/release.yml", "-m target/dist/SHA256SUMS")?;
    files.read("crates/xtask/src/dist/signature.rs")?;
    Ok("the sums of a release are signed with minisign".to_owned())
}

fn reproducible(files: &Files) -> anyhow::Result<String> {
    files.has(".github/workflows/release.yml", "make dist ARGS=\"--verify")?;
    Ok("a release is built twice and compared".to_owned())
}

fn sbom(files: &Files) -> anyhow::Result<String> {
    files.read("crates/xtask/src/dist/sbom.rs")?;
    files.read("crates/xtask/src/dist/provenance.rs")?;
    files.has(".github/workflows/release.yml", "--builder ")?;
    files.has(".github/workflows/release.yml", "target/dist/*")?;
    Ok("both are files of each release".to_owned())
}

fn fuzzing(files: &Files) -> anyhow::Result<String> {
    let manifest = files.read("fuzz/Cargo.toml")?;
    let table: toml::Table = manifest.parse()?;
    let targets = table.get("bin").and_then(toml::Value::as_array).map_or(0, Vec::len);
    let corpora: std::collections::BTreeSet<&str> =
        files.paths.iter().filter_map(|path| path.strip_prefix("fuzz/corpus/")?.split('/').next()).collect();
    ensure!(!corpora.is_empty(), "no target has a corpus");
    Ok(format!("{} targets with a corpus, {targets} programs", corpora.len()))
}

fn lints(files: &Files) -> anyhow::Result<String> {
    files.has("Cargo.toml", "[workspace.lints.clippy]")?;
    files.has("crates/xtask/src/check.rs", "clippy")?;
    files.has("crates/xtask/src/check.rs", "warnings")?;
    let table: toml::Table = files.read("Cargo.toml")?.parse()?;
    let lints = ["workspace", "lints", "clippy"]
        .iter()
        .try_fold(&toml::Value::Table(table), |value, name| value.get(name))
        .map_or(0, |lints| lints.as_table().map_or(0, toml::Table::len));
    ensure!(lints > 0, "the workspace has no lint of clippy");
    Ok(format!("clippy with {lints} lints of the workspace, all of them errors"))
}

fn advisories(files: &Files) -> anyhow::Result<String> {
    files.has("deny.toml", "unknown-registry = \"deny\"")?;
    files.has("crates/xtask/src/advisories.rs", "--disable-fetch")?;
    let (path, _) = files
        .workflows()?
        .into_iter()
        .find(|(_, text)| text.contains("advisories"))
        .context("`make advisories` exists, and no workflow runs it")?;
    Ok(format!("{path} runs `make advisories`"))
}

fn policy(files: &Files) -> anyhow::Result<String> {
    files.has("SECURITY.md", "## Reporting")?;
    files.has("SECURITY.md", "private security advisories")?;
    Ok("SECURITY.md says how to report in private".to_owned())
}

fn license(files: &Files) -> anyhow::Result<String> {
    files.has("LICENSE", "Apache License")?;
    files.has("Cargo.toml", "license = \"Apache-2.0\"")?;
    Ok("Apache-2.0".to_owned())
}

fn binaries(files: &Files) -> anyhow::Result<String> {
    for path in &files.paths {
        let bytes = std::fs::read(shell::root().join(path))?;
        // ELF, a class of Java, WebAssembly, Mach-O, a program of Windows.
        let is_program = [b"\x7fELF".as_slice(), b"\xca\xfe\xba\xbe", b"\0asm", b"\xcf\xfa\xed\xfe"]
            .iter()
            .any(|magic| bytes.starts_with(magic))
            || [".exe", ".dll", ".jar"].iter().any(|end| path.ends_with(end));
        ensure!(!is_program, "{path} is a program");
    }
    Ok(format!("none of {} files is a program", files.paths.len()))
}

fn insights(_: &Files) -> anyhow::Result<String> {
    let findings = tidy::insights()?;
    ensure!(findings.is_empty(), "{}", findings.join("; "));
    Ok("SECURITY-INSIGHTS.yml has the form of version 2.0.0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_pinned_by_a_digest_alone() {
        assert!(is_pinned(" actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5"));
        assert!(!is_pinned(" actions/checkout@v5"));
        assert!(!is_pinned(" actions/checkout"));
    }

    #[test]
    fn unsafe_is_a_word_of_code() {
        assert!(has_unsafe("    unsafe { read() }") && has_unsafe("pub unsafe fn a() {}"));
        assert!(!has_unsafe("// unsafe") && !has_unsafe("#![forbid(unsafe_code)]"));
    }

    #[test]
    fn a_missing_file_fails_its_row() {
        let none = Files { paths: Vec::new() };
        for row in CHECKLIST.iter().filter(|row| {
            !["Binary-Artifacts", "Security Insights", "Pinned-Dependencies: Cargo, npm, Go"].contains(&row.name)
        }) {
            assert!((row.check)(&none).is_err(), "{}", row.name);
        }
    }
}
