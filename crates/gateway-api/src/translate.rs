//! The translation of all resources: the configuration, and a status for each resource.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::CONTROLLER;
use crate::attach::{Attachment, attachments, covers};
use crate::backends::Cluster;
use crate::listeners::{self, GatewayState, ListenerState};
use crate::objects::{Defect, HttpRoute, Object, Resources, SealPolicy, Sealing};
use crate::policies::{self, PolicyState, SealTarget, seal_policy_of};
use crate::rules::{PathCondition, RuleState, rule};
use crate::status::Refusal;

/// Check of a configuration with the files that it names; the error names the setting.
pub type Check<'a> = &'a dyn Fn(&Value) -> Result<(), String>;

/// Longest name of a route, in bytes.
const ROUTE_NAME_LEN_MAX: usize = 64;

/// Settings of a translation, beside the resources.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Gateways to serve, as `NAMESPACE/NAME`; all of this controller if empty.
    pub gateways: Vec<String>,
    /// Address that listeners bind, such as `0.0.0.0` or `[::]`.
    pub bind: String,
    /// Ports of listeners, and the ports to bind in their place.
    pub ports: Vec<(u16, u16)>,
    /// Addresses of Gateways in their status: IP addresses or hostnames.
    pub addresses: Vec<String>,
    /// Folder of Secrets and ConfigMaps, each in `NAMESPACE/NAME`.
    pub mounts: Option<PathBuf>,
    /// Domain that names of Services end in.
    pub cluster_domain: String,
    /// Time for conditions, in the form of RFC 3339.
    pub now: String,
}

impl Settings {
    /// Returns the port to bind for a listener's port.
    pub(crate) fn port(&self, port: u16) -> u16 {
        self.ports.iter().find(|(from, _)| *from == port).map_or(port, |(_, to)| *to)
    }

    /// Returns the path of a file of a Secret or a ConfigMap.
    pub(crate) fn mounted(&self, namespace: &str, name: &str, file: &str) -> Result<PathBuf, String> {
        let Some(folder) = &self.mounts else {
            return Err(format!("{namespace}/{name}: Secrets and ConfigMaps are not mounted (--mounts)"));
        };
        let is_name =
            |name: &str| Path::new(name).components().count() == 1 && !name.starts_with('.') && !name.contains('/');
        if !is_name(namespace) || !is_name(name) {
            return Err(format!("{namespace}/{name}: no name of an object"));
        }
        Ok(folder.join(namespace).join(name).join(file))
    }
}

/// Result of a translation of all resources.
#[derive(Debug)]
pub struct Translation {
    /// Configuration of the gateway, which `sealway config check` accepts.
    pub config: Value,
    /// Objects with name and status, one for each resource that this controller manages.
    pub statuses: Vec<Value>,
}

/// A route of the configuration, with what orders it.
#[derive(Debug)]
struct Entry<'a> {
    listener: usize,
    host: Option<String>,
    path: PathCondition,
    route: Option<&'a Object<HttpRoute>>,
    position: (usize, usize),
    /// Keys of the configuration's route, without `match`.
    action: Value,
    is_refusal: bool,
}

/// Translates resources into a configuration.
///
/// `base` is a configuration that the result extends: its routes name their listeners, and come first.
///
/// # Errors
/// [`Defect`] if no GatewayClass or not every chosen Gateway is this controller's, or `base` cannot be extended.
pub fn translate(
    resources: &Resources,
    base: &Value,
    settings: &Settings,
    check: Check<'_>,
) -> Result<Translation, Defect> {
    let (gateways, mut listeners) = listeners::resolve(resources, settings, check);
    if !resources.classes.iter().any(|class| class.is_ours()) {
        return Err(Defect(format!("no GatewayClass has spec.controllerName: {CONTROLLER}")));
    }
    let is_missing = |id: &&String| gateways.iter().all(|gateway| gateway.object.id() != **id);
    if let Some(id) = settings.gateways.iter().find(is_missing) {
        return Err(Defect(format!("no Gateway {id} of a GatewayClass with spec.controllerName: {CONTROLLER}")));
    }
    let tls_policies = policies::tls_policies(resources, settings, check);
    let mut seal_policies = policies::seal_policies(resources, check);
    let sessions = sessions(&mut seal_policies, &gateways);
    let cluster = Cluster { resources, settings, tls_policies: &tls_policies };
    let mut work = Work { seal_policies: &seal_policies, entries: Vec::new(), upstreams: BTreeMap::new() };
    let mut statuses = Vec::new();
    let mut tls_users: BTreeMap<usize, BTreeSet<(&str, &str)>> = BTreeMap::new();
    for route in &resources.routes {
        let mut attachments = attachments(route, &listeners, resources);
        if attachments.is_empty() {
            continue;
        }
        let rules: Vec<RuleState> =
            (0..route.spec.rules.len()).map(|index| rule(route, index, cluster, check)).collect();
        let unknown = route.unsupported_below("spec").map(Refusal::unsupported);
        let refusal = unknown.or_else(|| rules.iter().find_map(|rule| rule.refusal.clone()));
        for attachment in &mut attachments {
            for (index, hosts) in &attachment.listeners {
                listeners[*index].attached += 1;
                let gateway = &listeners[*index].gateway.metadata;
                for policy in rules.iter().flat_map(|rule| &rule.backends.tls_policies) {
                    tls_users.entry(*policy).or_default().insert((&gateway.namespace, &gateway.name));
                }
                if listeners[*index].is_usable() {
                    work.add(route, &rules, refusal.is_some(), (*index, &listeners[*index]), hosts);
                }
            }
            attachment.refusal = attachment.refusal.take().or_else(|| refusal.clone());
        }
        let unresolved = rules.iter().find_map(|rule| rule.backends.unresolved.as_ref());
        statuses.push(route_status(route, &attachments, unresolved, &settings.now));
    }
    let wires = sessions.as_ref().or(base.get("sessions")).map_or(Value::Null, |section| section["wires"].clone());
    let config = work.config(base, &listeners, sessions, &wires)?;
    statuses.extend(gateways.iter().map(|gateway| gateway.document(&listeners, settings)));
    statuses.extend(resources.classes.iter().filter(|class| class.is_ours()).map(|class| {
        let refusal = class.unsupported_below("spec").map(|message| Refusal::new("InvalidParameters", message));
        let stamp = class.stamp(&settings.now);
        class.document(json!({"conditions": [stamp.condition("Accepted", "Accepted", refusal.as_ref())]}))
    }));
    statuses.extend(seal_policies.iter().map(|policy| policy.document(&settings.now)));
    // A policy that conflicts with an older one concerns the Gateways that use the older one.
    statuses.extend(tls_policies.iter().filter_map(|policy| {
        let same = tls_users.iter().filter(|(index, _)| policy.shares_target(&tls_policies[**index]));
        let users: BTreeSet<_> = same.flat_map(|(_, users)| users.iter().copied()).collect();
        (!users.is_empty()).then(|| policy.document(&users, &settings.now))
    }));
    Ok(Translation { config, statuses })
}

/// Returns the section `sessions` that policies of whole Gateways set. A policy that differs from an older one is refused.
fn sessions(policies: &mut [PolicyState<'_, SealPolicy>], gateways: &[GatewayState<'_>]) -> Option<Value> {
    let mut chosen: Option<Value> = None;
    for policy in policies {
        let Some(settings) = &policy.object.spec.sessions else { continue };
        let namespace = &policy.object.metadata.namespace;
        let targets = policy.object.spec.target_refs.iter().zip(&policy.targets);
        let mut served = targets.filter(|(target, refusal)| {
            let id = format!("{namespace}/{}", target.name);
            refusal.is_none() && gateways.iter().any(|gateway| gateway.object.id() == id)
        });
        if policy.refusal.is_some() || served.next().is_none() {
            continue;
        }
        let config = settings.config();
        if *chosen.get_or_insert_with(|| config.clone()) != config {
            let message = "spec.sessions: an older policy of a Gateway of this process has other settings";
            policy.refusal = Some(Refusal::new("Conflicted", message));
        }
    }
    chosen
}

impl GatewayState<'_> {
    fn document(&self, listeners: &[ListenerState<'_>], settings: &Settings) -> Value {
        let stamp = self.object.stamp(&settings.now);
        let own = listeners.iter().filter(|listener| listener.gateway.id() == self.object.id());
        let (all, usable) = (own.clone().count(), own.clone().filter(|listener| listener.is_usable()).count());
        let mut accepted = stamp.condition("Accepted", "Accepted", self.refusal.as_ref());
        if self.refusal.is_none() && usable < all {
            let status = if usable == 0 { "False" } else { "True" };
            let message = format!("{} of {all} listeners are not served; see their conditions", all - usable);
            accepted = stamp.with_status("Accepted", status, "ListenersNotValid", &message);
        }
        let nothing = Refusal::new("Invalid", "no listener is served");
        let addresses = settings.addresses.iter().map(|address| {
            let is_ip = address.parse::<std::net::IpAddr>().is_ok();
            json!({"type": if is_ip { "IPAddress" } else { "Hostname" }, "value": address})
        });
        self.object.document(json!({
            "addresses": addresses.collect::<Vec<_>>(),
            "conditions": [accepted, stamp.condition("Programmed", "Programmed", (usable == 0).then_some(&nothing))],
            "listeners": own.map(|listener| listener.status(&settings.now)).collect::<Vec<_>>(),
        }))
    }
}

fn route_status(
    route: &Object<HttpRoute>,
    attachments: &[Attachment],
    unresolved: Option<&Refusal>,
    now: &str,
) -> Value {
    let stamp = route.stamp(now);
    let parents = attachments.iter().map(|attachment| {
        json!({
            "parentRef": attachment.parent,
            "controllerName": CONTROLLER,
            "conditions": [
                stamp.condition("Accepted", "Accepted", attachment.refusal.as_ref()),
                stamp.condition("ResolvedRefs", "ResolvedRefs", unresolved),
            ],
        })
    });
    route.document(json!({"parents": parents.collect::<Vec<_>>()}))
}

/// The configuration while it is made.
struct Work<'a, 'p> {
    seal_policies: &'p [PolicyState<'a, SealPolicy>],
    entries: Vec<Entry<'a>>,
    upstreams: BTreeMap<String, Value>,
}

impl<'a> Work<'a, '_> {
    /// Adds the rules of a route at one of its listeners. Of a route that is not accepted, only what must be sealed is added: requests
    /// for it are rejected, and do not reach another route in plain.
    fn add(
        &mut self,
        route: &'a Object<HttpRoute>,
        rules: &[RuleState],
        is_refused: bool,
        (index, listener): (usize, &ListenerState<'_>),
        hosts: &[Option<String>],
    ) {
        for (rule_index, (spec, rule)) in route.spec.rules.iter().zip(rules).enumerate() {
            let gateway = &listener.gateway.metadata;
            let target = SealTarget {
                route: (&route.metadata.namespace, &route.metadata.name),
                rule: spec.name.as_deref(),
                gateway: (&gateway.namespace, &gateway.name),
                listener: &listener.spec.name,
            };
            let policy = seal_policy_of(self.seal_policies, target);
            // A policy that is not accepted may have meant `required`.
            let sealed = policy.map_or(Some(Sealing::Off), PolicyState::sealed);
            if is_refused && !matches!(sealed, None | Some(Sealing::Required)) {
                continue;
            }
            let upstream = rule.backends.upstream.as_ref().filter(|_| !is_refused && sealed.is_some());
            let action = match upstream {
                None => json!({"standalone": "unavailable"}),
                Some(upstream) => {
                    let name = format!("{}[{rule_index}]", route.id());
                    self.upstreams.insert(name.clone(), upstream.clone());
                    let mut action = rule.settings.clone();
                    extend(&mut action, policy.map(|policy| &policy.config));
                    action["upstream"] = json!(name);
                    action
                }
            };
            let default = crate::objects::RouteMatch::default();
            let matches = if spec.matches.is_empty() { std::slice::from_ref(&default) } else { &spec.matches };
            for host in hosts {
                self.entries.extend(matches.iter().enumerate().map(|(match_index, it)| Entry {
                    listener: index,
                    host: host.clone(),
                    path: it.path.condition(),
                    route: Some(route),
                    position: (rule_index, match_index),
                    is_refusal: upstream.is_none(),
                    action: action.clone(),
                }));
            }
        }
    }

    /// Returns the configuration: `base`, and after its routes those of the listeners.
    fn config(
        mut self,
        base: &Value,
        listeners: &[ListenerState<'_>],
        sessions: Option<Value>,
        wires: &Value,
    ) -> Result<Value, Defect> {
        for (name, is_right) in [
            ("listeners", Value::is_array as fn(&Value) -> bool),
            ("routes", Value::is_array),
            ("upstreams", Value::is_object),
            ("sessions", Value::is_object),
        ] {
            if !base[name].is_null() && !is_right(&base[name]) {
                return Err(Defect(format!("{name}: expected a list of sections, or settings by name")));
            }
        }
        let mut config = if base.is_null() { json!({}) } else { base.clone() };
        let section = |name: &str| base[name].as_array().cloned().unwrap_or_default();
        let (mut all_listeners, mut routes) = (section("listeners"), section("routes"));
        for (index, route) in routes.iter().enumerate() {
            if route["match"]["listener"].is_null() {
                return Err(Defect(format!(
                    "routes[{index}].match.listener: name the listeners of this configuration's own route"
                )));
            }
        }
        for listener in listeners.iter().filter(|listener| listener.is_usable()) {
            if !all_listeners.contains(&listener.config) {
                all_listeners.push(listener.config.clone());
            }
        }
        self.close(listeners);
        self.entries.sort_by(|one, other| one.key(listeners).cmp(&other.key(listeners)));
        let mut with_sessions = BTreeSet::new();
        let sealed: Vec<_> =
            self.entries.iter().filter(|entry| entry.is_sealed()).map(|entry| entry.place(listeners)).collect();
        for entry in &self.entries {
            let place = entry.place(listeners);
            if sealed.contains(&place) && with_sessions.insert(place.clone()) {
                routes.push(session_route(&place, wires));
            }
            routes.push(entry.config(listeners));
        }
        if all_listeners.is_empty() {
            // A configuration needs a listener and a route: this one serves nothing.
            all_listeners.push(json!({"name": "none", "address": "127.0.0.1:0"}));
            routes.push(json!({"match": {"listener": "none"}, "standalone": "not_found"}));
        }
        config["listeners"] = json!(all_listeners);
        config["routes"] = json!(routes);
        if let Some(sessions) = sessions {
            extend(&mut config["sessions"], Some(&sessions));
        }
        if !self.upstreams.is_empty() {
            extend(&mut config["upstreams"], Some(&json!(self.upstreams)));
        }
        Ok(config)
    }

    /// Adds a last entry to listeners that need one: requests for their hosts must not reach a less specific listener of the same
    /// port, and each listener has a route.
    fn close(&mut self, listeners: &[ListenerState<'_>]) {
        for (index, listener) in listeners.iter().enumerate().filter(|(_, listener)| listener.is_usable()) {
            let is_wider = |other: &ListenerState<'_>| {
                let covers = match (&other.hostname, &listener.hostname) {
                    (None, Some(_)) => true,
                    (Some(wide), Some(narrow)) => wide != narrow && covers(wide, narrow),
                    _ => false,
                };
                covers && other.name == listener.name && other.is_usable()
            };
            let has_routes = self.entries.iter().any(|entry| listeners[entry.listener].name == listener.name);
            if listeners.iter().any(is_wider) || !has_routes {
                self.entries.push(Entry {
                    listener: index,
                    host: listener.hostname.clone(),
                    path: PathCondition { is_exact: false, value: String::new() },
                    route: None,
                    position: (0, 0),
                    action: json!({"standalone": "not_found"}),
                    is_refusal: false,
                });
            }
        }
    }
}

/// Listener of the configuration, and host, of a route.
type Place = (String, Option<String>);

/// Number of characters of a hostname by which it takes precedence: of an exact one, and of any.
fn specificity(host: Option<&str>) -> (usize, usize) {
    host.map_or((0, 0), |host| (if host.starts_with('*') { 0 } else { host.len() }, host.len()))
}

impl Entry<'_> {
    /// Returns the key that orders routes as the Gateway API does: listener, hostname, exact path, longest prefix, oldest route, name,
    /// position.
    fn key<'k>(&'k self, listeners: &'k [ListenerState<'_>]) -> impl Ord + 'k {
        let listener = &listeners[self.listener];
        let of_host = Reverse(specificity(self.host.as_deref()));
        let of_listener = Reverse(specificity(listener.hostname.as_deref()));
        let path =
            (self.route.is_none(), Reverse(self.path.is_exact), Reverse(self.path.value.len()), !self.is_refusal);
        let route = self.route.map(Object::precedence);
        // Hosts of one length are in any order; sorted, so that the result is always the same.
        (
            (&listener.name, of_listener, &listener.hostname),
            (self.route.is_none(), of_host, &self.host),
            path,
            route,
            self.position,
        )
    }

    fn is_sealed(&self) -> bool {
        self.action["sealed"] == json!(Sealing::Required) || self.action["sealed"] == json!(Sealing::Optional)
    }

    fn place(&self, listeners: &[ListenerState<'_>]) -> Place {
        (listeners[self.listener].name.clone(), self.host.clone())
    }

    fn config(&self, listeners: &[ListenerState<'_>]) -> Value {
        let mut config = self.action.clone();
        let mut keys = match_of(&self.place(listeners));
        self.path.add_to(&mut keys);
        config["match"] = keys;
        let name = self.route.map(Object::id);
        if let Some(name) = name.filter(|name| name.len() <= ROUTE_NAME_LEN_MAX) {
            config["name"] = json!(name);
        }
        config
    }
}

fn match_of((listener, host): &Place) -> Value {
    let mut keys = json!({"listener": listener});
    if let Some(host) = host {
        keys["host"] = json!(host);
    }
    keys
}

/// Returns the route of the session endpoints for the wires that are served, all of them by default.
fn session_route(place: &Place, wires: &Value) -> Value {
    let serves = |wire: u8| wires.as_array().is_none_or(|wires| wires.contains(&json!(wire)));
    let (mut paths, mut prefixes) = (Vec::new(), Vec::new());
    if serves(1) || serves(2) {
        prefixes.extend(["/session/", "/v1/session/"]);
    }
    if serves(3) {
        paths.extend(["/v3/sessions", "/.well-known/sealway-keys"]);
        prefixes.push("/v3/sessions/");
    }
    let mut keys = match_of(place);
    for (key, values) in [("path", paths), ("path_prefix", prefixes)] {
        if !values.is_empty() {
            keys[key] = json!(values);
        }
    }
    json!({"match": keys, "sessions": {}})
}

/// Adds the keys of an object, and of objects in it, to another one.
fn extend(value: &mut Value, keys: Option<&Value>) {
    for (key, new) in keys.and_then(Value::as_object).into_iter().flatten() {
        match (value[key.as_str()].is_object(), new.is_object()) {
            (true, true) => extend(&mut value[key.as_str()], Some(new)),
            _ => value[key.as_str()] = new.clone(),
        }
    }
}
