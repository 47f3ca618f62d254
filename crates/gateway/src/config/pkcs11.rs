//! Section `pkcs11:` of the configuration, and the URIs of keys on its tokens.

use std::sync::Arc;

use sealway_pkcs11::{ObjectKind, Uri};
use sealway_runtime::config::{Number, Problems};
use sealway_runtime::tls::ExternalKey;
use serde::{Deserialize, Serialize};

use crate::token_key::{TokenKey, TokenSettings};

/// Prefix of a URI in the place of a key file.
pub(super) const SCHEME: &str = "pkcs11:";

/// An entry of `pkcs11:` as written.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawPkcs11 {
    /// URI of the token (RFC 7512): `pkcs11:token=LABEL?module-path=PATH&pin-source=file:PATH`, or `pin-source=env:NAME`. A
    /// `pin-value` is an error: the file of the configuration is no place for a PIN.
    uri: String,
    /// Signatures at once, each in a session of the token.
    sessions: Number<u32, 4, 1, 64>,
    /// Longest time for a signature. A module that takes longer is killed and started anew.
    timeout_ms: Number<u64, 5_000, 100, 600_000>,
}

/// Tokens of the configuration, checked.
#[derive(Clone, Debug, Default)]
pub struct Tokens(Vec<Arc<TokenSettings>>);

pub(super) fn resolve(raw: &[RawPkcs11], problems: &mut Problems) -> Tokens {
    let mut tokens: Vec<TokenSettings> = Vec::new();
    for (index, raw) in raw.iter().enumerate() {
        let setting = format!("pkcs11[{index}].uri");
        let uri = Uri::parse(&raw.uri).and_then(|uri| uri.check_token().map(|()| uri));
        let uri = problems.take(&setting, uri.map_err(|err| err.to_string()));
        let sessions = raw.sessions.check(&format!("pkcs11[{index}].sessions"), problems);
        let timeout = raw.timeout_ms.millis(&format!("pkcs11[{index}].timeout_ms"), problems);
        let Some(uri) = uri else { continue };
        if tokens.iter().any(|other| other.uri.token_name() == uri.token_name()) {
            problems.add(setting, format!("{} stands twice", uri.token_name()));
        }
        tokens.push(TokenSettings { uri, sessions, timeout, pin_variables: Vec::new() });
    }
    let variable = |token: &TokenSettings| token.uri.pin_source.as_ref()?.variable().map(str::to_owned);
    let variables: Vec<String> = tokens.iter().filter_map(variable).collect();
    tokens.iter_mut().for_each(|token| token.pin_variables.clone_from(&variables));
    Tokens(tokens.into_iter().map(Arc::new).collect())
}

impl Tokens {
    /// Finds the key of a URI, which fits one token.
    ///
    /// # Errors
    /// A sentence that says which part of the URI is at fault.
    pub(super) fn key(&self, text: &str) -> Result<Arc<dyn ExternalKey>, String> {
        let uri = Uri::parse(text).map_err(|err| err.to_string())?;
        if uri.has_query() {
            return Err(
                "the URI of a key has no module-path and no pin-source; those of its token are in pkcs11".into()
            );
        }
        if uri.kind.is_some_and(|kind| kind != ObjectKind::Private) {
            return Err("expected type=private, or no type".into());
        }
        let key = uri.key().ok_or("the URI names no key; expected object or id")?;
        let mut on = self.0.iter().filter(|token| uri.is_on(&token.uri));
        match (on.next(), on.next()) {
            (Some(token), None) => Ok(Arc::new(TokenKey::new(token.clone(), key, uri.to_string()))),
            (None, _) => Err("the URI is of no token in pkcs11".into()),
            (Some(_), Some(_)) => Err("the URI fits several tokens in pkcs11".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(texts: &[&str]) -> Result<Tokens, String> {
        let raw: Vec<RawPkcs11> =
            texts.iter().map(|text| serde_json::from_str(&format!(r#"{{"uri": "{text}"}}"#)).unwrap()).collect();
        let mut problems = Problems::default();
        let tokens = resolve(&raw, &mut problems);
        problems.into_result().map(|()| tokens).map_err(|err| err.to_string())
    }

    #[test]
    fn a_token_without_module_or_pin_and_a_key_of_no_or_several_tokens_are_rejected() {
        const QUERY: &str = "module-path=/m.so&pin-source=file:/pin";
        for (texts, part) in [
            (vec!["pkcs11:token=a"], "pkcs11[0].uri: expected module-path"),
            (vec!["pkcs11:token=a?module-path=/m.so"], "pkcs11[0].uri: expected pin-source"),
            (vec!["pkcs11:?module-path=/m.so&pin-source=env:A"], "pkcs11[0].uri: expected the token's label"),
            (vec!["pkcs11:token=a;object=k?module-path=/m.so&pin-source=env:A"], "without object"),
            (vec!["pkcs11:token=a?pin-value=secretword"], "pin-value: a PIN in a URI"),
            (vec![&format!("pkcs11:token=a?{QUERY}"), &format!("pkcs11:token=a?{QUERY}")], "stands twice"),
        ] {
            let err = resolved(&texts).unwrap_err();
            assert!(err.contains(part) && !err.contains("secretword"), "{texts:?}: {err}");
        }
        let tokens = resolved(&[&format!("pkcs11:token=a?{QUERY}"), &format!("pkcs11:token=b?{QUERY}")]).unwrap();
        for (text, part) in [
            ("pkcs11:object=k", "several tokens"),
            ("pkcs11:token=c;object=k", "no token"),
            ("pkcs11:token=a", "names no key"),
            ("pkcs11:token=a;object=k;type=secret-key", "type=private"),
            ("pkcs11:token=a;object=k?module-path=/m.so", "no module-path"),
        ] {
            assert!(tokens.key(text).unwrap_err().contains(part), "{text}");
        }
        assert!(tokens.key("pkcs11:token=a;object=k;type=private").is_ok());
    }
}
