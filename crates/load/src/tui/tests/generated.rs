//! Plausible events without an engine: the same seed gives the same events.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Control, EndReason, Generator, Limit, Outcome, Tick};
use crate::plan::{Arrival, Plan, Protocol, Resumption, Spacing, Steps, Tls, TlsVersion};
use crate::progress::{CellSummary, Estimate, Event, OfferedLoad};
use crate::record::{Class, Interval, Phase, Second, Totals};
use crate::request::Random;

/// Random number below a bound.
pub(crate) fn below(dice: &mut Random, bound: u64) -> u64 {
    dice.number() % bound.max(1)
}

/// Plan of an open loop at this rate, or of a closed loop with these workers.
pub(crate) fn plan(label: &str, offered: OfferedLoad, seconds: u64) -> Plan {
    let arrival = match offered {
        OfferedLoad::Rate(rate) => {
            Arrival::Open { rate: Steps::constant(rate), spacing: Spacing::Poisson, in_flight_max: 10_000 }
        }
        OfferedLoad::Concurrency(workers) => {
            Arrival::Closed { concurrency: Steps::constant(workers as f64), ramp_share: 0.1, loops: 0 }
        }
    };
    let tls = Tls {
        files: Default::default(),
        verify: true,
        verify_name: true,
        resumption: Resumption::On,
        min_version: TlsVersion::V12,
    };
    let mut plan = Plan::of(http::Uri::from_static("https://orders.example:8443/v1/orders?key=hidden"));
    plan.label = label.to_owned();
    plan.target.protocol = Protocol::Http2;
    plan.target.tls = Some(tls);
    plan.arrival = arrival;
    plan.stop.duration = Some(Duration::from_secs(seconds));
    plan.threads = 2;
    plan
}

/// Run in progress: each call of [`Story::tick`] adds a second.
#[derive(Debug)]
pub(crate) struct Story {
    dice: Random,
    totals: Totals,
    index: u32,
}

impl Story {
    /// Creates a story from a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Story {
            dice: Random::new(seed),
            totals: Totals { measured: Duration::ZERO, sum: Interval::default() },
            index: 0,
        }
    }

    /// Adds the next second, with `rate` requests due. Every 17th second has a stall.
    pub(crate) fn tick(&mut self, rate: f64) -> Tick {
        let mut interval = self.interval(rate);
        let (index, length) = (self.index, Duration::from_secs(1));
        let stalled = index % 17 == 16;
        interval.in_flight = if stalled { 400 } else { 20 + below(&mut self.dice, 30) };
        interval.connections = 64;
        let lag_max = Duration::from_micros(200 + below(&mut self.dice, 900));
        let cpu = 0.4 + self.dice.share() * 0.2;
        let second = Second { lag_max, cpu, ..interval.second(index, length * (index + 1), length) };
        self.totals.measured += length;
        (self.totals.sum.in_flight, self.totals.sum.connections) = (0, 0);
        self.totals.sum.add(&interval);
        self.index += 1;
        Tick { second, totals: self.totals.clone() }
    }

    fn interval(&mut self, rate: f64) -> Interval {
        let mut interval = Interval::default();
        let stalled = self.index % 17 == 16;
        let due = (rate * (0.95 + self.dice.share() * 0.1)) as u64;
        let samples = due.clamp(1, 300);
        for _ in 0..samples.min(due) {
            let spread = (self.dice.share() + self.dice.share() + self.dice.share()) * 2.2 - 3.3;
            let tail = if below(&mut self.dice, 60) == 0 { 8.0 } else { 1.0 };
            let service = Duration::from_secs_f64(0.004 * spread.exp() * tail);
            let waited = if stalled { Duration::from_secs_f64(self.dice.share() * 0.8) } else { Duration::ZERO };
            self.record(&mut interval, service, waited);
        }
        let failed = if self.index.is_multiple_of(5) { due / 200 } else { 0 };
        interval.counts.due = due;
        interval.counts.started = due;
        interval.counts.failed = failed;
        interval.counts.succeeded = due.saturating_sub(failed);
        interval.counts.bytes_sent = due * 180;
        interval.counts.bytes_received = due * 1_450;
        interval.counts.connections_tried = if self.index == 0 { 64 } else { below(&mut self.dice, 3) };
        interval.counts.connections_opened = interval.counts.connections_tried;
        interval.counts.handshakes_full = interval.counts.connections_opened.min(2);
        interval.counts.handshakes_resumed = interval.counts.connections_opened - interval.counts.handshakes_full;
        interval.statuses[200] = interval.counts.succeeded;
        interval.statuses[503] = failed / 2;
        for (class, count, example) in [
            (Class::Status, failed / 2, "503 Service Unavailable: {\"error\":\"no capacity\"}"),
            (Class::Timeout, failed - failed / 2, "no complete response within 10.0 s"),
        ] {
            interval.faults[class.index()] = count;
            interval.examples[class.index()] = (count > 0).then(|| example.to_owned());
        }
        interval.lag.record(Duration::from_micros(50 + below(&mut self.dice, 400)));
        interval
    }

    fn record(&mut self, interval: &mut Interval, service: Duration, waited: Duration) {
        let first_byte = service.mul_f64(0.8);
        for (phase, time) in [
            (Phase::Service, service),
            (Phase::Response, service + waited),
            (Phase::FirstByte, first_byte),
            (Phase::Server, service / 2),
        ] {
            interval.times[phase.index()].record(time);
        }
        if below(&mut self.dice, 50) == 0 {
            interval.times[Phase::Connect.index()].record(Duration::from_micros(150 + below(&mut self.dice, 100)));
            interval.times[Phase::Tls.index()].record(Duration::from_micros(900 + below(&mut self.dice, 900)));
        }
    }

    /// Outcome of the story so far.
    pub(crate) fn outcome(&self, plan: &Plan) -> Outcome {
        Outcome {
            plan: plan.clone(),
            started_ms: 1_700_000_000_000,
            elapsed: self.totals.measured,
            totals: self.totals.clone(),
            seconds: Vec::new(),
            generator: Generator {
                threads: 2,
                cpu: 0.5,
                cpu_busiest: 0.3,
                cores: 2,
                lag_p99: Duration::from_micros(400),
                lag_max: Duration::from_millis(1),
                memory_bytes: 30 << 20,
            },
            limit: Limit::Target,
            warnings: Vec::new(),
            ended: EndReason::Done,
        }
    }
}

/// One second of a run of this seed.
pub(crate) fn second(seed: u64, index: u32, rate: f64) -> Second {
    let mut second = Story::new(seed).tick(rate).second;
    second.index = index;
    second
}

/// Events of a run of an open loop; it is complete if `seconds` is `planned`.
pub(crate) fn single(seed: u64, seconds: u64, planned: u64) -> Vec<Event> {
    let plan = Arc::new(plan("orders", OfferedLoad::Rate(5_000.0), planned));
    let mut story = Story::new(seed);
    let mut events = vec![Event::Run { plan: plan.clone(), control: Control::default() }];
    events.extend((0..seconds).map(|_| Event::Tick(Box::new(story.tick(5_000.0)))));
    if seconds == planned {
        events.push(Event::Outcome(Box::new(story.outcome(&plan))));
    }
    events
}

/// Names of a matrix's cells.
pub(crate) const CELLS: [&str; 6] =
    ["http-reuse", "http-no-reuse", "https-reuse", "https-no-reuse", "https-mtls-reuse", "https-mtls-no-reuse"];

/// Summary of a finished cell.
pub(crate) fn cell_done(dice: &mut Random, name: &str, runs: u32) -> CellSummary {
    let skipped = name == "https-mtls-no-reuse" || name == "http-no-reuse";
    let rate = 4_000.0 + dice.share() * 20_000.0;
    CellSummary {
        name: name.to_owned(),
        missing: skipped.then(|| "skipped: no client certificate was given".to_owned()),
        knee: (!skipped).then_some(OfferedLoad::Concurrency(512)),
        rate: Estimate::new(if skipped { 0.0 } else { rate }, rate / 60.0),
        failed_share: 0.0004,
        mean_ns: 21e6,
        p95_ns: 48_000_000,
        p99_ns: 73_000_000,
        runs,
        limit: Some(if name.contains("mtls") {
            Limit::Generator("its processors were busy".to_owned())
        } else {
            Limit::Target
        }),
    }
}

/// Events of a load point: `repeats` of three runs of `seconds` seconds. Without the third, the last run is still in
/// progress.
fn point(events: &mut Vec<Event>, dice: &mut Random, workers: u64, left_max: u32, repeats: u32, seconds: u64) {
    for repeat in 1..=repeats {
        let offered = OfferedLoad::Concurrency(workers);
        let plan = Arc::new(plan("orders", offered, seconds));
        let mut story = Story::new(dice.number());
        events.push(Event::Point { offered, repeat, repeats: 3, left_max });
        events.push(Event::Run { plan: plan.clone(), control: Control::default() });
        let rate = 9_000.0 * workers as f64 / (workers as f64 + 300.0);
        events.extend((0..seconds).map(|_| Event::Tick(Box::new(story.tick(rate)))));
        if repeats == 3 || repeat < repeats {
            events.push(Event::Outcome(Box::new(story.outcome(&plan))));
        }
    }
}

/// Events of a matrix in its third cell, third load point, second repeat.
pub(crate) fn matrix(seed: u64) -> Vec<Event> {
    let mut dice = Random::new(seed);
    let mut events = Vec::new();
    for (index, name) in CELLS.iter().enumerate().take(3) {
        events.push(Event::Cell { name: (*name).to_owned(), index, of: CELLS.len() });
        if index == 1 {
            events.push(Event::CellDone(cell_done(&mut dice, name, 0)));
            continue;
        }
        point(&mut events, &mut dice, 256, 12, 3, 3);
        point(&mut events, &mut dice, 512, 11, 3, 3);
        point(&mut events, &mut dice, 1024, 10, if index == 2 { 2 } else { 3 }, 3);
        if index < 2 {
            events.push(Event::CellDone(cell_done(&mut dice, name, 9)));
        }
    }
    events
}
