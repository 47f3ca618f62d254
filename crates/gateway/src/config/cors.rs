//! Section `cors:` of the configuration.

use sealway_runtime::config::{Number, Problems};
use serde::{Deserialize, Serialize};

use crate::cors::Cors;

/// Section `cors:` as written in the configuration file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawCors {
    /// Origins such as `https://shop.example`, without a slash at the end, or `*`.
    origins: Option<Vec<String>>,
    /// Time that a browser keeps the answer to a preflight.
    max_age_sec: Number<u32, 600, 0, { u32::MAX as u64 }>,
}

pub(super) fn resolve(raw: &RawCors, problems: &mut Problems) -> Cors {
    let max_age_sec = raw.max_age_sec.check("cors.max_age_sec", problems);
    Cors::new(raw.origins.as_deref().unwrap_or_default(), max_age_sec).unwrap_or_else(|(index, why)| {
        problems.add(format!("cors.origins[{index}]"), why);
        Cors::default()
    })
}
