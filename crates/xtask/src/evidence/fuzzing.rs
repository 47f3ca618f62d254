//! The ledger of fuzzing: each target runs for a stated time, and its figures are added to those of the record before. The
//! differential tests run in their long form.

use std::path::Path;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, ensure};

use super::record::{Record, Table};
use crate::fuzz::{self, Form};
use crate::shell;

/// The table of the record that the next run adds to.
const LEDGER: &str = "Targets";
const COLUMNS: [&str; 10] = [
    "target",
    "executions",
    "the last one that added an input",
    "seconds",
    "executions in total",
    "seconds in total",
    "edges covered of instrumented",
    "share",
    "corpus, kept + grown",
    "crashes",
];
/// Cases of each differential test in the long form.
const CASES: u64 = 20_000;
/// Longest time of one input; a slower one counts as a crash.
const TIMEOUT_SECONDS: u64 = 60;

pub(super) fn run() -> anyhow::Result<Record> {
    let seconds = setting("SEALWAY_FUZZ_SECONDS", 3600)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = usize::try_from(setting("SEALWAY_FUZZ_JOBS", cores as u64)?)?.max(1);
    let targets = fuzz::targets()?;
    let form = form(std::env::var("SEALWAY_FUZZ_BUILD").ok().as_deref())?;
    let before = previous()?;
    fuzz::build(&targets, form)?;

    let runs = run_all(&targets, form, seconds, jobs)?;
    let mut record = Record::default();
    let mut rows = Vec::new();
    for run in &runs {
        let (executions, time) = before.iter().find(|row| row.target == run.target).map_or((0, 0), |row| row.totals);
        rows.push(run.row((executions + run.executions, time + run.seconds)));
    }
    let sum = |of: fn(&Run) -> u64| runs.iter().map(of).sum::<u64>();
    record.figure("targets", runs.len());
    record.figure("time of each target in this run", format!("{seconds} s"));
    record.figure("targets that ran at once", jobs);
    let built = match form {
        Form::Whole => "release, all crates",
        Form::Own => "debug, optimised a little, Sealway's own crates",
    };
    record.figure("build, and crates whose edges are counted", built);
    record.figure("executions in this run", thousands(sum(|run| run.executions)));
    record.figure("executions in total", thousands(column_sum(&rows, 4)));
    record.figure("time in total", format!("{} s", thousands(column_sum(&rows, 5))));
    record.figure("crashes found in this run", sum(|run| run.crashes));
    record.table(LEDGER, &COLUMNS, rows);
    differential(&mut record)?;
    if seconds < 3600 {
        record.missing(
            "an hour of each target",
            &format!("the run had {seconds} s a target"),
            "the totals of all recorded runs, and the corpora that earlier runs left",
        );
    }
    if form == Form::Own {
        record.missing(
            "a release with the coverage of libraries",
            "its build takes an hour of processor time, and the run had less",
            "a debug build with a little optimisation, in which Sealway's own crates are instrumented; it runs slower, and its edges are \
             no part of the other build's",
        );
    }
    Ok(record)
}

/// Reads the form of the build: `whole`, the default, or `own`.
fn form(name: Option<&str>) -> anyhow::Result<Form> {
    match name {
        None | Some("whole") => Ok(Form::Whole),
        Some("own") => Ok(Form::Own),
        Some(other) => anyhow::bail!("SEALWAY_FUZZ_BUILD: expected whole or own, and not {other}"),
    }
}

fn setting(name: &str, default: u64) -> anyhow::Result<u64> {
    match std::env::var(name) {
        Ok(value) => value.parse().with_context(|| format!("{name}: expected a whole number")),
        Err(_) => Ok(default),
    }
}

/// The totals of one target, as the last record has them.
struct Totals {
    target: String,
    /// Executions, and the seconds that they took.
    totals: (u64, u64),
}

/// Reads the ledger of the last record; empty before the first run.
fn previous() -> anyhow::Result<Vec<Totals>> {
    let path = super::result_path("fuzzing");
    match std::fs::read_to_string(shell::root().join(&path)) {
        Ok(text) => totals(&Record::parse(&text).with_context(|| path.clone())?.tables).context(path),
        Err(_) => Ok(Vec::new()),
    }
}

fn totals(tables: &[Table]) -> anyhow::Result<Vec<Totals>> {
    let Some(table) = tables.iter().find(|table| table.title == LEDGER) else { return Ok(Vec::new()) };
    let column = |name: &str| {
        let found = table.columns.iter().position(|column| column == name);
        found.with_context(|| format!("{LEDGER} has no column {name}"))
    };
    let (target, executions, seconds) = (column(COLUMNS[0])?, column(COLUMNS[4])?, column(COLUMNS[5])?);
    let total = |row: &Vec<String>| {
        Ok(Totals { target: row[target].clone(), totals: (number(&row[executions])?, number(&row[seconds])?) })
    };
    table.rows.iter().map(total).collect()
}

/// One run of a target.
#[derive(Debug, Default, PartialEq)]
struct Run {
    target: String,
    executions: u64,
    /// The last execution whose input reached something new.
    last_new: u64,
    seconds: u64,
    covered: u64,
    instrumented: u64,
    kept: u64,
    grown: u64,
    crashes: u64,
}

impl Run {
    fn row(&self, (executions, seconds): (u64, u64)) -> Vec<String> {
        let tenths = self.covered * 1000 / self.instrumented.max(1);
        vec![
            self.target.clone(),
            thousands(self.executions),
            thousands(self.last_new),
            thousands(self.seconds),
            thousands(executions),
            thousands(seconds),
            format!("{} of {}", self.covered, self.instrumented),
            format!("{}.{} %", tenths / 10, tenths % 10),
            format!("{} + {}", self.kept, self.grown),
            self.crashes.to_string(),
        ]
    }
}

/// Runs every target, several at once, and returns the runs in the order of the targets.
fn run_all(targets: &[String], form: Form, seconds: u64, jobs: usize) -> anyhow::Result<Vec<Run>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let work = || {
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            let run = run_one(target, form, seconds).with_context(|| target.clone());
            match &run {
                Ok(Run { executions, covered, crashes, .. }) => {
                    println!("{target}: {executions} executions, {covered} edges, {crashes} crashes");
                }
                Err(err) => println!("{target}: {err:#}"),
            }
            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(run);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(work);
        }
    });
    let done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut runs = done.into_iter().collect::<anyhow::Result<Vec<Run>>>()?;
    runs.sort_by(|one, other| one.target.cmp(&other.target));
    Ok(runs)
}

/// Runs a target until its time is over or it crashes.
fn run_one(target: &str, form: Form, seconds: u64) -> anyhow::Result<Run> {
    let folders = fuzz::Folders::of(target)?;
    let before = crashes(&folders.artifacts)?;
    let mut fuzzer = fuzz::fuzzer(target, &folders, form);
    fuzzer.args([format!("-max_total_time={seconds}"), format!("-timeout={TIMEOUT_SECONDS}")]);
    fuzzer.args(["-print_final_stats=1"]).args(folders.inputs());
    let start = Instant::now();
    let output = fuzzer.stdin(Stdio::null()).output().context("the target does not start: it was not built")?;
    let time = start.elapsed().as_secs();
    let log = String::from_utf8_lossy(&output.stderr);
    let crashes = crashes(&folders.artifacts)?.saturating_sub(before);
    ensure!(output.status.success() || crashes > 0, "it ended with {} and left no input", output.status);
    let mut run = statistics(&log)?;
    run.target = target.to_owned();
    run.seconds = time;
    run.kept = count(&folders.corpus)?;
    run.grown = count(&folders.grown)?;
    run.crashes = crashes;
    Ok(run)
}

fn count(folder: &Path) -> anyhow::Result<u64> {
    Ok(std::fs::read_dir(folder)?.count() as u64)
}

/// Counts the inputs of crashes, time-outs and exhausted memory; slow inputs are no crashes.
fn crashes(folder: &Path) -> anyhow::Result<u64> {
    let names = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names = names.collect::<anyhow::Result<Vec<String>>>()?;
    Ok(names.iter().filter(|name| !name.starts_with("slow-unit-")).count() as u64)
}

/// Reads what libFuzzer prints: the number of counters at the start, coverage in each line of progress, statistics at the end.
fn statistics(log: &str) -> anyhow::Result<Run> {
    let executed = log.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    let executed = executed.context("libFuzzer printed no statistics")?.trim();
    let counters = log.lines().find_map(|line| {
        let (_, rest) = line.strip_prefix("INFO: Loaded")?.split_once('(')?;
        rest.split_once(" inline 8-bit counters")
    });
    let (instrumented, _) = counters.context("libFuzzer found no instrumentation")?;
    let covered = log.lines().rev().find_map(|line| line.split_once(" cov: ")?.1.split(' ').next());
    let last_new = log.lines().rev().find_map(|line| {
        let (number, event) = line.strip_prefix('#')?.split_once('\t')?;
        event.starts_with("NEW").then_some(number)
    });
    Ok(Run {
        executions: executed.parse()?,
        last_new: last_new.unwrap_or("0").parse()?,
        covered: covered.context("libFuzzer printed no coverage")?.parse()?,
        instrumented: instrumented.parse()?,
        ..Run::default()
    })
}

/// Runs the differential tests in their long form, and adds a table of what each compared.
fn differential(record: &mut Record) -> anyhow::Result<()> {
    let cases = setting("SEALWAY_DIFFERENTIAL_CASES", CASES)?;
    let seed = setting("SEALWAY_DIFFERENTIAL_SEED", 2)?;
    let mut tests = shell::cargo(&["test", "--locked", "-p", "sealway-fuzz", "--test", "differential", "--"]);
    tests.args(["--nocapture", "--test-threads=1"]);
    tests.env("SEALWAY_DIFFERENTIAL_CASES", cases.to_string()).env("SEALWAY_DIFFERENTIAL_SEED", seed.to_string());
    let output = shell::output(&mut tests)?;
    let rows = compared(&output);
    ensure!(!rows.is_empty(), "the differential tests compared nothing");
    record.figure("differential comparisons in this run", thousands(column_sum(&rows, 2)));
    record.table("Differential tests", &["ours", "other", "compared", "result"], rows);
    Ok(())
}

/// Reads the lines that the differential tests print.
fn compared(output: &str) -> Vec<Vec<String>> {
    let line = |line: &str| {
        let cells: Vec<String> = line.split_once("differential: ")?.1.split(" | ").map(str::to_owned).collect();
        (cells.len() == 4).then_some(cells)
    };
    output.lines().filter_map(line).collect()
}

fn column_sum(rows: &[Vec<String>], column: usize) -> u64 {
    rows.iter().filter_map(|row| number(row.get(column)?).ok()).sum()
}

/// Formats a number with commas.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn number(text: &str) -> anyhow::Result<u64> {
    text.replace(',', "").parse().with_context(|| format!("{text}: expected a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "INFO: Running with entropic power schedule (0xFF, 100).\n\
        INFO: Loaded 1 modules   (5213 inline 8-bit counters): 5213 [0x1, 0x2), \n\
        INFO: Loaded 1 PC tables (5213 PCs): 5213 [0x2,0x3), \n\
        #120\tINITED cov: 611 ft: 1200 corp: 59/2Kb exec/s: 0 rss: 40Mb\n\
        #900\tNEW    cov: 626 ft: 1300 corp: 60/2Kb lim: 128 exec/s: 0 rss: 41Mb L: 3/9 MS: 1 CopyPart-\n\
        Done 12345 runs in 61 second(s)\n\
        stat::number_of_executed_units: 12345\n\
        stat::average_exec_per_sec:     202\n";

    #[test]
    fn the_statistics_of_the_fuzzer_are_read() {
        let expected = Run { executions: 12345, last_new: 900, covered: 626, instrumented: 5213, ..Run::default() };
        assert_eq!(statistics(LOG).unwrap(), expected);
    }

    #[test]
    fn a_run_without_statistics_or_instrumentation_is_an_error() {
        for missing in ["stat::number", "INFO: Loaded", " cov: "] {
            assert!(statistics(&LOG.replace(missing, "other")).is_err(), "{missing}");
        }
    }

    #[test]
    fn an_unknown_form_of_the_build_is_rejected() {
        assert_eq!(form(None).unwrap(), Form::Whole);
        assert_eq!(form(Some("own")).unwrap(), Form::Own);
        assert!(form(Some("debug")).is_err());
    }

    #[test]
    fn totals_go_on_from_the_last_record() {
        let run = Run { target: "routes".into(), executions: 1_234_567, seconds: 61, ..Run::default() };
        let mut record = Record::default();
        record.table(LEDGER, &COLUMNS, vec![run.row((5_000_000, 3_600))]);
        let read = totals(&record.tables).unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!((read[0].target.as_str(), read[0].totals), ("routes", (5_000_000, 3_600)));
        assert!(totals(&[]).unwrap().is_empty());
    }

    #[test]
    fn lines_of_the_differential_tests_are_read_and_summed() {
        let output = "running 1 test\ndifferential: HTTP/1 | llhttp | 1,200 | 0 differences\ntest x ... ok\n";
        let rows = compared(output);
        assert_eq!(rows, [["HTTP/1", "llhttp", "1,200", "0 differences"]]);
        assert_eq!(column_sum(&rows, 2), 1_200);
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(thousands(999), "999");
    }
}
