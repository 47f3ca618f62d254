//! The texts that the rules read: all files that git tracks or would track.

use std::path::Path;

use anyhow::Context;

use super::Finding;
use crate::shell;

/// A text file of the repository.
#[derive(Debug)]
pub(super) struct Source {
    /// The path from the root, with `/`.
    pub(super) path: String,
    pub(super) text: String,
}

impl Source {
    /// Iterates over its lines, counted from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// Returns the part after the last dot of its name; the whole name if there is no dot.
    pub(super) fn extension(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.rsplit('.').next().unwrap_or_default()
    }

    #[cfg(test)]
    pub(super) fn sample(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }
}

/// Reads every text file that is tracked, or new and not ignored. Corpora of fuzzing count as bytes, whatever they look like.
pub(super) fn read(root: &Path) -> anyhow::Result<Vec<Source>> {
    let mut sources = Vec::new();
    for path in shell::tracked_files()?.into_iter().filter(|path| !path.starts_with("fuzz/corpus/")) {
        let bytes = std::fs::read(root.join(&path)).with_context(|| format!("cannot read {path}"))?;
        if let Ok(text) = String::from_utf8(bytes) {
            sources.push(Source { path, text });
        }
    }
    Ok(sources)
}

/// Checks that certain files are listed: a list without them would let every other rule pass unnoticed.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    ["Cargo.toml", "crates/proto/src/lib.rs", "crates/xtask/src/main.rs"]
        .into_iter()
        .filter(|path| !sources.iter().any(|source| source.path == *path))
        .map(|path| Finding::new(path, "tidy did not read this file, so its other rules cannot be trusted"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_holds_this_file_as_text() {
        let sources = read(&shell::root()).unwrap();
        assert!(sources.iter().any(|source| source.path == "crates/xtask/src/tidy/files.rs"));
        assert_eq!(check(&sources), []);
    }

    #[test]
    fn an_empty_list_is_a_finding() {
        assert_eq!(check(&[]).len(), 3);
    }

    #[test]
    fn the_extension_of_a_makefile_is_its_name() {
        assert_eq!(Source::sample("a/Makefile", "").extension(), "Makefile");
        assert_eq!(Source::sample("a.b/c.rs", "").extension(), "rs");
    }
}
