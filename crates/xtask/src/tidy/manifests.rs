//! Requirements on every crate's manifest and head: the workspace's lints everywhere, `no_std` in proto.

use super::Finding;
use super::files::Source;

const PROTO_HEAD: &str = "crates/proto/src/lib.rs";

/// The crates with `unsafe`, which state their own, stricter lints.
const OWN_LINTS: [&str; 3] =
    ["crates/awslc/Cargo.toml", "crates/pkcs11-module/Cargo.toml", "evidence/constant-time/Cargo.toml"];

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings: Vec<_> = sources.iter().filter_map(lints).collect();
    findings.extend(sources.iter().filter(|source| source.path == PROTO_HEAD).filter_map(no_std));
    findings
}

fn lints(source: &Source) -> Option<Finding> {
    if !source.path.ends_with("/Cargo.toml") || OWN_LINTS.contains(&&*source.path) {
        return None;
    }
    let Ok(manifest) = source.text.parse::<toml::Table>() else {
        return Some(Finding::new(&source.path, "is not TOML"));
    };
    manifest.get("package")?;
    let inherits = manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(toml::Value::as_bool);
    (inherits != Some(true)).then(|| {
        Finding::new(
            &source.path,
            "does not inherit the workspace's lints: add `[lints]` with `workspace = true`, or `unsafe` is allowed here",
        )
    })
}

fn no_std(source: &Source) -> Option<Finding> {
    let lines: Vec<_> = source.text.lines().map(str::trim).collect();
    if !lines.contains(&"#![no_std]") {
        let message = "does not say `#![no_std]`: by it the compiler holds proto's promise to do no I/O and read no clock. A \
                       conditional one does not count";
        return Some(Finding::new(&source.path, message));
    }
    let line = lines.iter().position(|line| line.starts_with("extern crate std"))?;
    let for_tests = line > 0 && lines[line - 1] == "#[cfg(test)]";
    (!for_tests).then(|| Finding::at(source, line + 1, "brings std back: only tests may, under `#[cfg(test)]`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(path: &str, text: &str) -> Vec<Finding> {
        check(&[Source::sample(path, text)])
    }

    #[test]
    fn a_crate_that_inherits_the_lints_passes() {
        assert_eq!(one("crates/a/Cargo.toml", "[package]\nname = \"a\"\n[lints]\nworkspace = true\n"), []);
        assert_eq!(one("Cargo.toml", "[workspace]\n"), []);
        assert_eq!(one("crates/awslc/Cargo.toml", "[package]\nname = \"awslc\"\n"), []);
    }

    #[test]
    fn a_crate_that_does_not_inherit_the_lints_is_found() {
        assert_eq!(one("crates/a/Cargo.toml", "[package]\nname = \"a\"\n").len(), 1);
        assert_eq!(one("bench/Cargo.toml", "[package]\n[lints]\nworkspace = false\n").len(), 1);
        assert_eq!(one("fuzz/Cargo.toml", "[package\n").len(), 1);
    }

    #[test]
    fn proto_without_no_std_is_found() {
        assert_eq!(one(PROTO_HEAD, "//! Doc.\n#![no_std]\n"), []);
        assert_eq!(one(PROTO_HEAD, "//! Doc.\n").len(), 1);
        assert_eq!(one(PROTO_HEAD, "#![cfg_attr(not(test), no_std)]\n").len(), 1);
    }

    #[test]
    fn proto_may_bring_std_back_for_tests_alone() {
        assert_eq!(one(PROTO_HEAD, "#![no_std]\n#[cfg(test)]\nextern crate std;\n"), []);
        assert_eq!(one(PROTO_HEAD, "#![no_std]\nextern crate std;\n").len(), 1);
    }
}
