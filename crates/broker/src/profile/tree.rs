//! A YAML file as a tree of nodes with their lines, so that all problems can be reported at once with their places. The
//! module knows nothing of the file's subject.

use std::fmt;

use granit_parser::{Event, Parser};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use super::section::shown;

/// A node with its line, from 1; 0 if the line is not known.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) line: u32,
    pub(crate) kind: Kind,
}

/// Kind and content of a node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Null,
    /// Truth value, and its spelling in the file.
    Bool(bool, String),
    /// Number, and its spelling in the file, which serves as a text.
    Number(Option<i64>, String),
    Text(String),
    List(Vec<Node>),
    /// Entries in the file's order, each key once.
    Map(Vec<(Key, Node)>),
}

/// A key of a map, with its line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key {
    pub(crate) line: u32,
    pub(crate) name: String,
}

/// A text that is not YAML, or that exceeds the bounds.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) line: u32,
    pub(crate) text: String,
}

impl Node {
    /// Parses a text of one YAML document, within the bounds of depth, nodes and aliases below.
    pub(crate) fn parse(text: &str) -> Result<Node, Unreadable> {
        let mut options = serde_saphyr::Options::default();
        options.with_snippet = false;
        options.alias_limits.max_total_replayed_events = 100_000;
        if let Some(budget) = options.budget.as_mut() {
            // Far below the library's own limit: a thousand full profiles have some 60,000 nodes.
            budget.max_depth = 16;
            budget.max_nodes = 200_000;
            budget.max_documents = 1;
            budget.max_aliases = 4_000;
            budget.max_anchors = 4_000;
        }
        let value: Spanned<Value> = serde_saphyr::from_str_with_options(text, options)
            .map_err(|err| Unreadable { line: err.location().map_or(0, |at| line(&at)), text: err.to_string() })?;
        no_tags(text)?;
        Ok(placed(value, text))
    }

    /// Name of the node's kind, for a person.
    pub(crate) fn kind_name(&self) -> &'static str {
        match self.kind {
            Kind::Null => "nothing",
            Kind::Bool(..) => "a truth value",
            Kind::Number(..) => "a number",
            Kind::Text(_) => "a text",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a map",
        }
    }
}

/// Rejects tags other than those of YAML's core schema. The library ignores them; in other programs `!!python/…` runs
/// code, so that a tag is never without a meaning to its author.
fn no_tags(text: &str) -> Result<(), Unreadable> {
    const CORE: [&str; 7] = ["bool", "float", "int", "map", "null", "seq", "str"];
    for event in Parser::new_from_str(text) {
        // Parsed before by the other library; a text on which the two disagree is rejected.
        let (event, span) = event.map_err(|err| Unreadable { line: 0, text: err.to_string() })?;
        let (Event::Scalar(_, _, _, tag) | Event::SequenceStart(_, _, tag) | Event::MappingStart(_, _, tag)) = event
        else {
            continue;
        };
        let Some(tag) = tag else { continue };
        if tag.handle() != "tag:yaml.org,2002:" || !CORE.contains(&tag.suffix()) {
            let line = u32::try_from(span.start.line()).unwrap_or(u32::MAX);
            let text = format!("the tag {} is not read here: take it out", shown(&tag.to_string()));
            return Err(Unreadable { line, text });
        }
    }
    Ok(())
}

/// A value as the library delivers it.
enum Value {
    Null,
    Bool(bool),
    /// `None` if it does not fit, or is not an integer.
    Number(Option<i64>),
    Text(String),
    List(Vec<Spanned<Value>>),
    Map(Vec<(Spanned<Value>, Spanned<Value>)>),
}

fn line(location: &Location) -> u32 {
    u32::try_from(location.line()).unwrap_or(u32::MAX)
}

fn placed(value: Spanned<Value>, text: &str) -> Node {
    let line = line(&value.referenced);
    let written = || written(&value.defined, text);
    let kind = match value.value {
        Value::Null => Kind::Null,
        Value::Bool(is) => Kind::Bool(is, written()),
        Value::Number(number) => Kind::Number(number, written()),
        Value::Text(text) => Kind::Text(text),
        Value::List(items) => Kind::List(items.into_iter().map(|item| placed(item, text)).collect()),
        Value::Map(entries) => {
            Kind::Map(entries.into_iter().map(|(key, value)| (key_of(key, text), placed(value, text))).collect())
        }
    };
    Node { line, kind }
}

fn key_of(key: Spanned<Value>, text: &str) -> Key {
    let node = placed(key, text);
    let name = match node.kind {
        Kind::Bool(_, text) | Kind::Number(_, text) | Kind::Text(text) => text,
        // Not a known key: it is rejected as unknown.
        Kind::Null => "~".into(),
        Kind::List(_) => "[…]".into(),
        Kind::Map(_) => "{…}".into(),
    };
    Key { line: node.line, name }
}

/// Returns a plain scalar as it is written: `1.0` stays `1.0`, and `off` stays `off`.
fn written(at: &Location, text: &str) -> String {
    let span = at.span();
    let range = span.byte_offset().zip(span.byte_len()).and_then(|(from, len)| {
        let from = usize::try_from(from).ok()?;
        text.get(from..from.checked_add(usize::try_from(len).ok()?)?)
    });
    range.unwrap_or_default().trim().to_owned()
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
        from.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(Some(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(i64::try_from(value).ok()))
    }

    fn visit_i128<E>(self, _: i128) -> Result<Value, E> {
        Ok(Value::Number(None))
    }

    fn visit_u128<E>(self, _: u128) -> Result<Value, E> {
        Ok(Value::Number(None))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Number(None))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        Value::deserialize(from)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Value::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry<'a>(node: &'a Node, name: &str) -> (u32, &'a Node) {
        let Kind::Map(entries) = &node.kind else { panic!("{node:?}") };
        let (key, value) = entries.iter().find(|(key, _)| key.name == name).unwrap();
        (key.line, value)
    }

    #[test]
    fn nodes_know_their_lines_and_scalars_how_they_are_written() {
        let text =
            "# first\na: 1.0\nb:\n  - off\n  - 0x10\n  - 'yes'\nc: &c {d: ~, 7: -3}\ne: *c\nf: 99999999999999999999\n";
        let node = Node::parse(text).unwrap();
        assert_eq!(entry(&node, "a"), (2, &Node { line: 2, kind: Kind::Number(None, "1.0".into()) }));
        let (at, list) = entry(&node, "b");
        let Kind::List(items) = &list.kind else { panic!("{list:?}") };
        assert_eq!((at, items[0].line, items[1].line), (3, 4, 5));
        assert_eq!(items[0].kind, Kind::Bool(false, "off".into()));
        assert_eq!(items[1].kind, Kind::Number(Some(16), "0x10".into()));
        assert_eq!(items[2].kind, Kind::Text("yes".into()));
        let (_, aliased) = entry(&node, "e");
        assert_eq!(aliased.line, 8);
        assert_eq!(entry(aliased, "7").1.kind, Kind::Number(Some(-3), "-3".into()));
        assert_eq!(entry(aliased, "d").1.kind, Kind::Null);
        assert!(matches!(entry(&node, "f").1.kind, Kind::Number(None, _)));
    }

    #[test]
    fn a_yaml_tag_outside_the_core_schema_is_rejected_with_its_line() {
        for text in [
            "a: 1\nb: !!python/object/apply:os.system [x]\n",
            "a: 1\nb: !!python/none\n",
            "a: 1\nb: !local {c: 1}\n",
            "a: 1\nb: !!binary aGFsbG8=\n",
            "%TAG !e! tag:example.com,2026:\n---\nb: !e!thing x\n",
        ] {
            let err = Node::parse(text).unwrap_err();
            assert!(err.text.contains("is not read here"), "{}", err.text);
            assert_eq!(err.line, text.lines().position(|line| line.starts_with("b:")).unwrap() as u32 + 1, "{text}");
        }
        let plain = Node::parse("a: !!str 1\nb: !!map {c: !!int 2}\n").unwrap();
        assert_eq!(entry(&plain, "a").1.kind, Kind::Text("1".into()));
    }

    #[test]
    fn a_file_beyond_its_bounds_is_refused_with_its_line() {
        let err = Node::parse("a: 1\na: 2\n").unwrap_err();
        assert_eq!(err.line, 2, "{}", err.text);
        assert!(Node::parse("a: [\n").is_err());
        assert!(Node::parse(&"[".repeat(5_000)).is_err());
        assert!(Node::parse(&format!("{}{}", "[".repeat(40), "]".repeat(40))).is_err());
        assert!(Node::parse(&"- a\n".repeat(210_000)).is_err());
        let mut bomb = String::from("a: &a [x, x, x, x, x, x, x, x, x, x]\n");
        for (from, to) in ["a", "b", "c", "d", "e", "f"].iter().zip(["b", "c", "d", "e", "f", "g"]) {
            bomb.push_str(&format!(
                "{to}: &{to} [*{from}, *{from}, *{from}, *{from}, *{from}, *{from}, *{from}, *{from}]\n"
            ));
        }
        assert!(Node::parse(&bomb).is_err());
    }
}
