//! `sessions.authentication` and `sessions.tokens` of the configuration: as written, then checked.

use std::path::Path;
use std::time::Duration;

use sealway_runtime::config::{ConfigError, FilePath, Flag, Number, Problems, relative_to};
use sealway_runtime::tls::CertificateField;
use serde::{Deserialize, Serialize};

use crate::authentication::{Authentication, ClaimNames, Introspection, IntrospectionConfig, normal_url};
use crate::store::remote::config::{is_loopback, parse_url};
use crate::token::{TokenPolicy, TokenVerifier};

const AT: &str = "sessions.authentication";

/// Section `sessions.tokens` as written in the configuration file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTokens {
    /// Public keys (JWKS: EC, RSA, OKP; 1 to 64 keys, 256 KiB at most) that verify bearer tokens; read again when it changes.
    jwks_file: FilePath,
    /// `iss` that a token must have.
    /// - default: any
    issuer: Option<String>,
    /// `aud` that a token must have.
    /// - default: any
    audience: Option<String>,
    /// Tolerance for a token's `exp` and `nbf`.
    leeway_sec: Number<u64, 60, 0, 600>,
}

/// Section `sessions.authentication` as written in the configuration file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAuthentication {
    /// Gives sessions to recognised clients alone; anonymous inits of wire 1 aside.
    require: Flag<false>,
    /// Claim that names the subject: a text of at most 256 bytes without control characters.
    /// - default: `sub`
    subject_claim: Option<String>,
    /// Claim that names the tenant, likewise.
    tenant_claim: Option<String>,
    /// URLs where clients reach the service, as `https://api.example`; a DPoP proof's `htu` has to be one of them with the
    /// path behind it. Needed behind anything that ends TLS or changes `Host`; at most 16.
    /// - type: list of URLs
    /// - default: the request's own
    public_urls: Option<Vec<String>>,
    /// Endpoint of token introspection (RFC 7662) that accepts or rejects tokens.
    introspection: Option<RawIntrospection>,
    /// Recognition of clients by their TLS certificate.
    client_certificate: Option<RawCertificate>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawIntrospection {
    /// Endpoint that decides whether a token is good. Beside `tokens` it is asked about tokens that are no JWTs alone.
    /// - type: URL
    url: String,
    /// Client id of this server at the endpoint.
    client_id: String,
    /// Secret of this server at the endpoint.
    client_secret_file: FilePath,
    /// Certificates that the endpoint's must descend from.
    /// - default: the system's
    ca_file: Option<FilePath>,
    /// `iss` that an answer must have.
    /// - default: any
    issuer: Option<String>,
    /// `aud` that an answer must have.
    /// - default: any
    audience: Option<String>,
    /// Tolerance for `exp` and `nbf`.
    leeway_sec: Number<u64, 60, 0, 600>,
    /// Time that an answer may take. Over it: 503.
    timeout_ms: Number<u64, 1500, 10, 30_000>,
    /// Longest time that a good answer is remembered, never beyond `exp`. A revoked token is good for so long. Bad answers
    /// are not remembered.
    cache_sec: Number<u64, 30, 0, 60>,
    /// Allows `http:` to another machine.
    allow_plain_http: Flag<false>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawCertificate {
    /// Field of the certificate that is the subject of a client of wire 3: `common_name`, `dns`, `uri`, `subject`, `serial`,
    /// `issuer` or `sha256`.
    /// - type: a field
    subject: CertificateField,
}

/// Both sections, checked. Holds no secret: secrets are read from their files when the authority starts.
#[derive(Clone, Debug, Default)]
pub(super) struct AuthenticationConfig {
    require: bool,
    claims: ClaimNames,
    public_urls: Vec<String>,
    tokens: Option<TokenPolicy>,
    introspection: Option<IntrospectionConfig>,
    client_certificate: Option<CertificateField>,
}

impl AuthenticationConfig {
    /// Reads keys, secrets and certificates.
    pub(super) fn open(&self) -> Result<Authentication, ConfigError> {
        Ok(Authentication {
            require: self.require,
            tokens: self.tokens.clone().map(TokenVerifier::load).transpose()?,
            introspection: self.introspection.clone().map(Introspection::open).transpose()?,
            claims: self.claims.clone(),
            public_urls: self.public_urls.clone(),
            client_certificate: self.client_certificate,
        })
    }
}

/// Checks both sections. Paths are resolved against `file`, the configuration's own.
pub(super) fn resolve(
    tokens: Option<&RawTokens>,
    raw: Option<&RawAuthentication>,
    file: Option<&Path>,
    problems: &mut Problems,
    warnings: &mut Vec<String>,
) -> AuthenticationConfig {
    let tokens = tokens.map(|tokens| TokenPolicy {
        jwks_file: relative_to(file, &tokens.jwks_file),
        issuer: tokens.issuer.clone(),
        audience: tokens.audience.clone(),
        leeway_sec: tokens.leeway_sec.check("sessions.tokens.leeway_sec", problems),
    });
    let Some(raw) = raw else { return AuthenticationConfig { tokens, ..AuthenticationConfig::default() } };
    let introspection = raw.introspection.as_ref().map(|raw| introspection(raw, file, problems, warnings));
    let client_certificate = raw.client_certificate.as_ref().map(|raw| raw.subject);
    if let Some(CertificateField::Certificate | CertificateField::Chain) = client_certificate {
        problems.add(
            format!("{AT}.client_certificate.subject"),
            "expected a name in the certificate, such as common_name, dns or uri",
        );
    }
    let takes_tokens = tokens.is_some() || introspection.is_some();
    let require = raw.require.get();
    if require && !takes_tokens && client_certificate.is_none() {
        problems.add(
            format!("{AT}.require"),
            "nobody could be recognised: configure sessions.tokens, introspection or client_certificate",
        );
    }
    let claim = |name: &str, claim: &Option<String>, problems: &mut Problems| {
        let claim = claim.as_deref()?;
        if claim.is_empty() || !takes_tokens {
            problems
                .add(format!("{AT}.{name}"), "expected the name of a claim, beside sessions.tokens or introspection");
        }
        Some(Box::from(claim))
    };
    let defaults = ClaimNames::default();
    AuthenticationConfig {
        require,
        claims: ClaimNames {
            subject: claim("subject_claim", &raw.subject_claim, problems).unwrap_or(defaults.subject),
            tenant: claim("tenant_claim", &raw.tenant_claim, problems),
        },
        public_urls: public_urls(raw.public_urls.as_deref().unwrap_or_default(), problems),
        tokens,
        introspection,
        client_certificate,
    }
}

fn public_urls(raw: &[String], problems: &mut Problems) -> Vec<String> {
    for (index, url) in raw.iter().enumerate() {
        if normal_url(url).is_none() || url.contains(['?', '#']) {
            problems.add(format!("{AT}.public_urls[{index}]"), "expected https://HOST[:PORT][/PATH]");
        }
    }
    if raw.len() > 16 {
        problems.add(format!("{AT}.public_urls"), "there are more than 16");
    }
    raw.iter().map(|url| url.trim_end_matches('/').to_owned()).collect()
}

fn introspection(
    raw: &RawIntrospection,
    file: Option<&Path>,
    problems: &mut Problems,
    warnings: &mut Vec<String>,
) -> IntrospectionConfig {
    let at = format!("{AT}.introspection");
    let url = parse_url(&raw.url).unwrap_or_else(|_| {
        problems.add(
            format!("{at}.url"),
            "expected https://HOST[:PORT][/PATH], without user, password, query and fragment",
        );
        http::Uri::from_static("http://localhost")
    });
    let is_far = url.scheme_str() == Some("http") && !is_loopback(&url);
    if is_far && !raw.allow_plain_http.get() {
        problems
            .add(format!("{at}.url"), "tokens and a secret travel there: use https:, or set allow_plain_http: true");
    } else if is_far {
        warnings.push(format!(
            "{at}.allow_plain_http is on: anyone who can read the network between this process and the endpoint can read tokens \
             and the secret"
        ));
    }
    if url.scheme_str() == Some("http") && raw.ca_file.is_some() {
        problems.add(format!("{at}.ca_file"), "needs https:");
    }
    if raw.client_id.is_empty() {
        problems.add(format!("{at}.client_id"), "expected the id that this server has at the endpoint");
    }
    IntrospectionConfig {
        leeway_sec: raw.leeway_sec.check(&format!("{at}.leeway_sec"), problems),
        timeout: raw.timeout_ms.millis(&format!("{at}.timeout_ms"), problems),
        cache: Duration::from_secs(raw.cache_sec.check(&format!("{at}.cache_sec"), problems)),
        url,
        client_id: raw.client_id.clone(),
        client_secret_file: problems.file(&format!("{at}.client_secret_file"), file, &raw.client_secret_file),
        ca_file: raw.ca_file.as_deref().map(|path| relative_to(file, path)),
        issuer: raw.issuer.clone(),
        audience: raw.audience.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(tokens: Option<RawTokens>, yaml: &str) -> (AuthenticationConfig, Vec<String>, String) {
        let raw: RawAuthentication = sealway_runtime::config::load_yaml(yaml).unwrap();
        let (mut problems, mut warnings) = (Problems::default(), Vec::new());
        let file = Some(Path::new("/etc/sealway/serve.yaml"));
        let config = resolve(tokens.as_ref(), Some(&raw), file, &mut problems, &mut warnings);
        (config, warnings, problems.into_result().err().map(|err| err.to_string()).unwrap_or_default())
    }

    const ASKS: &str = "url: 'https://login.example/introspect', client_id: us, client_secret_file: s";

    #[test]
    fn a_whole_section_is_read() {
        let yaml = format!(
            "{{require: true, subject_claim: uid, tenant_claim: org, public_urls: ['https://api.example/'],
              introspection: {{{ASKS}, cache_sec: 5, audience: sealway}}, client_certificate: {{subject: dns}}}}"
        );
        let (config, warnings, problems) = resolved(None, &yaml);
        assert_eq!((problems.as_str(), warnings.len()), ("", 0));
        assert_eq!(config.claims, ClaimNames { subject: "uid".into(), tenant: Some("org".into()) });
        assert_eq!((config.require, config.public_urls), (true, vec!["https://api.example".to_owned()]));
        assert_eq!(config.client_certificate, Some(CertificateField::Dns));
        let asks = config.introspection.unwrap();
        assert_eq!((asks.cache, asks.timeout), (Duration::from_secs(5), Duration::from_millis(1500)));
        assert_eq!(asks.client_secret_file, Path::new("/etc/sealway/s"));
    }

    #[test]
    fn impossible_settings_are_rejected_by_their_path() {
        let far = ASKS.replace("https://login", "http://login");
        for (yaml, says) in [
            ("{require: true}".to_owned(), "sessions.authentication.require: nobody"),
            ("{tenant_claim: org}".to_owned(), "sessions.authentication.tenant_claim: expected"),
            ("{public_urls: [api.example]}".to_owned(), "sessions.authentication.public_urls[0]: expected"),
            ("{client_certificate: {subject: chain}}".to_owned(), "client_certificate.subject: expected a name"),
            (format!("{{introspection: {{{ASKS}, cache_sec: 61}}}}"), "introspection.cache_sec: 61 is not"),
            (format!("{{introspection: {{{far}}}}}"), "introspection.url: tokens and a secret"),
            (
                "{introspection: {url: 'https://u:hunter2@h/', client_id: '', client_secret_file: ''}}".to_owned(),
                "client_id",
            ),
        ] {
            let (_, _, problems) = resolved(None, &yaml);
            assert!(problems.contains(says), "{yaml}: {problems}");
            assert!(!problems.contains("hunter2"), "{problems}");
        }
        let allowed = format!("{{introspection: {{{far}, allow_plain_http: true}}}}");
        let (_, warnings, problems) = resolved(None, &allowed);
        assert_eq!((problems.as_str(), warnings.len()), ("", 1));
    }
}
