//! Messages encrypted as card schemes do (JWE), on the side of their client: [`Messages`] seals bodies of requests and opens those of
//! answers. It sends nothing: any HTTP client carries them. `spec/mle.md` is the contract.
//!
//! An answer is not bound to its request, and answers are not remembered: a service can repeat one within the profile's window.

mod signatures;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use sealway_proto::mle::aws_lc::AwsLcJose;
use sealway_proto::mle::load::KEY_FILE_LEN_MAX;
pub use sealway_proto::mle::{Alg, JoseProvider, Refusal};
use sealway_proto::mle::{
    Enc, KidSource, Message, OpenRandoms, Opening, OpeningKey, OpeningKeys, Profile, SealError, SealRandoms,
    SealingKey, Side, Wrapper, body, seal,
};
use sealway_proto::session::Fresh;
use zeroize::Zeroizing;

pub use self::signatures::SignatureSettings;
use self::signatures::Signatures;
use crate::clock::now_ms;

/// Names of the profiles, as configuration and flags have them.
pub const PROFILES: [&str; 5] = ["mastercard-jwe", "visa", "visa-acceptance", "generic-jwe", "open-banking"];

/// Files and names by which a client seals requests and opens answers. It holds paths and no key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageSettings {
    /// Profile of the messages, one of [`PROFILES`]. Messages of `generic-jwe` and `open-banking` are bare tokens of any `enc`, without a
    /// time.
    pub profile: String,
    /// Certificate or public key of the service, PEM or DER, to which requests are sealed with RSA-OAEP-256.
    pub certificate: PathBuf,
    /// Name of the service's key in requests; `None` derives it by `kid_from`.
    pub kid: Option<String>,
    /// Derivation of the keys' names, such as `spki_sha256_hex`.
    pub kid_from: Option<String>,
    /// Algorithm that encrypts the content of requests, such as `A128GCM`. Default: `A256GCM`.
    pub enc: Option<String>,
    /// The client's own private key, PEM or DER, which opens answers.
    pub key: PathBuf,
    /// Certificate of the client's own key, for names that are derived from one.
    pub key_certificate: Option<PathBuf>,
    /// Name of the client's own key in answers; `None` derives it by `kid_from`.
    pub key_kid: Option<String>,
    /// Signatures of `open-banking`, which needs them; `None` in other profiles.
    pub signatures: Option<SignatureSettings>,
}

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {reason}")]
pub struct SettingError {
    /// Name of the field of [`MessageSettings`].
    pub setting: &'static str,
    /// The problem, with the file's name where there is one.
    pub reason: String,
}

impl SettingError {
    fn new(setting: &'static str, reason: impl ToString) -> SettingError {
        SettingError { setting, reason: reason.to_string() }
    }
}

/// A message that was not sealed or does not open. It holds no plaintext and no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The plaintext was not sealed: the profile does not allow the algorithms, or the cryptographic library failed.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The request was not signed: its body is not the JSON object that a signature inside of a token needs, or the cryptographic
    /// library failed.
    #[error("{class}: {0}", class = .0.class())]
    Sign(Refusal),
    /// The generator of random bytes failed.
    #[error(transparent)]
    Random(#[from] sealway_proto::Error),
    /// The answer is not a message of the profile, or does not open with the client's key.
    #[error("{class}: {0}", class = .0.class())]
    Answer(Refusal),
}

/// The messages between a client and one service: the profile and the keys of both sides, loaded.
#[derive(Debug)]
pub struct Messages {
    profile: Profile,
    service: SealingKey,
    own: OpeningKeys,
    signatures: Option<Signatures>,
    provider: &'static dyn JoseProvider,
}

/// The library, with IVs of 12 bytes alone.
static JOSE: LazyLock<AwsLcJose> = LazyLock::new(|| AwsLcJose::new(|_, _, _, _, _| false));

fn hashes() -> &'static dyn sealway_proto::crypto::Provider {
    provider().base()
}

/// Returns a provider that takes IVs of 12 bytes alone, as RFC 7518 section 5.3 says. Some libraries of `mastercard-jwe` send 16; a program
/// that calls them brings a provider of its own.
pub fn provider() -> &'static dyn JoseProvider {
    &*JOSE
}

fn profile(name: &str) -> Option<Profile> {
    Some(match name {
        "mastercard-jwe" => Profile::mastercard_jwe(),
        "visa" => Profile::visa(),
        "visa-acceptance" => Profile::visa_acceptance(),
        "generic-jwe" => {
            let side = Side::new(&[Alg::RsaOaep256], Enc::ALL, Wrapper::Bare);
            Profile::generic(side.clone(), side, None)
        }
        "open-banking" => Profile::open_banking(Side::new(&[Alg::RsaOaep256], Enc::ALL, Wrapper::Bare)),
        _ => return None,
    })
}

/// Reads a file of a key, within the bound of its length.
fn read(setting: &'static str, file: &Path) -> Result<Zeroizing<Vec<u8>>, SettingError> {
    let failed = |err: std::io::Error| SettingError::new(setting, format!("{}: {err}", file.display()));
    let mut bytes = Zeroizing::new(Vec::with_capacity(KEY_FILE_LEN_MAX + 1));
    let opened = std::fs::File::open(file).map_err(failed)?;
    opened.take(KEY_FILE_LEN_MAX as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

impl MessageSettings {
    /// Loads the keys and checks that the profile allows their algorithms.
    ///
    /// # Errors
    /// [`SettingError`]: the first setting that cannot be used.
    pub fn load(&self, provider: &'static dyn JoseProvider) -> Result<Messages, SettingError> {
        let profile = profile(&self.profile).ok_or_else(|| {
            SettingError::new("profile", format!("\"{}\" is none of {}", self.profile, PROFILES.join(", ")))
        })?;
        let enc = self.enc.as_deref().unwrap_or(Enc::A256Gcm.as_str());
        let enc = Enc::parse(enc).filter(|enc| profile.allows(Message::Request, Alg::RsaOaep256, *enc));
        let enc = enc.ok_or_else(|| {
            let allowed = Enc::ALL.iter().filter(|enc| profile.allows(Message::Request, Alg::RsaOaep256, **enc));
            let allowed: Vec<&str> = allowed.map(|enc| enc.as_str()).collect();
            SettingError::new("enc", format!("{} allows {}", profile.name(), allowed.join(", ")))
        })?;
        let at = |setting: &'static str, file: &Path, err: &dyn std::fmt::Display| {
            SettingError::new(setting, format!("{}: {err}", file.display()))
        };
        let public = read("certificate", &self.certificate)?;
        let service = SealingKey::rsa(Alg::RsaOaep256, enc, &public, &self.source("kid", &self.kid)?, provider)
            .map_err(|err| at("certificate", &self.certificate, &err))?;
        let private = read("key", &self.key)?;
        let certificate = self.key_certificate.as_deref().map(|file| read("key_certificate", file)).transpose()?;
        let certificate = certificate.as_ref().map(|bytes| bytes.as_slice());
        let kid = self.source("key_kid", &self.key_kid)?;
        let own = OpeningKey::rsa(Alg::RsaOaep256, &private, certificate, &kid, provider)
            .map_err(|err| at("key", &self.key, &err))?;
        let own = OpeningKeys::new([own.into()]).map_err(|err| at("key", &self.key, &err))?;
        let signatures = match (&self.signatures, profile.name() == "open-banking") {
            (Some(settings), true) => Some(settings.load()?),
            (None, false) => None,
            (None, true) => {
                return Err(SettingError::new("profile", "messages of open-banking are signed: give its keys"));
            }
            (Some(_), false) => return Err(SettingError::new("profile", "only open-banking takes keys of signatures")),
        };
        let profile = signatures.as_ref().map_or(profile.clone(), |signatures| signatures.profile(profile));
        Ok(Messages { profile, service, own, signatures, provider })
    }

    fn source(&self, setting: &'static str, fixed: &Option<String>) -> Result<KidSource, SettingError> {
        if let Some(kid) = fixed {
            return Ok(KidSource::Fixed(kid.clone()));
        }
        let Some(from) = &self.kid_from else {
            return Err(SettingError::new(
                setting,
                "the name of the key is missing: give it, or a derivation of names",
            ));
        };
        KidSource::derived(from).ok_or_else(|| {
            let names = KidSource::DERIVED.map(|(name, _)| name).join(", ");
            SettingError::new("kid_from", format!("\"{from}\" is none of {names}"))
        })
    }
}

impl Messages {
    /// Seals the body of a request, at the time of the system's clock. It costs one RSA operation with a public key, and one with the
    /// private key where a signature stands inside.
    ///
    /// # Errors
    /// [`MessageError::Seal`], [`MessageError::Sign`] and [`MessageError::Random`].
    pub fn seal(&self, plaintext: &[u8]) -> Result<Vec<u8>, MessageError> {
        let mut id = [0; 16];
        self.provider.base().fill_random(&mut id)?;
        let signed = self.signatures.as_ref().map(|signatures| signatures.inside(plaintext, id)).transpose()?;
        let plaintext = signed.as_ref().map_or(plaintext, |signed| signed.as_slice());
        let randoms = SealRandoms::draw(self.provider.base())?;
        let (profile, message) = (&self.profile, Message::Request);
        let token = seal::seal(plaintext, profile, message, &self.service, now_ms(), randoms, self.provider)?;
        Ok(body::wrap(&token, profile.wrapper(message)))
    }

    /// Returns the value of the header `x-jws-signature` for a sealed request; `None` where no signature stands beside the body. It blocks
    /// for one RSA operation with the private key.
    ///
    /// # Errors
    /// [`MessageError::Sign`].
    pub fn signature(&self, sealed: &[u8]) -> Result<Option<String>, MessageError> {
        self.signatures.as_ref().map_or(Ok(None), |signatures| signatures.beside(sealed))
    }

    /// Opens the body of an answer, at the time of the system's clock. `signature` is the answer's header `x-jws-signature`. It blocks for
    /// one RSA operation with the private key. The plaintext is wiped when dropped.
    ///
    /// # Errors
    /// [`MessageError::Answer`] and [`MessageError::Random`].
    pub fn open(&self, answer: &[u8], signature: Option<&str>) -> Result<Zeroizing<Vec<u8>>, MessageError> {
        let (profile, message) = (&self.profile, Message::Answer);
        if let Some(signatures) = &self.signatures {
            signatures.check(signature, answer, profile.replay().window_ms()).map_err(MessageError::Answer)?;
        }
        let token = body::unwrap(answer, profile.wrapper(message)).map_err(MessageError::Answer)?;
        let opening = Opening::begin(&token, profile, message, &self.own, now_ms()).map_err(MessageError::Answer)?;
        let cek = opening.wants().unwrap_here();
        let randoms = OpenRandoms::draw(self.provider.base())?;
        let opened = opening.unwrapped(cek.as_ref().map(|cek| cek.as_slice()), &randoms, self.provider);
        let opened = opened.map_err(MessageError::Answer)?;
        // An answer acts on nothing twice: the caller reads it once.
        let fresh = Fresh::reserved(opened.claim());
        let plaintext = opened.release(fresh)?.into_bytes().map_err(MessageError::Answer)?;
        match &self.signatures {
            Some(signatures) => signatures.payload(plaintext, profile),
            None => Ok(plaintext),
        }
    }

    /// Returns the media type of sealed requests: `application/json`, or that of the profile for a bare token.
    pub fn content_type(&self) -> &'static str {
        self.profile.media_type(Message::Request)
    }

    /// Returns whether the body of an answer has the form of a message, whatever is in it. Errors may come in clear.
    pub fn is_message(&self, answer: &[u8]) -> bool {
        match self.profile.wrapper(Message::Answer) {
            Wrapper::Bare => answer.iter().filter(|byte| **byte == b'.').count() == 4 && answer.starts_with(b"ey"),
            wrapper => body::is_wrapped(answer, wrapper),
        }
    }

    /// Returns the name of the service's key in requests.
    pub fn kid(&self) -> &str {
        self.service.kid()
    }

    /// Returns the profile's name and the algorithm that encrypts the content of requests.
    pub fn names(&self) -> (&'static str, &'static str) {
        (self.profile.name(), self.service.algorithms().1.as_str())
    }
}
