//! What held the rate back, and what a reader must know before believing the figures.

use std::time::Duration;

use super::{Generator, Limit};
use crate::plan::{Arrival, Plan};
use crate::record::{Class, Phase, Second, Totals};

/// A thread that ran, or was ready to run, for so much of its time had none to spare.
const BUSY: f64 = 0.9;
/// Timers of which one in a hundred is later than this hold the load itself back.
const LAG_LIMIT: Duration = Duration::from_millis(50);
/// Later than this is worth a word.
const LAG_WORD: Duration = Duration::from_millis(2);
/// An offered rate of which so much started was met.
const MET: f64 = 0.99;
/// A target that takes so many times as long as its fastest answer is held up by the load.
const SLOWER: f64 = 3.0;

/// What is looked at.
pub(super) struct Facts<'a> {
    pub(super) plan: &'a Plan,
    pub(super) totals: &'a Totals,
    pub(super) seconds: &'a [Second],
    pub(super) generator: &'a Generator,
    /// The largest share of its time that a thread ran or was ready to run.
    pub(super) wanted_busiest: f64,
    /// Requests that waited for one of the others to end, as no more may be under way.
    pub(super) waited: u64,
}

impl Facts<'_> {
    /// What held the rate back.
    pub(super) fn limit(&self) -> Limit {
        if let Some(reason) = self.exhausted().or_else(|| self.overworked()) {
            return Limit::Generator(reason);
        }
        match &self.plan.arrival {
            Arrival::Closed { .. } if self.is_thinking() => Limit::Offered,
            Arrival::Closed { .. } => Limit::Target,
            Arrival::Bursts { .. } => Limit::Offered,
            Arrival::Open { .. } if self.is_met() => Limit::Offered,
            Arrival::Open { in_flight_max, .. } => self.bound(*in_flight_max),
        }
    }

    /// Whether the system gave no more ports or descriptors.
    fn exhausted(&self) -> Option<String> {
        let count = |class: Class| self.totals.sum.faults[class.index()];
        let (ports, descriptors) = (count(Class::OutOfPorts), count(Class::OutOfDescriptors));
        if ports > 0 {
            return Some(format!("it ran out of local ports {ports} times"));
        }
        (descriptors > 0).then(|| format!("it ran out of descriptors {descriptors} times"))
    }

    /// Whether its threads could do no more.
    fn overworked(&self) -> Option<String> {
        let percent = |share: f64| (share * 100.0).round().min(100.0);
        if self.generator.cpu_busiest >= BUSY {
            return Some(format!("its busiest thread used {} % of a core", percent(self.generator.cpu_busiest)));
        }
        if self.wanted_busiest >= BUSY {
            let (ran, wanted) = (percent(self.generator.cpu_busiest), percent(self.wanted_busiest));
            return Some(format!(
                "its busiest thread was ready to run {wanted} % of the time and got a core for {ran} %: \
                 other programs took it"
            ));
        }
        let lag = self.generator.lag_p99;
        (lag >= LAG_LIMIT).then(|| format!("1 % of its timers were more than {} late", shown(lag)))
    }

    /// Whether workers spend more time in thought than in waiting for answers.
    fn is_thinking(&self) -> bool {
        let think = self.plan.think.map_or(Duration::ZERO, |(least, most)| (least + most) / 2);
        think.as_nanos() as f64 > self.totals.sum.times(Phase::Service).quantiles().mean_ns
    }

    /// Whether the rate that was offered was the rate of the requests that started.
    fn is_met(&self) -> bool {
        let counts = &self.totals.sum.counts;
        counts.started as f64 >= counts.due as f64 * MET && (self.waited as f64) < counts.due as f64 * (1.0 - MET)
    }

    /// No more requests may be under way, and that held the rate back. If the target took far longer than it can, it is
    /// the target that does not keep up; if not, it might have done more, had it been asked.
    fn bound(&self, in_flight_max: usize) -> Limit {
        let service = self.totals.sum.times(Phase::Service).quantiles();
        if service.count == 0 || service.mean_ns >= SLOWER * service.min_ns as f64 {
            return Limit::Target;
        }
        let possible = in_flight_max as f64 / (service.mean_ns / 1e9);
        Limit::Generator(format!(
            "no more than {in_flight_max} requests may be under way, which is {possible:.0} a second at {} each",
            shown(Duration::from_nanos(service.mean_ns as u64))
        ))
    }

    /// One sentence for each thing to know.
    pub(super) fn warnings(&self, limit: &Limit) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Limit::Generator(reason) = limit {
            warnings
                .push(format!("The generator was the limit, so that the figures say little of the target: {reason}."));
        }
        let all = [
            self.hidden_stalls(),
            self.rate_not_met(),
            self.unsent(),
            self.unfinished(),
            self.reconnections(),
            self.lag(),
            self.exhaustion(),
        ];
        warnings.extend(all.into_iter().flatten());
        warnings
    }

    fn hidden_stalls(&self) -> Option<String> {
        let Arrival::Closed { .. } = self.plan.arrival else { return None };
        let service = self.totals.sum.times(Phase::Service).quantiles();
        let begin = "In the closed model a worker that waits for an answer sends nothing, so that a stall of the target is \
                     seen once by each worker, however many users it would have hit; nothing here corrects for that";
        let is_stalled = service.count > 0 && service.max_ns > 10 * service.p99_ns.max(1_000_000);
        let stalled = || {
            let longest = Duration::from_nanos(service.max_ns);
            let usual = Duration::from_nanos(service.p99_ns);
            format!("; here the longest answer took {}, and 99 % no more than {}", shown(longest), shown(usual))
        };
        let seen = if is_stalled { stalled() } else { String::new() };
        Some(format!("{begin}{seen}. A fixed rate shows what users would see."))
    }

    fn rate_not_met(&self) -> Option<String> {
        let Arrival::Open { .. } = self.plan.arrival else { return None };
        let counts = &self.totals.sum.counts;
        let seconds = self.totals.measured.as_secs_f64();
        if self.is_met() || seconds <= 0.0 {
            return None;
        }
        let (due, started) = (counts.due as f64 / seconds, counts.started as f64 / seconds);
        Some(format!(
            "{due:.1} requests a second were offered and {started:.1} started; {} of them waited for others to end, and \
             their wait is in the response time.",
            self.waited
        ))
    }

    fn unsent(&self) -> Option<String> {
        let unsent = self.totals.sum.counts.unsent;
        (unsent > 0).then(|| format!("{unsent} requests were due and never sent; they are in no time that is told."))
    }

    fn unfinished(&self) -> Option<String> {
        let counts = &self.totals.sum.counts;
        let is_much = counts.unfinished * 100 > counts.started;
        is_much.then(|| {
            format!(
                "{} of {} requests had no answer when the run ended; they are in no time that is told, and the slowest \
                 may be among them.",
                counts.unfinished, counts.started
            )
        })
    }

    fn reconnections(&self) -> Option<String> {
        let count = self.totals.sum.counts.reconnections;
        (count > 0).then(|| {
            format!("{count} times the server had closed a connection between two requests, and another was opened.")
        })
    }

    fn lag(&self) -> Option<String> {
        let worst = self.seconds.iter().filter(|second| !second.warm_up).map(|second| second.lag_max).max();
        let (p99, max) = (self.generator.lag_p99, worst.unwrap_or(self.generator.lag_max));
        let service = self.totals.sum.times(Phase::Service).quantile_ns(0.5);
        let matters = p99 >= LAG_WORD && p99.as_nanos() * 10 >= u128::from(service);
        matters.then(|| {
            format!(
                "The generator itself was late by {} in 1 % of cases and by {} at most, which is part of the times that are \
                 told.",
                shown(p99),
                shown(max)
            )
        })
    }

    fn exhaustion(&self) -> Option<String> {
        let advice =
            |class: Class, advice: &str| (self.totals.sum.faults[class.index()] > 0).then(|| advice.to_string());
        let ports = "Every connection needs a local port of its own: reuse connections, or come from more addresses.";
        let descriptors = "Every connection needs a descriptor: raise the limit of this process, or open fewer.";
        advice(Class::OutOfPorts, ports).or_else(|| advice(Class::OutOfDescriptors, descriptors))
    }
}

/// A time with three digits, in the unit that suits it.
fn shown(time: Duration) -> String {
    let ns = time.as_nanos() as f64;
    let (value, unit) = match ns {
        0.0..1e3 => (ns, "ns"),
        1e3..1e6 => (ns / 1e3, "µs"),
        1e6..1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}
