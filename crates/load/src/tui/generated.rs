//! Plausible events without an engine: the same seed, the same events.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Control, Ended, Generator, Limit, Outcome, Tick};
use crate::plan::{
    Arrival, Connections, Plan, Protocol, Request, Resumption, Spacing, Steps, Stop, Target, Timeouts, Tls, TlsVersion,
};
use crate::progress::{CellSummary, Event, Offered};
use crate::record::{Class, Interval, Phase, Second, Times, Totals};

/// Numbers drawn from a seed (SplitMix64).
#[derive(Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 0.0 to 1.0.
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Below a bound.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

/// A plan: the open model at this rate, or the closed one with these workers.
pub(crate) fn plan(label: &str, offered: Offered, seconds: u64) -> Plan {
    let arrival = match offered {
        Offered::Rate(rate) => {
            Arrival::Open { rate: Steps::constant(rate), spacing: Spacing::Poisson, in_flight_max: 10_000 }
        }
        Offered::Concurrency(workers) => {
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
    Plan {
        label: label.to_owned(),
        target: Target {
            url: http::Uri::from_static("https://orders.example:8443/v1/orders?key=hidden"),
            addresses: Vec::new(),
            protocol: Protocol::Http2,
            tls: Some(tls),
            sealed: None,
            broker: None,
            channels: None,
        },
        request: Request {
            method: http::Method::GET,
            path: "/v1/orders?key=hidden".to_owned(),
            headers: Vec::new(),
            body: None,
            counter_start: 0,
        },
        arrival,
        stop: Stop { duration: Some(Duration::from_secs(seconds)), requests: None },
        warm_up: Duration::ZERO,
        connections: Connections { reuse: true, streams: 1, sources: Vec::new(), close_header: false },
        timeouts: Timeouts { connect: Duration::from_secs(5), request: Duration::from_secs(10) },
        assertions: Vec::new(),
        think: None,
        threads: 2,
        seed: 1,
    }
}

/// A run that goes on: each call of [`Story::tick`] is a second of it.
#[derive(Debug)]
pub(crate) struct Story {
    dice: Dice,
    totals: Totals,
    index: u32,
}

impl Story {
    /// One of this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Story { dice: Dice(seed), totals: Totals { measured: Duration::ZERO, sum: Interval::default() }, index: 0 }
    }

    /// The next second, in which so many requests are due. Every 17th second has a stall.
    pub(crate) fn tick(&mut self, rate: f64) -> Tick {
        let mut interval = self.interval(rate);
        let (index, length) = (self.index, Duration::from_secs(1));
        let stalled = index % 17 == 16;
        let second = Second {
            index,
            at: length * (index + 1),
            length,
            warm_up: false,
            counts: interval.counts,
            response: interval.times(Phase::Response).quantiles(),
            service: interval.times(Phase::Service).quantiles(),
            heat: interval.times(Phase::Response).heat(),
            statuses: interval.statuses(),
            faults: interval.faults().into_iter().map(|fault| (fault.class, fault.count)).collect(),
            in_flight: if stalled { 400 } else { 20 + self.dice.below(30) },
            connections: 64,
            lag_max: Duration::from_micros(200 + self.dice.below(900)),
            cpu: 0.4 + self.dice.share() * 0.2,
        };
        interval.in_flight = second.in_flight;
        interval.connections = second.connections;
        self.add(&interval, length);
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
            let tail = if self.dice.below(60) == 0 { 8.0 } else { 1.0 };
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
        interval.counts.connections_tried = if self.index == 0 { 64 } else { self.dice.below(3) };
        interval.counts.connections_opened = interval.counts.connections_tried;
        interval.counts.handshakes_full = interval.counts.connections_opened.min(2);
        interval.counts.handshakes_resumed = interval.counts.connections_opened - interval.counts.handshakes_full;
        interval.statuses[200] = interval.counts.succeeded;
        interval.statuses[503] = failed / 2;
        for (class, count, example) in [
            (Class::Status, failed / 2, "503 Service Unavailable: {\"error\":\"no capacity\"}"),
            (Class::Timeout, failed - failed / 2, "no whole answer within 10.0 s"),
        ] {
            interval.faults[class.index()] = count;
            interval.examples[class.index()] = (count > 0).then(|| example.to_owned());
        }
        interval.lag.record(Duration::from_micros(50 + self.dice.below(400)));
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
        if self.dice.below(50) == 0 {
            interval.times[Phase::Connect.index()].record(Duration::from_micros(150 + self.dice.below(100)));
            interval.times[Phase::Tls.index()].record(Duration::from_micros(900 + self.dice.below(900)));
        }
    }

    fn add(&mut self, interval: &Interval, length: Duration) {
        self.totals.measured += length;
        let (sum, more) = (&mut self.totals.sum, interval.counts);
        let counts = &mut sum.counts;
        counts.due += more.due;
        counts.started += more.started;
        counts.succeeded += more.succeeded;
        counts.failed += more.failed;
        counts.bytes_sent += more.bytes_sent;
        counts.bytes_received += more.bytes_received;
        counts.connections_tried += more.connections_tried;
        counts.connections_opened += more.connections_opened;
        counts.handshakes_full += more.handshakes_full;
        counts.handshakes_resumed += more.handshakes_resumed;
        sum.statuses.iter_mut().zip(interval.statuses.iter()).for_each(|(mine, more)| *mine += more);
        sum.faults.iter_mut().zip(interval.faults).for_each(|(mine, more)| *mine += more);
        for (mine, more) in sum.examples.iter_mut().zip(&interval.examples) {
            if mine.is_none() {
                mine.clone_from(more);
            }
        }
        sum.times.iter_mut().zip(&interval.times).for_each(|(mine, more): (&mut Times, _)| mine.add(more));
        sum.lag.add(&interval.lag);
        (sum.in_flight, sum.connections) = (interval.in_flight, interval.connections);
    }

    /// What it came to.
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
            ended: Ended::Done,
        }
    }
}

/// One second of a run of this seed.
pub(crate) fn second(seed: u64, index: u32, rate: f64) -> Second {
    let mut second = Story::new(seed).tick(rate).second;
    second.index = index;
    second
}

/// A run of so many seconds in the open model, whole.
pub(crate) fn single(seed: u64, seconds: u64, planned: u64) -> Vec<Event> {
    let plan = Arc::new(plan("orders", Offered::Rate(5_000.0), planned));
    let mut story = Story::new(seed);
    let mut events = vec![Event::Run { plan: plan.clone(), control: Control::default() }];
    events.extend((0..seconds).map(|_| Event::Tick(Box::new(story.tick(5_000.0)))));
    if seconds == planned {
        events.push(Event::Outcome(Box::new(story.outcome(&plan))));
    }
    events
}

/// The names of a matrix's cells.
pub(crate) const CELLS: [&str; 6] =
    ["http-reuse", "http-no-reuse", "https-reuse", "https-no-reuse", "https-mtls-reuse", "https-mtls-no-reuse"];

/// What came of a cell.
pub(crate) fn cell_done(dice: &mut Dice, name: &str, runs: u32) -> CellSummary {
    let skipped = name == "https-mtls-no-reuse" || name == "http-no-reuse";
    let rate = 4_000.0 + dice.share() * 20_000.0;
    CellSummary {
        name: name.to_owned(),
        missing: skipped.then(|| "skipped: no client certificate was given".to_owned()),
        knee: (!skipped).then_some(Offered::Concurrency(512)),
        rate: if skipped { 0.0 } else { rate },
        rate_error: rate / 60.0,
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

/// A load point: so many of three repeats of a run of `seconds` seconds; without the third, the last one goes on.
fn point(events: &mut Vec<Event>, dice: &mut Dice, workers: u64, left_max: u32, repeats: u32, seconds: u64) {
    for repeat in 1..=repeats {
        let offered = Offered::Concurrency(workers);
        let plan = Arc::new(plan("orders", offered, seconds));
        let mut story = Story::new(dice.next());
        events.push(Event::Point { offered, repeat, repeats: 3, left_max });
        events.push(Event::Run { plan: plan.clone(), control: Control::default() });
        let rate = 9_000.0 * workers as f64 / (workers as f64 + 300.0);
        events.extend((0..seconds).map(|_| Event::Tick(Box::new(story.tick(rate)))));
        if repeats == 3 || repeat < repeats {
            events.push(Event::Outcome(Box::new(story.outcome(&plan))));
        }
    }
}

/// A matrix in its third cell, its third load point, the second repeat of it.
pub(crate) fn matrix(seed: u64) -> Vec<Event> {
    let mut dice = Dice(seed);
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
