//! Configuration of `serve`, merged from file, environment and flags.

mod check;
mod compat_environment;
mod litegateway;
mod operators;
#[cfg(test)]
mod schema_tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use sealway_gateway::GatewayConfig;
use sealway_gateway::config::{
    RawAccessLog, RawCors, RawGateway, RawLimits, RawListener, RawMleKey, RawOneShot, RawPkcs11, RawRoute, RawUpstream,
};
use sealway_runtime::config::{Layers, Problems};
use sealway_runtime::telemetry::{RawTelemetry, Telemetry};
use sealway_sessions::config::{RawCompat, RawReplay, RawSessions, SessionsConfig};
use serde::{Deserialize, Serialize};

use crate::args::ConfigAction;
pub(crate) use operators::{AdminConfig, MetricsConfig};
use operators::{RawAdmin, RawMetrics};
use sealway_runtime::output::{out, tell};

/// Prefix of Sealway's environment variables: `SEALWAY_SESSIONS__STORE`.
const PREFIX: &str = "SEALWAY_";
/// Path at which clients of the native protocol agree sessions.
const NATIVE_INIT: &str = "/v3/sessions";
/// Configuration that is used without a file.
const ONE_PORT: &str = include_str!("../../../../deploy/config/one-port.yaml");
/// JSON Schema of [`RawServe`], which `cargo xtask codegen` generates.
const SCHEMA: &str = include_str!("../../../../docs/reference/configuration.schema.json");

/// As written.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawServe {
    /// Addresses that clients connect to; at least one.
    /// - default: required
    pub(crate) listeners: Vec<RawListener>,
    /// PKCS#11 tokens with keys of listeners.
    pkcs11: Vec<RawPkcs11>,
    /// Rules that requests are matched against, the first that matches wins; at least one.
    /// - default: required
    routes: Vec<RawRoute>,
    /// Keys for messages of card schemes, by name.
    mle_keys: BTreeMap<String, RawMleKey>,
    /// Keys of requests that are sealed without a session.
    one_shot: RawOneShot,
    /// Services behind the gateway, by name.
    upstreams: BTreeMap<String, RawUpstream>,
    /// The session authority and its store.
    sessions: RawSessions,
    /// Replay protection.
    replay: RawReplay,
    /// Behaviour of the servers that Sealway replaces.
    compat: RawCompat,
    /// Cross-origin requests of browsers.
    cors: RawCors,
    /// Bounds on connections and requests.
    limits: RawLimits,
    /// Log and traces.
    telemetry: RawTelemetry,
    /// A line of JSON for each request.
    access_log: Option<RawAccessLog>,
    /// The admin listener.
    admin: Option<RawAdmin>,
    /// A listener for metrics alone.
    metrics: Option<RawMetrics>,
    /// The old servers' variables that `sessions.store` was made of.
    #[serde(skip)]
    store_from: Option<String>,
}

/// Checked configuration of the command `serve`.
#[derive(Clone, Debug)]
pub(crate) struct ServeConfig {
    pub(crate) gateway: GatewayConfig,
    pub(crate) sessions: SessionsConfig,
    pub(crate) telemetry: Telemetry,
    pub(crate) admin: Option<AdminConfig>,
    pub(crate) metrics: Option<MetricsConfig>,
    pub(crate) warnings: Vec<String>,
}

/// Source from which a configuration is loaded.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// A file of the operator.
    File(PathBuf),
    /// Built-in configuration with the demo service.
    BuiltIn,
    /// Environment variables of Lite Gateway.
    LiteGateway {
        /// True to echo requests if there is no upstream.
        echo: bool,
    },
}

impl Source {
    /// File of the configuration, to which its paths are relative.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Source::File(path) => Some(path),
            _ => None,
        }
    }

    /// Rewrites an error of a start in the terms of the source.
    pub(crate) fn explain(&self, raw: &RawServe, err: anyhow::Error) -> anyhow::Error {
        match self {
            Source::LiteGateway { .. } => {
                anyhow!(litegateway::explain(&format!("{err:#}"), &|name| std::env::var(name).ok()))
            }
            Source::File(_) | Source::BuiltIn => anyhow!(with_sources(raw, &format!("{err:#}"))),
        }
    }
}

/// Merges the source, the old servers' environment, and Sealway's.
pub(crate) fn load(source: &Source) -> anyhow::Result<(RawServe, Vec<String>)> {
    let layers = match source {
        Source::File(path) => Layers::new().file::<RawServe>(path)?,
        Source::BuiltIn => Layers::new().text::<RawServe>("one-port.yaml (built in)", ONE_PORT)?,
        Source::LiteGateway { echo } => return load_litegateway(*echo),
    };
    check::refuse_misspelt(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()))?;
    let old = compat_environment::read(|name| std::env::var(name).ok()).map_err(|err| anyhow!(err))?;
    let layers = layers.values(old.settings);
    let mut raw: RawServe = layers.clone().env(PREFIX).extract()?;
    let mut warnings = old.warnings;
    match old.stores {
        Some(stores) if raw.sessions.names_a_store() => {
            warnings.push(format!("{} is ignored: sessions.store says where sessions are kept", stores.name));
        }
        Some(stores) => {
            warnings.extend(stores.warnings);
            raw = layers.values(stores.settings).env(PREFIX).extract()?;
            raw.store_from = Some(stores.names);
        }
        None => {}
    }
    if let Some(port) = old.port {
        match raw.listeners.as_mut_slice() {
            [one] => one.set_port(port),
            _ => warnings.push("PORT is ignored: the configuration has several listeners".into()),
        }
    }
    Ok((raw, warnings))
}

/// Merges the environment of Lite Gateway with Sealway's.
fn load_litegateway(echo: bool) -> anyhow::Result<(RawServe, Vec<String>)> {
    let lite = litegateway::read(&|name| std::env::var(name).ok(), echo).map_err(|err| anyhow!(err))?;
    let layers = Layers::new().text::<RawServe>("the environment of Lite Gateway", &lite.text)?;
    let mut raw: RawServe = layers.env(PREFIX).extract()?;
    for listener in &mut raw.listeners {
        listener.set_tls_password(&lite.server_password);
    }
    for upstream in raw.upstreams.values_mut() {
        upstream.set_tls_password(&lite.client_password);
    }
    Ok((raw, lite.warnings))
}

/// Loads and checks a file with the environment; warnings go to standard error.
pub(crate) fn load_checked(file: &Path) -> anyhow::Result<ServeConfig> {
    let (raw, warnings) = load(&Source::File(file.to_owned()))?;
    let config = resolve(&raw, Some(file))?;
    for warning in warnings.iter().chain(&config.warnings) {
        tell(format_args!("warning: {warning}"));
    }
    Ok(config)
}

/// Configuration of the demo: one port, and an embedded store in `folder`.
pub(crate) fn demo(port: u16, folder: &Path) -> anyhow::Result<ServeConfig> {
    let store = format!("file:{}", folder.join("sessions.redb").display());
    let flags = vec![
        ("sessions.store".into(), store.into()),
        ("sessions.allow_generated_kek".into(), true.into()),
        ("sessions.identity.allow_generated".into(), true.into()),
        ("telemetry.log_level".into(), "warn,sealway_sessions::config=error".into()),
    ];
    let mut raw: RawServe = Layers::new().text::<RawServe>("demo", ONE_PORT)?.values(flags).extract()?;
    for listener in &mut raw.listeners {
        listener.set_port(port);
        listener.set_setting("--port");
    }
    // The page of the demo service, which seals its own calls.
    let page = serde_json::json!({"match": {"path_prefix": "/"}, "sealed": "off", "upstream": "shop"});
    raw.routes.push(serde_json::from_value(page).context("the route of the page")?);
    resolve(&raw, None)
}

/// Checks all sections; paths are relative to the file's folder.
pub(crate) fn resolve(raw: &RawServe, file: Option<&Path>) -> anyhow::Result<ServeConfig> {
    let mut problems = Problems::default();
    let sections = RawGateway {
        file,
        listeners: &raw.listeners,
        pkcs11: &raw.pkcs11,
        routes: &raw.routes,
        mle_keys: &raw.mle_keys,
        one_shot: &raw.one_shot,
        upstreams: &raw.upstreams,
        cors: &raw.cors,
        limits: &raw.limits,
        access_log: raw.access_log.as_ref(),
    };
    let gateway = sealway_gateway::config::resolve(sections, &mut problems);
    let sessions = sealway_sessions::config::resolve(&raw.sessions, &raw.replay, &raw.compat, file, &mut problems);
    let telemetry = raw.telemetry.resolve(file, &mut problems);
    let admin = raw.admin.as_ref().map(|admin| admin.resolve(file, &gateway, &mut problems));
    let prefix = file.map_or_else(String::new, |file| format!("{}:\n", file.display()));
    let mut warnings = sessions.warnings().to_vec();
    let metrics = raw.metrics.as_ref();
    let metrics = metrics.map(|metrics| metrics.resolve(file, &gateway, admin.as_ref(), &mut problems, &mut warnings));
    for (setting, path, why) in sessions.paths_needed() {
        // An authority alone may serve others; an identity is for the sealed routes of this process.
        let is_used = path != NATIVE_INIT || gateway.takes_sealed_requests();
        if is_used && !gateway.leads_to_sessions(path) {
            problems.add(
                setting,
                format!(
                    "no route leads {path} to the sessions: {why}; add it to the match of a route with sessions: {{}}"
                ),
            );
        }
    }
    problems.into_result().map_err(|err| anyhow!("{prefix}{}", with_sources(raw, &err.to_string())))?;
    Ok(ServeConfig { gateway, sessions, telemetry, admin, metrics, warnings })
}

/// Adds the source to each problem: the environment variable that set the value, which is not in the file.
fn with_sources(raw: &RawServe, problems: &str) -> String {
    let source = |line: &str| {
        let (path, _) = line.trim_start().split_once(": ")?;
        let store = raw.store_from.clone().filter(|_| path == "sessions.store");
        store.or_else(|| compat_environment::source_of(path, |name| std::env::var(name).ok()))
    };
    let named = problems.lines().map(|line| match source(line) {
        Some(name) => format!("{line} (from the environment variable {name}, not from the file)"),
        None => line.to_owned(),
    });
    named.collect::<Vec<_>>().join("\n")
}

/// Names the sections of `new` that differ from `old`, and that a running process cannot change.
pub(crate) fn needs_restart(old: &RawServe, new: &RawServe) -> Vec<String> {
    let sections = |raw: &RawServe| {
        let value = serde_json::to_value(raw).unwrap_or_default();
        ["sessions", "replay", "compat", "telemetry", "admin", "metrics"].map(|name| (name, value[name].clone()))
    };
    let pairs = sections(old).into_iter().zip(sections(new));
    pairs.filter(|(old, new)| old.1 != new.1).map(|(old, _)| old.0.to_owned()).collect()
}

/// Settings for printing. Secrets are in files of their own, except for passwords in the stores' URLs, which are
/// redacted.
pub(crate) fn redacted(raw: &RawServe) -> anyhow::Result<serde_json::Value> {
    let mut value = serde_json::to_value(raw).context("the configuration cannot be printed")?;
    drop_nulls(&mut value);
    if let Some(serde_json::Value::String(store)) = value.pointer_mut("/sessions/store") {
        *store = sealway_sessions::config::redact(store);
    }
    Ok(value)
}

/// Runs the command `sealway config`.
pub(crate) fn command(action: ConfigAction) -> anyhow::Result<()> {
    match action {
        ConfigAction::Check { file, files } => {
            let config = load_checked(&file)?;
            if files {
                let warnings = check::files(&config).map_err(|err| anyhow!("{}:\n{err}", file.display()))?;
                warnings.iter().for_each(|warning| tell(format_args!("warning: {warning}")));
            }
            writeln!(out(), "{}: OK", file.display())?;
        }
        ConfigAction::Print { file } => {
            let (raw, warnings) = load(&Source::File(file.clone()))?;
            let config = resolve(&raw, Some(&file))?;
            for warning in warnings.iter().chain(&config.warnings) {
                tell(format_args!("warning: {warning}"));
            }
            writeln!(out(), "{}", serde_json::to_string_pretty(&redacted(&raw)?)?)?;
        }
        ConfigAction::Schema => out().write_all(SCHEMA.as_bytes())?,
    }
    Ok(())
}

/// Removes members without a value.
fn drop_nulls(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_configuration_is_valid() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/config");
        let mut checked = 0;
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            // A sample that was run in place has a store beside it.
            if path.extension().is_none_or(|extension| extension != "yaml") {
                continue;
            }
            let layers = Layers::new().file::<RawServe>(&path).unwrap_or_else(|err| panic!("{err}"));
            let raw: RawServe = layers.extract().unwrap_or_else(|err| panic!("{err}"));
            resolve(&raw, Some(&path)).unwrap_or_else(|err| panic!("{err}"));
            checked += 1;
        }
        assert!(checked >= 3, "{checked}");
    }

    #[test]
    fn sealed_off_needs_no_quotes() {
        let sample = include_str!("../../../../deploy/config/single-machine.yaml");
        assert!(sample.contains(r#"sealed: "off""#));
        for sealed in ["off", "false", "'off'"] {
            let text = sample.replace(r#"sealed: "off""#, &format!("sealed: {sealed}"));
            let raw: RawServe = Layers::new().text::<RawServe>("t", &text).unwrap().extract().unwrap();
            resolve(&raw, None).unwrap();
        }
        assert!(
            problems(&sample.replace(r#"sealed: "off""#, "sealed: on")).contains("required, optional, hpke, ehbp, off")
        );
    }

    fn problems(text: &str) -> String {
        let layers = Layers::new().text::<RawServe>("test.yaml", text);
        match layers.and_then(|layers| layers.extract::<RawServe>()) {
            Err(err) => err.to_string(),
            Ok(raw) => resolve(&raw, None).unwrap_err().to_string(),
        }
    }

    #[test]
    fn all_problems_are_named_at_once_each_with_its_path() {
        let text = "
listeners: [{ address: '127.0.0.1:3000' }, { address: '127.0.0.1:3000' }, { address: nowhere }]
routes:
  - { match: { path_prefix: api }, upstream: shop }
  - { match: { listener: none }, sessions: {}, sealed: required }
  - { match: {} }
upstreams: { store: { servers: ['ftp://x'] } }
sessions: { store: 'mysql://x', ttl: { min_sec: 100, max_sec: 50 }, anonymous_paths: [relative] }
replay: { window_ms: 0, nonces_max: 10 }
cors: { origins: ['not an origin'] }
admin: { address: '0.0.0.0:1', token_file: x }
limits: { connections_max: 0 }
";
        let found = problems(text);
        for path in [
            "listeners[1].address",
            "listeners[2].address",
            "routes[0].match",
            "routes[0].upstream",
            "routes[1].match.listener",
            "routes[1].sealed",
            "routes[2]: ",
            "upstreams.store.servers[0]",
            "sessions.store",
            "sessions.ttl",
            "sessions.anonymous_paths[0]",
            "replay.window_ms",
            "replay.nonces_max",
            "cors.origins[0]",
            "admin.address",
            "limits.connections_max",
        ] {
            assert!(found.contains(path), "{path} is not named in:\n{found}");
        }
    }

    #[test]
    fn config_check_finds_what_would_make_serve_fail() {
        let with = |listener: &str, route: &str, upstream: &str, more: &str| {
            problems(&format!(
                "listeners: [{{ address: '127.0.0.1:1'{listener} }}]\nroutes: [{{ {route} }}]\n\
                 upstreams: {{ s: {{ servers: ['https://a:1'{upstream} }} }}\n{more}\n"
            ))
        };
        let listener = |text: &str| with(text, "match: {}, upstream: s", "]", "");
        let tls = |text: &str| listener(&format!(", tls: {{ cert: a, key: b, {text} }}"));
        let matcher = |text: &str| with("", &format!("match: {{ {text} }}, upstream: s"), "]", "");
        let route = |text: &str| with("", &format!("match: {{}}, upstream: s, {text}"), "]", "");
        let upstream = |text: &str| with("", "match: {}, upstream: s", text, "");
        let admin =
            |text: &str| with("", "match: {}, upstream: s", "]", &format!("admin: {{ token_file: t, {text} }}"));
        for (found, path) in [
            (listener(", name: ''"), "listeners[0].name"),
            (listener(" }, { address: '0.0.0.0:1'"), "listeners[1].address"),
            (listener(", trusted_proxies: []"), "listeners[0].trusted_proxies"),
            (listener(", tls: { cert: '' }"), "listeners[0].tls.cert"),
            (tls("client_ca: []"), "listeners[0].tls.client_ca"),
            (tls("client_ca: ['']"), "listeners[0].tls.client_ca"),
            (tls("client_ca: c, crl: []"), "listeners[0].tls.crl"),
            (tls("client_ca: c, allow: []"), "listeners[0].tls.allow"),
            (tls("ocsp: ''"), "listeners[0].tls.ocsp"),
            (matcher("path: []"), "routes[0].match.path"),
            (matcher("path: '/a?b'"), "routes[0].match.path"),
            (matcher("path_prefix: '/a b'"), "routes[0].match.path_prefix"),
            (matcher("path: '/ü'"), "routes[0].match.path"),
            (matcher("listener: []"), "routes[0].match.listener"),
            (matcher("host: []"), "routes[0].match.host"),
            (matcher("host: 'a.example:80'"), "routes[0].match.host"),
            (route("content_type: ''"), "routes[0].content_type"),
            (route("client_identity: { X-A: dns, x-a: uri }"), "routes[0].client_identity"),
            (route("request_headers: { set: { A: x, a: y } }"), "routes[0].request_headers.set.a"),
            (upstream(", 'http://b:99999']"), "upstreams.s.servers[1]"),
            (upstream(", 'https://a:1/']"), "upstreams.s.servers[1]"),
            (upstream("], tls: { ca: '' }"), "upstreams.s.tls.ca"),
            (upstream("], tls: { server_name: 'a b' }"), "upstreams.s.tls.server_name"),
            (admin("address: '127.0.0.1:1'"), "admin.address"),
            (admin("address: 'unix:a', certificates_folder: ''"), "admin.certificates_folder"),
            (admin("address: 'unix:a', services: [nobody]"), "admin.services[0]"),
            (upstream("], queue_max: -1"), "queue_max"),
        ] {
            assert!(found.lines().any(|line| line.contains(&format!("{path}: "))), "{path} is not named in:\n{found}");
        }
        let right = "
listeners: [{ address: '0.0.0.0:1', reuse_port: true }, { address: '127.0.0.1:1', reuse_port: true }]
routes: [{ match: { host: ['[::1]', '*.A_b-c.example'], path: '/%C3%BC{}' }, sessions: {} }]
";
        let raw: RawServe = Layers::new().text::<RawServe>("test.yaml", right).unwrap().extract().unwrap();
        resolve(&raw, None).unwrap();
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line_and_the_key_that_was_meant() {
        let found = problems("listeners:\n  - adress: x\n");
        assert!(found.contains("adress") && found.contains("line 2"), "{found}");
        assert!(found.contains("did you mean `address`?"), "{found}");
    }

    #[test]
    fn paths_without_a_route_to_the_sessions_are_found() {
        let config = |sessions: &str, first: &str| {
            format!(
                "listeners: [{{ address: '127.0.0.1:1' }}]\nroutes: [{{ match: {{ path_prefix: [{first}] }}, sessions: {{}} }}, \
                     {{ match: {{}}, sealed: required, upstream: s }}]\nupstreams: {{ s: {{ servers: ['http://a:1'] }} }}\nsessions: {{ {sessions} }}\n"
            )
        };
        let identity = "identity: { allow_generated: true }";
        let found = problems(&config(identity, "/session/"));
        assert!(found.contains("sessions.identity: no route leads /v3/sessions"), "{found}");
        let found = problems(&config("authority_secret_file: s", "/session/"));
        assert!(found.contains("sessions.authority_secret_file: no route leads /v1/authority/"), "{found}");
        for (sessions, first) in
            [(identity, "/v3/"), ("authority_secret_file: s", "/v1/"), ("store: 'memory:'", "/session/")]
        {
            let raw: RawServe =
                Layers::new().text::<RawServe>("t", &config(sessions, first)).unwrap().extract().unwrap();
            resolve(&raw, None).unwrap();
        }
    }
}
