//! Packages of npm: those of `sdk/typescript`.

use std::path::Path;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::{folder, is_copy, show, unpack};
use crate::release::Workspace;
use crate::shell;

/// The folders of the packages. The first one's build is that of all.
const PACKAGES: [&str; 3] = ["sdk/typescript", "sdk/typescript/channel", "sdk/typescript/broker"];

pub(super) fn run() -> anyhow::Result<()> {
    let workspace = Workspace::read()?;
    let to = folder("npm")?;
    for package in PACKAGES {
        let mut npm = shell::command("npm");
        npm.args(["pack", "--json", "--loglevel=error", "--pack-destination"]).arg(&to);
        let listing = shell::output(npm.current_dir(shell::root().join(package)))?;
        // Scripts print before the list.
        let listing = &listing[listing.find("[\n").context("npm pack printed no list")?..];
        let listing: Value = serde_json::from_str(listing).context("npm pack printed no JSON")?;
        let filename = listing[0]["filename"].as_str().context("npm pack named no file")?;
        let archive = to.join(filename);
        show(&archive)?;
        println!("  unpacked {} bytes, {} files", listing[0]["unpackedSize"], listing[0]["entryCount"]);

        let publint = shell::root().join("sdk/typescript/node_modules/.bin/publint");
        shell::run(shell::command(publint).args(["run", "--strict"]).arg(&archive))?;
        dry_run(&archive)?;
        let unpacked = unpack(&archive)?.join("package");
        check(&std::fs::read_to_string(unpacked.join("package.json"))?, package, &workspace)?;
        is_copy(&unpacked.join("LICENSE"), "LICENSE")?;
        is_copy(&unpacked.join("README.md"), &format!("{package}/README.md"))?;
    }
    Ok(())
}

/// Publishes the archive, up to the upload.
fn dry_run(archive: &Path) -> anyhow::Result<()> {
    let output = shell::command("npm").args(["publish", "--dry-run", "--loglevel=warn"]).arg(archive).output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "npm publish --dry-run {}: {text}", archive.display());
    ensure!(
        !text.contains("auto-corrected"),
        "npm changes the manifest of {} (`npm pkg fix`): {text}",
        archive.display()
    );
    Ok(())
}

/// Checks the fields of a manifest that the registry's page and its provenance need.
fn check(manifest: &str, package: &str, workspace: &Workspace) -> anyhow::Result<()> {
    let manifest: Value = serde_json::from_str(manifest)?;
    let url = format!("git+{}.git", workspace.repository);
    for (path, expected) in [
        ("/version", Value::from(workspace.version.as_str())),
        ("/license", Value::from("Apache-2.0")),
        ("/repository/url", Value::from(url)),
        ("/repository/directory", Value::from(package)),
        ("/publishConfig/access", Value::from("public")),
        ("/publishConfig/provenance", Value::from(true)),
    ] {
        let found = manifest.pointer(path).unwrap_or(&Value::Null);
        ensure!(*found == expected, "{package}/package.json: {path} is {found}, and must be {expected}");
    }
    for field in ["description", "keywords", "homepage", "bugs", "types", "exports", "engines"] {
        ensure!(manifest.get(field).is_some(), "{package}/package.json: {field} is missing");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_without_a_field_is_rejected_by_its_name() {
        let workspace = Workspace::read().unwrap();
        for package in PACKAGES {
            let text = std::fs::read_to_string(shell::root().join(package).join("package.json")).unwrap();
            check(&text, package, &workspace).unwrap();
            let manifest: Value = serde_json::from_str(&text).unwrap();
            for field in ["version", "license", "repository", "publishConfig", "types", "exports", "homepage"] {
                let mut without = manifest.clone();
                without.as_object_mut().unwrap().remove(field);
                let error = check(&without.to_string(), package, &workspace).unwrap_err().to_string();
                assert!(error.contains(field), "{error}");
            }
        }
    }
}
