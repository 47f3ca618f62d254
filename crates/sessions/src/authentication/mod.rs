//! Who a client is: by a bearer token, by a token and a proof of the key it is bound to, or by a certificate.
//! `spec/session-3.md#who-the-client-is`. Wires 1 and 2 know bearer tokens alone.
//!
//! It may not know what the client will do with its session, nor what a policy makes of it.

mod certificate;
mod dpop;
mod introspection;
mod token;
mod url;

use http::HeaderMap;
use http::request::Parts;
use sealway_exchange::Sessions;
use sealway_proto::Error;
use sealway_proto::crypto::Provider;
use sealway_proto::session::{Auth, Claim, Family};
use sealway_proto::wire::{Field, Headers, Wire};
use sealway_runtime::http::{FromTrustedProxy, Origin};
use sealway_runtime::tls::{CertificateField, PeerCertificate};

use crate::answer::Refusal;
use crate::authority::Authority;
use crate::token::TokenVerifier;
use sealway_exchange::headers::HttpHeaders;

pub use introspection::{Introspection, IntrospectionConfig};
pub use token::{ClaimNames, Scheme, Token, credential};
pub(crate) use url::normal as normal_url;

/// How clients are recognised.
#[derive(Debug, Default)]
pub struct Authentication {
    /// Whether a session is given to those alone who are recognised. Anonymous inits of wire 1, which are held to a list of
    /// paths, are what they say.
    pub require: bool,
    /// Verifies tokens that are JWTs by keys at hand.
    pub tokens: Option<TokenVerifier>,
    /// Asks about tokens: all of them, or those that are no JWTs where there are keys too.
    pub introspection: Option<Introspection>,
    /// Which claims name subject and tenant.
    pub claims: ClaimNames,
    /// Where clients reach the service, each without a slash at its end: what a proof's `htu` is compared with. Without any,
    /// it is compared with the request's own.
    pub public_urls: Vec<String>,
    /// Recognises clients by their certificates, whose subject is this field.
    pub client_certificate: Option<CertificateField>,
}

impl Authentication {
    /// Whether tokens are looked at. Without, `Authorization` is somebody else's.
    pub fn takes_tokens(&self) -> bool {
        self.tokens.is_some() || self.introspection.is_some()
    }

    /// Verifies a token.
    async fn verify(&self, provider: &dyn Provider, token: &str, now_ms: u64) -> Result<Token, Refusal> {
        match (&self.tokens, &self.introspection) {
            (Some(tokens), None) => Token::read(&tokens.verify(token)?, &self.claims),
            // Never asked about as well: what the keys refuse is refused.
            (Some(tokens), Some(_)) if token::is_jwt(token) => Token::read(&tokens.verify(token)?, &self.claims),
            (_, Some(introspection)) => introspection.ask(provider, token, &self.claims, now_ms).await,
            (None, None) => Err(Refusal::Token("no token is taken")),
        }
    }
}

/// What a client shows of itself at an init of wire 3.
#[derive(Debug)]
pub struct Asked<'a> {
    /// `Authorization`.
    pub authorization: Field<'a>,
    /// The proof of a key, if the init holds one.
    pub proof: Option<&'a str>,
    /// What the proof has to be made for: SHA-256 over what the client says of its init.
    pub init_hash: [u8; 32],
    /// Whether the connection is TLS.
    pub is_tls: bool,
    /// The host that was asked for, with its port if one was said.
    pub host: &'a str,
    /// The path that was asked for.
    pub path: &'a str,
    /// The connection's certificate, verified.
    pub certificate: Option<&'a PeerCertificate>,
    /// Where the connection is a trusted proxy's: what it says in `Client-Cert`. Then [`Asked::certificate`] is the proxy's
    /// own, and says nothing of the client.
    pub forwarded: Option<Field<'a>>,
    /// The clock, in milliseconds since the epoch.
    pub now_ms: u64,
}

impl<'a> Asked<'a> {
    /// What a request shows, with what its body holds.
    pub fn of(parts: &'a Parts, proof: Option<&'a str>, init_hash: [u8; 32], now_ms: u64) -> Self {
        let origin = parts.extensions.get::<Origin>();
        let said_host = parts.headers.get(http::header::HOST).and_then(|host| host.to_str().ok());
        let host = parts.uri.authority().map(|host| host.as_str()).or(said_host);
        let is_forwarded = parts.extensions.get::<FromTrustedProxy>().is_some();
        Asked {
            authorization: field(&parts.headers, "authorization"),
            proof,
            init_hash,
            is_tls: origin.is_some_and(|origin| origin.is_tls),
            host: host.unwrap_or_default(),
            path: parts.uri.path(),
            certificate: origin.and_then(|origin| origin.certificate.as_deref()),
            forwarded: is_forwarded.then(|| field(&parts.headers, "client-cert")),
            now_ms,
        }
    }
}

/// A header's one value.
fn field<'a>(headers: &'a HeaderMap, name: &str) -> Field<'a> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Field::Absent,
        (Some(value), None) => value.to_str().map_or(Field::Malformed, Field::Value),
        _ => Field::Malformed,
    }
}

/// Who a client is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recognised {
    /// How it was recognised.
    pub auth: Auth,
    /// Whom the token or the certificate names.
    pub subject: Option<Box<str>>,
    /// The tenant, where the token names one.
    pub tenant: Option<Box<str>>,
    /// A session's life at most, in seconds: what is left of the token's or the certificate's.
    pub ttl_max_sec: Option<u32>,
}

/// What [`Authority::authenticate`] finds of a client of wires 1 and 2.
#[derive(Debug, Default)]
pub(crate) struct Presented {
    /// Whether `Authorization` was presented and accepted, verified or not.
    pub(crate) accepted: bool,
    pub(crate) who: Recognised,
}

impl Authority {
    /// Who a client of wire 3 is. A proof's `jti` is claimed here.
    ///
    /// # Errors
    /// [`Refusal::Token`] for what does not verify, [`Error::Unauthenticated`] where somebody has to be recognised and nobody
    /// was; else what the store or the introspection endpoint failed with.
    // SPEC session-3.md#who-the-client-is
    pub async fn recognise(&self, asked: &Asked<'_>) -> Result<Recognised, Refusal> {
        let authentication = &self.policy.authentication;
        let certificate = certificate::of(asked)?;
        let authorization = match asked.authorization {
            Field::Absent | Field::Value("") => None,
            Field::Malformed => return Err(Refusal::Token("repeated or not ASCII")),
            Field::Value(value) => Some(value).filter(|_| authentication.takes_tokens()),
        };
        if let Some(authorization) = authorization {
            let (scheme, token) = credential(authorization)?;
            return match (scheme, asked.proof) {
                (Scheme::Bearer, None) => self.bearer(token, certificate.as_deref(), asked.now_ms).await,
                (Scheme::Dpop, Some(proof)) => self.dpop(token, proof, certificate.as_deref(), asked).await,
                (Scheme::Bearer, Some(_)) => Err(Refusal::Token("a proof beside a bearer token")),
                (Scheme::Dpop, None) => Err(Refusal::Token("no proof")),
            };
        }
        match (authentication.client_certificate, certificate) {
            (Some(field), Some(certificate)) => certificate::recognise(field, &certificate, asked.now_ms),
            _ if authentication.require => Err(Error::Unauthenticated.into()),
            _ => Ok(Recognised::default()),
        }
    }

    async fn bearer(
        &self,
        token: &str,
        certificate: Option<&PeerCertificate>,
        now_ms: u64,
    ) -> Result<Recognised, Refusal> {
        let token = self.policy.authentication.verify(self.provider(), token, now_ms).await?;
        if token.thumbprint.is_some() {
            // RFC 9449 section 7.1: else whoever steals it has no need of the key.
            return Err(Refusal::Token("it is bound to a key, and no proof came with it"));
        }
        certificate::check_binding(&token, certificate)?;
        token.recognised(Auth::Bearer, now_ms)
    }

    async fn dpop(
        &self,
        token: &str,
        proof: &str,
        certificate: Option<&PeerCertificate>,
        asked: &Asked<'_>,
    ) -> Result<Recognised, Refusal> {
        let (provider, authentication) = (self.provider(), &self.policy.authentication);
        let urls = url::candidates(&authentication.public_urls, asked);
        let proof = dpop::verify(provider, proof, token, &urls, &asked.init_hash)?;
        let token = authentication.verify(provider, token, asked.now_ms).await?;
        if token.thumbprint.as_deref() != Some(&*proof.thumbprint) {
            return Err(Refusal::Token("it is not bound to the proof's key"));
        }
        certificate::check_binding(&token, certificate)?;
        let replay = &self.policy.replay;
        let claim = Claim::of_proof(provider, &proof.thumbprint, &proof.jti, proof.stamp_ms, asked.now_ms, replay);
        let claim = claim.map_err(|_| Refusal::Token("the proof is too old, or of the future"))?;
        self.reserve(&claim).await.map_err(|refusal| match refusal {
            Refusal::Wire(Error::Replayed) => Refusal::Token("the proof was used before"),
            other => other,
        })?;
        token.recognised(Auth::Dpop, asked.now_ms)
    }

    /// Whether a client of wire 1 or 2 presented a token that was accepted, and who it is. Without a verifier any non-empty
    /// `Authorization` is accepted, as in the field, and names nobody.
    pub(crate) async fn authenticate(&self, family: Family, headers: &HeaderMap) -> Result<Presented, Refusal> {
        let authentication = &self.policy.authentication;
        let headers = HttpHeaders(headers);
        let authorization = match headers.field("authorization") {
            Field::Absent | Field::Value("") => {
                let is_refused = authentication.require && family != Family::Anonymous;
                return if is_refused { Err(Error::Unauthenticated.into()) } else { Ok(Presented::default()) };
            }
            Field::Malformed => return Err(Refusal::Token("repeated or not ASCII")),
            Field::Value(value) => value,
        };
        if family == Family::Session && Wire::of(&headers) == Wire::One {
            self.take_authenticated(authorization)?;
        }
        if !authentication.takes_tokens() {
            return if authentication.require && family != Family::Anonymous {
                Err(Error::Unauthenticated.into())
            } else {
                Ok(Presented { accepted: true, who: Recognised::default() })
            };
        }
        let (Scheme::Bearer, token) = credential(authorization)? else {
            return Err(Refusal::Token("not a bearer token"));
        };
        let who = self.bearer(token, None, self.now_ms()).await?;
        Ok(Presented { accepted: true, who })
    }
}
