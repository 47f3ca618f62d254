//! Sources of published packages: READMEs whose links work on a registry's page, one version, one licence.

use super::Finding;
use super::anchors::slugs;
use super::files::Source;

/// Files beside which a README is that of a package. Java's packages have none.
const MANIFESTS: &[&str] = &["package.json", "pyproject.toml", "go.mod", "Cargo.toml"];

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let of = |path: &str| sources.iter().find(|source| source.path == path);
    let manifest = of("Cargo.toml").and_then(|source| source.text.parse::<toml::Table>().ok());
    let field = |name: &str| manifest.as_ref()?.get("workspace")?.get("package")?.get(name)?.as_str();
    let (Some(version), Some(repository)) = (field("version"), field("repository")) else {
        return vec![Finding::new("Cargo.toml", "workspace.package has no version or no repository")];
    };
    let mut findings: Vec<_> = sources
        .iter()
        .filter(|source| is_package_readme(source, sources))
        .flat_map(|readme| links(readme, sources, &format!("{repository}/blob/main/")))
        .collect();
    findings.extend(sources.iter().flat_map(|source| versions(source, version)));
    let licence = of("LICENSE").map(|source| source.text.as_str());
    let copies = sources.iter().filter(|source| source.path.ends_with("/LICENSE"));
    let others = copies.filter(|source| Some(source.text.as_str()) != licence);
    findings.extend(others.map(|source| Finding::new(&source.path, "differs from LICENSE at the root: copy it")));
    findings
}

/// Returns whether the file is the README of a crate or of a package below `sdk/`.
fn is_package_readme(source: &Source, sources: &[Source]) -> bool {
    let Some(folder) = source.path.strip_suffix("README.md") else { return false };
    let is_package = folder.starts_with("crates/") || folder.starts_with("sdk/");
    is_package && MANIFESTS.iter().any(|name| sources.iter().any(|other| other.path == format!("{folder}{name}")))
}

/// Checks the links of a README: to its own headings, to the web, and by `base` to pages of this repository.
fn links(readme: &Source, sources: &[Source], base: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut in_fence = false;
    for (line, text) in readme.lines() {
        in_fence ^= text.trim_start().starts_with("```");
        let targets = text.match_indices("](").map(|(at, _)| &text[at + 2..]);
        for target in targets.filter(|_| !in_fence).filter_map(|rest| rest.split([')', ' ']).next()) {
            let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
            let page = if path.is_empty() { Some(readme.path.as_str()) } else { path.strip_prefix(base) };
            let message = match page {
                None if path.starts_with("https://") => continue,
                None => format!(
                    "links to {target}, which does not work on a registry: write {base} and the path from the root"
                ),
                Some(page) => match sources.iter().find(|source| source.path == page) {
                    None => format!("links to {page}, which does not exist in this repository"),
                    Some(page)
                        if anchor
                            .is_some_and(|anchor| page.extension() == "md" && !slugs(&page.text).contains(anchor)) =>
                    {
                        format!("links to {target}, but no heading of {} has that anchor", page.path)
                    }
                    Some(_) => continue,
                },
            };
            findings.push(Finding::at(readme, line, message));
        }
    }
    findings
}

/// Checks the versions that a manifest states of packages of this repository.
fn versions(source: &Source, version: &str) -> Vec<Finding> {
    let name = source.path.rsplit('/').next().unwrap_or_default();
    // The text before a version, and the text after it.
    let (before, after) = match name {
        "Cargo.toml" if source.path == "Cargo.toml" => ("\", version = \"", "\""),
        "package.json" if source.path.starts_with("sdk/typescript/") => ("\n  \"version\": \"", "\""),
        "pyproject.toml" => ("\nversion = \"", "\""),
        "pom.xml" if source.path.starts_with("sdk/java/") => ("<artifactId>sealway-parent</artifactId>", "</version>"),
        "go.mod" if source.path.starts_with("sdk/go/") => ("\tsealway.dev/go v", "\n"),
        _ => return Vec::new(),
    };
    let found = source.text.split(before).skip(1).filter_map(|rest| rest.trim_start().split(after).next());
    // Between an artefact's name and its version Maven has a tag.
    let found: Vec<_> = found.map(|found| found.trim_start_matches("<version>")).collect();
    if found.is_empty() && !["Cargo.toml", "go.mod"].contains(&name) {
        return vec![Finding::new(
            &source.path,
            "states no version: is this file written in another form than before?",
        )];
    }
    let others = found.into_iter().filter(|found| *found != version);
    others
        .map(|found| Finding::new(&source.path, format!("has version {found}, and the workspace has {version}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[workspace.package]\nversion = \"1.2.3\"\nrepository = \"https://forge.test/a\"\n";

    fn with(path: &str, text: &str) -> Vec<String> {
        let sources = [
            Source::sample("Cargo.toml", MANIFEST),
            Source::sample("LICENSE", "terms"),
            Source::sample("spec/a.md", "# Keys\n"),
            Source::sample("sdk/go/go.mod", "module sealway.dev/go\n"),
            Source::sample(path, text),
        ];
        check(&sources).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn links_that_work_on_a_registry_pass() {
        let base = "https://forge.test/a/blob/main/";
        let page = format!(
            "# Own\n[a](#own) [b](https://b.test) [c]({base}spec/a.md) [d]({base}spec/a.md#keys)\n```\n[e](e)\n```\n"
        );
        assert_eq!(with("sdk/go/README.md", &page), [""; 0]);
        assert_eq!(with("docs/README.md", "[a](../spec/a.md)"), [""; 0]);
    }

    #[test]
    fn links_that_do_not_work_on_a_registry_are_found() {
        for (link, expected) in [
            ("../../spec/a.md", "does not work on a registry"),
            ("channel/README.md", "does not work on a registry"),
            ("http://b.test", "does not work on a registry"),
            ("https://forge.test/a/blob/main/spec/b.md", "does not exist"),
            ("https://forge.test/a/blob/main/spec/a.md#key", "no heading"),
            ("#key", "no heading"),
        ] {
            let found = with("sdk/go/README.md", &format!("see [a]({link})"));
            assert!(found.len() == 1 && found[0].contains(expected), "{link}: {found:?}");
        }
    }

    #[test]
    fn versions_of_packages_are_the_workspaces() {
        for (path, text) in [
            ("sdk/typescript/channel/package.json", "{\n  \"version\": \"X\",\n"),
            ("sdk/python/pyproject.toml", "[project]\nversion = \"X\"\n"),
            ("sdk/java/a/pom.xml", "<artifactId>sealway-parent</artifactId><version>X</version>"),
            ("sdk/java/pom.xml", "<artifactId>sealway-parent</artifactId>\n  <version>X</version>"),
            ("sdk/go/channel/go.mod", "require (\n\tsealway.dev/go vX\n)\n"),
        ] {
            assert_eq!(with(path, &text.replace('X', "1.2.3")), [""; 0], "{path}");
            assert_eq!(
                with(path, &text.replace('X', "1.2.0")),
                ["has version 1.2.0, and the workspace has 1.2.3"],
                "{path}"
            );
        }
        assert_eq!(with("sdk/typescript/package.json", "{\"version\":\"1.2.3\"}").len(), 1);
        assert_eq!(with("tests/a/pom.xml", "<artifactId>a</artifactId><version>0</version>"), [""; 0], "not published");
        let dependency =
            format!("{MANIFEST}[workspace.dependencies]\na = {{ path = \"crates/a\", version = \"1.2.0\" }}\n");
        assert_eq!(check(&[Source::sample("Cargo.toml", &dependency)]).len(), 1);
    }

    #[test]
    fn copies_of_the_licence_are_copies() {
        assert_eq!(with("sdk/python/LICENSE", "terms"), [""; 0]);
        assert_eq!(with("sdk/python/LICENSE", "other terms").len(), 1);
    }
}
