//! The control plane of a run: keys of issuers with their keyset, and certificates of nodes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
    PKCS_ED25519, date_time_ymd,
};
use sealway_proto::crypto::signature::default_signatures;
use sealway_proto::relay::{Binding, Grant, Issuer, IssuerKey, Minting};
use sealway_relay::settings::NodeFiles;
use tempfile::TempDir;

use super::FAR_MS;
use crate::provider::SeedProvider;
use crate::world::World;

pub(super) const AUD: &str = "relay";
pub(super) const ISS: &str = "issuer";
/// Names of the keys; the second one may be removed in a run.
pub(super) const KIDS: [&str; 2] = ["k1", "k2"];
/// The DNS name of every node's certificate.
const NODE_NAME: &str = "node.simulated";
/// Lifetime of a token, in seconds, short so that a run outlives it.
const TOKEN_TTL_S: u32 = 12;
/// The native suite without ML-KEM, which half of the channels use.
const PLAIN_SUITE: u16 = 0x100;

/// Issuers, and the keyset file of a run.
pub(super) struct Issuers {
    world: Arc<World>,
    /// For each key: native, native without ML-KEM, v1.
    issuers: Vec<[Issuer; 3]>,
    folder: TempDir,
    skew_s: i64,
}

fn key(kid: &str) -> IssuerKey {
    let seed = [kid.bytes().last().unwrap_or_default(); 32];
    IssuerKey::from_seed(kid, &seed, default_signatures()).unwrap_or_else(|err| panic!("no issuer's key: {err}"))
}

/// Returns the keyset of these keys.
fn keyset(kids: &[&str]) -> String {
    let binding = Binding { iss: Some(ISS.into()), aud: Some(vec![AUD.into()]) };
    let alone = |kid: &&str| {
        let text = key(kid).bound_keyset_text(&binding);
        let one = text.strip_prefix(r#"{"keys":["#).and_then(|text| text.strip_suffix("]}"));
        one.unwrap_or_default().to_owned()
    };
    format!(r#"{{"keys":[{}]}}"#, kids.iter().map(alone).collect::<Vec<_>>().join(","))
}

impl Issuers {
    pub(super) fn new(world: &Arc<World>) -> Arc<Self> {
        let skew_s = world.rng.lock().range(0, 5) as i64 - 2;
        let folder = tempfile::tempdir().unwrap_or_else(|err| panic!("no temporary folder: {err}"));
        let native = Minting { token_ttl_s: TOKEN_TTL_S, ..Minting::native("ws://relay/ws", AUD, ISS) };
        let plain = Minting { suites: vec![PLAIN_SUITE], ..native.clone() };
        let v1 = Minting { token_ttl_s: TOKEN_TTL_S, ..Minting::flowersec_v1("ws://relay/ws", AUD, ISS) };
        let issuer = |kid: &str, minting: &Minting| {
            let made = Issuer::new(key(kid), minting.clone(), &SeedProvider);
            made.unwrap_or_else(|err| panic!("no issuer: {err}"))
        };
        let issuers = KIDS.iter().map(|kid| [&native, &plain, &v1].map(|minting| issuer(kid, minting))).collect();
        let issuers = Issuers { world: world.clone(), issuers, folder, skew_s };
        issuers.write("first.json", &KIDS);
        issuers.write("keys.json", &KIDS);
        Arc::new(issuers)
    }

    fn write(&self, name: &str, kids: &[&str]) {
        // A new inode, as an atomic replacement has.
        let (path, new) = (self.folder.path().join(name), self.folder.path().join("new"));
        let written = fs::write(&new, keyset(kids)).and_then(|()| fs::rename(&new, path));
        written.unwrap_or_else(|err| panic!("the keyset is not written: {err}"));
    }

    /// Returns the keyset file that the nodes watch.
    pub(super) fn keyset(&self) -> PathBuf {
        self.folder.path().join("keys.json")
    }

    /// Returns a copy of the keyset that stays as it was.
    pub(super) fn first_keyset(&self) -> PathBuf {
        self.folder.path().join("first.json")
    }

    /// Removes the second key from the keyset file.
    pub(super) fn remove(&self) {
        self.write("keys.json", &KIDS[..1]);
    }

    /// Returns the issuer's clock, in seconds.
    pub(super) fn now_s(&self) -> i64 {
        let ms = self.world.now_ms().saturating_add_signed(FAR_MS);
        i64::try_from(ms / 1000).unwrap_or(i64::MAX) + self.skew_s
    }

    /// Mints the grants of a new channel.
    pub(super) fn pair(&self, key: usize, profile: usize) -> [Grant; 2] {
        let minted = self.issuer(key, profile).pair(None, self.now_s());
        minted.unwrap_or_else(|err| panic!("no grants: {err}"))
    }

    /// Returns a grant with a fresh token; `None` if the channel's time to begin is over.
    pub(super) fn reissue(&self, key: usize, profile: usize, grant: &Grant) -> Option<Grant> {
        self.issuer(key, profile).reissue(grant, self.now_s()).ok()
    }

    fn issuer(&self, key: usize, profile: usize) -> &Issuer {
        let issuers = self.issuers.get(key).and_then(|of_key| of_key.get(profile));
        issuers.unwrap_or_else(|| panic!("no issuer {key} {profile}"))
    }
}

/// Returns the certificates of the nodes, made once for the process.
pub(super) fn node_files() -> NodeFiles {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let path = FOLDER.get_or_init(|| make().unwrap_or_else(|err| panic!("no certificates: {err}"))).path();
    let file = |name: &str| path.join(name);
    NodeFiles { cert: file("node.pem"), key: file("node.key"), ca: file("ca.pem"), name: NODE_NAME.into() }
}

fn make() -> Result<TempDir, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let params = |names: Vec<String>| {
        let mut params = CertificateParams::new(names)?;
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2400, 1, 1));
        Ok::<_, rcgen::Error>(params)
    };
    let mut of_ca = params(Vec::new())?;
    of_ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    of_ca.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let ca = CertifiedIssuer::self_signed(of_ca, KeyPair::generate_for(&PKCS_ED25519)?)?;
    let mut of_node = params(vec![NODE_NAME.into()])?;
    of_node.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let node_key = KeyPair::generate_for(&PKCS_ED25519)?;
    let node = of_node.signed_by(&node_key, &ca)?;
    let write = |name: &str, text: String| fs::write(Path::new(folder.path()).join(name), text);
    write("ca.pem", ca.pem())?;
    write("node.pem", node.pem())?;
    write("node.key", node_key.serialize_pem())?;
    Ok(folder)
}
