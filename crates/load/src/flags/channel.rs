//! Flags of `sealway load channel`.

use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use sealway_client::channel::mint::keyless_suites;
use sealway_runtime::clock::{Clock, SystemClock};
use sealway_runtime::config::{ConfigError, Problems};

use super::values::{self, HOUR, MILLISECOND};
use super::{Output, OutputFlags, TlsFlags};
use crate::channel::{Origin, RelayLimits, Settings, Size};
use crate::plan::{ChannelMode, ChannelRole};

/// Upper bound of the channels of a size; the next constant bounds the sizes of a sweep.
const CHANNELS_MAX: u64 = 1_000_000;
const SIZES_MAX: usize = 256;
/// Longest life of tokens that are written into a file: relays reject tokens that live longer.
const GRANT_TIME_MAX: Duration = HOUR;
const SECOND: Duration = Duration::from_secs(1);

/// `sealway load channel`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ChannelArgs {
    /// attach (both ends attach, a message passes, both leave), handshake, or full (also a stream and a call) [default: full]
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<String>,
    /// Number of channels; several separated by commas for --sweep [default: 1000]
    #[arg(long, value_name = "CHANNELS", value_delimiter = ',')]
    pub(crate) channels: Vec<String>,
    /// Channels per second; 0: as many as the workers can open; several separated by commas for --sweep [default: 200]
    #[arg(long, value_name = "RATE", value_delimiter = ',')]
    pub(crate) rate: Vec<String>,
    /// First rate and step by which it grows; 0: the whole rate at once; several separated by commas for --sweep [default:
    /// 0]
    #[arg(long, value_name = "RATE", value_delimiter = ',')]
    pub(crate) ramp_step: Vec<String>,
    /// Time between two steps of the rate [default: 2s]
    #[arg(long, value_name = "TIME")]
    pub(crate) ramp_interval: Option<String>,
    /// Time that all channels stay open and idle after the last one was opened [default: 60s]
    #[arg(long, value_name = "TIME")]
    pub(crate) steady: Option<String>,
    /// Channels that are opened at the same time; further ones wait, and the response time includes the wait [default: 64]
    #[arg(long, value_name = "WORKERS")]
    pub(crate) workers: Option<String>,
    /// Time from dialling to the end of the handshake [default: 10s]
    #[arg(long, value_name = "TIME")]
    pub(crate) conn_timeout: Option<String>,
    /// Time for the call, and for opening its stream [default: 5s]
    #[arg(long, value_name = "TIME")]
    pub(crate) rpc_timeout: Option<String>,
    /// Time between two lines on standard error [default: 2s]
    #[arg(long, value_name = "TIME")]
    pub(crate) report_interval: Option<String>,
    /// Time between two pings on an open channel; 0: never [default: 20s]
    #[arg(long, value_name = "TIME")]
    pub(crate) ping_every: Option<String>,
    /// native or flowersec-v1 [default: native]
    #[arg(long, value_name = "PROFILE")]
    pub(crate) profile: Option<String>,
    /// Suite of the profile without keys of the ends, by number (256, 0x100) or name [default: its first]
    #[arg(long, value_name = "SUITE")]
    pub(crate) suite: Option<String>,
    /// Ends that this generator runs: both, client or server; another generator runs the others with the same file of
    /// grants [default: both]
    #[arg(long, value_name = "ROLE")]
    pub(crate) role: Option<String>,
    /// Run each size of the lists in turn until channels fail, and name the limit
    #[arg(long)]
    pub(crate) sweep: bool,
    /// channel-published: the sizes of Flowersec's published results, each in turn
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// URL of a running relay: ws:// or wss://; without it, --control and --grants-in, the command starts one for the run
    #[command(flatten)]
    pub(crate) relay: RelayFlags,
    /// Threads that open channels [default: one per core]
    #[arg(long, value_name = "THREADS")]
    pub(crate) threads: Option<String>,
    /// Local address of connections; several are used in turn [default: suitable ones, to a relay on the loopback]
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub(crate) source: Vec<String>,
    /// text, or json: print the document of the run on standard output, and nothing else there [default: text]
    #[arg(long, value_name = "FORM")]
    pub(crate) output: Option<String>,
    /// TLS towards a relay at `wss://`.
    #[command(flatten)]
    pub(crate) tls: TlsFlags,
    /// Flags for displays and reports.
    #[command(flatten)]
    pub(crate) reports: OutputFlags,
}

/// Flags for the relay and the source of its grants.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Relay and grants")]
pub(crate) struct RelayFlags {
    /// A relay that is there: ws:// or wss://; without it, --control and --grants-in, one is started for the run
    #[arg(long, value_name = "URL")]
    pub(crate) relay: Option<String>,
    /// With --relay: the issuer's key file, which signs tokens here
    #[arg(long, value_name = "FILE")]
    pub(crate) issuer_key: Option<String>,
    /// Audience of tokens that are signed here [default: sealway-load]
    #[arg(long, value_name = "NAME")]
    pub(crate) aud: Option<String>,
    /// Issuer of tokens that are signed here [default: sealway-load]
    #[arg(long, value_name = "NAME")]
    pub(crate) iss: Option<String>,
    /// Control plane that gives grants: http://HOST:PORT
    #[arg(long, value_name = "URL")]
    pub(crate) control: Option<String>,
    /// With --control: file of one line with the bearer token
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<String>,
    /// Write the grants of all channels into this file and open none: for --grants-in here and on another machine
    #[arg(long, value_name = "FILE")]
    pub(crate) grants_out: Option<String>,
    /// Read the grants from this file
    #[arg(long, value_name = "FILE")]
    pub(crate) grants_in: Option<String>,
    /// With --grants-out: lifetime of the grants, at most 1h; with one role: time that an end waits for the other [default:
    /// 10m]
    #[arg(long, value_name = "TIME")]
    pub(crate) grant_time: Option<String>,
    /// Measure this relay's process, on this machine, if the command starts none
    #[arg(long, value_name = "PROCESS")]
    pub(crate) watch_pid: Option<String>,
    /// A relay that is started: maximum of connections [default: 0, as many as the run has]
    #[arg(long, value_name = "COUNT")]
    pub(crate) max_conns: Option<String>,
    /// A relay that is started: maximum of channels [default: 0, as many as the run has]
    #[arg(long, value_name = "COUNT")]
    pub(crate) max_channels: Option<String>,
    /// A relay that is started: time that a channel may stay without a message [default: the relay's own, 60s]
    #[arg(long, value_name = "TIME")]
    pub(crate) idle_timeout: Option<String>,
    /// A relay that is started: time between two searches for expired channels [default: the relay's own, 500ms]
    #[arg(long, value_name = "TIME")]
    pub(crate) cleanup_interval: Option<String>,
}

/// Work that the flags of `sealway load channel` ask for.
#[derive(Clone, Debug)]
pub(crate) struct ChannelJob {
    /// Settings that all sizes have in common.
    pub(crate) settings: Settings,
    /// Sizes to run, in this order.
    pub(crate) sizes: Vec<Size>,
    /// True for the sizes of a preset: then a size that fails does not stop the next ones.
    pub(crate) is_preset: bool,
    /// True for a sweep over several sizes.
    pub(crate) is_sweep: bool,
    /// File that the grants are written to instead of making channels.
    pub(crate) grants_out: Option<PathBuf>,
    /// Validity of the grants in that file.
    pub(crate) grant_time: Duration,
    /// True if standard output holds the JSON document alone.
    pub(crate) is_json: bool,
    /// Displays and reports of the run.
    pub(crate) output: Output,
}

impl ChannelArgs {
    /// Resolves the flags to a job.
    ///
    /// # Errors
    /// Everything that is wrong with them, a line each.
    pub(crate) fn resolve(&self) -> Result<ChannelJob, ConfigError> {
        let mut problems = Problems::default();
        let (sizes, is_preset) = self.sizes(&mut problems);
        let settings = self.settings(&mut problems, is_preset);
        let forms = [("text", false), ("json", true)];
        let is_json = values::word(&mut problems, "--output", &self.output, &forms).unwrap_or(false);
        let output = self.reports.resolve(&mut problems);
        if is_json && output.takes_stdout() {
            problems.add("--output json", "--json-lines and --out - also write to standard output; remove one");
        }
        let is_sweep = self.sweep || is_preset;
        if is_sweep && !output.out.is_empty() {
            problems.add("--out", "writes a report of one size; for a sweep use --output json");
        }
        let grant_time = self.relay.grant_time(&mut problems);
        let grants_out = self.relay.grants_out.as_ref().map(PathBuf::from);
        if grants_out.is_some() && (is_sweep || matches!(settings.origin, Origin::Started(_) | Origin::File(_))) {
            problems.add("--grants-out", "needs one size, and --relay with --issuer-key or --control");
        }
        if let Some(file) = &grants_out {
            let problem = match crate::report::check(file) {
                Ok(()) if file.exists() => Some("exists already; give a new file".to_owned()),
                checked => checked.err(),
            };
            problem.into_iter().for_each(|problem| problems.add(format!("--grants-out {}", file.display()), problem));
        }
        problems.into_result()?;
        Ok(ChannelJob { settings, sizes, is_preset, is_sweep, grants_out, grant_time, is_json, output })
    }

    fn sizes(&self, problems: &mut Problems) -> (Vec<Size>, bool) {
        let interval = values::time(problems, "--ramp-interval", &self.ramp_interval, MILLISECOND..=HOUR);
        let steady = values::time(problems, "--steady", &self.steady, Duration::ZERO..=HOUR * 24);
        let is_published = self.preset.as_deref() == Some("channel-published");
        if let Some(preset) = self.preset.as_ref().filter(|_| !is_published) {
            values::wrong(problems, "--preset", preset, "channel-published");
        }
        let lists = [("--channels", &self.channels), ("--rate", &self.rate), ("--ramp-step", &self.ramp_step)];
        for (flag, _) in lists.iter().filter(|(_, list)| is_published && !list.is_empty()) {
            problems.add(*flag, "the preset channel-published sets this; remove one of them");
        }
        if is_published {
            return (published(steady), true);
        }
        for (flag, _) in lists.iter().filter(|(_, list)| list.len() > 1 && !self.sweep) {
            problems.add(*flag, "expected one value; several need --sweep");
        }
        let numbers = |problems: &mut Problems, flag: &str, list: &[String], default: f64| -> Vec<f64> {
            let read = |value: &String| values::number(problems, flag, Some(value), 0.0..=1e6);
            if list.is_empty() { vec![default] } else { list.iter().filter_map(read).collect() }
        };
        let counts: Vec<u64> = if self.channels.is_empty() {
            vec![1000]
        } else {
            let read = |value| values::whole(problems, "--channels", Some(value), 1..=CHANNELS_MAX);
            self.channels.iter().filter_map(read).collect()
        };
        let rates = numbers(problems, "--rate", &self.rate, 200.0);
        let steps = numbers(problems, "--ramp-step", &self.ramp_step, 0.0);
        let mut sizes = Vec::new();
        for channels in &counts {
            for rate in &rates {
                sizes.extend(steps.iter().map(|ramp_step| Size {
                    channels: *channels,
                    rate: *rate,
                    ramp_step: *ramp_step,
                    ramp_interval: interval.unwrap_or(SECOND * 2),
                    steady: steady.unwrap_or(SECOND * 60),
                }));
            }
        }
        if sizes.len() > SIZES_MAX {
            problems.add("--sweep", format!("expected at most {SIZES_MAX} sizes, not {}", sizes.len()));
            sizes.truncate(SIZES_MAX);
        }
        (sizes, false)
    }

    fn settings(&self, problems: &mut Problems, is_preset: bool) -> Settings {
        let mode = values::named(problems, "--mode", &self.mode).unwrap_or(ChannelMode::Full);
        let role = values::named(problems, "--role", &self.role).unwrap_or(ChannelRole::Both);
        let origin = self.relay.origin(problems);
        if role != ChannelRole::Both && mode == ChannelMode::Attach {
            problems.add("--mode attach", "needs both ends in this generator: remove --role, or use another mode");
        }
        if role != ChannelRole::Both && !matches!(origin, Origin::File(_)) {
            problems
                .add(format!("--role {}", role.name()), "the other generator needs the same grants: give --grants-in");
        }
        let least = MILLISECOND..=HOUR;
        let time = |problems: &mut Problems, flag: &str, value: &Option<String>, default: Duration| {
            values::time(problems, flag, value, least.clone()).unwrap_or(default)
        };
        let ping = values::time(problems, "--ping-every", &self.ping_every, Duration::ZERO..=HOUR);
        let ping = ping.unwrap_or(if is_preset { Duration::ZERO } else { SECOND * 20 });
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = values::whole(problems, "--threads", &self.threads, 1..=256);
        let sources = self
            .source
            .iter()
            .filter_map(|value| values::parsed(problems, "--source", Some(value), "an IP address of this machine"));
        let sources = sources.collect();
        let is_tls = matches!(&origin, Origin::Url { url, .. } if url.scheme_str() == Some("wss"));
        let is_plain = matches!(&origin, Origin::Url { url, .. } if url.scheme_str() == Some("ws"));
        let knows_not = matches!(origin, Origin::Control { .. } | Origin::File(_));
        Settings {
            mode,
            role,
            suite: self.suite(problems),
            aud: self.relay.aud.clone().unwrap_or_else(|| "sealway-load".into()),
            iss: self.relay.iss.clone().unwrap_or_else(|| "sealway-load".into()),
            workers: values::whole(problems, "--workers", &self.workers, 1..=CHANNELS_MAX).map(|n| n as usize),
            conn_timeout: time(problems, "--conn-timeout", &self.conn_timeout, SECOND * 10),
            rpc_timeout: time(problems, "--rpc-timeout", &self.rpc_timeout, SECOND * 5),
            peer_timeout: self.relay.grant_time(problems),
            report_interval: time(problems, "--report-interval", &self.report_interval, SECOND * 2),
            ping_every: Some(ping).filter(|every| !every.is_zero()),
            threads: threads.map_or(cores, |threads| threads as usize),
            sources,
            // Grants that are minted elsewhere name their relay: it is known only then if TLS is needed.
            tls: self.tls.resolve(
                problems,
                is_tls || (knows_not && !is_plain && self.tls != TlsFlags::default()),
                None,
            ),
            watch_pid: values::whole(problems, "--watch-pid", &self.relay.watch_pid, 1..=u64::from(u32::MAX))
                .map(|pid| pid as u32),
            seed: SystemClock.now_ms() % 1_000_000_000,
            origin,
        }
    }

    fn suite(&self, problems: &mut Problems) -> (u16, String) {
        let profiles = [("native", true), ("flowersec-v1", false)];
        let is_native = values::word(problems, "--profile", &self.profile, &profiles).unwrap_or(true);
        let all: Vec<_> = keyless_suites().into_iter().filter(|(_, _, native)| *native == is_native).collect();
        let wanted = self.suite.as_deref().map(|suite| {
            let number =
                suite.strip_prefix("0x").map_or_else(|| suite.parse().ok(), |hex| u16::from_str_radix(hex, 16).ok());
            all.iter().find(|(id, name, _)| Some(*id) == number || name.eq_ignore_ascii_case(suite))
        });
        if let (Some(None), Some(suite)) = (&wanted, &self.suite) {
            let names: Vec<_> = all.iter().map(|(id, name, _)| format!("{id} ({name})")).collect();
            values::wrong(problems, "--suite", suite, format!("one of {}", names.join(", ")));
        }
        let chosen = wanted.flatten().or(all.first());
        chosen.map_or((0, String::new()), |(id, name, _)| (*id, name.clone()))
    }
}

/// Returns the sizes of Flowersec's published results.
fn published(steady: Option<Duration>) -> Vec<Size> {
    let size = |channels, rate, ramp_step, seconds| Size {
        channels,
        rate,
        ramp_step,
        ramp_interval: SECOND * 2,
        steady: steady.unwrap_or(SECOND * seconds),
    };
    let mut all = vec![size(1000, 400.0, 200.0, 30)];
    let others =
        [(4000, 1000.0), (6000, 1000.0), (8000, 1000.0), (6000, 600.0), (7000, 600.0), (4000, 2000.0), (4000, 4000.0)];
    // Only the first size was held open; the others measure how many channels can be made, and idle for a short time to be
    // measured.
    all.extend(others.map(|(channels, rate)| size(channels, rate, 0.0, 3)));
    all
}

impl RelayFlags {
    fn grant_time(&self, problems: &mut Problems) -> Duration {
        let time = values::time(problems, "--grant-time", &self.grant_time, SECOND..=GRANT_TIME_MAX);
        time.unwrap_or(SECOND * 600)
    }

    fn origin(&self, problems: &mut Problems) -> Origin {
        let named = [("--relay", &self.relay), ("--control", &self.control), ("--grants-in", &self.grants_in)];
        let given: Vec<_> = named.iter().filter(|(_, value)| value.is_some()).map(|(flag, _)| *flag).collect();
        if given.len() > 1 {
            problems.add(given.join(" with "), "each names the relay: give only one");
        }
        self.refuse_strays(problems);
        let limits = self.limits(problems);
        if let Some(text) = &self.relay {
            let expected = "ws://HOST:PORT/ws or wss://HOST/ws";
            let url = relay_url(problems, "--relay", text, &["ws", "wss"], expected);
            if self.issuer_key.is_none() {
                problems.add("--relay", "needs --issuer-key: the relay accepts only tokens of an issuer that it knows");
            }
            let key = PathBuf::from(self.issuer_key.clone().unwrap_or_default());
            return Origin::Url { url: url.unwrap_or_default(), key };
        }
        if let Some(text) = &self.control {
            let url = relay_url(problems, "--control", text, &["http"], "http://HOST:PORT");
            return Origin::Control {
                url: url.unwrap_or_default(),
                token: self.token_file.as_ref().map(PathBuf::from),
            };
        }
        match &self.grants_in {
            Some(file) => Origin::File(PathBuf::from(file)),
            None => Origin::Started(limits),
        }
    }

    /// Adds a problem for each flag that needs another flag.
    fn refuse_strays(&self, problems: &mut Problems) {
        let is_started = self.relay.is_none() && self.control.is_none() && self.grants_in.is_none();
        let strays = [
            ("--issuer-key", self.issuer_key.is_some() && self.relay.is_none(), "applies to --relay only"),
            ("--token-file", self.token_file.is_some() && self.control.is_none(), "applies to --control only"),
            (
                "--watch-pid",
                self.watch_pid.is_some() && is_started,
                "applies only to a relay that runs already: give --relay, --control or --grants-in",
            ),
            (
                "--max-conns",
                self.max_conns.is_some() && !is_started,
                "applies only to a relay that this command starts",
            ),
            (
                "--max-channels",
                self.max_channels.is_some() && !is_started,
                "applies only to a relay that this command starts",
            ),
            (
                "--idle-timeout",
                self.idle_timeout.is_some() && !is_started,
                "applies only to a relay that this command starts",
            ),
            (
                "--cleanup-interval",
                self.cleanup_interval.is_some() && !is_started,
                "applies only to a relay that this command starts",
            ),
        ];
        for (flag, _, reason) in strays.into_iter().filter(|(_, is_stray, _)| *is_stray) {
            problems.add(flag, reason);
        }
    }

    fn limits(&self, problems: &mut Problems) -> RelayLimits {
        let mut count = |flag: &str, value: &Option<String>| {
            values::whole(problems, flag, value, 0..=10_000_000).unwrap_or_default()
        };
        let (max_conns, max_channels) =
            (count("--max-conns", &self.max_conns), count("--max-channels", &self.max_channels));
        RelayLimits {
            max_conns,
            max_channels,
            idle_timeout: values::time(problems, "--idle-timeout", &self.idle_timeout, MILLISECOND..=HOUR * 24),
            cleanup_interval: values::time(
                problems,
                "--cleanup-interval",
                &self.cleanup_interval,
                MILLISECOND..=SECOND * 10,
            ),
        }
    }
}

fn relay_url(problems: &mut Problems, flag: &str, text: &str, schemes: &[&str], expected: &str) -> Option<Uri> {
    let url = text.parse::<Uri>().ok().filter(|url| {
        let is_known = url.scheme_str().is_some_and(|scheme| schemes.contains(&scheme));
        let is_bare = url.authority().is_none_or(|authority| !authority.as_str().contains('@'));
        is_known && is_bare && url.host().is_some_and(|host| !host.is_empty())
    });
    if url.is_none() {
        // The value may hold a secret and is not shown.
        problems.add(flag, format!("expected {expected}, without a user and password"));
    }
    url
}
