//! JSON: the reader of encrypted bodies against serde_json and Python, and the init body of a session against Python.

use std::collections::BTreeMap;

use sealway_proto::mle::body::{EACH_MAX_DEFAULT, find_plain};
use sealway_proto::mle::{FieldRule, Scalars};
use sealway_proto::wire::json::InitBody;
use serde_json::{Value, json};

use crate::peer::Peer;
use crate::{Random, cases, hex, report};

const INTERESTING: &[u8] = b"{}[]:,\"\\ \t\n0123eE+-.tfnuab/\x00\x1f\x7f\xc3\xa9\xff";
/// The deepest nesting that our reader accepts.
const DEPTH_MAX: usize = 64;

/// Writes a random value with the liberties that the grammar has, and now and then some that it has not.
fn value(random: &mut Random, out: &mut String, depth: usize) {
    let space = |random: &mut Random, out: &mut String| {
        if random.one_in(6) {
            out.push_str(
                random.pick(&[" ", "\t", "\n", "\r", "  ", "\u{b}", "\u{a0}", "/**/"]).get(..1).unwrap_or(" "),
            );
        }
    };
    space(random, out);
    match random.below(if depth > 4 { 5 } else { 8 }) {
        0 => out.push_str(random.pick(&["true", "false", "null", "NaN", "Infinity", "-Infinity", "True", "nul"])),
        1 | 2 => out.push_str(random.pick(&[
            "0",
            "-0",
            "1",
            "-1",
            "12345678901234567890",
            "1.0",
            "1e3",
            "1E+2",
            "1e-400",
            "1e400",
            "-1.5e-3",
            "0.1",
            "01",
            "+1",
            ".5",
            "1.",
            "1e",
            "0x1",
            "--1",
            "1800",
            "3600.0",
            "4294967296",
            "18446744073709551616",
            "-",
        ])),
        3 | 4 => string(random, out),
        5 => {
            out.push('[');
            for number in 0..random.below(4) {
                if number > 0 {
                    out.push(',');
                }
                value(random, out, depth + 1);
            }
            if random.one_in(40) {
                out.push(',');
            }
            out.push(']');
        }
        _ => {
            out.push('{');
            for number in 0..random.below(4) {
                if number > 0 {
                    out.push(',');
                }
                space(random, out);
                match random.below(5) {
                    0 => string(random, out),
                    1 => out.push_str(random.pick(&["\"\\u0061\"", "\"b\"", "\"ttlSec\"", "\"clientPublicKey\"", "a"])),
                    _ => out.push_str(random.pick(&["\"a\"", "\"ttlSec\"", "\"clientPublicKey\"", "\"c\""])),
                }
                space(random, out);
                out.push(':');
                value(random, out, depth + 1);
            }
            space(random, out);
            out.push('}');
        }
    }
    space(random, out);
}

fn string(random: &mut Random, out: &mut String) {
    out.push('"');
    for _ in 0..random.below(4) {
        out.push_str(random.pick(&[
            "a",
            "é",
            "😀",
            "\\n",
            "\\\"",
            "\\\\",
            "\\/",
            "\\u00e9",
            "\\ud83d\\ude00",
            "\\ud83d",
            "\\ude00",
            "\\u00E9",
            "\\u0000",
            "\\x41",
            "\\u12",
            "\u{1}",
            "\u{7f}",
            "\u{2028}",
            "'",
            "\\ud83d\\u0061",
            "\\ude00\\ud83d",
        ]));
    }
    out.push('"');
}

fn text(random: &mut Random) -> Vec<u8> {
    let mut out = String::new();
    if random.one_in(40) {
        let depth = DEPTH_MAX - 3 + random.below(6);
        out = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    } else {
        value(random, &mut out, 0);
    }
    let mut out = out.into_bytes();
    if random.one_in(4) {
        random.mutate(&mut out, INTERESTING);
    }
    if random.one_in(60) {
        out.splice(0..0, "\u{feff}".bytes());
    }
    out
}

fn depth(text: &[u8]) -> usize {
    let (mut depth, mut most, mut is_string, mut is_escaped) = (0_usize, 0, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            b'{' | b'[' if !is_string => depth += 1,
            b'}' | b']' if !is_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        most = most.max(depth);
    }
    most
}

/// Returns whether a text has an escaped surrogate that is not half of a pair.
fn has_lone_surrogate(text: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find("\\u") {
        let unit = |text: &str| text.get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let (found, after) = (unit(&rest[at + 2..]), rest.get(at + 6..).unwrap_or_default());
        rest = &rest[at + 2..];
        match found {
            Some(0xd800..=0xdbff) if matches!(after.strip_prefix("\\u").and_then(unit), Some(0xdc00..=0xdfff)) => {
                rest = &after[6..];
            }
            Some(0xd800..=0xdfff) => return true,
            _ => {}
        }
    }
    false
}

/// Returns the class of the table for a text that another reader accepts and ours rejects.
fn stricter(text: &[u8]) -> Option<&'static str> {
    let shown = String::from_utf8_lossy(text);
    if depth(text) > DEPTH_MAX {
        return Some("nested more than 64 deep");
    }
    if has_lone_surrogate(&shown) {
        return Some("half of a surrogate pair");
    }
    ["NaN", "Infinity"].iter().any(|word| shown.contains(word)).then_some("a number that RFC 8259 does not have")
}

#[test]
fn json_is_read_as_serde_json_and_python_read_it() {
    let mut random = Random::new(3);
    let mut python = Peer::start(".venv/bin/python", "fuzz/peers/python_json.py");
    let whole = [FieldRule::new("$", "$", None).unwrap()];
    let member = [FieldRule::new("$.a", "$.sealed", None).unwrap()];
    let (mut both, mut neither, mut inits, mut overflow) = (0, 0, 0, 0);
    let mut by_class: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..cases(8000) / 1000 + 1 {
        let texts: Vec<Vec<u8>> = (0..1000).map(|_| text(&mut random)).collect();
        let accepted = |text: &Vec<u8>| find_plain(text, &whole, EACH_MAX_DEFAULT, Scalars::Json).is_ok();
        // The value of `$.a`; an error if that name stands twice.
        let found = |text: &Vec<u8>| {
            let mut found = find_plain(text, &member, EACH_MAX_DEFAULT, Scalars::Json).ok()?;
            Some(found.pop().map(|field| field.text().to_vec()))
        };
        let question = |text: &Vec<u8>| {
            let value = found(text).flatten().map(|value| hex(&value));
            json!({"text": hex(text), "value": value})
        };
        let answers = python.ask(&texts.iter().map(question).collect::<Vec<_>>());
        for (text, answer) in texts.iter().zip(answers) {
            let shown = text.escape_ascii();
            let serde: Option<Value> = serde_json::from_slice(text).ok();
            let python = answer["accepted"].as_bool().unwrap();
            match (accepted(text), serde.is_some(), python) {
                (true, true, true) => both += 1,
                (false, false, false) => neither += 1,
                // serde_json has no number for it.
                (true, false, true) => {
                    let error = serde_json::from_slice::<Value>(text).unwrap_err().to_string();
                    assert!(error.contains("number out of range"), "{shown}: {error}");
                    overflow += 1;
                }
                (false, _, _) => {
                    let class = stricter(text).unwrap_or_else(|| panic!("ours alone rejects {shown}"));
                    *by_class.entry(class).or_default() += 1;
                }
                other => panic!("{shown}: ours, serde_json, Python: {other:?}"),
            }
            if accepted(text)
                && let Some(value) = found(text)
            {
                let is_object = text.trim_ascii_start().starts_with(b"{");
                assert!(!is_object || answer["same"] == true, "{shown}: another value at $.a: {answer}");
                if let (true, Some(serde)) = (is_object, &serde) {
                    let ours = value.map(|value| serde_json::from_slice::<Value>(&value).unwrap());
                    assert_eq!(ours.as_ref(), serde.get("a"), "{shown}");
                }
            }
            if let (Ok(init), true) = (InitBody::parse(text), python) {
                inits += usize::from(text.trim_ascii_start().starts_with(b"{"));
                if let Ok(Some(seconds)) = init.ttl_strict() {
                    // Ours saturates, far above every bound.
                    let theirs = answer["ttlSec"].as_f64().unwrap_or_else(|| panic!("{shown}: {answer}"));
                    assert_eq!(f64::from(seconds), theirs.min(f64::from(u32::MAX)), "{shown}");
                }
                if let Ok(key) = init.client_public_key() {
                    assert_eq!(answer["clientPublicKey"], hex(key.as_bytes()), "{shown}");
                }
            } else if InitBody::parse(text).is_ok() {
                panic!("an init body that Python rejects: {shown}");
            }
        }
    }
    assert!(both.min(neither).min(inits) > 20, "{both} {neither} {inits}");
    let classes: Vec<String> = by_class.iter().map(|(class, count)| format!("{count} {class}")).collect();
    let result = format!(
        "{both} texts accepted and {neither} rejected by all; ours alone rejects: {}; serde_json alone rejects {overflow} numbers out of range",
        classes.join(", "),
    );
    report(
        "JSON of encrypted bodies",
        "serde_json, Python json",
        both + neither + overflow + by_class.values().sum::<usize>(),
        &result,
    );
    report("JSON of an init", "Python json", inits, "members read the same");
}
