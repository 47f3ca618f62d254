//! Long-lived endpoints: a listener with one channel for each peer, and a connector with one channel, replaced after it
//! has ended.

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

/// Concurrent channels of a listener; further peers wait at the control plane.
const CHANNELS_MAX: usize = 256;
/// Concurrent local connections; further ones wait in the backlog.
const CONNECTIONS_MAX: usize = 1024;
/// Longest wait for the peer's first message. The control plane issues both grants at the same time: a peer silent for
/// so long is absent.
const PEER_TIME: Duration = Duration::from_secs(5);
/// Peers of a listener that have a grant and have not finished their handshake; further clients wait at the control
/// plane.
const SHAKING_MAX: usize = 64;

/// A listening endpoint with one channel for each peer. It keeps asking the control plane during handshakes, so that a
/// silent peer does not delay others.
pub struct Listener {
    grants: Arc<Grants>,
    options: Arc<Options>,
    me: Instance,
    attempts: Attempts,
    /// Request for the next grant, which comes once a client asks for its counterpart.
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
    /// Creates a listener; work begins in [`Listener::accept`].
    ///
    /// # Errors
    /// `provider`, if the crypto module has no randomness.
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

    /// Waits for the next peer, and retries after passing failures. `failed` is called with each failure and the
    /// longest wait before the next attempt.
    ///
    /// # Errors
    /// Permanent failures: a token that the control plane rejects, a malformed address.
    pub async fn accept(&mut self, mut failed: impl FnMut(&Error, Duration)) -> Result<Channel, Error> {
        loop {
            // A file's grant is available at once, and works once.
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
                        // If a request for a grant is already under way, a client decides the time of the next attempt.
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
    /// Requests the next grant after a wait, and returns the wait's bound.
    fn ask_later(&mut self) -> Duration {
        let (wait, bound) = self.attempts.failed();
        self.asking = Some(ask(self.grants.clone(), wait));
        bound
    }
}

/// Requests the next grant after a wait.
fn ask(grants: Arc<Grants>, wait: Duration) -> Asking {
    Box::pin(async move {
        tokio::time::sleep(wait).await;
        grants.next().await
    })
}

/// True if a peer did not use its grant: the next one may, and this side can do nothing about it.
fn is_absence(err: &Error) -> bool {
    match err.stage {
        Stage::Attach => matches!(err.code.as_ref(), "init_expired" | "idle_timeout"),
        Stage::Handshake => err.code == "timeout",
        _ => false,
    }
}

/// A connecting endpoint: one channel at a time, opened on first need and again after it has ended.
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
    /// Creates a connector; work begins in [`Connector::channel`].
    ///
    /// # Errors
    /// `provider`, if the crypto module has no randomness.
    pub fn new(grants: Grants, mut options: Options, backoff: Backoff) -> Result<Self, Error> {
        options.peer_timeout.get_or_insert(PEER_TIME);
        let state = State { channel: None, attempts: Attempts::new(backoff) };
        Ok(Connector { grants, options, me: Instance::draw()?, state: Mutex::new(state) })
    }

    /// Returns the open channel, or opens another one. Concurrent callers share the same attempts.
    ///
    /// # Errors
    /// Those of [`Listener::accept`].
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

    /// Carries one local connection over the channel, or over the next one if it ends before a stream is open.
    ///
    /// # Errors
    /// The reason why the connection broke off.
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
                // The channel ended before the stream was open: no byte of the connection was lost.
                Err(_) if channel.is_over() => {}
                opened => return opened,
            }
        }
    }
}

/// Events of forwarding, for a log.
#[derive(Clone, Debug)]
pub enum Event {
    /// A peer has connected over a new channel.
    Paired,
    /// A channel is over for this reason.
    Ended(Error),
    /// An attempt to open a channel failed; the next one follows within this time.
    Retrying(Error, Duration),
    /// A connection could not be opened, or broke off.
    Broken(Error),
}

/// Forwards peers' streams to a target, each peer over its own channel, until a failure is permanent.
pub async fn serve(
    mut listener: Listener,
    target: forward::Target,
    told: impl Fn(Event) + Clone + Send + Sync + 'static,
) -> Error {
    let places = Arc::new(Semaphore::new(CHANNELS_MAX));
    loop {
        let place = places.clone().acquire_owned().await;
        let channel = match listener.accept(|err, wait| told(Event::Retrying(err.clone(), wait))).await {
            Ok(channel) => channel,
            Err(err) => return err,
        };
        told(Event::Paired);
        let (target, told) = (target.clone(), told.clone());
        tokio::spawn(async move {
            let broken = told.clone();
            let ended = forward::serve(&channel, &target, move |err| broken(Event::Broken(err.clone()))).await;
            told(Event::Ended(ended));
            drop(place);
        });
    }
}

/// Carries connections to a local port over the channel of a connector, until a failure is permanent.
pub async fn forward(
    connector: Connector,
    local: TcpListener,
    told: impl Fn(Event) + Clone + Send + Sync + 'static,
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
                told(Event::Broken(Error::new(Stage::Listen, "accept_failed", format!("cannot accept: {err}"))));
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (connector, told, gave_up) = (connector.clone(), told.clone(), gave_up.clone());
        tokio::spawn(async move {
            let retrying = |err: &Error, wait| told(Event::Retrying(err.clone(), wait));
            if let Err(err) = connector.carry(stream, retrying).await {
                if err.is_passing() {
                    told(Event::Broken(err));
                } else {
                    let _ = gave_up.try_send(err);
                }
            }
            drop(place);
        });
    }
}

/// Pause after a failed accept, as when the system is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
