//! Signatures of open banking on the side of a client: its own on requests, and the service's on answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sealway_proto::mle::sign::jws::{self, Signer};
use sealway_proto::mle::sign::{Parties, SigningKey, VerifyingKey, VerifyingKeys, nested};
use sealway_proto::mle::{Class, JwsAlg, KidSource, Message, Profile, Refusal};
use sealway_proto::session::Fresh;
use zeroize::Zeroizing;

use super::{JOSE, MessageError, SettingError, read};
use crate::clock::now_ms;

/// Files and names by which a client of open banking signs requests and verifies answers. It holds paths and no key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignatureSettings {
    /// The client's private RSA key, PEM or DER, which signs requests with PS256.
    pub sign_key: PathBuf,
    /// Name of that key in signatures.
    pub sign_kid: String,
    /// Certificate or public key of the service's signatures, PEM or DER.
    pub verify_key: PathBuf,
    /// Name of the service's key in its signatures.
    pub verify_kid: String,
    /// Algorithm of the service's signatures, `PS256` or `ES256`. Default: `PS256`.
    pub verify_alg: Option<String>,
    /// The client as signatures name it: the issuer of requests, and the audience of answers.
    pub issuer: String,
    /// The service as signatures name it: the audience of requests, and the issuer of answers.
    pub audience: String,
    /// Domain that vouches for both keys: signatures then stand beside the body, in `x-jws-signature`. `None` puts them inside of tokens.
    pub trust_anchor: Option<String>,
}

/// The keys of both signers, loaded.
#[derive(Debug)]
pub(super) struct Signatures {
    key: SigningKey,
    keys: VerifyingKeys,
    issuer: String,
    audience: String,
    trust_anchor: Option<String>,
}

impl SignatureSettings {
    pub(super) fn load(&self) -> Result<Signatures, SettingError> {
        let provider = &*JOSE;
        let at = |setting: &'static str, file: &Path, err: &dyn std::fmt::Display| {
            SettingError::new(setting, format!("{}: {err}", file.display()))
        };
        for (setting, text) in [("issuer", &self.issuer), ("audience", &self.audience)] {
            if text.is_empty() {
                return Err(SettingError::new(setting, "expected a name, as signatures have it"));
            }
        }
        let alg = match self.verify_alg.as_deref() {
            None | Some("PS256") => JwsAlg::Ps256,
            Some("ES256") => JwsAlg::Es256,
            Some(other) => return Err(SettingError::new("verify_alg", format!("\"{other}\" is none of PS256, ES256"))),
        };
        let private = read("sign_key", &self.sign_key)?;
        let kid = KidSource::Fixed(self.sign_kid.clone());
        let key = SigningKey::rsa(JwsAlg::Ps256, &private, None, &kid, provider, super::hashes());
        let key = key.map_err(|err| at("sign_key", &self.sign_key, &err))?;
        let public = read("verify_key", &self.verify_key)?;
        let kid = KidSource::Fixed(self.verify_kid.clone());
        let verifying = VerifyingKey::load(alg, &public, &kid, provider, super::hashes());
        let verifying = verifying.map_err(|err| at("verify_key", &self.verify_key, &err))?;
        let keys = VerifyingKeys::new([Arc::new(verifying)]).map_err(|err| at("verify_key", &self.verify_key, &err))?;
        let (issuer, audience) = (self.issuer.clone(), self.audience.clone());
        Ok(Signatures { key, keys, issuer, audience, trust_anchor: self.trust_anchor.clone() })
    }
}

impl Signatures {
    /// Returns the profile with its plaintexts marked as tokens, if signatures stand inside.
    pub(super) fn profile(&self, profile: Profile) -> Profile {
        if self.trust_anchor.is_some() {
            return profile;
        }
        profile.with_nested(Message::Request).with_nested(Message::Answer)
    }

    /// Signs a plaintext if the signature stands inside of its token; another one stays as it is.
    pub(super) fn inside(&self, plaintext: &[u8], id: [u8; 16]) -> Result<Zeroizing<Vec<u8>>, MessageError> {
        if self.trust_anchor.is_some() {
            return Ok(Zeroizing::new(plaintext.to_vec()));
        }
        let parties = Parties { issuer: self.issuer.clone(), audience: self.audience.clone(), subject: None };
        let token = nested::sign(plaintext, &parties, &self.key, now_ms(), id).map_err(MessageError::Sign)?;
        Ok(Zeroizing::new(token.into_bytes()))
    }

    /// Returns the signature that stands beside a sealed body.
    pub(super) fn beside(&self, sealed: &[u8]) -> Result<Option<String>, MessageError> {
        let Some(anchor) = &self.trust_anchor else { return Ok(None) };
        let signer = Signer { issuer: self.issuer.clone(), trust_anchor: anchor.clone() };
        jws::sign_detached(sealed, &signer, &self.key, now_ms()).map(Some).map_err(MessageError::Sign)
    }

    /// Verifies the signature beside the body of an answer, if signatures stand there.
    pub(super) fn check(&self, signature: Option<&str>, answer: &[u8], window_ms: u64) -> Result<(), Refusal> {
        let Some(anchor) = &self.trust_anchor else { return Ok(()) };
        let absent = || Refusal::new(Class::Signature, "x-jws-signature is absent");
        let token = signature.ok_or_else(absent)?.as_bytes();
        let signer = Signer { issuer: self.audience.clone(), trust_anchor: anchor.clone() };
        jws::verify_detached(token, answer, &self.keys, &signer, window_ms, now_ms())
    }

    /// Returns the payload of an answer's plaintext, if the signature stands inside of it.
    pub(super) fn payload(
        &self,
        plaintext: Zeroizing<Vec<u8>>,
        profile: &Profile,
    ) -> Result<Zeroizing<Vec<u8>>, MessageError> {
        if self.trust_anchor.is_some() {
            return Ok(plaintext);
        }
        let parties = Parties { issuer: self.audience.clone(), audience: self.issuer.clone(), subject: None };
        let (message, replay) = (Message::Answer, profile.replay());
        let guarded = nested::verify(&plaintext, &parties, &self.keys, message, replay, now_ms(), super::hashes());
        let guarded = guarded.map_err(MessageError::Answer)?.guarded;
        // An answer acts on nothing twice: the caller reads it once.
        let fresh = Fresh::reserved(guarded.claim());
        Ok(guarded.release(fresh)?)
    }
}
