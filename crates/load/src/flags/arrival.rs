//! Flags for the arrival of requests, and for the end of the run.

use std::time::Duration;

use sealway_runtime::config::Problems;
use serde::{Deserialize, Serialize};

use super::values::{self, DAY, HOUR, MILLISECOND};
use crate::plan::{Arrival, Spacing, Stage, Steps, Stop};

/// Default number of workers of a closed loop.
const CONCURRENCY_DEFAULT: u64 = 64;
/// Default length of a run without another end.
const DURATION_DEFAULT: Duration = Duration::from_secs(30);
/// Default bound of requests under way in an open loop.
const IN_FLIGHT_DEFAULT: u64 = 10_000;
/// Upper bound of the number of workers.
pub(crate) const CONCURRENCY_MAX: u64 = 1_000_000;
/// Upper bound of the requests of a run.
const REQUESTS_MAX: u64 = 1_000_000_000_000;
/// Upper bound of the rate, in requests a second.
pub(crate) const RATE_MAX: f64 = 10_000_000.0;

/// Flags for the arrival of requests, and for the end of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
#[command(next_help_heading = "Load")]
#[serde(default)]
pub(crate) struct ArrivalFlags {
    /// Closed loop: the number of workers, each of which sends its next request when it has its response [default: 64]
    #[arg(long, short, value_name = "WORKERS", allow_hyphen_values = true)]
    pub(crate) concurrency: Option<String>,
    /// Open loop: requests per second, whatever the target does; response times count since a request was due
    #[arg(long, value_name = "PER_SECOND", allow_hyphen_values = true)]
    pub(crate) rate: Option<String>,
    /// Open loop: distribution of arrivals, even or poisson [default: even]
    #[arg(long, value_name = "HOW")]
    pub(crate) spacing: Option<String>,
    /// Open loop: maximum of requests in flight; further ones wait [default: 10000]
    #[arg(long, value_name = "REQUESTS", allow_hyphen_values = true)]
    pub(crate) in_flight_max: Option<String>,
    /// Next stage of the rate (with --concurrency: of the workers): 100@30s at once, ramp:500@1m linearly; repeatable
    #[arg(long, value_name = "VALUE@TIME", value_delimiter = ',')]
    pub(crate) stage: Vec<String>,
    /// Share of the workers that starts each second; 0 starts all at once [default: 0]
    #[arg(long, value_name = "PER_CENT", allow_hyphen_values = true)]
    pub(crate) ramp_percent_per_second: Option<String>,
    /// Requests to send at one moment, as in --burst 3000 --every 5s --times 4
    #[arg(long, value_name = "REQUESTS", allow_hyphen_values = true)]
    pub(crate) burst: Option<String>,
    /// Time from the start of a burst to the next [default: 5s]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) every: Option<String>,
    /// Number of bursts [default: 1]
    #[arg(long, value_name = "BURSTS", allow_hyphen_values = true)]
    pub(crate) times: Option<String>,
    /// Measured time, such as 30, 1m30s or 00:01:30 [default: 30s, if no other end is given]
    #[arg(long, short, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) duration: Option<String>,
    /// Number of requests after which the run ends
    #[arg(long, short = 'n', value_name = "REQUESTS", allow_hyphen_values = true)]
    pub(crate) requests: Option<String>,
    /// Maximum of requests for each worker; 0: no bound
    #[arg(long, value_name = "REQUESTS", allow_hyphen_values = true)]
    pub(crate) loops: Option<String>,
    /// Time at the beginning that counts in no total [default: 0]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) warm_up: Option<String>,
    /// Pause of a worker between a response and its next request: a time, or 1s..3s for a random one in this range
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) think: Option<String>,
    /// Threads that generate the load [default: one per core]
    #[arg(long, value_name = "THREADS", allow_hyphen_values = true)]
    pub(crate) threads: Option<String>,
    /// Seed of all random numbers [default: a new one each time; reports name it]
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    pub(crate) seed: Option<String>,
}

/// Meaning of all these flags together.
pub(super) struct ArrivalPlan {
    pub(super) arrival: Arrival,
    pub(super) stop: Stop,
    pub(super) warm_up: Duration,
    pub(super) think: Option<(Duration, Duration)>,
    pub(super) threads: usize,
    pub(super) seed: Option<u64>,
}

impl ArrivalFlags {
    pub(super) fn resolve(&self, problems: &mut Problems) -> ArrivalPlan {
        self.refuse_mixtures(problems);
        let mut whole = |flag, value: &Option<String>, range| values::whole(problems, flag, value, range);
        let concurrency = whole("--concurrency", &self.concurrency, 1..=CONCURRENCY_MAX);
        let in_flight_max = whole("--in-flight-max", &self.in_flight_max, 1..=CONCURRENCY_MAX);
        let burst = whole("--burst", &self.burst, 1..=CONCURRENCY_MAX);
        let times = whole("--times", &self.times, 1..=100_000);
        let requests = whole("--requests", &self.requests, 1..=REQUESTS_MAX);
        let loops = whole("--loops", &self.loops, 0..=REQUESTS_MAX);
        let rate = values::number(problems, "--rate", &self.rate, 0.001..=RATE_MAX);
        let spacing = values::named(problems, "--spacing", &self.spacing);
        let ramp = values::number(problems, "--ramp-percent-per-second", &self.ramp_percent_per_second, 0.0..=100.0);
        let every = values::time(problems, "--every", &self.every, MILLISECOND..=HOUR);
        let duration = values::time(problems, "--duration", &self.duration, MILLISECOND * 100..=DAY * 30);
        let arrival = if self.burst.is_some() {
            Arrival::Bursts {
                burst: burst.unwrap_or(1) as usize,
                every: every.unwrap_or(Duration::from_secs(5)),
                times: times.unwrap_or(1) as usize,
            }
        } else if self.is_open() {
            Arrival::Open {
                rate: self.steps(problems, rate, RATE_MAX),
                spacing: spacing.unwrap_or(Spacing::Even),
                in_flight_max: in_flight_max.unwrap_or(IN_FLIGHT_DEFAULT) as usize,
            }
        } else {
            let first = concurrency.unwrap_or(CONCURRENCY_DEFAULT) as f64;
            Arrival::Closed {
                concurrency: self.steps(problems, Some(first), CONCURRENCY_MAX as f64),
                ramp_share: ramp.unwrap_or(0.0) / 100.0,
                loops: loops.unwrap_or(0),
            }
        };
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get().min(256));
        let warm_up = values::time(problems, "--warm-up", &self.warm_up, Duration::ZERO..=HOUR);
        let think = values::times(problems, "--think", &self.think, Duration::ZERO..=HOUR);
        let threads = values::whole(problems, "--threads", &self.threads, 1..=256);
        ArrivalPlan {
            stop: Stop { duration: duration.or(default_duration(requests, &arrival)), requests },
            arrival,
            warm_up: warm_up.unwrap_or_default(),
            think: think.filter(|(_, to)| !to.is_zero()),
            threads: threads.map_or(cores, |threads| threads as usize),
            seed: values::whole(problems, "--seed", &self.seed, 0..=u64::MAX),
        }
    }

    /// Returns whether the model is open. Stages set the rate, or the workers if `--concurrency` is given.
    fn is_open(&self) -> bool {
        self.rate.is_some() || (!self.stage.is_empty() && self.concurrency.is_none())
    }

    /// Returns the steps of the load: the first value at once, then the stages.
    fn steps(&self, problems: &mut Problems, first: Option<f64>, max: f64) -> Steps {
        let stages = values::stages(problems, "--stage", &self.stage, max);
        if stages.iter().all(|stage| stage.value == 0.0) && !stages.is_empty() && first.is_none() {
            problems.add("--stage", "all stages are 0, so nothing would be sent; give at least one above 0");
        }
        let first = first.map(|value| Stage { value, length: Duration::ZERO, ramp: false });
        Steps(first.into_iter().chain(stages).collect())
    }

    /// Adds a problem for each combination of flags that contradict each other or have no effect.
    fn refuse_mixtures(&self, problems: &mut Problems) {
        let mut refuse = |is_so: bool, flags: &str, reason: &str| {
            if is_so {
                problems.add(flags, reason);
            }
        };
        let (closed, open) = (self.concurrency.is_some(), self.rate.is_some());
        let bursts = self.burst.is_some();
        refuse(
            closed && open,
            "--rate with --concurrency",
            "a run is either open loop (--rate) or closed loop (--concurrency); --in-flight-max bounds an open one",
        );
        refuse(bursts && closed, "--burst with --concurrency", "a burst has no workers; remove one of them");
        refuse(bursts && open, "--burst with --rate", "a burst is sent at one moment; remove one of them");
        refuse(
            bursts && !self.stage.is_empty(),
            "--burst with --stage",
            "a burst is sent at one moment; remove one of them",
        );
        let is_open = self.is_open();
        let is_closed = !is_open && !bursts;
        refuse(!is_open && self.spacing.is_some(), "--spacing", "applies to an open loop only: add --rate");
        refuse(!is_open && self.in_flight_max.is_some(), "--in-flight-max", "applies to an open loop only: add --rate");
        let ramp = self.ramp_percent_per_second.is_some();
        refuse(
            !is_closed && ramp,
            "--ramp-percent-per-second",
            "applies to a closed loop only; ramp an open one with --stage ramp:VALUE@TIME",
        );
        refuse(
            ramp && !self.stage.is_empty() && closed,
            "--ramp-percent-per-second with --stage",
            "both set the number of workers; ramp with --stage ramp:VALUE@TIME",
        );
        refuse(
            !is_closed && self.loops.is_some(),
            "--loops",
            "applies to a closed loop only, which has workers (--concurrency)",
        );
        refuse(
            !is_closed && self.think.is_some(),
            "--think",
            "applies to a closed loop only, which has workers (--concurrency)",
        );
        refuse(!bursts && self.every.is_some(), "--every", "applies to bursts only: add --burst");
        refuse(!bursts && self.times.is_some(), "--times", "applies to bursts only: add --burst");
        refuse(
            bursts && self.requests.is_some(),
            "--burst with --requests",
            "--burst and --times set the number of requests; remove --requests",
        );
        refuse(
            bursts && self.warm_up.is_some(),
            "--burst with --warm-up",
            "bursts have no warm-up: every burst is measured",
        );
    }
}

/// Returns the duration of a run without `--duration`: the length of all stages, or 30 s without stages. Bursts, and runs with
/// `--requests` or `--loops`, end without one.
fn default_duration(requests: Option<u64>, arrival: &Arrival) -> Option<Duration> {
    let steps = match arrival {
        Arrival::Open { rate, .. } => rate,
        Arrival::Closed { concurrency, loops: 0, .. } => concurrency,
        Arrival::Closed { .. } | Arrival::Bursts { .. } => return None,
    };
    let length: Duration = steps.0.iter().map(|stage| stage.length).sum();
    let length = if length.is_zero() { DURATION_DEFAULT } else { length };
    requests.is_none().then_some(length)
}
