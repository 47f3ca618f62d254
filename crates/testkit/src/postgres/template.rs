//! The data folder that servers begin with, made by `initdb` once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use anyhow::{Context, bail};

use super::{USER, give, owner, program};
use crate::run;

/// A data folder that each server begins with.
#[derive(Debug)]
pub(super) enum Template {
    /// Of this process, and removed with its last server.
    Own(tempfile::TempDir),
    /// Of all processes of a run, which removes it.
    OfRun(PathBuf),
}

impl Template {
    pub(super) fn data(&self) -> PathBuf {
        match self {
            Template::Own(folder) => folder.path().join("data"),
            Template::OfRun(data) => data.clone(),
        }
    }

    /// Returns the folder that goes with this process, if there is one.
    pub(super) fn own(&self) -> Option<&Path> {
        match self {
            Template::Own(folder) => Some(folder.path()),
            Template::OfRun(_) => None,
        }
    }
}

/// Returns the folder that new servers copy: `initdb` takes as long as a short test.
pub(super) fn template() -> anyhow::Result<Arc<Template>> {
    static TEMPLATE: Mutex<Weak<Template>> = Mutex::new(Weak::new());
    let mut template = TEMPLATE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(made) = template.upgrade() {
        return Ok(made);
    }
    let of_run = run::made_once("postgres", |data| {
        fs::rename(initialized()?.path().join("data"), data).context("cannot move the template")
    });
    let made = Arc::new(match of_run? {
        Some(data) => Template::OfRun(data),
        None => Template::Own(initialized()?),
    });
    *template = Arc::downgrade(&made);
    Ok(made)
}

/// Makes a data folder `data` in a folder of its own.
fn initialized() -> anyhow::Result<tempfile::TempDir> {
    let folder = tempfile::Builder::new().prefix("sealway-pg-").tempdir()?;
    if let Some((uid, gid)) = owner()? {
        give(folder.path(), uid, gid)?;
    }
    let mut command = program("initdb")?;
    command.arg("-D").arg(folder.path().join("data")).current_dir(folder.path());
    command.args(["--no-sync", "--no-locale", "-E", "UTF8", "-A", "trust", "-U", USER]);
    let done = command.stdin(Stdio::null()).output().context("cannot run initdb")?;
    if !done.status.success() {
        bail!("initdb: {}", String::from_utf8_lossy(&done.stderr));
    }
    Ok(folder)
}
