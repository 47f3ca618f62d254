//! `sessions.wire3` of the configuration: as written, then checked.

use sealway_proto::session::native::Suite;
use sealway_runtime::config::{Number, Problems};
use serde::{Deserialize, Serialize};

use crate::native::Wire3Policy;

/// Longest chain of renewals that may be configured, in seconds: a year.
const RENEW_SEC_MAX: u64 = 366 * 86_400;

/// Section `sessions.wire3` as written in the configuration file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawNative {
    /// Suites that may be agreed: `X25519MLKEM768`, `SecP256r1MLKEM768`, `P256`, `SecP384r1MLKEM1024`, `MLKEM1024`; the order
    /// does not matter.
    /// - default: `X25519MLKEM768`, `SecP256r1MLKEM768`, `P256`
    suites: Option<Vec<String>>,
    /// Longest chain of renewals, from the init on.
    renew_max_sec: Number<u32, 86_400, 1, RENEW_SEC_MAX>,
    /// Inits a minute and address (IPv6: a /64); 0: no limit.
    inits_per_minute: Number<u32, 0, 0, { u32::MAX as u64 }>,
}

pub(super) fn resolve(raw: &RawNative, problems: &mut Problems) -> Wire3Policy {
    let suites = match &raw.suites {
        None => Wire3Policy::default().suites,
        Some(names) => {
            let known = names.iter().filter_map(|name| {
                let suite = Suite::from_name(name);
                let all = Suite::ALL.map(Suite::name).join(", ");
                problems.take("sessions.wire3.suites", suite.ok_or_else(|| format!("\"{name}\" is none of {all}")))
            });
            let mut suites: Vec<Suite> = known.collect();
            suites.sort_unstable();
            suites.dedup();
            if names.is_empty() {
                problems.add(
                    "sessions.wire3.suites",
                    "no suite could be agreed; name some, or take it out for the default ones",
                );
            }
            suites
        }
    };
    Wire3Policy {
        suites,
        renew_max_sec: raw.renew_max_sec.check("sessions.wire3.renew_max_sec", problems),
        inits_per_minute: raw.inits_per_minute.check("sessions.wire3.inits_per_minute", problems),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_named_and_none_is_a_problem() {
        let resolved = |suites: &[&str]| {
            let suites = Some(suites.iter().map(|name| (*name).to_owned()).collect());
            let mut problems = Problems::default();
            let policy = resolve(&RawNative { suites, ..RawNative::default() }, &mut problems);
            (policy.suites, problems.into_result().is_ok())
        };
        assert_eq!(resolved(&["P256", "X25519MLKEM768", "P256"]), (vec![Suite::X25519MlKem768, Suite::P256], true));
        assert!(!resolved(&["P-256"]).1 && !resolved(&[]).1);
    }
}
