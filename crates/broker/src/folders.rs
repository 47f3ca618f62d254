//! Folders in which somebody else could put another file in a file's place.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

const STICKY: u32 = 0o1000;

/// The nearest folder above `path` in which others could put something else in its place: one that they may write, unless only
/// owners may rename what is in it, or one that is theirs. Links are followed; what stands above their target counts.
pub(crate) fn weak_above(path: &Path) -> Option<PathBuf> {
    let is_weak = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|metadata| {
            // The file system's root is root's, whatever a user namespace that does not know that user shows.
            let is_theirs = path.parent().is_some() && ![0, geteuid().as_raw()].contains(&metadata.uid());
            is_theirs || (metadata.mode() & 0o022 != 0 && metadata.mode() & STICKY == 0)
        })
    };
    // A link is as weak as the folder that it lies in.
    let [named, target] = [std::path::absolute(path).ok()?, path.canonicalize().ok()?];
    [named, target].iter().flat_map(|path| path.ancestors().skip(1)).find(|path| is_weak(path)).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_folder_above_that_others_may_write_is_found_unless_only_owners_may_rename_there() {
        let ground = tempfile::tempdir().unwrap();
        let above = ground.path().join("above");
        let folder = above.join("run");
        std::fs::create_dir_all(&folder).unwrap();
        for (mode, is_weak) in [(0o755, false), (0o777, true), (0o1777, false), (0o775, true), (0o700, false)] {
            std::fs::set_permissions(&above, PermissionsExt::from_mode(mode)).unwrap();
            let found = weak_above(&folder);
            assert_eq!(found.as_deref() == Some(&above.canonicalize().unwrap()), is_weak, "{mode:o}: {found:?}");
        }
        // A link in a weak folder leads where whoever can write there says.
        std::fs::set_permissions(&above, PermissionsExt::from_mode(0o777)).unwrap();
        let elsewhere = ground.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, above.join("link")).unwrap();
        assert!(weak_above(&elsewhere).is_none());
        assert_eq!(weak_above(&above.join("link")), Some(std::path::absolute(&above).unwrap()));
    }
}
