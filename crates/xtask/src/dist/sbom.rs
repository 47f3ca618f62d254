//! The list of a binary's parts, in CycloneDX 1.6, checked by the format's own schema.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::binary::Binary;
use super::{Release, Target, sum};
use crate::{release, shell};

/// Reads a list and prints each breach of the schema.
const VALIDATE: &str = "
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read())
sys.exit(error and repr(error))
";

pub(super) fn write(built: &Binary, target: &Target, release: &Release) -> anyhow::Result<()> {
    let lock: toml::Table = std::fs::read_to_string(shell::root().join("Cargo.lock"))?.parse()?;
    let rustc = shell::output(shell::command("rustc").arg("--version"))?;
    let binary = format!("pkg:generic/sealway@{}?arch={}", release.workspace.version, target.processor);
    let bom = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": release.time,
            "tools": {"components": [{"type": "application", "name": "rustc", "version": rustc.split(' ').nth(1)}]},
            "component": {
                "type": "application",
                "bom-ref": binary,
                "name": "sealway",
                "version": release.workspace.version,
                "purl": binary,
                "licenses": [{"expression": "Apache-2.0"}],
                "hashes": [{"alg": "SHA-256", "content": sum(&built.file)?}],
                "externalReferences": [{"type": "vcs", "url": release.workspace.repository}],
            },
        },
        "components": components(built, &checksums(&lock)?)?,
        "dependencies": dependencies(built, &binary),
    });
    let file = release.folder.join(format!("{}.cdx.json", release.stem(target)));
    std::fs::write(&file, format!("{bom:#}\n"))?;
    let mut python = shell::command(release::tool("python")?);
    shell::run(python.args(["-c", VALIDATE]).arg(&file)).context("the list breaks the schema of CycloneDX 1.6")
}

/// Returns the sums of the lock's packages by name and version.
fn checksums(lock: &toml::Table) -> anyhow::Result<BTreeMap<(String, String), String>> {
    let packages = lock.get("package").and_then(toml::Value::as_array).context("Cargo.lock lists no package")?;
    let field = |package: &toml::Value, name| package.get(name).and_then(toml::Value::as_str).map(str::to_owned);
    let sums = packages.iter().filter_map(|package| {
        Some(((field(package, "name")?, field(package, "version")?), field(package, "checksum")?))
    });
    Ok(sums.collect())
}

fn reference(package: &Value) -> String {
    format!(
        "pkg:cargo/{}@{}",
        package["name"].as_str().unwrap_or_default(),
        package["version"].as_str().unwrap_or_default()
    )
}

fn components(built: &Binary, checksums: &BTreeMap<(String, String), String>) -> anyhow::Result<Vec<Value>> {
    let mut components = Vec::new();
    for package in built.linked.values() {
        let field = |name: &str| package[name].as_str().map(str::to_owned);
        let (name, version) = (field("name").unwrap_or_default(), field("version").unwrap_or_default());
        let licence = field("license").with_context(|| format!("{name} {version} states no licence"))?;
        let mut component = json!({
            "type": "library",
            "bom-ref": reference(package),
            "name": name,
            "version": version,
            "purl": reference(package),
            // An old form that Cargo still reads.
            "licenses": [{"expression": licence.replace('/', " OR ")}],
        });
        // A package of a registry has a sum; those of this workspace have none.
        if !package["source"].is_null() {
            let sum =
                checksums.get(&(name.clone(), version)).with_context(|| format!("Cargo.lock has no sum of {name}"))?;
            component["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
        }
        if let Some(url) = field("repository") {
            component["externalReferences"] = json!([{"type": "vcs", "url": url}]);
        }
        components.push(component);
    }
    ensure!(!components.is_empty(), "the binary has no parts");
    Ok(components)
}

fn dependencies(built: &Binary, binary: &str) -> Vec<Value> {
    let name = |id: &Value| id.as_str().and_then(|id| built.linked.get(id)).map(reference);
    let is_root = |package: &&Value| package["name"] == "sealway-cli" || package["name"] == "sealway-pkcs11-module";
    let root = built.linked.values().filter(is_root).map(reference);
    let edges = built.linked.values().map(|package| {
        let uses = package["uses"].as_array().map_or(&[][..], Vec::as_slice).iter().filter_map(name);
        json!({"ref": reference(package), "dependsOn": uses.collect::<Vec<_>>()})
    });
    [json!({"ref": binary, "dependsOn": root.collect::<Vec<_>>()})].into_iter().chain(edges).collect()
}
