//! Every scenario of `vectors/routes/`, listed by folder.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

extern crate std;

use alloc::vec::Vec;
use std::path::Path;
use std::{format, fs};

use serde_json::Value;

use super::*;

fn vectors(kind: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/routes");
    let all = fs::read_dir(folder)
        .unwrap()
        .map(|entry| serde_json::from_slice(&fs::read(entry.unwrap().path()).unwrap()).unwrap());
    let all: Vec<Value> = all.collect();
    assert!(
        all.iter().all(|vector| vector["type"] == "routes" || vector["type"] == "routes-rejected"),
        "an unknown type"
    );
    all.into_iter().filter(|vector| vector["type"] == kind).collect()
}

fn pattern(rule: &Value) -> Result<(Pattern, SealMode), PatternInvalid> {
    let sealed = match rule["sealed"].as_str().unwrap() {
        "required" => SealMode::Required,
        "optional" => SealMode::Optional,
        "off" => SealMode::Off,
        other => panic!("{other}"),
    };
    let pattern = match rule["exact"].as_str() {
        Some(path) => Pattern::exact(path),
        None => Pattern::prefix(rule["prefix"].as_str().unwrap()),
    };
    Ok((pattern?, sealed))
}

#[test]
fn each_target_of_the_vectors_comes_to_its_decision_and_forms() {
    let mut played = 0;
    for vector in vectors("routes") {
        let rules: Vec<_> = vector["rules"].as_array().unwrap().iter().map(|rule| pattern(rule).unwrap()).collect();
        for case in vector["cases"].as_array().unwrap() {
            let target = case["target"].as_str().unwrap();
            let path = target.split('?').next().unwrap();
            let decision = match decide(rules.iter().map(|(pattern, sealed)| (pattern, *sealed, ())), path) {
                Decision::Sealed(_) => "sealed",
                Decision::Optional(()) => "optional",
                Decision::Plain(()) => "plain",
                Decision::Refused => "refused",
            };
            let forms =
                forms(path).map(|Forms { whole, bare }| [Some(whole), bare].into_iter().flatten().collect::<Vec<_>>());
            assert_eq!(
                (decision, serde_json::json!(forms)),
                (case["decision"].as_str().unwrap(), case["forms"].clone()),
                "{}: {target}",
                vector["name"]
            );
            played += 1;
        }
    }
    assert!(played >= 300, "{played}");
}

#[test]
fn a_rule_that_is_unreachable_or_without_a_form_is_found() {
    let all = vectors("routes-rejected");
    for vector in &all {
        let rules = vector["rules"].as_array().unwrap().iter().map(pattern);
        let mut kept: Vec<Pattern> = Vec::new();
        let mut rejected = None;
        for (index, rule) in rules.enumerate() {
            let reason = match rule {
                Err(_) => "path",
                Ok((rule, _)) if kept.iter().any(|earlier| earlier.covers(&rule)) => "unreachable",
                Ok((rule, _)) => {
                    kept.push(rule);
                    continue;
                }
            };
            rejected = rejected.or(Some(format!("{index} {reason}")));
        }
        assert_eq!(
            rejected,
            Some(format!("{} {}", vector["rule"], vector["reason"].as_str().unwrap())),
            "{}",
            vector["name"]
        );
    }
    assert!(all.len() > 10);
}

#[test]
fn a_pattern_has_its_path_and_its_kind() {
    let exact = Pattern::exact("/a/b").unwrap();
    let prefix = Pattern::prefix("/a").unwrap();
    assert_eq!((exact.path(), exact.is_prefix()), ("/a/b", false));
    assert_eq!((prefix.path(), prefix.is_prefix()), ("/a", true));
}

#[test]
fn a_rule_for_every_path_also_covers_targets_that_are_not_paths() {
    let rules = [(&Pattern::ANY, SealMode::Off, ())];
    for path in ["", "*", "/x", "\\x", "/.."] {
        assert_eq!(decide(rules.into_iter(), path), Decision::Plain(()), "{path}");
    }
}
