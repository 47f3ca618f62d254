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
mod tests {
    use futures_util::FutureExt;

    use super::super::tests::issuer;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_gets_the_other_end_of_the_newest_listener_once() {
        let (issuer, meeting) = (issuer(), Rendezvous::new(None));
        let _older = meeting.listen("db", None, &issuer, 100).unwrap();
        let newer = meeting.listen("db", None, &issuer, 110).unwrap();
        let taken = meeting.connect("db", None, &issuer, || 120).await.unwrap();
        assert_eq!(
            (&taken.channel_id, taken.init_exp_s, &taken.psk),
            (&newer.channel_id, newer.init_exp_s, &newer.psk)
        );
        assert_ne!(taken.role, newer.role);
        let older = meeting.connect("db", None, &issuer, || 120).await.unwrap();
        assert_ne!(older.channel_id, newer.channel_id);
        let none = meeting.connect("db", None, &issuer, || 120).await.unwrap_err();
        assert!(matches!(none, NoGrant::NobodyListens), "{none}");
        assert!(meeting.names.lock().by_name.is_empty(), "nothing is kept of a name that nobody uses");
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_client_is_woken_and_gets_no_expired_grant() {
        let (issuer, meeting) = (Arc::new(issuer()), Arc::new(Rendezvous::new(None)));
        let _over = meeting.listen("db", None, &issuer, 100).unwrap();
        let waits: Vec<_> = (0..3)
            .map(|_| {
                let (issuer, meeting) = (issuer.clone(), meeting.clone());
                tokio::spawn(async move { meeting.connect("db", None, &issuer, || 1000).await })
            })
            .collect();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let made: Vec<_> = (0..3).map(|_| meeting.listen("db", None, &issuer, 1000).unwrap().channel_id).collect();
        for wait in waits {
            let got = wait.await.unwrap().unwrap();
            assert!(made.contains(&got.channel_id), "a grant that was over");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_listener_that_waits_is_called_for_each_client_and_one_that_went_away_for_none() {
        let (issuer, meeting) = (Arc::new(issuer()), Arc::new(Rendezvous::new(None)));
        let wait = |meeting: &Arc<Rendezvous>| {
            let meeting = meeting.clone();
            tokio::spawn(async move { meeting.await_client("db", None, WAIT, 100).await })
        };
        let (gone, first) = (wait(&meeting), wait(&meeting));
        tokio::task::yield_now().await;
        gone.abort();
        let _ = gone.await;
        let second = wait(&meeting);
        tokio::task::yield_now().await;
        for listener in [first, second] {
            let client = meeting.connect("db", None, &issuer, || 100).await.unwrap();
            let server = listener.await.unwrap().unwrap().unwrap();
            assert_eq!((&server.channel_id, &server.psk), (&client.channel_id, &client.psk));
            assert_ne!(server.role, client.role);
        }
        // A client that asks first is served by the next listener.
        let asking = tokio::spawn({
            let (issuer, meeting) = (issuer.clone(), meeting.clone());
            async move { meeting.connect("db", None, &issuer, || 100).await }
        });
        tokio::task::yield_now().await;
        let server = meeting.await_client("db", None, WAIT, 100).await.unwrap().unwrap();
        assert_eq!(asking.await.unwrap().unwrap().channel_id, server.channel_id);
        assert!(meeting.await_client("db", None, WAIT, 100).await.unwrap().is_none(), "nobody asked");
        assert!(meeting.names.lock().by_name.is_empty(), "nothing is kept of a name that nobody uses");
    }

    #[tokio::test]
    async fn listeners_that_wait_under_a_name_are_bounded() {
        let meeting = Arc::new(Rendezvous::new(None));
        let waiting: Vec<_> = (0..WAITING_MAX)
            .map(|_| {
                let meeting = meeting.clone();
                tokio::spawn(async move { meeting.await_client("db", None, WAIT, 0).await })
            })
            .collect();
        while meeting.names.lock().by_name.get("db").is_none_or(|meeting| meeting.listening.len() < WAITING_MAX) {
            tokio::task::yield_now().await;
        }
        assert!(matches!(meeting.await_client("db", None, WAIT, 0).await, Err(NoGrant::TooManyListeners)));
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[test]
    fn names_and_what_waits_under_them_are_bounded() {
        let (issuer, meeting) = (issuer(), Rendezvous::new(None));
        for bad in ["", &"x".repeat(NAME_LEN_MAX + 1)] {
            assert!(matches!(meeting.listen(bad, None, &issuer, 0), Err(NoGrant::NameInvalid)));
        }
        for _ in 0..WAITING_MAX + 5 {
            meeting.listen("db", None, &issuer, 0).unwrap();
        }
        assert_eq!(meeting.names.lock().by_name["db"].waiting.len(), WAITING_MAX);
        meeting.listen("db", None, &issuer, 1_000_000).unwrap();
        assert_eq!(
            meeting.names.lock().by_name["db"].waiting.len(),
            1,
            "what is over is forgotten when the next one listens"
        );
    }

    fn client(address: &str) -> Option<Taker> {
        Some(Taker::Network(address.parse().unwrap()))
    }

    /// Lets a client ask under new names until it is rejected, or has `max`; returns its names and the cause of the rejection.
    fn fill<'a>(meeting: &'a Rendezvous, address: &str, max: usize) -> (Vec<Asking<'a>>, Option<String>) {
        let mut held = Vec::new();
        while held.len() < max {
            match meeting.ask(&format!("{address}/{}", held.len()), client(address), 1) {
                Ok(asking) => held.push(asking),
                Err(err) => return (held, Some(err.to_string())),
            }
        }
        (held, None)
    }

    #[test]
    fn one_client_leaves_names_to_others_and_has_all_that_are_free_while_there_are_many() {
        let meeting = Rendezvous::new(None);
        let (mut greedy, refused) = fill(&meeting, "10.0.0.1", usize::MAX);
        assert_eq!(greedy.len(), 7_500);
        assert_eq!(
            refused.unwrap(),
            "too many names of one client: this one may hold 625 at present; see --max-names-per-client of the control plane"
        );
        assert!(meeting.ask("10.0.0.1/0", client("10.0.0.1"), 1).is_ok(), "a name that is there takes no place");
        let others: Vec<_> = (2..=5).map(|host| fill(&meeting, &format!("10.0.0.{host}"), usize::MAX)).collect();
        assert!(others.iter().all(|(held, _)| held.len() == 625));
        let refused = meeting.ask("one more", client("10.0.0.9"), 1).err().unwrap();
        assert_eq!(refused.to_string(), "all 10000 names are taken");
        greedy.truncate(7_000);
        assert!(meeting.ask("one more", client("10.0.0.9"), 1).is_ok());
        drop((greedy, others));
        assert_eq!(meeting.places.taken(), 0);
    }

    #[test]
    fn a_bound_of_names_per_client_holds_and_grants_that_are_over_make_room() {
        let (issuer, meeting) = (issuer(), Rendezvous::new(Some(2)));
        for name in ["a", "b", "a"] {
            meeting.listen(name, client("10.0.0.1"), &issuer, 100).unwrap();
        }
        let refused = meeting.listen("c", client("10.0.0.1"), &issuer, 100).unwrap_err();
        assert!(matches!(refused, NoGrant::ShareTaken(2)), "{refused}");
        meeting.listen("c", client("10.0.0.2"), &issuer, 100).unwrap();
        meeting.listen("d", client("10.0.0.1"), &issuer, 1_000_000).unwrap();
        let unbounded = Rendezvous::new(Some(0));
        assert_eq!(fill(&unbounded, "10.0.0.1", usize::MAX).0.len(), 10_000);
    }

    #[test]
    fn a_grant_is_kept_until_its_channel_has_to_begin() {
        let (issuer, meeting) = (issuer(), Rendezvous::new(Some(1)));
        let kept = |meeting: &Rendezvous| meeting.names.lock().by_name["a"].waiting.len();
        let over_s = meeting.listen("a", client("10.0.0.1"), &issuer, 100).unwrap().init_exp_s;
        meeting.listen("a", client("10.0.0.1"), &issuer, over_s - 1).unwrap();
        assert_eq!(kept(&meeting), 2);
        meeting.listen("a", client("10.0.0.1"), &issuer, over_s).unwrap();
        assert_eq!(kept(&meeting), 2, "the first is over, and the third is new");
        assert!(meeting.take("a", over_s + 120).is_none(), "the last one is over");
        meeting.listen("a", client("10.0.0.1"), &issuer, 500).unwrap();
        assert!(meeting.take("a", 619).is_some_and(|grant| grant.init_exp_s == 620));
        // A name whose grants are over makes room for another one.
        meeting.listen("a", client("10.0.0.1"), &issuer, 1_000).unwrap();
        meeting.listen("b", client("10.0.0.1"), &issuer, 1_119).unwrap_err();
        meeting.listen("b", client("10.0.0.1"), &issuer, 1_120).unwrap();
    }

    #[tokio::test]
    async fn a_call_wakes_another_client_if_another_listener_waits() {
        let (issuer, meeting) = (issuer(), Rendezvous::new(None));
        let mut listeners = [(); 2].map(|()| Box::pin(meeting.await_client("db", None, WAIT, 100)));
        assert!(listeners.iter_mut().all(|listener| listener.now_or_never().is_none()));
        let came = meeting.names.lock().by_name["db"].came.clone();
        assert!(came.notified().now_or_never().is_some(), "listeners came");
        assert!(meeting.call("db", &issuer, 100).unwrap().is_some());
        assert!(came.notified().now_or_never().is_some(), "one of two listeners is left");
        assert!(meeting.call("db", &issuer, 100).unwrap().is_some());
        assert!(came.notified().now_or_never().is_none(), "no listener is left");
    }
}
