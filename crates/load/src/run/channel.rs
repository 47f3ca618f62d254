//! Runs `sealway load channel`: starts a relay if none is given, runs the sizes in turn, and reports each of them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Uri;
use sealway_client::channel::mint;
use sealway_runtime::config::read_bounded;

use super::single::{ended, print_beside, write_reports};
use super::{Driver, JobError, print, say, view};
use crate::channel::{
    ChannelReport, Facts, Grants, Origin, Relay, RelayLimits, Room, Settings, Size, StoppedSize, SweepReport, Tally,
    Watch, plan, sources,
};
use crate::engine::Outcome;
use crate::flags::{ChannelArgs, ChannelJob};
use crate::report::{Machine, Report};

/// Time between two samples of the processes.
const LOOK: Duration = Duration::from_millis(200);
/// Upper bound of a file with a key or token, in bytes.
const SECRET_LEN_MAX: u64 = 256 * 1024;
/// Name of the key that is made for a relay of the run.
const KEY_NAME: &str = "load";

/// Runs the job of these arguments: writes grants, sweeps several sizes, or runs one size.
pub(super) async fn run(args: &ChannelArgs) -> Result<(), JobError> {
    let job = args.resolve().map_err(JobError::usage)?;
    if let Some(file) = &job.grants_out {
        let size = job.sizes.first().ok_or_else(|| JobError::usage("--channels: missing"))?;
        let grants = grants(&job.settings, Some(job.grant_time)).map_err(JobError::usage)?;
        return grants.write(file, size.channels).await.map_err(JobError::failed);
    }
    if job.is_sweep { sweep(&job).await } else { single(&job).await }
}

/// Runs a single size, and prints and writes its reports.
async fn single(job: &ChannelJob) -> Result<(), JobError> {
    let size = job.sizes.first().ok_or_else(|| JobError::usage("--channels: missing"))?;
    let stage = Stage::set(&job.settings, size).await.map_err(|err| err.failure())?;
    let (mut driver, views) = view::start_apart(&job.output, job.is_json)?;
    let has_lines = !views.is_full_screen() && !job.output.json_lines;
    let ran = stage.run(&mut driver, has_lines).await;
    views.end(driver).await;
    let (report, outcome) = ran?;
    let mut reasons = Vec::new();
    let plain = Report::new(&outcome, &[], Machine::here());
    if job.is_json {
        print(&format!("{}\n", json(&report)?));
        let files = crate::flags::Output { json_lines: true, ..job.output.clone() };
        write_reports(&plain, &files, &mut reasons);
    } else {
        write_reports(&plain, &job.output, &mut reasons);
        print_beside(&job.output, &report.text());
    }
    reasons.extend(why(&report));
    ended(&reasons)
}

/// Runs several sizes in turn, each with a relay of its own if relays are started. A size that fails ends the sweep, unless the
/// sizes are those of a preset.
async fn sweep(job: &ChannelJob) -> Result<(), JobError> {
    let (mut points, mut stopped) = (Vec::new(), Vec::new());
    let (mut driver, views) = view::start_apart(&job.output, job.is_json)?;
    let has_lines = !views.is_full_screen() && !job.output.json_lines;
    let mut failure = None;
    for (index, size) in job.sizes.iter().enumerate() {
        if has_lines {
            say(format_args!("sealway load: size {} of {}: {}", index + 1, job.sizes.len(), size.words()));
        }
        let stage = match Stage::set(&job.settings, size).await {
            Ok(stage) => stage,
            Err(SetupError::Unfit(reason)) => {
                if has_lines {
                    say(format_args!("sealway load: rejected before the start: {reason}"));
                }
                stopped.push(StoppedSize { size: size.words(), is_refused: true, limits: vec![reason] });
                if job.is_preset { continue } else { break }
            }
            Err(other) => {
                failure = Some(other.failure());
                break;
            }
        };
        let report = match stage.run(&mut driver, has_lines).await {
            Ok((report, _)) => report,
            Err(err) => {
                failure = Some(err);
                break;
            }
        };
        let (is_good, limits) = (report.is_good(), report.limits().to_vec());
        points.push(report);
        if !is_good {
            stopped.push(StoppedSize { size: size.words(), is_refused: false, limits });
        }
        if driver.is_stopped() || (!is_good && !job.is_preset) {
            break;
        }
    }
    views.end(driver).await;
    if let Some(failure) = failure {
        return Err(failure);
    }
    let report = SweepReport::new(points, stopped);
    print(&if job.is_json { format!("{}\n", json(&report)?) } else { report.text() });
    let reasons: Vec<_> =
        report.stopped.iter().map(|stopped| format!("{}: {}", stopped.size, stopped.limits.join("; "))).collect();
    ended(&reasons)
}

fn json(document: &impl serde::Serialize) -> Result<String, JobError> {
    serde_json::to_string_pretty(document).map_err(JobError::failed)
}

/// Returns the reasons why the run failed, a sentence each.
fn why(report: &ChannelReport) -> Vec<String> {
    let mut reasons = Vec::new();
    let (succeeded, failed, asked) = report.counts();
    if let ("failed", Some(why)) = report.ended() {
        reasons.push(why.to_owned());
    }
    if failed > 0 {
        reasons.push(format!("{failed} of {asked} channels failed: {}", report.limits().join("; ")));
    } else if succeeded < asked && report.ended().0 == "done" {
        reasons.push(format!("only {succeeded} of {asked} channels succeeded"));
    }
    reasons
}

/// Reason why a size cannot be run.
enum SetupError {
    /// The size does not fit into this machine.
    Unfit(String),
    /// The command line or one of its files is wrong.
    Usage(String),
    /// Starting the relay or getting the grants failed.
    Failed(String),
}

impl SetupError {
    fn failure(self) -> JobError {
        match self {
            SetupError::Unfit(reason) => JobError::failed(format!("rejected before the start: {reason}")),
            SetupError::Usage(reason) => JobError::usage(reason),
            SetupError::Failed(reason) => JobError::failed(reason),
        }
    }
}

/// Prepared run of one size, with its grants, relay and local addresses.
struct Stage<'a> {
    settings: &'a Settings,
    size: &'a Size,
    grants: Arc<Grants>,
    url: Uri,
    sources: Vec<IpAddr>,
    relay: Option<(Relay, RelayLimits)>,
    suite: (u16, String),
}

impl<'a> Stage<'a> {
    async fn set(settings: &'a Settings, size: &'a Size) -> Result<Self, SetupError> {
        let (grants, relay) = match &settings.origin {
            Origin::Started(limits) => {
                fits(settings, size, Some(std::net::Ipv4Addr::LOCALHOST.into()), true)?;
                let limits = limits.for_channels(size.channels);
                let (grants, relay) = started(settings, limits.clone()).await.map_err(SetupError::Failed)?;
                (grants, Some((relay, limits)))
            }
            _ => (grants(settings, None).map_err(SetupError::Usage)?, None),
        };
        if let Some(len) = grants.len().filter(|len| (*len as u64) < size.channels) {
            return Err(SetupError::Usage(format!(
                "--grants-in: the file has grants for {len} channels, and --channels is {}",
                size.channels
            )));
        }
        let (url, suite) = grants.peek().await.map_err(|failure| SetupError::Failed(failure.words))?;
        let url: Uri =
            url.parse().map_err(|_| SetupError::Failed(format!("the grants name an invalid relay address: {url}")))?;
        let is_tls = url.scheme_str() == Some("wss");
        if is_tls != settings.tls.is_some() && is_tls {
            return Err(SetupError::Usage("--ca: missing, the relay of the grants uses TLS".into()));
        }
        let host = url.host().unwrap_or_default().trim_matches(['[', ']']).parse().ok();
        let sources = fits(settings, size, host, relay.is_some())?;
        let name = mint::keyless_suites().into_iter().find(|(id, _, _)| *id == suite);
        let suite = (suite, name.map_or_else(|| "unknown".to_owned(), |(_, name, _)| name));
        Ok(Stage { settings, size, grants: Arc::new(grants), url, sources, relay, suite })
    }

    /// Runs the size; with `has_lines`, prints progress on standard error.
    async fn run(mut self, driver: &mut Driver, has_lines: bool) -> Result<(ChannelReport, Outcome), JobError> {
        let tally = Arc::new(Tally::default());
        let mut settings = self.settings.clone();
        settings.suite = self.suite.clone();
        if self.url.scheme_str() != Some("wss") {
            settings.tls = None;
        }
        let made = (Arc::clone(&self.grants), Arc::clone(&tally));
        let plan = plan(&settings, self.size, self.url.clone(), self.sources.clone(), made);
        let pid = self.relay.as_ref().map(|(relay, _)| relay.id()).or(settings.watch_pid);
        let mut watches = Watches::start(pid).map_err(|err| JobError::usage(format!("--watch-pid: {err}")))?;
        let mut news = tokio::time::interval(settings.report_interval);
        news.tick().await;
        let mut looks = tokio::time::interval(LOOK);
        let begun = Instant::now();
        let ran = {
            let mut running = std::pin::pin!(driver.run(plan, Duration::ZERO));
            loop {
                tokio::select! {
                    ran = &mut running => break ran,
                    _ = looks.tick() => watches.look(&tally),
                    _ = news.tick() => {
                        watches.count();
                        if has_lines {
                            say(progress(&tally, &watches, self.size, begun));
                        }
                    }
                }
            }
        };
        let (outcome, _) = ran.map_err(JobError::failed)?;
        let mut warnings = self.warnings(&settings);
        if let Some(words) = self.relay.as_mut().and_then(|(relay, _)| relay.has_ended()) {
            warnings.push(words);
        }
        let facts = Facts {
            settings: &settings,
            size: self.size,
            relay_limits: self.relay.as_ref().map(|(_, limits)| limits),
            outcome: &outcome,
            counted: &tally.counted(),
            generator: watches.generator.cost(),
            relay: watches.relay.as_ref().map(Watch::cost),
            warnings,
        };
        let report = ChannelReport::new(&facts);
        // Dropping the relay waits for its process to end, and must not block this thread.
        if let Some((relay, _)) = self.relay.take() {
            let _ = tokio::task::spawn_blocking(move || drop(relay)).await;
        }
        Ok((report, outcome))
    }

    fn warnings(&self, settings: &Settings) -> Vec<String> {
        let mut warnings = Vec::new();
        let idle = self.relay.as_ref().map(|(_, limits)| limits.idle_timeout.unwrap_or(Duration::from_secs(60)));
        if let (Some(idle), None) = (idle, settings.ping_every)
            && self.size.steady >= idle
        {
            warnings.push(format!(
                "Idle channels send nothing (--ping-every 0), and the relay closes channels that are idle for {idle:?}."
            ));
        }
        if self.relay.is_some() {
            warnings.push(
                "The relay and both ends share the cores of this machine; the relay's process is measured separately."
                    .to_owned(),
            );
        }
        warnings
    }
}

/// Returns the local addresses to connect from, if the size fits into this machine.
fn fits(settings: &Settings, size: &Size, relay: Option<IpAddr>, has_relay: bool) -> Result<Vec<IpAddr>, SetupError> {
    let sources = match settings.sources.as_slice() {
        [] => sources(relay, size, settings.role),
        named => named.to_vec(),
    };
    Room::here().check(size, settings.role, sources.len(), has_relay).map_err(SetupError::Unfit)?;
    Ok(sources)
}

/// Starts a relay, and makes an issuer of grants that it accepts.
async fn started(settings: &Settings, limits: RelayLimits) -> Result<(Grants, Relay), String> {
    let key = mint::draw_key(KEY_NAME).map_err(|err| err.to_string())?;
    let (keyset, aud, iss) = (key.keyset_text(), settings.aud.clone(), settings.iss.clone());
    let starting = tokio::task::spawn_blocking(move || Relay::start(&keyset, &aud, &iss, &limits));
    let relay = starting.await.map_err(|err| err.to_string())??;
    let minting = mint::minting(&relay.url().to_string(), &settings.aud, &settings.iss, settings.suite.0);
    let issuer = minting.and_then(|minting| mint::issuer(key, minting));
    Ok((Grants::minted(issuer.map_err(|err| err.to_string())?), relay))
}

/// Returns the grants for a relay that runs already. `lasting` is the validity of grants that are written to a file.
fn grants(settings: &Settings, lasting: Option<Duration>) -> Result<Grants, String> {
    let read = |path: &std::path::Path| {
        read_bounded(path, SECRET_LEN_MAX).map(zeroize::Zeroizing::new).map_err(|err| err.to_string())
    };
    match &settings.origin {
        Origin::Url { url, key } => {
            let key = mint::parse_key(read(key)?.as_bytes()).map_err(|err| format!("--issuer-key: {}", err.text))?;
            let minting = mint::minting(&url.to_string(), &settings.aud, &settings.iss, settings.suite.0);
            let mut minting = minting.map_err(|err| err.to_string())?;
            if let Some(time) = lasting {
                let seconds = u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
                (minting.token_ttl_s, minting.init_window_s) = (seconds, seconds);
            }
            Ok(Grants::minted(mint::issuer(key, minting).map_err(|err| err.to_string())?))
        }
        Origin::Control { url, token } => {
            let token = token.as_ref().map(|file| read(file)).transpose()?;
            let token = token.map(|token| token.trim().to_owned());
            Ok(Grants::control(url.clone(), token, settings.conn_timeout))
        }
        Origin::File(file) => Grants::read(file).map_err(|err| format!("--grants-in: {err}")),
        Origin::Started(_) => {
            Err("a relay that this command starts has no grants yet: give --relay or --control".into())
        }
    }
}

/// Processes that are sampled during the run.
struct Watches {
    generator: Watch,
    relay: Option<Watch>,
    /// True after threads and descriptors were counted with all channels open.
    is_counted: bool,
}

impl Watches {
    fn start(relay: Option<u32>) -> std::io::Result<Self> {
        Ok(Watches {
            generator: Watch::start(std::process::id())?,
            relay: relay.map(Watch::start).transpose()?,
            is_counted: false,
        })
    }

    fn look(&mut self, tally: &Tally) {
        let at = tally.standing();
        // Closing the channels is not measured.
        if at.is_over {
            return;
        }
        let is_steady = at.is_steady;
        if is_steady && !std::mem::replace(&mut self.is_counted, true) {
            self.count();
        }
        self.generator.look(is_steady);
        if let Some(relay) = &mut self.relay {
            relay.look(is_steady);
        }
    }

    fn count(&mut self) {
        self.generator.count();
        if let Some(relay) = &mut self.relay {
            relay.count();
        }
    }
}

fn progress(tally: &Tally, watches: &Watches, size: &Size, begun: Instant) -> String {
    use crate::report::units::bytes;
    let at = tally.standing();
    let relay = watches
        .relay
        .as_ref()
        .map_or(String::new(), |relay| format!(", relay {}", bytes(relay.cost().rss_max_bytes as f64)));
    format!(
        "sealway load: {:>4} s  {} of {} channels started, {} failed, {} open{}; generator {}{relay}",
        begun.elapsed().as_secs(),
        at.attempted,
        size.channels,
        at.failed,
        at.active,
        if at.is_steady { ", idle" } else { "" },
        bytes(watches.generator.cost().rss_max_bytes as f64),
    )
}
