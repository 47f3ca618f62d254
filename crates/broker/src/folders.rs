//! Folders in which another user could replace a file.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

const STICKY: u32 = 0o1000;

/// Returns the nearest folder above `path` in which another user could replace the path: a folder that others may write
/// without the sticky bit, or one of another user. Links are followed, and the folders above their target count too.
pub(crate) fn weak_above(path: &Path) -> Option<PathBuf> {
    let is_weak = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|metadata| {
            // The file system's root belongs to root, also in a user namespace that does not map that user.
            let is_theirs = path.parent().is_some() && ![0, geteuid().as_raw()].contains(&metadata.uid());
            is_theirs || (metadata.mode() & 0o022 != 0 && metadata.mode() & STICKY == 0)
        })
    };
    // A link is as weak as its own folder.
    let [named, target] = [std::path::absolute(path).ok()?, path.canonicalize().ok()?];
    [named, target].iter().flat_map(|path| path.ancestors().skip(1)).find(|path| is_weak(path)).map(Path::to_owned)
}

/// Returns the folder of a file: the current one for a bare name.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_parent_folder_that_others_may_write_is_reported_unless_it_is_sticky() {
        let ground = tempfile::tempdir().unwrap();
        let above = ground.path().join("above");
        let folder = above.join("run");
        std::fs::create_dir_all(&folder).unwrap();
        for (mode, is_weak) in [(0o755, false), (0o777, true), (0o1777, false), (0o775, true), (0o700, false)] {
            std::fs::set_permissions(&above, PermissionsExt::from_mode(mode)).unwrap();
            let found = weak_above(&folder);
            assert_eq!(found.as_deref() == Some(&above.canonicalize().unwrap()), is_weak, "{mode:o}: {found:?}");
        }
        // Another user can redirect a link in a weak folder.
        std::fs::set_permissions(&above, PermissionsExt::from_mode(0o777)).unwrap();
        let elsewhere = ground.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, above.join("link")).unwrap();
        assert!(weak_above(&elsewhere).is_none());
        assert_eq!(weak_above(&above.join("link")), Some(std::path::absolute(&above).unwrap()));
    }
}
