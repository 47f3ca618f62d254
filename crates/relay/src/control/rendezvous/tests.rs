//! Tests of meetings under names: who gets which grant, and the bounds.

use futures_util::FutureExt;

use super::super::tests::issuer;
use super::*;

#[tokio::test(start_paused = true)]
async fn a_client_gets_the_other_end_of_the_newest_listener_once() {
    let (issuer, meeting) = (issuer(), Rendezvous::new(None));
    let _older = meeting.listen("db", None, &issuer, 100).unwrap();
    let newer = meeting.listen("db", None, &issuer, 110).unwrap();
    let taken = meeting.connect("db", None, &issuer, || 120).await.unwrap();
    assert_eq!((&taken.channel_id, taken.init_exp_s, &taken.psk), (&newer.channel_id, newer.init_exp_s, &newer.psk));
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
