//! Keys of the store by the transit API.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sealway_proto::broker::v1::ListRequest;
use sealway_runtime::clock::iso8601;
use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::names::{algorithm, curve_name, type_of};
use super::{Fields, Request};
use crate::certificate::encode_pem;
use crate::keys::{Algorithm, Key, RuleChange};
use crate::wire::v1::keys::{list as list_page, run, turn};
use crate::{Code, Refusal, Result};

/// Length of the bytes before an Ed25519 key in its SubjectPublicKeyInfo (RFC 8410 section 4).
const ED25519_SPKI_LEN: usize = 12;
const NOT_EXPORTED: &str = "keys never leave this broker";
const NO_ROTATION: &str = "this broker rotates no key by itself";

/// Describes a key, its public halves included.
fn describe(key: &Key) -> Result<Value> {
    let rules = key.rules();
    let (kind, lowest) = (key.algorithm(), rules.min_decryption.max(1));
    let mut versions = Map::new();
    for version in key.versions().iter().filter(|version| version.number() >= lowest) {
        let shown = match kind.is_asymmetric() {
            true => public(key, version.number(), version.created_ms())?,
            false => (version.created_ms() / 1000).into(),
        };
        versions.insert(version.number().to_string(), shown);
    }
    let (encrypts, signs) = (
        matches!(kind, Algorithm::Encrypt(_)),
        matches!(kind, Algorithm::Rsa(_) | Algorithm::Ecdsa(_) | Algorithm::Ed25519 | Algorithm::MlDsa(_)),
    );
    let set = match kind {
        Algorithm::MlDsa(set) => set.name().strip_prefix("ml-dsa-"),
        _ => None,
    };
    let mut described = json!({
        "name": key.id(),
        "type": type_of(kind),
        "keys": versions,
        "latest_version": key.versions().len(),
        "min_available_version": 0,
        "min_decryption_version": lowest,
        "min_encryption_version": rules.min_encryption,
        "deletion_allowed": rules.is_deletion_allowed,
        "derived": false,
        "exportable": false,
        "allow_plaintext_backup": false,
        "auto_rotate_period": 0,
        "imported_key": key.is_imported(),
        "supports_encryption": encrypts,
        "supports_decryption": encrypts,
        "supports_derivation": false,
        "supports_signing": signs,
    });
    if let Some(set) = set {
        described["parameter_set"] = set.into();
    }
    Ok(described)
}

fn public(key: &Key, version: u32, created_ms: u64) -> Result<Value> {
    let (_, der) = key.public_key(version)?;
    let (name, text) = match key.algorithm() {
        Algorithm::Ed25519 => ("ed25519".to_owned(), STANDARD.encode(der.get(ED25519_SPKI_LEN..).unwrap_or_default())),
        Algorithm::Ecdsa(curve) => (curve_name(curve).to_owned(), encode_pem("PUBLIC KEY", &der)),
        other => (other.to_string(), encode_pem("PUBLIC KEY", &der)),
    };
    Ok(json!({ "creation_time": iso8601(created_ms), "name": name, "public_key": text }))
}

pub(super) async fn list(request: &Request<'_>, fields: Fields) -> Result<Answer> {
    if let Err(refusal) = fields.end() {
        return request.reject("ListKeys", refusal).await;
    }
    let (mut ids, mut after) = (Vec::new(), String::new());
    loop {
        let page = list_page(request.wires, request.call, ListRequest { after, ..ListRequest::default() }).await?;
        ids.extend(page.keys.into_iter().map(|key| key.key_id));
        match ids.last() {
            Some(last) if page.has_more => after = last.clone(),
            Some(_) => return Ok(Answer::data(json!({ "keys": ids }))),
            None => return Err(Refusal::new(Code::NotFound, "there are no keys that this caller may see")),
        }
    }
}

pub(super) async fn read(request: &Request<'_>, fields: Fields) -> Result<Answer> {
    const OPERATION: &str = "PublicKey";
    if let Err(refusal) = fields.end() {
        return request.reject(OPERATION, refusal).await;
    }
    let name = request.name;
    let described =
        run(request.wires, request.call, OPERATION, (name, 0), |store| describe(&*store.get(name)?)).await?;
    Ok(Answer::data(described))
}

pub(super) async fn create(request: &Request<'_>, mut fields: Fields) -> Result<Answer> {
    const OPERATION: &str = "GenerateKey";
    let plan = (|| {
        let algorithm = algorithm(&mut fields)?;
        fields.without(&["derived", "convergent_encryption", "context"], super::names::NOT_DERIVED)?;
        fields.without(&["exportable", "allow_plaintext_backup"], NOT_EXPORTED)?;
        fields.without(&["auto_rotate_period"], NO_ROTATION)?;
        std::mem::take(&mut fields).end()?;
        Ok(algorithm)
    })();
    let algorithm = match plan {
        Ok(algorithm) => algorithm,
        Err(refusal) => return request.reject(OPERATION, refusal).await,
    };
    let (name, now) = (request.name, request.wires.service.now_ms());
    let _turn = turn(request.wires).await?;
    let work = |store: &crate::keys::Store| match store.generate(name, algorithm, now) {
        Ok(key) => Ok((describe(&key)?, None)),
        // Clients make their key at each start.
        Err(refusal) if refusal.code == Code::AlreadyExists => {
            let key = store.get(name)?;
            if key.algorithm() != algorithm {
                let text = format!("type: the key exists already, as one of type {}", type_of(key.algorithm()));
                return Err(Refusal::new(Code::AlreadyExists, text));
            }
            Ok((describe(&key)?, Some(format!("key {name} already existed"))))
        }
        Err(refusal) => Err(refusal),
    };
    let (described, warning) = run(request.wires, request.call, OPERATION, (name, 0), work).await?;
    Ok(Answer::with_warning(described, warning))
}

pub(super) async fn rotate(request: &Request<'_>, fields: Fields) -> Result<Answer> {
    const OPERATION: &str = "RotateKey";
    if let Err(refusal) = fields.end() {
        return request.reject(OPERATION, refusal).await;
    }
    let (name, now) = (request.name, request.wires.service.now_ms());
    let _turn = turn(request.wires).await?;
    let work = |store: &crate::keys::Store| describe(&*store.rotate(name, &[], now)?);
    Ok(Answer::data(run(request.wires, request.call, OPERATION, (name, 0), work).await?))
}

pub(super) async fn configure(request: &Request<'_>, mut fields: Fields) -> Result<Answer> {
    const OPERATION: &str = "ConfigureKey";
    let plan = (|| {
        let change = RuleChange {
            becomes_issuer: false,
            min_decryption: fields.number("min_decryption_version")?,
            min_encryption: fields.number("min_encryption_version")?,
            is_deletion_allowed: fields.switch("deletion_allowed")?,
        };
        fields.without(&["exportable", "allow_plaintext_backup"], NOT_EXPORTED)?;
        fields.without(&["auto_rotate_period"], NO_ROTATION)?;
        std::mem::take(&mut fields).end()?;
        Ok(change)
    })();
    let change = match plan {
        Ok(change) => change,
        Err(refusal) => return request.reject(OPERATION, refusal).await,
    };
    let name = request.name;
    let work = |store: &crate::keys::Store| describe(&*store.configure(name, change)?);
    Ok(Answer::data(run(request.wires, request.call, OPERATION, (name, 0), work).await?))
}

pub(super) async fn delete(request: &Request<'_>, fields: Fields) -> Result<Answer> {
    const OPERATION: &str = "DeleteKey";
    if let Err(refusal) = fields.end() {
        return request.reject(OPERATION, refusal).await;
    }
    let name = request.name;
    run(request.wires, request.call, OPERATION, (name, 0), |store| store.delete(name)).await?;
    Ok(Answer::empty())
}
