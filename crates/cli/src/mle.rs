//! `sealway mle`: makes, opens and explains the tokens of card schemes, for people who look for a fault.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Subcommand, ValueEnum};
use sealway_gateway::jose_provider;
use sealway_proto::mle::header::Header;
use sealway_proto::mle::{
    Alg, Enc, KidSource, Message, NonceGuard, OpenRandoms, Opening, OpeningKey, OpeningKeys, Plaintext, Profile,
    Public, Refusal, SealRandoms, SealingKey, Side, Wrapper, body, compact, load, seal,
};
use sealway_runtime::clock::{Clock, SystemClock};
use sealway_runtime::output::{out, tell};
use zeroize::Zeroizing;

mod fields;
mod signatures;

use self::fields::FieldForm;
use self::signatures::{Sign, Verify};

/// Longest input that is read, in bytes.
const INPUT_LEN_MAX: u64 = 4 * 1024 * 1024;

#[derive(Debug, Subcommand)]
pub(crate) enum MleAction {
    /// Print the names (`kid`) that each scheme derives from a certificate or a public key
    Keys {
        /// Certificate or public key, PEM or DER
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
    /// Seal standard input to a recipient and print the body
    Encrypt(Encrypt),
    /// Open the body on standard input and print its plaintext
    Decrypt(Decrypt),
    /// Print what a token on standard input says of itself, and why a profile rejects it; no key is needed
    Inspect {
        #[command(flatten)]
        form: Form,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Form {
    /// The scheme's form of messages
    #[arg(long, value_enum)]
    profile: ProfileName,
    /// The direction of the message
    #[arg(long, value_enum, default_value_t = Direction::Request)]
    message: Direction,
    #[command(flatten)]
    fields: FieldForm,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Encrypt {
    #[command(flatten)]
    form: Form,
    /// Certificate or public key of the recipient, PEM or DER; for dir, A128KW and A256KW the shared key in base64
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    #[command(flatten)]
    name: KeyName,
    /// Algorithm that encrypts the content; mastercard-field-level has one alone
    #[arg(long, value_name = "ENC", default_value = "A256GCM")]
    enc: String,
    /// Algorithm of the key, which tokens must name
    #[arg(long, value_name = "ALG", default_value = "RSA-OAEP-256")]
    alg: String,
    #[command(flatten)]
    sign: Sign,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Decrypt {
    #[command(flatten)]
    form: Form,
    /// Private key, PEM or DER; for dir, A128KW and A256KW the shared key in base64
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Its certificate, for names that are derived from one
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    #[command(flatten)]
    name: KeyName,
    /// Algorithm of the key, which tokens must name
    #[arg(long, value_name = "ALG", default_value = "RSA-OAEP-256")]
    alg: String,
    /// The one algorithm of a dir key's content
    #[arg(long, value_name = "ENC", default_value = "A256GCM")]
    enc: String,
    #[command(flatten)]
    verify: Verify,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct KeyName {
    /// Name of the key in tokens
    #[arg(long)]
    kid: Option<String>,
    /// Derivation of that name from the key
    #[arg(long, value_parser = derivation())]
    kid_from: Option<KidSource>,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum ProfileName {
    MastercardJwe,
    MastercardFieldLevel,
    Visa,
    VisaAcceptance,
    GenericJwe,
    OpenBanking,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Direction {
    Request,
    Answer,
}

fn derivation() -> impl TypedValueParser<Value = KidSource> {
    let names = PossibleValuesParser::new(KidSource::DERIVED.map(|(name, _)| name));
    names.try_map(|name| KidSource::derived(&name).ok_or("it is no derivation"))
}

impl KeyName {
    fn source(self) -> anyhow::Result<KidSource> {
        self.kid.map(KidSource::Fixed).or(self.kid_from).context("--kid or --kid-from")
    }
}

impl Form {
    fn profile(&self) -> anyhow::Result<Profile> {
        if self.profile != ProfileName::MastercardFieldLevel {
            self.fields.check_unused()?;
        }
        Ok(match self.profile {
            ProfileName::MastercardJwe => Profile::mastercard_jwe(),
            ProfileName::MastercardFieldLevel => Profile::mastercard_field_level(self.fields.fle()?),
            ProfileName::Visa => Profile::visa(),
            ProfileName::VisaAcceptance => Profile::visa_acceptance(),
            ProfileName::GenericJwe => {
                let side = Side::new(Alg::ALL, Enc::ALL, Wrapper::Bare);
                Profile::generic(side.clone(), side, None)
            }
            ProfileName::OpenBanking => Profile::open_banking(Side::new(Alg::ALL, Enc::ALL, Wrapper::Bare)),
        })
    }

    fn message(&self) -> Message {
        match self.message {
            Direction::Request => Message::Request,
            Direction::Answer => Message::Answer,
        }
    }
}

pub(crate) fn run(action: MleAction) -> anyhow::Result<()> {
    match action {
        MleAction::Keys { files } => files.iter().try_for_each(|file| keys(file)),
        MleAction::Encrypt(arguments) => encrypt(arguments),
        MleAction::Decrypt(arguments) => decrypt(arguments),
        MleAction::Inspect { form } => inspect(&form),
    }
}

/// Prints each name that can be derived.
fn keys(file: &Path) -> anyhow::Result<()> {
    let public = Public::load(&read(file)?).with_context(|| file.display().to_string())?;
    writeln!(out(), "{}: {}", file.display(), public.kind())?;
    for (name, source) in KidSource::DERIVED {
        match source.derive(&public, jose_provider().base()) {
            Ok(kid) => writeln!(out(), "  {name}: {kid}")?,
            Err(err) => writeln!(out(), "  {name}: – ({err})")?,
        }
    }
    Ok(())
}

fn encrypt(arguments: Encrypt) -> anyhow::Result<()> {
    let Encrypt { form, key: file, name, enc, alg, sign } = arguments;
    let (provider, profile) = (jose_provider(), form.profile()?);
    sign.check(&profile)?;
    let enc = parse_enc(&enc)?;
    let bytes = read(&file)?;
    let key = match (parse_alg(&alg)?, name.source()?) {
        (Alg::EcdhEs, kid) => SealingKey::p256(enc, &bytes, &kid, provider),
        (alg, kid) if alg.is_rsa() => SealingKey::rsa(alg, enc, &bytes, &kid, provider),
        (alg, KidSource::Fixed(kid)) => {
            load::shared(&bytes).and_then(|key| SealingKey::secret(alg, enc, &key, &kid, provider))
        }
        (alg, _) => bail!("--kid-from: a key of {alg} has no certificate: use --kid"),
    };
    let key = key.with_context(|| file.display().to_string())?;
    let randoms = SealRandoms::draw(provider.base())?;
    if let Some(fle) = profile.fle() {
        out().write_all(&fields::encrypt(&input()?, &profile, fle, form.message(), &key, randoms)?)?;
        return Ok(());
    }
    let (plaintext, profile) = sign.inside(input()?, profile, form.message())?;
    let token = seal::seal(&plaintext, &profile, form.message(), &key, now_ms(), randoms, provider)?;
    let body = body::wrap(&token, profile.wrapper(form.message()));
    sign.beside(&body)?;
    out().write_all(&body)?;
    Ok(())
}

fn decrypt(arguments: Decrypt) -> anyhow::Result<()> {
    let Decrypt { form, key: file, certificate, name, alg, enc, verify } = arguments;
    let (provider, profile) = (jose_provider(), form.profile()?);
    let certificate = certificate.as_deref().map(read).transpose()?;
    let enc = parse_enc(&enc)?;
    let (bytes, certificate) = (read(&file)?, certificate.as_ref().map(|bytes| bytes.as_slice()));
    let key = match (parse_alg(&alg)?, name.source()?) {
        (Alg::EcdhEs, kid) => OpeningKey::p256(&bytes, certificate, &kid, provider),
        (alg, kid) if alg.is_rsa() => OpeningKey::rsa(alg, &bytes, certificate, &kid, provider),
        (alg, KidSource::Fixed(kid)) => {
            load::shared(&bytes).and_then(|key| OpeningKey::secret(alg, enc, &key, &kid, provider))
        }
        (alg, _) => bail!("--kid-from: a key of {alg} has no certificate: use --kid"),
    };
    let key = key.with_context(|| file.display().to_string())?;
    let keys = OpeningKeys::new([key.into()])?;
    if let Some(fle) = profile.fle() {
        out().write_all(&fields::decrypt(&input()?, &profile, fle, form.message(), &keys)?)?;
        return Ok(());
    }
    let input = input()?;
    verify.check(&input, &profile)?;
    let token = body::unwrap(&input, profile.wrapper(form.message())).map_err(rejected)?;
    let opening = Opening::begin(token.trim_ascii(), &profile, form.message(), &keys, now_ms()).map_err(rejected)?;
    out().write_all(&verify.payload(unwrapped(opening)?, &profile, form.message())?)?;
    Ok(())
}

/// Performs the private operation and returns the plaintext.
fn unwrapped(opening: Opening) -> anyhow::Result<Zeroizing<Vec<u8>>> {
    let provider = jose_provider();
    let cek = opening.wants().unwrap_here();
    let randoms = OpenRandoms::draw(provider.base())?;
    let opened = opening.unwrapped(cek.as_ref().map(|cek| cek.as_slice()), &randoms, provider).map_err(rejected)?;
    released(opened)?.into_bytes().map_err(rejected)
}

fn released(opened: NonceGuard<Plaintext>) -> anyhow::Result<Plaintext> {
    // A person asks, once: nothing acts on the plaintext.
    let fresh = sealway_proto::session::Fresh::reserved(opened.claim());
    Ok(opened.release(fresh)?)
}

fn rejected(refusal: Refusal) -> anyhow::Error {
    anyhow!("{}: {refusal}", refusal.class())
}

fn parse_enc(name: &str) -> anyhow::Result<Enc> {
    Enc::parse(name).with_context(|| format!("--enc: \"{name}\" is not an algorithm of RFC 7518 section 5"))
}

fn parse_alg(name: &str) -> anyhow::Result<Alg> {
    Alg::parse(name).with_context(|| format!("--alg: \"{name}\" is not an algorithm of RFC 7518 section 4"))
}

/// Prints the header and the lengths of a token, and what is wrong with it before any key is asked.
fn inspect(form: &Form) -> anyhow::Result<()> {
    let (profile, input) = (form.profile()?, input()?);
    if let Some(fle) = profile.fle() {
        return fields::inspect(&input, fle);
    }
    let token = match body::unwrap(&input, profile.wrapper(form.message())) {
        Ok(token) => token,
        Err(refusal) => {
            tell(format_args!("the body is not one of {}: {refusal}; read as a token alone", profile.name()));
            input
        }
    };
    let parts: Vec<&[u8]> = token.trim_ascii().split(|byte| *byte == b'.').collect();
    let names = ["header", "encrypted key", "IV", "ciphertext", "tag"];
    if parts.len() != names.len() {
        bail!("shape: it has {} parts, and a compact JWE (RFC 7516 section 7.1) has five", parts.len());
    }
    let decoded = parts.iter().map(|part| compact::decode(part, compact::Alphabet::Mixed));
    let decoded = decoded.collect::<Result<Vec<_>, _>>().map_err(|refusal| anyhow!("base64: {refusal}"))?;
    let header = decoded.first().map(Vec::as_slice).unwrap_or_default();
    writeln!(out(), "header: {}", String::from_utf8_lossy(header).escape_debug().to_string().replace("\\\"", "\""))?;
    for (name, part) in names.iter().zip(&decoded).skip(1) {
        writeln!(out(), "{name}: {} bytes", part.len())?;
    }
    let parsed = Header::parse(header).map_err(|refusal| anyhow!("{}: {refusal}", refusal.class()))?;
    if !profile.allows(form.message(), parsed.alg, parsed.enc) {
        bail!("alg: {} does not allow {} with {}", profile.name(), parsed.alg, parsed.enc);
    }
    let kid = parsed.kid.as_deref().unwrap_or("none");
    writeln!(out(), "{} allows {} with {}; the key is {kid:?}", profile.name(), parsed.alg, parsed.enc)?;
    Ok(())
}

fn now_ms() -> u64 {
    SystemClock.now_ms()
}

fn read(file: &Path) -> anyhow::Result<Zeroizing<Vec<u8>>> {
    std::fs::read(file).map(Zeroizing::new).with_context(|| file.display().to_string())
}

/// Reads standard input whole, within its bound.
fn input() -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let len = std::io::stdin().lock().take(INPUT_LEN_MAX + 1).read_to_end(&mut bytes)?;
    if len as u64 > INPUT_LEN_MAX {
        bail!("standard input: more than {INPUT_LEN_MAX} bytes");
    }
    Ok(bytes)
}
