//! Reads a file: inside its folder, of a bounded length, and writable only by root or this process's user.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};

use super::live::Profiles;
use super::problem::{Leniency, Problem};
use crate::folders::folder_of;

/// Longest file of profiles or callers, in bytes.
const FILE_LEN_MAX: u64 = 1024 * 1024;
/// Mode bits for writing by the group and by others.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// Flags of every opening: no child inherits the file, no terminal becomes this process's, and a pipe does not block.
const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NOCTTY).union(OFlags::NONBLOCK);

/// Loads and checks a file of profiles.
///
/// # Errors
/// All defects: the file cannot be read, leads out of its folder by a symbolic link, is writable by its group or by
/// others, belongs to another user than root or this process's, is longer than 1 MiB, or has invalid content.
pub fn load(path: &Path, leniency: Leniency) -> Result<Profiles, Vec<Problem>> {
    Profiles::parse(&read(path)?, leniency)
}

/// Reads a file that passes the checks of its owner and mode.
pub(crate) fn read(path: &Path) -> Result<String, Vec<Problem>> {
    read_checked(path).map_err(|text| vec![Problem::of_file(format!("{}: {text}", path.display()))])
}

fn read_checked(path: &Path) -> Result<String, String> {
    let file = open_below(path)?;
    let cannot = |err: std::io::Error| format!("cannot be read: {err}");
    let metadata = file.metadata().map_err(cannot)?;
    if !metadata.is_file() {
        return Err("is not a file".into());
    }
    let mode = metadata.mode() & 0o7777;
    if mode & WRITABLE_BY_OTHERS != 0 {
        return Err(format!("is writable by its group or by others (mode {mode:04o})"));
    }
    let user = rustix::process::geteuid().as_raw();
    if !is_trusted(metadata.uid(), user) {
        return Err(format!("belongs to user {}, not to root or this process's user {user}", metadata.uid()));
    }
    let mut bytes = Vec::new();
    file.take(FILE_LEN_MAX + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > FILE_LEN_MAX {
        return Err(format!("is longer than {FILE_LEN_MAX} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8".into())
}

/// True for the owners whose files a process of `user` reads: root, and the user itself.
fn is_trusted(owner: u32, user: u32) -> bool {
    owner == 0 || owner == user
}

/// Opens a file so that no symbolic link leads out of its folder: Kubernetes swaps a volume's files with links inside
/// it. Non-blocking, so that a pipe in its place does not block the start.
fn open_below(path: &Path) -> Result<File, String> {
    let cannot = |err: rustix::io::Errno| format!("cannot be read: {err}");
    let Some(name) = path.file_name() else { return Err("is not a file's path".into()) };
    let folder = folder_of(path);
    let within = rustix::fs::openat(CWD, folder, FLAGS.union(OFlags::DIRECTORY), Mode::empty()).map_err(cannot)?;
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let resolve = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);
        match rustix::fs::openat2(&within, name, FLAGS, Mode::empty(), resolve) {
            Ok(file) => return Ok(File::from(file)),
            Err(rustix::io::Errno::XDEV) => return Err("leads out of its folder by a symbolic link".into()),
            // An old kernel, or a system call filter that does not know it.
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {}
            Err(err) => return Err(cannot(err)),
        }
    }
    open_resolved(&within, folder, path)
}

/// Fallback without the kernel's help: resolves the path first, and then opens it without following links.
fn open_resolved(within: &impl std::os::fd::AsFd, folder: &Path, path: &Path) -> Result<File, String> {
    let cannot = |err: std::io::Error| format!("cannot be read: {err}");
    let (folder, target) = (folder.canonicalize().map_err(cannot)?, path.canonicalize().map_err(cannot)?);
    let Ok(below) = target.strip_prefix(&folder) else {
        return Err("leads out of its folder by a symbolic link".into());
    };
    open_unlinked(within, below).map_err(|err| cannot(err.into()))
}

/// Opens a file of a folder, unless it is a symbolic link.
fn open_unlinked(within: &impl std::os::fd::AsFd, name: &Path) -> rustix::io::Result<File> {
    rustix::fs::openat(within, name, FLAGS.union(OFlags::NOFOLLOW), Mode::empty()).map(File::from)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    const ONE: &str = "- {Name: A, Settings: {CryptoLibrary: native}, API: {HashData: {HashAlg: sha-256}}}\n";

    fn refusal(path: &Path) -> String {
        let problems = load(path, Leniency::Strict).unwrap_err();
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems[0].to_string()
    }

    #[test]
    fn a_file_that_others_may_write_is_refused() {
        let ground = tempfile::tempdir().unwrap();
        let path = ground.path().join("Profiles.yaml");
        std::fs::write(&path, ONE).unwrap();
        for (mode, is_refused) in [(0o644, false), (0o600, false), (0o444, false), (0o664, true), (0o646, true)] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let loaded = load(&path, Leniency::Strict);
            assert_eq!(loaded.is_err(), is_refused, "{mode:o}");
        }
        assert!(refusal(&path).contains("writable by its group or by others (mode 0646)"));
        // Only root can give a file away.
        if rustix::process::geteuid().is_root() {
            std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
            std::os::unix::fs::chown(&path, Some(4242), None).unwrap();
            assert!(refusal(&path).contains("belongs to user 4242"));
        }
    }

    #[test]
    fn links_within_the_folder_are_followed_and_no_link_leads_out_of_it() {
        let ground = tempfile::tempdir().unwrap();
        let folder = ground.path().join("profiles");
        std::fs::create_dir_all(folder.join("..2026")).unwrap();
        let secret = ground.path().join("outside.yaml");
        for file in [&secret, &folder.join("..2026/Profiles.yaml")] {
            std::fs::write(file, ONE).unwrap();
            std::fs::set_permissions(file, Permissions::from_mode(0o644)).unwrap();
        }
        symlink("..2026", folder.join("..data")).unwrap();
        let path = folder.join("Profiles.yaml");
        symlink("..data/Profiles.yaml", &path).unwrap();
        assert!(load(&path, Leniency::Strict).is_ok());
        let within = File::open(&folder).unwrap();
        assert!(open_resolved(&within, &folder, &path).is_ok());
        for target in [Path::new("../outside.yaml"), &secret] {
            std::fs::remove_file(&path).unwrap();
            symlink(target, &path).unwrap();
            assert!(refusal(&path).contains("leads out of its folder"), "{target:?}");
            assert!(open_resolved(&within, &folder, &path).unwrap_err().contains("leads out of its folder"));
        }
        // A link that appears after the fallback has resolved the path.
        let link = open_unlinked(&within, Path::new("Profiles.yaml")).map(|_| ());
        assert_eq!(link, Err(rustix::io::Errno::LOOP));
    }

    #[test]
    fn a_file_is_opened_to_read_without_blocking_and_is_closed_in_children() {
        use rustix::fs::fcntl_getfl;
        use rustix::io::{FdFlags, fcntl_getfd};

        let ground = tempfile::tempdir().unwrap();
        let path = ground.path().join("Profiles.yaml");
        std::fs::write(&path, ONE).unwrap();
        let within = File::open(ground.path()).unwrap();
        for file in [open_below(&path).unwrap(), open_resolved(&within, ground.path(), &path).unwrap()] {
            assert_eq!(fcntl_getfd(&file).unwrap(), FdFlags::CLOEXEC);
            let flags = fcntl_getfl(&file).unwrap();
            assert!(flags.contains(OFlags::NONBLOCK), "{flags:?}");
            assert_eq!(flags & OFlags::ACCMODE, OFlags::RDONLY);
        }
    }

    #[test]
    fn a_file_belongs_to_root_or_to_the_user_of_the_process() {
        for (owner, user, want) in
            [(0, 0, true), (0, 1000, true), (1000, 1000, true), (1001, 1000, false), (1000, 0, false)]
        {
            assert_eq!(is_trusted(owner, user), want, "a file of {owner}, read by {user}");
        }
    }

    #[test]
    fn a_path_that_is_not_a_text_file_is_rejected_without_blocking() {
        let ground = tempfile::tempdir().unwrap();
        let path = ground.path().join("Profiles.yaml");
        assert!(refusal(&path).contains("No such file"));
        std::fs::create_dir(&path).unwrap();
        assert!(refusal(&path).contains("is not a file"));
        std::fs::remove_dir(&path).unwrap();
        rustix::fs::mknodat(CWD, &path, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert!(refusal(&path).contains("is not a file"));
        std::fs::remove_file(&path).unwrap();
        let longest = format!("{ONE}{}", "#".repeat(1024 * 1024 - ONE.len()));
        std::fs::write(&path, &longest).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(read(&path).map(|text| text.len()), Ok(1024 * 1024));
        for (bytes, want) in [(vec![b'#'; 1024 * 1024 + 1], "longer than"), (vec![0xff, 0xfe], "is not UTF-8")] {
            std::fs::write(&path, bytes).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
            assert!(refusal(&path).contains(want), "{want}");
        }
    }
}
