//! The number of uses of `unsafe` in each crate that may have them.

use std::str::FromStr;

use anyhow::{Context, ensure};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::PACKAGES;
use crate::shell;

/// Uses of `unsafe` in a crate.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Count {
    pub(super) package: String,
    pub(super) blocks: usize,
    /// Functions, implementations, traits, declarations of foreign functions and attributes.
    pub(super) items: usize,
    /// The part of the crate that runs in this job.
    pub(super) runs: &'static str,
}

/// Counts each crate that does not inherit the workspace's lints, which forbid `unsafe`.
///
/// # Errors
/// A file does not parse, or such a crate's tests do not run here.
pub(super) fn count() -> anyhow::Result<Vec<Count>> {
    let files = shell::tracked_files()?;
    let mut counts = Vec::new();
    for path in files.iter().filter(|path| path.ends_with("/Cargo.toml")) {
        let manifest: toml::Table = std::fs::read_to_string(shell::root().join(path))?.parse()?;
        let inherits = manifest.get("lints").and_then(|lints| lints.get("workspace")).is_some();
        let name = manifest.get("package").and_then(|package| package.get("name")).and_then(toml::Value::as_str);
        let Some(name) = name.filter(|_| !inherits) else { continue };
        ensure!(PACKAGES.contains(&name), "{path}: the crate may have unsafe code, and its tests do not run here");
        let folder = path.trim_end_matches("Cargo.toml");
        let mut count = Count { package: name.to_owned(), runs: "its tests run", ..Count::default() };
        for source in files.iter().filter(|source| source.starts_with(folder) && source.ends_with(".rs")) {
            let text = std::fs::read_to_string(shell::root().join(source))?;
            let tokens =
                TokenStream::from_str(&text).map_err(|err| anyhow::anyhow!("{err}")).context(source.clone())?;
            count.add(tokens);
        }
        counts.push(count);
    }
    ensure!(!counts.is_empty(), "no crate may have unsafe code");
    Ok(counts)
}

impl Count {
    fn add(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Group(group) => self.add(group.stream()),
                TokenTree::Ident(word) if word == "unsafe" => match tokens.peek() {
                    Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => self.blocks += 1,
                    _ => self.items += 1,
                },
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_items_are_counted_and_comments_are_not() {
        let text = "// unsafe {}\nunsafe fn f() { let x = unsafe { g(unsafe { h() }) }; }\nunsafe impl Send for X {}\n\
                    m!(unsafe { k() });\n#[unsafe(no_mangle)] fn e() { \"unsafe {}\"; }";
        let mut count = Count::default();
        count.add(TokenStream::from_str(text).unwrap());
        assert_eq!((count.blocks, count.items), (3, 3));
    }

    #[test]
    fn every_crate_that_may_have_unsafe_code_runs() {
        let counts = count().unwrap();
        assert!(counts.iter().any(|count| count.package == "sealway-awslc" && count.blocks > 10), "{counts:?}");
    }
}
