//! Sentences that all readable forms of a report share.

use super::document::Report;
use super::units::{rate, time};
use crate::engine::{EndReason, Limit};
use crate::progress::OfferedLoad;
use crate::record::{Class, Phase};

/// Opening words of the warning that the generator was the bottleneck.
const GENERATOR_LIMITED: &str = "The generator was the bottleneck";

/// Describes the plan of the run in one line.
pub(crate) fn headline(report: &Report) -> String {
    headline_of(report, &report.asked.url)
}

/// Describes the plan as [`headline`] does, with the given URL.
pub(crate) fn headline_of(report: &Report, url: &str) -> String {
    let asked = &report.asked;
    let warm_up =
        if asked.warm_up_s > 0.0 { format!(" after {} s of warm-up", asked.warm_up_s) } else { String::new() };
    let reuse = if asked.connections.reuse { "" } else { ", a new connection for each request" };
    format!(
        "{} {} over {}: {}{reuse}; {} measured{warm_up}",
        asked.method,
        url,
        asked.protocol.name(),
        asked.arrival.words(),
        time(report.measured_s * 1e9)
    )
}

/// Returns the warnings, most important first, each with a flag that is true if it makes the figures meaningless.
pub(crate) fn notices(report: &Report) -> Vec<(bool, String)> {
    let mut notices = Vec::new();
    match &report.ended {
        EndReason::Done => {}
        EndReason::Stopped => {
            notices.push((false, "The run was stopped early. The figures cover the time until then.".to_owned()))
        }
        EndReason::Failed(why) => notices.push((true, format!("The run was aborted: {why}"))),
    }
    if let Limit::Generator(why) = &report.limit {
        notices.push((true, format!("{GENERATOR_LIMITED}, so the figures do not describe the target: {why}")));
    }
    if report.counts.succeeded == 0 {
        let what = if report.counts.failed > 0 { "Every request failed" } else { "No request ended" };
        notices.push((true, format!("{what}, so there are no response times.")));
    }
    // The bottleneck is named above and not repeated here.
    let shown = |warning: &&String| !(report.is_generator_limited() && warning.starts_with(GENERATOR_LIMITED));
    notices.extend(report.warnings.iter().filter(shown).map(|warning| (false, warning.clone())));
    notices.extend(report.omission.note.iter().map(|note| (false, note.clone())));
    notices
}

/// Describes the bottleneck of a run in words.
pub(crate) fn limit(limit: &Limit) -> String {
    match limit {
        Limit::Target => "the target: the generator waited for its responses and had capacity to spare".to_owned(),
        Limit::Offered => "none: the target kept up with the offered load".to_owned(),
        Limit::Generator(why) => format!("the generator: {why}"),
        Limit::Unmeasured(why) => format!("unknown, because nothing was measured: {why}"),
    }
}

/// Returns the verdict of a run in words. Thresholds met by meaningless figures are no pass.
pub(crate) fn verdict(report: &Report) -> &'static str {
    match (report.passed, notices(report).iter().any(|(grave, _)| *grave)) {
        (Some(false), _) => "failed",
        (_, true) => "unreliable",
        (Some(true), false) => "passed",
        (None, false) => "no thresholds",
    }
}

/// Describes a load in words.
pub(crate) fn offered(offered: OfferedLoad) -> String {
    match offered {
        OfferedLoad::Concurrency(1) => "1 worker".to_owned(),
        OfferedLoad::Concurrency(workers) => format!("{workers} workers"),
        OfferedLoad::Rate(per_s) => rate(per_s),
    }
}

/// Returns the readable name of a phase.
pub(crate) fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Response => "response (since due)",
        Phase::Service => "service (since sent)",
        Phase::Connect => "TCP connect",
        Phase::Tls => "TLS handshake",
        Phase::TlsFull => "TLS, full",
        Phase::TlsResumed => "TLS, resumed",
        Phase::FirstByte => "time to first byte",
        Phase::KeyAgreement => "key agreement",
        Phase::Seal => "seal",
        Phase::Open => "open",
        Phase::Server => "server (reported)",
        Phase::Failed => "failed requests",
    }
}

/// Returns the readable name of a class of failures.
pub(crate) fn class(class: Class) -> &'static str {
    match class {
        Class::Resolve => "host name not resolved",
        Class::Refused => "connection refused",
        Class::Unreachable => "no route to host",
        Class::ConnectTimeout => "connect timeout",
        Class::OutOfPorts => "out of local ports",
        Class::OutOfDescriptors => "out of file descriptors",
        Class::Connect => "connection failed",
        Class::TlsAlert => "TLS alert",
        Class::Certificate => "certificate rejected",
        Class::Tls => "TLS failed",
        Class::Reset => "connection reset",
        Class::Closed => "closed before response",
        Class::Malformed => "malformed response",
        Class::Timeout => "timeout",
        Class::Status => "unexpected status",
        Class::Assertion => "assertion failed",
        Class::Session => "no session or key",
        Class::Unsealed => "response does not open",
        Class::KeyRetired => "key retired",
        Class::Replayed => "received before",
        Class::ClockSkew => "clock skew",
        Class::Internal => "generator's own error",
    }
}
