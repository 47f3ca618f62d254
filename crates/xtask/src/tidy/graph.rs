//! The workspace's crates and their dependencies, from `cargo metadata`, for every feature.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use serde_json::Value;

use crate::shell;

/// The workspace's crates by name.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) crates: BTreeMap<String, Crate>,
}

/// One crate of the workspace. Development and build dependencies are left out: users of the crate do not get them.
#[derive(Debug, Default)]
pub(super) struct Crate {
    /// Normal dependencies as its manifest names them, optional ones too.
    pub(super) direct: BTreeSet<String>,
    /// Everything that its normal dependencies reach, as resolved with every feature on.
    pub(super) reached: BTreeSet<String>,
}

/// Reads the graph from `cargo metadata`.
pub(super) fn read() -> anyhow::Result<Graph> {
    let text = shell::output(&mut shell::cargo(&[
        "metadata",
        "--format-version=1",
        "--locked",
        "--all-features",
        // One platform, so that external crates need not be downloaded to be read.
        "--filter-platform=x86_64-unknown-linux-gnu",
    ]))?;
    parse(&serde_json::from_str(&text).context("cargo metadata printed what is not JSON")?)
}

fn parse(metadata: &Value) -> anyhow::Result<Graph> {
    let names: BTreeMap<&str, &str> =
        list(&metadata["packages"])?.iter().filter_map(|p| Some((p["id"].as_str()?, p["name"].as_str()?))).collect();
    let nodes: BTreeMap<&str, &Value> =
        list(&metadata["resolve"]["nodes"])?.iter().filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let members: BTreeSet<&str> = list(&metadata["workspace_members"])?.iter().filter_map(Value::as_str).collect();

    let mut graph = Graph::default();
    for package in list(&metadata["packages"])? {
        let (Some(id), Some(name)) = (package["id"].as_str(), package["name"].as_str()) else { continue };
        if !members.contains(id) {
            continue;
        }
        let direct = list(&package["dependencies"])?
            .iter()
            .filter(|dependency| dependency["kind"].is_null())
            .filter_map(|dependency| dependency["name"].as_str().map(str::to_owned))
            .collect();
        graph.crates.insert(name.to_owned(), Crate { direct, reached: reach(id, &nodes, &names) });
    }
    anyhow::ensure!(!graph.crates.is_empty(), "cargo metadata names no workspace member");
    Ok(graph)
}

fn reach(from: &str, nodes: &BTreeMap<&str, &Value>, names: &BTreeMap<&str, &str>) -> BTreeSet<String> {
    let (mut seen, mut todo) = (BTreeSet::new(), vec![from]);
    while let Some(id) = todo.pop() {
        let Some(deps) = nodes.get(id).and_then(|node| node["deps"].as_array()) else { continue };
        for dep in deps {
            let normal =
                dep["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()));
            if let Some(id) = dep["pkg"].as_str().filter(|id| normal && seen.insert(*id)) {
                todo.push(id);
            }
        }
    }
    seen.into_iter().filter_map(|id| names.get(id)).map(|name| (*name).to_owned()).collect()
}

fn list(value: &Value) -> anyhow::Result<&Vec<Value>> {
    value.as_array().context("cargo metadata has another shape than tidy knows: teach crates/xtask/src/tidy/graph.rs")
}

#[cfg(test)]
impl Graph {
    /// Creates crates with direct dependencies, each of which is reached too.
    pub(super) fn sample(edges: &[(&str, &[&str])]) -> Self {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let crates =
            edges.iter().map(|(name, to)| ((*name).to_owned(), Crate { direct: set(to), reached: set(to) })).collect();
        Self { crates }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn development_dependencies_are_no_edges_and_reach_goes_through_others() {
        let graph = parse(&json!({
            "workspace_members": ["a"],
            "packages": [
                {"id": "a", "name": "ours", "dependencies": [{"name": "b", "kind": null}, {"name": "d", "kind": "dev"}]},
                {"id": "b1", "name": "b", "dependencies": []},
                {"id": "c1", "name": "c", "dependencies": []},
                {"id": "d1", "name": "d", "dependencies": []},
            ],
            "resolve": {"nodes": [
                {"id": "a", "deps": [{"pkg": "b1", "dep_kinds": [{"kind": null}]}, {"pkg": "d1", "dep_kinds": [{"kind": "dev"}]}]},
                {"id": "b1", "deps": [{"pkg": "c1", "dep_kinds": [{"kind": null}]}]},
                {"id": "c1", "deps": []},
                {"id": "d1", "deps": []},
            ]},
        }))
        .unwrap();
        let ours = &graph.crates["ours"];
        assert_eq!(ours.direct.iter().collect::<Vec<_>>(), ["b"]);
        assert_eq!(ours.reached.iter().collect::<Vec<_>>(), ["b", "c"]);
    }

    #[test]
    fn metadata_without_members_is_an_error() {
        let empty = json!({"workspace_members": [], "packages": [], "resolve": {"nodes": []}});
        assert!(parse(&empty).is_err());
        assert!(parse(&json!({})).is_err());
    }
}
