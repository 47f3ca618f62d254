//! The statement of a release's origin: in-toto's Statement v1 with the predicate SLSA Provenance v1.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Arguments, Release, name, sum};
use crate::{release, shell};

/// The page that says what a build of this kind does, and what its parameters mean.
const PAGE: &str = "docs/guides/release.md";

pub(super) fn write(files: &[PathBuf], arguments: &Arguments, release: &Release) -> anyhow::Result<()> {
    let version = |program: &str, words: &[&str]| -> anyhow::Result<String> {
        let program = if program == "rustc" { program.into() } else { release::tool(program)? };
        Ok(shell::output(shell::command(program).args(words))?.trim().to_owned())
    };
    let subject = files
        .iter()
        .map(|file| Ok(json!({"name": name(file), "digest": {"sha256": sum(file)?}})))
        .collect::<anyhow::Result<Vec<Value>>>()?;
    let source = format!("git+{}", release.workspace.repository);
    let page = format!("{}/blob/main/{PAGE}", release.workspace.repository);
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subject,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": format!("{page}#the-build"),
                "externalParameters": {
                    "source": {"uri": source, "digest": {"gitCommit": release.commit}},
                    "profile": arguments.profile,
                    "targets": arguments.targets().iter().flat_map(|target| [target.triple, target.module]).collect::<Vec<_>>(),
                },
                "internalParameters": {
                    "rustc": version("rustc", &["--version", "--verbose"])?,
                    "zig": version("python", &["-m", "ziglang", "version"])?,
                    "cargo-zigbuild": version("cargo-zigbuild", &["--version"])?,
                },
                "resolvedDependencies": [
                    {"uri": source, "digest": {"gitCommit": release.commit}},
                    {"name": "Cargo.lock", "digest": {"sha256": sum(&shell::root().join("Cargo.lock"))?}},
                    {"name": "scripts/requirements-release.txt", "digest": {"sha256": sum(&shell::root().join("scripts/requirements-release.txt"))?}},
                ],
            },
            "runDetails": {
                "builder": {"id": arguments.builder.clone().unwrap_or_else(|| format!("{page}#a-build-by-hand"))},
            },
        },
    });
    std::fs::write(
        release.folder.join(format!("sealway-{}.intoto.json", release.workspace.version)),
        format!("{statement:#}\n"),
    )?;
    Ok(())
}
