//! Bottleneck of a run, and warnings about its figures.

use std::time::Duration;

use super::{Generator, Limit};
use crate::figures::length;
use crate::plan::{Arrival, Plan};
use crate::record::{Class, Phase, Second, Totals};

/// Share of time from which a thread that ran, or was ready to run, had none to spare.
const BUSY: f64 = 0.9;
/// 99th percentile of timer delay above which the generator holds the load back.
const LAG_LIMIT: Duration = Duration::from_millis(50);
/// Lower bound of the same, if the delay also exceeds the median service time.
const LAG_LIMIT_SHORT: Duration = Duration::from_millis(5);
/// Timer delay above which the report warns.
const LAG_WARN: Duration = Duration::from_millis(2);
/// Share of due requests that must start for the offered rate to be met.
const MET: f64 = 0.99;
/// Ratio of mean to shortest service time from which the load slows the target.
const SLOWER: f64 = 3.0;

/// Measurements that the verdict is based on.
pub(super) struct Facts<'a> {
    pub(super) plan: &'a Plan,
    pub(super) totals: &'a Totals,
    pub(super) seconds: &'a [Second],
    pub(super) generator: &'a Generator,
    /// Largest share of its time that a thread ran or was ready to run.
    pub(super) wanted_busiest: f64,
    /// Number of requests that waited for another to end, because the number under way is bounded.
    pub(super) waited: u64,
    /// Longest delay of the last request of a burst.
    pub(super) spread: Duration,
}

impl Facts<'_> {
    /// Returns the bottleneck that held the rate back.
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

    /// Returns a reason if the system ran out of ports or descriptors.
    fn exhausted(&self) -> Option<String> {
        let count = |class: Class| self.totals.sum.faults[class.index()];
        let (ports, descriptors) = (count(Class::OutOfPorts), count(Class::OutOfDescriptors));
        let (what, lost) = if ports > 0 { ("local ports", ports) } else { ("file descriptors", descriptors) };
        let connections = if lost == 1 { "connection" } else { "connections" };
        (lost > 0).then(|| format!("out of {what}, {lost} {connections} could not be opened"))
    }

    /// Returns the most frequent class of failure, if no request succeeded.
    fn failure(&self) -> Option<Class> {
        let sum = &self.totals.sum;
        let most = sum.faults().into_iter().max_by_key(|failure| failure.count).filter(|_| sum.counts.succeeded == 0);
        most.map(|failure| failure.class)
    }

    /// Returns whether no request succeeded for a reason other than a timeout.
    fn is_rejected(&self) -> bool {
        self.failure().is_some_and(|class| !matches!(class, Class::Timeout | Class::ConnectTimeout))
    }

    /// Returns a reason and a remedy if no request succeeded.
    fn unmeasured(&self) -> Option<String> {
        let counts = &self.totals.sum.counts;
        let (what, remedy) = match self.failure() {
            None if counts.succeeded > 0 || counts.started == 0 => return None,
            None => ("no request ended", "run for longer, or set a shorter --timeout"),
            Some(Class::Refused) => {
                ("the target refused every connection", "start the server, or correct the URL's host and port")
            }
            Some(Class::Timeout | Class::ConnectTimeout) => {
                ("every request timed out", "raise --timeout and --connect-timeout, or offer less load")
            }
            Some(class) if class.is_connecting() => ("no connection could be opened", "see the first failure"),
            Some(Class::Status | Class::Assertion) => {
                ("every response failed its assertions", "correct the URL, the request or the assertions")
            }
            Some(_) => ("every request failed", "see the first failure"),
        };
        Some(format!("{what}: {remedy}"))
    }

    /// Returns a reason if the generator's threads were at their limit.
    fn overworked(&self) -> Option<String> {
        let percent = |share: f64| (share * 100.0).round().min(100.0);
        if self.generator.cpu_busiest >= BUSY {
            return Some(format!(
                "its busiest thread used {} % of a core{}; raise --threads, or use a faster machine",
                percent(self.generator.cpu_busiest),
                self.messages()
            ));
        }
        if self.wanted_busiest >= BUSY {
            let (ran, wanted) = (percent(self.generator.cpu_busiest), percent(self.wanted_busiest));
            return Some(format!(
                "its busiest thread needed a core for {wanted} % of the time and got one for {ran} %; \
                 stop other programs on this machine"
            ));
        }
        let lag = self.generator.lag_p99;
        let service = Duration::from_nanos(self.totals.sum.times(Phase::Service).quantile_ns(0.5));
        let is_late = lag >= LAG_LIMIT || (lag >= LAG_LIMIT_SHORT && service > Duration::ZERO && lag >= service);
        is_late.then(|| {
            format!(
                "1 % of its timers were more than {} late, and a response takes {}; offer less load",
                length(lag),
                length(service)
            )
        })
    }

    /// Names the share of the generator's threads that sealing requests and opening responses took, where each costs public-key
    /// operations of its own. Empty for another target.
    fn messages(&self) -> String {
        let threads = self.totals.measured.as_secs_f64() * self.plan.threads as f64;
        let operations = match &self.plan.target {
            target if target.mle.is_some() => "RSA",
            target if target.one_shot.is_some() => "HPKE",
            _ => return String::new(),
        };
        if threads <= 0.0 {
            return String::new();
        }
        let spent = [Phase::Seal, Phase::Open].map(|phase| {
            let times = self.totals.sum.times(phase);
            times.quantiles().mean_ns * times.len() as f64 / 1e9
        });
        let share = (spent.iter().sum::<f64>() / threads * 100.0).round().min(100.0);
        format!(", and {share} % went to sealing requests and opening responses ({operations})")
    }

    /// Returns whether workers spend more time thinking than waiting for answers.
    fn is_thinking(&self) -> bool {
        let think = self.plan.think.map_or(Duration::ZERO, |(least, most)| (least + most) / 2);
        think.as_nanos() as f64 > self.totals.sum.times(Phase::Service).quantiles().mean_ns
    }

    /// Returns whether requests started at the offered rate.
    fn is_met(&self) -> bool {
        let counts = &self.totals.sum.counts;
        counts.started as f64 >= counts.due as f64 * MET && (self.waited as f64) < counts.due as f64 * (1.0 - MET)
    }

    /// Returns the bottleneck of a run whose bound on concurrent requests held the rate back: the target if it took far
    /// longer than its shortest answer, otherwise the generator, which could have sent more.
    fn bound(&self, in_flight_max: usize) -> Limit {
        let service = self.totals.sum.times(Phase::Service).quantiles();
        if service.count == 0 || service.mean_ns >= SLOWER * service.min_ns as f64 {
            return Limit::Target;
        }
        let possible = in_flight_max as f64 / (service.mean_ns / 1e9);
        Limit::Generator(format!(
            "--in-flight-max {in_flight_max} allows at most {possible:.0} requests/s at {} each; raise it",
            length(Duration::from_nanos(service.mean_ns as u64))
        ))
    }

    /// Returns the warnings, one sentence each.
    pub(super) fn warnings(&self, limit: &Limit) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Limit::Generator(reason) = limit {
            warnings.push(format!(
                "The generator was the bottleneck, so the figures do not describe the target: {reason}."
            ));
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
        let begin = "Closed loop: a worker that waits for a response sends nothing, so a stall of the target counts once per \
                     worker and not once per user that it would affect (coordinated omission).";
        let is_stalled = service.count > 0 && service.max_ns > 10 * service.p99_ns.max(1_000_000);
        let stalled = || {
            let longest = Duration::from_nanos(service.max_ns);
            let usual = Duration::from_nanos(service.p99_ns);
            format!(" The slowest response took {}, 99 % took at most {}.", length(longest), length(usual))
        };
        let seen = if is_stalled { stalled() } else { String::new() };
        Some(format!("{begin}{seen} To measure what users would see, send at a fixed --rate."))
    }

    fn rate_not_met(&self) -> Option<String> {
        let Arrival::Open { .. } = self.plan.arrival else { return None };
        let counts = &self.totals.sum.counts;
        let seconds = self.totals.measured.as_secs_f64();
        if self.is_met() || seconds <= 0.0 {
            return None;
        }
        // The run continues after the last due time until all requests have ended: a rate over that time is not the offered
        // one.
        if self.plan.stop.duration.is_none() {
            return Some(format!(
                "Requests were due faster than they could be sent: {} of {} waited until others ended. Response times \
                 include this wait.",
                self.waited, counts.due
            ));
        }
        let (due, started) = (counts.due as f64 / seconds, counts.started as f64 / seconds);
        Some(format!(
            "{due:.1} requests/s were due and {started:.1}/s were sent: {} requests waited until others ended. Response \
             times include this wait.",
            self.waited
        ))
    }

    fn unsent(&self) -> Option<String> {
        let unsent = self.totals.sum.counts.unsent;
        (unsent > 0).then(|| {
            let requests = if unsent == 1 { "request was" } else { "requests were" };
            format!("{unsent} {requests} due but never sent. No reported time includes them.")
        })
    }

    fn spread(&self) -> Option<String> {
        (self.spread >= LAG_WARN).then(|| {
            format!(
                "The last request of a burst was sent {} after the burst was due. Response times include this delay, \
                 service times do not.",
                length(self.spread)
            )
        })
    }

    fn unfinished(&self) -> Option<String> {
        let counts = &self.totals.sum.counts;
        let is_much = counts.unfinished * 100 > counts.started;
        is_much.then(|| {
            format!(
                "{} of {} requests had no response when the run ended. No reported time includes them, and the slowest \
                 may be among them: run for longer.",
                counts.unfinished, counts.started
            )
        })
    }

    fn reconnections(&self) -> Option<String> {
        let count = self.totals.sum.counts.reconnections;
        (count > 0).then(|| {
            let connections = if count == 1 { "1 connection".to_owned() } else { format!("{count} connections") };
            format!("The server closed {connections} between two requests; each was replaced by a new one.")
        })
    }

    fn lag(&self) -> Option<String> {
        let worst = self.seconds.iter().filter(|second| !second.warm_up).map(|second| second.lag_max).max();
        let (p99, max) = (self.generator.lag_p99, worst.unwrap_or(self.generator.lag_max));
        let service = self.totals.sum.times(Phase::Service).quantile_ns(0.5);
        let matters = p99 >= LAG_WARN && p99.as_nanos() * 10 >= u128::from(service);
        matters.then(|| {
            format!(
                "Timers of the generator were late: 1 % by more than {}, the worst by {}. The reported times include \
                 this delay.",
                length(p99),
                length(max)
            )
        })
    }

    fn exhaustion(&self) -> Option<String> {
        let advice =
            |class: Class, advice: &str| (self.totals.sum.faults[class.index()] > 0).then(|| advice.to_string());
        let ports = "Every open connection needs a local port: reuse connections, or add --source addresses.";
        let descriptors =
            "Every open connection needs a file descriptor: raise the limit (ulimit -n), or open fewer connections.";
        advice(Class::OutOfPorts, ports).or_else(|| advice(Class::OutOfDescriptors, descriptors))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{MessageSettings, OneShotProtocol, OneShotRequests, Spacing, Steps};
    use crate::record::Interval;

    /// `GET /` in a closed loop.
    fn closed() -> Plan {
        let mut plan = Plan::of(http::Uri::from_static("http://127.0.0.1/"));
        plan.arrival = Arrival::Closed { concurrency: Steps::constant(2.0), ramp_share: 0.0, loops: 0 };
        plan
    }

    /// Totals of this many due requests, with these service times in milliseconds.
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
    fn a_generator_without_spare_time_is_the_bottleneck() {
        let (plan, totals) = (closed(), totals(100, &[5; 100]));
        let at = |cpu_busiest, wanted, lag_ms| {
            let lag_p99 = Duration::from_millis(lag_ms);
            limit(&plan, &totals, &Generator { cpu_busiest, lag_p99, ..Generator::default() }, wanted, 0)
        };
        // The answers take 5 ms, so a lag of 3 ms is no bottleneck.
        assert_eq!(at(0.8, 0.85, 3), Limit::Target);
        for (limit, word) in [
            (at(0.95, 0.95, 0), "95 %"),
            (at(0.3, 0.97, 0), "stop other programs"),
            (at(0.1, 0.1, 6), "a response takes 5.0"),
        ] {
            assert!(matches!(&limit, Limit::Generator(reason) if reason.contains(word)), "{limit:?}");
        }
    }

    #[test]
    fn the_cost_of_rsa_is_named_where_the_generator_is_the_bottleneck() {
        let mut plan = closed();
        plan.target.mle = Some(MessageSettings::default());
        let mut totals = totals(100, &[5; 100]);
        // In ten seconds of one thread.
        for (phase, ms) in [(Phase::Seal, 1), (Phase::Open, 49)] {
            (0..100).for_each(|_| totals.sum.times[phase.index()].record(Duration::from_millis(ms)));
        }
        let generator = Generator { cpu_busiest: 0.95, ..Generator::default() };
        let Limit::Generator(reason) = limit(&plan, &totals, &generator, 0.95, 0) else { panic!("the generator") };
        assert!(reason.contains(", and 50 % went to sealing requests and opening responses (RSA);"), "{reason}");
        let Limit::Generator(reason) = limit(&closed(), &totals, &generator, 0.95, 0) else { panic!("the generator") };
        assert!(!reason.contains("RSA"), "{reason}");
        plan.target.mle = None;
        plan.target.one_shot = Some(OneShotRequests {
            protocol: OneShotProtocol::Ehbp,
            trust: None,
            kems: Vec::new(),
            psk: None,
            inner: None,
        });
        let Limit::Generator(reason) = limit(&plan, &totals, &generator, 0.95, 0) else { panic!("the generator") };
        assert!(reason.contains(", and 50 % went to sealing requests and opening responses (HPKE);"), "{reason}");
    }

    #[test]
    fn an_unmet_rate_names_the_bottleneck_and_a_met_rate_has_none() {
        let generator = Generator::default();
        assert_eq!(limit(&open(10), &totals(1000, &[5; 1000]), &generator, 0.1, 3), Limit::Offered);
        // All answers take a second: with ten under way, no target could do more than ten a second.
        let bound = limit(&open(10), &totals(1000, &[1000; 100]), &generator, 0.1, 900);
        assert!(matches!(&bound, Limit::Generator(reason) if reason.contains("10 requests/s at 1.00 s")), "{bound:?}");
        // The target can answer in 5 ms, and takes a second under this load.
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
        // A thread that spins through refusals is busy, but the generator is not the limit.
        for generator in [&generator, &Generator::default()] {
            for (class, words) in [
                (Class::Refused, "the target refused every connection: start the server"),
                (Class::Certificate, "no connection could be opened: see"),
                (Class::Status, "every response failed its assertions: correct the URL"),
            ] {
                let limit = limit(&plan, &failed(class, 0), generator, 0.0, 0);
                assert!(matches!(&limit, Limit::Unmeasured(why) if why.starts_with(words)), "{limit:?}");
            }
        }
        // Late answers may be the generator's own failure.
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
        assert!(warnings.contains("reuse connections") && warnings.contains("Closed loop"), "{warnings}");
    }

    #[test]
    fn a_stall_that_a_closed_loop_hides_is_reported_with_figures() {
        let mut times = vec![2; 2000];
        times.push(1000);
        let (plan, totals, generator) = (closed(), totals(2001, &times), Generator::default());
        let facts = facts(&plan, &totals, &generator);
        let warnings = facts.warnings(&Limit::Target).join("\n");
        assert!(warnings.contains("The slowest response took 1.00 s, 99 % took at most 2.00 ms"), "{warnings}");
    }
}
