//! `sealway gateway-api`: the configuration that resources of the Kubernetes Gateway API ask for.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use clap::Subcommand;
use sealway_gateway_api::{Settings, Translation, read, translate};
use sealway_runtime::clock::{Clock, SystemClock, iso8601};
use sealway_runtime::config::{Problems, load_yaml, read_bounded};
use sealway_runtime::output::{out, tell};
use serde_json::{Value, json};

use crate::config;

/// Largest base configuration, in bytes.
const BASE_LEN_MAX: u64 = 1024 * 1024;

#[derive(Debug, Subcommand)]
pub(crate) enum GatewayApi {
    /// Translate manifests into a configuration of `sealway serve`
    Render(Render),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Render {
    /// Manifests: a YAML file, or a folder of them; may be given several times
    #[arg(long, value_name = "FOLDER|FILE", num_args = 1.., required = true)]
    pub(crate) from: Vec<PathBuf>,
    /// Write the configuration to this file; without it to standard output
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write the status of each resource to this file, as a List
    #[arg(long, value_name = "FILE")]
    pub(crate) status: Option<PathBuf>,
    /// Exit with 1 if a condition says that a resource is not served as it asks for
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) translation: TranslationArgs,
}

/// Flags that say how resources are translated.
#[derive(Debug, clap::Args)]
pub(crate) struct TranslationArgs {
    /// A configuration that the result extends: sessions, limits, admin and so on, and listeners with routes of their own
    #[arg(long, value_name = "FILE")]
    base: Option<PathBuf>,
    /// A Gateway to serve; without it, all whose class has controllerName: sealway.dev/gateway. May be given several times
    #[arg(long = "gateway", value_name = "NAMESPACE/NAME")]
    gateways: Vec<String>,
    /// Address that listeners bind, such as `[::]`
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    bind: String,
    /// Bind another port in the place of a listener's, as a Service maps it; may be given several times
    #[arg(long = "port", value_name = "PORT=PORT", value_parser = ports)]
    ports: Vec<(u16, u16)>,
    /// An address of the Gateways, for their status; may be given several times
    #[arg(long = "address", value_name = "ADDRESS")]
    addresses: Vec<String>,
    /// Folder where Secrets and ConfigMaps are mounted, each at NAMESPACE/NAME
    #[arg(long, value_name = "FOLDER")]
    mounts: Option<PathBuf>,
    /// Domain that names of Services end in
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    cluster_domain: String,
}

fn ports(text: &str) -> Result<(u16, u16), String> {
    let parsed = text.split_once('=').and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    parsed.ok_or_else(|| "expected two ports, such as 80=8080".into())
}

/// Runs the command `sealway gateway-api`.
pub(crate) fn run(action: GatewayApi) -> anyhow::Result<ExitCode> {
    let GatewayApi::Render(args) = action;
    let resources = read(&args.from)?;
    let base = args.translation.base()?;
    let settings = args.translation.settings()?;
    let Translation { config, statuses } = translate(&resources, &base, &settings, &check_with_files)?;
    resolve(&config, args.output.as_deref()).context("the configuration is not valid as a whole")?;
    let refusals = refusals(&statuses);
    refusals.iter().for_each(tell);
    if let Some(file) = &args.status {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": statuses});
        write(file, &serde_json::to_string_pretty(&list)?)?;
    }
    let text = serde_json::to_string_pretty(&config)?;
    match &args.output {
        Some(file) => write(file, &text)?,
        None => writeln!(out(), "{text}")?,
    }
    Ok(if args.strict && !refusals.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl TranslationArgs {
    /// Reads the base configuration; null if there is none.
    fn base(&self) -> anyhow::Result<Value> {
        let Some(file) = &self.base else { return Ok(Value::Null) };
        let text = read_bounded(file, BASE_LEN_MAX)?;
        let base: Value = load_yaml(&text).map_err(|err| anyhow!("{}: {err}", file.display()))?;
        anyhow::ensure!(base.is_object(), "{}: expected settings by name", file.display());
        Ok(base)
    }

    fn settings(&self) -> anyhow::Result<Settings> {
        let mounts = self.mounts.as_deref().map(std::path::absolute).transpose()?;
        Ok(Settings {
            gateways: self.gateways.clone(),
            bind: self.bind.clone(),
            ports: self.ports.clone(),
            addresses: self.addresses.clone(),
            mounts,
            cluster_domain: self.cluster_domain.clone(),
            now: iso8601(SystemClock.now_ms()),
        })
    }
}

/// Checks a configuration as `serve` does.
fn resolve(config: &Value, file: Option<&Path>) -> anyhow::Result<config::ServeConfig> {
    let raw = serde_json::from_value(config.clone())?;
    config::resolve(&raw, file)
}

/// Checks a configuration, and the certificates and authorities that it names.
fn check_with_files(config: &Value) -> Result<(), String> {
    let config = resolve(config, None).map_err(|err| err.to_string())?;
    let mut problems = Problems::default();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    config.gateway.check_files(&clock, &mut problems);
    problems.into_result().map_err(|err| err.to_string())
}

/// Describes the conditions that say what is not served, a line each.
fn refusals(statuses: &[Value]) -> Vec<String> {
    let mut lines = Vec::new();
    for object in statuses {
        let metadata = &object["metadata"];
        let namespace = metadata["namespace"].as_str().map(|namespace| format!("{namespace}/"));
        let name = metadata["name"].as_str().unwrap_or_default();
        let id = format!("{} {}{name}", object["kind"].as_str().unwrap_or_default(), namespace.unwrap_or_default());
        let status = &object["status"];
        lines.extend(refused(&id, status));
        for list in ["listeners", "parents", "ancestors"] {
            for entry in status[list].as_array().into_iter().flatten() {
                let reference = ["parentRef", "ancestorRef"].iter().find_map(|field| entry[*field]["name"].as_str());
                let part = reference.or(entry["name"].as_str()).unwrap_or_default();
                lines.extend(refused(&format!("{id}, {part}"), entry));
            }
        }
    }
    lines
}

fn refused(id: &str, holder: &Value) -> Vec<String> {
    let conditions = holder["conditions"].as_array().into_iter().flatten();
    let false_ones = conditions.filter(|condition| condition["status"] == "False" && condition["type"] != "Conflicted");
    let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    false_ones
        .map(|it| format!("{id}: {} is false: {}: {}", text(it, "type"), text(it, "reason"), text(it, "message")))
        .collect()
}

/// Writes a file by replacing it, so that a reader never sees half of it.
fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let replace = || -> std::io::Result<()> {
        let mut builder = tempfile::Builder::new();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        let mut new = builder.prefix(".sealway").permissions(mode).tempfile_in(folder)?;
        writeln!(new, "{text}")?;
        new.as_file().sync_all()?;
        new.persist(file).map(|_| ()).map_err(|err| err.error)
    };
    replace().with_context(|| format!("cannot write {}", file.display()))
}
