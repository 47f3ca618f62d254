//! The field-level form: a body whose root holds the value, with its metadata beside it.

use anyhow::{Context, anyhow, bail};
use clap::ValueEnum;
use sealway_gateway::jose_provider;
use sealway_proto::mle::{
    Encoding, FieldSealer, Fle, FleNames, Message, Opening, OpeningKeys, Place, Profile, Scalars, SealRandoms,
    SealingKey, body,
};
use sealway_runtime::output::out;

use super::{now_ms, rejected, unwrapped};

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum EncodingName {
    Hex,
    Base64,
    Base64url,
}

#[derive(Debug, clap::Args)]
pub(super) struct FieldForm {
    /// Spelling of bytes in mastercard-field-level
    #[arg(long, value_enum)]
    encoding: Option<EncodingName>,
    /// Name of a member in mastercard-field-level, such as value=encryptedData: value, iv, encrypted_key, digest, key_fingerprint or
    /// certificate_fingerprint
    #[arg(long = "member", value_name = "WHAT=NAME")]
    members: Vec<String>,
}

impl FieldForm {
    /// Rejects settings of the form with another profile.
    pub(super) fn check_unused(&self) -> anyhow::Result<()> {
        if self.encoding.is_some() || !self.members.is_empty() {
            bail!("--encoding and --member: only the profile mastercard-field-level takes them");
        }
        Ok(())
    }

    pub(super) fn fle(&self) -> anyhow::Result<Fle> {
        let encoding = match self.encoding {
            Some(EncodingName::Hex) => Encoding::Hex,
            Some(EncodingName::Base64) => Encoding::Base64,
            Some(EncodingName::Base64url) => Encoding::Base64Url,
            None => bail!("--encoding: the profile mastercard-field-level needs it"),
        };
        let mut names = FleNames {
            value: "encryptedValue".to_owned(),
            iv: "iv".to_owned(),
            encrypted_key: "encryptedKey".to_owned(),
            digest: None,
            key_fingerprint: None,
            certificate_fingerprint: None,
        };
        for member in &self.members {
            let (what, name) =
                member.split_once('=').with_context(|| format!("--member \"{member}\": expected WHAT=NAME"))?;
            let name = name.to_owned();
            match what {
                "value" => names.value = name,
                "iv" => names.iv = name,
                "encrypted_key" => names.encrypted_key = name,
                "digest" => names.digest = Some(name),
                "key_fingerprint" => names.key_fingerprint = Some(name),
                "certificate_fingerprint" => names.certificate_fingerprint = Some(name),
                _ => bail!("--member \"{member}\": a message has no such part; see --help"),
            }
        }
        Fle::new(Place::Body, encoding, names).map_err(|err| anyhow!("--member: {err}"))
    }
}

pub(super) fn encrypt(
    plaintext: &[u8],
    profile: &Profile,
    fle: &Fle,
    message: Message,
    key: &SealingKey,
    randoms: SealRandoms,
) -> anyhow::Result<Vec<u8>> {
    let sealer = FieldSealer::new(profile, message, key, randoms, jose_provider())?;
    let rules = [fle.sealing_rule("$", "$")?];
    let fields = body::find_plain(plaintext, &rules, 1, Scalars::Json).map_err(rejected)?;
    let fields = fields.into_iter().map(|field| sealer.seal(field.text()).map(|sealed| (field, sealed)));
    let fields = fields.collect::<Result<Vec<_>, _>>()?;
    body::put_sealed(plaintext, &rules, &fields).map_err(rejected)
}

pub(super) fn decrypt(
    bytes: &[u8],
    profile: &Profile,
    fle: &Fle,
    message: Message,
    keys: &OpeningKeys,
) -> anyhow::Result<Vec<u8>> {
    let rules = [fle.opening_rule("$", "$")?];
    let fields = body::find_sealed(bytes, &rules, 1).map_err(rejected)?;
    let (rest, metadata) = fle.take(bytes, &rules, &fields).map_err(rejected)?;
    let [(field, metadata)] = fields
        .into_iter()
        .zip(metadata)
        .collect::<Vec<_>>()
        .try_into()
        .map_err(|_| anyhow!("json: the body has no member \"{}\"", fle.names().value))?;
    let opening = Opening::begin_field(field.text(), &metadata, profile, message, keys, now_ms()).map_err(rejected)?;
    let opened = [(field, unwrapped(opening)?)];
    Ok(body::put_opened(&rest, &rules, &opened, Scalars::Json).map_err(rejected)?.to_vec())
}

/// Prints what a message says of itself.
pub(super) fn inspect(bytes: &[u8], fle: &Fle) -> anyhow::Result<()> {
    let rules = [fle.opening_rule("$", "$")?];
    let fields = body::find_sealed(bytes, &rules, 1).map_err(rejected)?;
    let (_, metadata) = fle.take(bytes, &rules, &fields).map_err(rejected)?;
    let (Some(field), Some(metadata)) = (fields.first(), metadata.first()) else {
        bail!("json: the body has no member \"{}\"", fle.names().value);
    };
    let value = fle.encoding().decode(field.text()).map_err(rejected)?;
    writeln!(out(), "value: {} bytes, whole blocks of 16: {}", value.len(), value.len() % 16 == 0)?;
    writeln!(out(), "IV: {} bytes, and 16 are due", metadata.iv().len())?;
    writeln!(out(), "encrypted key: {} bytes", metadata.encrypted_key().len())?;
    let alg = metadata.alg().map_or("not named: that of the key".to_owned(), |alg| alg.to_string());
    writeln!(out(), "digest: {alg}")?;
    writeln!(out(), "key: {:?}", metadata.kid().unwrap_or("none"))?;
    Ok(())
}
