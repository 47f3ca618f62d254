//! The old servers' environment variables, converted to settings of Sealway.

mod stores;

use sealway_runtime::config::{ConfigError, Value};

/// A setting by its dotted path, as `Layers::values` takes it.
type Setting = (String, Value);

/// Settings read from the old servers' variables.
#[derive(Debug, Default)]
pub(crate) struct CompatEnvironment {
    /// Settings by their dotted paths.
    pub(crate) settings: Vec<Setting>,
    /// Value of `PORT`, for a configuration with one listener.
    pub(crate) port: Option<u16>,
    /// Stores in PostgreSQL and Redis.
    pub(crate) stores: Option<stores::CompatStores>,
    /// Warnings for the operator, one sentence each.
    pub(crate) warnings: Vec<String>,
}

/// Integer settings: old name, our path, factor to our unit, and minimum.
const INTEGERS: &[(&str, &str, u64, u64)] = &[
    ("SESSION_TTL_MIN_SEC", "sessions.ttl.min_sec", 1, 1),
    ("SESSION_TTL_MAX_SEC", "sessions.ttl.max_sec", 1, 1),
    ("SESSION_TTL_DEFAULT_SEC", "sessions.ttl.default_sec", 1, 1),
    ("SESSION_TTL_ANONYMOUS_SEC", "sessions.ttl.v1_anonymous_sec", 1, 1),
    ("SESSION_TTL_AUTHENTICATED_SEC", "sessions.ttl.v1_authenticated_sec", 1, 1),
    ("TIMESTAMP_WINDOW_MS", "replay.window_ms", 1, 1),
    ("REPLAY_TIMESTAMP_WINDOW_SEC", "replay.window_ms", 1000, 1),
    ("NONCE_TTL_SEC", "replay.nonce_ttl_ms", 1000, 1),
    ("REPLAY_NONCE_TTL_SEC", "replay.nonce_ttl_ms", 1000, 1),
    ("MEMORY_NONCE_MAX_SIZE", "replay.nonces_max", 1, 1000),
    ("MEMORY_NONCE_CLEANUP_THRESHOLD", "replay.nonces_cleanup_from", 1, 100),
];

/// Variables of the old servers that Sealway does not read, with their replacements.
const UNREAD: &[(&str, &str)] = &[
    ("HOST", "set listeners[].address"),
    ("LOG_LEVEL", "set telemetry.log_level"),
    ("PG_POOL_MAX", "set sessions.postgres.pool_max"),
    ("PG_POOL_MIN", "connections are opened when they are needed; take it out"),
    ("PG_IDLE_TIMEOUT_MS", "connections stay open; take it out"),
    ("PG_CONNECTION_TIMEOUT_MS", "set sessions.postgres.connect_timeout_ms"),
    ("POSTGRES_POOL_MAX", "set sessions.postgres.pool_max"),
    ("DATABASE_POOL_MAX", "set sessions.postgres.pool_max"),
    ("REDIS_CONNECT_TIMEOUT_MS", "set sessions.redis.connect_timeout_ms"),
    ("REDIS_KEY_PREFIX", "set sessions.redis.prefix"),
];

/// Environment variable that set a setting, ours or an old one; `None` if none is set.
pub(crate) fn source_of(path: &str, var: impl Fn(&str) -> Option<String>) -> Option<String> {
    let is_set = |name: &&str| var(name).is_some_and(|text| !text.is_empty());
    let ours = format!("SEALWAY_{}", path.replace('.', "__").to_uppercase());
    if is_set(&ours.as_str()) {
        return Some(ours);
    }
    let old = match path {
        "cors.origins[0]" | "cors.origins" => vec!["CORS_ORIGIN"],
        _ => INTEGERS.iter().filter(|(_, known, ..)| *known == path).map(|(name, ..)| *name).collect(),
    };
    old.into_iter().find(is_set).map(str::to_owned)
}

/// Reads the old variables. All defects are reported at once.
pub(crate) fn read(var: impl Fn(&'static str) -> Option<String>) -> Result<CompatEnvironment, ConfigError> {
    let mut old = CompatEnvironment::default();
    let mut wrong = Vec::new();
    let mut integers: Vec<(&str, &str, u64)> = Vec::new();
    let mut integer = |name: &'static str, least: u64, most: u64| {
        let text = var(name).filter(|text| !text.is_empty())?;
        match text.trim().parse::<u64>() {
            Ok(value) if (least..=most).contains(&value) => Some(value),
            _ => {
                wrong.push(format!("{name}: \"{text}\" is no integer from {least} to {most}"));
                None
            }
        }
    };
    old.port = integer("PORT", 1, 65_535).and_then(|port| u16::try_from(port).ok());
    for (name, path, unit, least) in INTEGERS {
        let Some(value) = integer(name, *least, 1_000_000_000_000 / unit) else { continue };
        let value = value * unit;
        match integers.iter_mut().find(|(_, known, _)| known == path) {
            // Two servers had different names for one setting. The larger value breaks no client, and nonces follow it.
            Some((other, _, known)) if *known != value => {
                old.warnings.push(format!("{other} and {name} disagree; the larger is used for {path}"));
                *known = value.max(*known);
            }
            Some(_) => {}
            None => integers.push((name, path, value)),
        }
    }
    if !wrong.is_empty() {
        return Err(ConfigError(wrong.join("\n")));
    }
    let find = |path| integers.iter().find(|(_, known, _)| *known == path).map(|(_, _, value)| *value);
    if let (Some(max), Some(from)) = (find("replay.nonces_max"), find("replay.nonces_cleanup_from"))
        && from >= max
    {
        return Err(ConfigError(format!(
            "MEMORY_NONCE_CLEANUP_THRESHOLD: {from} is not below MEMORY_NONCE_MAX_SIZE, {max}"
        )));
    }
    old.settings = integers.into_iter().map(|(_, path, value)| (path.to_owned(), value.into())).collect();
    if let Some(origins) = var("CORS_ORIGIN").filter(|text| !text.trim().is_empty()) {
        let origins = match origins.trim() {
            // As the old servers' library interpreted it.
            "true" => {
                old.warnings.push(
                    "CORS_ORIGIN=true: pages of any origin may call this service, as the old servers let them; name the \
                     origins of your pages instead"
                        .into(),
                );
                vec!["*".to_owned()]
            }
            "false" => Vec::new(),
            list => list.split(',').map(|origin| origin.trim().to_owned()).collect(),
        };
        old.settings.push(("cors.origins".into(), origins.into()));
    }
    old.stores = stores::read(&var)?;
    for (name, instead) in UNREAD.iter().filter(|(name, _)| var(name).is_some_and(|text| !text.is_empty())) {
        old.warnings.push(format!("{name} of the old servers is not read; {instead}"));
    }
    Ok(old)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(vars: &[(&'static str, &str)]) -> Result<CompatEnvironment, ConfigError> {
        let vars: Vec<(&str, String)> = vars.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        read(move |name| vars.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone()))
    }

    #[test]
    fn every_bad_integer_stops_the_start_and_is_named() {
        for (name, bad) in [
            ("PORT", "0"),
            ("PORT", "70000"),
            ("SESSION_TTL_MIN_SEC", "five"),
            ("TIMESTAMP_WINDOW_MS", "-1"),
            ("NONCE_TTL_SEC", "1.5"),
            ("MEMORY_NONCE_MAX_SIZE", "999"),
            ("MEMORY_NONCE_CLEANUP_THRESHOLD", "99"),
        ] {
            let err = with(&[(name, bad)]).unwrap_err().0;
            assert!(err.contains(name) && err.contains(bad), "{err}");
        }
        let err = with(&[("PORT", "x"), ("NONCE_TTL_SEC", "y")]).unwrap_err().0;
        assert!(err.contains("PORT") && err.contains("NONCE_TTL_SEC"), "{err}");
    }

    #[test]
    fn seconds_become_milliseconds_and_of_two_names_the_larger_counts() {
        let old = with(&[
            ("TIMESTAMP_WINDOW_MS", "200000"),
            ("REPLAY_TIMESTAMP_WINDOW_SEC", "300"),
            ("NONCE_TTL_SEC", "300"),
            ("PORT", "3100"),
            ("CORS_ORIGIN", "http://a, http://b"),
        ])
        .unwrap();
        let find = |path: &str| old.settings.iter().find(|(known, _)| known == path).map(|(_, value)| value.clone());
        assert_eq!(find("replay.window_ms"), Some(300_000_u64.into()));
        assert_eq!(find("replay.nonce_ttl_ms"), Some(300_000_u64.into()));
        assert_eq!(find("cors.origins"), Some(vec!["http://a".to_owned(), "http://b".to_owned()].into()));
        assert_eq!((old.port, old.warnings.len()), (Some(3100), 1));
    }

    #[test]
    fn cors_origin_true_becomes_a_wildcard_with_a_warning() {
        let origins = |text: &str| {
            let old = with(&[("CORS_ORIGIN", text)]).unwrap();
            (old.settings.into_iter().find(|(path, _)| path == "cors.origins").map(|(_, value)| value), old.warnings)
        };
        let (value, warnings) = origins("true");
        assert_eq!(value, Some(vec!["*".to_owned()].into()));
        assert!(warnings[0].contains("CORS_ORIGIN"), "{warnings:?}");
        assert_eq!(origins("false"), (Some(Vec::<String>::new().into()), Vec::new()));
    }

    #[test]
    fn every_old_name_that_is_not_read_is_warned_of_once_with_what_to_set_instead() {
        let old =
            with(&[("HOST", "0.0.0.0"), ("LOG_LEVEL", "debug"), ("PG_POOL_MAX", "20"), ("NODE_ENV", "x")]).unwrap();
        assert_eq!(old.warnings.len(), 3);
        for (name, instead) in
            [("HOST", "listeners"), ("LOG_LEVEL", "telemetry.log_level"), ("PG_POOL_MAX", "sessions.postgres.pool_max")]
        {
            let told = old.warnings.iter().filter(|text| text.starts_with(name) && text.contains(instead)).count();
            assert_eq!(told, 1, "{name}: {:?}", old.warnings);
        }
    }

    #[test]
    fn a_setting_is_traced_to_the_variable_that_set_it() {
        let var = |name: &str| ["SEALWAY_REPLAY__WINDOW_MS", "NONCE_TTL_SEC"].contains(&name).then(|| "1".to_owned());
        assert_eq!(source_of("replay.window_ms", var).as_deref(), Some("SEALWAY_REPLAY__WINDOW_MS"));
        assert_eq!(source_of("replay.nonce_ttl_ms", var).as_deref(), Some("NONCE_TTL_SEC"));
        assert_eq!(source_of("cors.origins", var), None);
    }

    #[test]
    fn a_threshold_that_is_not_below_the_size_is_refused() {
        let vars = [("MEMORY_NONCE_MAX_SIZE", "1000"), ("MEMORY_NONCE_CLEANUP_THRESHOLD", "1000")];
        assert!(with(&vars).unwrap_err().0.contains("MEMORY_NONCE_CLEANUP_THRESHOLD"));
    }
}
