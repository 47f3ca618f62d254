//! Sentences that all readable forms of a report share.

use super::document::Report;
use super::units::{rate, time};
use crate::engine::{EndReason, Limit};
use crate::progress::OfferedLoad;
use crate::record::{Class, Phase};

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

/// Returns the cautions, most important first: each one sentence, with a flag if it makes the figures meaningless.
pub(crate) fn notices(report: &Report) -> Vec<(bool, String)> {
    let mut notices = Vec::new();
    match &report.ended {
        EndReason::Done => {}
        EndReason::Stopped => {
            notices.push((false, "The run was stopped: the figures are of the time before.".to_owned()))
        }
        EndReason::Failed(why) => notices.push((true, format!("The run was given up: {why}"))),
    }
    if let Limit::Generator(why) = &report.limit {
        notices.push((true, format!("The generator was the limit, and the figures say nothing of the target: {why}")));
    }
    if report.counts.succeeded == 0 {
        let what =
            if report.counts.failed > 0 { "Every request failed" } else { "No request was made or came to its end" };
        notices.push((true, format!("{what}: there are no times of successful requests.")));
    }
    // The bottleneck is named above and not repeated here.
    let shown =
        |warning: &&String| !(report.is_generator_limited() && warning.starts_with("The generator was the limit"));
    notices.extend(report.warnings.iter().filter(shown).map(|warning| (false, warning.clone())));
    notices.extend(report.omission.note.iter().map(|note| (false, note.clone())));
    notices
}

/// Describes the bottleneck of a run in words.
pub(crate) fn limit(limit: &Limit) -> String {
    match limit {
        Limit::Target => "the target: the generator had time to spare, and waited for answers".to_owned(),
        Limit::Offered => "none: the offered rate was met".to_owned(),
        Limit::Generator(why) => format!("the generator: {why}"),
        Limit::Unmeasured(why) => format!("nothing was measured: {why}"),
    }
}

/// Returns the verdict of a run in words. Thresholds met by meaningless figures are no pass.
pub(crate) fn verdict(report: &Report) -> &'static str {
    match (report.passed, notices(report).iter().any(|(grave, _)| *grave)) {
        (Some(false), _) => "failed",
        (_, true) => "not to be relied on",
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
        Phase::Response => "response (from due)",
        Phase::Service => "service (from sent)",
        Phase::Connect => "TCP connect",
        Phase::Tls => "TLS handshake",
        Phase::TlsFull => "TLS, full",
        Phase::TlsResumed => "TLS, resumed",
        Phase::FirstByte => "first byte",
        Phase::KeyAgreement => "key agreement",
        Phase::Seal => "seal",
        Phase::Open => "open",
        Phase::Server => "server's own",
        Phase::Failed => "failed requests",
    }
}

/// Returns the readable name of a class of failures.
pub(crate) fn class(class: Class) -> &'static str {
    match class {
        Class::Resolve => "name without address",
        Class::Refused => "connection refused",
        Class::Unreachable => "no route",
        Class::ConnectTimeout => "connect timeout",
        Class::OutOfPorts => "out of local ports",
        Class::OutOfDescriptors => "out of descriptors",
        Class::Connect => "connect failed",
        Class::TlsAlert => "TLS alert",
        Class::Certificate => "certificate not trusted",
        Class::Tls => "TLS failed",
        Class::Reset => "connection reset",
        Class::Closed => "closed early",
        Class::Malformed => "malformed answer",
        Class::Timeout => "timeout",
        Class::Status => "wrong status",
        Class::Assertion => "assertion failed",
        Class::Session => "no session",
        Class::Unsealed => "answer does not open",
        Class::Internal => "the client's own fault",
    }
}
