//! Edits by ranges against another reader's tree of the same text.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::mle::path::Path;

fn at(path: &str) -> Path {
    Path::parse(path).unwrap()
}

fn text(bytes: &[u8]) -> &str {
    core::str::from_utf8(bytes).unwrap()
}

#[test]
fn what_is_not_on_the_path_keeps_every_byte() {
    let body =
        "{ \"n\":12345678901234567890.10 ,\n\"a\" : {\"x\":1e400,\"gone\":\"t\" , \"y\":\"\\u00e9\\/\"},\"z\":1.0}";
    let (removed, is_empty) = remove(body.as_bytes(), &at("$.a.gone").at(0)).unwrap();
    let kept = "{ \"n\":12345678901234567890.10 ,\n\"a\" : {\"x\":1e400,\"y\":\"\\u00e9\\/\"},\"z\":1.0}";
    assert_eq!((text(&removed), is_empty), (kept, false));
    let inserted = insert(&removed, &at("$.a.new.deep").at(0), b"[1.0]").unwrap();
    let expected = kept.replace("\\/\"}", "\\/\",\"new\":{\"deep\":[1.0]}}");
    assert_eq!(text(&inserted), expected);
}

#[test]
fn a_member_is_removed_with_one_comma() {
    for (body, left, is_now_empty) in [
        (r#"{"t":1}"#, "{}", true),
        (r#"{ "t" : 1 }"#, "{  }", true),
        (r#"{"t":1,"b":2}"#, r#"{"b":2}"#, false),
        (r#"{"b":2,"t":1}"#, r#"{"b":2}"#, false),
        (r#"{"b":2 , "t":1 , "c":3}"#, r#"{"b":2 , "c":3}"#, false),
        (r#"{"b":2 , "t":1 }"#, r#"{"b":2 }"#, false),
        (r#"{"\u0074":1,"b":","}"#, r#"{"b":","}"#, false),
    ] {
        let (removed, is_empty) = remove(body.as_bytes(), &at("$.t").at(0)).unwrap();
        assert_eq!((text(&removed), is_empty), (left, is_now_empty), "{body}");
    }
}

#[test]
fn a_duplicate_on_the_path_is_rejected_and_elsewhere_it_is_kept() {
    for body in [r#"{"t":1,"t":2}"#, r#"{"t":1,"\u0074":2}"#, r#"{"t":{},"b":1,"t":{}}"#] {
        assert_eq!(remove(body.as_bytes(), &at("$.t").at(0)).unwrap_err().kind(), Class::Json, "{body}");
        let parsed = Text::parse(body.as_bytes()).unwrap();
        assert_eq!(find(&parsed, &at("$.t.x").at(0)).unwrap_err().kind(), Class::Json, "{body}");
    }
    let (removed, _) = remove(br#"{"b":1,"b":2,"t":3}"#, &at("$.t").at(0)).unwrap();
    assert_eq!(text(&removed), r#"{"b":1,"b":2}"#);
}

#[test]
fn nothing_is_written_over_a_value() {
    for (body, path) in [
        (r#"{"a":1}"#, "$.a"),
        (r#"{"a":1}"#, "$.a.b"),
        (r#"{"a":[]}"#, "$.a.b"),
        (r#"{"a":null}"#, "$.a"),
        ("{}", "$"),
        ("[]", "$.a"),
        (r#"{"a":[]}"#, "$.a[*].b"),
        (r#"{"b":1}"#, "$.a[*].b"),
    ] {
        assert_eq!(insert(body.as_bytes(), &at(path).at(0), b"2").unwrap_err().kind(), Class::Json, "{body} {path}");
    }
}

#[test]
fn objects_are_merged_unless_a_member_would_be_there_twice() {
    let merged = |into: &str, object: &str| merge(into.as_bytes(), &[], object.as_bytes());
    for (into, object, expected) in [
        (" {} ", r#" {"a":1.0 , "b":2} "#, r#" {"a":1.0 , "b":2} "#),
        (r#"{"x":1 }"#, r#"{ "a":1.0 , "b":2 }"#, r#"{"x":1,"a":1.0 , "b":2 }"#),
        (r#"{"x":1}"#, "{ }", r#"{"x":1}"#),
    ] {
        assert_eq!(text(&merged(into, object).unwrap()), expected, "{into} {object}");
    }
    for (into, object) in
        [(r#"{"a":1}"#, r#"{"\u0061":2}"#), ("{}", r#"{"a":1,"a":2}"#), ("[]", "{}"), ("{}", "[]"), ("{}", "{")]
    {
        assert_eq!(merged(into, object).unwrap_err().kind(), Class::Json, "{into} {object}");
    }
}

/// Values with few names, so that paths meet.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-c\"\\\\\u{0}-\u{1f}é😀{}\\[\\],:]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-c\"\\\\é]{1}", inner), 0..4)
                .prop_map(|members| Value::from(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn pointer(steps: &[String]) -> String {
    steps.iter().map(|step| "/".to_string() + step).collect()
}

/// Removes a member from the tree.
fn remove_from(tree: &mut Value, steps: &[String]) -> Option<Value> {
    let (name, parent) = steps.split_last()?;
    tree.pointer_mut(&pointer(parent))?.as_object_mut()?.remove(name)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn edits_are_those_of_the_tree(tree in value(), names in prop::collection::vec("[a-cé]", 0..4), is_pretty: bool) {
        let body = if is_pretty { serde_json::to_string_pretty(&tree) } else { serde_json::to_string(&tree) }.unwrap();
        let path = Path::parse(&("$".to_string() + &names.iter().map(|name| ".".to_string() + name).collect::<String>()));
        let path = path.unwrap();
        let steps = path.at(0);
        let parsed = Text::parse(body.as_bytes()).unwrap();

        // A path leads through objects alone, where a pointer reads digits as elements; the names have none.
        let found = find(&parsed, &steps).unwrap();
        let found = found.map(|range| serde_json::from_str::<Value>(parsed.at(&range)).unwrap());
        prop_assert_eq!(found.as_ref(), tree.pointer(&pointer(&names)));

        let mut expected = tree.clone();
        match (remove(body.as_bytes(), &steps), remove_from(&mut expected, &names)) {
            (Ok((removed, is_empty)), Some(_)) => {
                prop_assert_eq!(serde_json::from_slice::<Value>(&removed).unwrap(), expected.clone());
                let parent = expected.pointer(&pointer(&names[..names.len() - 1])).unwrap();
                prop_assert_eq!(is_empty, parent.as_object().unwrap().is_empty());
                // What was removed is written back.
                let again = insert(&removed, &steps, b"[7]").unwrap();
                let mut with = tree.clone();
                *with.pointer_mut(&pointer(&names)).unwrap() = json!([7]);
                prop_assert_eq!(serde_json::from_slice::<Value>(&again).unwrap(), with);
            }
            (Err(_), None) => {}
            (ours, theirs) => prop_assert!(false, "{:?} {:?}", ours.is_ok(), theirs),
        }

        let object = json!({"new": [1, {}], "b\"": 2});
        let merged = merge(body.as_bytes(), &steps, object.to_string().as_bytes());
        let mut expected = tree.clone();
        match expected.pointer_mut(&pointer(&names)).and_then(Value::as_object_mut) {
            Some(target) => {
                target.extend(object.as_object().unwrap().clone());
                prop_assert_eq!(serde_json::from_slice::<Value>(&merged.unwrap()).unwrap(), expected);
            }
            None => prop_assert_eq!(merged.unwrap_err().kind(), Class::Json),
        }
    }

    #[test]
    fn members_and_elements_are_those_of_the_tree(tree in value()) {
        let body = tree.to_string();
        let parsed = Text::parse(body.as_bytes()).unwrap();
        let root = parsed.root();
        let members: Vec<(String, Value)> = parsed
            .members(&root)
            .map(|member| (parsed.string(&member.name).unwrap().into_owned(), serde_json::from_str(parsed.at(&member.value)).unwrap()))
            .collect();
        let theirs: Vec<_> = tree.as_object().map(|object| object.clone().into_iter().collect()).unwrap_or_default();
        prop_assert_eq!(members, theirs);
        let elements: Vec<Value> =
            parsed.elements(&root).map(|range| serde_json::from_str(parsed.at(&range)).unwrap()).collect();
        prop_assert_eq!(elements, tree.as_array().cloned().unwrap_or_default());
    }
}
