//! The long form of the constant-time evidence: every case of `evidence/constant-time` under valgrind, with the machine code of a
//! release, and Welch's t of refusals.

use anyhow::{Context, ensure};
use serde_json::Value;

use super::record::Record;
use crate::shell;

/// Rejections of each of the two kinds of a comparison, unless the environment names another number: a million a comparison.
const SAMPLES: &str = "500000";
const SAMPLES_VARIABLE: &str = "SEALWAY_CONSTANT_TIME_SAMPLES";
/// The bound of |t| that dudect names.
const GOAL: f64 = 4.5;
/// Processes that measure, an odd number. Where a process has its code and data moves a mean, and each has them elsewhere.
const PROCESSES: usize = 5;

pub(super) fn run() -> anyhow::Result<Record> {
    let mut build =
        shell::cargo(&["build", "--profile", "evidence", "--locked", "-p", "sealway-evidence-constant-time"]);
    shell::run(&mut build)?;
    let program = shell::target_dir().join("evidence/sealway-constant-time");
    let output = shell::command(&program).arg("check").stderr(std::process::Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start {}", program.display()))?;
    let report: Value = serde_json::from_slice(&output.stdout).context("the check printed what is not JSON")?;
    let problems = strings(&report["problems"]);
    ensure!(output.status.success() && problems.is_empty(), "{}", problems.join("\n"));

    let load = std::fs::read_to_string("/proc/loadavg")?.split(' ').next().unwrap_or_default().to_owned();
    let samples = std::env::var(SAMPLES_VARIABLE).unwrap_or_else(|_| SAMPLES.to_owned());
    // One core, so that no comparison moves between caches.
    let core = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) - 1;
    let mut timing = shell::command("taskset");
    timing.args(["-c", &core.to_string()]).arg(&program).args(["timing", &samples]);
    let timings: Vec<Value> = (0..PROCESSES)
        .map(|_| Ok(serde_json::from_str(&shell::output(&mut timing)?)?))
        .collect::<anyhow::Result<_>>()?;

    let mut record = Record::default();
    write_check(&mut record, &report);
    write_timing(&mut record, &timings, &load)?;
    record.missing(
        "code for AVX-512, VAES and SHA extensions",
        "valgrind reports a processor without them to the libraries, which choose their code by it",
        "their code for AVX2, AES-NI and PCLMUL runs; places of Sealway's own code do not depend on it",
    );
    record.missing(
        "comparisons in services: bearer tokens of the sessions service and the relay, tokens and MACs of the broker",
        "no case runs them yet: a build of these services with the cases takes long",
        "nothing; they are written with the functions for constant time of the libraries",
    );
    record.missing(
        "private operations of RSA, and decapsulation keys of ML-KEM-1024",
        "RSA blinds with random numbers, and the seam reads no seed of ML-KEM-1024",
        "what the operations return is marked, so that everything behind them is followed",
    );
    Ok(record)
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn rows(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn write_check(record: &mut Record, report: &Value) {
    let cases: Vec<&Value> = rows(&report["cases"]).collect();
    let (planted, cases): (Vec<&Value>, Vec<&Value>) = cases.into_iter().partition(|case| case["is_planted"] == true);
    let reported = planted.iter().filter(|case| case["planted_places"].as_u64() > Some(0)).count();
    record.figure("cases under valgrind", cases.len());
    record.figure("undeclared places in Sealway", report["undeclared"].as_object().map_or(0, serde_json::Map::len));
    record.figure("declared places in Sealway", rows(&report["declared"]).count());
    record.figure("places in libraries", rows(&report["libraries"]).count());
    record.figure("planted leaks reported", format!("{reported} of {}", planted.len()));
    let cases =
        cases.iter().map(|case| vec![text(&case["case"]), text(&case["family"]), case["secret_bytes"].to_string()]);
    record.table(
        "Cases",
        &["case and provider", "family", "bytes of results that depend on a secret"],
        cases.collect(),
    );
    let families = |place: &Value| strings(&place["families"]).join(", ");
    let declared = rows(&report["declared"]).map(|place| {
        let file = format!("`{}`", text(&place["file"]));
        vec![file, format!("`{}`", text(&place["function"])), text(&place["reason"]), families(place)]
    });
    record.table("Declared places", &["file", "function", "reason", "families"], declared.collect());
    let reasons = strings(&report["reasons"]).into_iter().map(|reason| vec![reason]);
    record.table("Declared results", &["result"], reasons.collect());
    let libraries = rows(&report["libraries"])
        .map(|place| vec![text(&place["library"]), format!("`{}`", text(&place["function"])), families(place)]);
    record.table("Places in libraries", &["library", "function", "families"], libraries.collect());
}

fn write_timing(record: &mut Record, timings: &[Value], load: &str) -> anyhow::Result<()> {
    let (mut largest, mut of_controls, mut samples, mut discarded) = (0.0_f64, 0.0_f64, u64::MAX, 0);
    let (mut table, mut open) = (Vec::new(), Vec::new());
    let first = timings.first().context("no process has measured")?;
    for (index, first) in rows(&first["comparisons"]).enumerate() {
        let of_all: Vec<&Value> = timings.iter().map(|timing| &timing["comparisons"][index]).collect();
        ensure!(of_all.iter().all(|row| row["name"] == first["name"]), "the processes made other comparisons");
        let numbers = |name: &str| -> anyhow::Result<Vec<f64>> {
            let number = |row: &&Value| row[name].as_f64().with_context(|| format!("a comparison without {name}"));
            of_all.iter().map(number).collect()
        };
        let cropped = numbers("t_cropped")?;
        let (t, control) = (median(&cropped), median(&numbers("t_control")?));
        let is_planted = first["is_planted"].as_bool() == Some(true);
        if is_planted {
            ensure!(t.abs() >= GOAL, "the planted comparison is not told: t is {t:.2}");
        } else {
            largest = largest.max(t.abs());
        }
        of_controls = of_controls.max(control.abs());
        for row in &of_all {
            samples = samples.min(row["samples"].as_u64().context("a comparison without a number of samples")?);
            discarded += row["discarded"].as_u64().context("a comparison without a number of discarded samples")?;
        }
        let medians = first["median_ns"].as_array().into_iter().flatten();
        let medians: Vec<String> = medians.map(|ns| format!("{:.0}", ns.as_f64().unwrap_or_default())).collect();
        let above = cropped.iter().filter(|t| t.abs() >= GOAL).count();
        let verdict = match (is_planted, t.abs() < GOAL, above) {
            (true, ..) => "told, as it must be",
            (false, true, 0) => "met",
            (false, true, _) => "open",
            (false, false, _) => "missed",
        };
        if !is_planted && above > 0 {
            open.push(format!("{} ({above} of {})", text(&first["name"]), timings.len()));
        }
        let mut cells = vec![text(&first["name"]), strings(&first["kinds"]).join(", "), medians.join(", ")];
        cells.extend([median(&numbers("t")?), t].map(|t| format!("{t:.2}")));
        cells.push(cropped.iter().map(|t| format!("{t:.2}")).collect::<Vec<_>>().join(", "));
        cells.extend([median(&numbers("t_quarter")?), control].map(|t| format!("{t:.2}")));
        cells.push(verdict.to_owned());
        table.push(cells);
    }
    ensure!(table.len() > 1, "no comparison was measured");
    record.figure("largest t of refusals", format!("{largest:.2} (goal: below {GOAL})"));
    let open = if open.is_empty() { "none".to_owned() } else { open.join(", ") };
    record.figure("comparisons with t above that in some process", open);
    record.figure("largest t of a kind against itself", format!("{of_controls:.2}"));
    record.figure("processes that measured", timings.len());
    record.figure("rejections of each of both kinds in a process", format!("{samples} at least"));
    record.figure("rejections discarded for a context switch", discarded);
    record.figure("load of the machine before the timing", load);
    let columns = [
        "comparison",
        "wrong",
        "median ns",
        "t of all",
        "largest t, cropped",
        "that of each process",
        "of the first quarter",
        "of the first kind against itself",
        "",
    ];
    record.table("Time of refusals", &columns, table);
    Ok(())
}

/// Returns the median of an odd number of values.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
