//! Documents of runs of channels. Their fields are those of `spec/load-channel.schema.json`: units are in the names, a number is
//! never NaN or infinite, and a value that was not measured is null, not zero.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::{
    ChannelCounts, Cost, FailureStage, Failures, Origin, RelayLimits, Settings, Size, TimedStage, named, percentile,
};
use crate::engine::Outcome;
use crate::plan::{ChannelMode, ChannelRole, Plan};
use crate::record::Phase;
use crate::report::Machine;
use crate::report::units::finite;

/// Version of the documents, which each of them holds.
const VERSION: u32 = 1;
/// Rule of the percentiles, as the documents state it.
const RULE: &str = "sorted[floor((n-1)*p)], exact, of channels that succeeded; response and service: of a histogram with \
                    three digits";

/// Document of a run of one size.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ChannelReport {
    kind: &'static str,
    version: u32,
    /// Settings that the run was asked for.
    pub(super) config: Config,
    /// Counts and rates of the run.
    pub(super) summary: Summary,
    /// Failures by stage; holds all stages.
    pub(super) failures: BTreeMap<&'static str, Failures>,
    /// Times by stage, in milliseconds.
    pub(super) latency: Latency,
    /// Costs of the generator's and the relay's process.
    pub(super) resources: Resources,
    /// Machine that the generator ran on.
    env: Machine,
}

/// Document of a sweep, with a report of each size.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SweepReport {
    kind: &'static str,
    version: u32,
    /// Reports of the sizes that ran, in their order.
    pub(crate) points: Vec<ChannelReport>,
    /// Sizes that failed or did not fit, in their order.
    pub(crate) stopped: Vec<StoppedSize>,
    env: Machine,
}

/// Size that failed, or that did not fit into the machine.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StoppedSize {
    /// Description of the size, in words.
    pub(crate) size: String,
    /// True if the size was rejected before it started.
    pub(crate) is_refused: bool,
    /// Limits that the size reached, a sentence each.
    pub(crate) limits: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Config {
    pub(super) mode: ChannelMode,
    pub(super) role: ChannelRole,
    pub(super) profile: &'static str,
    pub(super) suite: u16,
    pub(super) suite_name: String,
    pub(super) channels: u64,
    pub(super) rate_per_s: f64,
    pub(super) ramp_step_per_s: f64,
    pub(super) ramp_interval_ms: u64,
    pub(super) steady_ms: u64,
    pub(super) workers: usize,
    pub(super) threads: usize,
    pub(super) conn_timeout_ms: u64,
    pub(super) rpc_timeout_ms: u64,
    pub(super) report_interval_ms: u64,
    pub(super) ping_every_ms: Option<u64>,
    pub(super) sources: Vec<String>,
    pub(super) relay_url: String,
    /// Limits of a relay that was started for the run; null for a relay that ran already.
    pub(super) relay_started: Option<RelayLimits>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Summary {
    pub(super) asked: u64,
    pub(super) attempted: u64,
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    pub(super) unfinished: u64,
    pub(super) unsent: u64,
    pub(super) active_peak: u64,
    pub(super) active_at_end: u64,
    pub(super) lost_in_steady: u64,
    pub(super) left_by_other: u64,
    pub(super) setup_s: f64,
    pub(super) steady_s: f64,
    pub(super) elapsed_s: f64,
    pub(super) conn_per_sec: f64,
    pub(super) peak_conn_per_sec: u64,
    pub(super) connections_opened: u64,
    /// End of the run: `done`, `stopped` or `failed`.
    pub(super) ended: &'static str,
    pub(super) why: Option<String>,
    /// Limits that the run reached, a sentence each; empty if there was none.
    pub(super) limits: Vec<String>,
    pub(super) warnings: Vec<String>,
    /// Warnings that the engine's report does not have.
    #[serde(skip)]
    pub(super) notes: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Latency {
    pub(super) unit: &'static str,
    pub(super) of: &'static str,
    pub(super) percentiles: &'static str,
    pub(super) stages: BTreeMap<&'static str, Times>,
    /// Times from the moment at which a channel was due, and so corrected for coordinated omission.
    pub(super) response: Times,
    /// Times from the moment at which a channel was begun.
    pub(super) service: Times,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Times {
    pub(super) count: u64,
    pub(super) min: Option<f64>,
    pub(super) mean: Option<f64>,
    pub(super) p50: Option<f64>,
    pub(super) p90: Option<f64>,
    pub(super) p95: Option<f64>,
    pub(super) p99: Option<f64>,
    pub(super) max: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Resources {
    pub(super) generator: Cost,
    /// Cost of the relay's process, if it is on this machine.
    pub(super) relay: Option<Cost>,
    /// Memory of the relay's process for each idle channel, in bytes.
    pub(super) relay_rss_per_channel_bytes: Option<f64>,
    /// Processor time of the relay's process for setting up each channel, in milliseconds.
    pub(super) relay_cpu_per_channel_ms: Option<f64>,
    pub(super) generator_cpu_cores: f64,
    pub(super) generator_cpu_busiest_share: f64,
    pub(super) generator_lag_p99_ms: f64,
}

/// Inputs of the document of one size.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    /// Settings that all sizes have in common.
    pub(crate) settings: &'a Settings,
    /// Size that the run has made.
    pub(crate) size: &'a Size,
    /// Limits of a relay that was started for the run.
    pub(crate) relay_limits: Option<&'a RelayLimits>,
    /// Outcome of the engine's run.
    pub(crate) outcome: &'a Outcome,
    /// Counts and times of the channels.
    pub(crate) counted: &'a ChannelCounts,
    /// Cost of this process, the generator.
    pub(crate) generator: Cost,
    /// Cost of the relay's process, if it was watched.
    pub(crate) relay: Option<Cost>,
    /// Warnings besides those of the engine, a sentence each.
    pub(crate) warnings: Vec<String>,
}

impl ChannelReport {
    /// Creates the document of these facts.
    pub(crate) fn new(facts: &Facts<'_>) -> Self {
        let failed = |at: &FailureStage| (at.name(), facts.counted.at(*at).clone());
        ChannelReport {
            kind: "channel",
            version: VERSION,
            config: config(facts),
            summary: summary(facts),
            failures: FailureStage::ALL.iter().map(failed).collect(),
            latency: latency(facts),
            resources: resources(facts),
            env: Machine::here(),
        }
    }

    /// Returns whether every channel was made and stayed open.
    pub(crate) fn is_good(&self) -> bool {
        self.summary.succeeded == self.summary.asked && self.summary.failed == 0
    }

    /// Returns the limits that the run reached, a sentence each.
    pub(crate) fn limits(&self) -> &[String] {
        &self.summary.limits
    }

    /// Returns the end of the run (`done`, `stopped` or `failed`), and its reason if there is one.
    pub(crate) fn ended(&self) -> (&'static str, Option<&str>) {
        (self.summary.ended, self.summary.why.as_deref())
    }

    /// Returns the numbers of channels that succeeded, that failed, and that were asked for.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        (self.summary.succeeded, self.summary.failed, self.summary.asked)
    }
}

impl SweepReport {
    /// Creates the document of a sweep.
    pub(crate) fn new(points: Vec<ChannelReport>, stopped: Vec<StoppedSize>) -> Self {
        SweepReport { kind: "channel_sweep", version: VERSION, points, stopped, env: Machine::here() }
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn config(facts: &Facts<'_>) -> Config {
    let (settings, size, plan) = (facts.settings, facts.size, &facts.outcome.plan);
    let started = facts.relay_limits.filter(|_| matches!(settings.origin, Origin::Started(_)));
    Config {
        mode: settings.mode,
        role: settings.role,
        profile: if settings.suite.0 >= 0x100 { "native" } else { "flowersec-v1" },
        suite: settings.suite.0,
        suite_name: settings.suite.1.clone(),
        channels: size.channels,
        rate_per_s: finite(size.rate),
        ramp_step_per_s: finite(size.ramp_step),
        ramp_interval_ms: ms(size.ramp_interval),
        steady_ms: if settings.mode == ChannelMode::Attach { 0 } else { ms(size.steady) },
        workers: settings.workers_at_once(size),
        threads: plan.threads,
        conn_timeout_ms: ms(settings.conn_timeout),
        rpc_timeout_ms: ms(settings.rpc_timeout),
        report_interval_ms: ms(settings.report_interval),
        ping_every_ms: settings.ping_every.map(ms),
        sources: plan.connections.sources.iter().map(ToString::to_string).collect(),
        relay_url: relay_url(plan),
        relay_started: started.cloned(),
    }
}

/// Returns the relay's URL without user, password and query, which may be private.
fn relay_url(plan: &Plan) -> String {
    let url = &plan.target.url;
    let authority = url.authority().map_or("", |authority| authority.as_str());
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{}://{host}{}", url.scheme_str().unwrap_or("ws"), url.path())
}

fn summary(facts: &Facts<'_>) -> Summary {
    let (counted, outcome) = (facts.counted, facts.outcome);
    let counts = &outcome.totals.sum.counts;
    let lost = counted.at(FailureStage::Steady).count;
    let stays = facts.settings.mode != ChannelMode::Attach;
    let (ended, why) = outcome.ended.name_and_reason();
    // If all channels succeeded, no limit was reached; a slow generator is in the warnings.
    let is_good = counted.failed() == 0 && counted.succeeded == facts.size.channels;
    let limits = if is_good { Vec::new() } else { named(counted, &outcome.limit) };
    let mut notes = facts.warnings.clone();
    if counted.left > 0 {
        notes.push(format!(
            "The other generator ended {} channels before the steady time of this one was over.",
            counted.left
        ));
    }
    let measured = outcome.totals.measured.as_secs_f64();
    Summary {
        asked: facts.size.channels,
        attempted: counted.attempted,
        succeeded: counted.succeeded,
        failed: counted.failed(),
        unfinished: counts.unfinished,
        unsent: counts.unsent,
        active_peak: counted.active_peak,
        active_at_end: if stays { counted.succeeded.saturating_sub(lost) } else { 0 },
        lost_in_steady: lost,
        left_by_other: counted.left,
        setup_s: measured,
        steady_s: counted.steady.as_secs_f64(),
        elapsed_s: outcome.elapsed.as_secs_f64(),
        conn_per_sec: finite(outcome.rate()),
        peak_conn_per_sec: counted.peak_per_s,
        connections_opened: counts.connections_opened,
        ended,
        why: why.map(str::to_owned),
        limits,
        warnings: outcome.warnings.iter().chain(&notes).cloned().collect(),
        notes,
    }
}

fn latency(facts: &Facts<'_>) -> Latency {
    let stage = |timed: &TimedStage| (timed.name(), exact(&facts.counted.times[*timed as usize]));
    let of_histogram = |phase| {
        let times = facts.outcome.totals.sum.times(phase).quantiles();
        let ms = |ns: u64| (times.count > 0).then_some(ns as f64 / 1e6);
        Times {
            count: times.count,
            min: ms(times.min_ns),
            mean: (times.count > 0).then_some(finite(times.mean_ns / 1e6)),
            p50: ms(times.p50_ns),
            p90: ms(times.p90_ns),
            p95: ms(times.p95_ns),
            p99: ms(times.p99_ns),
            max: ms(times.max_ns),
        }
    };
    Latency {
        unit: "ms",
        of: "channels that came about",
        percentiles: RULE,
        stages: TimedStage::ALL.iter().map(stage).collect(),
        response: of_histogram(Phase::Response),
        service: of_histogram(Phase::Service),
    }
}

fn exact(sorted: &[u64]) -> Times {
    let ms = |ns: u64| ns as f64 / 1e6;
    let at = |share| percentile(sorted, share).map(ms);
    let sum: f64 = sorted.iter().map(|ns| ms(*ns)).sum();
    Times {
        count: sorted.len() as u64,
        min: sorted.first().copied().map(ms),
        mean: (!sorted.is_empty()).then(|| finite(sum / sorted.len() as f64)),
        p50: at(0.5),
        p90: at(0.9),
        p95: at(0.95),
        p99: at(0.99),
        max: sorted.last().copied().map(ms),
    }
}

fn resources(facts: &Facts<'_>) -> Resources {
    let (generator, outcome) = (facts.generator, facts.outcome);
    let channels = facts.counted.succeeded as f64;
    let per_channel = |cost: Cost| {
        let steady = cost.rss_steady_bytes.filter(|_| channels > 0.0)?;
        Some(finite(steady.saturating_sub(cost.rss_before_bytes) as f64 / channels))
    };
    Resources {
        generator,
        relay: facts.relay,
        relay_rss_per_channel_bytes: facts.relay.and_then(per_channel),
        relay_cpu_per_channel_ms: facts
            .relay
            .filter(|_| channels > 0.0)
            .map(|cost| finite(cost.cpu_setup_ms / channels)),
        generator_cpu_cores: finite(outcome.generator.cpu),
        generator_cpu_busiest_share: finite(outcome.generator.cpu_busiest),
        generator_lag_p99_ms: finite(outcome.generator.lag_p99.as_secs_f64() * 1e3),
    }
}
