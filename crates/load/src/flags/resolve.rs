//! Resolves flags to a job, and reports all problems with them at once.

use http::Uri;
use sealway_runtime::clock::{Clock, SystemClock};
use sealway_runtime::config::{ConfigError, Problems};
use sealway_runtime::tls::Secret;

use super::{Flags, Output, broker, target};
use crate::plan::{
    Assertion, Broker, Connections, MessageSettings, OneShotRequests, Plan, Protocol, Request, SealedSessions, Target,
    Tls,
};
use crate::request;
use crate::thresholds::{Figure, Threshold};

/// Job of one run: its plan, its verdict and its output.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// Plan of the single run.
    pub(crate) plan: Plan,
    /// Rules that decide if the run passes.
    pub(crate) verdict: Verdict,
    /// Displays and reports of the run.
    pub(crate) output: Output,
}

/// Rules that decide if a run passes.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    /// True if a failed request fails the run; failed assertions always do.
    pub(crate) fail_on_errors: bool,
    /// True if statuses were asserted, so that any other status is a failed assertion.
    pub(crate) status_asserted: bool,
    /// Thresholds that the run must reach.
    pub(crate) thresholds: Vec<Threshold>,
}

/// Inputs that do not come from flags.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    /// Name of the URL in problems; `URL` by default.
    pub(crate) url_name: Option<String>,
    /// Password of the client's certificate, from Lite Gateway's load client.
    pub(crate) password: Option<Secret>,
}

/// Resolves a URL and flags to a job.
///
/// # Errors
/// All problems, a line each: the flag, and the values that are allowed.
pub(crate) fn resolve(url: Option<&str>, flags: &Flags, extra: Extra) -> Result<Job, ConfigError> {
    let mut problems = Problems::default();
    let name = extra.url_name.as_deref().unwrap_or("URL");
    let aim = match url {
        Some(url) if broker::is_meant(url) => at_broker(&mut problems, name, url, flags),
        _ => {
            flags.broker.refuse(&mut problems);
            at_server(&mut problems, name, url, flags, extra.password)
        }
    };
    let arrival = flags.arrival.resolve(&mut problems);
    let assertions = flags.verdict.assertions(&mut problems);
    let thresholds = flags.verdict.thresholds(&mut problems);
    let verdict = Verdict {
        fail_on_errors: fail_on_errors(&mut problems, flags, &thresholds),
        status_asserted: assertions.iter().any(|assertion| matches!(assertion, Assertion::Status(_))),
        thresholds,
    };
    let output = flags.output.resolve(&mut problems);
    let addresses = flags.connection.addresses(&mut problems, aim.url.as_ref());
    let timeouts = flags.connection.timeouts(&mut problems);
    problems.into_result()?;
    let url = aim.url.ok_or_else(|| ConfigError("URL: missing".into()))?;
    let inner = aim.one_shot.as_ref().and_then(|one_shot| one_shot.inner.as_ref());
    let label = flags.output.label.clone().unwrap_or_else(|| label(inner.unwrap_or(&url)));
    let plan = Plan {
        label,
        target: Target {
            url,
            addresses,
            protocol: aim.protocol,
            tls: aim.tls,
            sealed: aim.sealed,
            mle: aim.mle,
            one_shot: aim.one_shot,
            broker: aim.broker,
            channels: None,
        },
        request: aim.request,
        arrival: arrival.arrival,
        stop: arrival.stop,
        warm_up: arrival.warm_up,
        connections: aim.connections,
        timeouts,
        assertions,
        think: arrival.think,
        threads: arrival.threads,
        seed: arrival.seed.unwrap_or_else(fresh_seed),
    };
    // Checks the request's templates, path and headers, which the checks above do not cover.
    request::check(&plan).map_err(|err| ConfigError(err.to_string()))?;
    Ok(Job { plan, verdict, output })
}

/// Target and request of the plan. It is used only if there are no problems.
struct Aim {
    url: Option<Uri>,
    request: Request,
    protocol: Protocol,
    connections: Connections,
    tls: Option<Tls>,
    sealed: Option<SealedSessions>,
    mle: Option<MessageSettings>,
    one_shot: Option<OneShotRequests>,
    broker: Option<Broker>,
}

fn at_server(problems: &mut Problems, name: &str, url: Option<&str>, flags: &Flags, password: Option<Secret>) -> Aim {
    if url.is_none() {
        problems.add(name, "give the target, as in sealway load https://localhost:8443/");
    }
    let url = url.and_then(|url| target::parse(problems, name, url));
    let mut request = flags.request.resolve(problems, url.as_ref());
    let inner = url;
    let url = flags.one_shot.outer(problems, inner.as_ref()).or_else(|| inner.clone());
    let protocol = flags.connection.protocol(problems, url.as_ref());
    let connections = flags.connection.connections(problems, protocol);
    let is_tls = url.as_ref().is_none_or(target::is_tls);
    let tls = flags.tls.resolve(problems, is_tls, password);
    let method_given = flags.request.method.is_some();
    let sealed = flags.sealed.resolve(problems, protocol, connections.reuse, &mut request, method_given);
    let mle = flags.mle.resolve(problems, protocol, sealed.is_some());
    let is_sealed = sealed.is_some() || mle.is_some();
    let one_shot = flags.one_shot.resolve(problems, protocol, is_sealed, &request, inner);
    Aim { url, request, protocol, connections, tls, sealed, mle, one_shot, broker: None }
}

fn at_broker(problems: &mut Problems, name: &str, url: &str, flags: &Flags) -> Aim {
    broker::refuse_others(problems, flags);
    let (broker, url) = flags.broker.resolve(problems, name, url).unzip();
    let request = Request {
        method: broker.as_ref().map(|broker: &Broker| broker::method(broker.operation)).unwrap_or_default(),
        path: url.as_ref().map_or("/", Uri::path).to_owned(),
        headers: Vec::new(),
        body: None,
        counter_start: 0,
    };
    let protocol = Protocol::Broker;
    let connections = flags.connection.connections(problems, protocol);
    Aim { url, request, protocol, connections, tls: None, sealed: None, mle: None, one_shot: None, broker }
}

/// Returns whether a failed request fails the run. By default it does, unless a threshold bounds the errors.
fn fail_on_errors(problems: &mut Problems, flags: &Flags, thresholds: &[Threshold]) -> bool {
    let is_bounded = thresholds.iter().any(|threshold| threshold.figure == Figure::Errors);
    flags.verdict.fail_on_errors(problems).unwrap_or(!is_bounded)
}

/// Returns the default label: host, port and path. The query is left out, because it may be private.
fn label(url: &http::Uri) -> String {
    // A broker's URL has a host only because a URL needs one.
    let is_broker = url.scheme_str() == Some("broker");
    let authority = url.authority().filter(|_| !is_broker).map_or("", http::uri::Authority::as_str);
    let label: String = format!("{authority}{}", url.path()).chars().take(200).collect();
    label
}

/// Draws a seed for a run without `--seed`; below 1,000,000,000, so that it is easy to type.
fn fresh_seed() -> u64 {
    let mixed = SystemClock.now_ms() ^ (u64::from(std::process::id()) << 20);
    mixed % 1_000_000_000
}
