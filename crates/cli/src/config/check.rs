//! Checks of `config check` beyond the settings: the files that they name, and variables that look like settings.

use std::sync::Arc;

use sealway_gateway::config::Place;
use sealway_proto::crypto::default_provider;
use sealway_runtime::clock::{Clock, SystemClock};
use sealway_runtime::config::{ConfigError, Problems, readable_by_others};
use sealway_runtime::tls;
use sealway_sessions::config::strong_secret;

use super::{PREFIX, ServeConfig};

/// Names of the configuration's sections.
const SECTIONS: [&str; 15] = [
    "access_log",
    "listeners",
    "pkcs11",
    "routes",
    "mle_keys",
    "one_shot",
    "upstreams",
    "sessions",
    "replay",
    "compat",
    "cors",
    "limits",
    "telemetry",
    "admin",
    "metrics",
];

/// Reads every file that a start would read, without changes. Returns warnings.
///
/// # Errors
/// All problems, each with its setting and its file.
pub(super) fn files(config: &ServeConfig) -> anyhow::Result<Vec<String>> {
    let (mut problems, mut warnings) = (Problems::default(), Vec::new());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    config.gateway.check_files(&clock, &mut problems);
    config.telemetry.check_files(&mut problems);
    config.sessions.check_files(default_provider(), &clock, &mut problems, &mut warnings);
    let admin = config.admin.as_ref().map(|admin| ("admin", &admin.token_file, &admin.place));
    let metrics = config.metrics.as_ref().map(|metrics| ("metrics", &metrics.token_file, &metrics.place));
    for (section, token_file, place) in admin.into_iter().chain(metrics) {
        let setting = format!("{section}.token_file");
        match (strong_secret(token_file), readable_by_others(token_file)) {
            (Err(err), _) => problems.add(setting, err),
            (Ok(_), Some(warning)) => warnings.push(format!("{setting}: {warning}")),
            (Ok(_), None) => {}
        }
        if let Place::Unix(path) = place {
            problems.folder_of(&format!("{section}.address"), path);
        }
    }
    if let Some(files) = config.metrics.as_ref().and_then(|metrics| metrics.tls.clone())
        && let Err(err) = tls::Server::load(files, clock.clone())
    {
        problems.add_error(&ConfigError(format!("metrics.tls.{err}")));
    }
    let folder = config.admin.as_ref().and_then(|admin| admin.certificates_folder.as_ref());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        problems.add("admin.certificates_folder", format!("there is no folder {}", folder.display()));
    }
    problems.into_result()?;
    Ok(warnings)
}

/// Rejects variables that look like settings and are not read: `SEALWAY_LISTENERS`, `SEALWAY_SESSIONS_STORE`.
pub(super) fn refuse_misspelt(names: impl Iterator<Item = String>) -> anyhow::Result<()> {
    let mut problems = Problems::default();
    for name in names.filter(|name| name.starts_with(PREFIX) && !name.contains("__")) {
        let rest = name[PREFIX.len()..].to_ascii_lowercase();
        let Some(section) = SECTIONS.iter().find(|section| rest.strip_prefix(**section).is_some_and(starts_anew))
        else {
            continue;
        };
        let (section, key) =
            (section.to_ascii_uppercase(), rest[section.len()..].trim_start_matches('_').to_ascii_uppercase());
        if key.is_empty() {
            problems.add(
                &name,
                format!(
                    "a whole section is not read from the environment; write it into the file, or set single \
                 values such as {PREFIX}{section}__KEY"
                ),
            );
        } else {
            problems.add(
                &name,
                format!("this is not read; two underscores part section and key: {PREFIX}{section}__{key}"),
            );
        }
    }
    problems.into_result()?;
    Ok(())
}

/// True if a section's name ends where `rest` begins.
fn starts_anew(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_misspell_a_setting_are_rejected() {
        let refused = |name: &str| refuse_misspelt([name.to_owned()].into_iter()).err().map(|err| err.to_string());
        assert!(refused("SEALWAY_LISTENERS").unwrap().contains("write it into the file"));
        assert!(refused("SEALWAY_SESSIONS_STORE").unwrap().contains("SEALWAY_SESSIONS__STORE"));
        for name in ["SEALWAY_SESSIONS__STORE", "SEALWAY_CONFIG", "SEALWAY_KEK", "SEALWAY_RELAY_REDIS_URL", "LISTENERS"]
        {
            assert_eq!(refused(name), None, "{name}");
        }
    }
}
