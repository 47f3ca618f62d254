//! Runs cases under valgrind, reads its report, and judges the places.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::cases::{self, Case};
use crate::declared::{self, DECLARED};
use crate::memcheck;
use crate::owner::{Frame, Owner, owner};

/// Most frames of a stack that valgrind records.
const FRAMES: &str = "--num-callers=80";

/// One error of memcheck.
struct Place {
    kind: String,
    stack: Vec<Frame>,
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
    /// Places of Sealway that are not declared, with the cases that reach them.
    undeclared: BTreeMap<String, BTreeSet<String>>,
    /// Declared places, with the cases that reach them.
    declared: BTreeMap<(String, String), BTreeSet<String>>,
    /// Places of libraries: library and function, with the cases that reach them.
    libraries: BTreeMap<(String, String), BTreeSet<String>>,
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
    // The short form needs one process for all planted leaks, and one for the rest; the whole has one for each case.
    let groups: Vec<Vec<&Case>> = if is_short {
        let (planted, others): (Vec<_>, Vec<_>) = cases.iter().partition(|case| case.is_planted());
        planted.into_iter().map(|case| vec![case]).chain([others]).collect()
    } else {
        cases.iter().map(|case| vec![case]).collect()
    };
    for group in groups {
        let names: Vec<String> = group.iter().map(|case| case.name()).collect();
        match valgrind(&names) {
            Ok(run) => report.judge(&names, group.iter().any(|case| case.is_planted()), &run),
            Err(error) => report.problems.push(format!("{}: {error:#}", names.join(" "))),
        }
    }
    if !is_short {
        report.find_stale();
    }
    println!("{:#}", report.json());
    Ok(if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn valgrind(names: &[String]) -> anyhow::Result<Run> {
    let log = std::env::temp_dir().join(format!("sealway-constant-time-{}.xml", std::process::id()));
    let program = std::env::current_exe()?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=memcheck", "--quiet", "--xml=yes", "--error-limit=no", "--leak-check=no", FRAMES]);
    command.args(["--expensive-definedness-checks=yes", "--read-inline-info=yes"]);
    command.arg(format!("--xml-file={}", log.display())).arg(program).arg("run").args(names);
    let output = command.output().context("valgrind does not start: scripts/setup-tests.sh installs it")?;
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
    fn judge(&mut self, names: &[String], is_planted: bool, run: &Run) {
        let cases = names.join(" ");
        let mut count = [0_usize; 3];
        self.reasons.extend(run.reasons.iter().cloned());
        for place in &run.places {
            let (owner, nearest) = owner(&place.stack);
            match owner {
                Owner::Library { name, function } => {
                    count[2] += 1;
                    let entry = self.libraries.entry((name, format!("{function} ({})", place.kind))).or_default();
                    entry.extend(names.iter().cloned());
                }
                Owner::Ours { file, function } if declared::find(&file, &function).is_some() => {
                    count[1] += 1;
                    self.declared.entry((file, function)).or_default().extend(names.iter().cloned());
                }
                // A planted leak is one of its own file alone.
                Owner::Ours { file, .. } if is_planted && file.ends_with("cases/planted.rs") => count[0] += 1,
                Owner::Ours { file, function } => {
                    count[0] += 1;
                    let name = format!("{file} {function} ({}), in {}", place.kind, nearest.unwrap_or_default());
                    self.undeclared.entry(name.clone()).or_default().extend(names.iter().cloned());
                    self.problems.push(format!("{cases}: undeclared: {name}: {:?}", trace(&place.stack)));
                }
                Owner::Runtime => {}
            }
        }
        for name in names {
            match run.declared.get(name) {
                // A case whose secrets reach neither a result nor a place has lost them, and shows nothing.
                None | Some(0) if run.places.is_empty() => {
                    self.problems.push(format!("{name}: no secret reached a result or a place"))
                }
                _ => {}
            }
        }
        if is_planted && count[0] == 0 {
            self.problems.push(format!("{cases}: the planted leak is not reported"));
        }
        let [ours, declared, libraries] = count;
        self.cases.push(json!({
            "cases": names, "is_planted": is_planted, "ours": ours, "declared": declared, "libraries": libraries,
            "secret_bytes": names.iter().filter_map(|name| run.declared.get(name)).sum::<usize>(),
        }));
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
            .map(|((file, function), cases)| {
                json!({ "file": file, "function": function, "reason": reason(file, function), "cases": cases })
            })
            .collect();
        let libraries: Vec<Value> = self
            .libraries
            .iter()
            .map(|((library, function), cases)| json!({ "library": library, "function": function, "cases": cases }))
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
