//! From flags to a plan, and everything that is wrong with them at once.

use sealway_runtime::clock::{Clock, SystemClock};
use sealway_runtime::config::{ConfigError, Problems};
use sealway_runtime::tls::Secret;

use super::{Flags, Output, target};
use crate::plan::{Assertion, Plan, Target};
use crate::request;
use crate::thresholds::{Figure, Threshold};

/// What is run, how it is judged, what is shown and left behind.
#[derive(Clone, Debug)]
pub struct Job {
    /// What is run.
    pub plan: Plan,
    /// How it is judged.
    pub verdict: Verdict,
    /// What is shown and left behind.
    pub output: Output,
}

/// How a run is judged.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Whether a failed request makes the run a failed one; failed assertions always do.
    pub fail_on_errors: bool,
    /// Whether a status was asserted, so that another one is a failed assertion.
    pub status_asserted: bool,
    /// What must be reached.
    pub thresholds: Vec<Threshold>,
}

/// What does not come from flags.
#[derive(Debug, Default)]
pub struct Extra {
    /// What the URL is called in problems; `URL` unless said.
    pub url_name: Option<String>,
    /// A password of the client's certificate, from an old client's way to give it.
    pub password: Option<Secret>,
}

/// What flags mean.
///
/// # Errors
/// Everything that is wrong with them, a line each, which names the flag and what is allowed.
pub fn resolve(url: Option<&str>, flags: &Flags, extra: Extra) -> Result<Job, ConfigError> {
    let mut problems = Problems::default();
    let name = extra.url_name.as_deref().unwrap_or("URL");
    let parsed = match url {
        Some(url) => target::parse(&mut problems, name, url),
        None => {
            problems.add(name, "say where requests go, as in sealway load https://localhost:8443/");
            None
        }
    };
    let arrival = flags.arrival.resolve(&mut problems);
    let mut request = flags.request.resolve(&mut problems, parsed.as_ref());
    let protocol = flags.connection.protocol(&mut problems, parsed.as_ref());
    let connections = flags.connection.connections(&mut problems, protocol);
    let is_tls = parsed.as_ref().is_none_or(target::is_tls);
    let tls = flags.tls.resolve(&mut problems, is_tls, extra.password);
    let method_given = flags.request.method.is_some();
    let sealed = flags.sealed.resolve(&mut problems, protocol, connections.reuse, &mut request, method_given);
    let assertions = flags.verdict.assertions(&mut problems);
    let thresholds = flags.verdict.thresholds(&mut problems);
    let verdict = Verdict {
        fail_on_errors: fail_on_errors(&mut problems, flags, &thresholds),
        status_asserted: assertions.iter().any(|assertion| matches!(assertion, Assertion::Status(_))),
        thresholds,
    };
    let output = flags.output.resolve(&mut problems);
    let addresses = flags.connection.addresses(&mut problems, parsed.as_ref());
    let timeouts = flags.connection.timeouts(&mut problems);
    problems.into_result()?;
    let url = parsed.ok_or_else(|| ConfigError("URL: there is none".into()))?;
    let label = flags.output.label.clone().unwrap_or_else(|| label(&url));
    let plan = Plan {
        label,
        target: Target { url, addresses, protocol, tls, sealed },
        request,
        arrival: arrival.arrival,
        stop: arrival.stop,
        warm_up: arrival.warm_up,
        connections,
        timeouts,
        assertions,
        think: arrival.think,
        threads: arrival.threads,
        seed: arrival.seed.unwrap_or_else(fresh_seed),
    };
    // What the checks above let through and the request's own does not.
    request::check(&plan).map_err(|err| ConfigError(err.to_string()))?;
    Ok(Job { plan, verdict, output })
}

/// A failed request fails the run, unless it is said otherwise or a threshold says how many may.
fn fail_on_errors(problems: &mut Problems, flags: &Flags, thresholds: &[Threshold]) -> bool {
    let is_bounded = thresholds.iter().any(|threshold| threshold.figure == Figure::Errors);
    flags.verdict.fail_on_errors(problems).unwrap_or(!is_bounded)
}

/// Host, port and path: no query, which may hold what is nobody's business.
fn label(url: &http::Uri) -> String {
    let authority = url.authority().map_or("", http::uri::Authority::as_str);
    let label: String = format!("{authority}{}", url.path()).chars().take(200).collect();
    label
}

/// Of a run that names none: small enough to be typed.
fn fresh_seed() -> u64 {
    let mixed = SystemClock.now_ms() ^ (u64::from(std::process::id()) << 20);
    mixed % 1_000_000_000
}
