//! Attachment of HTTPRoutes to listeners: parents, allowed namespaces and kinds, hostnames.

use crate::listeners::ListenerState;
use crate::objects::{GATEWAY_GROUP, HttpRoute, Object, ParentRef, Resources};
use crate::status::Refusal;

/// A route's attachment to one of its parents.
#[derive(Debug)]
pub(crate) struct Attachment {
    pub(crate) parent: ParentRef,
    /// Listeners by index, each with the hostnames that it and the route have in common; `None` is every host.
    pub(crate) listeners: Vec<(usize, Vec<Option<String>>)>,
    pub(crate) refusal: Option<Refusal>,
}

impl ParentRef {
    /// Returns `NAMESPACE/NAME` of the Gateway that is meant; `None` if it is of another kind.
    fn gateway(&self, own: &str) -> Option<String> {
        let is_gateway = self.kind.as_deref().is_none_or(|kind| kind == "Gateway")
            && self.group.as_deref().is_none_or(|group| group == GATEWAY_GROUP);
        is_gateway.then(|| format!("{}/{}", self.namespace.as_deref().unwrap_or(own), self.name))
    }
}

/// Returns the route's attachments to Gateways of this process; other parents are other controllers'.
pub(crate) fn attachments(
    route: &Object<HttpRoute>,
    listeners: &[ListenerState<'_>],
    resources: &Resources,
) -> Vec<Attachment> {
    let mut found = Vec::new();
    for parent in &route.spec.parent_refs {
        let Some(id) = parent.gateway(&route.metadata.namespace) else { continue };
        let of_gateway = listeners.iter().enumerate().filter(|(_, listener)| listener.gateway.id() == id);
        if of_gateway.clone().next().is_none() {
            continue;
        }
        let named: Vec<_> = of_gateway
            .filter(|(_, listener)| parent.section_name.as_ref().is_none_or(|name| *name == listener.spec.name))
            .filter(|(_, listener)| parent.port.is_none_or(|port| port == listener.spec.port))
            .collect();
        let allowed: Vec<_> = named.iter().filter(|(_, listener)| allows(listener, route, resources)).collect();
        let listeners: Vec<_> = allowed
            .iter()
            .map(|(index, listener)| (*index, intersection(listener.hostname.as_deref(), &route.spec.hostnames)))
            .filter(|(_, hosts)| !hosts.is_empty())
            .collect();
        let refusal = if named.is_empty() {
            Some(Refusal::new("NoMatchingParent", format!("Gateway {id} has no listener of that name or port")))
        } else if allowed.is_empty() {
            Some(Refusal::new(
                "NotAllowedByListeners",
                format!("no listener of Gateway {id} allows HTTPRoutes of this namespace"),
            ))
        } else if listeners.is_empty() {
            Some(Refusal::new(
                "NoMatchingListenerHostname",
                format!("no listener of Gateway {id} has one of the hostnames"),
            ))
        } else {
            None
        };
        found.push(Attachment { parent: parent.clone(), listeners, refusal });
    }
    found
}

fn allows(listener: &ListenerState<'_>, route: &Object<HttpRoute>, resources: &Resources) -> bool {
    let namespaces = &listener.spec.allowed_routes.namespaces;
    let namespace = &route.metadata.namespace;
    let is_allowed = match namespaces.from.as_deref().unwrap_or("Same") {
        "All" => true,
        "Same" => *namespace == listener.gateway.metadata.namespace,
        "Selector" => namespaces.selector.as_ref().is_some_and(|selector| resources.is_selected(namespace, selector)),
        _ => false,
    };
    is_allowed && listener.takes_routes
}

/// Returns the hosts that a listener and a route have in common, each once. `None` stands for every host.
fn intersection(listener: Option<&str>, route: &[String]) -> Vec<Option<String>> {
    let Some(listener) = listener else {
        let mut hosts: Vec<_> = route.iter().map(|host| Some(host.to_ascii_lowercase())).collect();
        hosts.sort();
        hosts.dedup();
        return if hosts.is_empty() { vec![None] } else { hosts };
    };
    if route.is_empty() {
        return vec![Some(listener.to_owned())];
    }
    let mut hosts: Vec<_> = route
        .iter()
        .map(|host| host.to_ascii_lowercase())
        .filter_map(|host| {
            if covers(listener, &host) {
                Some(Some(host))
            } else {
                covers(&host, listener).then(|| Some(listener.to_owned()))
            }
        })
        .collect();
    hosts.sort();
    hosts.dedup();
    hosts
}

/// True if every host of `narrow` is one of `wide`, both in lower case.
pub(crate) fn covers(wide: &str, narrow: &str) -> bool {
    match wide.strip_prefix('*') {
        // `*.example.com` covers `*.a.example.com`, and not `example.com`.
        Some(suffix) => wide == narrow || narrow.strip_suffix(suffix).is_some_and(|rest| !rest.is_empty()),
        None => wide == narrow,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_those_that_listener_and_route_have_in_common() {
        let common = |listener: Option<&str>, route: &[&str]| {
            let route: Vec<String> = route.iter().map(|host| (*host).to_owned()).collect();
            let hosts = intersection(listener, &route).into_iter();
            hosts.map(|host| host.unwrap_or_else(|| "any".into())).collect::<Vec<_>>().join(" ")
        };
        for (listener, route, hosts) in [
            (None, &[][..], "any"),
            (None, &["A.test", "a.test"], "a.test"),
            (Some("a.test"), &[], "a.test"),
            (Some("a.test"), &["b.test", "*.test"], "a.test"),
            (Some("*.test"), &["a.test", "b.a.test", "test", "*.a.test", "*.test"], "*.a.test *.test a.test b.a.test"),
            (Some("*.a.test"), &["*.test", "b.test"], "*.a.test"),
            (Some("a.test"), &["b.test"], ""),
            (Some("*.a.test"), &["xa.test", "a.test"], ""),
        ] {
            assert_eq!(common(listener, route), hosts, "{listener:?} and {route:?}");
        }
    }
}
