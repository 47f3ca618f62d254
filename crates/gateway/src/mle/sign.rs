//! Signatures of requests to a scheme, made after the body is sealed: each scheme's covers the bytes that are sent.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use sealway_proto::mle::sign::jws::{self, Signer as Identity};
use sealway_proto::mle::sign::oauth1::{self, ConsumerKey};
use sealway_proto::mle::sign::{Parties, Request, SigningKey, WebOrigin, acceptance, nested, x_pay_token};
use sealway_proto::mle::{Class, JwsAlg, Refusal};
use sealway_runtime::http::Origin;
use zeroize::Zeroizing;

use super::keys::{KeyRing, contents, jose_provider};
use super::message::{Fault, SealFault};
use super::pool;

const X_PAY_TOKEN: HeaderName = HeaderName::from_static("x-pay-token");
pub(super) const X_JWS_SIGNATURE: HeaderName = HeaderName::from_static(jws::X_JWS_SIGNATURE);
/// Largest file of a secret, in bytes.
const SECRET_LEN_MAX: usize = 4096;

/// The settings of a signature, after their checks.
#[derive(Clone, Debug)]
pub(crate) struct SignPolicy {
    pub(crate) scheme: Scheme,
    /// The scheme's server as the signature names it; by default that of the upstream.
    pub(crate) origin: Option<WebOrigin>,
}

/// The form of a signature, and what it is made with.
#[derive(Clone, Debug)]
pub(crate) enum Scheme {
    /// Mastercard's OAuth 1.0a, with a consumer key.
    OAuth1 { consumer_key_file: PathBuf, key: String },
    /// Visa's HMAC under a shared secret.
    XPayToken { shared_secret_file: PathBuf, path_prefix: String },
    /// The JWT of Visa Acceptance.
    VisaAcceptanceJwt { merchant_id: String, key: String },
    /// Open banking's signature beside the body.
    JwsDetached { key: String, signer: Identity },
    /// Open banking's signature inside of the token.
    JwsNested { key: String, parties: Parties },
}

impl Scheme {
    /// Returns the name of its section in the configuration.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Scheme::OAuth1 { .. } => "oauth1",
            Scheme::XPayToken { .. } => "x_pay_token",
            Scheme::VisaAcceptanceJwt { .. } => "visa_acceptance_jwt",
            Scheme::JwsDetached { .. } => "jws_detached",
            Scheme::JwsNested { .. } => "jws_nested",
        }
    }

    /// Returns whether the signature names the server.
    pub(crate) fn covers_host(&self) -> bool {
        matches!(self, Scheme::OAuth1 { .. } | Scheme::VisaAcceptanceJwt { .. })
    }
}

/// A signature with its secrets.
#[derive(Clone, Debug)]
pub(super) struct Signer(Arc<Secrets>);

struct Secrets {
    origin: WebOrigin,
    form: Form,
}

enum Form {
    OAuth1(ConsumerKey, Arc<SigningKey>),
    XPayToken(Zeroizing<Vec<u8>>, String),
    VisaAcceptanceJwt { merchant_id: String, answer_kid: Option<String>, key: Arc<SigningKey> },
    JwsDetached(Identity, Arc<SigningKey>),
    JwsNested(Parties, Arc<SigningKey>),
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl Signer {
    /// Reads the secrets. `servers` are those of the upstream, and `answer_kid` names the key that answers are encrypted to.
    ///
    /// # Errors
    /// The setting at fault below `mle`, and what is wrong with it.
    pub(super) fn new(
        policy: &SignPolicy,
        ring: &KeyRing,
        servers: &[WebOrigin],
        answer_kid: Option<String>,
    ) -> Result<Signer, (String, String)> {
        let at = |setting: &str| format!("sign.{}.{setting}", policy.scheme.name());
        let key = |name: &str| {
            ring.signing(name).ok_or_else(|| (at("key"), format!("no key of mle_keys that signs is named \"{name}\"")))
        };
        let form = match &policy.scheme {
            Scheme::OAuth1 { consumer_key_file: file, key: name } => {
                let text = secret(file).map_err(|err| (at("consumer_key_file"), err))?;
                let consumer_key = std::str::from_utf8(&text).ok().and_then(ConsumerKey::parse);
                let consumer_key = consumer_key.ok_or_else(|| {
                    let expected = "expected one line of 1 to 256 letters, digits and -._~!";
                    (at("consumer_key_file"), format!("{}: {expected}", file.display()))
                })?;
                Form::OAuth1(consumer_key, key(name)?)
            }
            Scheme::XPayToken { shared_secret_file: file, path_prefix } => {
                Form::XPayToken(secret(file).map_err(|err| (at("shared_secret_file"), err))?, path_prefix.clone())
            }
            Scheme::VisaAcceptanceJwt { merchant_id, key: name } => {
                Form::VisaAcceptanceJwt { merchant_id: merchant_id.clone(), answer_kid, key: key(name)? }
            }
            Scheme::JwsDetached { key: name, signer } => Form::JwsDetached(signer.clone(), key(name)?),
            Scheme::JwsNested { key: name, parties } => Form::JwsNested(parties.clone(), key(name)?),
        };
        let sole = match servers {
            [first, rest @ ..] if rest.iter().all(|other| other == first) => Some(first),
            _ => None,
        };
        let origin = match policy.origin.as_ref().or(sole) {
            Some(origin) => origin.clone(),
            None if !policy.scheme.covers_host() => WebOrigin::new(true, "localhost"),
            None => {
                let why = "the upstream has no server over TCP, or several with different names: write the scheme's, \
                           such as https://api.example.com";
                return Err(("sign.origin".into(), why.into()));
            }
        };
        Ok(Signer(Arc::new(Secrets { origin, form })))
    }

    /// Sets the header of the signature, in the place of one that came, and returns the kid of the key. `parts` and `body` are the
    /// request as the upstream receives it.
    pub(super) async fn sign(&self, parts: &mut Parts, body: &Bytes, now_ms: u64) -> Result<Option<&str>, Fault> {
        let randoms = randoms()?;
        let (secrets, body, method, uri) = (self.0.clone(), body.clone(), parts.method.clone(), parts.uri.clone());
        let work = move || {
            let (path, query) = (uri.path(), uri.query());
            let request = Request { method: method.as_str(), origin: &secrets.origin, path, query, body: &body };
            secrets.form.sign(&request, now_ms, randoms)
        };
        let (name, value) = match self.0.form {
            Form::XPayToken(..) => work()?,
            _ => pool::run(parts.extensions.get::<Origin>(), 1, work).await??,
        };
        insert(&mut parts.headers, name, value)?;
        Ok(self.kid())
    }

    /// Signs the body of an answer as it is sent, if the signature stands beside it, and returns the kid of the key.
    pub(super) async fn sign_answer(
        &self,
        origin: Option<&Origin>,
        headers: &mut HeaderMap,
        body: &Bytes,
        now_ms: u64,
    ) -> Result<Option<&str>, Fault> {
        let Form::JwsDetached(signer, key) = &self.0.form else { return Ok(None) };
        let (signer, signs, body) = (signer.clone(), key.clone(), body.clone());
        let work = move || jws::sign_detached(&body, &signer, &signs, now_ms);
        let value = pool::run(origin, 1, work).await??;
        insert(headers, X_JWS_SIGNATURE, value)?;
        Ok(Some(key.kid()))
    }

    /// Signs plaintexts before they are sealed, if the signature stands inside of their tokens; otherwise they stay as they are.
    pub(super) async fn sign_inside(
        &self,
        origin: Option<&Origin>,
        plaintexts: Vec<Zeroizing<Vec<u8>>>,
        now_ms: u64,
    ) -> Result<Vec<Zeroizing<Vec<u8>>>, SealFault> {
        let Form::JwsNested(parties, key) = &self.0.form else { return Ok(plaintexts) };
        let (parties, key, operations) = (parties.clone(), key.clone(), plaintexts.len());
        let work = move || {
            let sign = |plaintext: &Zeroizing<Vec<u8>>| {
                let token = nested::sign(plaintext, &parties, &key, now_ms, randoms()?)?;
                Ok::<_, Refusal>(Zeroizing::new(token.into_bytes()))
            };
            plaintexts.iter().map(sign).collect::<Result<_, _>>()
        };
        pool::run(origin, operations, work).await.map_err(|_| SealFault::Overload)?.map_err(SealFault::Body)
    }

    /// Returns the name of the key; `None` for a shared secret.
    pub(super) fn kid(&self) -> Option<&str> {
        self.0.form.key().map(|key| key.kid())
    }

    /// Returns the name and the algorithm of the key; `None` for a shared secret.
    pub(super) fn key_and_algorithm(&self) -> Option<(&str, JwsAlg)> {
        self.0.form.key().map(|key| (key.kid(), key.alg()))
    }

    /// Returns whether the signature stands inside of tokens.
    pub(super) fn is_nested(&self) -> bool {
        matches!(self.0.form, Form::JwsNested(..))
    }
}

fn randoms() -> Result<[u8; 16], Refusal> {
    let mut randoms = [0; 16];
    let drawn = jose_provider().base().fill_random(&mut randoms);
    drawn.map_err(|_| Refusal::new(Class::Signature, "the generator of random numbers failed"))?;
    Ok(randoms)
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: String) -> Result<(), Refusal> {
    let value = HeaderValue::try_from(value);
    let mut value = value.map_err(|_| Refusal::new(Class::Signature, "the signature is no value of a header"))?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(())
}

impl Form {
    fn key(&self) -> Option<&SigningKey> {
        match self {
            Form::XPayToken(..) => None,
            Form::OAuth1(_, key)
            | Form::VisaAcceptanceJwt { key, .. }
            | Form::JwsDetached(_, key)
            | Form::JwsNested(_, key) => Some(key),
        }
    }

    /// Returns the header of the signature, of a form that has one. This blocks for a private operation, but for the HMAC.
    fn sign(&self, request: &Request<'_>, now_ms: u64, randoms: [u8; 16]) -> Result<(HeaderName, String), Refusal> {
        let hashes = jose_provider().base();
        Ok(match self {
            Form::OAuth1(consumer_key, key) => {
                let value = oauth1::authorization(request, consumer_key, key, now_ms, randoms, hashes)?;
                (AUTHORIZATION, value)
            }
            Form::XPayToken(secret, prefix) => {
                (X_PAY_TOKEN, x_pay_token::token(request, secret, prefix, now_ms, hashes)?)
            }
            Form::VisaAcceptanceJwt { merchant_id, answer_kid, key } => {
                let kid = answer_kid.as_deref();
                let token = acceptance::token(request, merchant_id, kid, key, now_ms, randoms, hashes)?;
                (AUTHORIZATION, format!("Bearer {token}"))
            }
            Form::JwsDetached(signer, key) => (X_JWS_SIGNATURE, jws::sign_detached(request.body, signer, key, now_ms)?),
            Form::JwsNested(..) => return Err(Refusal::new(Class::Signature, "the signature has no header")),
        })
    }
}

/// Reads a secret: a file of one line, without the end of that line.
fn secret(path: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
    let mut bytes = contents(path)?;
    let len = bytes.trim_ascii_end().len();
    bytes.truncate(len);
    let is_line = !bytes.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
    if (1..=SECRET_LEN_MAX).contains(&len) && is_line {
        return Ok(bytes);
    }
    Err(format!("{}: expected one line of 1 to {SECRET_LEN_MAX} bytes", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        let read = |content: &[u8]| {
            std::fs::write(&file, content).unwrap();
            secret(&file).map(|bytes| bytes.to_vec())
        };
        assert_eq!(read(b"a b+\r\n"), Ok(b"a b+".to_vec()));
        assert_eq!(read(b"abc"), Ok(b"abc".to_vec()));
        for content in [&b""[..], b"\n", b"a\nb", b"a\0b", &[b'a'; SECRET_LEN_MAX + 1]] {
            let err = read(content).unwrap_err();
            assert!(err.contains("expected one line") && err.contains("secret:"), "{err}");
        }
        assert!(secret(&folder.path().join("gone")).unwrap_err().contains("gone"));
    }
}
