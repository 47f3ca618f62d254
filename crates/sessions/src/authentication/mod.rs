//! Client authentication: by a bearer token, by a token and a proof of the key it is bound to, or by a certificate.
//! `spec/session-3.md#who-the-client-is`. Wires 1 and 2 have bearer tokens only.
//!
//! It may not know the purpose of a session, nor the policy that applies to it.

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

/// Ways in which clients are authenticated.
#[derive(Debug, Default)]
pub struct Authentication {
    /// True if only authenticated clients get a session. Anonymous inits of wire 1, which are limited to a list of
    /// paths, stay allowed.
    pub require: bool,
    /// Verifies tokens that are JWTs with local keys.
    pub tokens: Option<TokenVerifier>,
    /// Asks an endpoint about tokens: all of them, or with local keys only those that are no JWTs.
    pub introspection: Option<Introspection>,
    /// Claims that name subject and tenant.
    pub claims: ClaimNames,
    /// Public URLs of the service, each without a slash at its end, with which a proof's `htu` is compared. If empty,
    /// `htu` is compared with the request's own URL.
    pub public_urls: Vec<String>,
    /// Certificate field that is the subject of a client; `None` disables authentication by certificate.
    pub client_certificate: Option<CertificateField>,
}

impl Authentication {
    /// True if tokens are verified. Otherwise `Authorization` belongs to the application.
    pub fn takes_tokens(&self) -> bool {
        self.tokens.is_some() || self.introspection.is_some()
    }

    /// Verifies a token, with local keys or by introspection.
    async fn verify(&self, provider: &dyn Provider, token: &str, now_ms: u64) -> Result<Token, Refusal> {
        match (&self.tokens, &self.introspection) {
            (Some(tokens), None) => Token::read(&tokens.verify(token)?, &self.claims),
            // A JWT that the local keys reject is not sent to introspection.
            (Some(tokens), Some(_)) if token::is_jwt(token) => Token::read(&tokens.verify(token)?, &self.claims),
            (_, Some(introspection)) => introspection.ask(provider, token, &self.claims, now_ms).await,
            (None, None) => Err(Refusal::Token("no token is taken")),
        }
    }
}

/// Credentials that a client presents at an init of wire 3.
#[derive(Debug)]
pub struct InitCredentials<'a> {
    /// Value of the header `Authorization`.
    pub authorization: Field<'a>,
    /// The DPoP proof, if the init holds one.
    pub proof: Option<&'a str>,
    /// SHA-256 over the client's part of the init, for which the proof must have been made.
    pub init_hash: [u8; 32],
    /// True if the connection is TLS.
    pub is_tls: bool,
    /// The requested host, with its port if the request named one.
    pub host: &'a str,
    /// The requested path, without its query.
    pub path: &'a str,
    /// The certificate of the connection, verified by the listener.
    pub certificate: Option<&'a PeerCertificate>,
    /// Value of `Client-Cert` if the connection is a trusted proxy's. Then [`InitCredentials::certificate`] is the proxy's own,
    /// and does not identify the client.
    pub forwarded: Option<Field<'a>>,
    /// Current time, in milliseconds since the epoch.
    pub now_ms: u64,
}

impl<'a> InitCredentials<'a> {
    /// Collects the credentials in a request's head, with the proof from its body.
    pub fn of(parts: &'a Parts, proof: Option<&'a str>, init_hash: [u8; 32], now_ms: u64) -> Self {
        let origin = parts.extensions.get::<Origin>();
        let said_host = parts.headers.get(http::header::HOST).and_then(|host| host.to_str().ok());
        let host = parts.uri.authority().map(|host| host.as_str()).or(said_host);
        let is_forwarded = parts.extensions.get::<FromTrustedProxy>().is_some();
        InitCredentials {
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

/// Returns the value of a header that occurs at most once.
fn field<'a>(headers: &'a HeaderMap, name: &str) -> Field<'a> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Field::Absent,
        (Some(value), None) => value.to_str().map_or(Field::Malformed, Field::Value),
        _ => Field::Malformed,
    }
}

/// Identity of an authenticated client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientIdentity {
    /// Method by which the client was authenticated.
    pub auth: Auth,
    /// Subject that the token or the certificate names.
    pub subject: Option<Box<str>>,
    /// Tenant that the token names, if any.
    pub tenant: Option<Box<str>>,
    /// Maximum lifetime of a session, in seconds: the remaining lifetime of the token or the certificate.
    pub ttl_max_sec: Option<u32>,
}

/// Result of [`Authority::authenticate`] for a client of wires 1 and 2.
#[derive(Debug, Default)]
pub(crate) struct AuthenticationOutcome {
    /// True if an `Authorization` header was accepted, verified or not.
    pub(crate) accepted: bool,
    pub(crate) who: ClientIdentity,
}

impl Authority {
    /// Authenticates a client of wire 3. Claims the `jti` of a proof.
    ///
    /// # Errors
    /// [`Refusal::Token`] for credentials that do not verify, [`Error::Unauthenticated`] if authentication is required
    /// and no credentials came; errors of the store and of the introspection endpoint.
    // SPEC session-3.md#who-the-client-is
    pub async fn recognise(&self, asked: &InitCredentials<'_>) -> Result<ClientIdentity, Refusal> {
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
            _ => Ok(ClientIdentity::default()),
        }
    }

    async fn bearer(
        &self,
        token: &str,
        certificate: Option<&PeerCertificate>,
        now_ms: u64,
    ) -> Result<ClientIdentity, Refusal> {
        let token = self.policy.authentication.verify(self.provider(), token, now_ms).await?;
        if token.thumbprint.is_some() {
            // RFC 9449 section 7.1: otherwise a stolen token could be used without its key.
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
        asked: &InitCredentials<'_>,
    ) -> Result<ClientIdentity, Refusal> {
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

    /// Authenticates a client of wire 1 or 2. Without a verifier any non-empty `Authorization` is accepted, as in
    /// existing deployments, and gives no identity.
    pub(crate) async fn authenticate(
        &self,
        family: Family,
        headers: &HeaderMap,
    ) -> Result<AuthenticationOutcome, Refusal> {
        let authentication = &self.policy.authentication;
        let headers = HttpHeaders(headers);
        let authorization = match headers.field("authorization") {
            Field::Absent | Field::Value("") => {
                let is_refused = authentication.require && family != Family::Anonymous;
                return if is_refused {
                    Err(Error::Unauthenticated.into())
                } else {
                    Ok(AuthenticationOutcome::default())
                };
            }
            Field::Malformed => return Err(Refusal::Token("repeated or not ASCII")),
            Field::Value(value) => value,
        };
        if family == Family::Session && Wire::of(&headers) == Wire::V1 {
            self.take_authenticated(authorization)?;
        }
        if !authentication.takes_tokens() {
            return if authentication.require && family != Family::Anonymous {
                Err(Error::Unauthenticated.into())
            } else {
                Ok(AuthenticationOutcome { accepted: true, who: ClientIdentity::default() })
            };
        }
        let (Scheme::Bearer, token) = credential(authorization)? else {
            return Err(Refusal::Token("not a bearer token"));
        };
        let who = self.bearer(token, None, self.now_ms()).await?;
        Ok(AuthenticationOutcome { accepted: true, who })
    }
}
