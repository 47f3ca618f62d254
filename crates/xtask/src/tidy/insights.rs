//! SECURITY-INSIGHTS.yml, in the form of version 2.0.0 of the schema of OpenSSF: required members are there, and addresses within
//! the repository lead to files. The reading is of the part of YAML that the file uses: maps and lists by indentation, one value a line.

use std::collections::BTreeMap;

use super::Finding;
use super::files::Source;

const FILE: &str = "SECURITY-INSIGHTS.yml";
/// The begin of an address that leads to a file of the repository.
const BLOB: &str = "https://github.com/sealway/sealway/blob/main/";

/// Members that the schema requires of a file with a project and a repository; `[]` is any entry of a list.
const REQUIRED: &[&str] = &[
    "header.schema-version",
    "header.last-updated",
    "header.last-reviewed",
    "header.url",
    "project.name",
    "project.administrators[].name",
    "project.administrators[].primary",
    "project.repositories[].name",
    "project.repositories[].url",
    "project.repositories[].comment",
    "project.vulnerability-reporting.reports-accepted",
    "project.vulnerability-reporting.bug-bounty-available",
    "repository.url",
    "repository.status",
    "repository.accepts-change-request",
    "repository.accepts-automated-change-request",
    "repository.core-team[].name",
    "repository.core-team[].primary",
    "repository.license.url",
    "repository.license.expression",
    "repository.security.assessments.self.comment",
];

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let Some(source) = sources.iter().find(|source| source.path == FILE) else {
        return vec![Finding::new(FILE, "is missing: it tells other programs how the project handles security")];
    };
    let members = members(source);
    let mut findings = Vec::new();
    for path in REQUIRED {
        if !members.contains_key(*path) {
            findings.push(Finding::new(FILE, format!("lacks {path}, which the schema requires")));
        }
    }
    if let Some(entries) = members.get("header.schema-version")
        && entries.iter().any(|(_, version)| version != "2.0.0")
    {
        findings.push(Finding::new(FILE, "header.schema-version: this rule reads 2.0.0"));
    }
    for (path, entries) in &members {
        for (line, value) in entries {
            if ["header.last-updated", "header.last-reviewed"].contains(&path.as_str()) && !is_date(value) {
                findings.push(Finding::at(source, *line, format!("{path}: expected a date, YYYY-MM-DD")));
            }
            let file = value.strip_prefix(BLOB).map(|file| file.split('#').next().unwrap_or(file));
            if let Some(file) = file.filter(|file| !sources.iter().any(|source| source.path == **file)) {
                findings.push(Finding::at(source, *line, format!("{path}: there is no {file}")));
            }
        }
    }
    findings
}

/// Returns the values of the file by the path of their member, each with its line.
fn members(source: &Source) -> BTreeMap<String, Vec<(usize, String)>> {
    let mut members: BTreeMap<String, Vec<(usize, String)>> = BTreeMap::new();
    // Indentation and name of each map that is open.
    let mut open: Vec<(usize, String)> = Vec::new();
    for (line, text) in source.lines() {
        let mut rest = text.trim_start();
        if rest.is_empty() || rest.starts_with('#') {
            continue;
        }
        let mut indentation = text.len() - rest.len();
        open.retain(|(at, _)| *at < indentation);
        if let Some(entry) = rest.strip_prefix("- ") {
            open.push((indentation, "[]".to_owned()));
            indentation += 2;
            rest = entry;
        }
        let Some((name, value)) = rest.split_once(':') else { continue };
        let value = value.trim().trim_matches(|c| c == '"' || c == '\'');
        open.push((indentation, name.to_owned()));
        if !value.is_empty() {
            let path: String = open.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(".");
            members.entry(path.replace(".[]", "[]")).or_default().push((line, value.to_owned()));
        }
    }
    members
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let is_number = |part: &&str, digits: usize| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
    matches!(parts.as_slice(), [year, month, day] if is_number(year, 4) && is_number(month, 2) && is_number(day, 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell;

    fn messages(text: &str) -> Vec<String> {
        let sources = [Source::sample(FILE, text), Source::sample("SECURITY.md", "")];
        check(&sources).into_iter().map(|finding| finding.message).collect()
    }

    fn own() -> String {
        std::fs::read_to_string(shell::root().join(FILE)).unwrap()
    }

    #[test]
    fn the_file_has_every_required_member() {
        assert!(!messages(&own()).iter().any(|message| message.starts_with("lacks")));
    }

    #[test]
    fn a_file_without_a_member_is_found() {
        let messages = messages(&own().replace("bug-bounty-available", "bounty"));
        assert!(messages.iter().any(|message| message.starts_with("lacks project.vulnerability-reporting.bug-bounty")));
    }

    #[test]
    fn an_address_that_leads_nowhere_and_a_wrong_date_are_found() {
        let text = format!("header:\n  url: {BLOB}GONE.md#x\n  last-updated: yesterday\n  schema-version: 1.0.0\n");
        let messages = messages(&text);
        assert!(messages.contains(&"header.url: there is no GONE.md".to_owned()), "{messages:?}");
        assert!(messages.contains(&"header.last-updated: expected a date, YYYY-MM-DD".to_owned()));
        assert!(messages.contains(&"header.schema-version: this rule reads 2.0.0".to_owned()));
    }

    #[test]
    fn a_repository_without_the_file_is_found() {
        assert_eq!(check(&[]).len(), 1);
    }
}
