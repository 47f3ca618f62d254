//! Flags for requests that are sealed without a session.

use std::path::{Path, PathBuf};

use http::Uri;
use http::uri::PathAndQuery;
use sealway_client::OneShotTrust;
use sealway_client::native::public_key;
use sealway_client::one_shot::ohttp::{self, GATEWAY_PATH};
use sealway_client::one_shot::{Kem, OneShotKeys, ehbp};
use sealway_runtime::config::Problems;
use serde::{Deserialize, Serialize};

use super::{given, target, values};
use crate::plan::{OneShotProtocol, OneShotRequests, Protocol, Request};
use crate::target::read_psk;

/// Flags for requests that are sealed without a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
#[command(next_help_heading = "Requests without a session")]
#[serde(default)]
pub(crate) struct OneShotFlags {
    /// Seal each request to a public key of the service, and open its response: hpke (wire 4), ehbp, ohttp, ohttp-chunked
    #[arg(long, value_name = "PROTOCOL")]
    pub(crate) one_shot: Option<String>,
    /// Trust only this key: a key configuration in base64, or with hpke a kid of the service's key document; repeatable. Without it,
    /// ehbp and ohttp trust the key that the target publishes
    #[arg(long, value_name = "KID|BASE64", conflicts_with = "one_shot_root", value_delimiter = ',')]
    pub(crate) one_shot_key: Vec<String>,
    /// With hpke: trust the keys that this root signs
    #[arg(long, value_name = "BASE64")]
    pub(crate) one_shot_root: Option<String>,
    /// Use only keys of this KEM: x25519, p256, x-wing, mlkem768-p256; repeatable [default: the first key that the service publishes]
    #[arg(long, value_name = "KEM", value_delimiter = ',')]
    pub(crate) one_shot_kem: Vec<String>,
    /// With hpke: name of a pre-shared key
    #[arg(long, value_name = "ID")]
    pub(crate) one_shot_psk: Option<String>,
    /// File with the pre-shared key, 32 bytes in base64
    #[arg(long, value_name = "FILE")]
    pub(crate) one_shot_psk_file: Option<String>,
    /// With ohttp: gateway to which requests for the URL are sent, and which publishes its keys there [default:
    /// /.well-known/ohttp-gateway on the URL's host]
    #[arg(long, value_name = "GATEWAY", conflicts_with = "one_shot_relay")]
    pub(crate) one_shot_gateway: Option<String>,
    /// With ohttp: relay to which requests are sent instead; it publishes no keys, so give --one-shot-key
    #[arg(long, value_name = "RELAY")]
    pub(crate) one_shot_relay: Option<String>,
}

impl OneShotFlags {
    /// Returns the URL to connect to, if it is another one than that of the inner requests.
    pub(super) fn outer(&self, problems: &mut Problems, inner: Option<&Uri>) -> Option<Uri> {
        let asked = self.one_shot.as_deref()?;
        let is_asked = |protocol: &&OneShotProtocol| protocol.name().eq_ignore_ascii_case(asked);
        OneShotProtocol::ALL.iter().find(is_asked).filter(|protocol| protocol.is_ohttp())?;
        let named = [("--one-shot-gateway", &self.one_shot_gateway), ("--one-shot-relay", &self.one_shot_relay)];
        if let Some((flag, Some(url))) = named.into_iter().find(|(_, url)| url.is_some()) {
            return target::parse(problems, flag, url);
        }
        let mut parts = inner?.clone().into_parts();
        parts.path_and_query = Some(PathAndQuery::from_static(GATEWAY_PATH));
        Uri::from_parts(parts).ok()
    }

    /// Resolves the flags, and checks the keys and the file that they name. `inner` is the URL that was given.
    pub(super) fn resolve(
        &self,
        problems: &mut Problems,
        http: Protocol,
        is_sealed: bool,
        request: &Request,
        inner: Option<Uri>,
    ) -> Option<OneShotRequests> {
        if self.one_shot.is_none() {
            for flag in given(self) {
                problems.add(flag, "applies to requests without a session only: add --one-shot PROTOCOL");
            }
            return None;
        }
        let protocol: OneShotProtocol = values::named(problems, "--one-shot", &self.one_shot)?;
        if is_sealed {
            problems.add("--one-shot with --sealed or --mle", "a request is sealed in one way: remove one of them");
        }
        if !matches!(http, Protocol::Http1 | Protocol::Http2) {
            problems.add("--one-shot", "requests without a session need --http-version 1.1 or 2");
        }
        self.refuse_others(problems, protocol);
        if protocol == OneShotProtocol::Ehbp && request.body.is_none() {
            problems.add("--one-shot ehbp", "EHBP seals bodies alone: give --body or --body-file");
        }
        let known = [
            ("x25519", Kem::X25519),
            ("p256", Kem::P256),
            ("x-wing", Kem::XWing),
            ("mlkem768-p256", Kem::MlKem768P256),
        ];
        let kem = |name: &String| values::word(problems, "--one-shot-kem", Some(name), &known);
        let kems: Vec<Kem> = self.one_shot_kem.iter().filter_map(kem).collect();
        let trust = self.trust(problems, protocol);
        let trust = trust.filter(|trust| check(problems, protocol, trust, &kems));
        let psk = self.psk(problems);
        let inner = inner.filter(|_| protocol.is_ohttp());
        Some(OneShotRequests { protocol, trust, kems, psk, inner })
    }

    /// Reports the flags of other protocols.
    fn refuse_others(&self, problems: &mut Problems, protocol: OneShotProtocol) {
        if protocol != OneShotProtocol::Hpke {
            let (psk, file) = (self.one_shot_psk.clone(), self.one_shot_psk_file.clone());
            let root = self.one_shot_root.clone();
            let own =
                OneShotFlags { one_shot_psk: psk, one_shot_psk_file: file, one_shot_root: root, ..Self::default() };
            for flag in given(&own) {
                problems.add(flag, "applies to --one-shot hpke only");
            }
        }
        if !protocol.is_ohttp() {
            let (gateway, relay) = (self.one_shot_gateway.clone(), self.one_shot_relay.clone());
            for flag in given(&OneShotFlags { one_shot_gateway: gateway, one_shot_relay: relay, ..Self::default() }) {
                problems.add(flag, "applies to --one-shot ohttp and ohttp-chunked only");
            }
        }
        if self.one_shot_relay.is_some() && self.one_shot_key.is_empty() {
            let way = "a relay publishes no keys: give the gateway's key configuration with --one-shot-key";
            problems.add("--one-shot-relay", way);
        }
    }

    fn trust(&self, problems: &mut Problems, protocol: OneShotProtocol) -> Option<OneShotTrust> {
        if let Some(root) = &self.one_shot_root {
            let key = problems.take("--one-shot-root", public_key(root))?;
            return Some(OneShotTrust::Root(key));
        }
        if !self.one_shot_key.is_empty() {
            let pins = OneShotTrust::pins(self.one_shot_key.iter().map(String::as_str));
            return problems.take("--one-shot-key", pins);
        }
        if protocol == OneShotProtocol::Hpke {
            problems
                .add("--one-shot hpke", "give the service's key with --one-shot-key, or its root with --one-shot-root");
        }
        None
    }

    fn psk(&self, problems: &mut Problems) -> Option<(String, PathBuf)> {
        match (&self.one_shot_psk, &self.one_shot_psk_file) {
            (Some(id), Some(file)) => {
                problems.take("--one-shot-psk-file", read_psk(Path::new(file)));
                if id.is_empty() || id.len() > 64 || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
                    values::wrong(problems, "--one-shot-psk", id, "1 to 64 visible ASCII characters");
                }
                Some((id.clone(), file.into()))
            }
            (None, None) => None,
            (Some(_), None) => {
                problems.add("--one-shot-psk", "give the key itself with --one-shot-psk-file");
                None
            }
            (None, Some(_)) => {
                problems.add("--one-shot-psk-file", "give the key's name with --one-shot-psk");
                None
            }
        }
    }
}

/// Checks that the protocol can use what is trusted.
fn check(problems: &mut Problems, protocol: OneShotProtocol, trust: &OneShotTrust, kems: &[Kem]) -> bool {
    let flag = "--one-shot-key";
    if protocol == OneShotProtocol::Hpke {
        let keys = OneShotKeys::new(trust.clone(), &Uri::default(), kems.to_vec());
        return problems.take(flag, keys.and_then(|keys| keys.pinned())).is_some();
    }
    let OneShotTrust::Configs(configs) = trust else {
        problems.add(flag, "expected a key configuration in base64: only --one-shot hpke has kids");
        return false;
    };
    let is_usable = configs.iter().any(|config| match protocol {
        OneShotProtocol::Ehbp => ehbp::key(&config.encode()).is_ok(),
        _ => ohttp::suite_of(config).is_some(),
    });
    if !is_usable {
        problems.add(flag, format!("the key has no suite that {} can use", protocol.name()));
    }
    is_usable
}
