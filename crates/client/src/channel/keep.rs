//! Channels for as long as a program runs: an end that listens and gets one channel a peer, and an end that has one channel
//! and makes another when it ends.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use sealway_proto::relay::Grant;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio::task::JoinSet;

use super::dial::Instance;
use super::error::{Error, Stage};
use super::forward;
use super::grants::Grants;
use super::reconnect::{Attempts, Backoff};
use super::{Channel, Options, Stream};

/// Channels of a listener at once: the next peer waits at the control plane.
const CHANNELS_MAX: usize = 256;
/// Local connections that are carried at once: the next one waits in the backlog.
const CONNECTIONS_MAX: usize = 1024;
/// How long an end waits for the first word of its peer. Both are given their grants at the same time: one that says nothing for so
/// long is not there.
const PEER_TIME: Duration = Duration::from_secs(5);
/// Peers of a listener that have a grant and are not there yet: clients beyond wait at the control plane.
const SHAKING_MAX: usize = 64;

/// An end that listens: each peer that comes has a channel of its own. It goes on waiting at the control plane while it shakes hands
/// with peers, so that one that says nothing holds up no other.
pub struct Listener {
    grants: Arc<Grants>,
    options: Arc<Options>,
    me: Instance,
    attempts: Attempts,
    /// The next grant, once a client asks for its counterpart.
    asking: Option<Asking>,
    shaking: JoinSet<Result<Channel, Error>>,
}

type Asking = Pin<Box<dyn Future<Output = Result<Grant, Error>> + Send>>;

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Listener({:?}, {} shaking hands)", self.grants, self.shaking.len())
    }
}

impl Listener {
    /// Nothing is done before [`Listener::accept`].
    ///
    /// # Errors
    /// Where the crypto module has no randomness.
    pub fn new(grants: Grants, mut options: Options, backoff: Backoff) -> Result<Self, Error> {
        options.peer_timeout.get_or_insert(PEER_TIME);
        Ok(Listener {
            grants: Arc::new(grants),
            options: Arc::new(options),
            me: Instance::draw()?,
            attempts: Attempts::new(backoff),
            asking: None,
            shaking: JoinSet::new(),
        })
    }

    /// Waits for the next peer, and makes another attempt whenever one fails. `failed` hears of failures, and of the longest
    /// wait before the next attempt.
    ///
    /// # Errors
    /// What does not pass by itself: a token that is not taken, an address that is none.
    pub async fn accept(&mut self, mut failed: impl FnMut(&Error, Duration)) -> Result<Channel, Error> {
        loop {
            // A grant of a file is there at once, and works once.
            let shaking_max = if matches!(*self.grants, Grants::File(_)) { 1 } else { SHAKING_MAX };
            if self.asking.is_none() && self.shaking.len() < shaking_max {
                self.asking = Some(ask(self.grants.clone(), Duration::ZERO));
            }
            let asking = async {
                match &mut self.asking {
                    Some(asking) => asking.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(shaken) = self.shaking.join_next() => match shaken {
                    Ok(Ok(channel)) => {
                        self.attempts.served();
                        return Ok(channel);
                    }
                    Ok(Err(err)) if !err.is_passing() => return Err(err),
                    Ok(Err(err)) if !is_absence(&err) => {
                        // Where the next grant is waited for already, a client decides when the next attempt comes.
                        let bound = if self.asking.is_none() { self.ask_later() } else { Duration::ZERO };
                        failed(&err, bound);
                    }
                    Ok(Err(_)) | Err(_) => {}
                },
                asked = asking => match asked {
                    Ok(grant) => {
                        self.asking = None;
                        let (grants, me, options) = (self.grants.clone(), self.me.clone(), self.options.clone());
                        self.shaking.spawn(async move { grants.attach_with(grant, &me, &options).await });
                    }
                    Err(err) if err.is_passing() => {
                        let bound = self.ask_later();
                        failed(&err, bound);
                    }
                    Err(err) => {
                        self.asking = None;
                        return Err(err);
                    }
                },
            }
        }
    }
}

impl Listener {
    /// Asks for the next grant after a wait, and returns the wait's bound.
    fn ask_later(&mut self) -> Duration {
        let (wait, bound) = self.attempts.failed();
        self.asking = Some(ask(self.grants.clone(), wait));
        bound
    }
}

/// The next grant, after a wait.
fn ask(grants: Arc<Grants>, wait: Duration) -> Asking {
    Box::pin(async move {
        tokio::time::sleep(wait).await;
        grants.next().await
    })
}

/// Whether a peer that was given a grant did not use it: the next one may, and nobody can do anything about it here.
fn is_absence(err: &Error) -> bool {
    match err.stage {
        Stage::Attach => matches!(err.code.as_ref(), "init_expired" | "idle_timeout"),
        Stage::Handshake => err.code == "timeout",
        _ => false,
    }
}

/// An end that connects: one channel at a time, made when it is first needed and again after it has ended.
#[derive(Debug)]
pub struct Connector {
    grants: Grants,
    options: Options,
    me: Instance,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    channel: Option<Arc<Channel>>,
    attempts: Attempts,
}

impl Connector {
    /// Nothing is done before [`Connector::channel`].
    ///
    /// # Errors
    /// Where the crypto module has no randomness.
    pub fn new(grants: Grants, mut options: Options, backoff: Backoff) -> Result<Self, Error> {
        options.peer_timeout.get_or_insert(PEER_TIME);
        let state = State { channel: None, attempts: Attempts::new(backoff) };
        Ok(Connector { grants, options, me: Instance::draw()?, state: Mutex::new(state) })
    }

    /// The channel, or another one where it has ended. Those who ask at the same time wait for the same attempts.
    ///
    /// # Errors
    /// As [`Listener::accept`].
    pub async fn channel(&self, failed: impl FnMut(&Error, Duration)) -> Result<Arc<Channel>, Error> {
        let mut state = self.state.lock().await;
        if let Some(channel) = state.channel.as_ref().filter(|channel| !channel.is_over()) {
            return Ok(channel.clone());
        }
        let (grants, options, me) = (&self.grants, &self.options, &self.me);
        let once = || grants.attach(me, options);
        let channel = Arc::new(state.attempts.until_one_succeeds(once, failed).await?);
        state.channel = Some(channel.clone());
        Ok(channel)
    }

    /// Carries one local connection over the channel, or over the next one where it ends before a stream is open.
    ///
    /// # Errors
    /// Why the connection broke off.
    pub async fn carry(&self, local: TcpStream, failed: impl Fn(&Error, Duration)) -> Result<(), Error> {
        match self.stream(&failed).await {
            Ok(stream) => forward::carry(local, stream).await,
            Err(err) => {
                forward::reset(local);
                Err(err)
            }
        }
    }

    async fn stream(&self, failed: &impl Fn(&Error, Duration)) -> Result<Stream, Error> {
        loop {
            let channel = self.channel(failed).await?;
            match forward::open(&channel).await {
                // It ended between the two: nothing of the connection was lost.
                Err(_) if channel.is_over() => {}
                opened => return opened,
            }
        }
    }
}

/// What happens while connections are forwarded, for a log.
#[derive(Clone, Debug)]
pub enum Happened {
    /// A peer is there.
    Paired,
    /// A channel is over, and why.
    Ended(Error),
    /// An attempt to make a channel failed; the next one comes within this time.
    Retrying(Error, Duration),
    /// A connection did not come about, or broke off.
    Broken(Error),
}

/// Takes what peers forward to a target, each peer over a channel of its own, until a failure does not pass by itself.
pub async fn serve(
    mut listener: Listener,
    target: forward::Target,
    told: impl Fn(Happened) + Clone + Send + Sync + 'static,
) -> Error {
    let places = Arc::new(Semaphore::new(CHANNELS_MAX));
    loop {
        let place = places.clone().acquire_owned().await;
        let channel = match listener.accept(|err, wait| told(Happened::Retrying(err.clone(), wait))).await {
            Ok(channel) => channel,
            Err(err) => return err,
        };
        told(Happened::Paired);
        let (target, told) = (target.clone(), told.clone());
        tokio::spawn(async move {
            let broken = told.clone();
            let ended = forward::serve(&channel, &target, move |err| broken(Happened::Broken(err.clone()))).await;
            told(Happened::Ended(ended));
            drop(place);
        });
    }
}

/// Carries connections to a local port over the channel of a connector, until a failure does not pass by itself.
pub async fn forward(
    connector: Connector,
    local: TcpListener,
    told: impl Fn(Happened) + Clone + Send + Sync + 'static,
) -> Error {
    let (connector, places) = (Arc::new(connector), Arc::new(Semaphore::new(CONNECTIONS_MAX)));
    let (gave_up, mut given_up) = mpsc::channel(1);
    loop {
        let place = places.clone().acquire_owned().await;
        let accepted = tokio::select! {
            accepted = local.accept() => accepted,
            Some(err) = given_up.recv() => return err,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(err) => {
                told(Happened::Broken(Error::new(Stage::Listen, "accept_failed", format!("cannot accept: {err}"))));
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (connector, told, gave_up) = (connector.clone(), told.clone(), gave_up.clone());
        tokio::spawn(async move {
            let retrying = |err: &Error, wait| told(Happened::Retrying(err.clone(), wait));
            if let Err(err) = connector.carry(stream, retrying).await {
                if err.is_passing() {
                    told(Happened::Broken(err));
                } else {
                    let _ = gave_up.try_send(err);
                }
            }
            drop(place);
        });
    }
}

/// How long it is waited where the system is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
