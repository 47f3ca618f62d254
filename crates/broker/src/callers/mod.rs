//! Who may do what: users and groups of the machine, and the profiles, operations and keys that each may use.
//!
//! It may not know: what a profile says, what a key is. Whoever no rule lets is refused, always with the same words, so that a
//! refusal does not tell what there is.
// SPEC broker.md#callers

mod operations;
mod peer;

use std::path::Path;

pub use operations::{OPERATIONS, operation_name};
pub use peer::Peer;

use crate::profile::load::read;
use crate::profile::problem::{Leniency, Notes, Problem};
use crate::profile::section::{Section, shown};
use crate::profile::tree::{Kind, Node};
use crate::{Code, Refusal};

/// Most rules.
const RULES_MAX: usize = 1_000;
/// Most entries of a rule's list.
const ENTRIES_MAX: usize = 1_000;
/// Longest entry, in bytes.
const ENTRY_LEN_MAX: usize = 1_024;
/// The user and group that the kernel tells of those it has no number for.
const OVERFLOW_ID: u32 = 65_534;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// One of [`OPERATIONS`], or what our wire calls it.
    pub operation: &'a str,
    /// None where the operation takes none.
    pub profile: Option<&'a str>,
    /// The id of a key of the store; none where the operation takes none.
    pub key: Option<&'a str>,
}

/// The rules. They are immutable: a reload makes new ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callers {
    rules: Vec<Rule>,
    warnings: Vec<Problem>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    who: Who,
    profiles: Names,
    operations: Names,
    keys: Names,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Any,
    Uid(u32),
    Gid(u32),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Names {
    All,
    /// Exactly these, and all that begin so.
    Some {
        exact: Vec<String>,
        prefixes: Vec<String>,
    },
}

impl Callers {
    /// The default: one user, who may do everything. Whoever owns the socket.
    pub fn only(uid: u32) -> Callers {
        let all = Rule { who: Who::Uid(uid), profiles: Names::All, operations: Names::All, keys: Names::All };
        Callers { rules: vec![all], warnings: Vec::new() }
    }

    /// Reads a policy's text: a list of rules.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(text: &str, leniency: Leniency) -> Result<Callers, Vec<Problem>> {
        let root = Node::parse(text).map_err(|err| vec![Problem { line: err.line, ..Problem::of_file(err.text) }])?;
        let mut notes = Notes::new(leniency);
        let callers = Callers::of_node(&root, "", &mut notes);
        let warnings = notes.into_result()?;
        callers.map(|callers| Callers { warnings, ..callers }).ok_or_else(Vec::new)
    }

    /// Reads a policy's file, which is held to what a file of profiles is held to.
    ///
    /// # Errors
    /// Everything that is wrong with it, as with [`crate::profile::load()`].
    pub fn load(path: &Path, leniency: Leniency) -> Result<Callers, Vec<Problem>> {
        Callers::parse(&read(path)?, leniency)
    }

    /// What is worth a word though it is allowed; of a section in a file of profiles, that tells it.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// Whether a caller may do something.
    ///
    /// # Errors
    /// A [`Refusal`] with code 7 that says nothing of what there is.
    pub fn allows(&self, peer: &Peer, ask: Ask<'_>) -> Result<(), Refusal> {
        let operation = operation_name(ask.operation);
        let is_allowed = self.rules_of(peer).any(|rule| {
            rule.operations.hold(operation)
                && ask.profile.is_none_or(|profile| rule.profiles.hold(profile))
                && ask.key.is_none_or(|key| rule.keys.hold(key))
        });
        if is_allowed {
            return Ok(());
        }
        Err(Refusal::new(Code::PermissionDenied, "not allowed to this caller"))
    }

    /// Whether any operation of a profile is open to a caller.
    pub fn may_use(&self, peer: &Peer, profile: &str) -> bool {
        self.rules_of(peer).any(|rule| rule.profiles.hold(profile))
    }

    /// Whether any operation on a key is open to a caller.
    pub fn may_see(&self, peer: &Peer, key: &str) -> bool {
        self.rules_of(peer).any(|rule| rule.keys.hold(key))
    }

    fn rules_of<'a>(&'a self, peer: &'a Peer) -> impl Iterator<Item = &'a Rule> {
        self.rules.iter().filter(move |rule| match rule.who {
            Who::Any => true,
            Who::Uid(known) => known == peer.uid,
            Who::Gid(known) => peer.is_in(known),
        })
    }

    /// The rules that a node of a file lists.
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

impl Names {
    fn hold(&self, name: &str) -> bool {
        match self {
            Names::All => true,
            Names::Some { exact, prefixes } => {
                exact.iter().any(|known| known == name) || prefixes.iter().any(|prefix| name.starts_with(prefix))
            }
        }
    }
}

fn rule(node: &Node, path: &str, notes: &mut Notes) -> Option<Rule> {
    if node.kind == Kind::Null {
        notes.problem(node.line, path, "expected a map, got nothing");
        return None;
    }
    let section = Section::of(node, path, &["Uid", "Gid", "Any", "Profiles", "Operations", "Keys"], notes)?;
    let who = who(&section, notes);
    let profiles = names(&section, "Profiles", notes);
    let operations = operations_of(&section, notes);
    let keys = names(&section, "Keys", notes);
    Some(Rule { who: who?, profiles: profiles?, operations: operations?, keys: keys? })
}

/// Exactly one of the three.
fn who(section: &Section<'_>, notes: &mut Notes) -> Option<Who> {
    let mut found = Vec::new();
    for (key, make) in [("Uid", Who::Uid as fn(u32) -> Who), ("Gid", Who::Gid)] {
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
    if section.get("Any").is_some() {
        let any = section.truth("Any", notes)?;
        if !any.value {
            notes.problem(any.line, section.path_of("Any"), "expected true");
            return None;
        }
        found.push(Who::Any);
    }
    if found.len() != 1 {
        notes.problem(section.line, &section.path, "expected one of Uid, Gid, Any");
    }
    found.pop().filter(|_| found.is_empty())
}

/// A list of names: `*` for all, `tenant-*` for all that begin so. It has to be there, and may be empty.
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

/// As [`names`], of [`OPERATIONS`].
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

#[cfg(test)]
mod tests;
