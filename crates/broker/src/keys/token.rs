//! Keys on PKCS#11 tokens. Their material in the store is the URI of the key and its public half, wrapped like other
//! material, so that a changed file cannot name another key. A URI of a key never names a module: modules are programs,
//! and only the operator's settings name them.

use std::sync::Arc;

use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sealway_awslc::{Hash, Kind, MlDsa, PublicKey, Scheme};
use sealway_pkcs11::{
    Error, Fault, Gcm, Generate, Hash as TokenHash, KeyName, ObjectKind, SecretKind, Signing, Token, Uri,
};
use zeroize::Zeroizing;

use super::algorithm::secret_len;
use super::material::SECRET_LENS;
use super::{Algorithm, Content, Wrap, WrappedKey};
use crate::profile::policy::{Curve, EncryptAlgorithm, MacAlgorithm, MlDsaAlgorithm};
use crate::service::{count_kek, work_of};
use crate::{Code, Refusal, Result};

/// Begin of the material of a key on a token.
const SCHEME: &[u8] = b"pkcs11:";
/// Length of the secret of decoys, in bytes.
const DECOYS_LEN: usize = 32;
const NONCE_LEN: usize = 12;
const TAG_LEN: usize = 16;
/// Id of the key-encryption key on a token.
const KEK_ID: &str = "pkcs11";

/// The tokens of the settings.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    all: Arc<[Token]>,
    /// Token on which the store generates keys.
    generates_on: Option<Uri>,
}

impl Tokens {
    /// Creates the list of tokens.
    pub fn new(tokens: Vec<Token>) -> Tokens {
        Tokens { all: tokens.into(), generates_on: None }
    }

    /// Generates the keys of the store on the token that this URI names.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`]: not the URI of one of the tokens alone.
    pub fn generating_on(self, uri: &str) -> Result<Tokens> {
        let uri = parse(uri)?;
        if uri.key().is_some() || uri.kind.is_some() {
            return Err(Refusal::invalid("material: expected the URI of a token, without object, id and type"));
        }
        // As a check: a key of this name need not exist.
        self.find(&Uri { object: Some("key".into()), ..uri.clone() })?;
        Ok(Tokens { generates_on: Some(uri), ..self })
    }

    /// Returns each token that is not ready, with the reason.
    pub fn not_ready(&self) -> Vec<(String, Error)> {
        self.all.iter().filter_map(|token| Some((token.name().to_owned(), token.health().err()?))).collect()
    }

    /// Finds the token of a key's URI, and the key's name on it.
    fn find(&self, uri: &Uri) -> Result<TokenKey> {
        let key = uri.key().ok_or_else(|| Refusal::invalid("material: the URI names no key; expected object or id"))?;
        let mut on = self.all.iter().filter(|token| uri.is_on(token.uri()));
        match (on.next(), on.next()) {
            (Some(token), None) => Ok(TokenKey { token: token.clone(), key }),
            (None, _) => {
                let text = "material: the URI is of no token of this broker; --pkcs11 names its tokens";
                Err(Refusal::new(Code::FailedPrecondition, text))
            }
            (Some(_), Some(_)) => Err(Refusal::invalid("material: the URI fits several tokens of this broker")),
        }
    }

    /// Reads the URI of a key-encryption key, AES with 256 bits, on one of the tokens.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`]: the URI; otherwise its token's state, or the key is no AES key.
    pub fn kek(&self, uri: &str) -> Result<TokenKek> {
        let key = self.find(&parse(uri)?)?;
        // The start waits for a token that is just connecting.
        let ready = work_of(u64::MAX, || key.token.wait_ready(std::time::Duration::from_secs(10)));
        ready.map_err(|err| key.refusal(&err))?;
        check_secret(&key, Algorithm::Encrypt(EncryptAlgorithm::Aes256Gcm))?;
        Ok(TokenKek { key, earlier: None })
    }
}

/// A key on a token.
#[derive(Clone)]
pub(crate) struct TokenKey {
    token: Token,
    key: KeyName,
}

impl TokenKey {
    fn run<T>(&self, work: impl FnOnce(&Token, &KeyName) -> Result<T, Error>) -> Result<T> {
        // It waits for another process: other calls of this thread continue elsewhere.
        work_of(u64::MAX, || work(&self.token, &self.key)).map_err(|err| self.refusal(&err))
    }

    fn refusal(&self, err: &Error) -> Refusal {
        let code = match err.fault {
            Fault::PinWrong | Fault::PinLocked | Fault::PinFinalTry | Fault::PinSource | Fault::Module => {
                Code::FailedPrecondition
            }
            Fault::Share => return Refusal::share(format!("{}: {err}", self.token.name())),
            Fault::Data => Code::InvalidArgument,
            fault if fault.is_unavailable() => Code::Unavailable,
            _ => Code::FailedPrecondition,
        };
        if err.fault.is_unavailable() {
            tracing::warn!(token = self.token.name(), reason = err.fault.name(), %err, "an operation on a token failed");
        }
        Refusal::new(code, format!("{}: {err}", self.token.name()))
    }

    /// Signs an input by RSA, ECDSA in DER form, or ML-DSA in its pure mode with an empty context. The signature is verified before it leaves: a token whose key
    /// was replaced, or that computes wrongly, gives an error.
    pub(crate) fn sign(&self, public: &PublicKey, scheme: Scheme, content: Content, input: &[u8]) -> Result<Vec<u8>> {
        let signing = match (scheme, public.kind()) {
            (Scheme::RsaPkcs1(hash), _) => digest(hash).map(Signing::RsaPkcs1),
            (Scheme::RsaPss(hash), _) => digest(hash).map(Signing::RsaPss),
            (Scheme::Ecdsa(hash), Kind::Ec(curve)) => digest(hash).map(|hash| Signing::Ecdsa(hash, order_len(curve))),
            (Scheme::MlDsa(set), Kind::MlDsa(found)) => (set == found).then_some(Signing::MlDsa),
            (Scheme::Ecdsa(_) | Scheme::MlDsa(_), _) => None,
        };
        let signing = signing.ok_or_else(|| Refusal::new(Code::Internal, "SignData: not an algorithm of tokens"))?;
        let (signature, verified) = match content {
            Content::Message => {
                let signature = self.run(|token, key| token.sign(key, signing, input))?;
                let verified = public.verify(scheme, input, &signature);
                (signature, verified)
            }
            Content::Digest => {
                let signature = self.run(|token, key| token.sign_digest(key, signing, input))?;
                let verified = public.verify_digest(scheme, input, &signature);
                (signature, verified)
            }
        };
        verified.map_err(|_| self.differs())?;
        Ok(signature)
    }

    /// Signs a message by Ed25519; verified as [`TokenKey::sign`] does.
    pub(crate) fn sign_ed25519(&self, public: &[u8], message: &[u8]) -> Result<Vec<u8>> {
        let signature = self.run(|token, key| token.sign(key, Signing::Ed25519, message))?;
        let public = aws_lc_rs::signature::UnparsedPublicKey::new(&aws_lc_rs::signature::ED25519, public);
        public.verify(message, &signature).map_err(|_| self.differs())?;
        Ok(signature)
    }

    fn differs(&self) -> Refusal {
        tracing::error!(token = self.token.name(), "a token's signature does not verify under the key's public half");
        Refusal::new(Code::Internal, format!("{}: the key on the token is not that of the store", self.token.name()))
    }

    /// Computes a MAC of a message.
    pub(crate) fn mac(&self, algorithm: MacAlgorithm, message: &[u8]) -> Result<Vec<u8>> {
        let hash = match algorithm {
            MacAlgorithm::HmacSha256 => TokenHash::Sha256,
            MacAlgorithm::HmacSha384 => TokenHash::Sha384,
            MacAlgorithm::HmacSha512 => TokenHash::Sha512,
        };
        self.run(|token, key| token.sign(key, Signing::Hmac(hash), message))
    }

    /// Encrypts by AES-GCM; the tag stands at the end.
    pub(crate) fn seal(&self, nonce: &[u8], aad: &[u8], tag_len: usize, text: &[u8]) -> Result<Vec<u8>> {
        self.run(|token, key| token.seal(key, Gcm { nonce, aad, tag_len }, text))
    }

    /// Decrypts by AES-GCM: [`Code::InvalidArgument`] if it does not open.
    pub(crate) fn open(&self, nonce: &[u8], aad: &[u8], tag_len: usize, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
        self.run(|token, key| token.open(key, Gcm { nonce, aad, tag_len }, sealed))
    }

    /// Decrypts by RSA-OAEP; `None` if it does not decrypt.
    pub(crate) fn decrypt_oaep(&self, is_sha1: bool, input: &[u8]) -> Result<Option<Zeroizing<Vec<u8>>>> {
        self.run(|token, key| match token.decrypt_oaep(key, is_sha1, input) {
            Err(err) if err.fault == Fault::Data => Ok(None),
            done => done.map(Some),
        })
    }
}

/// Parsed material of a key on a token.
pub(crate) struct TokenMaterial {
    pub(crate) key: TokenKey,
    /// SubjectPublicKeyInfo; for a key that decrypts content keys with the secret of decoys before it.
    pub(crate) public: Vec<u8>,
    pub(crate) decoys: Vec<u8>,
}

/// True for the material of a key on a token, as it is imported and as it is stored.
pub(crate) fn is_on_token(material: &[u8]) -> bool {
    material.starts_with(SCHEME)
}

/// Checks that an imported URI names a key whose label is the id, or the id with `-v` and a number. Rules for callers name ids: a
/// caller who may import one key must not reach the others of the token.
pub(crate) fn check_label(id: &str, material: &[u8]) -> Result<()> {
    if !is_on_token(material) {
        return Ok(());
    }
    let uri = uri_ahead(material)?;
    let is_version = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    let rest = uri.object.as_deref().and_then(|label| label.strip_prefix(id));
    if rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix("-v").is_some_and(is_version)) {
        return Ok(());
    }
    let text =
        format!("material: expected object={id} or object={id}-vNUMBER in the URI: the label is the id of the key");
    Err(Refusal::invalid(text))
}

/// Label in the URI of imported material; `None` without one.
pub(crate) fn label(material: &[u8]) -> Option<String> {
    is_on_token(material).then(|| uri_ahead(material).ok()?.object)?
}

/// Id of the key that a label names: the label, without `-v` and a number at its end.
pub(crate) fn id_of(label: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    label.rsplit_once("-v").filter(|(_, number)| is_number(number)).map_or(label, |(id, _)| id)
}

fn parse(text: &str) -> Result<Uri> {
    let uri = Uri::parse(text.trim()).map_err(|err| Refusal::invalid(format!("material: {err}")))?;
    if uri.has_query() {
        let text = "material: the URI of a key has no module-path and no pin-source; the broker's --pkcs11 has them";
        return Err(Refusal::invalid(text));
    }
    Ok(uri)
}

/// Reads a key of an imported URI from its token, checks that it is one of the algorithm, and returns its material.
pub(crate) fn import(tokens: &Tokens, algorithm: Algorithm, material: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    let uri = parse(imported_text(material)?)?;
    let key = tokens.find(&uri)?;
    // With all that the settings say of the token: a key does not move to another one that comes later.
    let Uri { token, serial, manufacturer, model, .. } = key.token.uri().clone();
    let uri = Uri { token, serial, manufacturer, model, ..uri };
    let wanted = if algorithm.is_asymmetric() { ObjectKind::Private } else { ObjectKind::Secret };
    if uri.kind.is_some_and(|kind| kind != wanted) {
        return Err(Refusal::invalid(format!("material: the type in the URI is not that of a key of {algorithm}")));
    }
    let mut public = Vec::new();
    if algorithm.is_asymmetric() {
        public = key.run(|token, key| token.public_key(key))?;
        check_public(algorithm, &public)?;
    } else {
        check_secret(&key, algorithm)?;
    }
    stored(&uri, algorithm, &public)
}

/// Generates the first version of a key on the token of the settings, with its id as the label; `None` if there is none.
pub(crate) fn generate_first(tokens: &Tokens, algorithm: Algorithm, id: &str) -> Result<Option<Zeroizing<Vec<u8>>>> {
    let Some(on) = &tokens.generates_on else { return Ok(None) };
    let named = Uri { object: Some(id.to_owned()), ..on.clone() };
    generate(tokens, algorithm, named.to_string().as_bytes(), id).map(Some)
}

/// Generates the next version of a key on the token of the version before, with a label that the key's id begins.
pub(crate) fn generate(
    tokens: &Tokens,
    algorithm: Algorithm,
    before: &[u8],
    label: &str,
) -> Result<Zeroizing<Vec<u8>>> {
    let uri = material_uri(before)?;
    let on = tokens.find(&uri)?;
    let kind = match algorithm {
        Algorithm::Ecdsa(Curve::P256) => (Generate::P256, 0),
        Algorithm::Ecdsa(Curve::P384) => (Generate::P384, 0),
        Algorithm::Ecdsa(Curve::P521) => (Generate::P521, 0),
        Algorithm::Ed25519 => (Generate::Ed25519, 0),
        Algorithm::Rsa(bits) => (Generate::RsaSign, bits),
        Algorithm::RsaUnwrap(bits) => (Generate::RsaDecrypt, bits),
        Algorithm::Encrypt(_) => (Generate::Aes, u32::try_from(secret_len(algorithm)).unwrap_or(0)),
        Algorithm::Mac(_) => (Generate::Hmac, u32::try_from(secret_len(algorithm)).unwrap_or(0)),
        Algorithm::MlDsa(MlDsaAlgorithm::MlDsa44) => (Generate::MlDsa44, 0),
        Algorithm::MlDsa(MlDsaAlgorithm::MlDsa65) => (Generate::MlDsa65, 0),
        Algorithm::MlDsa(MlDsaAlgorithm::MlDsa87) => (Generate::MlDsa87, 0),
        Algorithm::Derive(_) | Algorithm::Kem(_) => return Err(not_on_tokens(algorithm)),
    };
    // Never sent twice: a caller that repeats it meets the key that the first call may have generated.
    let made = on.run(|token, _| token.generate(label, kind.0, kind.1));
    let key = made.map_err(|refusal| Refusal { code: Code::FailedPrecondition, ..refusal })?;
    let uri = Uri { object: key.label, id: key.id, kind: None, ..uri };
    import(tokens, algorithm, uri.to_string().as_bytes())
}

fn stored(uri: &Uri, algorithm: Algorithm, public: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    let mut decoys = Vec::new();
    if let Algorithm::RsaUnwrap(_) = algorithm {
        decoys = vec![0; DECOYS_LEN];
        rand::fill(&mut decoys).map_err(|_| Refusal::new(Code::Internal, "key store: no randomness"))?;
    }
    let text = format!("{uri}\n{}\n{}", STANDARD.encode(public), STANDARD.encode(&decoys));
    Ok(Zeroizing::new(text.into_bytes()))
}

/// Reads the URI of imported material, behind which a certificate may stand.
fn uri_ahead(material: &[u8]) -> Result<Uri> {
    parse(imported_text(material)?.lines().next().unwrap_or_default())
}

fn imported_text(material: &[u8]) -> Result<&str> {
    std::str::from_utf8(material).map_err(|_| Refusal::invalid("material: a URI that is not UTF-8"))
}

/// Reads the URI of material as the store keeps it.
fn material_uri(material: &[u8]) -> Result<Uri> {
    let text = std::str::from_utf8(material).ok().and_then(|text| text.lines().next());
    parse(text.ok_or_else(damaged)?)
}

fn damaged() -> Refusal {
    Refusal::new(Code::Internal, "key store: the material of a key on a token does not parse")
}

/// Parses material as the store keeps it.
pub(crate) fn parse_stored(tokens: &Tokens, material: &[u8]) -> Result<TokenMaterial> {
    let key = tokens
        .find(&material_uri(material)?)
        .map_err(|refusal| Refusal { text: refusal.text.replace("material: ", "key_id: "), ..refusal })?;
    let text = std::str::from_utf8(material).map_err(|_| damaged())?;
    let mut parts = text.lines().skip(1).map(|part| STANDARD.decode(part).map_err(|_| damaged()));
    let (public, decoys) = (parts.next().ok_or_else(damaged)??, parts.next().transpose()?.unwrap_or_default());
    Ok(TokenMaterial { key, public, decoys })
}

fn check_public(algorithm: Algorithm, spki: &[u8]) -> Result<()> {
    let unfit = |text: &str| Refusal::invalid(format!("material: the token's key is not one of {algorithm}: {text}"));
    let key = PublicKey::from_spki(spki).map_err(|_| unfit("its public half does not parse"))?;
    let is_fit = match (algorithm, key.kind()) {
        (Algorithm::Ecdsa(curve), Kind::Ec(found)) => order_len(found) == curve.bits().div_ceil(8) as usize,
        (Algorithm::Rsa(bits) | Algorithm::RsaUnwrap(bits), Kind::Rsa(found)) => bits == found,
        (Algorithm::Ed25519, Kind::Ed25519) => true,
        (Algorithm::MlDsa(set), Kind::MlDsa(found)) => MlDsa::from(set) == found,
        (Algorithm::Kem(_), _) => return Err(not_on_tokens(algorithm)),
        _ => false,
    };
    if is_fit { Ok(()) } else { Err(unfit("it has another type or size")) }
}

fn check_secret(key: &TokenKey, algorithm: Algorithm) -> Result<()> {
    let wanted = match algorithm {
        Algorithm::Encrypt(EncryptAlgorithm::Aes128Gcm | EncryptAlgorithm::Aes192Gcm | EncryptAlgorithm::Aes256Gcm) => {
            SecretKind::Aes
        }
        Algorithm::Mac(_) => SecretKind::Generic,
        _ => return Err(not_on_tokens(algorithm)),
    };
    let (kind, len) = key.run(|token, key| token.secret_key(key))?;
    if kind != wanted {
        return Err(Refusal::invalid(format!("material: the token's key is not one of {algorithm}: its type")));
    }
    // A token may hide the length of a secret.
    if wanted == SecretKind::Generic && len != 0 && !SECRET_LENS.contains(&len) {
        return Err(Refusal::invalid(format!(
            "material: the token's key is not one of {algorithm}: it has {len} bytes"
        )));
    }
    if wanted == SecretKind::Aes && len != secret_len(algorithm) {
        return Err(Refusal::invalid(format!(
            "material: the token's key is not one of {algorithm}: it has {len} bytes"
        )));
    }
    Ok(())
}

fn not_on_tokens(algorithm: Algorithm) -> Refusal {
    Refusal::new(Code::FailedPrecondition, format!("{algorithm}: keys of this algorithm cannot be on a token"))
}

fn digest(hash: Hash) -> Option<TokenHash> {
    match hash {
        Hash::Sha1 => None,
        Hash::Sha256 => Some(TokenHash::Sha256),
        Hash::Sha384 => Some(TokenHash::Sha384),
        Hash::Sha512 => Some(TokenHash::Sha512),
    }
}

fn order_len(curve: sealway_awslc::Curve) -> usize {
    match curve {
        sealway_awslc::Curve::P224 => 28,
        sealway_awslc::Curve::P256 | sealway_awslc::Curve::Secp256k1 => 32,
        sealway_awslc::Curve::P384 => 48,
        sealway_awslc::Curve::P521 => 66,
    }
}

/// A key-encryption key on a token: it wraps and unwraps at the first use of a version and when a key changes; an operation
/// waits for it only then.
pub struct TokenKek {
    key: TokenKey,
    /// Keys that wrapped earlier material; they only unwrap.
    earlier: Option<super::Kek>,
}

impl TokenKek {
    /// Adds the keys that wrapped material before.
    #[must_use]
    pub fn with_earlier(self, earlier: super::Kek) -> TokenKek {
        TokenKek { earlier: Some(earlier), ..self }
    }
}

impl Wrap for TokenKek {
    fn wrap(&self, aad: &[u8], material: &[u8]) -> Result<WrappedKey> {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).map_err(|_| Refusal::new(Code::Internal, "key store: cannot wrap"))?;
        let sealed = self.key.seal(&nonce, aad, TAG_LEN, material)?;
        count_kek("kek-wrap", KEK_ID);
        Ok(WrappedKey { kek_id: KEK_ID.into(), bytes: [nonce.as_slice(), &sealed].concat() })
    }

    fn unwrap(&self, aad: &[u8], wrapped: &WrappedKey) -> Result<Zeroizing<Vec<u8>>> {
        if wrapped.kek_id != KEK_ID {
            if let Some(earlier) = &self.earlier {
                return earlier.unwrap(aad, wrapped);
            }
            let text = format!(
                "key store: wrapped under \"{}\", which is not the token's key; name its file by --kek-file too",
                wrapped.kek_id
            );
            return Err(Refusal::new(Code::Internal, text));
        }
        count_kek("kek-unwrap", KEK_ID);
        let damaged = || Refusal::new(Code::Internal, "key store: does not unwrap");
        let (nonce, sealed) = wrapped.bytes.split_first_chunk::<NONCE_LEN>().ok_or_else(damaged)?;
        self.key.open(nonce, aad, TAG_LEN, sealed).map_err(|refusal| match refusal.code {
            Code::InvalidArgument => damaged(),
            _ => refusal,
        })
    }

    fn active_id(&self) -> &str {
        KEK_ID
    }
}

#[cfg(all(test, not(feature = "fips")))]
mod tests {
    use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
    use aws_lc_rs::signature::{KeyPair, PqdsaKeyPair};

    use super::*;

    #[test]
    fn a_key_of_another_parameter_set_is_rejected() {
        for (name, set) in MlDsaAlgorithm::NAMES {
            let pair = PqdsaKeyPair::generate(crate::keys::form::ml_dsa(set)).unwrap();
            let spki: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
            for (_, other) in MlDsaAlgorithm::NAMES {
                let checked = check_public(Algorithm::MlDsa(other), spki.as_ref());
                assert_eq!(checked.is_ok(), other == set, "{name}");
            }
            assert!(check_public(Algorithm::Ecdsa(Curve::P256), spki.as_ref()).is_err());
        }
    }
}
