//! `cargo xtask tidy`: the repository's rules as a program. A rule is a function from what it reads to its findings,
//! so that each has a test that sees it fail; a finding says where, what, and what to do instead.

mod anchors;
mod externals;
mod files;
mod graph;
mod imports;
mod manifests;
mod names;
mod notes;
mod paths;
mod proofs;
mod sdk_table;
mod size;
mod walks;

use std::fmt;

use anyhow::bail;

use crate::{settings, shell};
use files::Source;

/// One breach of one rule.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    /// A file, with the line where there is one, or a crate.
    place: String,
    message: String,
}

impl Finding {
    fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into() }
    }

    fn at(source: &Source, line: usize, message: impl Into<String>) -> Self {
        Self::new(format!("{}:{line}", source.path), message)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// The configuration's reference and schema must be those of its types.
fn stale_settings() -> anyhow::Result<Vec<Finding>> {
    let stale = settings::generate()?
        .into_iter()
        .filter(|(path, text)| !std::fs::read_to_string(shell::root().join(path)).is_ok_and(|there| there == *text));
    let message = "differs from the types of the configuration: run `cargo xtask codegen`";
    Ok(stale.map(|(path, _)| Finding::new(path, message)).collect())
}

/// Reads the workspace and judges it.
pub(crate) fn run() -> anyhow::Result<()> {
    let sources = files::read(&shell::root())?;
    let graph = graph::read()?;
    let lock = externals::read_lock(&shell::root())?;
    let home = std::env::var("HOME").unwrap_or_default();

    let rules: [(&str, Vec<Finding>); 13] = [
        ("import table", imports::check(&graph)),
        ("crates of others", externals::check(&graph, &lock)),
        ("manifests", manifests::check(&sources)),
        ("names", names::check(&sources)),
        ("sizes", size::check(&sources, include_str!("giants.txt"))),
        ("notes", notes::check(&sources)),
        ("spec anchors", anchors::check(&sources)),
        ("proofs of tables", proofs::check(&sources)),
        ("the SDKs' table", sdk_table::check(&sources)),
        ("paths", paths::check(&sources, &home)),
        ("files named", walks::check(&sources)),
        ("generated reference", stale_settings()?),
        ("files read", files::check(&sources)),
    ];
    let mut count = 0;
    for (name, findings) in &rules {
        for finding in findings {
            println!("{finding}  [{name}]");
        }
        count += findings.len();
    }
    if count > 0 {
        bail!("{count} findings; the rules and their reasons are in ARCHITECTURE.md and crates/xtask/src/tidy");
    }
    println!("tidy: {} rules hold over {} files and {} crates", rules.len(), sources.len(), graph.crates.len());
    Ok(())
}
