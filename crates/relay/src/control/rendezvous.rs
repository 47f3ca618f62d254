//! Two ends that meet under a name: who listens gets one grant of a new channel, and the other one waits for whoever connects.
//! SPEC relay.md#rendezvous
//!
//! Both ends of a channel need grants that were made together, so the control plane keeps the second one, in memory and for
//! as long as the channel has to begin. It may not know who may use which name.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sealway_proto::relay::{Grant, Issuer, MintInvalid};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// Longest name, in bytes.
pub(super) const NAME_LEN_MAX: usize = 128;
/// Names under which somebody listens or is asked for.
const NAMES_MAX: usize = 10_000;
/// Grants that wait under a name.
const WAITING_MAX: usize = 64;
/// How long somebody who connects waits for a listener.
pub(super) const WAIT: Duration = Duration::from_secs(30);

/// Why there is no grant.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoGrant {
    /// Nobody listened under the name for as long as it was waited.
    #[error("nobody listens under this name")]
    NobodyListens,
    /// The name is empty or too long.
    #[error("a name has 1 to {NAME_LEN_MAX} bytes")]
    NameInvalid,
    /// More names, or more grants of one, than are kept.
    #[error("too many wait")]
    TooMany,
    /// It could not be made.
    #[error(transparent)]
    Mint(#[from] MintInvalid),
}

/// Grants of clients that wait for them, by name.
#[derive(Debug, Default)]
pub(super) struct Rendezvous(Mutex<HashMap<Arc<str>, Meeting>>);

#[derive(Debug, Default)]
struct Meeting {
    /// The newest last: whoever listened before may be gone by now.
    waiting: Vec<Grant>,
    came: Arc<Notify>,
    /// Those who wait for a listener.
    asking: usize,
}

impl Rendezvous {
    /// A grant for whoever listens under a name; its counterpart is kept for whoever connects.
    ///
    /// # Errors
    /// [`NoGrant`].
    pub(super) fn listen(&self, name: &str, issuer: &Issuer, now_s: i64) -> Result<Grant, NoGrant> {
        check(name)?;
        let [client, server] = issuer.pair(None, now_s)?;
        let mut names = self.0.lock();
        make_room(&mut names, name, now_s)?;
        let meeting = names.entry(name.into()).or_default();
        // Whoever listens asks again and again, and perhaps nobody ever connects: keys that are over are not kept.
        meeting.waiting.retain(|grant| grant.init_exp_s > now_s);
        if meeting.waiting.len() >= WAITING_MAX {
            // Whoever listens most recently is surely there.
            meeting.waiting.remove(0);
        }
        meeting.waiting.push(client);
        meeting.came.notify_one();
        Ok(server)
    }

    /// The newest grant that waits under a name, with a fresh token. Where there is none it waits for [`WAIT`]. `now_s` tells
    /// the time.
    ///
    /// # Errors
    /// [`NoGrant`].
    pub(super) async fn connect(&self, name: &str, issuer: &Issuer, now_s: impl Fn() -> i64) -> Result<Grant, NoGrant> {
        check(name)?;
        let deadline = Instant::now() + WAIT;
        let asking = self.ask(name, now_s())?;
        loop {
            if let Some(grant) = self.take(name, now_s()) {
                return Ok(issuer.reissue(&grant, now_s())?);
            }
            if timeout_at(deadline, asking.came.notified()).await.is_err() {
                return Err(NoGrant::NobodyListens);
            }
        }
    }

    fn ask(&self, name: &str, now_s: i64) -> Result<Asking<'_>, NoGrant> {
        let mut names = self.0.lock();
        make_room(&mut names, name, now_s)?;
        let name: Arc<str> = name.into();
        let meeting = names.entry(name.clone()).or_default();
        meeting.asking += 1;
        Ok(Asking { of: self, name, came: meeting.came.clone() })
    }

    fn take(&self, name: &str, now_s: i64) -> Option<Grant> {
        let mut names = self.0.lock();
        let meeting = names.get_mut(name)?;
        meeting.waiting.retain(|grant| grant.init_exp_s > now_s);
        let taken = meeting.waiting.pop();
        if !meeting.waiting.is_empty() {
            // One call wakes one of those who wait; another grant is another's.
            meeting.came.notify_one();
        }
        taken
    }
}

/// Somebody who waits for a listener, for as long as it lives.
struct Asking<'a> {
    of: &'a Rendezvous,
    name: Arc<str>,
    came: Arc<Notify>,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut names = self.of.0.lock();
        if let Some(meeting) = names.get_mut(&self.name) {
            meeting.asking -= 1;
            if meeting.asking == 0 && meeting.waiting.is_empty() {
                names.remove(&self.name);
            }
        }
    }
}

fn check(name: &str) -> Result<(), NoGrant> {
    if (1..=NAME_LEN_MAX).contains(&name.len()) { Ok(()) } else { Err(NoGrant::NameInvalid) }
}

/// Forgets what is over, where a new name would be one too many.
fn make_room(names: &mut HashMap<Arc<str>, Meeting>, name: &str, now_s: i64) -> Result<(), NoGrant> {
    if names.len() < NAMES_MAX || names.contains_key(name) {
        return Ok(());
    }
    names.retain(|_, meeting| {
        meeting.waiting.retain(|grant| grant.init_exp_s > now_s);
        meeting.asking > 0 || !meeting.waiting.is_empty()
    });
    if names.len() < NAMES_MAX { Ok(()) } else { Err(NoGrant::TooMany) }
}

#[cfg(test)]
mod tests {
    use sealway_proto::crypto::default_provider;
    use sealway_proto::crypto::signature::default_signatures;
    use sealway_proto::relay::{IssuerKey, Minting};

    use super::*;

    fn issuer() -> Issuer {
        let key = IssuerKey::from_seed("k1", &[1; 32], default_signatures()).unwrap();
        Issuer::new(key, Minting::native("ws://relay/ws", "a", ""), default_provider()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_connects_gets_the_other_end_of_the_newest_listener_once() {
        let (issuer, meeting) = (issuer(), Rendezvous::default());
        let _older = meeting.listen("db", &issuer, 100).unwrap();
        let newer = meeting.listen("db", &issuer, 110).unwrap();
        let taken = meeting.connect("db", &issuer, || 120).await.unwrap();
        assert_eq!(
            (&taken.channel_id, taken.init_exp_s, &taken.psk),
            (&newer.channel_id, newer.init_exp_s, &newer.psk)
        );
        assert_ne!(taken.role, newer.role);
        let older = meeting.connect("db", &issuer, || 120).await.unwrap();
        assert_ne!(older.channel_id, newer.channel_id);
        let none = meeting.connect("db", &issuer, || 120).await.unwrap_err();
        assert!(matches!(none, NoGrant::NobodyListens), "{none}");
        assert!(meeting.0.lock().is_empty(), "nothing is kept of a name that nobody uses");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_is_woken_and_what_is_over_is_not_given() {
        let (issuer, meeting) = (Arc::new(issuer()), Arc::new(Rendezvous::default()));
        let _over = meeting.listen("db", &issuer, 100).unwrap();
        let waits: Vec<_> = (0..3)
            .map(|_| {
                let (issuer, meeting) = (issuer.clone(), meeting.clone());
                tokio::spawn(async move { meeting.connect("db", &issuer, || 1000).await })
            })
            .collect();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let made: Vec<_> = (0..3).map(|_| meeting.listen("db", &issuer, 1000).unwrap().channel_id).collect();
        for wait in waits {
            let got = wait.await.unwrap().unwrap();
            assert!(made.contains(&got.channel_id), "a grant that was over");
        }
    }

    #[test]
    fn names_and_what_waits_under_them_are_bounded() {
        let (issuer, meeting) = (issuer(), Rendezvous::default());
        for bad in ["", &"x".repeat(NAME_LEN_MAX + 1)] {
            assert!(matches!(meeting.listen(bad, &issuer, 0), Err(NoGrant::NameInvalid)));
        }
        for _ in 0..WAITING_MAX + 5 {
            meeting.listen("db", &issuer, 0).unwrap();
        }
        assert_eq!(meeting.0.lock()["db"].waiting.len(), WAITING_MAX);
        meeting.listen("db", &issuer, 1_000_000).unwrap();
        assert_eq!(meeting.0.lock()["db"].waiting.len(), 1, "what is over is forgotten when the next one listens");
    }
}
