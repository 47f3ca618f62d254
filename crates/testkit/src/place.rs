//! The place of the repository.

use std::path::{Path, PathBuf};

/// Returns the root folder of the repository.
pub fn root() -> PathBuf {
    let manifest_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    // A shared target folder can contain a binary that another clone compiled; at run time cargo sets the right path.
    let manifest_dir = std::env::var_os("CARGO_MANIFEST_DIR").map_or(manifest_dir.to_owned(), PathBuf::from);
    let root = manifest_dir.ancestors().find(|folder| folder.join("Cargo.lock").is_file());
    root.unwrap_or(&manifest_dir).to_owned()
}
