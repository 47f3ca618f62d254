//! Mutation tests: cargo-mutants lists the changes, all of a package are built at once, and each runs against the tests that
//! reach it. Options by environment:
//!
//! * `SEALWAY_MUTANTS_AREAS`: names of areas to run, separated by commas; the others keep what their last run found, in this target
//!   folder or else in the committed record. An empty text runs none, and reports what earlier runs found.
//! * `SEALWAY_MUTANTS_SAMPLE`: so many mutants of each area, others each day. A sample checks, and writes no record.
//! * `SEALWAY_MUTANTS_JOBS`: number of tests at once.

mod build;
mod mutant;
mod run;
mod schemata;
mod state;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail, ensure};

use self::mutant::Mutant;
use self::run::{Outcome, Tests};
use self::state::AreaRun;
use super::record::{Record, today};
use crate::shell;

/// Files whose decisions serve one purpose.
struct Area {
    name: &'static str,
    /// Name of the part that builds it.
    part: &'static str,
    /// Prefixes of paths from the root.
    files: &'static [&'static str],
    /// Per cent of the viable mutants that tests must catch.
    goal: usize,
}

impl Area {
    fn has(&self, file: &str) -> bool {
        !is_test(file) && self.files.iter().any(|prefix| file.starts_with(prefix))
    }
}

/// A file is of the first area that has it.
const AREAS: &[Area] = &[
    Area {
        name: "replay windows",
        part: "sessions of proto",
        files: &[
            "crates/proto/src/session/replay.rs",
            "crates/proto/src/wire/nonce.rs",
            "crates/proto/src/wire/stamp.rs",
        ],
        goal: 95,
    },
    Area { name: "routes", part: "messages", files: &["crates/proto/src/routes/"], goal: 90 },
    Area { name: "message forms", part: "messages", files: &["crates/proto/src/wire/"], goal: 95 },
    Area {
        name: "frames and records",
        part: "sessions of proto",
        files: &[
            "crates/proto/src/session/native/frame.rs",
            "crates/proto/src/session/buffer.rs",
            "crates/proto/src/session/record.rs",
        ],
        goal: 95,
    },
    Area { name: "shared store's format", part: "messages", files: &["crates/proto/src/store/"], goal: 95 },
    Area { name: "relay's tokens", part: "messages", files: &["crates/proto/src/relay/"], goal: 90 },
    Area { name: "calls and key sets", part: "sessions of proto", files: &["crates/proto/src/session/"], goal: 95 },
    Area { name: "exchanges", part: "sessions of proto", files: &["crates/proto/src/exchange/"], goal: 95 },
    Area {
        name: "stores",
        part: "sessions",
        files: &[
            "crates/sessions/src/store/cache.rs",
            "crates/sessions/src/store/embedded",
            "crates/sessions/src/store/memory.rs",
            "crates/sessions/src/store/mod.rs",
            "crates/sessions/src/store/nonces.rs",
            "crates/sessions/src/store/row",
            "crates/sessions/src/store/writer.rs",
        ],
        goal: 95,
    },
    Area {
        name: "gateway's policy and routes",
        part: "gateway",
        files: &["crates/gateway/src/policy.rs", "crates/gateway/src/route.rs"],
        goal: 90,
    },
    Area {
        name: "relay's admission",
        part: "relay",
        files: &["crates/relay/src/replay.rs", "crates/relay/src/budget.rs", "crates/relay/src/control/"],
        goal: 90,
    },
    Area {
        name: "broker's policy",
        part: "broker",
        files: &["crates/broker/src/callers/", "crates/broker/src/profile/"],
        goal: 90,
    },
];

/// A package, or modules of it, and those of its tests that run: the quick ones.
struct Part {
    name: &'static str,
    package: &'static str,
    /// Modules of the root that are built, with their unit tests; all of them if empty.
    modules: &'static [&'static str],
    /// Arguments of `cargo test` that select the tests.
    targets: &'static [&'static str],
    /// Beginnings of names of tests that do not run: those that start servers.
    without: &'static [&'static str],
}

/// The modules of proto that sessions and tokens need.
const OF_SESSIONS: &[&str] =
    &["crypto", "error", "exchange", "hpke", "limits", "one_shot", "relay", "routes", "session", "store", "wire"];

const PARTS: &[Part] = &[
    Part { name: "messages", package: "sealway-proto", modules: OF_SESSIONS, targets: &["--lib"], without: &[] },
    Part {
        name: "sessions of proto",
        package: "sealway-proto",
        modules: OF_SESSIONS,
        targets: &[
            "--lib",
            "--test=native",
            "--test=one_shot",
            "--test=vectors",
            "--test=properties",
            "--test=registry",
        ],
        without: &[],
    },
    Part {
        name: "sessions",
        package: "sealway-sessions",
        modules: &[],
        targets: &["--lib", "--test=sessions"],
        without: &["postgres", "redis", "tiered::", "writers::"],
    },
    Part {
        name: "gateway",
        package: "sealway-gateway",
        modules: &[],
        targets: &["--lib", "--test=exchange", "--test=hostile_clients", "--test=broken_answers"],
        without: &[],
    },
    Part { name: "relay", package: "sealway-relay", modules: &[], targets: &["--lib"], without: &[] },
    Part { name: "broker", package: "sealway-broker", modules: &[], targets: &["--lib", "--test=calls"], without: &[] },
];

/// Runs the mutants and reports all areas that ever ran.
///
/// # Errors
/// A survivor has no reason, a reason has no survivor, or an area catches a smaller share than its record says.
pub(super) fn run() -> anyhow::Result<Record> {
    let chosen = chosen(std::env::var("SEALWAY_MUTANTS_AREAS").ok().as_deref())?;
    let sample = match std::env::var("SEALWAY_MUTANTS_SAMPLE") {
        Ok(size) => Some(size.parse::<usize>().context("SEALWAY_MUTANTS_SAMPLE is not a number")?),
        Err(_) => None,
    };
    let mut areas = state::read()?;
    let mut sampled = BTreeMap::new();
    for part in PARTS {
        let of_part: Vec<&Area> = chosen.iter().copied().filter(|area| area.part == part.name).collect();
        if of_part.is_empty() {
            continue;
        }
        run_part(part, &of_part, sample, |name, run| {
            if sample.is_some() {
                sampled.insert(name.to_owned(), run);
                return Ok(());
            }
            areas.insert(name.to_owned(), run);
            state::write(&areas)
        })?;
    }
    if sample.is_some() {
        return check_sample(&sampled, &state::reasons()?);
    }
    report(&areas)
}

/// Returns the areas of these names, or all of them.
fn chosen(names: Option<&str>) -> anyhow::Result<Vec<&'static Area>> {
    let Some(names) = names else { return Ok(AREAS.iter().collect()) };
    let by_name = |name: &str| {
        let all: Vec<&str> = AREAS.iter().map(|area| area.name).collect();
        let found = AREAS.iter().find(|area| area.name == name.trim());
        found.with_context(|| format!("there is no area {name}; there are: {}", all.join(", ")))
    };
    names.split(',').filter(|name| !name.trim().is_empty()).map(by_name).collect()
}

/// Returns the name of a file's area.
fn area_of(file: &str) -> Option<&'static str> {
    AREAS.iter().find(|area| area.has(file)).map(|area| area.name)
}

/// Builds the mutants of a part's areas, runs one area after another, and passes each to `done`: a run that is ended keeps
/// the areas that are whole.
fn run_part(
    part: &Part,
    areas: &[&Area],
    sample: Option<usize>,
    mut done: impl FnMut(&str, AreaRun) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let is_chosen =
        |mutant: &&Mutant| area_of(&mutant.file).is_some_and(|name| areas.iter().any(|area| area.name == name));
    let listed = mutant::list(part.package)?;
    let mutants: Vec<&Mutant> = listed.iter().filter(is_chosen).collect();
    let build = build::build(part.package, part.modules, part.targets, &mutants)?;
    let tests = Tests::trace(&build.binaries, part.without)?;
    for name in &tests.failing {
        println!("mutation: {name} fails with all mutants off");
    }
    let commit = shell::output(shell::command("git").args(["rev-parse", "--short=12", "HEAD"]))?.trim().to_owned();
    for area in areas {
        let of_area: Vec<&Mutant> =
            mutants.iter().copied().filter(|mutant| area_of(&mutant.file) == Some(area.name)).collect();
        let runnable = of_area.iter().map(|mutant| mutant.number);
        let runnable = runnable.filter(|number| !build.unviable.contains(number) && !build.left_out.contains(number));
        let runnable: Vec<u32> = of_day(&runnable.collect::<Vec<_>>(), sample)?;
        println!("mutation: {}: {}: {} mutants, {} tests", part.name, area.name, runnable.len(), tests.len());
        let outcomes = tests.run(&runnable);
        let outcome = |mutant: &&Mutant| match outcomes.get(&mutant.number) {
            Some(&outcome) => Some((mutant.key.clone(), outcome)),
            None if build.unviable.contains(&mutant.number) => Some((mutant.key.clone(), Outcome::Unviable)),
            None if build.left_out.contains(&mutant.number) => Some((mutant.key.clone(), Outcome::NotRun)),
            None => None,
        };
        let mutants = of_area.iter().filter_map(outcome).collect();
        let run =
            AreaRun { commit: commit.clone(), tests: tests.len() as u64, failing: tests.failing.clone(), mutants };
        done(area.name, run)?;
    }
    Ok(())
}

/// Returns so many of the mutants, the next ones each day; all of them without a size.
fn of_day(mutants: &[u32], size: Option<usize>) -> anyhow::Result<Vec<u32>> {
    let Some(size) = size else { return Ok(mutants.to_vec()) };
    let day = usize::try_from(today()?)?;
    Ok(rotated(mutants, size, day))
}

fn rotated(mutants: &[u32], size: usize, day: usize) -> Vec<u32> {
    // Neighbours are of one function: a stride takes them from everywhere, and another offset each day takes all in turn.
    let stride = mutants.len().div_ceil(size.max(1)).max(1);
    mutants.iter().copied().skip(day % stride).step_by(stride).collect()
}

/// Checks that each survivor of a sample is a known one.
fn check_sample(areas: &BTreeMap<String, AreaRun>, reasons: &BTreeMap<String, String>) -> anyhow::Result<Record> {
    let mut record = Record { is_sample: true, ..Record::default() };
    let mut unknown = Vec::new();
    for (name, area) in areas {
        let missed = area.mutants.iter().filter(|(_, outcome)| **outcome == Outcome::Missed);
        unknown.extend(missed.map(|(key, _)| key.as_str()).filter(|key| !reasons.contains_key(*key)));
        record.figure(name, format!("{} of {} caught", area.viable() - area.count(Outcome::Missed), area.viable()));
    }
    ensure!(
        unknown.is_empty(),
        "no test catches these, and {} does not name them:\n{}",
        state::SURVIVORS,
        unknown.join("\n")
    );
    Ok(record)
}

/// Formats what all areas found, and checks it against the reasons and the record of the last run.
fn report(areas: &BTreeMap<String, AreaRun>) -> anyhow::Result<Record> {
    let reasons = state::reasons()?;
    let last = last();
    let problems = problems(areas, &reasons, &last);
    if !problems.is_empty() {
        let list = build::folder().join("survivors.toml");
        std::fs::write(&list, unexplained(areas, &reasons)).with_context(|| list.display().to_string())?;
        let [count, list] = [problems.len().to_string(), list.display().to_string()];
        bail!("{count} problems; {list} has the survivors without a reason:\n{}", problems.join("\n"));
    }
    let mut record = Record::default();
    let [mut rows, mut survivors] = [Vec::new(), Vec::new()];
    for area in AREAS {
        let Some(run) = areas.get(area.name) else {
            let (figures, row) =
                (last.figures.iter().filter(|[name, _]| name == area.name), last_rows(&last, "Areas", area.name));
            if row.is_empty() {
                record.missing(&format!("mutants of {}", area.name), "the area did not run yet", "its tests");
            }
            record.figures.extend(figures.cloned());
            rows.extend(row);
            survivors.extend(last_rows(&last, "Survivors", area.name));
            continue;
        };
        let share = percent(run.caught_permille());
        record.figure(area.name, format!("{share} of {} viable mutants caught", run.viable()));
        let mut row = vec![area.name.to_owned(), area.files.join(", "), run.mutants.len().to_string()];
        row.extend(Outcome::ALL.iter().map(|(outcome, _)| run.count(*outcome).to_string()));
        row.extend([share.clone(), format!("{} %", area.goal), tests_of(area, run), run.commit.clone()]);
        rows.push(row);
        if run.caught_permille() < area.goal * 10 {
            let what = format!("{}: {} % of viable mutants caught", area.name, area.goal);
            record.missing(&what, &format!("{share} are caught"), "the survivors below name the tests to write");
        }
        for (key, _) in run.mutants.iter().filter(|(_, outcome)| **outcome == Outcome::Missed) {
            survivors.push(vec![
                area.name.to_owned(),
                format!("`{key}`"),
                reasons.get(key).cloned().unwrap_or_default(),
            ]);
        }
    }
    record.figure("list of mutants", mutant::version()?);
    let columns = [
        "area",
        "files",
        "mutants",
        "caught",
        "timeout",
        "missed",
        "unviable",
        "not run",
        "caught of viable",
        "goal",
        "tests",
        "commit",
    ];
    record.table("Areas", &columns, rows);
    record.table("Files that did not run", &["package", "files"], unlisted()?);
    record.table("Survivors", &["area", "mutant", "reason"], survivors);
    Ok(record)
}

/// Describes the tests that an area's mutants met.
fn tests_of(area: &Area, run: &AreaRun) -> String {
    let modules = PARTS.iter().find(|part| part.name == area.part).map_or(&[][..], |part| part.modules);
    let of = if modules.is_empty() { String::new() } else { format!(", those of the modules {}", modules.join(", ")) };
    format!("{}{of}", run.tests)
}

/// Formats the survivors without a reason as a group of survivors.toml, whose reason is to be written.
fn unexplained(areas: &BTreeMap<String, AreaRun>, reasons: &BTreeMap<String, String>) -> String {
    let mut text = "[[survivors]]\nreason = \"\"\nmutants = [\n".to_owned();
    for (key, outcome) in areas.values().flat_map(|run| &run.mutants) {
        if *outcome == Outcome::Missed && !reasons.contains_key(key) {
            text.push_str(&format!("    {},\n", toml::Value::from(key.as_str())));
        }
    }
    text.push_str("]\n");
    text
}

/// Lists the files of each package that no area has: a folder as a whole if no file of it ran.
fn unlisted() -> anyhow::Result<Vec<Vec<String>>> {
    let tracked = shell::tracked_files()?;
    let mut rows = Vec::new();
    let packages: BTreeSet<&str> = PARTS.iter().map(|part| part.package).collect();
    for package in packages {
        let source = format!("crates/{}/src/", package.trim_start_matches("sealway-"));
        let files = tracked.iter().filter(|path| path.starts_with(&source) && path.ends_with(".rs"));
        let files: Vec<&String> = files.filter(|path| !is_test(path)).collect();
        let is_run = |path: &str| AREAS.iter().any(|area| area.has(path));
        let name_of = |path: &str| {
            let mut folders =
                path.match_indices('/').map(|(at, _)| &path[..=at]).filter(|folder| folder.len() > source.len());
            let idle = |folder: &&str| !files.iter().any(|file| file.starts_with(*folder) && is_run(file));
            let name = folders.find(idle).unwrap_or(path);
            name.trim_start_matches(&source).to_owned()
        };
        let names: BTreeSet<String> = files.iter().filter(|path| !is_run(path)).map(|path| name_of(path)).collect();
        rows.push(vec![package.to_owned(), names.into_iter().collect::<Vec<_>>().join(", ")]);
    }
    Ok(rows)
}

/// Tests if a file has tests alone.
fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

fn percent(permille: usize) -> String {
    format!("{}.{} %", permille / 10, permille % 10)
}

/// Reads the committed record; an empty one before the first run.
fn last() -> Record {
    let text = std::fs::read_to_string(shell::root().join(super::result_path("mutation"))).unwrap_or_default();
    Record::parse(&text).unwrap_or_default()
}

/// Returns the rows of an area in a table of the committed record.
fn last_rows(last: &Record, table: &str, area: &str) -> Vec<Vec<String>> {
    let rows = last.tables.iter().filter(|found| found.title == table).flat_map(|found| &found.rows);
    rows.filter(|row| row.first().is_some_and(|name| name == area)).cloned().collect()
}

/// Returns the share of each area in the committed record, in tenths of a per cent.
fn shares(last: &Record) -> BTreeMap<&str, usize> {
    fn share([name, value]: &[String; 2]) -> Option<(&str, usize)> {
        let (whole, tenth) = value.split_once(" %")?.0.split_once('.')?;
        Some((name, whole.parse::<usize>().ok()? * 10 + tenth.parse::<usize>().ok()?))
    }
    last.figures.iter().filter_map(share).collect()
}

/// Lists survivors without a reason, reasons without a survivor, and areas that catch less than in the `last` record.
fn problems(areas: &BTreeMap<String, AreaRun>, reasons: &BTreeMap<String, String>, last: &Record) -> Vec<String> {
    let mut problems = Vec::new();
    let mut survivors = BTreeSet::new();
    let shares = shares(last);
    for (name, run) in areas {
        survivors
            .extend(run.mutants.iter().filter(|(_, outcome)| **outcome == Outcome::Missed).map(|(key, _)| key.clone()));
        if let Some(&before) = shares.get(name.as_str()).filter(|&&before| run.caught_permille() < before) {
            problems.push(format!("{name}: {} are caught, {} before", percent(run.caught_permille()), percent(before)));
        }
    }
    let unknown = survivors.iter().filter(|key| !reasons.contains_key(*key));
    problems.extend(unknown.map(|key| format!("no test catches it, and it has no reason: {key}")));
    for area in AREAS.iter().filter(|area| !areas.contains_key(area.name)) {
        let rows = last_rows(last, "Survivors", area.name);
        survivors.extend(rows.iter().filter_map(|row| Some(row.get(1)?.trim_matches('`').to_owned())));
    }
    let stale = reasons.keys().filter(|key| !survivors.contains(*key));
    problems.extend(stale.map(|key| format!("{} names what is no survivor: {key}", state::SURVIVORS)));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mutant_is_in_the_sample_of_one_day_in_turn() {
        let mutants: Vec<u32> = (1..=103).collect();
        let days: Vec<Vec<u32>> = (20_000..20_011).map(|day| rotated(&mutants, 10, day)).collect();
        assert!(days.iter().all(|day| day.len() <= 10 && day.len() >= 9));
        let mut all: Vec<u32> = days.concat();
        all.sort_unstable();
        assert_eq!(all, mutants);
    }

    #[test]
    fn a_survivor_needs_a_reason_a_reason_a_survivor_and_no_share_may_fall() {
        let mutants = [("a", Outcome::Missed), ("b", Outcome::Caught)].map(|(key, outcome)| (key.to_owned(), outcome));
        let run = AreaRun { mutants: mutants.into(), ..AreaRun::default() };
        let areas = BTreeMap::from([("routes".to_owned(), run)]);
        let reason = |key: &str| BTreeMap::from([(key.to_owned(), "equivalent".to_owned())]);
        let before = |share: &str| {
            let mut last = Record::default();
            last.figure("routes", format!("{share} % of 2 viable mutants caught"));
            last
        };
        assert_eq!(problems(&areas, &reason("a"), &before("50.0")), [""; 0]);
        assert_eq!(problems(&areas, &reason("a"), &before("50.1")), ["routes: 50.0 % are caught, 50.1 % before"]);
        let both = problems(&areas, &reason("b"), &before("0.0"));
        assert!(
            both.len() == 2 && both[0].ends_with("no reason: a") && both[1].ends_with("no survivor: b"),
            "{both:?}"
        );
    }

    #[test]
    fn the_survivors_of_an_area_that_did_not_run_are_those_of_the_last_record() {
        let mut last = Record::default();
        let row = |area: &str, key: &str| vec![area.to_owned(), format!("`{key}`"), "equivalent".to_owned()];
        last.table("Survivors", &["area", "mutant", "reason"], vec![row("routes", "a"), row("gone", "b")]);
        let reason = |key: &str| BTreeMap::from([(key.to_owned(), "equivalent".to_owned())]);
        assert_eq!(problems(&BTreeMap::new(), &reason("a"), &last), [""; 0]);
        assert_eq!(problems(&BTreeMap::new(), &reason("b"), &last).len(), 1);
        let ran = BTreeMap::from([("routes".to_owned(), AreaRun::default())]);
        assert_eq!(problems(&ran, &reason("a"), &last).len(), 1);
    }

    #[test]
    fn the_list_of_survivors_lacks_only_its_reason() {
        let key = r#"a.rs: replace f -> &str with "x\y""#.to_owned();
        let mutants = [(key.clone(), Outcome::Missed), ("b".to_owned(), Outcome::Missed)];
        let areas = BTreeMap::from([("routes".to_owned(), AreaRun { mutants: mutants.into(), ..AreaRun::default() })]);
        let known = BTreeMap::from([("b".to_owned(), "equivalent".to_owned())]);
        let list = unexplained(&areas, &known);
        assert!(state::parse_reasons(&list).is_err());
        let written = state::parse_reasons(&list.replace("\"\"\n", "\"no test yet\"\n")).unwrap();
        assert_eq!(written, BTreeMap::from([(key, "no test yet".to_owned())]));
    }
}
