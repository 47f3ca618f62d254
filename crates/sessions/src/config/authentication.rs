//! `sessions.authentication` and `sessions.tokens` of the configuration: as written, then checked.

use std::path::Path;
use std::time::Duration;

use sealway_runtime::config::{ConfigError, Problems, relative_to};
use sealway_runtime::tls::CertificateField;
use serde::{Deserialize, Serialize};

use crate::authentication::{Authentication, ClaimNames, Introspection, IntrospectionConfig, normal_url};
use crate::store::remote::config::{is_loopback, parse_url};
use crate::token::{TokenPolicy, TokenVerifier};

const AT: &str = "sessions.authentication";

/// `sessions.tokens` as written.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTokens {
    jwks_file: String,
    issuer: Option<String>,
    audience: Option<String>,
    leeway_sec: Option<u64>,
}

/// `sessions.authentication` as written.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAuthentication {
    require: Option<bool>,
    subject_claim: Option<String>,
    tenant_claim: Option<String>,
    public_urls: Option<Vec<String>>,
    introspection: Option<RawIntrospection>,
    client_certificate: Option<RawCertificate>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawIntrospection {
    url: String,
    client_id: String,
    client_secret_file: String,
    ca_file: Option<String>,
    issuer: Option<String>,
    audience: Option<String>,
    leeway_sec: Option<u64>,
    timeout_ms: Option<u64>,
    cache_sec: Option<u64>,
    allow_plain_http: Option<bool>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawCertificate {
    subject: CertificateField,
}

/// Checked. Holds no secret: that is read from its file when the authority starts.
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
        leeway_sec: problems.bounded("sessions.tokens.leeway_sec", tokens.leeway_sec, 60, 0..=600),
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
    let require = raw.require.unwrap_or(false);
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
    if is_far && !raw.allow_plain_http.unwrap_or(false) {
        problems
            .add(format!("{at}.url"), "tokens and a secret travel there: use https:, or set allow_plain_http: true");
    } else if is_far {
        warnings.push(format!(
            "{at}.allow_plain_http is on: whoever can read the network between this process and the endpoint can read tokens \
             and the secret"
        ));
    }
    if url.scheme_str() == Some("http") && raw.ca_file.is_some() {
        problems.add(format!("{at}.ca_file"), "needs https:");
    }
    if raw.client_id.is_empty() {
        problems.add(format!("{at}.client_id"), "expected the id that this server has at the endpoint");
    }
    let mut number =
        |name: &str, value, default, bounds| problems.bounded(&format!("{at}.{name}"), value, default, bounds);
    IntrospectionConfig {
        leeway_sec: number("leeway_sec", raw.leeway_sec, 60, 0..=600),
        timeout: Duration::from_millis(number("timeout_ms", raw.timeout_ms, 1500, 10..=30_000)),
        cache: Duration::from_secs(number("cache_sec", raw.cache_sec, 30, 0..=60)),
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
    fn what_could_not_work_is_refused_by_its_place() {
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
