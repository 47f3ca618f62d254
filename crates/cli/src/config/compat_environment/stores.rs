//! The old servers' variables of PostgreSQL and Redis, combined into one `sessions.store`.

use std::fmt::Write;

use sealway_runtime::config::ConfigError;

use super::Setting;

/// Stores that the old variables configure.
#[derive(Debug)]
pub(crate) struct CompatStores {
    /// First variable that configures a store.
    pub(crate) name: &'static str,
    /// All variables that configure stores, joined by ` and `.
    pub(crate) names: String,
    /// Settings `sessions.store` and those that belong to it.
    pub(crate) settings: Vec<Setting>,
    /// Warnings for the operator, one sentence each.
    pub(crate) warnings: Vec<String>,
}

/// Reads the variables; `None` if none configures a store.
pub(super) fn read(var: &impl Fn(&'static str) -> Option<String>) -> Result<Option<CompatStores>, ConfigError> {
    let first = |names: &[&'static str]| {
        names.iter().find_map(|name| var(name).filter(|text| !text.is_empty()).map(|text| (*name, text)))
    };
    let mut warnings = Vec::new();
    let postgres = match first(&["DATABASE_URL", "POSTGRES_HOST", "DATABASE_HOST"]) {
        Some(("DATABASE_URL", url)) => Some(("DATABASE_URL", url)),
        Some((name, host)) => Some((name, postgres_url(name, &host, &first, &mut warnings)?)),
        None => None,
    };
    let redis = match first(&["REDIS_URL", "REDIS_HOST"]) {
        Some(("REDIS_URL", url)) => Some(("REDIS_URL", with_access(&url, &first, &mut warnings))),
        Some((name, host)) => Some((name, redis_url(&host, &first)?)),
        None => None,
    };
    let (name, store) = match (&postgres, &redis) {
        (Some((name, postgres)), Some((_, redis))) => (*name, format!("{postgres} + {redis}")),
        (Some((name, url)), None) | (None, Some((name, url))) => (*name, url.clone()),
        (None, None) => return Ok(None),
    };
    let names = [&postgres, &redis].map(|part| part.as_ref().map(|(name, _)| *name));
    let names = names.into_iter().flatten().collect::<Vec<_>>().join(" and ");
    let mut settings: Vec<Setting> = vec![("sessions.store".into(), store.into())];
    if postgres.is_some() {
        // The old servers created their tables themselves.
        settings.push(("sessions.postgres.migrate".into(), true.into()));
    }
    if redis.is_some() {
        settings.push(("compat.nonce_fallback".into(), "memory".into()));
        if let Some((name, text)) = first(&["REDIS_COMMAND_TIMEOUT_MS"]) {
            let ms = text.trim().parse::<u64>().ok().filter(|ms| (10..=60_000).contains(ms));
            let ms = ms.ok_or_else(|| ConfigError(format!("{name}: \"{text}\" is no integer from 10 to 60000")))?;
            settings.push(("sessions.redis.deadline_ms".into(), ms.into()));
        }
    }
    Ok(Some(CompatStores { name, names, settings, warnings }))
}

type First<'a> = dyn Fn(&[&'static str]) -> Option<(&'static str, String)> + 'a;

fn postgres_url(
    name: &'static str,
    host: &str,
    first: &First<'_>,
    warnings: &mut Vec<String>,
) -> Result<String, ConfigError> {
    let value = |names: &[&'static str]| first(names).map(|(_, text)| text);
    let user = value(&["POSTGRES_USER", "DATABASE_USER", "DATABASE_USERNAME"]).unwrap_or_else(|| "postgres".into());
    let password = value(&["POSTGRES_PASSWORD", "DATABASE_PASSWORD"]);
    let database =
        value(&["POSTGRES_DB", "POSTGRES_DATABASE", "DATABASE_NAME", "DATABASE_DB"]).unwrap_or_else(|| user.clone());
    let port = port(first(&["POSTGRES_PORT", "DATABASE_PORT"]), 5432)?;
    let is_tls = value(&["POSTGRES_SSL", "DATABASE_SSL"]).is_some_and(|text| is_yes(&text));
    let tls = if is_tls {
        "require"
    } else {
        warnings.push(format!(
            "{name}: the connection to PostgreSQL is not encrypted, as the old servers had it; set POSTGRES_SSL=true, or \
             sessions.store"
        ));
        "disable"
    };
    let password = password.map_or_else(String::new, |password| format!(":{}", encode(&password)));
    let (user, database) = (encode(&user), encode(&database));
    Ok(format!("postgres://{user}{password}@{}:{port}/{database}?sslmode={tls}", bracket(host)))
}

fn redis_url(host: &str, first: &First<'_>) -> Result<String, ConfigError> {
    let value = |names: &[&'static str]| first(names).map(|(_, text)| text);
    let scheme = if value(&["REDIS_TLS", "REDIS_SSL"]).is_some_and(|text| is_yes(&text)) { "rediss" } else { "redis" };
    let port = port(first(&["REDIS_PORT"]), 6379)?;
    let access = redis_access(first);
    let database = match first(&["REDIS_DB", "REDIS_DATABASE"]) {
        Some((name, text)) => {
            let number = text.trim().parse::<u16>();
            let number = number.map_err(|_| ConfigError(format!("{name}: \"{text}\" is no number of a database")))?;
            format!("/{number}")
        }
        None => String::new(),
    };
    Ok(format!("{scheme}://{access}{}:{port}{database}", bracket(host)))
}

/// User and password in their URL form; empty without a password.
fn redis_access(first: &First<'_>) -> String {
    let value = |names: &[&'static str]| first(names).map(|(_, text)| encode(&text));
    let user = value(&["REDIS_USERNAME", "REDIS_USER"]).unwrap_or_default();
    value(&["REDIS_PASSWORD"]).map_or_else(String::new, |password| format!("{user}:{password}@"))
}

/// Adds the separate password to `REDIS_URL`, unless the URL has one.
fn with_access(url: &str, first: &First<'_>, warnings: &mut Vec<String>) -> String {
    let access = redis_access(first);
    match url.split_once("://") {
        Some((scheme, rest)) if !access.is_empty() && !rest.contains('@') => format!("{scheme}://{access}{rest}"),
        _ => {
            if !access.is_empty() {
                warnings.push("REDIS_PASSWORD is ignored: REDIS_URL names a user or a password itself".into());
            }
            url.to_owned()
        }
    }
}

fn port(given: Option<(&'static str, String)>, default: u16) -> Result<u16, ConfigError> {
    match given {
        None => Ok(default),
        Some((name, text)) => match text.trim().parse::<u16>() {
            Ok(port) if port > 0 => Ok(port),
            _ => Err(ConfigError(format!("{name}: \"{text}\" is no integer from 1 to 65535"))),
        },
    }
}

fn is_yes(text: &str) -> bool {
    matches!(text.trim().to_ascii_lowercase().as_str(), "true" | "1" | "yes" | "on" | "require")
}

/// Puts an IPv6 address in brackets, and encodes a socket's folder, as URLs demand.
fn bracket(host: &str) -> String {
    if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.replace('/', "%2F") }
}

/// Percent-encodes all but unreserved characters (RFC 3986 section 2.1).
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(vars: &[(&'static str, &str)]) -> Result<Option<CompatStores>, String> {
        let var =
            |name: &'static str| vars.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
        read(&var).map_err(|err| err.0)
    }

    fn store(vars: &[(&'static str, &str)]) -> String {
        let stores = with(vars).unwrap().unwrap();
        let (path, value) = &stores.settings[0];
        assert_eq!(path, "sessions.store");
        value.as_str().unwrap().to_owned()
    }

    #[test]
    fn the_old_names_become_one_store() {
        assert!(with(&[("POSTGRES_USER", "x"), ("REDIS_PASSWORD", "y")]).unwrap().is_none());
        assert_eq!(
            store(&[
                ("POSTGRES_HOST", "db"),
                ("POSTGRES_USER", "app"),
                ("POSTGRES_PASSWORD", "p@ss:w/rd"),
                ("POSTGRES_DB", "s")
            ]),
            "postgres://app:p%40ss%3Aw%2Frd@db:5432/s?sslmode=disable"
        );
        assert_eq!(
            store(&[
                ("DATABASE_HOST", "::1"),
                ("DATABASE_PORT", "5433"),
                ("DATABASE_NAME", "n"),
                ("DATABASE_SSL", "true"),
                ("REDIS_URL", "redis://:x@r:1/2")
            ]),
            "postgres://postgres@[::1]:5433/n?sslmode=require + redis://:x@r:1/2"
        );
        assert_eq!(
            store(&[("REDIS_HOST", "r"), ("REDIS_PASSWORD", "a b"), ("REDIS_DB", "3")]),
            "redis://:a%20b@r:6379/3"
        );
    }

    #[test]
    fn a_password_beside_redis_url_is_used_unless_the_url_has_one() {
        for (url, expected) in [
            ("redis://r:6379/2", "redis://:p%40ss@r:6379/2"),
            ("rediss://r", "rediss://:p%40ss@r"),
            ("redis://u:own@r", "redis://u:own@r"),
        ] {
            assert_eq!(store(&[("REDIS_URL", url), ("REDIS_PASSWORD", "p@ss")]), expected);
        }
        let vars = [("REDIS_URL", "redis://r"), ("REDIS_PASSWORD", "p"), ("REDIS_USERNAME", "app")];
        assert_eq!(store(&vars), "redis://app:p@r");
        let stores = with(&[("REDIS_URL", "redis://u:own@r"), ("REDIS_PASSWORD", "s3cret")]).unwrap().unwrap();
        assert!(stores.warnings[0].contains("REDIS_PASSWORD") && !stores.warnings[0].contains("s3cret"));
    }

    #[test]
    fn redis_by_its_old_names_falls_back_to_memory_and_keeps_its_timeout() {
        let stores = with(&[("REDIS_HOST", "r"), ("REDIS_COMMAND_TIMEOUT_MS", "750")]).unwrap().unwrap();
        let find = |path: &str| stores.settings.iter().find(|(known, _)| known == path).map(|(_, value)| value.clone());
        assert_eq!(find("compat.nonce_fallback"), Some("memory".into()));
        assert_eq!(find("sessions.redis.deadline_ms"), Some(750_u64.into()));
        assert_eq!(stores.name, "REDIS_HOST");
    }

    #[test]
    fn wrong_values_are_reported_with_their_variable() {
        for (vars, name) in [
            (vec![("REDIS_HOST", "r"), ("REDIS_PORT", "0")], "REDIS_PORT"),
            (vec![("REDIS_HOST", "r"), ("REDIS_DB", "x")], "REDIS_DB"),
            (vec![("REDIS_HOST", "r"), ("REDIS_COMMAND_TIMEOUT_MS", "1")], "REDIS_COMMAND_TIMEOUT_MS"),
            (vec![("POSTGRES_HOST", "r"), ("POSTGRES_PORT", "70000")], "POSTGRES_PORT"),
        ] {
            assert!(with(&vars).unwrap_err().contains(name), "{name}");
        }
    }
}
