//! Rules of an HTTPRoute: matches, filters and backends as keys of a configuration's route.

use serde_json::{Map, Value, json};

use crate::backends::{Backends, Cluster};
use crate::objects::{Filter, HeaderModifier, HttpRoute, Object, PathMatch};
use crate::status::Refusal;
use crate::translate::Check;

/// A rule after its checks.
#[derive(Debug)]
pub(crate) struct RuleState {
    /// Keys of the configuration's route, without `match` and `upstream`.
    pub(crate) settings: Value,
    pub(crate) backends: Backends,
    /// The reason why the rule cannot be expressed.
    pub(crate) refusal: Option<Refusal>,
}

/// Condition on a path, in the order of precedence: exact ones first, then the longest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathCondition {
    pub(crate) is_exact: bool,
    pub(crate) value: String,
}

impl PathMatch {
    /// Returns the condition; a kind that cannot be expressed is a prefix of every path that it may match.
    pub(crate) fn condition(&self) -> PathCondition {
        match self.kind.as_str() {
            "Exact" => PathCondition { is_exact: true, value: self.value.clone() },
            "PathPrefix" => PathCondition { is_exact: false, value: self.value.trim_end_matches('/').to_owned() },
            _ => PathCondition { is_exact: false, value: String::new() },
        }
    }
}

impl PathCondition {
    /// Adds the condition to the keys of a configuration's `match`. A prefix names whole segments.
    pub(crate) fn add_to(&self, keys: &mut Value) {
        if self.is_exact {
            keys["path"] = json!([self.value]);
        } else {
            if !self.value.is_empty() {
                keys["path"] = json!([self.value]);
            }
            keys["path_prefix"] = json!([format!("{}/", self.value)]);
        }
    }
}

/// Checks the rule of a route at an index.
pub(crate) fn rule(route: &Object<HttpRoute>, index: usize, cluster: Cluster<'_>, check: Check<'_>) -> RuleState {
    let at = format!("spec.rules[{index}]");
    let spec = &route.spec.rules[index];
    let mut settings = json!({"preserve_host": true});
    let mut refusals = Vec::new();
    for filter in &spec.filters {
        refusals.extend(add_filter(filter, &mut settings).err());
    }
    let kinds = spec.matches.iter().map(|it| it.path.kind.as_str());
    for kind in kinds.filter(|kind| !["Exact", "PathPrefix"].contains(kind)) {
        refusals.push(Refusal::unsupported(format!("matches.path.type {kind}: expected Exact or PathPrefix")));
    }
    let backends = cluster.backends(&spec.backend_refs, &route.metadata.namespace).unwrap_or_else(|refusal| {
        refusals.push(refusal);
        Backends::default()
    });
    let mut keys = json!({"path": [], "path_prefix": []});
    for it in &spec.matches {
        let mut one = json!({});
        it.path.condition().add_to(&mut one);
        for (key, values) in one.as_object().into_iter().flatten() {
            if let (Some(all), Some(values)) = (keys[key.as_str()].as_array_mut(), values.as_array()) {
                all.extend(values.iter().cloned());
            }
        }
    }
    if let Some(keys) = keys.as_object_mut() {
        keys.retain(|_, values| values.as_array().is_some_and(|values| !values.is_empty()));
        if !route.spec.hostnames.is_empty() {
            keys.insert("host".into(), json!(route.spec.hostnames));
        }
    }
    if refusals.is_empty() {
        let mut alone = settings.clone();
        alone["match"] = keys;
        alone["upstream"] = json!("service");
        let upstream = backends.upstream.clone().unwrap_or_else(|| json!({"servers": ["http://127.0.0.1:1"]}));
        let config =
            json!({"listeners": [{"address": "127.0.0.1:0"}], "routes": [alone], "upstreams": {"service": upstream}});
        refusals.extend(check(&config).err().map(Refusal::unsupported));
    }
    let refusal = refusals.into_iter().next();
    let refusal = refusal.map(|refusal| Refusal { message: format!("{at}: {}", refusal.message), ..refusal });
    RuleState { settings, backends, refusal }
}

/// Adds a filter's keys to those of a configuration's route.
fn add_filter(filter: &Filter, settings: &mut Value) -> Result<(), Refusal> {
    let (key, modifier) =
        match (filter.kind.as_str(), &filter.request_header_modifier, &filter.response_header_modifier) {
            ("RequestHeaderModifier", Some(modifier), None) => ("request_headers", modifier),
            ("ResponseHeaderModifier", None, Some(modifier)) => ("response_headers", modifier),
            (kind, ..) => {
                let expected = "expected RequestHeaderModifier or ResponseHeaderModifier";
                return Err(Refusal::unsupported(format!("filters.type {kind}: {expected}")));
            }
        };
    if !settings[key].is_null() {
        return Err(Refusal::new("IncompatibleFilters", format!("filters: {} stands twice", filter.kind)));
    }
    settings[key] = header_rules(modifier)?;
    Ok(())
}

fn header_rules(modifier: &HeaderModifier) -> Result<Value, Refusal> {
    let mut set = Map::new();
    for header in &modifier.set {
        // The configuration would replace it by a variable of the gateway's environment, which may be a secret.
        if header.value.contains("${") {
            return Err(Refusal::unsupported(format!("filters: the value of {} has \"${{\"", header.name)));
        }
        if set.insert(header.name.clone(), json!(header.value)).is_some() {
            return Err(Refusal::unsupported(format!("filters: {} is set twice", header.name)));
        }
    }
    let mut rules = json!({});
    if !set.is_empty() {
        rules["set"] = Value::Object(set);
    }
    if !modifier.remove.is_empty() {
        rules["remove"] = json!(modifier.remove);
    }
    Ok(rules)
}
