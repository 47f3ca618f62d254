//! What a run of channels is asked for, and the plan that the engine is given for one size of it.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Uri};

use super::{Grants, RelayLimits, Tally};
use crate::plan::{
    Arrival, ChannelMode, ChannelRole, Channels, Connections, Plan, Protocol, Request, Spacing, Stage, Steps, Stop,
    Target, Timeouts, Tls,
};

/// How much longer than all its parts a channel may take: so that its own deadlines tell where it stood.
const SLACK: Duration = Duration::from_secs(5);
/// Most steps of a ramp.
const STEPS_MAX: usize = 1000;

/// What all sizes of a run have in common.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// How far channels go.
    pub(crate) mode: ChannelMode,
    /// Which ends are here.
    pub(crate) role: ChannelRole,
    /// Where the relay is, and who makes the grants.
    pub(crate) origin: Origin,
    /// The suite of grants that are made here: its number and its name.
    pub(crate) suite: (u16, String),
    /// The audience of grants that are made here.
    pub(crate) aud: String,
    /// The issuer of grants that are made here.
    pub(crate) iss: String,
    /// Channels that are made at once; none unless said.
    pub(crate) workers: Option<usize>,
    /// From the start of dialling to the end of the handshake.
    pub(crate) conn_timeout: Duration,
    /// For the call, and for opening its stream.
    pub(crate) rpc_timeout: Duration,
    /// How long an end that is here alone waits for the other one.
    pub(crate) peer_timeout: Duration,
    /// Between two lines, and two looks at processes.
    pub(crate) report_interval: Duration,
    /// How often open channels ask for a sign of life; none for never.
    pub(crate) ping_every: Option<Duration>,
    /// Threads that make channels.
    pub(crate) threads: usize,
    /// Local addresses to come from; empty for what suits.
    pub(crate) sources: Vec<IpAddr>,
    /// What `wss` is trusted by.
    pub(crate) tls: Option<Tls>,
    /// A process of this machine that is measured as the relay's.
    pub(crate) watch_pid: Option<u32>,
    /// The seed.
    pub(crate) seed: u64,
}

/// Where the relay is, and who makes the grants.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// One is started for the run.
    Started(RelayLimits),
    /// One that is there; grants are signed here.
    Url {
        /// `ws://` or `wss://`.
        url: Uri,
        /// The issuer's key.
        key: PathBuf,
    },
    /// A control plane has both.
    Control {
        /// `http://`.
        url: Uri,
        /// The file with a bearer's token.
        token: Option<PathBuf>,
    },
    /// A file has both.
    File(PathBuf),
}

/// One size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Size {
    /// Channels.
    pub(crate) channels: u64,
    /// Channels a second; 0 for as many as workers can.
    pub(crate) rate: f64,
    /// What the rate begins with and grows by; 0 for the whole rate at once.
    pub(crate) ramp_step: f64,
    /// How often it grows.
    pub(crate) ramp_interval: Duration,
    /// How long all stay open.
    pub(crate) steady: Duration,
}

impl Size {
    /// In words: `1000 channels at 400/s, from 200/s by steps of 200/s every 2s`.
    pub(crate) fn words(&self) -> String {
        let Size { channels, rate, ramp_step, .. } = *self;
        let pace = if rate > 0.0 { format!("at {rate}/s") } else { "as fast as they go".to_owned() };
        if self.has_ramp() {
            let every = crate::flags::values::time_text(self.ramp_interval);
            format!("{channels} channels {pace}, from {ramp_step}/s by steps of {ramp_step}/s every {every}")
        } else {
            format!("{channels} channels {pace}")
        }
    }

    fn has_ramp(&self) -> bool {
        self.rate > 0.0 && self.ramp_step > 0.0 && self.ramp_step < self.rate
    }

    /// The rate over time.
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
    /// Channels that are made at once. An end that is here alone waits for the other one and must hold up no other.
    pub(crate) fn workers_at_once(&self, size: &Size) -> usize {
        let alone = if self.role == ChannelRole::Server { usize::try_from(size.channels).unwrap_or(64) } else { 64 };
        self.workers.unwrap_or(alone)
    }
}

/// The plan of one size, towards the relay at `url`.
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
    let path = url.path().to_owned();
    let (grants, tally) = made;
    Plan {
        label: format!("channel {}, {}", settings.mode.name(), size.words()),
        target: Target {
            url,
            addresses: Vec::new(),
            protocol: Protocol::Channel,
            tls: settings.tls.clone(),
            sealed: None,
            broker: None,
            channels: Some(Channels {
                mode: settings.mode,
                role: settings.role,
                grants,
                rpc_timeout: settings.rpc_timeout,
                peer_timeout: settings.peer_timeout,
                ping_every: settings.ping_every,
                steady,
                tally,
            }),
        },
        request: Request { method: Method::GET, path, headers: Vec::new(), body: None, counter_start: 0 },
        arrival,
        stop: Stop { duration: None, requests: Some(size.channels) },
        warm_up: Duration::ZERO,
        connections: Connections { reuse: true, streams: 1, sources, close_header: false },
        timeouts: Timeouts {
            connect: settings.conn_timeout,
            request: settings.conn_timeout + alone + settings.rpc_timeout * 3 + SLACK,
        },
        assertions: Vec::new(),
        think: None,
        threads: settings.threads,
        seed: settings.seed,
    }
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
        assert_eq!(size(400.0, 200.0).words(), "1000 channels at 400/s, from 200/s by steps of 200/s every 2s");
        assert_eq!(size(0.0, 200.0).words(), "1000 channels as fast as they go");
    }
}
