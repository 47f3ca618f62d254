//! State of the view: the run's figures and the selected panel. Changed by events and keys; reads no clock and writes no
//! output.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::history::History;
use super::pane::Theme;
use super::panel::Panel;
use super::tuning::Tuning;
use crate::engine::{Control, EndReason, Limit, Outcome, Tick};
use crate::figures;
use crate::plan::{Arrival, Plan};
use crate::progress::Event;
use crate::record::{Counts, FailureCount, Heat, Phase, Quantiles, Second, Totals};

/// Number of last seconds that decide whether the generator is strained.
const STRAIN_SECONDS: usize = 3;
/// Processor share from which a generator counts as strained.
const CPU_STRAINED: f64 = 0.9;
/// Timer delay from which the measured times are doubtful.
const LAG_STRAINED: Duration = Duration::from_millis(20);

/// Progress of a requested end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Quit {
    /// The user requested no end.
    #[default]
    No,
    /// The run ends with a summary.
    Asked,
    /// The view ends at once, without waiting.
    Now,
}

/// State shown by the view.
#[derive(Debug, Default)]
pub struct State {
    pub(super) theme: Theme,
    pub(super) run: Option<Running>,
    pub(super) history: History,
    pub(super) tuning: Tuning,
    /// Notice in response to a key, shown until the next key.
    pub(super) notice: Option<String>,
    /// Panel that is shown alone, if any.
    pub(super) panel: Option<Panel>,
    pub(super) help: bool,
    pub(super) quit: Quit,
    /// Number of presses of `+` minus those of `-`.
    pub(super) scale_steps: i32,
}

/// Current run, or the last one.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) plan: Arc<Plan>,
    pub(super) control: Control,
    pub(super) last: Option<Second>,
    pub(super) whole: Option<Whole>,
    /// Timer delay and processor use of the last seconds.
    strain: VecDeque<(Duration, f64)>,
    pub(super) end: Option<End>,
    /// True if the run has no figures yet: those shown are of the previous run.
    pub(super) is_new: bool,
}

/// End of a run with its result.
#[derive(Debug)]
pub(super) struct End {
    pub(super) ended: EndReason,
    pub(super) limit: Limit,
    pub(super) warnings: Vec<String>,
    pub(super) lag_p99: Duration,
}

/// Figures of a run so far, without its warm-up.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) measured: Duration,
    pub(super) counts: Counts,
    pub(super) statuses: Vec<(u16, u64)>,
    pub(super) faults: Vec<FailureCount>,
    /// Quantiles of the phases that have times.
    pub(super) phases: Vec<(Phase, Quantiles)>,
    pub(super) heat: Heat,
    pub(super) lag_p99: Duration,
}

impl Whole {
    fn new(totals: &Totals) -> Self {
        let sum = &totals.sum;
        let phases = Phase::ALL.into_iter().filter(|phase| !sum.times(*phase).is_empty());
        Whole {
            measured: totals.measured,
            counts: sum.counts,
            statuses: sum.statuses(),
            faults: sum.faults(),
            phases: phases.map(|phase| (phase, sum.times(phase).quantiles())).collect(),
            heat: sum.times(Phase::Response).heat(),
            lag_p99: Duration::from_nanos(sum.lag.quantile_ns(0.99)),
        }
    }

    /// Returns the quantiles of a phase, all zero if it has no times.
    pub(super) fn phase(&self, phase: Phase) -> Quantiles {
        self.phases.iter().find(|(of, _)| *of == phase).map(|(_, figures)| *figures).unwrap_or_default()
    }

    /// Returns the successful requests per second.
    pub(super) fn rate(&self) -> f64 {
        let seconds = self.measured.as_secs_f64();
        if seconds > 0.0 { self.counts.succeeded as f64 / seconds } else { 0.0 }
    }
}

impl State {
    /// Creates the state of a view without a run.
    pub fn new(colours: bool) -> Self {
        State { theme: Theme { colours }, ..State::default() }
    }

    /// Applies an event; `now` is the time since the view's start.
    pub fn apply(&mut self, event: Event, now: Duration) {
        match event {
            Event::Cell { name, index, of } => {
                self.history = History::default();
                self.tuning.cell(name, index, of, now);
            }
            Event::Point { offered, repeat, repeats, left_max } => {
                self.tuning.point(offered, repeat, repeats, left_max);
            }
            Event::Run { plan, control } => self.begin(plan, control),
            Event::Tick(tick) => self.tick(&tick),
            Event::Outcome(outcome) => self.end(*outcome),
            Event::CellDone(summary) => self.tuning.cell_done(summary, now),
        }
    }

    fn begin(&mut self, plan: Arc<Plan>, control: Control) {
        // A requested end covers the whole job, not only the run that was active then.
        if self.quit > Quit::No {
            control.stop();
        }
        if !self.tuning.is_on() {
            self.history = History::default();
        }
        self.scale_steps = 0;
        // In a series of runs, the figures of the previous run stay until there are new ones.
        let before = self.run.take().filter(|_| self.tuning.is_on());
        let (last, whole) = before.map(|run| (run.last, run.whole)).unwrap_or_default();
        let (strain, end) = (VecDeque::new(), None);
        self.run = Some(Running { plan, control, last, whole, strain, end, is_new: true });
    }

    fn tick(&mut self, tick: &Tick) {
        let Some(run) = &mut self.run else { return };
        self.history.push(&tick.second, std::mem::take(&mut run.is_new));
        run.take(tick);
    }

    fn end(&mut self, outcome: Outcome) {
        self.tuning.outcome(&outcome);
        let Some(run) = &mut self.run else { return };
        run.whole = Some(Whole::new(&outcome.totals));
        run.end = Some(End {
            ended: outcome.ended,
            limit: outcome.limit,
            warnings: outcome.warnings.iter().map(|warning| figures::clean(warning)).collect(),
            lag_p99: outcome.generator.lag_p99,
        });
    }

    /// Returns the seconds that the chart reserves room for; 0 if unknown.
    pub(super) fn planned_seconds(&self) -> u64 {
        match &self.run {
            Some(run) if !self.tuning.is_on() => {
                run.planned().map(|time| time.as_secs_f64().ceil() as u64).unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// Returns the maximum time and the number of runs that are left, if known.
    pub(super) fn left(&self, now: Duration) -> Option<Remainder> {
        let run = self.run.as_ref()?;
        let planned = run.planned();
        let here = planned.map(|planned| planned.saturating_sub(run.at()));
        self.tuning.left(here, planned, now)
    }

    /// Returns a sentence if the figures may describe the generator instead of the target.
    pub(super) fn strained(&self) -> Option<String> {
        let run = self.run.as_ref()?;
        if let Some(End { limit: Limit::Generator(why), .. }) = &run.end {
            return Some(format!("The generator was the bottleneck, not the target: {}", figures::clean(why)));
        }
        run.strained()
    }
}

/// Maximum work left of a tuned run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Remainder {
    /// Time left in this cell, or in the only one.
    pub(super) here: Duration,
    /// Time left in all cells, this one included; an estimate.
    pub(super) all: Option<Duration>,
    /// Runs left in this cell, the current one included.
    pub(super) runs: u64,
}

impl Running {
    fn take(&mut self, tick: &Tick) {
        if self.strain.len() == STRAIN_SECONDS {
            self.strain.pop_front();
        }
        self.strain.push_back((tick.second.lag_max, tick.second.cpu));
        self.whole = Some(Whole::new(&tick.totals));
        self.last = Some(tick.second.clone());
    }

    /// Returns the time since the run's start.
    pub(super) fn at(&self) -> Duration {
        self.last.as_ref().filter(|_| !self.is_new).map(|second| second.at).unwrap_or_default()
    }

    /// Returns the planned length of the run, if known.
    pub(super) fn planned(&self) -> Option<Duration> {
        let bursts = match self.plan.arrival {
            Arrival::Bursts { every, times, .. } => {
                Some(every.saturating_mul(u32::try_from(times).unwrap_or(u32::MAX)))
            }
            _ => None,
        };
        let duration = self.plan.stop.duration.map(|time| time.saturating_add(self.plan.warm_up));
        duration.into_iter().chain(bursts).min()
    }

    /// Returns the planned number of requests, if there is one.
    fn requests(&self) -> Option<u64> {
        let own = match &self.plan.arrival {
            Arrival::Closed { concurrency, loops, .. } if *loops > 0 => {
                Some((concurrency.max() as u64).saturating_mul(*loops))
            }
            Arrival::Bursts { burst, times, .. } => Some((*burst as u64).saturating_mul(*times as u64)),
            _ => None,
        };
        self.plan.stop.requests.into_iter().chain(own).min()
    }

    /// Returns the share that is done, 0.0 to 1.0, and the time left; by the bound that is reached first.
    pub(super) fn progress(&self) -> Option<(f64, Duration)> {
        if self.end.is_some() {
            return Some((1.0, Duration::ZERO));
        }
        let at = self.at();
        let by_time = self.planned().filter(|planned| !planned.is_zero()).map(|planned| {
            let share = (at.as_secs_f64() / planned.as_secs_f64()).clamp(0.0, 1.0);
            (share, planned.saturating_sub(at))
        });
        let whole = self.whole.as_ref().filter(|_| !self.is_new);
        let by_requests = self.requests().zip(whole).filter(|(requests, _)| *requests > 0);
        let by_requests = by_requests.map(|(requests, whole)| {
            let done = whole.counts.succeeded + whole.counts.failed;
            let share = (done as f64 / requests as f64).clamp(0.0, 1.0);
            let rest = if share > 0.0 { at.as_secs_f64() * (1.0 - share) / share } else { 0.0 };
            (share, Duration::from_secs_f64(rest.clamp(0.0, 1e9)))
        });
        match (by_time, by_requests) {
            (Some(time), Some(requests)) => Some(if requests.0 > time.0 { requests } else { time }),
            (time, requests) => time.or(requests),
        }
    }

    fn strained(&self) -> Option<String> {
        if self.strain.len() < STRAIN_SECONDS {
            return None;
        }
        let threads = self.plan.threads.max(1) as f64;
        if self.strain.iter().all(|(_, cpu)| *cpu >= threads * CPU_STRAINED) {
            let cpu = self.strain.back().map(|(_, cpu)| *cpu).unwrap_or_default();
            return Some(format!(
                "The generator is the bottleneck, not the target: it uses {cpu:.1} of {threads:.0} cores"
            ));
        }
        if self.strain.iter().all(|(lag, _)| *lag >= LAG_STRAINED) {
            let lag = self.strain.iter().map(|(lag, _)| *lag).min().unwrap_or_default();
            return Some(format!(
                "Timers of the generator are {} late: the times shown include this delay",
                figures::length(lag)
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::tests::generated;

    fn fed(events: Vec<Event>) -> State {
        let mut state = State::new(true);
        for (at, event) in events.into_iter().enumerate() {
            state.apply(event, Duration::from_secs(at as u64));
        }
        state
    }

    #[test]
    fn the_percentiles_of_now_are_of_the_last_second_and_not_of_the_whole() {
        let state = fed(generated::single(3, 17, 60));
        let run = state.run.as_ref().unwrap();
        let (now, whole) = (run.last.as_ref().unwrap().response, run.whole.as_ref().unwrap().phase(Phase::Response));
        // The 17th second has a stall, which the run as a whole does not show.
        assert!(now.p50_ns > 10 * whole.p50_ns, "{} {}", now.p50_ns, whole.p50_ns);
        assert_eq!(run.progress().unwrap(), (17.0 / 60.0, Duration::from_secs(43)));
    }

    #[test]
    fn a_requested_stop_also_ends_the_following_runs() {
        let mut state = fed(generated::single(3, 2, 60));
        state.quit = Quit::Asked;
        let (plan, control) = (state.run.as_ref().unwrap().plan.clone(), Control::default());
        state.apply(Event::Run { plan, control: control.clone() }, Duration::ZERO);
        assert!(control.is_stopped());
    }

    #[test]
    fn warns_if_the_generator_is_the_bottleneck() {
        let mut state = fed(generated::single(3, 2, 60));
        assert_eq!(state.strained(), None);
        let mut story = generated::Story::new(3);
        for _ in 0..3 {
            let mut tick = story.tick(5_000.0);
            tick.second.cpu = 1.95;
            state.apply(Event::Tick(Box::new(tick)), Duration::ZERO);
        }
        assert!(state.strained().unwrap().contains("is the bottleneck, not the target: it uses 1.9 of 2 cores"));
        for _ in 0..3 {
            let mut tick = story.tick(5_000.0);
            tick.second.lag_max = Duration::from_millis(35);
            state.apply(Event::Tick(Box::new(tick)), Duration::ZERO);
        }
        assert!(state.strained().unwrap().contains("Timers of the generator are 35.0 ms late"));
    }

    #[test]
    fn a_run_of_so_many_requests_is_done_by_their_number() {
        let mut events = generated::single(3, 4, 60);
        if let Event::Run { plan, .. } = &mut events[0] {
            let mut counted = (**plan).clone();
            counted.stop.requests = Some(40_000);
            *plan = Arc::new(counted);
        }
        let state = fed(events);
        let (share, left) = state.run.as_ref().unwrap().progress().unwrap();
        assert!((0.45..0.55).contains(&share), "{share}");
        assert!(left < Duration::from_secs(6), "{left:?}");
    }
}
