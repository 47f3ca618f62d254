//! Channels over a relay: one request of a run makes one channel, from both ends or from one, and keeps it until the run
//! ends.
//!
//! This module knows neither the relay's implementation nor the channel's wire format.

mod end;

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use sealway_client::channel::rpc::Rpc;
use sealway_client::channel::{self, Connecting, Grant, Instance, Liveness, Options, Step};
use tokio::sync::Notify;

use super::Sample;
use super::connect::Opener;
use crate::channel::{ChannelFailure, FailureStage, TimedStage};
use crate::engine::StartError;
use crate::plan::{ChannelMode, ChannelRole, Channels, Plan};
use crate::record::{Failure, GaugeGuard};

/// Time that the other end has to give a reason if this end only knows that the connection is gone.
const SECOND_OPINION: Duration = Duration::from_millis(200);
/// Interval at which [`ChannelLines::hold`] checks whether open channels may be closed.
const LOOK: Duration = Duration::from_millis(20);
/// Maximum time to close all channels of one thread.
const GOODBYE_MAX: Duration = Duration::from_secs(5);
/// Stands for "never": one year.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Channels that one thread makes and holds.
pub(crate) struct ChannelLines {
    channels: Channels,
    connect: Duration,
    me: Instance,
    held: RefCell<Vec<OpenEnd>>,
    threads: usize,
}

/// One end of a channel that stays open.
struct OpenEnd {
    channel: channel::Channel,
    _rpc: Option<Rpc>,
    _open: GaugeGuard,
}

/// Worker's handle that makes channels one after the other.
pub(crate) struct Channel {
    lines: Rc<ChannelLines>,
    opener: Rc<Opener>,
}

/// Times at which one end reached each step.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    begun: Option<Instant>,
    open: Option<Instant>,
    attached: Option<Instant>,
    heard: Option<Instant>,
    secured: Option<Instant>,
}

impl Marks {
    fn now(marks: &Cell<Marks>, step: Step) {
        let mut all = marks.get();
        let place = match step {
            Step::Open => &mut all.open,
            Step::Attached => &mut all.attached,
            Step::Heard => &mut all.heard,
            Step::Secured => &mut all.secured,
        };
        *place = Some(Instant::now());
        marks.set(all);
    }
}

/// Ends of an established channel, and the duration of each step.
type NewChannel = (Vec<OpenEnd>, Vec<(TimedStage, Duration)>);

impl ChannelLines {
    /// Creates the channels of one of the plan's threads; `None` if the plan has no channels.
    pub(super) fn new(plan: &Plan) -> Result<Option<Rc<Self>>, StartError> {
        let Some(channels) = plan.target.channels.clone() else { return Ok(None) };
        let me = Instance::draw().map_err(|err| StartError::Target(err.to_string()))?;
        let (connect, threads) = (plan.timeouts.connect, plan.threads);
        Ok(Some(Rc::new(ChannelLines { channels, connect, me, held: RefCell::default(), threads })))
    }

    /// Returns a handle for one worker.
    pub(super) fn place(self: &Rc<Self>, opener: &Rc<Opener>) -> Channel {
        Channel { lines: self.clone(), opener: opener.clone() }
    }

    /// Keeps the channels open until all threads are ready and the steady time is over, or the run is stopped. Channels that
    /// ended before then count as lost.
    pub(crate) async fn hold(&self, is_stopped: impl Fn() -> bool) {
        let tally = &self.channels.tally;
        tally.is_ready(self.threads);
        while !is_stopped() && !tally.was_ready_for(self.channels.steady) {
            tokio::time::sleep(LOOK).await;
        }
        tally.ends();
        let held = self.held.take();
        let ends = self.channels.role.ends() as usize;
        for ends in held.chunks(ends) {
            if let Some(lost) = ends.iter().find(|end| end.channel.is_over()) {
                let why = lost.channel.over().await;
                if self.is_left(&why.code) {
                    tally.is_left();
                } else {
                    tally.fails(&ChannelFailure::of(FailureStage::Steady, &why));
                }
            }
            tally.leaves();
        }
        // One end closes the channel; the other end learns of it through the relay.
        let goodbyes = held.iter().step_by(ends).map(|end| end.channel.close(1000, "the run is over"));
        let _ = tokio::time::timeout(GOODBYE_MAX, futures_util::future::join_all(goodbyes)).await;
    }

    /// Returns whether the channel ended because its remote end did: a v1 relay then ends it without a reason.
    fn is_left(&self, code: &str) -> bool {
        self.channels.role != ChannelRole::Both && matches!(code, "ended" | "closed" | "connection_lost")
    }

    fn options(&self, peer_timeout: Duration) -> Options {
        let liveness = match self.channels.ping_every {
            Some(every) => Liveness { ping_every: every, silent_max: (every * 3).max(Liveness::default().silent_max) },
            None => Liveness { ping_every: NEVER, silent_max: NEVER },
        };
        Options {
            connecting: Connecting { timeout: self.connect, ..Connecting::default() },
            handshake_timeout: self.connect,
            peer_timeout: Some(peer_timeout),
            liveness,
            ..Options::default()
        }
    }

    /// Maximum time from an end's start to the end of its handshake.
    fn patience(&self, is_here_alone: bool) -> Duration {
        if is_here_alone { self.connect + self.channels.peer_timeout } else { self.connect }
    }
}

impl Channel {
    /// Makes one channel and keeps it open.
    ///
    /// # Errors
    /// A failure whose text names the stage that failed. The tally counts the failure too.
    pub(crate) async fn exchange(&self, sample: &mut Sample) -> Result<(), Failure> {
        let channels = &self.lines.channels;
        channels.tally.begins();
        match self.make(sample).await {
            Ok((held, times)) => {
                sample.ended = Some(Instant::now());
                channels.tally.succeeds(&times);
                if !held.is_empty() {
                    channels.tally.stays();
                    self.lines.held.borrow_mut().extend(held);
                }
                Ok(())
            }
            Err(failure) => {
                channels.tally.fails(&failure);
                Err(failure.request_failure())
            }
        }
    }

    async fn make(&self, sample: &mut Sample) -> Result<NewChannel, ChannelFailure> {
        let (client, server) = self.lines.channels.grants.next().await?;
        let mut theirs = Sample::new(sample.due, sample.started);
        let made = match self.lines.channels.role {
            ChannelRole::Both => self.both(&client, &server, sample, &mut theirs).await,
            ChannelRole::Client => self.client(&client, sample, &Cell::default()).await,
            ChannelRole::Server => self
                .server(&server, sample, &Cell::default(), &Notify::new())
                .await
                .map(|held| (vec![held], Vec::new())),
        };
        sample.connections_tried += theirs.connections_tried;
        sample.connections_opened += theirs.connections_opened;
        made
    }

    /// Runs both ends of a channel concurrently.
    async fn both(
        &self,
        client: &Grant,
        server: &Grant,
        ours: &mut Sample,
        theirs: &mut Sample,
    ) -> Result<NewChannel, ChannelFailure> {
        let (marks, heard) = (Cell::default(), Notify::new());
        let at_server = Cell::default();
        let mut server = pin!(self.server(server, theirs, &at_server, &heard));
        let mut client = pin!(self.client(client, ours, &marks));
        let is_attach = self.lines.channels.mode == ChannelMode::Attach;
        tokio::select! {
            // Polled first: in attach mode nothing after this event counts.
            biased;
            () = heard.notified(), if is_attach => Ok((Vec::new(), times(marks.get(), at_server.get().heard))),
            made = &mut client => match made {
                Ok((mut held, times)) => {
                    held.push(server.await?);
                    Ok((held, times))
                }
                Err(failure) if failure.is_vague() => match tokio::time::timeout(SECOND_OPINION, server).await {
                    Ok(Err(other)) if !other.is_vague() => Err(other),
                    _ => Err(failure),
                },
                Err(failure) => Err(failure),
            },
            made = &mut server => match made {
                Ok(end) => {
                    let (mut held, times) = client.await?;
                    held.push(end);
                    Ok((held, times))
                }
                // If neither end knows the reason, the failure is reported as the client saw it.
                Err(failure) if failure.is_vague() => match tokio::time::timeout(SECOND_OPINION, client).await {
                    Ok(Err(other)) => Err(other),
                    _ => Err(failure),
                },
                Err(failure) => Err(failure),
            },
        }
    }

    /// Connects to the relay, attaches, and completes the handshake.
    async fn attach(
        &self,
        grant: &Grant,
        sample: &mut Sample,
        marks: &Cell<Marks>,
        shown: impl Fn(Step),
    ) -> Result<(channel::Channel, GaugeGuard), Attaching> {
        marks.set(Marks { begun: Some(Instant::now()), ..Marks::default() });
        let alone = self.lines.channels.role != ChannelRole::Both;
        let patience = self.lines.patience(alone);
        let attached = tokio::time::timeout(patience, async {
            let opened = self.opener.stream(sample).await.map_err(Attaching::Connecting)?;
            let options = self.lines.options(patience);
            let on_step = |step| {
                Marks::now(marks, step);
                shown(step);
            };
            let made = channel::attach_on(opened.stream, grant, &self.lines.me, &options, on_step).await;
            made.map(|made| (made, opened.open)).map_err(|err| match err.code.as_ref() {
                // The channel's own timeouts equal the enclosing one; on a slow machine they fire first.
                "timeout" => Attaching::Late(patience),
                _ => Attaching::Refused(err),
            })
        });
        attached.await.unwrap_or(Err(Attaching::Late(patience)))
    }
}

/// Reason why an end did not complete its handshake.
enum Attaching {
    Connecting(Failure),
    Refused(channel::Error),
    Late(Duration),
}

/// Returns the durations that the client's end measured; `heard` is the server's time of its first message, if both ends are
/// here.
fn times(marks: Marks, heard: Option<Instant>) -> Vec<(TimedStage, Duration)> {
    let all = [
        (TimedStage::WsOpen, marks.begun, marks.open),
        (TimedStage::AttachSend, marks.open, marks.attached),
        (TimedStage::PairReady, marks.attached, heard.or(marks.heard)),
        (TimedStage::Handshake, marks.attached, marks.secured),
    ];
    let took = |(timed, from, to): (TimedStage, Option<Instant>, Option<Instant>)| {
        Some((timed, to?.saturating_duration_since(from?)))
    };
    all.into_iter().filter_map(took).collect()
}
