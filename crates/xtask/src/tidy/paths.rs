//! No path of one person's home or machine: it reveals the person and the machine, and works nowhere else.

use super::Finding;
use super::files::Source;

/// Folders that only a person's machine has. Concatenated so that this file does not contain them.
const PRIVATE: &[&str] = &[
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("C:\\Us", "ers\\"),
];

/// Checks the sources. `home` is the home of the user who runs tidy, which may be elsewhere.
pub(super) fn check(sources: &[Source], home: &str) -> Vec<Finding> {
    let own = format!("{}/", home.trim_end_matches('/'));
    let mut private = PRIVATE.to_vec();
    // A home such as `/app` of a container would be found in every other line.
    if own.matches('/').count() > 2 {
        private.push(&own);
    }
    let mut findings = Vec::new();
    for source in sources {
        for (line, text) in source.lines() {
            if let Some(start) = private.iter().find(|start| names_path(text, start)) {
                let message = format!(
                    "holds a path under {start}, which is one developer's machine: write it from the repository's root, or as \
                     $HOME or a temporary folder"
                );
                findings.push(Finding::at(source, line, message));
            }
        }
    }
    findings
}

/// Returns whether a path of the line begins with `start`, as opposed to containing it further down.
fn names_path(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + start.len()..].chars().next();
        let inside = before.is_some_and(|c| c.is_alphanumeric() || "_-./~*$}".contains(c));
        !inside && after.is_some_and(|c| c.is_alphanumeric() || "._-".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> usize {
        check(&[Source::sample("docs/a.md", text)], "/srv/people/jane").len()
    }

    #[test]
    fn a_path_that_works_everywhere_passes() {
        for text in ["crates/proto/src", "$HOME/.cache", "fuzz/grown/open", "https://host/users/7", "/var/lib/sealway"]
        {
            assert_eq!(one(text), 0, "{text}");
        }
        for start in PRIVATE {
            assert_eq!(one(&format!("in `a{start}b`")), 0, "{start} further down");
            assert_eq!(one(&format!("in `{start}` there is")), 0, "{start} alone");
        }
    }

    #[test]
    fn a_path_of_one_machine_is_found() {
        for start in PRIVATE {
            for text in [format!("{start}jane/a"), format!("see `{start}jane`"), format!("dir={start}.cache")] {
                assert_eq!(one(&text), 1, "{text}");
            }
        }
        assert_eq!(one("in /srv/people/jane/sealway"), 1);
    }

    #[test]
    fn the_home_of_a_container_is_no_persons() {
        assert_eq!(check(&[Source::sample("a.sh", "cp x /app/y")], "/app"), []);
    }
}
