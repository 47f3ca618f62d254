//! Signatures of open banking in `sealway mle encrypt` and `decrypt`: inside of the token, or in a file beside it.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use sealway_gateway::{jose_provider, jws_provider};
use sealway_proto::mle::sign::jws::{self, Signer};
use sealway_proto::mle::sign::{Parties, SigningKey, VerifyingKey, VerifyingKeys, nested};
use sealway_proto::mle::{JwsAlg, KidSource, Message, Profile};
use sealway_proto::session::Fresh;
use zeroize::Zeroizing;

use super::{now_ms, read, rejected};

/// The names in a signature, and its place.
#[derive(Debug, clap::Args)]
pub(super) struct Names {
    /// Signer of the message, as the signature names it; for open-banking
    #[arg(long, value_name = "NAME")]
    issuer: Option<String>,
    /// Recipient of the message, as a signature inside of the token names it
    #[arg(long, value_name = "NAME", conflicts_with = "trust_anchor")]
    audience: Option<String>,
    /// Domain that vouches for the signer's key: the signature stands beside the body
    #[arg(long, value_name = "DOMAIN", requires = "signature")]
    trust_anchor: Option<String>,
    /// File with the value of x-jws-signature, which encrypt writes and decrypt reads
    #[arg(long, value_name = "FILE", requires = "trust_anchor")]
    signature: Option<PathBuf>,
}

/// The key that signs a message.
#[derive(Debug, clap::Args)]
pub(super) struct Sign {
    /// Private RSA key, PEM or DER, which signs with PS256; for open-banking
    #[arg(long, value_name = "FILE", requires_all = ["sign_kid", "issuer"])]
    sign_key: Option<PathBuf>,
    /// Name of that key in signatures
    #[arg(long, value_name = "KID", requires = "sign_key")]
    sign_kid: Option<String>,
    #[command(flatten)]
    names: Names,
}

/// The key that verifies a message.
#[derive(Debug, clap::Args)]
pub(super) struct Verify {
    /// Certificate or public key of the signer, PEM or DER; without it a token of open-banking is opened and not verified
    #[arg(long, value_name = "FILE", requires_all = ["verify_kid", "issuer"])]
    verify_key: Option<PathBuf>,
    /// Name of that key in signatures
    #[arg(long, value_name = "KID", requires = "verify_key")]
    verify_kid: Option<String>,
    /// Algorithm of the signer's key
    #[arg(long, value_name = "ALG", default_value = "PS256", value_parser = ["PS256", "ES256"])]
    verify_alg: String,
    #[command(flatten)]
    names: Names,
}

impl Names {
    fn signer(&self, trust_anchor: &str) -> Signer {
        Signer { issuer: self.issuer.clone().unwrap_or_default(), trust_anchor: trust_anchor.to_owned() }
    }

    fn parties(&self) -> anyhow::Result<Parties> {
        let issuer = self.issuer.clone().unwrap_or_default();
        let audience = self.audience.clone().context("--audience or --trust-anchor is missing")?;
        Ok(Parties { issuer, audience, subject: None })
    }
}

impl Sign {
    /// Checks that no flag was given that the profile does not take.
    pub(super) fn check(&self, profile: &Profile) -> anyhow::Result<()> {
        if self.sign_key.is_some() && profile.name() != "open-banking" {
            bail!("--sign-key: only the profile open-banking takes this");
        }
        Ok(())
    }

    fn key(&self) -> anyhow::Result<Option<SigningKey>> {
        let Some(file) = &self.sign_key else { return Ok(None) };
        let kid = KidSource::Fixed(self.sign_kid.clone().unwrap_or_default());
        let (provider, hashes) = (jws_provider(), jose_provider().base());
        let key = SigningKey::rsa(JwsAlg::Ps256, &read(file)?, None, &kid, provider, hashes);
        key.map(Some).with_context(|| file.display().to_string())
    }

    /// Returns the plaintext to be sealed, signed if the signature stands inside, and the profile that marks it so.
    pub(super) fn inside(
        &self,
        plaintext: Vec<u8>,
        profile: Profile,
        message: Message,
    ) -> anyhow::Result<(Zeroizing<Vec<u8>>, Profile)> {
        let Some(key) = self.key()?.filter(|_| self.names.trust_anchor.is_none()) else {
            return Ok((Zeroizing::new(plaintext), profile));
        };
        let mut id = [0; 16];
        jose_provider().base().fill_random(&mut id)?;
        let token = nested::sign(&plaintext, &self.names.parties()?, &key, now_ms(), id).map_err(rejected)?;
        Ok((Zeroizing::new(token.into_bytes()), profile.with_nested(message)))
    }

    /// Writes the signature of a sealed body to its file, if it stands beside the body.
    pub(super) fn beside(&self, body: &[u8]) -> anyhow::Result<()> {
        let (Some(anchor), Some(file)) = (&self.names.trust_anchor, &self.names.signature) else { return Ok(()) };
        let key = self.key()?.context("--sign-key is missing")?;
        let value = jws::sign_detached(body, &self.names.signer(anchor), &key, now_ms()).map_err(rejected)?;
        std::fs::write(file, value).with_context(|| file.display().to_string())
    }
}

impl Verify {
    fn keys(&self) -> anyhow::Result<Option<VerifyingKeys>> {
        let Some(file) = &self.verify_key else { return Ok(None) };
        let kid = KidSource::Fixed(self.verify_kid.clone().unwrap_or_default());
        let alg = JwsAlg::parse(&self.verify_alg).context("--verify-alg")?;
        let key = VerifyingKey::load(alg, &read(file)?, &kid, jws_provider(), jose_provider().base());
        let key = key.with_context(|| file.display().to_string())?;
        Ok(Some(VerifyingKeys::new([Arc::new(key)])?))
    }

    /// Verifies the signature beside a body, if there is one.
    pub(super) fn check(&self, body: &[u8], profile: &Profile) -> anyhow::Result<()> {
        let keys = self.keys()?;
        if keys.is_some() && profile.name() != "open-banking" {
            bail!("--verify-key: only the profile open-banking takes this");
        }
        let (Some(anchor), Some(file)) = (&self.names.trust_anchor, &self.names.signature) else { return Ok(()) };
        let keys = keys.context("--verify-key is missing")?;
        let (value, window_ms) = (read(file)?, profile.replay().window_ms());
        let signer = self.names.signer(anchor);
        jws::verify_detached(value.trim_ascii(), body, &keys, &signer, window_ms, now_ms()).map_err(rejected)
    }

    /// Returns the payload of a plaintext that is a signed token.
    pub(super) fn payload(
        &self,
        plaintext: Zeroizing<Vec<u8>>,
        profile: &Profile,
        message: Message,
    ) -> anyhow::Result<Zeroizing<Vec<u8>>> {
        let Some(keys) = self.keys()?.filter(|_| self.names.trust_anchor.is_none()) else { return Ok(plaintext) };
        let (parties, hashes) = (self.names.parties()?, jose_provider().base());
        let opened = nested::verify(&plaintext, &parties, &keys, message, profile.replay(), now_ms(), hashes);
        let opened = opened.map_err(rejected)?.guarded;
        // A person asks, once: nothing acts on the plaintext.
        let fresh = Fresh::reserved(opened.claim());
        Ok(opened.release(fresh)?)
    }
}
