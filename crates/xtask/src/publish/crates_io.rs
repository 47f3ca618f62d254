//! Crates: those of the workspace that may be published, packed and compiled from their archives, in the order of their
//! dependencies.

use anyhow::{Context, ensure};
use serde_json::Value;

use super::{folder, is_copy, show, unpack};
use crate::release::Workspace;
use crate::shell;

pub(super) fn run() -> anyhow::Result<()> {
    let workspace = Workspace::read()?;
    let to = folder("crates")?;
    let metadata = shell::output(&mut shell::cargo(&["metadata", "--no-deps", "--format-version=1", "--locked"]))?;
    let crates = public(&serde_json::from_str(&metadata)?)?;
    // The first packs and compiles each from its archive, the second asks the registry's own questions.
    for words in [&["package"] as &[&str], &["publish", "--dry-run", "--no-verify"]] {
        let mut cargo = shell::cargo(words);
        cargo.args(["--locked", "--allow-dirty"]).args(crates.iter().flat_map(|(name, _)| ["-p", name]));
        shell::run(&mut cargo)?;
    }
    for (name, path) in &crates {
        let stem = format!("{name}-{}", workspace.version);
        let archive = to.join(format!("{stem}.crate"));
        std::fs::copy(shell::target_dir().join("package").join(format!("{stem}.crate")), &archive)?;
        show(&archive)?;
        let unpacked = unpack(&archive)?.join(&stem);
        is_copy(&unpacked.join("LICENSE"), "LICENSE")?;
        if shell::root().join(path).join("README.md").is_file() {
            is_copy(&unpacked.join("README.md"), &format!("{path}/README.md"))?;
        }
        ensure!(!unpacked.join("tests").exists(), "{name} contains tests, which need files of the repository");
    }
    Ok(())
}

/// Returns names and folders of the crates that may be published, and checks the fields of the registry's page.
fn public(metadata: &Value) -> anyhow::Result<Vec<(String, String)>> {
    let packages = metadata["packages"].as_array().context("cargo metadata lists no package")?;
    let mut crates = Vec::new();
    for package in packages.iter().filter(|package| package["publish"].is_null()) {
        let name = package["name"].as_str().context("a package without a name")?;
        for field in ["description", "license", "repository", "rust_version"] {
            ensure!(package[field].is_string(), "{name}: {field} is missing in its Cargo.toml");
        }
        for field in ["keywords", "categories"] {
            ensure!(
                package[field].as_array().is_some_and(|list| !list.is_empty()),
                "{name}: {field} is missing in its Cargo.toml"
            );
        }
        let manifest = package["manifest_path"].as_str().context("a package without a manifest")?;
        let folder = std::path::Path::new(manifest).parent().context("a manifest without a folder")?;
        let folder = folder.strip_prefix(metadata["workspace_root"].as_str().unwrap_or_default())?;
        crates.push((name.to_owned(), folder.display().to_string()));
    }
    ensure!(!crates.is_empty(), "no crate of the workspace may be published");
    Ok(crates)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_public_crate_without_a_field_is_rejected_by_its_name() {
        let package = json!({
            "name": "a", "publish": null, "description": "d", "license": "l", "repository": "r", "rust_version": "1.95",
            "keywords": ["k"], "categories": ["c"], "manifest_path": "/w/crates/a/Cargo.toml",
        });
        let metadata =
            |package: &Value| json!({"workspace_root": "/w", "packages": [package, {"name": "b", "publish": []}]});
        assert_eq!(public(&metadata(&package)).unwrap(), [("a".to_owned(), "crates/a".to_owned())]);
        for field in ["description", "license", "repository", "rust_version", "keywords", "categories"] {
            let mut without = package.clone();
            without[field] = Value::Null;
            assert!(public(&metadata(&without)).unwrap_err().to_string().contains(field), "{field}");
        }
        assert!(public(&json!({"packages": []})).is_err());
    }
}
