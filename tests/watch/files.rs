//! The files by themselves: rules, their cases, runbooks and dashboards agree with each other and with the reference of metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use sealway_runtime::config::load_yaml;
use sealway_testkit::daemon::{program, root};
use sealway_testkit::prometheus::rules;
use serde_json::Value;

use crate::dashboards::{dashboards, targets};
use crate::faults::FAULTS;

const RUNBOOKS: &str = "docs/guides/runbooks.md";

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|err| panic!("{path}: {err}"))
}

/// Returns the rules with this member, `alert` or `record`.
fn rules_with(member: &str) -> Vec<Value> {
    let rules: Value = load_yaml(&rules(&root()).unwrap()).unwrap();
    let groups = rules["groups"].as_array().unwrap();
    let all = groups.iter().flat_map(|group| group["rules"].as_array().unwrap());
    all.filter(|rule| rule[member].is_string()).cloned().collect()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value}"))
}

/// Returns the names of the objectives.
fn objectives() -> BTreeSet<String> {
    let records = rules_with("record");
    let objectives = records.iter().filter(|rule| rule["record"] == "sealway:slo_objective:ratio");
    objectives.map(|rule| text(&rule["labels"], "slo").to_owned()).collect()
}

/// Returns each alert with its severity, and the fast one on budgets with each objective, as faults name them.
fn alerts() -> BTreeSet<String> {
    let alerts = rules_with("alert").into_iter().flat_map(|rule| {
        let (severity, name) = (text(&rule["labels"], "severity").to_owned(), text(&rule, "alert").to_owned());
        let objectives = if name == "SealwayBudgetBurnsFast" { objectives() } else { BTreeSet::from([String::new()]) };
        objectives.into_iter().map(move |slo| format!("{severity} {name} {slo}").trim_end().to_owned())
    });
    alerts.collect()
}

fn promtool(arguments: &[&str]) {
    let mut command = Command::new(program("promtool").unwrap());
    let done = command.args(arguments).current_dir(root().join("deploy/prometheus")).output().unwrap();
    let said = [done.stdout, done.stderr].concat();
    assert!(done.status.success(), "promtool {arguments:?}:\n{}", String::from_utf8_lossy(&said));
}

#[test]
fn promtool_accepts_the_rules() {
    promtool(&["check", "rules", "rules.yaml"]);
}

#[test]
fn in_the_cases_of_promtool_each_alert_is_quiet_and_then_fires() {
    promtool(&["test", "rules", "rules.test.yaml"]);
    let cases: Value = load_yaml(&read("deploy/prometheus/rules.test.yaml")).unwrap();
    let mut fired = BTreeSet::new();
    for case in cases["tests"].as_array().unwrap() {
        for step in case["promql_expr_test"].as_array().unwrap() {
            assert!(text(step, "expr").contains("ALERTS{alertstate=\"firing\"}"), "{step}");
            let samples = step["exp_samples"].as_array().cloned().unwrap_or_default();
            for sample in &samples {
                let labels: BTreeMap<_, _> = text(sample, "labels")
                    .trim_matches(['{', '}'])
                    .split(',')
                    .map(|label| {
                        let (name, value) = label.split_once('=').unwrap();
                        (name, value.trim_matches('"'))
                    })
                    .collect();
                let slo = labels.get("slo").filter(|_| labels["alertname"] == "SealwayBudgetBurnsFast");
                let alert = format!("{} {} {}", labels["severity"], labels["alertname"], slo.unwrap_or(&""));
                fired.insert(alert.trim_end().to_owned());
            }
        }
        let first = &case["promql_expr_test"][0];
        assert!(first["exp_samples"].is_null(), "begins with an alert that fires: {}", case["name"]);
    }
    assert_eq!(fired, alerts(), "alerts that fire in a case, and alerts of the rules");
}

#[test]
fn each_alert_has_a_fault_that_is_injected() {
    let fires: BTreeSet<_> = FAULTS
        .iter()
        .flat_map(|fault| fault.fires)
        .map(|alert| {
            // Any objective does for the slow one.
            alert.split_once("Slowly ").map_or((*alert).to_owned(), |(name, _)| format!("{name}Slowly"))
        })
        .collect();
    assert_eq!(fires, alerts(), "alerts that faults fire, and alerts of the rules");
}

#[test]
fn each_alert_has_a_runbook_and_each_runbook_an_alert() {
    let page = read(RUNBOOKS);
    let sections: Vec<_> = page.split("\n## ").skip(1).map(|section| section.split_once('\n').unwrap()).collect();
    let titles: BTreeSet<_> = sections.iter().map(|(title, _)| (*title).to_owned()).collect();
    assert_eq!(titles.len(), sections.len(), "a section stands twice");
    let rules = rules_with("alert");
    let names: BTreeSet<_> = rules.iter().map(|rule| text(rule, "alert").to_owned()).collect();
    assert_eq!(titles, names, "sections of {RUNBOOKS}, and alerts of the rules");
    for (title, section) in sections {
        for part in ["**Meaning.** ", "**Check.** ", "**Remedy.** "] {
            let is_part = section.contains(part) || section.contains(&format!("{}\n", part.trim_end()));
            assert!(is_part, "{title} has no {part}");
        }
    }
    for rule in rules {
        let (name, annotations) = (text(&rule, "alert"), &rule["annotations"]);
        let anchor = format!("{RUNBOOKS}#{}", name.to_lowercase());
        assert_eq!(text(annotations, "runbook_url"), anchor, "{name}");
        assert!(!text(annotations, "summary").is_empty(), "{name}");
        assert!(["page", "ticket"].contains(&text(&rule["labels"], "severity")), "{name}");
    }
    let rows: BTreeSet<_> = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let objectives = objectives();
    assert_eq!(rows, objectives.iter().map(String::as_str).chain(["slo"]).collect(), "objectives in a table");
}

/// Returns the names of series in an expression of PromQL.
fn series(expression: &str) -> BTreeSet<String> {
    const WORDS: [&str; 14] = [
        "sum",
        "min",
        "max",
        "avg",
        "count",
        "by",
        "without",
        "on",
        "ignoring",
        "group_left",
        "group_right",
        "and",
        "or",
        "unless",
    ];
    // Labels and ranges name no series.
    let mut bare = String::new();
    let (mut depth, mut is_quoted, mut is_escaped) = (0, false, false);
    for char in expression.chars() {
        match char {
            '"' if !is_escaped => is_quoted = !is_quoted,
            '{' | '[' if !is_quoted => depth += 1,
            '}' | ']' if !is_quoted => depth -= 1,
            _ if is_quoted || depth > 0 => {}
            char => bare.push(char),
        }
        is_escaped = char == '\\' && !is_escaped;
    }
    for word in ["by (", "without (", "on (", "ignoring (", "group_left (", "group_right ("] {
        while let Some(start) = bare.find(&format!(" {word}")) {
            let end = start + bare[start..].find(')').unwrap();
            bare.replace_range(start..=end, " ");
        }
    }
    let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == ':';
    let mut names = BTreeSet::new();
    let mut rest = bare.as_str();
    while let Some(start) = rest.find(|char: char| is_name(char)) {
        let len = rest[start..].find(|char: char| !is_name(char)).unwrap_or(rest.len() - start);
        let (name, after) = rest[start..].split_at(len);
        if !name.starts_with(|char: char| char.is_ascii_digit()) && !after.starts_with('(') && !WORDS.contains(&name) {
            names.insert(name.to_owned());
        }
        rest = after;
    }
    names
}

#[test]
fn names_of_series_are_found_in_expressions() {
    for (expression, names) in [
        (r#"sum by (job, le) (rate(a_bucket{b="c\"d"}[5m])) or 0 * up"#, &["a_bucket", "up"][..]),
        ("x:y:z / on (slo) group_left () (1 - o)", &["o", "x:y:z"]),
        (r#"a{b="sum by (c)"} - time() < 30 * 86400"#, &["a"]),
        ("histogram_quantile(0.99, sum by (le) (rate(h_bucket[5m]))) > 0.25", &["h_bucket"]),
    ] {
        assert_eq!(series(expression).iter().map(String::as_str).collect::<Vec<_>>(), names, "{expression}");
    }
}

#[test]
fn rules_dashboards_and_runbooks_name_documented_metrics_alone() {
    let page = read("docs/reference/metrics.md");
    let records: BTreeSet<_> = rules_with("record").iter().map(|rule| text(rule, "record").to_owned()).collect();
    let is_known = |name: &str| {
        let base = ["_bucket", "_count", "_sum"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        let is_documented = [name, base].iter().any(|name| page.contains(&format!("`{name}`")));
        is_documented || records.contains(name) || name == "up"
    };
    let expressions = [rules_with("record"), rules_with("alert")].concat();
    let mut named: Vec<_> = expressions.iter().map(|rule| series(text(rule, "expr"))).collect();
    for (_, dashboard) in dashboards() {
        named.extend(targets(&dashboard).iter().map(|(_, expression)| series(expression)));
    }
    assert!(named.iter().all(|names| names.len() < 6), "{named:?}");
    let runbooks = read(RUNBOOKS);
    let words = runbooks.split(|char: char| !char.is_ascii_alphanumeric() && !"_:".contains(char));
    named.push(
        words.filter(|word| word.starts_with("sealway_") || word.starts_with("crypto_")).map(Into::into).collect(),
    );
    let unknown: BTreeSet<_> = named.iter().flatten().filter(|name| !is_known(name)).collect();
    assert!(unknown.is_empty(), "not in docs/reference/metrics.md: {unknown:?}");
}

#[test]
fn dashboards_are_well_formed() {
    let mut uids = BTreeSet::new();
    for (file, dashboard) in dashboards() {
        assert!(uids.insert(text(&dashboard, "uid").to_owned()), "{file}: its uid is another's");
        assert!(text(&dashboard, "title").starts_with("Sealway: "), "{file}");
        let variables = dashboard["templating"]["list"].as_array().unwrap();
        let variables: BTreeSet<_> = variables.iter().map(|variable| text(variable, "name")).collect();
        let (mut ids, mut titles, mut places) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for panel in dashboard["panels"].as_array().unwrap() {
            let title = text(panel, "title");
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{file}: {title}: its id is another's");
            assert!(titles.insert(title), "{file}: {title} stands twice");
            let [x, y, w, h] = ["x", "y", "w", "h"].map(|name| panel["gridPos"][name].as_u64().unwrap());
            assert!(x + w <= 24, "{file}: {title}: wider than the page");
            let place = (x..x + w).flat_map(|column| (y..y + h).map(move |line| (column, line)));
            assert!(place.into_iter().all(|place| places.insert(place)), "{file}: {title}: lies on another");
            if panel["type"] == "row" {
                continue;
            }
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{file}: {title}");
            let refs: BTreeSet<_> =
                panel["targets"].as_array().unwrap().iter().map(|target| text(target, "refId")).collect();
            assert!(!refs.is_empty() && refs.len() == panel["targets"].as_array().unwrap().len(), "{file}: {title}");
        }
        for (title, expression) in targets(&dashboard) {
            let used = expression
                .split('$')
                .skip(1)
                .map(|rest| rest.split(|char: char| !char.is_ascii_alphanumeric() && char != '_').next().unwrap());
            let unknown: Vec<_> = used.filter(|name| *name != "__rate_interval" && !variables.contains(name)).collect();
            assert!(unknown.is_empty(), "{file}: {title}: unknown variables {unknown:?}");
        }
    }
}
