//! Backends of a rule: Services, how they are reached, and the upstream that they make.

use serde_json::{Value, json};

use crate::objects::{BackendTlsPolicy, Reference, Resources, ServicePort};
use crate::policies::{PolicyState, tls_policy_of};
use crate::status::Refusal;
use crate::translate::Settings;

/// Largest number of servers of an upstream.
const SERVERS_MAX: usize = 64;

/// A port of a Service, and how requests reach it.
#[derive(Debug)]
struct Backend {
    server: String,
    tls: Value,
    protocol: Option<&'static str>,
    policy: Option<usize>,
    /// True if the policy of TLS towards it is not accepted.
    is_broken: bool,
}

/// Resolved backends of a rule.
#[derive(Debug, Default)]
pub(crate) struct Backends {
    /// The configuration's upstream; `None` if requests cannot be forwarded.
    pub(crate) upstream: Option<Value>,
    /// The reason why a reference is not resolved.
    pub(crate) unresolved: Option<Refusal>,
    /// Indices of the policies of TLS that are used.
    pub(crate) tls_policies: Vec<usize>,
}

/// Objects that backends are resolved by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cluster<'a> {
    pub(crate) resources: &'a Resources,
    pub(crate) settings: &'a Settings,
    pub(crate) tls_policies: &'a [PolicyState<'a, BackendTlsPolicy>],
}

impl Cluster<'_> {
    /// Resolves the backends of a rule of a route in `namespace`.
    ///
    /// # Errors
    /// The backends cannot be expressed as one upstream.
    pub(crate) fn backends(&self, references: &[Reference], namespace: &str) -> Result<Backends, Refusal> {
        let mut resolved = Backends::default();
        let mut found: Vec<Backend> = Vec::new();
        let mut is_whole = true;
        for reference in references {
            let is_used = reference.weight != Some(0);
            match self.backend(reference, namespace) {
                Err(refusal) => {
                    resolved.unresolved = resolved.unresolved.or(Some(refusal));
                    is_whole &= !is_used;
                }
                Ok(backend) if is_used => {
                    if found.iter().any(|other| other.server == backend.server) {
                        return Err(Refusal::unsupported("backendRefs: a backend stands twice"));
                    }
                    resolved.tls_policies.extend(backend.policy);
                    found.push(backend);
                }
                Ok(_) => {}
            }
        }
        let mut weights = references.iter().map(|reference| reference.weight.unwrap_or(1)).filter(|weight| *weight > 0);
        let first_weight = weights.next();
        if weights.any(|weight| Some(weight) != first_weight) {
            return Err(Refusal::unsupported("backendRefs: weights other than 0 must be equal"));
        }
        if found.len() > SERVERS_MAX {
            return Err(Refusal::unsupported(format!("backendRefs: at most {SERVERS_MAX}")));
        }
        let Some(first) = found.first() else { return Ok(resolved) };
        if found.iter().any(|backend| (&backend.tls, backend.protocol) != (&first.tls, first.protocol)) {
            return Err(Refusal::unsupported(
                "backendRefs: backends of one rule must have the same protocol and TLS settings",
            ));
        }
        // Requests for a backend that is not resolved would go to the others.
        if is_whole && !first.is_broken {
            let mut upstream = json!({"servers": found.iter().map(|backend| &backend.server).collect::<Vec<_>>()});
            if !first.tls.is_null() {
                upstream["tls"] = first.tls.clone();
            }
            if let Some(protocol) = first.protocol {
                upstream["protocol"] = json!(protocol);
            }
            resolved.upstream = Some(upstream);
        }
        Ok(resolved)
    }

    fn backend(&self, reference: &Reference, own: &str) -> Result<Backend, Refusal> {
        let kind = reference.kind_or("Service");
        let (namespace, name) = (reference.namespace_or(own), reference.name.as_str());
        if !reference.group.is_empty() || kind != "Service" {
            return Err(Refusal::new("InvalidKind", format!("{kind} {name}: expected a Service")));
        }
        if !self.resources.is_granted(("HTTPRoute", own), "Service", namespace, name) {
            let message = format!("no ReferenceGrant in {namespace} lets HTTPRoutes of {own} use Service {name}");
            return Err(Refusal::new("RefNotPermitted", message));
        }
        let not_found = |message: String| Refusal::new("BackendNotFound", message);
        let id = format!("{namespace}/{name}");
        let service = self.resources.services.iter().find(|service| service.id() == id);
        let service = &service.ok_or_else(|| not_found(format!("there is no Service {id}")))?.spec;
        if service.kind.as_deref() == Some("ExternalName") {
            // Its name may lead anywhere, into the cluster too.
            return Err(not_found(format!("Service {id} is an ExternalName, which is not supported")));
        }
        let port = service.ports.iter().find(|port| Some(port.port) == reference.port);
        let port =
            port.ok_or_else(|| not_found(format!("Service {id} has no port {}", reference.port.unwrap_or(0))))?;
        let policy = tls_policy_of(self.tls_policies, namespace, name, port.name.as_deref());
        let protocol = port.protocol(policy.is_some())?;
        let policy_state = policy.map(|index| &self.tls_policies[index]);
        let scheme = if policy.is_some() { "https" } else { "http" };
        let domain = format!("{name}.{namespace}.svc.{}", self.settings.cluster_domain);
        let host = match service.cluster_ip.as_deref() {
            Some(address) if address.contains(':') => format!("[{address}]:{}", port.port),
            // DNS has the addresses of the pods.
            Some("None") => {
                let unknown = || not_found(format!("Service {id} is headless: its targetPort must be a number"));
                format!("{domain}:{}", port.of_pods().ok_or_else(unknown)?)
            }
            Some("") | None => format!("{domain}:{}", port.port),
            Some(address) => format!("{address}:{}", port.port),
        };
        Ok(Backend {
            server: format!("{scheme}://{host}"),
            tls: policy_state.map_or(Value::Null, |state| state.config.clone()),
            protocol,
            policy,
            is_broken: policy_state.is_some_and(|state| state.refusal.is_some()),
        })
    }
}

impl ServicePort {
    /// Returns the upstream's protocol; `None` is its default.
    fn protocol(&self, is_tls: bool) -> Result<Option<&'static str>, Refusal> {
        match self.app_protocol.as_deref() {
            None | Some("http" | "kubernetes.io/ws") => Ok(None),
            Some("kubernetes.io/h2c") if !is_tls => Ok(Some("http2")),
            Some("https" | "kubernetes.io/wss") if is_tls => Ok(None),
            Some(other) => Err(Refusal::new("UnsupportedProtocol", format!("appProtocol {other}: not supported here"))),
        }
    }

    /// Returns the port of the Service's pods; `None` if it is a name, which pods alone know.
    fn of_pods(&self) -> Option<u64> {
        self.target_port.as_ref().map_or(Some(u64::from(self.port)), Value::as_u64)
    }
}
