//! Gateways and their listeners: which of them this process serves, and at which addresses.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::CONTROLLER;
use crate::objects::{GATEWAY_GROUP, Gateway, Listener, ListenerTls, Object, Resources};
use crate::status::Refusal;
use crate::translate::{Check, Settings};

/// A Gateway of this controller.
#[derive(Debug)]
pub(crate) struct GatewayState<'a> {
    pub(crate) object: &'a Object<Gateway>,
    /// The reason why it is not accepted.
    pub(crate) refusal: Option<Refusal>,
}

/// A listener of a Gateway, after its checks.
#[derive(Debug)]
pub(crate) struct ListenerState<'a> {
    pub(crate) gateway: &'a Object<Gateway>,
    pub(crate) spec: &'a Listener,
    /// Hostname in lower case; `None` is every host.
    pub(crate) hostname: Option<String>,
    /// Name of the configuration's listener, which all listeners of a port share.
    pub(crate) name: String,
    /// The listener as the configuration has it.
    pub(crate) config: Value,
    pub(crate) accepted: Option<Refusal>,
    pub(crate) resolved: Option<Refusal>,
    /// True if HTTPRoutes may attach.
    pub(crate) takes_routes: bool,
    /// Number of routes that are attached to it.
    pub(crate) attached: usize,
}

impl ListenerState<'_> {
    /// True if the listener is a part of the configuration.
    pub(crate) fn is_usable(&self) -> bool {
        self.accepted.is_none() && self.resolved.is_none()
    }

    /// Returns the listener's entry in the status of its Gateway.
    pub(crate) fn status(&self, now: &str) -> Value {
        let stamp = self.gateway.stamp(now);
        let not_programmed = Refusal::new("Invalid", "the listener is not accepted, or a reference of it not resolved");
        let conflict = self.accepted.as_ref().filter(|refusal| refusal.reason.ends_with("Conflict"));
        let conflicted = match conflict {
            Some(refusal) => stamp.with_status("Conflicted", "True", refusal.reason, &refusal.message),
            None => stamp.with_status("Conflicted", "False", "NoConflicts", ""),
        };
        let kinds = self.takes_routes.then(|| json!({"group": GATEWAY_GROUP, "kind": "HTTPRoute"}));
        json!({
            "name": self.spec.name,
            "supportedKinds": kinds.into_iter().collect::<Vec<_>>(),
            "attachedRoutes": self.attached,
            "conditions": [
                stamp.condition("Accepted", "Accepted", self.accepted.as_ref()),
                stamp.condition("Programmed", "Programmed", (!self.is_usable()).then_some(&not_programmed)),
                stamp.condition("ResolvedRefs", "ResolvedRefs", self.resolved.as_ref()),
                conflicted,
            ],
        })
    }
}

impl Object<crate::objects::GatewayClass> {
    /// True if Gateways of the class are this controller's.
    pub(crate) fn is_ours(&self) -> bool {
        self.spec.controller_name == CONTROLLER
    }
}

/// Returns the Gateways that this process serves, and all their listeners.
pub(crate) fn resolve<'a>(
    resources: &'a Resources,
    settings: &Settings,
    check: Check<'_>,
) -> (Vec<GatewayState<'a>>, Vec<ListenerState<'a>>) {
    let is_class = |name: &str| {
        resources.classes.iter().any(|class| class.is_ours() && class.unknown.is_empty() && class.metadata.name == name)
    };
    let is_served = |gateway: &&Object<Gateway>| {
        let is_chosen = settings.gateways.is_empty() || settings.gateways.contains(&gateway.id());
        is_chosen && is_class(&gateway.spec.gateway_class_name)
    };
    let (mut gateways, mut listeners) = (Vec::new(), Vec::new());
    let mut ports = BTreeMap::new();
    for object in resources.gateways.iter().filter(is_served) {
        let refusal = refusal(object);
        for (index, spec) in object.spec.listeners.iter().enumerate() {
            let mut listener = listener(object, index, spec, resources, settings, check);
            if let Some(refusal) = &refusal {
                listener.accepted =
                    Some(Refusal::new("Invalid", format!("the Gateway is not accepted: {}", refusal.message)));
            }
            let bound = settings.port(spec.port);
            let owner = ports.entry(bound).or_insert((object.id(), spec.port, listener.config.clone()));
            if listener.is_usable() && (&owner.0, owner.1) != (&object.id(), spec.port) {
                let message = format!("port {bound} is that of Gateway {}, port {}", owner.0, owner.1);
                listener.accepted = Some(Refusal::new("PortUnavailable", message));
            } else if listener.is_usable() && owner.2["tls"] != listener.config["tls"] {
                let message = "tls.certificateRefs: listeners of one port must have the same certificate";
                listener.accepted = Some(Refusal::unsupported(message));
            }
            listeners.push(listener);
        }
        gateways.push(GatewayState { object, refusal });
    }
    (gateways, listeners)
}

/// Returns the reason why a Gateway as a whole is not accepted.
fn refusal(gateway: &Object<Gateway>) -> Option<Refusal> {
    let fields: Vec<&str> =
        gateway.unknown.iter().map(String::as_str).filter(|field| !field.starts_with("spec.listeners[")).collect();
    let is_address = fields.iter().any(|field| field.starts_with("spec.addresses"));
    let reason = if is_address { "UnsupportedAddress" } else { "Invalid" };
    (!fields.is_empty()).then(|| Refusal::new(reason, format!("{}: not supported", fields.join(", "))))
}

fn listener<'a>(
    gateway: &'a Object<Gateway>,
    index: usize,
    spec: &'a Listener,
    resources: &Resources,
    settings: &Settings,
    check: Check<'_>,
) -> ListenerState<'a> {
    let name = format!("{}:{}", gateway.id(), spec.port);
    let mut config = json!({"name": name, "address": format!("{}:{}", settings.bind, settings.port(spec.port))});
    let kinds = &spec.allowed_routes.kinds;
    let is_route = |kind: &&crate::objects::RouteKind| {
        kind.kind == "HTTPRoute" && kind.group.as_deref().is_none_or(|group| group == GATEWAY_GROUP)
    };
    let mut resolved = (kinds.iter().filter(is_route).count() < kinds.len()).then(|| {
        Refusal::new("InvalidRouteKinds", "allowedRoutes.kinds: HTTPRoute is the only kind that is supported")
    });
    let hostname = spec.hostname.as_deref().filter(|name| !name.is_empty()).map(str::to_ascii_lowercase);
    let alone = |config: &Value| {
        let mut keys = json!({});
        if let Some(hostname) = &hostname {
            keys["host"] = json!(hostname);
        }
        check(&json!({"listeners": [config], "routes": [{"match": keys, "standalone": "not_found"}]}))
    };
    let accepted = accepted(gateway, index, spec).or_else(|| alone(&config).err().map(Refusal::unsupported));
    if let (None, Some(tls)) = (&accepted, spec.tls.as_ref().filter(|_| spec.protocol == "HTTPS")) {
        match certificate(gateway, tls, resources, settings) {
            Ok((cert, key)) => {
                config["tls"] = json!({"cert": cert, "key": key});
                if let Err(err) = alone(&config) {
                    resolved = resolved.or(Some(Refusal::new("InvalidCertificateRef", err)));
                }
            }
            Err(refusal) => resolved = resolved.or(Some(refusal)),
        }
    }
    ListenerState {
        gateway,
        spec,
        hostname,
        name,
        config,
        accepted,
        resolved,
        takes_routes: kinds.is_empty() || kinds.iter().any(|kind| is_route(&kind)),
        attached: 0,
    }
}

/// Returns the reason why a listener is not accepted, as far as its own Gateway tells.
fn accepted(gateway: &Object<Gateway>, index: usize, spec: &Listener) -> Option<Refusal> {
    if !["HTTP", "HTTPS"].contains(&spec.protocol.as_str()) {
        return Some(Refusal::new("UnsupportedProtocol", format!("{}: expected HTTP or HTTPS", spec.protocol)));
    }
    let others = gateway
        .spec
        .listeners
        .iter()
        .enumerate()
        .filter(|(other, listener)| *other != index && listener.port == spec.port);
    for (_, other) in others {
        if other.protocol != spec.protocol {
            return Some(Refusal::new(
                "ProtocolConflict",
                format!("listener {} has the port for {}", other.name, other.protocol),
            ));
        }
        let name = |listener: &Listener| listener.hostname.as_deref().unwrap_or_default().to_ascii_lowercase();
        if name(other) == name(spec) {
            return Some(Refusal::new(
                "HostnameConflict",
                format!("listener {} has the same port and hostname", other.name),
            ));
        }
    }
    if let Some(message) = gateway.unsupported_below(&format!("spec.listeners[{index}]")) {
        return Some(Refusal::unsupported(message));
    }
    match (&spec.tls, spec.protocol.as_str()) {
        (Some(_), "HTTP") => Some(Refusal::unsupported("tls: a listener for HTTP has none")),
        (Some(tls), _) if tls.mode.as_deref().is_some_and(|mode| mode != "Terminate") => {
            Some(Refusal::unsupported("tls.mode: expected Terminate"))
        }
        (Some(tls), _) if tls.certificate_refs.len() > 1 => {
            Some(Refusal::unsupported("tls.certificateRefs: expected one certificate"))
        }
        _ => None,
    }
}

/// Returns the files of a listener's certificate and key.
fn certificate(
    gateway: &Object<Gateway>,
    tls: &ListenerTls,
    resources: &Resources,
    settings: &Settings,
) -> Result<(PathBuf, PathBuf), Refusal> {
    let invalid = |message: String| Refusal::new("InvalidCertificateRef", message);
    let [reference] = tls.certificate_refs.as_slice() else {
        return Err(invalid("tls.certificateRefs: expected one certificate".into()));
    };
    if !reference.group.is_empty() || reference.kind_or("Secret") != "Secret" {
        return Err(invalid(format!("{} {}: expected a Secret", reference.kind_or("Secret"), reference.name)));
    }
    let own = gateway.metadata.namespace.as_str();
    let namespace = reference.namespace_or(own);
    if !resources.is_granted(("Gateway", own), "Secret", namespace, &reference.name) {
        let message = format!("no ReferenceGrant in {namespace} lets Gateways of {own} use Secret {}", reference.name);
        return Err(Refusal::new("RefNotPermitted", message));
    }
    let file = |file| settings.mounted(namespace, &reference.name, file).map_err(invalid);
    Ok((file("tls.crt")?, file("tls.key")?))
}
