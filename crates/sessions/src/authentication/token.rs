//! Claims of a verified token, from keys or from introspection: subject, tenant, expiry, and the key or certificate
//! that it is bound to.

use sealway_proto::session::Auth;
use serde_json::{Map, Value};

use super::ClientIdentity;
use crate::answer::Refusal;

/// Maximum length of a token, in bytes.
pub(crate) const TOKEN_LEN_MAX: usize = 8 * 1024;
/// Maximum length of a subject or tenant, in bytes.
const NAME_LEN_MAX: usize = 256;

/// Authentication scheme under which a token is presented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// RFC 6750: possession of the token is enough.
    Bearer,
    /// RFC 9449: the token needs a proof of the key that it is bound to.
    Dpop,
}

/// Splits the value of an `Authorization` header into scheme and token.
///
/// # Errors
/// [`Refusal::Token`].
pub fn credential(authorization: &str) -> Result<(Scheme, &str), Refusal> {
    const NONE: Refusal = Refusal::Token("not a bearer token");
    let (scheme, token) = authorization.split_once(' ').ok_or(NONE)?;
    let token = token.trim();
    let scheme = match scheme {
        scheme if scheme.eq_ignore_ascii_case("bearer") => Scheme::Bearer,
        scheme if scheme.eq_ignore_ascii_case("dpop") => Scheme::Dpop,
        _ => return Err(NONE),
    };
    // Visible characters only: a token is sent on to an introspection endpoint, and its hash is part of a proof.
    if token.is_empty() || token.len() > TOKEN_LEN_MAX || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(NONE);
    }
    Ok((scheme, token))
}

/// True if a token has the form of a signed JWT; its signature is not verified here.
pub(super) fn is_jwt(token: &str) -> bool {
    jsonwebtoken::decode_header(token).is_ok() && token.split('.').count() == 3
}

/// Names of the claims for subject and tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimNames {
    /// Claim that holds the subject; `sub` by default.
    pub subject: Box<str>,
    /// Claim that holds the tenant; none by default.
    pub tenant: Option<Box<str>>,
}

impl Default for ClaimNames {
    fn default() -> Self {
        ClaimNames { subject: "sub".into(), tenant: None }
    }
}

/// Claims of a verified token that matter to the authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Subject that the token names.
    pub subject: Option<Box<str>>,
    /// Tenant that the token names.
    pub tenant: Option<Box<str>>,
    /// Expiry in milliseconds since the epoch, if the token has one.
    pub expires_ms: Option<u64>,
    /// Thumbprint of the key that it is bound to (RFC 9449 section 6.1).
    pub thumbprint: Option<Box<str>>,
    /// SHA-256 of the certificate that it is bound to, base64url (RFC 8705 section 3.1).
    pub certificate: Option<Box<str>>,
}

impl Token {
    /// Reads the claims of a verified token.
    ///
    /// # Errors
    /// [`Refusal::Token`].
    pub fn read(claims: &Map<String, Value>, names: &ClaimNames) -> Result<Token, Refusal> {
        let subject = name(claims.get(&*names.subject), "subject is too long")?;
        let tenant = names.tenant.as_deref().map(|tenant| name(claims.get(tenant), "tenant is too long"));
        let expires_ms = claims.get("exp").and_then(Value::as_f64).map(|sec| (sec * 1000.0) as u64);
        let (thumbprint, certificate) = match claims.get("cnf") {
            None | Some(Value::Null) => (None, None),
            Some(Value::Object(cnf)) => {
                let text = |name| cnf.get(name).and_then(Value::as_str).map(Box::from);
                // An unknown kind of binding must not be ignored.
                match (text("jkt"), text("x5t#S256")) {
                    (None, None) => return Err(Refusal::Token("it is bound in a way that is not known here")),
                    bound => bound,
                }
            }
            Some(_) => return Err(Refusal::Token("malformed")),
        };
        Ok(Token { subject, tenant: tenant.transpose()?.flatten(), expires_ms, thumbprint, certificate })
    }

    /// Returns the identity of the client that presented this token by the method `auth`.
    pub(super) fn recognised(self, auth: Auth, now_ms: u64) -> Result<ClientIdentity, Refusal> {
        let left = self.expires_ms.map(|end_ms| end_ms.saturating_sub(now_ms) / 1000);
        // Within the leeway the token may be expired already; a session that ends at once helps no client.
        let ttl_max_sec = match left {
            Some(0) => return Err(Refusal::Token("expired")),
            left => left.map(|sec| u32::try_from(sec).unwrap_or(u32::MAX)),
        };
        Ok(ClientIdentity { auth, subject: self.subject, tenant: self.tenant, ttl_max_sec })
    }
}

/// Reads a subject or tenant. It goes into rows, logs and headers, so control characters are rejected.
fn name(value: Option<&Value>, too_long: &'static str) -> Result<Option<Box<str>>, Refusal> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) if text.len() > NAME_LEN_MAX => Err(Refusal::Token(too_long)),
        Some(Value::String(text)) if text.chars().any(char::is_control) => Err(Refusal::Token("malformed")),
        Some(Value::String(text)) => Ok(Some(text.as_str().into())),
        Some(_) => Err(Refusal::Token("malformed")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(claims: Value, tenant: Option<&str>) -> Result<Token, Refusal> {
        let names = ClaimNames { tenant: tenant.map(Into::into), ..ClaimNames::default() };
        Token::read(claims.as_object().unwrap(), &names)
    }

    #[test]
    fn a_token_names_subject_and_tenant_in_the_claims_that_are_configured() {
        let claims = json!({"sub": "alice", "org": "acme", "exp": 12.5, "cnf": {"jkt": "t"}});
        let token = read(claims.clone(), Some("org")).unwrap();
        assert_eq!((token.subject.as_deref(), token.tenant.as_deref()), (Some("alice"), Some("acme")));
        assert_eq!((token.expires_ms, token.thumbprint.as_deref()), (Some(12_500), Some("t")));
        assert_eq!(read(claims, None).unwrap().tenant, None);
        let other = ClaimNames { subject: "azp".into(), tenant: None };
        assert_eq!(
            Token::read(json!({"azp": "x"}).as_object().unwrap(), &other).unwrap().subject.as_deref(),
            Some("x")
        );
        for absent in [json!({}), json!({"sub": ""}), json!({"sub": null})] {
            assert_eq!(read(absent, None).unwrap().subject, None);
        }
    }

    #[test]
    fn names_that_no_row_or_header_could_hold_and_bindings_that_are_not_known_are_refused() {
        let long = "x".repeat(257);
        for (claims, reason) in [
            (json!({"sub": 7}), "malformed"),
            (json!({"sub": "a\r\nb"}), "malformed"),
            (json!({"sub": "a\u{0}b"}), "malformed"),
            (json!({"sub": long}), "subject is too long"),
            (json!({"org": long}), "tenant is too long"),
            (json!({"org": ["acme"]}), "malformed"),
            (json!({"cnf": "key"}), "malformed"),
            (json!({"cnf": {"jwk": {}}}), "it is bound in a way that is not known here"),
            (json!({"cnf": {"jkt": 7}}), "it is bound in a way that is not known here"),
        ] {
            assert_eq!(read(claims.clone(), Some("org")), Err(Refusal::Token(reason)), "{claims}");
        }
    }

    #[test]
    fn a_session_does_not_outlive_its_token() {
        let token = |exp: Value| read(json!({ "exp": exp }), None).unwrap();
        let left = |exp: Value| token(exp).recognised(Auth::Bearer, 10_000).map(|who| who.ttl_max_sec);
        assert_eq!(left(json!(40)), Ok(Some(30)));
        assert_eq!(left(json!(1e15)), Ok(Some(u32::MAX)));
        assert_eq!(left(Value::Null), Ok(None));
        for over in [json!(10), json!(10.9), json!(3), json!(-1)] {
            assert_eq!(left(over), Err(Refusal::Token("expired")));
        }
    }

    #[test]
    fn a_credential_is_a_scheme_and_visible_characters() {
        assert_eq!(credential("bEARER  a.b").unwrap(), (Scheme::Bearer, "a.b"));
        assert_eq!(credential("DPoP t").unwrap(), (Scheme::Dpop, "t"));
        for none in ["Bearer", "Bearer ", "Bearer a b", "Basic x", "t", "Bearer \u{e9}", "Bearer a\tb"] {
            assert!(credential(none).is_err(), "{none}");
        }
    }
}
