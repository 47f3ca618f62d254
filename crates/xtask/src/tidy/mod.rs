//! `cargo xtask tidy`: the repository's rules as a program. A rule is a function from its input to its findings, so that each
//! has a test that sees it fail; a finding names the place, the breach and the remedy.

mod anchors;
mod externals;
mod files;
mod graph;
mod imports;
mod insights;
mod manifests;
mod names;
mod notes;
mod packages;
mod paths;
mod proofs;
mod prose;
mod sdk_table;
mod size;
mod walks;

use std::fmt;

use anyhow::{Context, bail};

use crate::{alike, errors, settings, shell};
use files::Source;

/// One breach of one rule.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    /// A file, with the line if there is one, or a crate.
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

/// Checks that the references of the configuration, of errors and of the SDKs match their sources.
fn stale_references() -> anyhow::Result<Vec<Finding>> {
    let stale =
        settings::generate()?.into_iter().chain(errors::generate()?).chain([alike::generate()?]).filter(
            |(path, text)| !std::fs::read_to_string(shell::root().join(path)).is_ok_and(|there| there == *text),
        );
    let message = "differs from its source: run `cargo xtask codegen`";
    Ok(stale.map(|(path, _)| Finding::new(path, message)).collect())
}

/// Returns the threats of SECURITY.md, each with its name and whether it names a test.
///
/// # Errors
/// Git cannot list the files.
pub(crate) fn threats() -> anyhow::Result<Vec<(String, bool)>> {
    let threats = proofs::threats(&files::read(&shell::root())?);
    Ok(threats.into_iter().map(|threat| (threat.name, threat.has_test)).collect())
}

/// Returns the findings of the rule for SECURITY-INSIGHTS.yml as texts.
///
/// # Errors
/// Git cannot list the files.
pub(crate) fn insights() -> anyhow::Result<Vec<String>> {
    Ok(insights::check(&files::read(&shell::root())?).iter().map(ToString::to_string).collect())
}

/// The path of the counts of the rule `prose` from the root.
const PROSE: &str = "crates/xtask/src/tidy/prose.txt";

/// Applies the rules to the workspace; with `write`, first writes the counts of the rule `prose`.
///
/// # Errors
/// A rule does not hold, or git or cargo cannot list its input.
pub(crate) fn run(write: bool) -> anyhow::Result<()> {
    let sources = files::read(&shell::root())?;
    let prose = shell::root().join(PROSE);
    if write {
        std::fs::write(&prose, prose::ratchet(&sources))?;
    }
    let ratchet = std::fs::read_to_string(&prose).with_context(|| format!("cannot read {PROSE}"))?;
    let graph = graph::read()?;
    let lock = externals::read_lock(&shell::root())?;
    let home = std::env::var("HOME").unwrap_or_default();

    let rules: [(&str, Vec<Finding>); 16] = [
        ("import table", imports::check(&graph)),
        ("crates of others", externals::check(&graph, &lock)),
        ("manifests", manifests::check(&sources)),
        ("names", names::check(&sources)),
        ("sizes", size::check(&sources, include_str!("giants.txt"))),
        ("prose", prose::check(&sources, &ratchet)),
        ("notes", notes::check(&sources)),
        ("spec anchors", anchors::check(&sources)),
        ("proofs of tables", proofs::check(&sources)),
        ("the SDKs' table", sdk_table::check(&sources)),
        ("packages", packages::check(&sources)),
        ("security insights", insights::check(&sources)),
        ("paths", paths::check(&sources, &home)),
        ("files named", walks::check(&sources)),
        ("generated reference", stale_references()?),
        ("files read", files::check(&sources)),
    ];
    let mut count = 0;
    for (name, findings) in &rules {
        for finding in findings {
            println!("{finding}  [{name}]");
        }
        count += findings.len();
    }
    println!("{}", prose::summary(&sources));
    if count > 0 {
        bail!("{count} findings; the rules and their reasons are in ARCHITECTURE.md and crates/xtask/src/tidy");
    }
    println!("tidy: {} rules hold over {} files and {} crates", rules.len(), sources.len(), graph.crates.len());
    Ok(())
}
