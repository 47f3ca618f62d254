//! `supply-chain/`: which crates of others were reviewed, in the files of cargo-vet. `cargo xtask codegen` writes config.toml, which
//! lists every locked crate without a review as an exemption, so that a new crate or version is a line of a change. cargo-vet itself
//! fetches indexes and reviews of others from the network, and is not needed for that.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Context, ensure};

use crate::shell;

const CONFIG: &str = "supply-chain/config.toml";
const AUDITS: &str = "supply-chain/audits.toml";
const SECRETS: &str = "supply-chain/secrets.toml";

/// Name and version of a locked crate.
pub(crate) type Package = (String, String);

/// Locked crates of others, and which of them were reviewed.
#[derive(Debug, Default)]
pub(crate) struct Reviews {
    /// Names of the crates of this workspace.
    pub(crate) own: BTreeSet<String>,
    /// Locked crates that come from a registry.
    pub(crate) others: BTreeSet<Package>,
    pub(crate) audited: BTreeSet<Package>,
    /// Names of crates that touch secrets.
    pub(crate) secrets: BTreeSet<String>,
}

impl Reviews {
    /// Reads the files of the repository.
    ///
    /// # Errors
    /// A file is missing or not of its form, or the reviews contradict the lock file.
    pub(crate) fn read() -> anyhow::Result<Self> {
        let text = |path: &str| {
            std::fs::read_to_string(shell::root().join(path)).with_context(|| format!("cannot read {path}"))
        };
        let reviews = Self::parse(&text("Cargo.lock")?, &text(AUDITS)?, &text(SECRETS)?)?;
        let problems = reviews.problems();
        ensure!(problems.is_empty(), "{}", problems.join("; "));
        Ok(reviews)
    }

    fn parse(lock: &str, audits: &str, secrets: &str) -> anyhow::Result<Self> {
        let mut reviews = Reviews::default();
        let lock: toml::Table = lock.parse().context("Cargo.lock is not TOML")?;
        let packages = lock.get("package").and_then(toml::Value::as_array).context("Cargo.lock lists no package")?;
        for package in packages {
            let (name, version) = (text(package, "name")?, text(package, "version")?);
            if package.get("source").is_some() {
                reviews.others.insert((name, version));
            } else {
                reviews.own.insert(name);
            }
        }
        let audits: toml::Table = audits.parse().with_context(|| format!("{AUDITS} is not TOML"))?;
        for (name, entries) in audits.get("audits").and_then(toml::Value::as_table).into_iter().flatten() {
            for entry in entries.as_array().with_context(|| format!("{AUDITS}: {name} is not a list"))? {
                ensure!(text(entry, "criteria")? == "safe-to-deploy", "{AUDITS}: {name}: unknown criteria");
                ensure!(!text(entry, "who")?.is_empty(), "{AUDITS}: {name}: nobody reviewed it");
                // A review says what was looked at, or it is none.
                ensure!(text(entry, "notes")?.len() > 100, "{AUDITS}: {name}: the notes do not say what was read");
                reviews.audited.insert((name.clone(), text(entry, "version")?));
            }
        }
        let secrets: toml::Table = secrets.parse().with_context(|| format!("{SECRETS} is not TOML"))?;
        let crates = secrets.get("crates").and_then(toml::Value::as_table);
        reviews.secrets = crates.with_context(|| format!("{SECRETS} has no crates"))?.keys().cloned().collect();
        Ok(reviews)
    }

    /// Returns a text for each contradiction of the lock file.
    fn problems(&self) -> Vec<String> {
        let audits = self.audited.difference(&self.others).map(|(name, version)| {
            format!("{AUDITS}: {name} {version} is not locked: review the locked version, or remove the review")
        });
        let names: BTreeSet<&String> = self.others.iter().map(|(name, _)| name).collect();
        let secrets = self.secrets.iter().filter(|name| !names.contains(name));
        audits.chain(secrets.map(|name| format!("{SECRETS}: {name} is not locked"))).collect()
    }

    /// Returns the locked crates of others without a review.
    pub(crate) fn exempted(&self) -> BTreeSet<&Package> {
        self.others.difference(&self.audited).collect()
    }

    /// Returns the locked crates that touch secrets.
    pub(crate) fn of_secrets(&self) -> BTreeSet<&Package> {
        self.others.iter().filter(|(name, _)| self.secrets.contains(name)).collect()
    }

    /// Formats config.toml in the order of cargo-vet.
    fn config(&self) -> String {
        let mut text = String::from("\n# cargo-vet config file\n\n[cargo-vet]\nversion = \"0.10\"\n");
        // Writing to a String cannot fail.
        for name in &self.own {
            let _ = write!(text, "\n[policy.{name}]\naudit-as-crates-io = false\n");
        }
        let mut by_name: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, version) in self.exempted() {
            by_name.entry(name).or_default().push(version);
        }
        for (name, mut versions) in by_name {
            // In the order of cargo-vet, by number.
            versions.sort_by_key(|version| {
                version.split(['.', '+', '-']).map(|part| part.parse().unwrap_or(0)).collect::<Vec<u64>>()
            });
            for version in versions {
                let _ =
                    write!(text, "\n[[exemptions.{name}]]\nversion = \"{version}\"\ncriteria = \"safe-to-deploy\"\n");
            }
        }
        text
    }
}

/// Returns config.toml by its path from the root.
///
/// # Errors
/// As [`Reviews::read`].
pub(crate) fn generate() -> anyhow::Result<(String, String)> {
    Ok((CONFIG.to_owned(), Reviews::read()?.config()))
}

/// Checks that every locked crate of others has a review or an exemption.
///
/// # Errors
/// One has neither, or a review is of a version that is not locked.
pub(crate) fn check() -> anyhow::Result<()> {
    let reviews = Reviews::read()?;
    let there = std::fs::read_to_string(shell::root().join(CONFIG)).with_context(|| format!("cannot read {CONFIG}"))?;
    ensure!(
        there == reviews.config(),
        "{CONFIG} differs from Cargo.lock and {AUDITS}: look at what is new, and run `cargo xtask codegen`"
    );
    println!(
        "vet: {} crates, {} reviewed, {} exempted",
        reviews.others.len(),
        reviews.audited.len(),
        reviews.exempted().len()
    );
    Ok(())
}

fn text(value: &toml::Value, name: &str) -> anyhow::Result<String> {
    let text = value.get(name).and_then(toml::Value::as_str);
    text.map(str::to_owned).with_context(|| format!("an entry has no {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "[[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n\
        [[package]]\nname = \"wipe\"\nversion = \"1.0.0\"\nsource = \"registry\"\n\
        [[package]]\nname = \"other\"\nversion = \"2.0.0\"\nsource = \"registry\"\n";
    const SECRET: &str = "[crates]\nwipe = \"it wipes\"\n";

    fn audit(version: &str, notes: &str) -> String {
        format!(
            "[[audits.wipe]]\nwho = \"Sealway maintainers\"\ncriteria = \"safe-to-deploy\"\nversion = \"{version}\"\n\
             notes = \"{notes}\"\n"
        )
    }

    #[test]
    fn a_crate_is_reviewed_or_exempted() {
        let reviews = Reviews::parse(LOCK, &audit("1.0.0", &"read ".repeat(30)), SECRET).unwrap();
        assert_eq!(reviews.problems(), Vec::<String>::new());
        assert_eq!(reviews.exempted().len(), 1);
        assert_eq!(reviews.of_secrets().len(), 1);
        let config = reviews.config();
        assert!(config.contains("[policy.ours]") && config.contains("[[exemptions.other]]"));
        assert!(!config.contains("exemptions.wipe"));
    }

    #[test]
    fn a_review_of_another_version_is_none() {
        let reviews = Reviews::parse(LOCK, &audit("1.0.1", &"read ".repeat(30)), SECRET).unwrap();
        assert_eq!(reviews.problems().len(), 1);
        assert_eq!(reviews.exempted().len(), 2);
    }

    #[test]
    fn a_review_without_notes_is_rejected() {
        assert!(Reviews::parse(LOCK, &audit("1.0.0", "fine"), SECRET).is_err());
    }

    #[test]
    fn a_crate_that_is_not_locked_touches_no_secret() {
        let reviews = Reviews::parse(LOCK, "", "[crates]\ngone = \"\"\n").unwrap();
        assert_eq!(reviews.problems(), ["supply-chain/secrets.toml: gone is not locked"]);
    }
}
