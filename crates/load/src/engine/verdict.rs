//! What held the rate back, and what a reader must know before believing the figures.

use std::time::Duration;

use super::{Generator, Limit};
use crate::plan::{Arrival, Plan};
use crate::record::{Class, Phase, Second, Totals};

/// A thread that ran, or was ready to run, for so much of its time had none to spare.
const BUSY: f64 = 0.9;
/// Timers of which one in a hundred is later than this hold the load itself back.
const LAG_LIMIT: Duration = Duration::from_millis(50);
/// So do those of which one in a hundred is later than this and than half of the answers.
const LAG_LIMIT_SHORT: Duration = Duration::from_millis(5);
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
    /// How long after its moment the last request of a burst started.
    pub(super) spread: Duration,
}

impl Facts<'_> {
    /// What held the rate back.
    pub(super) fn limit(&self) -> Limit {
        let overworked = || self.overworked().filter(|_| !self.is_rejected());
        if let Some(reason) = self.exhausted().or_else(overworked) {
            return Limit::Generator(reason);
        }
        if let Some(reason) = self.unmeasured() {
            return Limit::Unmeasured(reason);
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
        let (what, lost) = if ports > 0 { ("local ports", ports) } else { ("descriptors", descriptors) };
        let connections = if lost == 1 { "connection" } else { "connections" };
        (lost > 0).then(|| format!("it ran out of {what}, and {lost} {connections} could not be opened"))
    }

    /// The class of most failures, where no request succeeded.
    fn failure(&self) -> Option<Class> {
        let sum = &self.totals.sum;
        let most = sum.faults().into_iter().max_by_key(|fault| fault.count).filter(|_| sum.counts.succeeded == 0);
        most.map(|fault| fault.class)
    }

    /// Whether the target let no request succeed, for another reason than that it took too long.
    fn is_rejected(&self) -> bool {
        self.failure().is_some_and(|class| !matches!(class, Class::Timeout | Class::ConnectTimeout))
    }

    /// Why no request succeeded, and what to do.
    fn unmeasured(&self) -> Option<String> {
        let counts = &self.totals.sum.counts;
        let (what, remedy) = match self.failure() {
            None if counts.succeeded > 0 || counts.started == 0 => return None,
            None => ("no request came to its end", "run for longer, or set a --timeout"),
            Some(Class::Refused) => {
                ("the target refused every connection", "start the server, or mend the URL's host and port")
            }
            Some(Class::Timeout | Class::ConnectTimeout) => {
                ("no answer came in time", "raise --timeout and --connect-timeout, or offer less load")
            }
            Some(class) if class.is_connecting() => {
                ("no connection could be opened", "mend what the first failure names")
            }
            Some(Class::Status | Class::Assertion) => {
                ("no answer was as expected", "mend the URL, the request or the assertions")
            }
            Some(_) => ("every request failed", "mend what the first failure names"),
        };
        Some(format!("{what}: {remedy}"))
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
        let service = Duration::from_nanos(self.totals.sum.times(Phase::Service).quantile_ns(0.5));
        let is_late = lag >= LAG_LIMIT || (lag >= LAG_LIMIT_SHORT && service > Duration::ZERO && lag >= service);
        is_late.then(|| {
            format!("1 % of its timers were more than {} late, where an answer takes {}", shown(lag), shown(service))
        })
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
            self.spread(),
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
        if self.totals.sum.counts.succeeded == 0 {
            return None;
        }
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
        // Time goes on after the last was due, until all have ended: a rate over it is not the one that was offered.
        if self.plan.stop.duration.is_none() {
            return Some(format!(
                "Requests were due faster than they could be made: {} of {} waited for others to end, and their wait is in \
                 the response time.",
                self.waited, counts.due
            ));
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
        (unsent > 0).then(|| {
            let (requests, were, are) =
                if unsent == 1 { ("request", "was", "is") } else { ("requests", "were", "are") };
            format!("{unsent} {requests} {were} due and never sent, and {are} in no time that is told.")
        })
    }

    fn spread(&self) -> Option<String> {
        (self.spread >= LAG_WORD).then(|| {
            format!(
                "The last request of a burst started {} after the burst's moment, which is in its response time and not in \
                 its service time.",
                shown(self.spread)
            )
        })
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
            let times = if count == 1 { "Once".to_owned() } else { format!("{count} times") };
            format!("{times} the server had closed a connection between two requests, and another was opened.")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Connections, Protocol, Request, Spacing, Steps, Stop, Target, Timeouts};
    use crate::record::Interval;

    /// `GET /` in the closed model.
    fn closed() -> Plan {
        let url = "http://127.0.0.1/".parse().unwrap();
        let path = "/".to_owned();
        Plan {
            label: String::new(),
            target: Target {
                url,
                addresses: vec![],
                protocol: Protocol::Http1,
                tls: None,
                sealed: None,
                broker: None,
                channels: None,
            },
            request: Request { method: http::Method::GET, path, headers: vec![], body: None, counter_start: 0 },
            arrival: Arrival::Closed { concurrency: Steps::constant(2.0), ramp_share: 0.0, loops: 0 },
            stop: Stop { duration: None, requests: None },
            warm_up: Duration::ZERO,
            connections: Connections { reuse: true, streams: 1, sources: vec![], close_header: false },
            timeouts: Timeouts { connect: Duration::from_secs(5), request: Duration::from_secs(5) },
            assertions: vec![],
            think: None,
            threads: 2,
            seed: 1,
        }
    }

    /// So many requests that took so many milliseconds each.
    fn totals(due: u64, service_ms: &[u64]) -> Totals {
        let mut sum = Interval::default();
        sum.counts.due = due;
        sum.counts.started = service_ms.len() as u64;
        sum.counts.succeeded = sum.counts.started;
        for ms in service_ms {
            sum.times[Phase::Service.index()].record(Duration::from_millis(*ms));
        }
        Totals { measured: Duration::from_secs(10), sum }
    }

    fn open(in_flight_max: usize) -> Plan {
        let rate = Steps::constant(100.0);
        Plan { arrival: Arrival::Open { rate, spacing: Spacing::Even, in_flight_max }, ..closed() }
    }

    fn facts<'a>(plan: &'a Plan, totals: &'a Totals, generator: &'a Generator) -> Facts<'a> {
        Facts { plan, totals, seconds: &[], generator, wanted_busiest: 0.0, waited: 0, spread: Duration::ZERO }
    }

    fn limit(plan: &Plan, totals: &Totals, generator: &Generator, wanted_busiest: f64, waited: u64) -> Limit {
        Facts { wanted_busiest, waited, ..facts(plan, totals, generator) }.limit()
    }

    #[test]
    fn a_generator_that_has_no_time_to_spare_is_the_limit() {
        let (plan, totals) = (closed(), totals(100, &[5; 100]));
        let at = |cpu_busiest, wanted, lag_ms| {
            let lag_p99 = Duration::from_millis(lag_ms);
            limit(&plan, &totals, &Generator { cpu_busiest, lag_p99, ..Generator::default() }, wanted, 0)
        };
        // The answers take 5 ms.
        assert_eq!(at(0.8, 0.85, 3), Limit::Target);
        for (limit, word) in [
            (at(0.95, 0.95, 0), "95 %"),
            (at(0.3, 0.97, 0), "other programs"),
            (at(0.1, 0.1, 6), "an answer takes 5.0"),
        ] {
            assert!(matches!(&limit, Limit::Generator(reason) if reason.contains(word)), "{limit:?}");
        }
    }

    #[test]
    fn an_offered_rate_that_was_met_is_its_own_limit_and_one_that_was_not_names_who_held_it_back() {
        let generator = Generator::default();
        assert_eq!(limit(&open(10), &totals(1000, &[5; 1000]), &generator, 0.1, 3), Limit::Offered);
        // All take a second: with ten under way, no target could do more than ten a second.
        let bound = limit(&open(10), &totals(1000, &[1000; 100]), &generator, 0.1, 900);
        assert!(matches!(&bound, Limit::Generator(reason) if reason.contains("10 a second at 1.00 s")), "{bound:?}");
        // It can answer in 5 ms, and takes a second under this load.
        let slow: Vec<u64> = (0..100).map(|number| if number < 10 { 5 } else { 1000 }).collect();
        assert_eq!(limit(&open(10), &totals(1000, &slow), &generator, 0.1, 900), Limit::Target);
    }

    #[test]
    fn a_target_that_lets_no_request_succeed_is_no_limit() {
        let generator = Generator { cpu_busiest: 0.95, ..Generator::default() };
        let failed = |class: Class, succeeded: u64| {
            let mut totals = totals(10, &vec![5; succeeded as usize]);
            (totals.sum.counts.started, totals.sum.counts.failed) = (10, 10 - succeeded);
            totals.sum.faults[class.index()] = 10 - succeeded;
            totals
        };
        let plan = closed();
        // A thread that spins through refusals is busy, and the generator is not the limit for that.
        for generator in [&generator, &Generator::default()] {
            for (class, words) in [
                (Class::Refused, "the target refused every connection: start the server"),
                (Class::Certificate, "no connection could be opened: mend"),
                (Class::Status, "no answer was as expected: mend the URL"),
            ] {
                let limit = limit(&plan, &failed(class, 0), generator, 0.0, 0);
                assert!(matches!(&limit, Limit::Unmeasured(why) if why.starts_with(words)), "{limit:?}");
            }
        }
        // Answers that are late may be so for the generator's own reasons.
        assert!(matches!(limit(&plan, &failed(Class::Timeout, 0), &generator, 0.0, 0), Limit::Generator(_)));
        let idle = Generator::default();
        assert!(matches!(limit(&plan, &failed(Class::Timeout, 0), &idle, 0.0, 0), Limit::Unmeasured(_)));
        assert_eq!(limit(&plan, &failed(Class::Refused, 1), &idle, 0.0, 0), Limit::Target);
        assert_eq!(facts(&plan, &failed(Class::Refused, 0), &idle).hidden_stalls(), None);
    }

    #[test]
    fn ports_and_descriptors_that_ran_out_are_the_generators_limit() {
        let mut totals = totals(10, &[5; 9]);
        totals.sum.faults[Class::OutOfPorts.index()] = 1;
        let plan = closed();
        let generator = Generator::default();
        let facts = facts(&plan, &totals, &generator);
        let limit = facts.limit();
        assert!(matches!(&limit, Limit::Generator(reason) if reason.contains("local ports")), "{limit:?}");
        let warnings = facts.warnings(&limit).join("\n");
        assert!(warnings.contains("reuse connections") && warnings.contains("closed model"), "{warnings}");
    }

    #[test]
    fn a_stall_that_the_closed_model_hides_is_told_in_figures() {
        let mut times = vec![2; 2000];
        times.push(1000);
        let (plan, totals, generator) = (closed(), totals(2001, &times), Generator::default());
        let facts = facts(&plan, &totals, &generator);
        let warnings = facts.warnings(&Limit::Target).join("\n");
        assert!(warnings.contains("the longest answer took 1.00 s, and 99 % no more than 2.00 ms"), "{warnings}");
    }
}
