//! Written documents checked against the published schema by an independent validator.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::super::document::*;
use super::super::histogram::decode as decode_histogram;
use super::super::*;
use super::sample::{self, Shape};
use crate::engine::{EndReason, Limit, Outcome};
use crate::progress::{CellSummary, Estimate, OfferedLoad};
use crate::record::{Interval as Measured, Phase};
use crate::thresholds::Threshold;

const CHECK: &str = "
import json, sys
from jsonschema import Draft202012Validator as Validator
schema = json.load(open(sys.argv[1]))
Validator.check_schema(schema)
for line in open(sys.argv[2]):
    # A bare NaN is no JSON, though Python reads it.
    document = json.loads(line, parse_constant=lambda name: sys.exit(name + ' in a document'))
    fault = next(Validator(schema).iter_errors(document), None)
    while fault and fault.context:
        fault = max(fault.context, key=lambda one: len(one.absolute_path))
    print('valid' if not fault else f'{fault.json_path}: {fault.message[:300]}')
";

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Results of the validator, one for each document.
fn validated(documents: &[Value]) -> Vec<String> {
    let python = root().join(".venv/bin/python");
    assert!(python.exists(), "the validator is missing: run scripts/setup-tests.sh");
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<_> = documents.iter().map(Value::to_string).collect();
    let path = folder.path().join("documents");
    std::fs::write(&path, lines.join("\n")).unwrap();
    let schema = root().join("spec/load-report.schema.json");
    let out = Command::new(python).arg("-c").arg(CHECK).arg(schema).arg(path).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn report(outcome: &Outcome, thresholds: &str) -> Report {
    let thresholds = Threshold::parse_list("--threshold", thresholds).unwrap();
    Report::new(outcome, &thresholds, sample::machine())
}

fn value(document: &impl serde::Serialize) -> Value {
    serde_json::from_str(&serde_json::to_string(document).unwrap()).unwrap()
}

/// Outcome whose numbers are as large as their types allow, or not finite.
fn extreme() -> Outcome {
    let mut outcome = sample::outcome(1, Shape::Usual, 2, 1.0);
    let counts = &mut outcome.totals.sum.counts;
    (counts.due, counts.succeeded, counts.failed, counts.bytes_sent) = (u64::MAX, u64::MAX / 2, u64::MAX / 2, u64::MAX);
    outcome.totals.measured = std::time::Duration::from_nanos(1);
    outcome.generator.cpu = f64::NAN;
    outcome.generator.cpu_busiest = f64::INFINITY;
    outcome.generator.lag_max = std::time::Duration::MAX;
    outcome.seconds[0].cpu = f64::NEG_INFINITY;
    outcome.seconds[1].response.mean_ns = f64::NAN;
    outcome.totals.sum.statuses[0] = u64::MAX;
    outcome.totals.sum.times[Phase::Response.index()].record(std::time::Duration::MAX);
    outcome.limit = Limit::Generator("its two cores were busy".to_owned());
    outcome.ended = EndReason::Failed(sample::HOSTILE.to_owned());
    outcome
}

fn tuned() -> Vec<Value> {
    let mut search = AutotuneReport::new(&sample::plan(), sample::machine(), 1_795_233_780_000, 90.0);
    let point = Point {
        offered: OfferedLoad::Concurrency(64),
        repeats_per_s: vec![100.0, 101.5, 99.0],
        succeeded_per_s: Estimate::new(100.2, 3.1),
        failed_share: 0.0,
        mean_ns: 5e6,
        p50_ns: 1,
        p95_ns: 2,
        p99_ns: 3,
        healthy: true,
        verdict: "grows".to_owned(),
        limit: Limit::Target,
    };
    let knee = Knee { offered: OfferedLoad::Rate(12.5), succeeded_per_s: Estimate::new(f64::NAN, f64::NAN) };
    let without = value(&search);
    (search.points, search.knee, search.limit) = (vec![point], Some(knee), Some(Limit::Offered));
    let cell = |missing: Option<&str>| CellSummary {
        name: "https-reuse".to_owned(),
        missing: missing.map(str::to_owned),
        knee: missing.is_none().then_some(OfferedLoad::Rate(f64::INFINITY)),
        rate: Estimate::new(1e4, 2e5),
        failed_share: f64::NAN,
        mean_ns: 1.0,
        p95_ns: 1,
        p99_ns: u64::MAX,
        runs: 9,
        limit: missing.is_none().then(|| Limit::Generator("no".to_owned())),
    };
    let cells = [cell(None), cell(Some("skipped: no certificate"))];
    vec![without, value(&search), value(&MatrixReport::new("all", cells.into(), sample::machine(), 0, f64::NAN))]
}

#[test]
fn every_document_fits_the_schema_however_odd_its_run_was() {
    let bars = "p99<50ms,errors<1%,rate>10";
    let mut documents = tuned();
    let shapes = [Shape::Usual, Shape::Stalled, Shape::Empty, Shape::AllFailed];
    documents.extend(shapes.map(|shape| value(&report(&sample::outcome(1, shape, 20, 1.0), bars))));
    documents.push(value(&report(&extreme(), bars)));
    let mut nothing = sample::outcome(1, Shape::Empty, 0, 1.0);
    nothing.totals.sum = Measured::default();
    documents.push(value(&report(&nothing, "p50<1s")));
    for (said, document) in validated(&documents).into_iter().zip(&documents) {
        assert_eq!(said, "valid", "{}", &document.to_string()[..200]);
    }
}

#[test]
fn the_schema_refuses_what_is_unknown_missing_or_of_another_kind() {
    let good = value(&report(&sample::outcome(1, Shape::Usual, 2, 1.0), "p50<1s"));
    let broken = |change: &dyn Fn(&mut Value)| {
        let mut document = good.clone();
        change(&mut document);
        document
    };
    let documents = [
        good.clone(),
        broken(&|document| document["unknown"] = json!(1)),
        broken(&|document| document["counts"]["unknown"] = json!(1)),
        broken(&|document| document["version"] = json!(2)),
        broken(&|document| document["rates"]["succeeded_per_s"] = Value::Null),
        broken(&|document| document["seconds"][0]["heat"] = json!([[64, 1]])),
        broken(&|document| _ = document.as_object_mut().unwrap().remove("limit")),
        broken(&|document| document["faults"][0]["class"] = json!("bad_luck")),
        broken(&|document| document["asked"]["password"] = json!("x")),
    ];
    let said = validated(&documents);
    assert_eq!(said[0], "valid");
    assert!(said[1..].iter().all(|said| said != "valid"), "{said:#?}");
}

#[test]
fn no_document_holds_a_secret_of_its_plan() {
    let run = report(&sample::outcome(1, Shape::Usual, 2, 1.0), "p50<1s");
    let mut texts = vec![serde_json::to_string(&run).unwrap(), format!("{run:?}")];
    texts.extend(tuned().iter().map(Value::to_string));
    for text in texts {
        assert!(!text.contains("s3cret"), "{text}");
        assert!(!text.contains("/hidden"), "{text}");
    }
}

#[test]
fn a_report_is_read_as_it_was_written() {
    let run = report(&sample::outcome(1, Shape::Stalled, 20, 1.0), "p99<50ms");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    std::fs::write(&path, serde_json::to_vec(&run).unwrap()).unwrap();
    let back = read(&path).unwrap();
    assert_eq!((back.counts, &back.asked.url, &back.faults), (run.counts, &run.asked.url, &run.faults));
    let histogram = decode_histogram(&back.histograms[0].v2_deflate_base64).unwrap();
    assert_eq!(histogram.len(), run.counts.succeeded);
    assert_eq!(histogram.value_at_quantile(0.99), run.phase(Phase::Response).unwrap().p99_ns);
}

#[test]
fn a_stall_is_reported_by_the_corrected_figure_and_explained() {
    let stalled = report(&sample::outcome(1, Shape::Stalled, 20, 1.0), "p99<50ms");
    assert!(stalled.omission.response_p99_ns > 2 * stalled.omission.service_p99_ns);
    assert!(stalled.omission.note.unwrap().contains("the target stalled"));
    assert_eq!(report(&sample::outcome(1, Shape::Usual, 20, 1.0), "p99<50ms").omission.note, None);
}
