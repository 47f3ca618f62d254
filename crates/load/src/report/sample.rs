//! Plausible outcomes for tests: the same seed, the same outcome.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};

use super::machine::Machine;
use crate::engine::{Ended, Generator, Limit, Outcome};
use crate::plan::{
    Arrival, Assertion, Connections, Plan, Protocol, Request, Resumption, Spacing, Steps, Stop, Target, Text, Timeouts,
    Tls, TlsVersion,
};
use crate::record::{Class, Heat, Interval, Phase, Second, Times, Totals};

/// What a stranger's server may say.
pub(crate) const HOSTILE: &str = "</script><script>alert(1)</script> \"'&<b> ]]> | `x` [a](javascript:b) \u{1b}[31m\u{0}\u{202e}\r\n=cmd|' /C calc'!A0";

/// Which kind of run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Healthy, with a few faults.
    Usual,
    /// With a second in which nothing came back.
    Stalled,
    /// Not one request.
    Empty,
    /// Every request failed.
    AllFailed,
}

/// Numbers that look random: splitmix64.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0.0 to 1.0, neither of both.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Normal, of mean 0 and deviation 1.
    pub(crate) fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// A plan with a secret in every place that has one.
pub(crate) fn plan() -> Plan {
    let files = sealway_runtime::tls::ClientFiles {
        ca: Some("/hidden/ca.pem".into()),
        system_roots: false,
        cert: Some("/hidden/client.pfx".into()),
        key: None,
        password_file: None,
        password: Some("s3cret-pfx".to_owned().into()),
        server_name: None,
    };
    Plan {
        label: "checkout".to_owned(),
        target: Target {
            url: "https://ann:s3cret-url@api.example:8443/pay?id=1&token=s3cret-query".parse().unwrap(),
            addresses: vec!["127.0.0.1:8443".parse().unwrap()],
            protocol: Protocol::Http2,
            tls: Some(Tls {
                files,
                verify: true,
                verify_name: true,
                resumption: Resumption::Both,
                min_version: TlsVersion::V13,
            }),
            sealed: None,
            broker: None,
            channels: None,
        },
        request: Request {
            method: Method::POST,
            path: "/pay?id={{counter}}&token=s3cret-query".to_owned(),
            headers: vec![(
                HeaderName::from_static("authorization"),
                Text::from(&HeaderValue::from_static("Bearer s3cret-header")),
            )],
            body: Some(Text::Template("{\"id\":\"{{uuid}}\"}".to_owned())),
            counter_start: 1,
        },
        arrival: Arrival::Open { rate: Steps::constant(1000.0), spacing: Spacing::Poisson, in_flight_max: 4096 },
        stop: Stop { duration: Some(Duration::from_secs(60)), requests: None },
        warm_up: Duration::from_secs(3),
        connections: Connections { reuse: true, streams: 10, sources: vec![], close_header: false },
        timeouts: Timeouts { connect: Duration::from_secs(5), request: Duration::from_secs(10) },
        assertions: vec![Assertion::Status(vec![200, 201])],
        think: None,
        threads: 2,
        seed: 7,
    }
}

/// The machine of all samples.
pub(crate) fn machine() -> Machine {
    Machine {
        cores: 8,
        os: "linux".to_owned(),
        kernel: "6.1.0".to_owned(),
        architecture: "x86_64".to_owned(),
        processor: "Example CPU".to_owned(),
        sealway: "0.1.0".to_owned(),
    }
}

/// A run of this shape, of so many measured seconds; times are `slower` times the usual ones.
pub(crate) fn outcome(seed: u64, shape: Shape, seconds: u32, slower: f64) -> Outcome {
    let plan = plan();
    let mut draw = Draw(seed);
    let warm_up = if shape == Shape::Empty { 0 } else { 3 };
    let mut totals = Totals { measured: Duration::from_secs(u64::from(seconds)), sum: Interval::default() };
    let mut rows = Vec::new();
    let mut debt = 0.0;
    for index in 0..seconds + warm_up {
        let stall = shape == Shape::Stalled && index > warm_up && index % 10 == 5;
        let interval = second(&mut draw, shape, stall, &mut debt, slower);
        rows.push(row(&interval, index, index < warm_up));
        if index >= warm_up {
            merge(&mut totals.sum, &interval);
        }
    }
    totals.sum.counts.unfinished = if shape == Shape::Empty { 0 } else { 12 };
    totals.sum.counts.unsent = if shape == Shape::Stalled { 5 } else { 0 };
    Outcome {
        plan,
        started_ms: 1_795_233_780_000,
        elapsed: Duration::from_secs(u64::from(seconds + warm_up)),
        totals,
        seconds: rows,
        generator: Generator {
            threads: 2,
            cpu: 0.41,
            cpu_busiest: 0.22,
            cores: 8,
            lag_p99: Duration::from_micros(180),
            lag_max: Duration::from_millis(3),
            memory_bytes: 48 << 20,
        },
        limit: Limit::Offered,
        warnings: vec![],
        ended: Ended::Done,
    }
}

fn second(draw: &mut Draw, shape: Shape, stall: bool, debt: &mut f64, slower: f64) -> Interval {
    let mut interval = Interval::default();
    if shape == Shape::Empty {
        return interval;
    }
    let due = (1000.0 + 30.0 * draw.normal()).max(0.0) as u64;
    interval.counts.due = due;
    interval.counts.started = due;
    interval.counts.bytes_sent = due * 420;
    interval.counts.connections_tried = 1;
    for _ in 0..due {
        let service =
            0.004 * slower * (0.35 * draw.normal()).exp() + if draw.unit() < 0.02 { 0.03 * slower } else { 0.0 };
        let wait = if stall { draw.unit() } else { *debt * draw.unit() * 0.2 };
        if shape == Shape::AllFailed || draw.unit() < 0.004 {
            fail(&mut interval, draw, service + wait);
            continue;
        }
        succeed(&mut interval, service, service + wait);
    }
    *debt = if stall { 1.0 } else { *debt * 0.2 };
    interval.in_flight = (due as f64 * 0.005) as u64 + if stall { 900 } else { 0 };
    interval.connections = 10;
    interval
}

fn succeed(interval: &mut Interval, service: f64, response: f64) {
    let seconds = Duration::from_secs_f64;
    interval.counts.succeeded += 1;
    interval.counts.bytes_received += 1800;
    interval.statuses[200] += 1;
    interval.times[Phase::Service.index()].record(seconds(service));
    interval.times[Phase::Response.index()].record(seconds(response));
    interval.times[Phase::FirstByte.index()].record(seconds(service * 0.9));
    if interval.counts.succeeded == 1 {
        interval.counts.connections_opened += 1;
        interval.counts.handshakes_full += 1;
        interval.times[Phase::Connect.index()].record(seconds(0.000_2));
        interval.times[Phase::Tls.index()].record(seconds(0.002_1));
    }
}

fn fail(interval: &mut Interval, draw: &mut Draw, time: f64) {
    let class = [Class::Status, Class::Status, Class::Timeout, Class::Reset][(draw.next() % 4) as usize];
    interval.counts.failed += 1;
    interval.faults[class.index()] += 1;
    if class == Class::Status {
        interval.statuses[503] += 1;
    }
    interval.examples[class.index()].get_or_insert_with(|| format!("{}: {HOSTILE}", class.name()));
    interval.times[Phase::Failed.index()].record(Duration::from_secs_f64(time));
}

fn row(interval: &Interval, index: u32, warm_up: bool) -> Second {
    let faults = Class::ALL.into_iter().map(|class| (class, interval.faults[class.index()]));
    let response = interval.times(Phase::Response);
    Second {
        index,
        at: Duration::from_secs(u64::from(index) + 1),
        length: Duration::from_secs(1),
        warm_up,
        counts: interval.counts,
        response: response.quantiles(),
        service: interval.times(Phase::Service).quantiles(),
        heat: if response.is_empty() { Heat::default() } else { response.heat() },
        statuses: interval.statuses(),
        faults: faults.filter(|(_, count)| *count > 0).collect(),
        in_flight: interval.in_flight,
        connections: interval.connections,
        lag_max: Duration::from_micros(400),
        cpu: 0.4,
    }
}

fn merge(sum: &mut Interval, more: &Interval) {
    let (into, from) = (&mut sum.counts, &more.counts);
    into.due += from.due;
    into.started += from.started;
    into.succeeded += from.succeeded;
    into.failed += from.failed;
    into.bytes_sent += from.bytes_sent;
    into.bytes_received += from.bytes_received;
    into.connections_opened += from.connections_opened;
    into.connections_tried += from.connections_tried;
    into.handshakes_full += from.handshakes_full;
    for (into, from) in sum.statuses.iter_mut().zip(more.statuses.iter()) {
        *into += from;
    }
    for (into, from) in sum.faults.iter_mut().zip(more.faults) {
        *into += from;
    }
    for (into, from) in sum.examples.iter_mut().zip(&more.examples) {
        if into.is_none() {
            into.clone_from(from);
        }
    }
    for (into, from) in sum.times.iter_mut().zip(&more.times) {
        if !from.is_empty() {
            Times::add(into, from);
        }
    }
}
