//! `cargo xtask publish-dry-run`: makes the packages of five registries in `target/publish`, checks what is in them, and installs
//! them from there. Nothing leaves the machine.

mod crates_io;
mod go;
mod maven;
mod npm;
mod pypi;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::steps::Steps;
use crate::{release, shell, workflows};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Registries: npm, pypi, maven, go, crates; all by default
    #[arg(value_parser = ["npm", "pypi", "maven", "go", "crates"])]
    registries: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut steps = Steps::default();
    steps.step("setup", || shell::run(&mut shell::command("scripts/setup-release.sh")));
    steps.step("workflows", workflows::lint);
    for (name, run) in [
        ("npm", npm::run as fn() -> anyhow::Result<()>),
        ("pypi", pypi::run),
        ("maven", maven::run),
        ("go", go::run),
        ("crates", crates_io::run),
    ] {
        if arguments.registries.is_empty() || arguments.registries.iter().any(|registry| registry == name) {
            steps.step(name, run);
        }
    }
    steps.finish()
}

/// Returns the empty folder of a registry's packages.
fn folder(registry: &str) -> anyhow::Result<PathBuf> {
    let folder = shell::target_dir().join("publish").join(registry);
    release::empty(&folder)?;
    Ok(folder)
}

/// Unpacks an archive (tar, or zip under any of its names) into a folder beside it, and returns the folder.
fn unpack(archive: &Path) -> anyhow::Result<PathBuf> {
    let mut to = archive.as_os_str().to_owned();
    to.push(".unpacked");
    let to = PathBuf::from(to);
    std::fs::create_dir_all(&to)?;
    let is_tar =
        archive.extension().is_some_and(|extension| ["tgz", "gz", "crate"].iter().any(|tar| extension == *tar));
    if is_tar {
        shell::run(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&to))?;
    } else {
        shell::run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(archive).arg(&to))?;
    }
    Ok(to)
}

/// Checks that a file of a package is the same as `original`, a path from the repository's root.
fn is_copy(file: &Path, original: &str) -> anyhow::Result<()> {
    let read = |path: &Path| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    ensure!(read(file)? == read(&shell::root().join(original))?, "{} differs from {original}", file.display());
    Ok(())
}

/// Prints name and size of a package.
fn show(archive: &Path) -> anyhow::Result<()> {
    println!("{}: {} bytes", archive.file_name().unwrap_or_default().display(), std::fs::metadata(archive)?.len());
    Ok(())
}
