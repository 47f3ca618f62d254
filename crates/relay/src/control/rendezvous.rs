//! Two ends that meet under a name. SPEC relay.md#rendezvous
//!
//! A listener that waits gets its grant when a client asks, so that both grants are for ends that are present: no grant of a
//! listener or a relay that has gone stays behind. A listener that does not wait gets its grant at once, and the counterpart is
//! kept, in memory and for as long as the channel has to begin. This module does not know who may use which name.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sealway_proto::relay::{Grant, Issuer, MintInvalid};
use sealway_runtime::http::share::{Share, SharedBudget, Taker};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

/// Longest name of a meeting, in bytes.
pub(super) const NAME_LEN_MAX: usize = 128;
/// Most names with a listener or a client.
const NAMES_MAX: u64 = 10_000;
/// Most names of one client once three quarters of all are taken, without a configured bound.
const SHARE_WHEN_SCARCE: u64 = NAMES_MAX / 16;
/// Most waiting grants under a name, and most waiting listeners.
const WAITING_MAX: usize = 64;
/// Longest time that a client waits for a listener.
pub(super) const WAIT: Duration = Duration::from_secs(30);

/// The cause for which there is no grant.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoGrant {
    /// No listener used the name during the wait.
    #[error("nobody listens under this name")]
    NobodyListens,
    /// The name is empty or too long.
    #[error("a name has 1 to {NAME_LEN_MAX} bytes")]
    NameInvalid,
    /// All places for names are taken.
    #[error("all {NAMES_MAX} names are taken")]
    TooManyNames,
    /// The client has its share of the names.
    #[error(
        "too many names of one client: this one may hold {0} at present; see --max-names-per-client of the control plane"
    )]
    ShareTaken(u64),
    /// The bound on listeners that wait under the name is reached.
    #[error("{WAITING_MAX} listeners wait under this name")]
    TooManyListeners,
    /// The grant could not be minted.
    #[error(transparent)]
    Mint(#[from] MintInvalid),
}

/// Waiting grants of clients, by name.
#[derive(Debug)]
pub(super) struct Rendezvous {
    names: Mutex<Names>,
    /// Places of names, shared by the clients that created the names.
    places: Arc<SharedBudget>,
    names_per_client_max: Option<u64>,
}

#[derive(Debug, Default)]
struct Names {
    by_name: HashMap<Arc<str>, Meeting>,
    /// Time of the last search for expired grants, in Unix seconds.
    swept_s: i64,
}

#[derive(Debug)]
struct Meeting {
    /// The place of the name, released with it.
    _place: Share,
    /// The newest last: an earlier listener may have gone by now.
    waiting: Vec<Grant>,
    /// Listeners that wait for a client, the one that has waited longest first.
    listening: VecDeque<oneshot::Sender<Grant>>,
    came: Arc<Notify>,
    /// Number of clients that wait for a listener.
    asking: usize,
}

impl Rendezvous {
    /// Creates an empty rendezvous. `names_per_client_max`: most names of one client; 0 for no bound. By default any number
    /// until three quarters of all names are taken; the last quarter is for clients that have less than a sixteenth.
    pub(super) fn new(names_per_client_max: Option<u64>) -> Self {
        Rendezvous { names: Mutex::default(), places: SharedBudget::new(NAMES_MAX), names_per_client_max }
    }

    /// Returns a grant for a listener under a name; the counterpart is kept for a client that connects.
    ///
    /// # Errors
    /// [`NoGrant`].
    pub(super) fn listen(
        &self,
        name: &str,
        client: Option<Taker>,
        issuer: &Issuer,
        now_s: i64,
    ) -> Result<Grant, NoGrant> {
        check(name)?;
        let [for_client, for_server] = issuer.pair(None, now_s)?;
        let mut names = self.names.lock();
        let (_, meeting) = self.enter(&mut names, name, client, now_s)?;
        // A listener asks again and again, and perhaps no client ever connects: expired keys are not kept.
        meeting.waiting.retain(|grant| grant.init_exp_s > now_s);
        if meeting.waiting.len() >= WAITING_MAX {
            // The most recent listener is most likely still there.
            meeting.waiting.remove(0);
        }
        meeting.waiting.push(for_client);
        meeting.came.notify_one();
        Ok(for_server)
    }

    /// Returns a grant for a listener once a client asks for its counterpart; `None` if none does within the wait.
    ///
    /// # Errors
    /// [`NoGrant`].
    pub(super) async fn await_client(
        &self,
        name: &str,
        client: Option<Taker>,
        wait: Duration,
        now_s: i64,
    ) -> Result<Option<Grant>, NoGrant> {
        check(name)?;
        let (grant, granted) = oneshot::channel();
        let waiting = {
            let mut names = self.names.lock();
            let (name, meeting) = self.enter(&mut names, name, client, now_s)?;
            meeting.listening.retain(|listener| !listener.is_closed());
            if meeting.listening.len() >= WAITING_MAX {
                return Err(NoGrant::TooManyListeners);
            }
            meeting.listening.push_back(grant);
            meeting.came.notify_one();
            Listening { of: self, name, granted }
        };
        // A listener that leaves drops this, and is not asked any more.
        waiting.granted(wait).await
    }

    /// Returns a grant whose counterpart goes to the listener that has waited longest, or the newest grant that waits under a
    /// name, with a fresh token. Without either it waits for [`WAIT`]. `now_s` returns the time.
    ///
    /// # Errors
    /// [`NoGrant`].
    pub(super) async fn connect(
        &self,
        name: &str,
        client: Option<Taker>,
        issuer: &Issuer,
        now_s: impl Fn() -> i64,
    ) -> Result<Grant, NoGrant> {
        check(name)?;
        let deadline = Instant::now() + WAIT;
        let asking = self.ask(name, client, now_s())?;
        loop {
            if let Some(grant) = self.call(name, issuer, now_s())? {
                return Ok(grant);
            }
            if let Some(grant) = self.take(name, now_s()) {
                return Ok(issuer.reissue(&grant, now_s())?);
            }
            if timeout_at(deadline, asking.came.notified()).await.is_err() {
                return Err(NoGrant::NobodyListens);
            }
        }
    }

    fn ask(&self, name: &str, client: Option<Taker>, now_s: i64) -> Result<Asking<'_>, NoGrant> {
        let mut names = self.names.lock();
        let (name, meeting) = self.enter(&mut names, name, client, now_s)?;
        meeting.asking += 1;
        Ok(Asking { of: self, name, came: meeting.came.clone() })
    }

    /// Returns the entry of a name; a new name takes a place of the client that creates it.
    fn enter<'a>(
        &self,
        names: &'a mut Names,
        name: &str,
        client: Option<Taker>,
        now_s: i64,
    ) -> Result<(Arc<str>, &'a mut Meeting), NoGrant> {
        let name: Arc<str> = name.into();
        if !names.by_name.contains_key(&name) {
            let place = self.place(client).or_else(|err| {
                // A search for expired grants takes a while, and finds no more in the same second.
                if std::mem::replace(&mut names.swept_s, now_s) == now_s {
                    return Err(err);
                }
                names.by_name.retain(|_, meeting| {
                    meeting.waiting.retain(|grant| grant.init_exp_s > now_s);
                    meeting.is_used()
                });
                self.place(client)
            })?;
            names.by_name.insert(name.clone(), Meeting::new(place));
        }
        let meeting = names.by_name.get_mut(&name).ok_or(NoGrant::TooManyNames)?;
        Ok((name, meeting))
    }

    /// Acquires a place for a client. Called under the lock of the names, so that no other client takes it in between.
    fn place(&self, client: Option<Taker>) -> Result<Share, NoGrant> {
        let taken = self.places.taken();
        let max = match self.names_per_client_max {
            None if taken >= NAMES_MAX - NAMES_MAX / 4 => SHARE_WHEN_SCARCE,
            None | Some(0) => NAMES_MAX,
            Some(max) => max,
        };
        let mut place = self.places.share([client.map(|client| (client, max)), None]);
        match place.grow(1) {
            true => Ok(place),
            false if taken >= NAMES_MAX => Err(NoGrant::TooManyNames),
            false => Err(NoGrant::ShareTaken(max)),
        }
    }

    /// Calls a listener that waits: it gets one end of a new channel, and the other end is returned.
    fn call(&self, name: &str, issuer: &Issuer, now_s: i64) -> Result<Option<Grant>, NoGrant> {
        let mut names = self.names.lock();
        let Some(meeting) = names.by_name.get_mut(name) else { return Ok(None) };
        while let Some(listener) = meeting.listening.pop_front() {
            if listener.is_closed() {
                continue;
            }
            let [client, server] = issuer.pair(None, now_s)?;
            if listener.send(server).is_ok() {
                if !meeting.listening.is_empty() {
                    meeting.came.notify_one();
                }
                return Ok(Some(client));
            }
        }
        Ok(None)
    }

    fn take(&self, name: &str, now_s: i64) -> Option<Grant> {
        let mut names = self.names.lock();
        let meeting = names.by_name.get_mut(name)?;
        meeting.waiting.retain(|grant| grant.init_exp_s > now_s);
        let taken = meeting.waiting.pop();
        if !meeting.waiting.is_empty() {
            // One call wakes one of the waiting listeners; another grant is for another listener.
            meeting.came.notify_one();
        }
        taken
    }
}

/// A listener that waits for a client, for as long as the guard lives.
struct Listening<'a> {
    of: &'a Rendezvous,
    name: Arc<str>,
    granted: oneshot::Receiver<Grant>,
}

impl Listening<'_> {
    async fn granted(mut self, wait: Duration) -> Result<Option<Grant>, NoGrant> {
        match timeout(wait, &mut self.granted).await {
            Ok(granted) => Ok(granted.ok()),
            Err(_) => {
                // A client may have asked at this very moment.
                self.granted.close();
                Ok(self.granted.try_recv().ok())
            }
        }
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.granted.close();
        let mut names = self.of.names.lock();
        if let Some(meeting) = names.by_name.get_mut(&self.name) {
            meeting.listening.retain(|listener| !listener.is_closed());
        }
        forget_if_unused(&mut names, &self.name);
    }
}

/// A client that waits for a listener, for as long as the guard lives.
struct Asking<'a> {
    of: &'a Rendezvous,
    name: Arc<str>,
    came: Arc<Notify>,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut names = self.of.names.lock();
        if let Some(meeting) = names.by_name.get_mut(&self.name) {
            meeting.asking -= 1;
        }
        forget_if_unused(&mut names, &self.name);
    }
}

impl Meeting {
    fn new(place: Share) -> Self {
        Meeting { _place: place, waiting: Vec::new(), listening: VecDeque::new(), came: Arc::default(), asking: 0 }
    }

    fn is_used(&self) -> bool {
        self.asking > 0 || !self.waiting.is_empty() || !self.listening.is_empty()
    }
}

fn forget_if_unused(names: &mut Names, name: &str) {
    if names.by_name.get(name).is_some_and(|meeting| !meeting.is_used()) {
        names.by_name.remove(name);
    }
}

fn check(name: &str) -> Result<(), NoGrant> {
    if (1..=NAME_LEN_MAX).contains(&name.len()) { Ok(()) } else { Err(NoGrant::NameInvalid) }
}

#[cfg(test)]
mod tests;
