//! Module names without meaning are rejected. A module is named after its content: session, nonce, store, listener.

use super::Finding;
use super::files::Source;

const BANNED: &[&str] = &["util", "utils", "common", "core", "helper", "helpers", "manager", "managers", "misc"];

/// Sources whose file and folder names are module names.
const CODE: &[&str] = &["rs", "py", "ts", "tsx", "js", "go", "java"];

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| CODE.contains(&source.extension())) {
        for part in source.path.split('/') {
            let name = part.split('.').next().unwrap_or_default();
            if banned(name) {
                findings.push(Finding::new(&source.path, message(name)));
            }
        }
        if source.extension() == "rs" {
            for (line, text) in source.lines() {
                if let Some(name) = declared(text).filter(|name| banned(name)) {
                    findings.push(Finding::at(source, line, message(name)));
                }
            }
        }
    }
    findings
}

fn banned(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    BANNED.contains(&name.rsplit(['_', '-']).next().unwrap_or_default())
}

fn message(name: &str) -> String {
    format!(
        "a module called `{name}` becomes a drawer for everything: name it after the one thing it holds, or put each thing where it is used"
    )
}

/// Returns the name in `pub(crate) mod name;` or `mod name {`.
fn declared(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
    (words.next()? == "mod").then(|| words.next()).flatten().map(|name| name.trim_end_matches([';', '{']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(path: &str, text: &str) -> usize {
        check(&[Source::sample(path, text)]).len()
    }

    #[test]
    fn a_module_named_after_what_it_holds_passes() {
        assert_eq!(one("crates/sessions/src/store/memory.rs", "mod nonce;\npub(crate) mod sweep {\n"), 0);
        assert_eq!(one("docs/common/page.md", "mod utils;"), 0);
        assert_eq!(one("crates/proto/src/score.rs", "// the mod core; is not declared here\n"), 0);
    }

    #[test]
    fn a_file_or_folder_with_an_empty_name_is_found() {
        assert_eq!(one("crates/sessions/src/utils.rs", ""), 1);
        assert_eq!(one("crates/sessions/tests/common/mod.rs", ""), 1);
        assert_eq!(one("sdk/python/session_helpers.py", ""), 1);
        assert_eq!(one("sdk/typescript/src/core/index.ts", ""), 1);
    }

    #[test]
    fn a_declared_module_with_an_empty_name_is_found() {
        assert_eq!(one("crates/proto/src/lib.rs", "pub(crate) mod helpers;\n"), 1);
        assert_eq!(one("crates/proto/src/lib.rs", "    mod session_manager {\n"), 1);
    }
}
