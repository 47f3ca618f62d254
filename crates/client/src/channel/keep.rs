//! Channels for as long as a program runs: an end that listens and gets one channel a peer, and an end that has one channel
//! and makes another when it ends.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore, mpsc};

use super::dial::{Instance, attach};
use super::error::{Error, Stage};
use super::forward;
use super::grants::Grants;
use super::reconnect::{Attempts, Backoff};
use super::{Channel, Options};

/// Channels of a listener at once: the next peer waits at the control plane.
const CHANNELS_MAX: usize = 256;
/// Local connections that are carried at once: the next one waits in the backlog.
const CONNECTIONS_MAX: usize = 1024;
/// How long an end that connects waits for a listener that has a grant: it may have died since it asked for it.
const PEER_TIME: Duration = Duration::from_secs(15);

/// An end that listens: each peer that comes has a channel of its own.
#[derive(Debug)]
pub struct Listener {
    grants: Grants,
    options: Options,
    me: Instance,
    attempts: Attempts,
}

impl Listener {
    /// Nothing is done before [`Listener::accept`].
    ///
    /// # Errors
    /// Where the crypto module has no randomness.
    pub fn new(grants: Grants, options: Options, backoff: Backoff) -> Result<Self, Error> {
        Ok(Listener { grants, options, me: Instance::draw()?, attempts: Attempts::new(backoff) })
    }

    /// Waits for the next peer, and makes another attempt whenever one fails. `failed` hears of failures, and of the longest
    /// wait before the next attempt.
    ///
    /// # Errors
    /// What does not pass by itself: a token that is not taken, an address that is none.
    pub async fn accept(&mut self, mut failed: impl FnMut(&Error, Duration)) -> Result<Channel, Error> {
        let (grants, options, me) = (&self.grants, &self.options, &self.me);
        let once = || async move { attach(&grants.next().await?, me, options, |_| ()).await };
        let taken = self.attempts.until_one_succeeds(once, |err, wait| {
            if !is_rest(err) {
                failed(err, wait);
            }
        });
        let channel = taken.await?;
        // The next peer is another one: it must not wait because this one came just now.
        self.attempts.served();
        Ok(channel)
    }
}

/// Whether nobody came for as long as a grant lasts: that is how a listener spends its time.
fn is_rest(err: &Error) -> bool {
    err.stage == Stage::Attach && err.code == "init_expired"
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
        let once = || async move { attach(&grants.next().await?, me, options, |_| ()).await };
        let channel = Arc::new(state.attempts.until_one_succeeds(once, failed).await?);
        state.channel = Some(channel.clone());
        Ok(channel)
    }

    /// Carries one local connection over the channel, or over the next one where it ends before a stream is open.
    ///
    /// # Errors
    /// Why the connection broke off.
    pub async fn carry(&self, local: TcpStream, failed: impl Fn(&Error, Duration)) -> Result<(), Error> {
        loop {
            let channel = self.channel(&failed).await?;
            match forward::open(&channel).await {
                Ok(stream) => return forward::carry(local, stream).await,
                // It ended between the two: nothing of the connection was lost.
                Err(_) if channel.is_over() => {}
                Err(err) => return Err(err),
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
