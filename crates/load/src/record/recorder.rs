//! Recorder of one shard: it writes to its own [`Interval`], hands it over at the end of each second, and continues with an
//! empty one that the collector returns. Nothing here locks, and a request allocates nothing, except for the first failure
//! of each class in a second.
//!
//! The time of an event decides its second, not the time at which the thread gets to it. If that second has already been handed
//! over, the event counts in the current one.

use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use super::{Class, Failure, Gauge, Interval, Phase};
use crate::target::{Handshake, Sample};

const SECOND: Duration = Duration::from_secs(1);

/// Boundaries of a run's seconds: the warm-up has seconds of its own, so that no second is partly warm-up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeline {
    /// Time at which the run starts.
    pub(crate) start: Instant,
    /// Length of the warm-up, which no total includes.
    pub(crate) warm_up: Duration,
    /// End of the run's time, if it has one. Events that a thread sees shortly after it belong to the last second.
    pub(crate) end: Option<Instant>,
}

impl Timeline {
    /// Returns the beginning of a second, since the run's start.
    pub(crate) fn begin(&self, index: u32) -> Duration {
        let warm = self.warm_seconds();
        if index < warm { SECOND * index } else { self.warm_up + SECOND * (index - warm) }
    }

    /// Returns whether a second is part of the warm-up.
    pub(crate) fn is_warm_up(&self, index: u32) -> bool {
        index < self.warm_seconds()
    }

    /// Returns the number of seconds of the warm-up, the last of which may be shorter.
    fn warm_seconds(&self) -> u32 {
        let whole = self.warm_up.as_secs() + u64::from(self.warm_up.subsec_nanos() > 0);
        u32::try_from(whole).unwrap_or(u32::MAX)
    }

    /// Returns the end of the warm-up.
    pub(crate) fn measured_from(&self) -> Instant {
        self.start + self.warm_up
    }
}

/// Measurements that one shard hands over at the end of a second.
pub(crate) struct Cut {
    /// Index of the shard, from 0.
    pub(crate) shard: usize,
    /// Index of the second, from 0.
    pub(crate) index: u32,
    /// Measurements of the shard in this second.
    pub(crate) interval: Box<Interval>,
    /// Processor time of the thread in this second.
    pub(crate) usage: Usage,
    /// Number of requests that waited for another to end.
    pub(crate) waited: u64,
    /// Longest delay of the last request of a burst.
    pub(crate) spread: Duration,
    /// End of the shard, if this is its last second.
    pub(crate) last: Option<Instant>,
}

/// Processor time of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Time that the thread ran.
    pub(crate) ran: Duration,
    /// Time that the thread was ready to run and had no core.
    pub(crate) waited: Duration,
}

/// Recorder of one shard.
pub(crate) struct Recorder {
    shard: usize,
    timeline: Timeline,
    index: u32,
    next_cut: Instant,
    current: Box<Interval>,
    waited: u64,
    spread: Duration,
    usage: Box<dyn FnMut() -> Usage>,
    /// True if full and resumed handshakes are timed separately.
    apart: bool,
    in_flight: Gauge,
    connections: Gauge,
    /// Values of both gauges before the requests under way were cut.
    at_end: Option<(u64, u64)>,
    full: Sender<Cut>,
    spare: Receiver<Box<Interval>>,
}

impl Recorder {
    /// Creates the recorder of this shard. Intervals leave through `full` and return through `spare`. `usage` reports the
    /// thread's processor time since its last call; `apart` tells whether full and resumed handshakes are timed separately.
    pub(crate) fn new(
        shard: usize,
        timeline: Timeline,
        (connections, apart): (Gauge, bool),
        usage: Box<dyn FnMut() -> Usage>,
        (full, spare): (Sender<Cut>, Receiver<Box<Interval>>),
    ) -> Self {
        Recorder {
            shard,
            timeline,
            index: 0,
            next_cut: timeline.start + timeline.begin(1),
            current: Box::default(),
            waited: 0,
            spread: Duration::ZERO,
            usage,
            apart,
            in_flight: Gauge::default(),
            connections,
            at_end: None,
            full,
            spare,
        }
    }

    /// Returns the gauge of requests under way.
    pub(crate) fn in_flight(&self) -> &Gauge {
        &self.in_flight
    }

    /// Hands over the seconds that have ended.
    pub(crate) fn roll(&mut self, now: Instant) {
        while now >= self.next_cut && self.timeline.end.is_none_or(|end| self.next_cut < end) {
            self.cut(None);
        }
    }

    fn cut(&mut self, last: Option<Instant>) {
        let empty = self.spare.try_recv().unwrap_or_default();
        let mut interval = std::mem::replace(&mut self.current, empty);
        (interval.in_flight, interval.connections) = self.at_end.unwrap_or_else(|| self.gauges());
        let (usage, waited, spread) =
            ((self.usage)(), std::mem::take(&mut self.waited), std::mem::take(&mut self.spread));
        let cut = Cut { shard: self.shard, index: self.index, interval, usage, waited, spread, last };
        // The send fails once the whole run was dropped; the shard learns of that by other means.
        let _ = self.full.send(cut);
        self.index += 1;
        self.next_cut = self.timeline.start + self.timeline.begin(self.index + 1);
    }

    fn gauges(&self) -> (u64, u64) {
        (self.in_flight.get(), self.connections.get())
    }

    /// Keeps the gauges for the last second, just before the requests under way are cut.
    pub(crate) fn before_cut(&mut self, now: Instant) {
        self.roll(now);
        self.at_end = Some(self.gauges());
    }

    /// Hands over the last second.
    pub(crate) fn end(&mut self, now: Instant) {
        self.roll(now);
        self.cut(Some(self.timeline.end.map_or(now, |end| end.min(now))));
    }

    /// Returns the interval that counts a request with this due time; `None` if it is a late part of the warm-up.
    fn of(&mut self, due: Instant, now: Instant) -> Option<&mut Interval> {
        self.roll(now);
        let warm_up = self.timeline.is_warm_up(self.index);
        (warm_up || due >= self.timeline.measured_from()).then_some(&mut *self.current)
    }

    /// Records that `count` requests were due at this time.
    pub(crate) fn due(&mut self, due: Instant, now: Instant, count: u64) {
        if let Some(interval) = self.of(due, now) {
            interval.counts.due += count;
        }
    }

    /// Records that a request starts.
    pub(crate) fn started(&mut self, due: Instant, now: Instant) {
        if let Some(interval) = self.of(due, now) {
            interval.counts.started += 1;
        }
    }

    /// Records that a request with this due time will never start.
    pub(crate) fn unsent(&mut self, due: Instant, now: Instant) {
        if let Some(interval) = self.of(due, now) {
            interval.counts.unsent += 1;
        }
    }

    /// Records the delay of a timer, or of a request that only the generator held up.
    pub(crate) fn lag(&mut self, now: Instant, lag: Duration) {
        self.roll(now);
        self.current.lag.record(lag);
    }

    /// Records that a request starts which waited for another to end.
    pub(crate) fn waited(&mut self, now: Instant) {
        self.roll(now);
        self.waited += 1;
    }

    /// Records the delay of a request after its burst's time.
    pub(crate) fn spread(&mut self, now: Instant, late: Duration) {
        self.roll(now);
        self.spread = self.spread.max(late);
    }

    /// Records the end of a request.
    pub(crate) fn ended(&mut self, sample: &Sample, now: Instant, result: Result<(), Failure>) {
        let apart = self.apart;
        if let Some(interval) = self.of(sample.due, now) {
            interval.passed(sample);
            match result {
                Ok(()) => interval.succeeded(sample, now, apart),
                Err(failure) => interval.failed(sample, now, failure),
            }
        }
    }

    /// Records that the run's end cut a request.
    pub(crate) fn cut_off(&mut self, sample: &Sample, now: Instant) {
        if let Some(interval) = self.of(sample.due, now) {
            interval.passed(sample);
            interval.counts.unfinished += 1;
        }
    }
}

impl Interval {
    /// Adds the events of a request, independent of its result.
    fn passed(&mut self, sample: &Sample) {
        let counts = &mut self.counts;
        counts.bytes_sent += sample.bytes_sent;
        counts.bytes_received += sample.bytes_received;
        counts.connections_tried += u64::from(sample.connections_tried);
        counts.connections_opened += u64::from(sample.connections_opened);
        counts.reconnections += u64::from(sample.reconnected);
        counts.sessions_agreed += u64::from(sample.sessions_agreed);
        counts.keys_fetched += u64::from(sample.keys_fetched);
        counts.repeats += u64::from(sample.repeats);
        if let Some(suite) = sample.suite {
            *counts.sessions_by_suite.of(suite) += u64::from(sample.sessions_agreed);
        }
        match sample.tls {
            Some((_, Handshake::Full)) => counts.handshakes_full += 1,
            Some((_, Handshake::Resumed)) => counts.handshakes_resumed += 1,
            None => {}
        }
        if let (1.., Some(count)) = (sample.status, self.statuses.get_mut(usize::from(sample.status))) {
            *count += 1;
        }
    }

    fn succeeded(&mut self, sample: &Sample, now: Instant, apart: bool) {
        self.counts.succeeded += 1;
        let since = |start| now.saturating_duration_since(start).saturating_sub(sample.aside);
        self.time(Phase::Service, since(sample.started));
        self.time(Phase::Response, since(sample.due));
        if let Some((took, handshake)) = sample.tls {
            self.time(Phase::Tls, took);
            if apart {
                self.time(if handshake == Handshake::Full { Phase::TlsFull } else { Phase::TlsResumed }, took);
            }
        }
        let parts = [
            (Phase::Connect, sample.connect),
            (Phase::FirstByte, sample.first_byte),
            (Phase::KeyAgreement, sample.key_agreement),
            (Phase::Seal, sample.seal),
            (Phase::Open, sample.open),
            (Phase::Server, sample.server),
        ];
        for (phase, took) in parts {
            if let Some(took) = took {
                self.time(phase, took);
            }
        }
    }

    fn failed(&mut self, sample: &Sample, now: Instant, failure: Failure) {
        self.counts.failed += 1;
        self.time(Phase::Failed, now.saturating_duration_since(sample.due));
        self.faults[failure.class.index()] += 1;
        self.examples[failure.class.index()].get_or_insert(failure.detail);
    }

    fn time(&mut self, phase: Phase, took: Duration) {
        self.times[phase.index()].record(took);
    }
}

impl Class {
    /// Returns whether the failure happened while a connection was opened, so that no request was sent.
    pub(crate) fn is_connecting(self) -> bool {
        use Class::*;
        let opening = matches!(self, Resolve | Refused | Unreachable | ConnectTimeout | Connect);
        opening || matches!(self, OutOfPorts | OutOfDescriptors | TlsAlert | Certificate | Tls)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    struct Fixture {
        recorder: Recorder,
        start: Instant,
        cuts: Receiver<Cut>,
        spare: Sender<Box<Interval>>,
    }

    fn fixture(warm_up_ms: u64) -> Fixture {
        let start = Instant::now();
        let timeline = Timeline { start, warm_up: Duration::from_millis(warm_up_ms), end: None };
        let ((full, cuts), (spare, spares)) = (channel(), channel());
        let usage = Box::new(Usage::default);
        let recorder = Recorder::new(0, timeline, (Gauge::default(), false), usage, (full, spares));
        Fixture { recorder, start, cuts, spare }
    }

    impl Fixture {
        fn at(&self, ms: u64) -> Instant {
            self.start + Duration::from_millis(ms)
        }

        /// Records a request from start to end.
        fn request(&mut self, due_ms: u64, ended_ms: u64, result: Result<(), Failure>) {
            let (due, ended) = (self.at(due_ms), self.at(ended_ms));
            self.recorder.due(due, due, 1);
            self.recorder.started(due, due);
            self.recorder.ended(&Sample::new(due, due), ended, result);
        }
    }

    #[test]
    fn intervals_that_are_swapped_lose_nothing_and_come_back_empty() {
        let mut fixture = fixture(0);
        let mut sum = Interval::default();
        for number in 0..6_000 {
            let failure = || Failure::new(Class::Reset, format!("number {number}"));
            let result = if number % 7 == 0 { Err(failure()) } else { Ok(()) };
            fixture.request(number, number + 1, result);
            while let Ok(mut cut) = fixture.cuts.try_recv() {
                sum.add(&cut.interval);
                cut.interval.clear();
                fixture.spare.send(cut.interval).unwrap();
            }
        }
        let end = fixture.at(6_001);
        fixture.recorder.end(end);
        let cuts: Vec<Cut> = fixture.cuts.try_iter().collect();
        cuts.iter().for_each(|cut| sum.add(&cut.interval));
        assert_eq!(cuts.last().and_then(|cut| cut.last), Some(end));
        assert_eq!((sum.counts.due, sum.counts.started), (6_000, 6_000));
        assert_eq!((sum.counts.succeeded, sum.counts.failed), (5_142, 858));
        assert_eq!((sum.times(Phase::Response).len(), sum.times(Phase::Failed).len()), (5_142, 858));
        assert_eq!(sum.examples[Class::Reset.index()].as_deref(), Some("number 0"));
    }

    #[test]
    fn side_work_is_excluded_from_the_times_of_a_request() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let mut sample = Sample::new(start, start + ms(10));
        sample.aside = ms(30);
        let mut interval = Interval::default();
        interval.succeeded(&sample, start + ms(60), false);
        let near = |phase, wanted: u64| {
            let reported = interval.times(phase).quantiles().p99_ns;
            assert!(reported.abs_diff(wanted * 1_000_000) <= wanted * 1_000, "{phase:?}: {reported}");
        };
        near(Phase::Response, 30);
        near(Phase::Service, 20);
    }

    #[test]
    fn each_request_is_in_the_second_in_which_it_ended() {
        let mut fixture = fixture(0);
        fixture.request(500, 999, Ok(()));
        fixture.request(500, 1_000, Ok(()));
        fixture.request(2_500, 4_200, Ok(()));
        fixture.recorder.end(fixture.at(4_300));
        let succeeded: Vec<_> = fixture.cuts.try_iter().map(|cut| cut.interval.counts.succeeded).collect();
        assert_eq!(succeeded, [1, 1, 0, 0, 1]);
    }

    #[test]
    fn a_request_that_was_due_in_the_warm_up_is_in_no_measured_second_however_late_it_ends() {
        let mut fixture = fixture(1_500);
        let at = |ms: u64| fixture.start + Duration::from_millis(ms);
        let late = Failure::new(Class::Reset, "late");
        for started in [at(1_400), at(1_401), at(1_499), at(1_500)] {
            fixture.recorder.started(started, started);
        }
        let ends = [(1_500, 1_600, Ok(())), (1_401, 1_601, Ok(())), (1_499, 2_600, Err(late))];
        for (due, ended, result) in ends {
            fixture.recorder.ended(&Sample::new(at(due), at(due)), at(ended), result);
        }
        let pending = Sample::new(fixture.at(1_000), fixture.at(1_000));
        fixture.recorder.cut_off(&pending, fixture.at(2_700));
        fixture.recorder.end(fixture.at(2_700));
        let cuts: Vec<Cut> = fixture.cuts.try_iter().collect();
        let counts = |index: usize| &cuts[index].interval.counts;
        // The warm-up's second second is half a second long.
        assert_eq!((cuts.len(), counts(0).started, counts(1).started, counts(1).succeeded), (4, 0, 3, 0));
        assert_eq!((counts(2).succeeded, counts(2).started, counts(2).failed), (1, 1, 0));
        assert_eq!((counts(3).failed, counts(3).unfinished), (0, 0));
    }

    #[test]
    fn events_after_the_end_count_in_the_last_second() {
        let mut fixture = fixture(0);
        let end = fixture.at(2_000);
        fixture.recorder.timeline.end = Some(end);
        fixture.request(1_900, 2_003, Ok(()));
        fixture.recorder.end(fixture.at(2_004));
        let cuts: Vec<Cut> = fixture.cuts.try_iter().collect();
        assert_eq!((cuts.len(), cuts[1].interval.counts.succeeded, cuts[1].last), (2, 1, Some(end)));
    }
}
