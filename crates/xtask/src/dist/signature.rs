//! The signature that an owner adds to the sums, in the format of minisign: its rehearsal by a key made for it.

use std::path::Path;
use std::process::Command;

use anyhow::ensure;

use crate::release;
use crate::shell;

fn minisign(folder: &Path) -> Command {
    let mut command = shell::command("minisign");
    command.current_dir(folder);
    command
}

/// Signs a copy of the release by a new key, verifies it as a user does, and checks that each change of it is found.
pub(super) fn rehearse() -> anyhow::Result<()> {
    let folder = shell::target_dir().join("dist-signed");
    release::empty(&folder)?;
    for file in release::files(&shell::target_dir().join("dist"))? {
        std::fs::copy(&file, folder.join(file.file_name().unwrap_or_default()))?;
    }
    for key in ["owner", "stranger"] {
        let files = [format!("{key}.pub"), format!("{key}.key")];
        shell::output(minisign(&folder).args(["-G", "-W", "-p", &files[0], "-s", &files[1]]))?;
    }
    shell::output(minisign(&folder).args(["-S", "-s", "owner.key", "-m", "SHA256SUMS"]))?;
    let signed_by = |key: &str| minisign(&folder).args(["-V", "-q", "-p", key, "-m", "SHA256SUMS"]).output();
    let sums = || {
        shell::command("sha256sum").args(["--check", "--strict", "--quiet", "SHA256SUMS"]).current_dir(&folder).output()
    };
    ensure!(signed_by("owner.pub")?.status.success(), "the signature by the owner's key does not verify");
    ensure!(sums()?.status.success(), "the sums do not verify");
    ensure!(!signed_by("stranger.pub")?.status.success(), "the signature verifies by another key");

    let list = std::fs::read_to_string(folder.join("SHA256SUMS"))?;
    for line in list.lines() {
        let file = folder.join(line.get(66..).unwrap_or_default());
        let bytes = std::fs::read(&file)?;
        let mut changed = bytes.clone();
        changed[bytes.len() / 2] ^= 1;
        std::fs::write(&file, changed)?;
        ensure!(!sums()?.status.success(), "a changed {} passes", file.display());
        std::fs::write(&file, bytes)?;
    }
    // The last digit of a sum.
    let changed = list.replacen(&list[63..64], if list[63..64] == *"0" { "1" } else { "0" }, 1);
    std::fs::write(folder.join("SHA256SUMS"), changed)?;
    ensure!(!signed_by("owner.pub")?.status.success(), "a changed SHA256SUMS verifies");
    std::fs::remove_dir_all(&folder)?;
    println!("signed and verified; a change of any of {} files is found", list.lines().count() + 1);
    Ok(())
}
