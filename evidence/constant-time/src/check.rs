//! Runs cases under valgrind, reads its report, and judges the places.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::cases::{self, Case};
use crate::declared::{self, DECLARED};
use crate::memcheck;
use crate::owner::{Frame, Owner, owner};

/// Most frames of a stack that valgrind records.
const FRAMES: &str = "--num-callers=80";

/// One error that memcheck reports.
struct Place {
    kind: String,
    stack: Vec<Frame>,
}

/// Cases that share a process.
struct Group {
    family: &'static str,
    names: Vec<String>,
    is_planted: bool,
}

/// The result of one run of valgrind.
struct Run {
    /// The cases, each with the number of declared bytes that depended on a secret.
    declared: BTreeMap<String, usize>,
    reasons: BTreeSet<String>,
    places: Vec<Place>,
}

/// The judgement of all runs.
#[derive(Default)]
struct Report {
    cases: Vec<Value>,
    /// Places of Sealway that are not declared, with the families of cases that reach them. Valgrind reports a stack once in a
    /// process, so a case of a family may share the place of another.
    undeclared: BTreeMap<String, BTreeSet<&'static str>>,
    /// Declared places, with the families that reach them.
    declared: BTreeMap<(String, String), BTreeSet<&'static str>>,
    /// Places of libraries: library and function, with the families that reach them.
    libraries: BTreeMap<(String, String), BTreeSet<&'static str>>,
    reasons: BTreeSet<String>,
    problems: Vec<String>,
}

/// Runs all cases, or those of the short form, and prints the report as JSON.
///
/// # Errors
/// Valgrind does not run, or a case fails.
pub(crate) fn run(is_short: bool) -> anyhow::Result<ExitCode> {
    ensure!(!memcheck::is_valgrind(), "check starts valgrind itself");
    let cases: Vec<Case> = cases::all().into_iter().filter(|case| !is_short || case.is_short()).collect();
    let mut report = Report::default();
    // A process for each planted leak, which must be told by itself, and one for each family; the short form has one for all.
    let (planted, others): (Vec<&Case>, Vec<&Case>) = cases.iter().partition(|case| case.is_planted());
    let mut groups: BTreeMap<&'static str, Vec<&Case>> = BTreeMap::new();
    for case in others {
        groups.entry(if is_short { "short" } else { case.family() }).or_default().push(case);
    }
    let planted = planted.into_iter().map(|case| (case.family(), vec![case]));
    let groups: Vec<Group> = planted
        .chain(groups)
        .map(|(family, group)| Group {
            family,
            names: group.iter().map(|case| case.name()).collect(),
            is_planted: group.iter().any(|case| case.is_planted()),
        })
        .collect();
    for (group, run) in groups.iter().zip(run_all(&groups)) {
        match run {
            Ok(run) => report.judge(group.family, &group.names, group.is_planted, &run),
            Err(error) => report.problems.push(format!("{}: {error:#}", group.family)),
        }
    }
    if !is_short {
        report.find_stale();
    }
    println!("{:#}", report.json());
    Ok(if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs of valgrind so far, of which each has a log of its own.
static RUNS: AtomicUsize = AtomicUsize::new(0);

/// Runs the groups, one on each core at a time, and returns the results in their order.
fn run_all(groups: &[Group]) -> Vec<anyhow::Result<Run>> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(group) = groups.get(number) else { return };
            let run = valgrind(&group.names);
            done.lock().unwrap_or_else(PoisonError::into_inner).insert(number, run);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

fn valgrind(names: &[String]) -> anyhow::Result<Run> {
    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    let log = std::env::temp_dir().join(format!("sealway-constant-time-{}-{number}.xml", std::process::id()));
    let program = std::env::current_exe()?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=memcheck", "--quiet", "--xml=yes", "--error-limit=no", "--leak-check=no", FRAMES]);
    command.args(["--expensive-definedness-checks=yes", "--read-inline-info=yes"]);
    command.arg(format!("--xml-file={}", log.display())).arg(program).arg("run").args(names);
    let output = command.output().context("valgrind does not start: scripts/setup-evidence.sh asks for it")?;
    let text = std::fs::read_to_string(&log).context("valgrind wrote no report");
    // A report that cannot be removed is the next run's to overwrite.
    drop(std::fs::remove_file(&log));
    ensure!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    let (mut declared, mut reasons) = (BTreeMap::new(), BTreeSet::new());
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        match (line.strip_prefix("# "), line.rsplit_once(' ')) {
            (Some(reason), _) => drop(reasons.insert(reason.to_owned())),
            (None, Some((name, count))) => drop(declared.insert(name.to_owned(), count.parse()?)),
            (None, None) => {}
        }
    }
    Ok(Run { declared, reasons, places: parse(&text?)? })
}

/// Parses the errors of valgrind's XML (protocol 4).
fn parse(text: &str) -> anyhow::Result<Vec<Place>> {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..roxmltree::ParsingOptions::default() };
    let document = roxmltree::Document::parse_with_options(text, options).context("valgrind's report is not XML")?;
    let of_tag = |node: roxmltree::Node<'_, '_>, tag: &str| {
        node.children()
            .find(|child| child.has_tag_name(tag))
            .and_then(|child| child.text())
            .unwrap_or_default()
            .to_owned()
    };
    let mut places = Vec::new();
    for error in document.root_element().children().filter(|node| node.has_tag_name("error")) {
        let stack = error.children().find(|node| node.has_tag_name("stack")).context("an error without a stack")?;
        let frames = stack.children().filter(|node| node.has_tag_name("frame")).map(|frame| Frame {
            function: of_tag(frame, "fn"),
            folder: of_tag(frame, "dir"),
            file: of_tag(frame, "file"),
            object: of_tag(frame, "obj"),
        });
        places.push(Place { kind: of_tag(error, "kind"), stack: frames.collect() });
    }
    Ok(places)
}

impl Report {
    fn judge(&mut self, family: &'static str, names: &[String], is_planted: bool, run: &Run) {
        let mut planted = 0_usize;
        self.reasons.extend(run.reasons.iter().cloned());
        for place in &run.places {
            let (owner, nearest) = owner(&place.stack);
            match owner {
                Owner::Library { name, function } => {
                    self.libraries.entry((name, format!("{function} ({})", place.kind))).or_default().insert(family);
                }
                Owner::Ours { file, function } if declared::find(&file, &function).is_some() => {
                    self.declared.entry((file, function)).or_default().insert(family);
                }
                // A planted leak is one of its own file alone.
                Owner::Ours { file, .. } if is_planted && file.ends_with("cases/planted.rs") => planted += 1,
                Owner::Ours { file, function } => {
                    let name = format!("{file} {function} ({}), in {}", place.kind, nearest.unwrap_or_default());
                    self.undeclared.entry(name.clone()).or_default().insert(family);
                    self.problems.push(format!("{family}: undeclared: {name}: {:?}", trace(&place.stack)));
                }
                Owner::Runtime => {}
            }
        }
        let is_told = |name: &String| valgrind(std::slice::from_ref(name)).is_ok_and(|run| !run.places.is_empty());
        for name in names {
            let secret_bytes = run.declared.get(name).copied().unwrap_or_default();
            // A case whose secrets reach neither a result nor a place of its own has lost them, and shows nothing. A table that is
            // read at a secret index is a place, and what is read from it counts as public.
            if is_planted && planted == 0 {
                self.problems.push(format!("{name}: the planted leak is not reported"));
            } else if !is_planted && secret_bytes == 0 && !is_told(name) {
                self.problems.push(format!("{name}: no secret reached a declared result or a place"));
            }
            self.cases.push(json!({
                "case": name, "family": family, "is_planted": is_planted, "planted_places": planted, "secret_bytes": secret_bytes,
            }));
        }
    }

    /// A declared place that no case reaches is out of date.
    fn find_stale(&mut self) {
        for place in DECLARED {
            if !self.declared.contains_key(&(place.file.to_owned(), place.function.to_owned())) {
                self.problems.push(format!("declared, and reached by no case: {} {}", place.file, place.function));
            }
        }
    }

    fn json(&self) -> Value {
        let reason = |file: &str, function: &str| declared::find(file, function).map_or("", |place| place.reason);
        let declared: Vec<Value> = self
            .declared
            .iter()
            .map(|((file, function), families)| {
                json!({ "file": file, "function": function, "reason": reason(file, function), "families": families })
            })
            .collect();
        let libraries: Vec<Value> = self
            .libraries
            .iter()
            .map(|((library, function), families)| json!({ "library": library, "function": function, "families": families }))
            .collect();
        json!({
            "cases": self.cases, "undeclared": self.undeclared, "declared": declared, "libraries": libraries,
            "reasons": self.reasons, "problems": self.problems,
        })
    }
}

/// Formats the first frames of a stack.
fn trace(stack: &[Frame]) -> Vec<String> {
    let name = |frame: &Frame| {
        let file = Path::new(&frame.file).file_name().unwrap_or_default().to_string_lossy().into_owned();
        format!("{} {file}", frame.function)
    };
    stack.iter().take(6).map(name).collect()
}
