//! Parts that the packages of registries and the files of a release share.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::shell;

/// The workspace's part of each package's metadata.
pub(crate) struct Workspace {
    pub(crate) version: String,
    pub(crate) repository: String,
}

impl Workspace {
    pub(crate) fn read() -> anyhow::Result<Self> {
        let manifest: toml::Table = std::fs::read_to_string(shell::root().join("Cargo.toml"))?.parse()?;
        let field = |name| {
            let package = manifest.get("workspace")?.get("package")?;
            package.get(name)?.as_str().map(str::to_owned)
        };
        let missing = "Cargo.toml: workspace.package has no version or no repository";
        Ok(Self { version: field("version").context(missing)?, repository: field("repository").context(missing)? })
    }
}

/// Creates a folder, or empties it.
pub(crate) fn empty(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

/// Returns the files of a folder, sorted, without those of folders in it.
pub(crate) fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// Returns a program that `scripts/setup-release.sh` installs.
pub(crate) fn tool(name: &str) -> anyhow::Result<PathBuf> {
    let path = shell::root().join(".venv/release/bin").join(name);
    ensure!(path.is_file(), "{name} is missing from .venv/release: run scripts/setup-release.sh");
    Ok(path)
}
