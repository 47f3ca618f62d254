//! Dashboards of Grafana: their queries, on a Prometheus that has scraped real services.

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};

use sealway_testkit::daemon::root;
use sealway_testkit::prometheus::Prometheus;
use serde_json::Value;

use crate::BINARY;
use crate::services::Services;

/// Returns each file of deploy/grafana with its content.
pub(crate) fn dashboards() -> Vec<(String, Value)> {
    let folder = root().join("deploy/grafana");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let read = |path: std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let content = serde_json::from_slice(&std::fs::read(&path).unwrap());
        (name.clone(), content.unwrap_or_else(|err| panic!("{name}: {err}")))
    };
    let mut all: Vec<_> = files.map(read).collect();
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    assert!(all.len() >= 4, "{all:?}");
    all
}

/// Returns the queries of a dashboard, each with the title of its panel.
pub(crate) fn targets(dashboard: &Value) -> Vec<(&str, &str)> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| {
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.map(|target| (panel["title"].as_str().unwrap(), target["expr"].as_str().unwrap()))
    });
    targets.collect()
}

/// A run of `sealway load`, ended when this is dropped.
pub(crate) struct Load(Child);

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a small load whose figures Prometheus scrapes.
pub(crate) fn offer_load(services: &Services) -> Load {
    let mut command = Command::new(BINARY);
    command.arg("load").arg(format!("http://{}/plain/", services.shared.address()));
    command.args(["--rate", "10", "--duration", "10m", "--no-tui", "--prometheus", &services.load_metrics()]);
    Load(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

/// Runs every query as Grafana would, with all values of its variables, and returns those that select no series now.
pub(crate) fn panels_without_data(prometheus: &Prometheus) -> BTreeSet<String> {
    let mut empty = BTreeSet::new();
    for (file, dashboard) in dashboards() {
        for (title, expression) in targets(&dashboard) {
            let mut query = expression.replace("$__rate_interval", "15s");
            for variable in ["$job", "$instance", "$run"] {
                query = query.replace(variable, ".*");
            }
            let found = prometheus.query(&query).unwrap_or_else(|err| panic!("{file}: {title}: {err:#}"));
            if found.is_empty() {
                empty.insert(format!("{file}: {title}: {query}"));
            }
        }
    }
    empty
}
