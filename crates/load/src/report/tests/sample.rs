//! Plausible outcomes for tests: the same seed gives the same outcome.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};

use crate::engine::{EndReason, Generator, Limit, Outcome};
use crate::plan::{
    Arrival, Assertion, Plan, Protocol, Request, Resumption, Spacing, Steps, Text, Timeouts, Tls, TlsVersion,
};
use crate::record::{Class, Interval, Phase, Second, Totals};
use crate::report::machine::Machine;
use crate::request::Random;

/// Hostile text as an untrusted server may send it.
pub(crate) const HOSTILE: &str = "</script><script>alert(1)</script> \"'&<b> ]]> | `x` [a](javascript:b) \u{1b}[31m\u{0}\u{202e}\r\n=cmd|' /C calc'!A0";

/// Kind of a sample run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Healthy run with a few failures.
    Usual,
    /// Run with seconds in which the target holds requests up.
    Stalled,
    /// Run without a single request.
    Empty,
    /// Run in which every request failed.
    AllFailed,
}

/// Draws from a normal distribution of mean 0 and deviation 1.
pub(crate) fn normal(draw: &mut Random) -> f64 {
    (-2.0 * draw.share().max(f64::MIN_POSITIVE).ln()).sqrt() * (std::f64::consts::TAU * draw.share()).cos()
}

/// Plan with a secret in every field that can hold one.
pub(crate) fn plan() -> Plan {
    let files = sealway_runtime::tls::ClientFiles {
        ca: Some("/hidden/ca.pem".into()),
        system_roots: false,
        cert: Some("/hidden/client.pfx".into()),
        key: None,
        password_file: None,
        password: Some("s3cret-pfx".to_owned().into()),
        server_name: None,
        tls13_only: false,
    };
    let mut plan = Plan::of("https://ann:s3cret-url@api.example:8443/pay?id=1&token=s3cret-query".parse().unwrap());
    plan.label = "checkout".to_owned();
    plan.target.addresses = vec!["127.0.0.1:8443".parse().unwrap()];
    plan.target.protocol = Protocol::Http2;
    plan.target.tls = Some(Tls {
        files,
        verify: true,
        verify_name: true,
        resumption: Resumption::Both,
        min_version: TlsVersion::V13,
    });
    let secret = Text::from(&HeaderValue::from_static("Bearer s3cret-header"));
    plan.request = Request {
        method: Method::POST,
        path: "/pay?id={{counter}}&token=s3cret-query".to_owned(),
        headers: vec![(HeaderName::from_static("authorization"), secret)],
        body: Some(Text::Template("{\"id\":\"{{uuid}}\"}".to_owned())),
        counter_start: 1,
    };
    plan.arrival = Arrival::Open { rate: Steps::constant(1000.0), spacing: Spacing::Poisson, in_flight_max: 4096 };
    plan.stop.duration = Some(Duration::from_secs(60));
    plan.warm_up = Duration::from_secs(3);
    plan.connections.streams = 10;
    plan.timeouts = Timeouts { connect: Duration::from_secs(5), request: Duration::from_secs(10) };
    plan.assertions = vec![Assertion::Status(vec![200, 201])];
    (plan.threads, plan.seed) = (2, 7);
    plan
}

/// Machine of all sample reports.
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

/// Outcome of this shape with this many measured seconds; times are `slower` times the usual ones.
pub(crate) fn outcome(seed: u64, shape: Shape, seconds: u32, slower: f64) -> Outcome {
    let plan = plan();
    let mut draw = Random::new(seed);
    let warm_up = if shape == Shape::Empty { 0 } else { 3 };
    let mut totals = Totals { measured: Duration::from_secs(u64::from(seconds)), sum: Interval::default() };
    let mut rows = Vec::new();
    let mut debt = 0.0;
    for index in 0..seconds + warm_up {
        let stall = shape == Shape::Stalled && index > warm_up && index % 10 == 5;
        let interval = second(&mut draw, shape, stall, &mut debt, slower);
        let (at, lag_max) = (Duration::from_secs(u64::from(index) + 1), Duration::from_micros(400));
        let row = interval.second(index, at, Duration::from_secs(1));
        rows.push(Second { warm_up: index < warm_up, lag_max, cpu: 0.4, ..row });
        if index >= warm_up {
            totals.sum.add(&interval);
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
        ended: EndReason::Done,
    }
}

fn second(draw: &mut Random, shape: Shape, stall: bool, debt: &mut f64, slower: f64) -> Interval {
    let mut interval = Interval::default();
    if shape == Shape::Empty {
        return interval;
    }
    let due = (1000.0 + 30.0 * normal(draw)).max(0.0) as u64;
    interval.counts.due = due;
    interval.counts.started = due;
    interval.counts.bytes_sent = due * 420;
    interval.counts.connections_tried = 1;
    for _ in 0..due {
        let service =
            0.004 * slower * (0.35 * normal(draw)).exp() + if draw.share() < 0.02 { 0.03 * slower } else { 0.0 };
        let wait = if stall { draw.share() } else { *debt * draw.share() * 0.2 };
        if shape == Shape::AllFailed || draw.share() < 0.004 {
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

fn fail(interval: &mut Interval, draw: &mut Random, time: f64) {
    let class = [Class::Status, Class::Status, Class::Timeout, Class::Reset][(draw.number() % 4) as usize];
    interval.counts.failed += 1;
    interval.faults[class.index()] += 1;
    if class == Class::Status {
        interval.statuses[503] += 1;
    }
    interval.examples[class.index()].get_or_insert_with(|| format!("{}: {HOSTILE}", class.name()));
    interval.times[Phase::Failed.index()].record(Duration::from_secs_f64(time));
}
