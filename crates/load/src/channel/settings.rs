//! Settings of a run of channels, and the engine's plan for one of its sizes.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;

use super::{Grants, RelayLimits, Tally};
use crate::plan::{Arrival, ChannelMode, ChannelRole, Channels, Plan, Protocol, Spacing, Stage, Steps, Tls};

/// Time that a channel may take beyond the sum of its parts, so that the deadline of a part expires first and names its stage.
const SLACK: Duration = Duration::from_secs(5);
/// Upper bound of the steps of a ramp.
const STEPS_MAX: usize = 1000;

/// Settings that all sizes of a run have in common.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Last stage that each channel reaches.
    pub(crate) mode: ChannelMode,
    /// Ends of each channel that this generator makes.
    pub(crate) role: ChannelRole,
    /// Location of the relay, and source of the grants.
    pub(crate) origin: Origin,
    /// Suite of grants that are minted here: its number and its name.
    pub(crate) suite: (u16, String),
    /// Audience of grants that are minted here.
    pub(crate) aud: String,
    /// Issuer of grants that are minted here.
    pub(crate) iss: String,
    /// Channels that are made at once; `None` for the default of [`Settings::workers_at_once`].
    pub(crate) workers: Option<usize>,
    /// Time limit from the start of dialling to the end of the handshake.
    pub(crate) conn_timeout: Duration,
    /// Time limit of the call, and of opening its stream.
    pub(crate) rpc_timeout: Duration,
    /// Longest time that an end waits for its peer at another generator.
    pub(crate) peer_timeout: Duration,
    /// Time between two lines of progress, and two counts of threads and descriptors.
    pub(crate) report_interval: Duration,
    /// Time between two pings of an open channel; `None` for no pings.
    pub(crate) ping_every: Option<Duration>,
    /// Number of threads that make channels.
    pub(crate) threads: usize,
    /// Local addresses to connect from; empty for the default.
    pub(crate) sources: Vec<IpAddr>,
    /// TLS settings of a relay at `wss://`.
    pub(crate) tls: Option<Tls>,
    /// Process of this machine that is watched as the relay.
    pub(crate) watch_pid: Option<u32>,
    /// Seed of the run's random values.
    pub(crate) seed: u64,
}

/// Location of the relay, and source of the grants.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// A relay that is started for the run, with these limits.
    Started(RelayLimits),
    /// A relay that runs already; its grants are signed here.
    Url {
        /// URL of the relay: `ws://` or `wss://`.
        url: Uri,
        /// File with the issuer's key.
        key: PathBuf,
    },
    /// A control plane that supplies grants, which name their relay.
    Control {
        /// URL of the control plane: `http://`.
        url: Uri,
        /// File with a bearer token, if one is needed.
        token: Option<PathBuf>,
    },
    /// A file of grants, which name their relay.
    File(PathBuf),
}

/// Size of a run: channels, their rate, and their time open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Size {
    /// Number of channels to make.
    pub(crate) channels: u64,
    /// Channels a second; 0 for as many as the workers can make.
    pub(crate) rate: f64,
    /// First rate, and each increase of the rate; 0 for the whole rate at once.
    pub(crate) ramp_step: f64,
    /// Time between two increases of the rate.
    pub(crate) ramp_interval: Duration,
    /// Time for which all channels stay open.
    pub(crate) steady: Duration,
}

impl Size {
    /// Describes the size: `1000 channels at 400/s, from 200/s in steps of 200/s every 2s`.
    pub(crate) fn words(&self) -> String {
        let Size { channels, rate, ramp_step, .. } = *self;
        let pace = if rate > 0.0 { format!("at {rate}/s") } else { "at full speed".to_owned() };
        if self.has_ramp() {
            let every = crate::flags::values::time_text(self.ramp_interval);
            format!("{channels} channels {pace}, from {ramp_step}/s in steps of {ramp_step}/s every {every}")
        } else {
            format!("{channels} channels {pace}")
        }
    }

    fn has_ramp(&self) -> bool {
        self.rate > 0.0 && self.ramp_step > 0.0 && self.ramp_step < self.rate
    }

    /// Returns the rate over time, in at most `STEPS_MAX` steps before the last.
    fn steps(&self) -> Steps {
        let mut stages = Vec::new();
        let mut value = self.ramp_step;
        while self.has_ramp() && value < self.rate && stages.len() < STEPS_MAX {
            stages.push(Stage { value, length: self.ramp_interval, ramp: false });
            value += self.ramp_step;
        }
        stages.push(Stage { value: self.rate, length: Duration::ZERO, ramp: false });
        Steps(stages)
    }
}

impl Settings {
    /// Returns the number of channels that are made at once. By default it is 64; for the server's ends alone it is all channels,
    /// because each waits for its peer and must not delay another.
    pub(crate) fn workers_at_once(&self, size: &Size) -> usize {
        let alone = if self.role == ChannelRole::Server { usize::try_from(size.channels).unwrap_or(64) } else { 64 };
        self.workers.unwrap_or(alone)
    }
}

/// Creates the plan of one size, towards the relay at `url`.
pub(crate) fn plan(
    settings: &Settings,
    size: &Size,
    url: Uri,
    sources: Vec<IpAddr>,
    made: (Arc<Grants>, Arc<Tally>),
) -> Plan {
    let workers = settings.workers_at_once(size);
    let arrival = if size.rate > 0.0 {
        Arrival::Open { rate: size.steps(), spacing: Spacing::Even, in_flight_max: workers }
    } else {
        Arrival::Closed { concurrency: Steps::constant(workers as f64), ramp_share: 0.0, loops: 0 }
    };
    let steady = if settings.mode == ChannelMode::Attach { Duration::ZERO } else { size.steady };
    let alone = if settings.role == ChannelRole::Both { Duration::ZERO } else { settings.peer_timeout };
    let (grants, tally) = made;
    let path = url.path().to_owned();
    let mut plan = Plan::of(url);
    plan.label = format!("channel {}, {}", settings.mode.name(), size.words());
    plan.target.protocol = Protocol::Channel;
    plan.target.tls.clone_from(&settings.tls);
    plan.target.channels = Some(Channels {
        mode: settings.mode,
        role: settings.role,
        grants,
        rpc_timeout: settings.rpc_timeout,
        peer_timeout: settings.peer_timeout,
        ping_every: settings.ping_every,
        steady,
        tally,
    });
    plan.request.path = path;
    plan.arrival = arrival;
    plan.stop.requests = Some(size.channels);
    plan.connections.sources = sources;
    plan.timeouts.connect = settings.conn_timeout;
    plan.timeouts.request = settings.conn_timeout + alone + settings.rpc_timeout * 3 + SLACK;
    (plan.threads, plan.seed) = (settings.threads, settings.seed);
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ramp_grows_by_steps_up_to_the_rate_and_stays_there() {
        let size = |rate, ramp_step| Size {
            channels: 1000,
            rate,
            ramp_step,
            ramp_interval: Duration::from_secs(2),
            steady: Duration::ZERO,
        };
        let steps = size(500.0, 200.0).steps();
        let at = |second| steps.at(Duration::from_secs(second));
        assert_eq!([at(0), at(1), at(2), at(4), at(100)], [200.0, 200.0, 400.0, 500.0, 500.0]);
        assert_eq!(size(500.0, 0.0).steps(), Steps::constant(500.0));
        assert_eq!(size(500.0, 900.0).steps(), Steps::constant(500.0));
        assert!(size(1e6, 0.001).steps().0.len() <= STEPS_MAX + 1);
        assert_eq!(size(400.0, 200.0).words(), "1000 channels at 400/s, from 200/s in steps of 200/s every 2s");
        assert_eq!(size(0.0, 200.0).words(), "1000 channels at full speed");
    }
}
