//! `listeners:`, `pkcs11:`, `routes:`, `upstreams:`, `cors:` and `limits:` of the configuration: as written, then checked.

mod access_log;
mod cors;
mod limits;
mod listeners;
mod mle;
mod ohttp;
mod one_shot;
mod pkcs11;
mod routes;
mod upstreams;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sealway_exchange::{KeptAnswers, Sessions};
use sealway_proto::crypto::{Provider, default_provider};
use sealway_proto::mle::sign::WebOrigin;
use sealway_proto::routes::Pattern;
use sealway_proto::wire::ReplayPolicy;
use sealway_runtime::clock::Clock;
use sealway_runtime::config::{ConfigError, Problems};
use sealway_runtime::http::HttpLimits;
use sealway_runtime::tls;
use sealway_sessions::Authority;
use serde::{Deserialize, Serialize};

use self::access_log::CheckedAccessLog;
pub use self::access_log::RawAccessLog;
pub use self::cors::RawCors;
use self::limits::Limits;
pub use self::limits::{RawLimits, RequestLimits};
pub use self::listeners::{Listener, Place, RawListener, RawTls};
pub use self::mle::RawMleKey;
pub use self::one_shot::RawOneShot;
pub use self::pkcs11::{RawPkcs11, Tokens};
pub use self::routes::RawRoute;
use self::routes::{CheckedAction, CheckedRoute};
use self::upstreams::CheckedUpstream;
pub use self::upstreams::RawUpstream;
use crate::cors::Cors;
use crate::demo::DemoService;
use crate::gateway::Gateway;
use crate::mle::{KeyFiles, KeyRing, Mle};
use crate::ohttp::{self as oblivious, Relay, Targets};
use crate::one_shot::{LiveKeys, OneShotFiles, Openings, Purpose, Replacement};
use crate::route::{Action, Forward, ForwardPolicy, Matcher, Route, Sealing};
use crate::upstream::{Target, Upstream};

/// One text, or a list of texts.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    /// Returns the texts. An empty list is reported: it would mean the same as no list, and look like the opposite.
    fn checked(value: Option<&Self>, path: &str, problems: &mut Problems) -> Vec<String> {
        if matches!(value, Some(OneOrMany::Many(many)) if many.is_empty()) {
            problems.add(path, "an empty list; leave it out");
        }
        match value {
            None => Vec::new(),
            Some(OneOrMany::One(one)) => vec![one.clone()],
            Some(OneOrMany::Many(many)) => many.clone(),
        }
    }
}

/// The sections of the gateway as written in the configuration file.
#[derive(Clone, Copy, Debug)]
pub struct RawGateway<'a> {
    /// Path of the configuration file: file names are relative to its folder.
    pub file: Option<&'a Path>,
    /// Section `listeners:` of the configuration.
    pub listeners: &'a [RawListener],
    /// Section `pkcs11:` of the configuration.
    pub pkcs11: &'a [RawPkcs11],
    /// Section `routes:` of the configuration.
    pub routes: &'a [RawRoute],
    /// Section `mle_keys:` of the configuration.
    pub mle_keys: &'a BTreeMap<String, RawMleKey>,
    /// Section `one_shot:` of the configuration.
    pub one_shot: &'a RawOneShot,
    /// Section `upstreams:` of the configuration.
    pub upstreams: &'a BTreeMap<String, RawUpstream>,
    /// Section `cors:` of the configuration.
    pub cors: &'a RawCors,
    /// Section `limits:` of the configuration.
    pub limits: &'a RawLimits,
    /// Section `access_log:` of the configuration.
    pub access_log: Option<&'a RawAccessLog>,
}

/// The sections of the gateway, after their checks.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// Listeners, in the order of the configuration.
    pub listeners: Vec<Listener>,
    /// Tokens with keys of listeners, also of those that are not the gateway's.
    pub tokens: Tokens,
    /// Bounds on connections, for all listeners.
    pub http: HttpLimits,
    /// Maximum time of draining.
    pub drain: Duration,
    /// Time before draining in which everything is still served, while `/ready` says that this process is stopping.
    pub stop_delay: Duration,
    limits: RequestLimits,
    cors: Cors,
    access_log: Option<CheckedAccessLog>,
    upstreams: BTreeMap<String, CheckedUpstream>,
    mle_keys: BTreeMap<String, KeyFiles>,
    one_shot: OneShotFiles,
    routes: Vec<CheckedRoute>,
}

/// Checks all sections and adds errors to `problems`.
pub fn resolve(raw: RawGateway<'_>, problems: &mut Problems) -> GatewayConfig {
    let tokens = pkcs11::resolve(raw.pkcs11, problems);
    let listeners = listeners::resolve(raw.listeners, &tokens, raw.file, problems);
    let upstreams = upstreams::resolve(raw.upstreams, raw.file, problems);
    if raw.routes.is_empty() {
        problems.add("routes", "expected at least one route");
    }
    let mle_keys = mle::resolve_keys(raw.mle_keys, raw.file, problems);
    let routes = raw.routes.iter().enumerate();
    let routes: Vec<_> = routes
        .filter_map(|(index, route)| {
            routes::resolve(index, route, &listeners, (raw.upstreams, raw.mle_keys), (&mle_keys, raw.file), problems)
        })
        .collect();
    one_shot::check_documents(&routes, problems);
    let one_shot = one_shot::resolve(raw.one_shot, raw.file, problems);
    self::one_shot::check_one_shot(&routes, &one_shot, problems);
    ohttp::check_routes(raw.routes, one_shot.keys.is_some(), problems);
    let cors = cors::resolve(raw.cors, problems);
    let Limits { http, request, drain, stop_delay } = limits::resolve(raw.limits, problems);
    let access_log = raw.access_log.map(|log| access_log::resolve(log, raw.file, problems));
    let limits = request;
    GatewayConfig {
        listeners,
        tokens,
        http,
        drain,
        stop_delay,
        limits,
        cors,
        access_log,
        upstreams,
        mle_keys,
        one_shot,
        routes,
    }
}

impl GatewayConfig {
    /// True if a request for `path` reaches the session authority, on some listener and host.
    pub fn leads_to_sessions(&self, path: &str) -> bool {
        let mut routes = self.routes.iter().filter(|route| route.matcher.is_for_path(path));
        // A route for some listeners or hosts leaves the others to later routes.
        let deciding =
            routes.find(|route| matches!(route.action, CheckedAction::Sessions) || route.matcher.is_for_all());
        deciding.is_some_and(|route| matches!(route.action, CheckedAction::Sessions))
    }

    /// True if an upstream has this name.
    pub fn has_upstream(&self, name: &str) -> bool {
        self.upstreams.contains_key(name)
    }

    /// True if some route takes requests that are sealed in a session.
    pub fn takes_sealed_requests(&self) -> bool {
        self.policies().any(|policy| policy.sealed.serves_sessions())
    }

    /// Checks that each recipient of messages has a key whose certificate has not ended.
    fn check_ends(&self, ring: &KeyRing, clock: &Arc<dyn Clock>) -> Result<(), (String, String)> {
        let mut recipients = self.policies().filter_map(|policy| policy.mle.as_ref()).flat_map(|mle| &mle.seal);
        recipients.try_for_each(|(_, names)| ring.check_ends(names, clock.now_ms()))
    }

    /// Reads the certificates, keys and lists that listeners and upstreams name, as a start does, and reports errors
    /// that would stop it.
    pub fn check_files(&self, clock: &Arc<dyn Clock>, problems: &mut Problems) {
        if let Some(log) = &self.access_log {
            log.check_file(problems);
        }
        match KeyRing::read(&self.mle_keys) {
            Ok(ring) => {
                if let Err((setting, why)) = self.check_ends(&ring, clock) {
                    problems.add(setting, why);
                }
                for route in &self.routes {
                    let made = self.mle(route, &ring, &ReplayPolicy::default());
                    if let Err(why) = made {
                        problems.add_error(&ConfigError(why));
                    }
                }
            }
            Err((setting, why)) => problems.add(setting, why),
        }
        let keys = LiveKeys::load(default_provider(), self.one_shot.clone(), clock.now_ms());
        // A start over a store in memory makes keys of use ehbp.
        let keys = keys.and_then(|keys| {
            self.check_uses(|purpose| purpose == Purpose::Ehbp || self.one_shot.keys.is_none() || keys.has(purpose))
        });
        if let Err((setting, why)) = keys {
            problems.add(setting, why);
        }
        for listener in &self.listeners {
            if let Place::Unix(path) = &listener.place {
                problems.folder_of(&listener.setting, path);
            }
            match listener.tls.as_ref().map(|files| tls::Server::load(files.clone(), clock.clone())) {
                Some(Err(err)) => problems.add_error(&ConfigError(listener.tls_problem(&err))),
                // A start serves without it, until it is back.
                Some(Ok(server)) => {
                    if let Some(fault) = server.key_fault() {
                        problems.add(listener.tls_setting("key"), fault);
                    }
                }
                None => {}
            }
        }
        for (name, upstream) in &self.upstreams {
            if let Some(files) = &upstream.tls
                && let Err(err) = tls::Client::load(files.clone(), clock.clone())
            {
                problems.add_error(&ConfigError(format!("upstreams.{name}.tls.{err}")));
            }
        }
    }

    /// Creates the part of a route for messages of a scheme; `None` if it has none.
    fn mle(&self, route: &CheckedRoute, ring: &KeyRing, replay: &ReplayPolicy) -> Result<Option<Mle>, String> {
        let CheckedAction::Forward(upstream, policy) = &route.action else { return Ok(None) };
        let Some(mle) = &policy.mle else { return Ok(None) };
        let servers = self.upstreams.get(upstream).and_then(|upstream| upstream.servers.as_ref());
        let servers: Vec<WebOrigin> = servers.into_iter().flatten().filter_map(mle::origin_of).collect();
        let made = Mle::new(mle.clone(), ring, &servers, replay, policy.sealed_body_max);
        made.map(Some).map_err(|(setting, why)| format!("routes[{}].mle.{setting}: {why}", policy.route))
    }

    /// Checks that each route has a key of the use that it needs.
    fn check_uses(&self, has: impl Fn(Purpose) -> bool) -> Result<(), (String, String)> {
        for policy in self.policies() {
            let purpose = match policy.sealed {
                Sealing::Ehbp => Purpose::Ehbp,
                sealed if sealed.serves_hpke() => Purpose::Hpke,
                _ => continue,
            };
            if !has(purpose) {
                let file = self.one_shot.keys.iter().map(|path| format!("{}: ", path.display()));
                let (file, name, route) = (file.collect::<String>(), purpose.name(), policy.route);
                let why = format!(
                    "{file}there is no key of use {name}, which routes[{route}] needs; sealway one-shot-keys add FILE --use {name} makes one"
                );
                return Err(("one_shot.keys".into(), why));
            }
        }
        Ok(())
    }

    /// Reads the keys of one-shot modes. `before` keeps its keys as one value, with a replacement to apply to it.
    fn one_shot_keys<'a>(
        &self,
        authority: &Authority,
        clock: &Arc<dyn Clock>,
        before: Option<&'a Gateway>,
    ) -> Result<(Arc<LiveKeys>, Option<Replacement<'a>>), String> {
        let claims = self.policies().filter(|policy| policy.sealed == Sealing::Ehbp && policy.ehbp.refuses_replays);
        let claims = claims.map(|policy| format!("routes[{}].ehbp.replay", policy.route));
        let kind = authority.store().status().kind;
        let files = self.one_shot.over(kind, claims)?;
        self.policies().try_for_each(|policy| one_shot::check_store(policy, kind))?;
        self.gateways().try_for_each(|policy| ohttp::check_store(policy, kind))?;
        let fault = |(setting, why)| format!("{setting}: {why}");
        if let Some(keys) = before.map(Gateway::one_shot) {
            let next = keys.prepare(files, clock.now_ms()).map_err(fault)?;
            self.check_uses(|purpose| next.has(purpose)).map_err(fault)?;
            return Ok((keys.clone(), Some(next)));
        }
        let keys = LiveKeys::load(authority.provider(), files, clock.now_ms()).map_err(fault)?;
        self.check_uses(|purpose| keys.has(purpose)).map_err(fault)?;
        Ok((Arc::new(keys), None))
    }

    /// Returns the routes at which keys are published: one for each document, and each pair of listeners and hosts with a route that
    /// needs it.
    fn document_routes(&self) -> Vec<Route> {
        let mut routes: Vec<Route> = Vec::new();
        for route in &self.routes {
            for document in route.action.documents() {
                let Ok(path) = Pattern::exact(document.path().to_owned()) else { continue };
                let matcher = Matcher { patterns: vec![path], ..route.matcher.clone() };
                if routes.iter().all(|other| other.matcher != matcher) {
                    let name = format!("keys:{}", document.path());
                    routes.push(Route { name, matcher, delay: Duration::ZERO, action: Action::Keys(document) });
                }
            }
        }
        routes
    }

    fn policies(&self) -> impl Iterator<Item = &ForwardPolicy> {
        self.routes.iter().filter_map(|route| match &route.action {
            CheckedAction::Forward(_, policy) => Some(&**policy),
            _ => None,
        })
    }

    fn gateways(&self) -> impl Iterator<Item = &oblivious::GatewayPolicy> {
        self.routes.iter().filter_map(|route| match &route.action {
            CheckedAction::Ohttp(policy) => Some(policy),
            _ => None,
        })
    }

    /// Creates upstreams and routes. Upstreams of `before` whose settings are the same go on, with their connections and what
    /// their health checks know; their certificates are read again.
    ///
    /// # Errors
    /// A sentence that names the setting and the file at fault.
    pub fn start(
        &self,
        authority: Arc<Authority>,
        provider: &'static dyn Provider,
        clock: &Arc<dyn Clock>,
        before: Option<&Gateway>,
    ) -> Result<Gateway, String> {
        let mut upstreams: BTreeMap<&str, Arc<Upstream>> = BTreeMap::new();
        for (name, upstream) in &self.upstreams {
            // Resolved, so that a setting at its default is the same as one that is omitted.
            let text = format!("{upstream:?}");
            let mut known = before.iter().flat_map(|before| before.upstreams());
            if let Some(same) = known.find(|known| known.is_made_by(name, &text)) {
                if let Some(client) = same.tls() {
                    client.reload().map_err(|err| format!("upstreams.{name}.tls.{err}"))?;
                }
                upstreams.insert(name, same.clone());
                continue;
            }
            let mut settings = upstream.settings.clone();
            if let Some(files) = &upstream.tls {
                let client = tls::Client::load(files.clone(), clock.clone())
                    .map_err(|err| format!("upstreams.{name}.tls.{err}"))?;
                settings.tls = Some(Arc::new(client));
            }
            let target = match &upstream.servers {
                Some(servers) => Target::Servers(servers.clone()),
                None => Target::Demo(DemoService::new(provider, clock.clone())),
            };
            upstreams.insert(name, Arc::new(Upstream::new(target, settings).made_by(text)));
        }
        let ring = KeyRing::read(&self.mle_keys).map_err(|(setting, why)| format!("{setting}: {why}"))?;
        self.check_ends(&ring, clock).map_err(|(setting, why)| format!("{setting}: {why}"))?;
        let in_force = before.map(Gateway::mle_keys);
        ring.connect(in_force).map_err(|(setting, why)| format!("{setting}: {why}"))?;
        let replay = *authority.replay();
        let (one_shot, next_keys) = self.one_shot_keys(&authority, clock, before)?;
        let routes = self.routes.iter().filter_map(|route| {
            let action = match &route.action {
                CheckedAction::Sessions => Action::Sessions,
                CheckedAction::Standalone(standalone) => Action::Standalone(*standalone),
                CheckedAction::Ohttp(policy) => {
                    let forward = |upstream: &String| {
                        let policy = ForwardPolicy { route: policy.route, ..ForwardPolicy::default() };
                        Some(Forward {
                            upstream: upstreams.get(upstream.as_str())?.clone(),
                            policy,
                            kept: None,
                            mle: None,
                        })
                    };
                    let targets = policy.targets.iter();
                    let targets = targets.filter_map(|(target, upstream)| Some((target.clone(), forward(upstream)?)));
                    let (targets, keys) = (Targets(targets.collect()), one_shot.clone());
                    let (policy, openings) = (policy.clone(), Openings::new(policy.opens_per_minute));
                    Action::Ohttp(Arc::new(oblivious::Gateway { policy, targets, keys, openings }))
                }
                CheckedAction::OhttpRelay(upstream, forward, policy) => {
                    let upstream = upstreams.get(upstream.as_str())?.clone();
                    let forward = Forward { upstream, policy: ForwardPolicy::clone(forward), kept: None, mle: None };
                    Action::OhttpRelay(Box::new(Relay { policy: policy.clone(), forward }))
                }
                CheckedAction::Forward(upstream, policy) => Action::Forward(Box::new(Forward {
                    upstream: upstreams.get(upstream.as_str())?.clone(),
                    policy: ForwardPolicy::clone(policy),
                    kept: policy.keep_answers.map(KeptAnswers::new),
                    mle: match self.mle(route, &ring, &replay) {
                        Ok(mle) => mle,
                        Err(why) => return Some(Err(why)),
                    },
                })),
            };
            let (name, matcher) = (route.name.clone(), route.matcher.clone());
            Some(Ok(Route { name, matcher, delay: route.delay, action }))
        });
        let trusted = self.listeners.iter().map(|listener| (listener.name.clone(), listener.trusted.clone())).collect();
        let mut routes = routes.collect::<Result<Vec<_>, String>>()?;
        let own = self.document_routes().into_iter().chain(oblivious::well_known(&routes));
        let own: Vec<Route> = own.collect();
        routes.splice(0..0, own);
        let access_log = self.access_log.as_ref().map(CheckedAccessLog::open).transpose()?;
        let upstreams = upstreams.into_values().collect();
        // Last, so that a reload that fails changes no gauge and no key.
        ring.set_gauges(in_force);
        if let Some(next) = next_keys {
            next.apply();
        }
        let gateway =
            Gateway::new(authority, routes, upstreams, self.cors.clone(), self.limits, trusted, access_log, one_shot);
        Ok(gateway.with_mle_keys(ring))
    }
}
