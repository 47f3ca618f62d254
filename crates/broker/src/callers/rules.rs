//! Parses the rules for callers in a file.

use super::{Callers, Names, OPERATIONS, Rule, Subject};
use crate::keys::is_key_id;
use crate::profile::problem::Notes;
use crate::profile::section::{Section, shown};
use crate::profile::tree::{Kind, Node};

/// Most rules of a file.
const RULES_MAX: usize = 1_000;
/// Most entries of a rule's list.
const ENTRIES_MAX: usize = 1_000;
/// Longest entry of a list, in bytes.
const ENTRY_LEN_MAX: usize = 1_024;
/// Overflow id: the kernel reports it for users and groups without a number here.
pub(super) const OVERFLOW_ID: u32 = 65_534;

impl Callers {
    /// Parses the list of rules in a node.
    pub(crate) fn of_node(node: &Node, path: &str, notes: &mut Notes) -> Option<Callers> {
        let Kind::List(items) = &node.kind else {
            notes.problem(node.line, path, format!("expected a list of rules, got {}", node.kind_name()));
            return None;
        };
        if items.is_empty() || items.len() > RULES_MAX {
            notes.problem(node.line, path, format!("expected 1 to {RULES_MAX} rules"));
            return None;
        }
        let rules = items.iter().enumerate().filter_map(|(at, item)| rule(item, &format!("{path}[{at}]"), notes));
        let rules = rules.collect();
        Some(Callers { rules, warnings: Vec::new() })
    }
}

fn rule(node: &Node, path: &str, notes: &mut Notes) -> Option<Rule> {
    if node.kind == Kind::Null {
        notes.problem(node.line, path, "expected a map, got nothing");
        return None;
    }
    let section = Section::of(node, path, &["Uid", "Gid", "Token", "Any", "Profiles", "Operations", "Keys"], notes)?;
    let subject = subject(&section, notes);
    let profiles = names(&section, "Profiles", notes);
    let operations = operations_of(&section, notes);
    let keys = names(&section, "Keys", notes);
    Some(Rule { subject: subject?, profiles: profiles?, operations: operations?, keys: keys? })
}

/// Parses the caller of a rule: exactly one of `Uid`, `Gid`, `Token` and `Any`.
fn subject(section: &Section<'_>, notes: &mut Notes) -> Option<Subject> {
    let mut found = Vec::new();
    for (key, make) in [("Uid", Subject::Uid as fn(u32) -> Subject), ("Gid", Subject::Gid)] {
        if section.get(key).is_none() {
            continue;
        }
        let number = section.number(key, notes)?;
        let Ok(id) = u32::try_from(number.value) else {
            notes.problem(
                number.line,
                section.path_of(key),
                format!("{} is not the number of a user or group", number.value),
            );
            return None;
        };
        if id == OVERFLOW_ID {
            let text = "stands for everybody whom this machine has no number for, such as users of other containers";
            notes.warn(number.line, section.path_of(key), text);
        }
        found.push(make(id));
    }
    if section.get("Token").is_some() {
        let name = section.text("Token", notes)?;
        if !is_key_id(name.value) {
            notes.problem(name.line, section.path_of("Token"), "expected 1 to 64 letters, digits, '.', '_' or '-'");
            return None;
        }
        found.push(Subject::Token(name.value.to_owned()));
    }
    if section.get("Any").is_some() {
        let any = section.truth("Any", notes)?;
        if !any.value {
            notes.problem(any.line, section.path_of("Any"), "expected true");
            return None;
        }
        found.push(Subject::Any);
    }
    if found.len() != 1 {
        notes.problem(section.line, &section.path, "expected one of Uid, Gid, Token, Any");
    }
    found.pop().filter(|_| found.is_empty())
}

/// Parses a list of names: `*` for all, `tenant-*` for a prefix. The list is required, and may be empty.
fn names(section: &Section<'_>, key: &str, notes: &mut Notes) -> Option<Names> {
    let Some(node) = section.get(key) else {
        notes.problem(section.line, section.path_of(key), "required; [\"*\"] for all");
        return None;
    };
    let Kind::List(_) = node.kind else {
        notes.problem(node.line, section.path_of(key), format!("expected a list, got {}", node.kind_name()));
        return None;
    };
    let (mut exact, mut prefixes) = (Vec::new(), Vec::new());
    for text in section.texts(key, ENTRIES_MAX, notes) {
        if text.value == "*" {
            return Some(Names::All);
        }
        let (name, is_prefix) = match text.value.strip_suffix('*') {
            Some(prefix) => (prefix, true),
            None => (text.value, false),
        };
        if name.is_empty() || name.len() > ENTRY_LEN_MAX || name.contains('*') {
            let what = "expected 1 to 1024 bytes, with * at the end alone";
            notes.problem(text.line, section.path_of(key), format!("{what}: {}", shown(text.value)));
            continue;
        }
        if is_prefix { &mut prefixes } else { &mut exact }.push(name.to_owned());
    }
    Some(Names::Some { exact, prefixes })
}

/// Parses a list like [`names`], of the names in [`OPERATIONS`].
fn operations_of(section: &Section<'_>, notes: &mut Notes) -> Option<Names> {
    let names = names(section, "Operations", notes)?;
    if let Names::Some { exact, prefixes } = &names {
        let line = section.get("Operations").map_or(section.line, |node| node.line);
        let wrong = exact.iter().filter(|name| !OPERATIONS.contains(&name.as_str())).chain(prefixes);
        for name in wrong {
            let text = format!("unknown operation: {}, available values: [{}]", shown(name), OPERATIONS.join(", "));
            notes.problem(line, section.path_of("Operations"), text);
        }
    }
    Some(names)
}
