//! Policies and their targets: `SealPolicy` of Gateways and HTTPRoutes, BackendTLSPolicy of Services.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::CONTROLLER;
use crate::objects::{
    BackendTlsPolicy, GATEWAY_GROUP, Object, Reference, Resources, SealPolicy, Sealing, SessionSettings,
};
use crate::status::Refusal;
use crate::translate::{Check, Settings};

/// A policy after its checks.
#[derive(Debug)]
pub(crate) struct PolicyState<'a, S> {
    pub(crate) object: &'a Object<S>,
    /// The reason why the policy as a whole is not accepted. What it targets is not served then.
    pub(crate) refusal: Option<Refusal>,
    /// For each target: the reason why another policy, or none, applies to it.
    pub(crate) targets: Vec<Option<Refusal>>,
    /// Keys of the configuration's route or upstream.
    pub(crate) config: Value,
}

impl<S> PolicyState<'_, S> {
    /// True if the policy applies to a target.
    fn applies(&self, targets: &[Reference], kind: &str, namespace: &str, name: &str, section: Option<&str>) -> bool {
        self.object.metadata.namespace == namespace
            && targets.iter().zip(&self.targets).any(|(target, refusal)| {
                refusal.is_none()
                    && target.kind_or("") == kind
                    && target.name == name
                    && target.section_name.as_deref() == section
            })
    }
}

/// Part of a request's way that a `SealPolicy` may target, from the most to the least specific.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SealTarget<'a> {
    pub(crate) route: (&'a str, &'a str),
    pub(crate) rule: Option<&'a str>,
    pub(crate) gateway: (&'a str, &'a str),
    pub(crate) listener: &'a str,
}

/// Returns the policy that applies: of the rule, else of the route, else of the listener, else of the Gateway.
pub(crate) fn seal_policy_of<'p, 'a>(
    policies: &'p [PolicyState<'a, SealPolicy>],
    target: SealTarget<'_>,
) -> Option<&'p PolicyState<'a, SealPolicy>> {
    let of = |kind: &str, (namespace, name): (&str, &str), section: Option<&str>| {
        policies.iter().find(|policy| policy.applies(&policy.object.spec.target_refs, kind, namespace, name, section))
    };
    let of_rule = target.rule.and_then(|rule| of("HTTPRoute", target.route, Some(rule)));
    of_rule
        .or_else(|| of("HTTPRoute", target.route, None))
        .or_else(|| of("Gateway", target.gateway, Some(target.listener)))
        .or_else(|| of("Gateway", target.gateway, None))
}

/// Returns the policy of a Service's port, by index: of the port, else of the Service.
pub(crate) fn tls_policy_of(
    policies: &[PolicyState<'_, BackendTlsPolicy>],
    namespace: &str,
    service: &str,
    port: Option<&str>,
) -> Option<usize> {
    let of = |section: Option<&str>| {
        policies
            .iter()
            .position(|policy| policy.applies(&policy.object.spec.target_refs, "Service", namespace, service, section))
    };
    port.and_then(|port| of(Some(port))).or_else(|| of(None))
}

/// Checks all `SealPolicy` objects and their targets.
pub(crate) fn seal_policies<'a>(resources: &'a Resources, check: Check<'_>) -> Vec<PolicyState<'a, SealPolicy>> {
    let mut taken = BTreeSet::new();
    let policies = resources.seal_policies.iter().map(|object| {
        let config = route_settings(&object.spec);
        let targets = object.spec.target_refs.iter();
        let targets = targets
            .map(|target| seal_target(object, target, resources).or_else(|| conflict(object, target, &mut taken)));
        PolicyState { object, refusal: seal_refusal(object, &config, check), targets: targets.collect(), config }
    });
    policies.collect()
}

/// Returns the keys of a configuration's route that a policy sets.
fn route_settings(spec: &SealPolicy) -> Value {
    let mut route = json!({"sealed": spec.sealed});
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            route[key] = value;
        }
    };
    set("content_type", spec.content_type.as_ref().map(|text| json!(text)));
    set("sealed_body_max", spec.sealed_body_max_bytes.map(|max| json!(max)));
    set("keep_answers_sec", spec.keep_answers_seconds.map(|seconds| json!(seconds)));
    set("unsealed_headers", spec.unsealed_headers.as_ref().map(|names| json!(names)));
    set("client_id_from", spec.client_id_from.as_ref().map(|field| json!(field)));
    route
}

impl SessionSettings {
    /// Returns the keys of the configuration's section `sessions` that a policy sets.
    pub(crate) fn config(&self) -> Value {
        let mut sessions = json!({});
        if let Some(wires) = &self.wires {
            sessions["wires"] = json!(wires);
        }
        let ttl = &self.ttl;
        for (key, seconds) in
            [("min_sec", ttl.min_seconds), ("max_sec", ttl.max_seconds), ("default_sec", ttl.default_seconds)]
        {
            if let Some(seconds) = seconds {
                sessions["ttl"][key] = json!(seconds);
            }
        }
        sessions
    }
}

/// Returns the reason why a `SealPolicy` as a whole is not accepted.
fn seal_refusal(object: &Object<SealPolicy>, config: &Value, check: Check<'_>) -> Option<Refusal> {
    let invalid = |message: String| Some(Refusal::new("Invalid", message));
    if let Some(message) = object.unsupported_below("spec") {
        return invalid(message);
    }
    let mut route = config.clone();
    route["match"] = json!({});
    route["upstream"] = json!("service");
    let mut alone = json!({
        "listeners": [{"address": "127.0.0.1:0"}],
        "routes": [route],
        "upstreams": {"service": {"servers": ["http://127.0.0.1:1"]}},
    });
    if let Some(sessions) = &object.spec.sessions {
        let is_whole = |target: &Reference| target.kind_or("") == "Gateway" && target.section_name.is_none();
        if !object.spec.target_refs.iter().all(is_whole) {
            return invalid("spec.sessions: only for targets that are whole Gateways".into());
        }
        alone["sessions"] = sessions.config();
    }
    check(&alone).err().and_then(invalid)
}

/// Returns the reason why a `SealPolicy` does not apply to one of its targets.
fn seal_target(object: &Object<SealPolicy>, target: &Reference, resources: &Resources) -> Option<Refusal> {
    let not_found = |message: String| Some(Refusal::new("TargetNotFound", message));
    let id = format!("{}/{}", object.metadata.namespace, target.name);
    let sections: Vec<&str> = match (target.group.as_str(), target.kind_or("")) {
        (GATEWAY_GROUP, "Gateway") => match resources.gateways.iter().find(|gateway| gateway.id() == id) {
            Some(gateway) => gateway.spec.listeners.iter().map(|listener| listener.name.as_str()).collect(),
            None => return not_found(format!("there is no Gateway {id}")),
        },
        (GATEWAY_GROUP, "HTTPRoute") => match resources.routes.iter().find(|route| route.id() == id) {
            Some(route) => route.spec.rules.iter().filter_map(|rule| rule.name.as_deref()).collect(),
            None => return not_found(format!("there is no HTTPRoute {id}")),
        },
        _ => {
            return not_found(format!(
                "{}: expected a Gateway or an HTTPRoute of {GATEWAY_GROUP}",
                target.kind_or("?")
            ));
        }
    };
    let section = target.section_name.as_deref().filter(|name| !sections.contains(name))?;
    not_found(format!("{} {id} has no listener or rule named {section}", target.kind_or("?")))
}

/// Identifies a target of policies: kind, namespace, name, and section.
type TargetKey = (String, String, String, Option<String>);

fn key<S>(object: &Object<S>, target: &Reference) -> TargetKey {
    let namespace = object.metadata.namespace.clone();
    (target.kind_or("").to_owned(), namespace, target.name.clone(), target.section_name.clone())
}

/// Returns a conflict if an older policy has the same target.
fn conflict<S>(object: &Object<S>, target: &Reference, taken: &mut BTreeSet<TargetKey>) -> Option<Refusal> {
    (!taken.insert(key(object, target)))
        .then(|| Refusal::new("Conflicted", format!("an older policy targets {} {}", target.kind_or(""), target.name)))
}

/// Checks all BackendTLSPolicy objects, and the authorities that they name.
pub(crate) fn tls_policies<'a>(
    resources: &'a Resources,
    settings: &Settings,
    check: Check<'_>,
) -> Vec<PolicyState<'a, BackendTlsPolicy>> {
    let mut taken = BTreeSet::new();
    let policies = resources.tls_policies.iter().map(|object| {
        let targets = object.spec.target_refs.iter().map(|target| conflict(object, target, &mut taken)).collect();
        let unsupported = object.unsupported_below("spec").map(Refusal::unsupported);
        let authority = authority(object, settings, check);
        let config = authority.as_ref().ok().cloned().unwrap_or_default();
        PolicyState { object, refusal: unsupported.or(authority.err()), targets, config }
    });
    policies.collect()
}

/// Returns the section `tls` of an upstream that a policy applies to.
fn authority(object: &Object<BackendTlsPolicy>, settings: &Settings, check: Check<'_>) -> Result<Value, Refusal> {
    let validation = &object.spec.validation;
    let mut tls = json!({"server_name": validation.hostname});
    match (validation.ca_certificate_refs.as_slice(), validation.well_known.as_deref()) {
        ([], Some("System")) => {}
        ([], Some(other)) => {
            return Err(Refusal::unsupported(format!(
                "spec.validation.wellKnownCACertificates: {other}; expected System"
            )));
        }
        ([reference], None) if !reference.group.is_empty() || reference.kind_or("") != "ConfigMap" => {
            let message = format!("{} {}: expected a ConfigMap", reference.kind_or("?"), reference.name);
            return Err(Refusal::new("InvalidKind", message));
        }
        ([reference], None) => {
            let invalid = |message: String| Refusal::new("InvalidCACertificateRef", message);
            let file = settings.mounted(&object.metadata.namespace, &reference.name, "ca.crt").map_err(invalid)?;
            tls["ca"] = json!(file);
        }
        _ => {
            let message =
                "spec.validation: expected one of caCertificateRefs, with one ConfigMap, and wellKnownCACertificates";
            return Err(Refusal::unsupported(message));
        }
    }
    let alone = json!({
        "listeners": [{"address": "127.0.0.1:0"}],
        "routes": [{"match": {}, "upstream": "service"}],
        "upstreams": {"service": {"servers": ["https://127.0.0.1:1"], "tls": tls}},
    });
    check(&alone).map_err(|err| Refusal::new("InvalidCACertificateRef", err))?;
    Ok(tls)
}

impl PolicyState<'_, SealPolicy> {
    /// Returns the mode of sealing; `None` if the policy is not accepted.
    pub(crate) fn sealed(&self) -> Option<Sealing> {
        self.refusal.is_none().then_some(self.object.spec.sealed)
    }

    /// Returns the document of the policy's status, with each target as an ancestor.
    pub(crate) fn document(&self, now: &str) -> Value {
        let ancestors = self.object.spec.target_refs.iter().zip(&self.targets).map(|(target, refusal)| {
            let mut reference = json!({"group": target.group, "kind": target.kind_or(""), "name": target.name});
            if let Some(section) = &target.section_name {
                reference["sectionName"] = json!(section);
            }
            let refusal = self.refusal.as_ref().or(refusal.as_ref());
            let conditions = [self.object.stamp(now).condition("Accepted", "Accepted", refusal)];
            json!({"ancestorRef": reference, "controllerName": CONTROLLER, "conditions": conditions})
        });
        self.object.document(json!({"ancestors": ancestors.collect::<Vec<_>>()}))
    }
}

impl PolicyState<'_, BackendTlsPolicy> {
    /// Returns true if another policy, or this one, has a target of this one.
    pub(crate) fn shares_target(&self, other: &PolicyState<'_, BackendTlsPolicy>) -> bool {
        let keys = |policy: &PolicyState<'_, BackendTlsPolicy>| -> BTreeSet<TargetKey> {
            policy.object.spec.target_refs.iter().map(|target| key(policy.object, target)).collect()
        };
        !keys(self).is_disjoint(&keys(other))
    }

    /// Returns the document of the policy's status, with the Gateways that use it as ancestors.
    pub(crate) fn document(&self, gateways: &BTreeSet<(&str, &str)>, now: &str) -> Value {
        let stamp = self.object.stamp(now);
        let is_reference = |refusal: &&Refusal| ["InvalidKind", "InvalidCACertificateRef"].contains(&refusal.reason);
        let resolved = self.refusal.as_ref().filter(is_reference);
        let no_authority = resolved.map(|refusal| Refusal::new("NoValidCACertificate", refusal.message.clone()));
        let conflict = self.targets.iter().flatten().next();
        let accepted = no_authority.as_ref().or(self.refusal.as_ref()).or(conflict);
        let conditions = json!([
            stamp.condition("Accepted", "Accepted", accepted),
            stamp.condition("ResolvedRefs", "ResolvedRefs", resolved),
        ]);
        let ancestors = gateways.iter().map(|(namespace, name)| {
            let reference = json!({"group": GATEWAY_GROUP, "kind": "Gateway", "namespace": namespace, "name": name});
            json!({"ancestorRef": reference, "controllerName": CONTROLLER, "conditions": conditions})
        });
        self.object.document(json!({"ancestors": ancestors.collect::<Vec<_>>()}))
    }
}
