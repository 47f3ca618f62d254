//! Tests of the published JSON Schema with an independent validator, and against the program's defaults and bounds.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::*;

/// Every section except `sessions.remote`, with required settings and those that others depend on.
const FULL: &str = "
listeners: [{ address: '127.0.0.1:1', tls: { cert: c, client_ca: a } }]
routes: [{ match: {}, upstream: s, keep_answers_sec: 60, uploads_max: 1, body_rate_min_bytes_per_sec: 1 }]
upstreams: { s: { servers: ['https://a:1'], tls: {}, health: { path: /health }, timeouts: {} } }
sessions:
  store: 'postgres://u@h/db + redis://h'
  postgres: {}
  redis: {}
  cache: {}
  kek_broker: { socket: s, profile: p, key: k }
  identity: { key_file: i, broker: { socket: s, profile: p } }
  ttl: {}
  tokens: { jwks_file: j }
  authentication: { introspection: { url: 'https://i/', client_id: c, client_secret_file: s } }
  wire3: {}
  policies: [{ client_id: a }]
replay: { nonces_max: 1000000000 }
compat: {}
cors: {}
limits: { idle_timeout_ms: 60000 }
telemetry: {}
access_log: { file: '-' }
admin: { address: '127.0.0.1:2', token_file: t }
metrics: { address: '127.0.0.1:3', token_file: t, tls: { cert: c } }
";

const API_SIDE: &str = "
listeners: [{ address: '127.0.0.1:1' }]
routes: [{ match: {}, upstream: s }]
upstreams: { s: { servers: ['http://a:1'] } }
sessions: { store: 'https://authority', remote: { secret_file: s } }
";

const CHECK: &str = "
import json, sys
from jsonschema import Draft202012Validator as Validator
schema = json.load(open(sys.argv[1]))
Validator.check_schema(schema)
for line in open(sys.argv[2]):
    fault = next(Validator(schema).iter_errors(json.loads(line)), None)
    print('valid' if not fault else f'{fault.json_path}: {fault.message[:300]}')
";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs the validator; returns its result for each document.
fn validated(documents: &[Value]) -> Vec<String> {
    let python = root().join(".venv/bin/python");
    assert!(python.exists(), "the validator is missing: run scripts/setup-tests.sh");
    let folder = tempfile::tempdir().unwrap();
    let (schema, lines) = (folder.path().join("schema"), folder.path().join("documents"));
    std::fs::write(&schema, SCHEMA).unwrap();
    std::fs::write(&lines, documents.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")).unwrap();
    let out = Command::new(python).arg("-c").arg(CHECK).arg(schema).arg(lines).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn yaml(text: &str) -> Value {
    sealway_runtime::config::load_yaml(text).unwrap()
}

/// Checks a configuration; returns it as text, or its problems.
fn resolved(document: &Value) -> Result<String, String> {
    let raw: RawServe = serde_json::from_value(document.clone()).map_err(|err| err.to_string())?;
    resolve(&raw, None).map(|config| format!("{config:?}")).map_err(|err| err.to_string())
}

/// Collects every setting that a section of `document` could have: its place in the document, and its schema.
fn settings(schema: &Value, document: &Value, at: &str, found: &mut Vec<(String, Value)>) {
    for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
        let at = format!("{at}/{key}");
        found.push((at.clone(), schema.clone()));
        if let Some(value) = document.get(key) {
            settings(schema, value, &at, found);
        }
    }
    let items = document.as_array().into_iter().flatten().enumerate();
    items.for_each(|(index, item)| settings(&schema["items"], item, &format!("{at}/{index}"), found));
    if let Some(schema) = schema.get("additionalProperties").filter(|schema| schema.is_object()) {
        let members = document.as_object().into_iter().flatten();
        members.for_each(|(name, value)| settings(schema, value, &format!("{at}/{name}"), found));
    }
}

fn with(document: &Value, at: &str, value: Value) -> Value {
    let mut changed = document.clone();
    let (section, key) = at.rsplit_once('/').unwrap();
    changed.pointer_mut(section).unwrap()[key] = value;
    changed
}

fn all_settings() -> Vec<(Value, Vec<(String, Value)>)> {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let found = [FULL, API_SIDE].map(yaml).map(|document| {
        let mut found = Vec::new();
        settings(&schema, &document, "", &mut found);
        (document, found)
    });
    found.to_vec()
}

#[test]
fn the_schema_accepts_samples_and_rejects_wrong_keys_and_values() {
    let samples = std::fs::read_dir(root().join("deploy/config")).unwrap().map(|entry| entry.unwrap().path());
    let samples = samples.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    let mut right: Vec<_> = samples.map(|path| yaml(&std::fs::read_to_string(path).unwrap())).collect();
    assert!(right.len() >= 3, "{}", right.len());
    right.extend([yaml(FULL), yaml(API_SIDE)]);
    for verdict in validated(&right) {
        assert_eq!(verdict, "valid");
    }
    let full = yaml(FULL);
    let wrong = [
        ("/limits/conections_max", json!(1)),
        ("/limits/connections_max", json!(0)),
        ("/limits/connections_max", json!(1_000_001)),
        ("/limits/connections_max", json!("many")),
        ("/sessions/ttl/max_sec", json!(2_592_001)),
        ("/sessions/policies/0/ttl_min_sec", json!(0)),
        ("/upstreams/s/health/interval_ms", json!(9)),
        ("/upstreams/s/balance", json!("random")),
        ("/routes/0/sealed", json!("on")),
        ("/routes/0/forwarded", json!("perhaps")),
        ("/listeners/0/adress", json!("127.0.0.1:1")),
        ("/listeners/0/trusted_proxies", json!([])),
        ("/listeners/0/tls", json!({ "key": "k" })),
        ("/routes", Value::Null),
    ];
    let documents: Vec<_> = wrong.iter().map(|(at, value)| with(&full, at, value.clone())).collect();
    for ((at, _), verdict) in wrong.iter().zip(validated(&documents)) {
        assert_ne!(verdict, "valid", "{at}");
    }
}

#[test]
fn an_omitted_setting_has_the_default_of_the_schema() {
    let mut checked = 0;
    for (document, settings) in all_settings() {
        let omitted = resolved(&document).unwrap();
        for (at, schema) in settings {
            let Some(default) = schema.get("default").filter(|_| document.pointer(&at).is_none()) else { continue };
            let given = resolved(&with(&document, &at, default.clone()));
            assert!(given.as_ref() == Ok(&omitted), "{at}: {default}: {given:?}");
            checked += 1;
        }
    }
    assert!(checked > 90, "{checked}");
}

#[test]
fn a_number_is_bounded_as_in_the_schema() {
    let mut checked = 0;
    for (document, settings) in all_settings() {
        for (at, schema) in settings {
            let bound = |name: &str| schema.get(name).and_then(Value::as_i64);
            for (value, is_within) in [
                (bound("minimum"), true),
                (bound("maximum"), true),
                (bound("minimum").map(|bound| bound - 1), false),
                (bound("maximum").map(|bound| bound + 1), false),
            ] {
                let Some(value) = value else { continue };
                let result = resolved(&with(&document, &at, json!(value)));
                let key = at.rsplit('/').next().unwrap();
                let is_named = result.as_ref().is_err_and(|err| err.contains(&format!("{key}: {value} is not from")));
                match is_within {
                    true => assert!(!is_named, "{at}: {value}: {result:?}"),
                    false => assert!(result.is_err(), "{at}: {value}"),
                }
                checked += 1;
            }
        }
    }
    assert!(checked > 250, "{checked}");
}
