//! `config`: YAML text is resolved into checked settings, in the sections of `sealway serve`.

use std::collections::BTreeMap;

use sealway_gateway::config::{
    RawCors, RawGateway, RawLimits, RawListener, RawMleKey, RawOneShot, RawPkcs11, RawRoute, RawUpstream,
};
use sealway_runtime::config::{ConfigError, Layers, Problems, load_yaml};
use sealway_runtime::telemetry::RawTelemetry;
use sealway_sessions::config::{RawCompat, RawReplay, RawSessions};
use serde::{Deserialize, Serialize};

/// The configuration of `serve` without its admin listener, which is private to the binary.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct RawServe {
    listeners: Vec<RawListener>,
    pkcs11: Vec<RawPkcs11>,
    routes: Vec<RawRoute>,
    mle_keys: BTreeMap<String, RawMleKey>,
    one_shot: RawOneShot,
    upstreams: BTreeMap<String, RawUpstream>,
    sessions: RawSessions,
    replay: RawReplay,
    compat: RawCompat,
    cors: RawCors,
    limits: RawLimits,
    telemetry: RawTelemetry,
}

/// Returns the checked sections as text, or their problems.
fn resolve(raw: &RawServe) -> Result<String, ConfigError> {
    let mut problems = Problems::default();
    let sections = RawGateway {
        file: None,
        listeners: &raw.listeners,
        pkcs11: &raw.pkcs11,
        routes: &raw.routes,
        mle_keys: &raw.mle_keys,
        one_shot: &raw.one_shot,
        upstreams: &raw.upstreams,
        cors: &raw.cors,
        limits: &raw.limits,
        access_log: None,
    };
    let gateway = sealway_gateway::config::resolve(sections, &mut problems);
    let sessions = sealway_sessions::config::resolve(&raw.sessions, &raw.replay, &raw.compat, None, &mut problems);
    let telemetry = raw.telemetry.resolve(None, &mut problems);
    problems.into_result()?;
    Ok(format!("{gateway:?}\n{sessions:?}\n{telemetry:?}"))
}

/// The fuzz target for configuration files.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(raw) = load_yaml::<RawServe>(text) else { return };
    let Ok(checked) = resolve(&raw) else { return };
    assert_eq!(resolve(&raw).ok().as_ref(), Some(&checked), "resolving is not repeatable");

    // The output of `config print` is a configuration that resolves to the same settings.
    let printed = serde_json::to_string(&raw).expect("raw types can be printed");
    let again = load_yaml::<RawServe>(&printed).unwrap_or_else(|err| panic!("{err} in {printed}"));
    assert_eq!(resolve(&again).ok().as_ref(), Some(&checked), "as printed it says something else: {printed}");

    // The binary resolves through layers, and must reach the same settings.
    let Ok(layers) = Layers::new().text::<RawServe>("fuzz", text) else { return };
    let layered = layers.extract::<RawServe>().unwrap_or_else(|err| panic!("{err} for {printed}"));
    assert_eq!(resolve(&layered).ok().as_ref(), Some(&checked), "layers say something else than {printed}");
}
