//! What a token says, whoever verified it: whom it names, how long it is good, and the key that it is bound to.

use sealway_proto::session::Auth;
use serde_json::{Map, Value};

use super::Recognised;
use crate::answer::Refusal;

/// Longest token, in bytes.
pub(crate) const TOKEN_LEN_MAX: usize = 8 * 1024;
/// Longest subject or tenant, in bytes.
const NAME_LEN_MAX: usize = 256;

/// How a token is presented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// RFC 6750: whoever has it may use it.
    Bearer,
    /// RFC 9449: with a proof of the key that it is bound to.
    Dpop,
}

/// The token in the value of an `Authorization` header.
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
    // Visible characters: a token goes on to an introspection endpoint, and its hash into a proof.
    if token.is_empty() || token.len() > TOKEN_LEN_MAX || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(NONE);
    }
    Ok((scheme, token))
}

/// Whether a token is in the form of a signed JWT. Only who has keys may say that it is a good one.
pub(super) fn is_jwt(token: &str) -> bool {
    jsonwebtoken::decode_header(token).is_ok() && token.split('.').count() == 3
}

/// Which claims name whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimNames {
    /// The subject's.
    pub subject: Box<str>,
    /// The tenant's, where tokens name one.
    pub tenant: Option<Box<str>>,
}

impl Default for ClaimNames {
    fn default() -> Self {
        ClaimNames { subject: "sub".into(), tenant: None }
    }
}

/// What a verified token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Whom it names.
    pub subject: Option<Box<str>>,
    /// The tenant.
    pub tenant: Option<Box<str>>,
    /// When it is over, in milliseconds since the epoch, if it says so.
    pub expires_ms: Option<u64>,
    /// The thumbprint of the key that it is bound to (RFC 9449 section 6.1).
    pub thumbprint: Option<Box<str>>,
    /// SHA-256 of the certificate that it is bound to, base64url (RFC 8705 section 3.1).
    pub certificate: Option<Box<str>>,
}

impl Token {
    /// Reads claims that were verified.
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
                // A binding that is not understood is not one to pass over.
                match (text("jkt"), text("x5t#S256")) {
                    (None, None) => return Err(Refusal::Token("it is bound in a way that is not known here")),
                    bound => bound,
                }
            }
            Some(_) => return Err(Refusal::Token("malformed")),
        };
        Ok(Token { subject, tenant: tenant.transpose()?.flatten(), expires_ms, thumbprint, certificate })
    }

    /// The client that presented it so.
    pub(super) fn recognised(self, auth: Auth, now_ms: u64) -> Result<Recognised, Refusal> {
        let left = self.expires_ms.map(|end_ms| end_ms.saturating_sub(now_ms) / 1000);
        // Within the leeway it may be over already; a session that is over when it begins helps nobody.
        let ttl_max_sec = match left {
            Some(0) => return Err(Refusal::Token("expired")),
            left => left.map(|sec| u32::try_from(sec).unwrap_or(u32::MAX)),
        };
        Ok(Recognised { auth, subject: self.subject, tenant: self.tenant, ttl_max_sec })
    }
}

/// A name as a token has it. It goes into rows, logs and headers, so it holds no control character.
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
