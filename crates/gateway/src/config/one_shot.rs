//! Section `one_shot:` of the configuration, and `ehbp:` of a route.

use std::path::Path;

use sealway_runtime::config::{FilePath, Flag, Number, Problems};
use serde::{Deserialize, Serialize};

use super::routes::{CheckedAction, CheckedRoute};
use crate::one_shot::{ClearRequests, Document, EhbpPolicy, OneShotFiles, OneShotPolicy, PskFiles, parse_kem};
use crate::route::{ForwardPolicy, Sealing};

/// Section `one_shot:` as written in the configuration file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawOneShot {
    /// The key file, which `sealway one-shot-keys` makes. It is read again when it changes.
    keys: Option<FilePath>,
    /// Pre-shared keys of clients of wire 4.
    psk: Option<RawPsk>,
    /// Time for which clients keep the keys that they fetched. A key that follows another is published as long before it is preferred.
    max_age_sec: Number<u64, 3600, 60, 604_800>,
    /// Requests of wire 4 and EHBP a minute and address (IPv6: a /64), counted before a private key is used; 0: no limit. A request under a
    /// pre-shared key that opens does not count. `ohttp.opens_per_minute` has the limit of an OHTTP gateway.
    opens_per_minute: Number<u32, 0, 0, { u32::MAX as u64 }>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawPsk {
    /// The secret that all pre-shared keys are derived of: 32 bytes in base64.
    /// - default: required
    master: FilePath,
    /// Names of pre-shared keys that are accepted no longer, one a line; `#` and a blank begin a comment, on a line of its own or behind a
    /// name.
    revoked: Option<FilePath>,
}

/// Checks section `one_shot:` and resolves its paths.
pub(super) fn resolve(raw: &RawOneShot, file: Option<&Path>, problems: &mut Problems) -> OneShotFiles {
    OneShotFiles {
        keys: raw.keys.as_ref().map(|keys| problems.file("one_shot.keys", file, keys)),
        psk: raw.psk.as_ref().map(|psk| PskFiles {
            master: problems.file("one_shot.psk.master", file, &psk.master),
            revoked: psk.revoked.as_ref().map(|revoked| problems.file("one_shot.psk.revoked", file, revoked)),
        }),
        max_age_ms: raw.max_age_sec.check("one_shot.max_age_sec", problems) * 1000,
        opens_per_minute: raw.opens_per_minute.check("one_shot.opens_per_minute", problems),
        makes_ehbp_keys: false,
    }
}

impl OneShotFiles {
    /// Returns the settings for a start over a store of this kind, which keeps claims. `claims` has the settings of the routes that make
    /// claims which live as long as a key.
    ///
    /// # Errors
    /// A sentence with the setting of a route whose claims the store may lose before its key is over.
    pub(super) fn over(&self, kind: &str, mut claims: impl Iterator<Item = String>) -> Result<OneShotFiles, String> {
        let makes_ehbp_keys = match (kind, claims.next()) {
            (_, None) => false,
            (kind, _) if keeps_claims(kind) => false,
            ("memory", Some(_)) => true,
            (kind, Some(setting)) => {
                return Err(format!(
                    "{setting}: claim needs a store that keeps claims for days: sessions.store with file: or postgres:, and not {kind} alone"
                ));
            }
        };
        Ok(OneShotFiles { makes_ehbp_keys, ..self.clone() })
    }
}

/// Returns whether a store of this kind keeps claims over a restart, which the keys of a file outlive.
pub(super) fn keeps_claims(kind: &str) -> bool {
    ["embedded", "postgres", "tiered"].contains(&kind)
}

/// Checks that a store of this kind keeps the claims of a route with `sealed: hpke` over a restart, which its keys outlive.
///
/// # Errors
/// A sentence with the setting of the route.
pub(super) fn check_store(policy: &ForwardPolicy, kind: &str) -> Result<(), String> {
    if !policy.sealed.serves_hpke() || keeps_claims(kind) {
        return Ok(());
    }
    Err(format!(
        "routes[{}].sealed: hpke needs a store that keeps claims over a restart: sessions.store with file: or postgres:, and not {kind} alone",
        policy.route
    ))
}

impl CheckedAction {
    /// Returns the documents that publish the keys of the route.
    pub(super) fn documents(&self) -> Vec<Document> {
        match self {
            CheckedAction::Forward(_, policy) => policy.sealed.document().into_iter().collect(),
            CheckedAction::Ohttp(_) => vec![Document::OhttpList, Document::OhttpConfig],
            CheckedAction::Sessions | CheckedAction::Standalone(_) | CheckedAction::OhttpRelay(..) => Vec::new(),
        }
    }
}

/// Reports routes on a path at which the gateway publishes keys for other routes.
pub(super) fn check_documents(routes: &[CheckedRoute], problems: &mut Problems) {
    for CheckedRoute { index, matcher, .. } in routes {
        let documents = routes.iter().flat_map(|route| route.action.documents());
        let is_exact = |path: &str| matcher.patterns.iter().any(|own| !own.is_prefix() && own.path() == path);
        if let Some(path) = documents.map(Document::path).find(|path| is_exact(path)) {
            let why = format!("{path} is the gateway's own, which publishes keys there");
            problems.add(format!("routes[{index}].match.path"), why);
        }
    }
}

/// Section `ehbp:` of a route as written.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawEhbp {
    /// Requests without a seal: `refuse` answers 400; `bodyless` passes those without a body, which the protocol never seals, such as
    /// GET; `pass` passes all.
    /// - default: `refuse`
    unsealed: Option<ClearRequests>,
    /// Sends a request's body to the service as it arrives, after its first frame has opened. Otherwise the service receives it when
    /// all of it has opened.
    stream: Flag<false>,
    /// `claim`: a request that came before is rejected, for the whole life of its key. `off`: the protocol's own level, which has no
    /// protection against replays; for services that do not mind.
    /// - default: `claim`
    replay: Option<RawReplays>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum RawReplays {
    Claim,
    // Some YAML readers treat a bare `off` as a boolean.
    #[serde(alias = "false")]
    Off,
}

/// Resolves `ehbp:` of a route.
// All values are checked by their types.
pub(super) fn resolve_ehbp(raw: Option<&RawEhbp>) -> EhbpPolicy {
    let raw = raw.cloned().unwrap_or_default();
    EhbpPolicy {
        unsealed: raw.unsealed.unwrap_or_default(),
        streams: raw.stream.get(),
        refuses_replays: raw.replay.unwrap_or(RawReplays::Claim) == RawReplays::Claim,
    }
}

/// Section `one_shot:` of a route as written.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawRouteOneShot {
    /// KEMs of keys that the route accepts: `x-wing`, `mlkem768-p256`, `x25519`, `p256`.
    /// - type: list of names
    /// - default: all of them
    suites: Option<Vec<String>>,
    /// `anonymous`: any client. `psk`: clients with a pre-shared key alone, see `one_shot.psk`.
    /// - default: `anonymous`
    client: Option<RawClient>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum RawClient {
    Anonymous,
    Psk,
}

/// Checks `one_shot:` of a route.
pub(super) fn resolve_one_shot(
    at: &str,
    raw: Option<&RawRouteOneShot>,
    sealed: Sealing,
    problems: &mut Problems,
) -> OneShotPolicy {
    if raw.is_some() && !sealed.serves_hpke() {
        problems.add(at, "only a route with sealed: hpke takes this");
    }
    let raw = raw.cloned().unwrap_or_default();
    let mut policy = OneShotPolicy { needs_psk: raw.client == Some(RawClient::Psk), ..OneShotPolicy::default() };
    if let Some(names) = &raw.suites {
        let parsed = names.iter().map(|name| {
            let kem = parse_kem(name)?;
            if policy.kems.contains(&kem) {
                Ok(kem)
            } else {
                Err(format!("wire 4 has no {name}; see spec/one-shot.md"))
            }
        });
        let parsed: Result<Vec<_>, String> = parsed.collect();
        let checked = parsed.and_then(|kems| if kems.is_empty() { Err("names no KEM".into()) } else { Ok(kems) });
        policy.kems = problems.take(format!("{at}.suites"), checked).unwrap_or_default();
    }
    policy
}

/// Reports routes for wire 4 without the keys that they need.
pub(super) fn check_one_shot(routes: &[CheckedRoute], files: &OneShotFiles, problems: &mut Problems) {
    for CheckedRoute { index, action, .. } in routes {
        let CheckedAction::Forward(_, policy) = action else { continue };
        if policy.sealed.serves_hpke() && files.keys.is_none() {
            problems.add(format!("routes[{index}].sealed"), "hpke needs one_shot.keys, the service's keys");
        }
        if policy.sealed.serves_hpke() && policy.one_shot.needs_psk && files.psk.is_none() {
            problems.add(format!("routes[{index}].one_shot.client"), "psk needs one_shot.psk");
        }
    }
}
