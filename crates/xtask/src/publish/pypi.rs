//! The package of PyPI: a source distribution, and a wheel that is built from it.

use anyhow::{Context, ensure};

use super::{folder, is_copy, show, unpack};
use crate::release::{Workspace, files, tool};
use crate::shell;

const PACKAGE: &str = "sdk/python";

pub(super) fn run() -> anyhow::Result<()> {
    let workspace = Workspace::read()?;
    let to = folder("pypi")?;
    let mut build = shell::command(tool("python")?);
    build.args(["-m", "build", "--no-isolation", "--outdir"]).arg(&to).arg(PACKAGE);
    shell::output(&mut build)?;
    let archives = files(&to)?;
    archives.iter().try_for_each(|archive| show(archive))?;
    shell::run(shell::command(tool("twine")?).args(["check", "--strict"]).args(&archives))?;

    let name = format!("sealway-{}", workspace.version);
    let wheel = unpack(&to.join(format!("{name}-py3-none-any.whl")))?;
    ensure!(wheel.join("sealway/py.typed").is_file(), "the wheel has no py.typed: its types count for nothing");
    let described = wheel.join(format!("{name}.dist-info"));
    is_copy(&described.join("licenses/LICENSE"), "LICENSE")?;
    check(&std::fs::read_to_string(described.join("METADATA"))?, &workspace)?;

    let source = unpack(&to.join(format!("{name}.tar.gz")))?.join(&name);
    is_copy(&source.join("LICENSE"), "LICENSE")?;
    is_copy(&source.join("README.md"), &format!("{PACKAGE}/README.md"))
}

/// Checks the metadata of the wheel: the fields of the registry's page, and the README as its description.
fn check(metadata: &str, workspace: &Workspace) -> anyhow::Result<()> {
    let (fields, description) = metadata.split_once("\n\n").context("METADATA has no description")?;
    for expected in [
        format!("Version: {}", workspace.version),
        "License-Expression: Apache-2.0".to_owned(),
        "License-File: LICENSE".to_owned(),
        format!("Project-URL: Repository, {}", workspace.repository),
        "Classifier: Typing :: Typed".to_owned(),
        "Requires-Python: >=3.11".to_owned(),
        "Description-Content-Type: text/markdown".to_owned(),
    ] {
        ensure!(fields.lines().any(|line| line == expected), "METADATA of the wheel has no line `{expected}`");
    }
    let readme = std::fs::read_to_string(shell::root().join(PACKAGE).join("README.md"))?;
    ensure!(description == readme, "the wheel's description is not {PACKAGE}/README.md");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_without_a_field_is_rejected() {
        let workspace = Workspace::read().unwrap();
        let readme = std::fs::read_to_string(shell::root().join(PACKAGE).join("README.md")).unwrap();
        let fields = format!(
            "Version: {}\nLicense-Expression: Apache-2.0\nLicense-File: LICENSE\nProject-URL: Repository, {}\n\
             Classifier: Typing :: Typed\nRequires-Python: >=3.11\nDescription-Content-Type: text/markdown",
            workspace.version, workspace.repository
        );
        check(&format!("{fields}\n\n{readme}"), &workspace).unwrap();
        for line in fields.lines() {
            let error = check(&format!("{}\n\n{readme}", fields.replace(line, "")), &workspace).unwrap_err();
            assert!(error.to_string().contains(line), "{error}");
        }
        assert!(check(&format!("{fields}\n\nother"), &workspace).is_err());
    }
}
