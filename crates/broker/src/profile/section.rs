//! Maps with known keys: typed values, and suggestions for unknown keys.

use super::problem::Notes;
use super::tree::{Key, Kind, Node};

/// Longest text of a value in a problem, in characters.
const SHOWN_MAX: usize = 64;

/// A map at a path of the file.
#[derive(Clone, Debug)]
pub(crate) struct Section<'a> {
    pub(crate) path: String,
    pub(crate) line: u32,
    entries: &'a [(Key, Node)],
}

/// A value with its line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct At<T> {
    pub(crate) line: u32,
    pub(crate) value: T,
}

impl<'a> Section<'a> {
    /// Reads a node as a map and records unknown keys. `None` for an empty node, or one that is not a map.
    pub(crate) fn of(node: &'a Node, path: &str, known: &[&str], notes: &mut Notes) -> Option<Section<'a>> {
        let entries = map(node, path, notes)?;
        for (key, _) in entries.iter().filter(|(key, _)| !known.contains(&key.name.as_str())) {
            let advice = match nearest(&key.name, known) {
                Some(name) => format!("; did you mean {name}?"),
                None => format!("; known are {}", known.join(", ")),
            };
            let text = format!("unknown key {:?}{advice}", shown(&key.name));
            // A misspelt demand for a validated module or a standard must not be ignored, even in a lenient reading.
            if ["RequireFips", "Standard"].iter().any(|demand| key.name.eq_ignore_ascii_case(demand)) {
                notes.problem(key.line, path, text);
            } else {
                notes.sloppy(key.line, path, text);
            }
        }
        Some(Section { path: path.to_owned(), line: node.line, entries })
    }

    /// Path of one of the section's keys.
    pub(crate) fn path_of(&self, key: &str) -> String {
        joined(&self.path, key)
    }

    /// Returns the line of a key below the section by its path, or of the last part of the path that is there.
    pub(crate) fn line_of(&self, path: &str) -> u32 {
        let (mut line, mut entries) = (self.line, self.entries);
        for part in path.split('.') {
            let Some((key, node)) = entries.iter().find(|(key, _)| key.name == part) else { break };
            line = key.line;
            entries = if let Kind::Map(entries) = &node.kind { entries } else { &[] };
        }
        line
    }

    /// Returns a key's value, unless it is empty.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Node> {
        let (_, node) = self.entries.iter().find(|(known, _)| known.name == key)?;
        (node.kind != Kind::Null).then_some(node)
    }

    /// Returns the line of a key with an empty value.
    pub(crate) fn is_left_empty(&self, key: &str) -> Option<u32> {
        let (_, node) = self.entries.iter().find(|(known, _)| known.name == key)?;
        (node.kind == Kind::Null).then_some(node.line)
    }

    /// Returns the map under a key.
    pub(crate) fn section(&self, key: &str, known: &[&str], notes: &mut Notes) -> Option<Section<'a>> {
        Section::of(self.get(key)?, &self.path_of(key), known, notes)
    }

    /// Returns a scalar as a text; `None` for an empty one.
    pub(crate) fn text(&self, key: &str, notes: &mut Notes) -> Option<At<&'a str>> {
        let node = self.get(key)?;
        match scalar(node) {
            Some("") => None,
            Some(value) => Some(At { line: node.line, value }),
            None => {
                notes.problem(node.line, self.path_of(key), format!("expected a text, got {}", node.kind_name()));
                None
            }
        }
    }

    pub(crate) fn number(&self, key: &str, notes: &mut Notes) -> Option<At<i64>> {
        let node = self.get(key)?;
        if let Kind::Number(Some(value), _) = node.kind {
            return Some(At { line: node.line, value });
        }
        let what = scalar(node).map_or_else(|| node.kind_name().to_owned(), |text| format!("{:?}", shown(text)));
        notes.problem(node.line, self.path_of(key), format!("expected a whole number, got {what}"));
        None
    }

    pub(crate) fn truth(&self, key: &str, notes: &mut Notes) -> Option<At<bool>> {
        let node = self.get(key)?;
        if let Kind::Bool(value, _) = node.kind {
            return Some(At { line: node.line, value });
        }
        notes.problem(node.line, self.path_of(key), format!("expected true or false, got {}", node.kind_name()));
        None
    }

    /// Returns a list of at most `max` texts.
    pub(crate) fn texts(&self, key: &str, max: usize, notes: &mut Notes) -> Vec<At<&'a str>> {
        let Some(node) = self.get(key) else { return Vec::new() };
        let Kind::List(items) = &node.kind else {
            notes.problem(node.line, self.path_of(key), format!("expected a list, got {}", node.kind_name()));
            return Vec::new();
        };
        if items.len() > max {
            notes.problem(node.line, self.path_of(key), format!("more than {max} entries"));
            return Vec::new();
        }
        let mut texts = Vec::new();
        for item in items {
            match scalar(item) {
                Some(value) => texts.push(At { line: item.line, value }),
                None => {
                    notes.problem(item.line, self.path_of(key), format!("expected a text, got {}", item.kind_name()));
                }
            }
        }
        texts
    }

    /// Returns the value of a name, ignoring case; `unknown` begins the problem for an unknown name.
    pub(crate) fn name<T: Copy>(
        &self,
        key: &str,
        names: &[(&str, T)],
        unknown: &str,
        notes: &mut Notes,
    ) -> Option<At<T>> {
        let text = self.text(key, notes)?;
        let value = named(text.value, names);
        if value.is_none() {
            notes.problem(text.line, self.path_of(key), unlisted(unknown, text.value, names));
        }
        Some(At { line: text.line, value: value? })
    }

    /// Returns the value of a required name, like [`Section::name`].
    pub(crate) fn required_name<T: Copy>(
        &self,
        key: &str,
        names: &[(&str, T)],
        unknown: &str,
        notes: &mut Notes,
    ) -> Option<At<T>> {
        let is_there = self.get(key).is_some_and(|node| scalar(node) != Some(""));
        if !is_there {
            notes.problem(self.line, self.path_of(key), format!("required; one of {}", listed(names)));
        }
        self.name(key, names, unknown, notes)
    }

    /// True if all values are empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.iter().all(|(_, node)| match &node.kind {
            Kind::Null => true,
            Kind::Text(text) => text.is_empty(),
            Kind::List(items) => items.is_empty(),
            Kind::Map(entries) => entries.is_empty(),
            Kind::Bool(..) | Kind::Number(..) => false,
        })
    }
}

/// Returns the entries of a map; `None` for an empty node. Another kind of node is a problem.
pub(crate) fn map<'a>(node: &'a Node, path: &str, notes: &mut Notes) -> Option<&'a [(Key, Node)]> {
    match &node.kind {
        Kind::Map(entries) => Some(entries),
        Kind::Null => None,
        _ => {
            notes.problem(node.line, path, format!("expected a map, got {}", node.kind_name()));
            None
        }
    }
}

/// Joins a path and a key.
pub(crate) fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Returns a scalar as it is written.
pub(crate) fn scalar(node: &Node) -> Option<&str> {
    match &node.kind {
        Kind::Text(text) | Kind::Bool(_, text) | Kind::Number(_, text) => Some(text),
        Kind::Null | Kind::List(_) | Kind::Map(_) => None,
    }
}

/// Finds the value of a name, ignoring case.
pub(crate) fn named<T: Copy>(text: &str, names: &[(&str, T)]) -> Option<T> {
    names.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, value)| *value)
}

/// Text of a problem for an unknown name, with the available ones.
pub(crate) fn unlisted<T>(unknown: &str, text: &str, names: &[(&str, T)]) -> String {
    format!("{unknown}: {}, available values: [{}]", shown(text), listed(names))
}

fn listed<T>(names: &[(&str, T)]) -> String {
    names.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// Escapes and truncates a text of the file for a line of a log.
pub(crate) fn shown(text: &str) -> String {
    let mut short: String = text.chars().take(SHOWN_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        short.push('…');
    }
    short
}

/// Returns the known name that is most similar to a wrong one.
fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let lower = name.to_lowercase();
    let far = |known: &str| distance(&lower, &known.to_lowercase());
    let (near, far) = known.iter().map(|known| (*known, far(known))).min_by_key(|(_, far)| *far)?;
    // At most a third of the letters may differ.
    (far * 3 <= near.len()).then_some(near)
}

/// Edit distance: letters changed, removed, inserted, or swapped with the next one.
fn distance(one: &str, other: &str) -> usize {
    // Longer names match none.
    let [one, other] = [one, other].map(|name| name.chars().take(SHOWN_MAX).collect::<Vec<char>>());
    // Three rows: for the letters up to two before, up to one before, and up to this one.
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.iter().enumerate() {
        let mut row = vec![at + 1];
        for (column, known) in other.iter().enumerate() {
            let mut least =
                (last[column] + usize::from(letter != known)).min(last[column + 1] + 1).min(row[column] + 1);
            if at > 0 && column > 0 && one[at - 1] == *known && *letter == other[column - 1] {
                least = least.min(before[column - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suggested_name_is_the_nearest_one() {
        let known = ["HashAlg", "SignAlg", "KeyConstraints", "Validity"];
        for (name, want) in [
            ("hashalg", Some("HashAlg")),
            ("HashAlgo", Some("HashAlg")),
            ("KeyConstrains", Some("KeyConstraints")),
            ("Valdity", Some("Validity")),
            ("Colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, &known), want, "{name}");
        }
        assert_eq!(nearest("Nmae", &["Settings", "Name"]), Some("Name"));
        // At most a third of the letters may differ.
        assert_eq!(nearest("Curxx", &["Curve"]), None);
        assert_eq!(nearest("Randxx", &["Random"]), Some("Random"));
        for (one, other, far) in [
            ("kitten", "sitting", 3),
            ("ab", "ba", 1),
            ("abcd", "badc", 2),
            ("", "abc", 3),
            ("abc", "", 3),
            ("a", "a", 0),
            ("xabc", "abc", 1),
            ("abcx", "abc", 1),
            ("abc", "xabc", 1),
            ("abc", "abcx", 1),
            ("axbxc", "abc", 2),
        ] {
            assert_eq!(distance(one, other), far, "{one} {other}");
        }
    }
}
