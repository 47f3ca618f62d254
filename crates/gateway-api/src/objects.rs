//! The parts of Kubernetes objects that are read, and the fields of them that are not.

use std::collections::BTreeMap;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// API group of the Gateway API.
pub(crate) const GATEWAY_GROUP: &str = "gateway.networking.k8s.io";
/// API group that `SealPolicy` is of.
pub(crate) const SEALWAY_GROUP: &str = "sealway.dev";

/// Defect of a manifest: the object, the field and what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Defect(pub String);

/// Objects of a cluster, each kind in the order of precedence: the oldest first, then by namespace and name.
#[derive(Debug, Default)]
pub struct Resources {
    pub(crate) classes: Vec<Object<GatewayClass>>,
    pub(crate) gateways: Vec<Object<Gateway>>,
    pub(crate) routes: Vec<Object<HttpRoute>>,
    pub(crate) tls_policies: Vec<Object<BackendTlsPolicy>>,
    pub(crate) seal_policies: Vec<Object<SealPolicy>>,
    pub(crate) grants: Vec<Object<ReferenceGrant>>,
    pub(crate) services: Vec<Object<Service>>,
    pub(crate) namespaces: Vec<Object<IgnoredAny>>,
}

/// An object of one kind.
#[derive(Debug)]
pub(crate) struct Object<S> {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) metadata: Metadata,
    pub(crate) spec: S,
    /// Paths of fields in `spec` that this program does not know.
    pub(crate) unknown: Vec<String>,
}

impl<S> Object<S> {
    /// Returns namespace and name as `NAMESPACE/NAME`.
    pub(crate) fn id(&self) -> String {
        format!("{}/{}", self.metadata.namespace, self.metadata.name)
    }

    /// Returns a key by which the object of higher precedence is the smaller one.
    pub(crate) fn precedence(&self) -> (&str, &str, &str) {
        // A missing time is that of an object which is not stored yet: the newest.
        let created = self.metadata.creation_timestamp.as_deref().unwrap_or("~");
        (created, &self.metadata.namespace, &self.metadata.name)
    }

    /// Returns a message about the unknown fields below a path; `None` if there is none.
    pub(crate) fn unsupported_below(&self, path: &str) -> Option<String> {
        let below = |field: &&String| {
            field.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let fields: Vec<&str> = self.unknown.iter().filter(below).map(String::as_str).collect();
        (!fields.is_empty()).then(|| format!("{}: not supported", fields.join(", ")))
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metadata {
    pub(crate) name: String,
    #[serde(default = "default_namespace")]
    pub(crate) namespace: String,
    #[serde(default)]
    pub(crate) generation: i64,
    pub(crate) creation_timestamp: Option<String>,
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
}

fn default_namespace() -> String {
    "default".into()
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GatewayClass {
    pub(crate) controller_name: String,
    #[serde(rename = "description")]
    _description: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Gateway {
    pub(crate) gateway_class_name: String,
    pub(crate) listeners: Vec<Listener>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Listener {
    pub(crate) name: String,
    pub(crate) hostname: Option<String>,
    pub(crate) port: u16,
    pub(crate) protocol: String,
    pub(crate) tls: Option<ListenerTls>,
    #[serde(default)]
    pub(crate) allowed_routes: AllowedRoutes,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListenerTls {
    pub(crate) mode: Option<String>,
    #[serde(default)]
    pub(crate) certificate_refs: Vec<Reference>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct AllowedRoutes {
    #[serde(default)]
    pub(crate) namespaces: AllowedNamespaces,
    #[serde(default)]
    pub(crate) kinds: Vec<RouteKind>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct AllowedNamespaces {
    pub(crate) from: Option<String>,
    pub(crate) selector: Option<LabelSelector>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct RouteKind {
    pub(crate) group: Option<String>,
    pub(crate) kind: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LabelSelector {
    #[serde(default)]
    pub(crate) match_labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) match_expressions: Vec<LabelExpression>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct LabelExpression {
    pub(crate) key: String,
    pub(crate) operator: String,
    #[serde(default)]
    pub(crate) values: Vec<String>,
}

/// Reference to another object: of a certificate, an authority, a backend or a policy's target.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Reference {
    #[serde(default)]
    pub(crate) group: String,
    pub(crate) kind: Option<String>,
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) section_name: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) weight: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HttpRoute {
    #[serde(default)]
    pub(crate) parent_refs: Vec<ParentRef>,
    #[serde(default)]
    pub(crate) hostnames: Vec<String>,
    #[serde(default)]
    pub(crate) rules: Vec<Rule>,
}

/// Reference of a route to its parent, repeated in the route's status.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ParentRef {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) section_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) port: Option<u16>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rule {
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) matches: Vec<RouteMatch>,
    #[serde(default)]
    pub(crate) filters: Vec<Filter>,
    #[serde(default)]
    pub(crate) backend_refs: Vec<Reference>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct RouteMatch {
    #[serde(default)]
    pub(crate) path: PathMatch,
}

#[derive(Debug, Deserialize)]
#[serde(default)]
pub(crate) struct PathMatch {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) value: String,
}

impl Default for PathMatch {
    fn default() -> Self {
        PathMatch { kind: "PathPrefix".into(), value: "/".into() }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Filter {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) request_header_modifier: Option<HeaderModifier>,
    pub(crate) response_header_modifier: Option<HeaderModifier>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct HeaderModifier {
    #[serde(default)]
    pub(crate) set: Vec<Header>,
    #[serde(default)]
    pub(crate) remove: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) value: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BackendTlsPolicy {
    pub(crate) target_refs: Vec<Reference>,
    pub(crate) validation: BackendTlsValidation,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BackendTlsValidation {
    #[serde(default)]
    pub(crate) ca_certificate_refs: Vec<Reference>,
    #[serde(rename = "wellKnownCACertificates")]
    pub(crate) well_known: Option<String>,
    pub(crate) hostname: String,
}

/// Mode of sealing for what a `SealPolicy` targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase", try_from = "Value")]
pub(crate) enum Sealing {
    Required,
    Optional,
    Off,
}

impl TryFrom<Value> for Sealing {
    type Error = &'static str;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        match value.as_str() {
            Some("required") => Ok(Sealing::Required),
            Some("optional") => Ok(Sealing::Optional),
            Some("off") => Ok(Sealing::Off),
            // YAML of Kubernetes reads a bare `off` as a boolean.
            _ => Err("expected `required`, `optional` or `\"off\"`, the last one in quotes"),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SealPolicy {
    pub(crate) target_refs: Vec<Reference>,
    pub(crate) sealed: Sealing,
    pub(crate) content_type: Option<String>,
    pub(crate) sealed_body_max_bytes: Option<u64>,
    pub(crate) keep_answers_seconds: Option<u64>,
    pub(crate) unsealed_headers: Option<Vec<String>>,
    pub(crate) client_id_from: Option<String>,
    pub(crate) sessions: Option<SessionSettings>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct SessionSettings {
    pub(crate) wires: Option<Vec<u8>>,
    #[serde(default)]
    pub(crate) ttl: SessionTtl,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionTtl {
    pub(crate) min_seconds: Option<u64>,
    pub(crate) max_seconds: Option<u64>,
    pub(crate) default_seconds: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ReferenceGrant {
    pub(crate) from: Vec<GrantFrom>,
    pub(crate) to: Vec<GrantTo>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct GrantFrom {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct GrantTo {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Service {
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    #[serde(rename = "clusterIP")]
    pub(crate) cluster_ip: Option<String>,
    #[serde(default)]
    pub(crate) ports: Vec<ServicePort>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServicePort {
    pub(crate) name: Option<String>,
    pub(crate) port: u16,
    pub(crate) target_port: Option<Value>,
    pub(crate) app_protocol: Option<String>,
}

impl Resources {
    /// Adds an object; kinds that have no effect here are ignored.
    ///
    /// # Errors
    /// [`Defect`], naming the object and the field.
    pub fn add(&mut self, mut object: Value) -> Result<(), Defect> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        if kind.is_empty() || api_version.is_empty() {
            return Err(Defect("expected a Kubernetes object, with `apiVersion` and `kind`".into()));
        }
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        match (group, kind.as_str()) {
            (GATEWAY_GROUP, "GatewayClass") => insert(&mut self.classes, object, api_version, kind),
            (GATEWAY_GROUP, "Gateway") => insert(&mut self.gateways, object, api_version, kind),
            (GATEWAY_GROUP, "HTTPRoute") => insert(&mut self.routes, object, api_version, kind),
            (GATEWAY_GROUP, "BackendTLSPolicy") => insert(&mut self.tls_policies, object, api_version, kind),
            (GATEWAY_GROUP, "ReferenceGrant") => insert(&mut self.grants, object, api_version, kind),
            (SEALWAY_GROUP, "SealPolicy") => insert(&mut self.seal_policies, object, api_version, kind),
            (SEALWAY_GROUP, _) => Err(Defect(format!("{kind}: unknown kind of {SEALWAY_GROUP}; expected SealPolicy"))),
            ("", "Service") => insert(&mut self.services, object, api_version, kind),
            ("", "Namespace") => {
                object["spec"] = Value::Null;
                insert(&mut self.namespaces, object, api_version, kind)
            }
            _ => Ok(()),
        }
    }
}

fn insert<S: DeserializeOwned>(
    objects: &mut Vec<Object<S>>,
    mut object: Value,
    api_version: String,
    kind: String,
) -> Result<(), Defect> {
    let (metadata, _) =
        parse::<Metadata>(object["metadata"].take(), "metadata").map_err(|err| named(&kind, "", err))?;
    let (spec, unknown) = parse::<S>(object["spec"].take(), "spec").map_err(|err| named(&kind, &metadata.name, err))?;
    let object = Object { api_version, kind, metadata, spec, unknown };
    let at = objects.partition_point(|other| other.precedence() < object.precedence());
    if objects.iter().any(|other| other.id() == object.id()) {
        return Err(Defect(format!("{} {} stands twice", object.kind, object.id())));
    }
    objects.insert(at, object);
    Ok(())
}

fn named(kind: &str, name: &str, err: String) -> Defect {
    Defect(format!("{}: {err}", format!("{kind} {name}").trim_end()))
}

/// Parses a value at a path; returns also the paths of fields that `T` does not have.
fn parse<T: DeserializeOwned>(value: Value, at: &str) -> Result<(T, Vec<String>), String> {
    let mut unknown = Vec::new();
    let mut note = |path: serde_ignored::Path<'_>| unknown.push(field_path(at, &path.to_string()));
    let deserializer = serde_ignored::Deserializer::new(value, &mut note);
    let parsed = serde_path_to_error::deserialize(deserializer)
        .map_err(|err| format!("{}: {}", field_path(at, &err.path().to_string()), err.inner()))?;
    Ok((parsed, unknown))
}

/// Converts a path such as `rules.0.?.name` to `spec.rules[0].name`.
fn field_path(at: &str, path: &str) -> String {
    let parts = path.split('.').filter(|part| !part.is_empty() && *part != "?");
    parts.fold(at.to_owned(), |path, part| match part.bytes().all(|byte| byte.is_ascii_digit()) {
        true => format!("{path}[{part}]"),
        false if part.starts_with('[') => format!("{path}{part}"),
        false => format!("{path}.{part}"),
    })
}
