//! Properties of errors: stage, code, host, remedy, and if the same request may be sent again. The bound of a whole
//! call.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt;
use sealway_client::{Body, Client, Error, Pin, Stage, Trust};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::ground::{Act, Flowing, Service, call, new_key, pinned, post, trusted};

const TOTAL: Duration = Duration::from_millis(400);

fn told(err: &Error) -> (Stage, &str, bool) {
    assert_eq!(err.remedy().is_empty(), err.code() == "unheard_of", "{err:?}");
    assert_eq!(err.host().is_empty(), err.stage() == Stage::Configuration, "{err:?}");
    (err.stage(), err.code(), err.is_retryable())
}

/// An address at which nothing listens.
async fn closed() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().to_string()
}

/// A client of a service whose calls go to `server` instead.
async fn apart(service: &Arc<Service>, server: &str) -> Client {
    let settings = Client::builder(format!("http://{server}")).authority_url(service.listen().await);
    settings.trust(trusted(service)).build().unwrap()
}

#[tokio::test]
async fn an_error_names_its_stage_its_code_and_its_host() {
    let service = Service::new();
    let unusable = pinned(&service).await.idle_timeout(Duration::ZERO).build().unwrap_err();
    assert_eq!(told(&unusable), (Stage::Configuration, "usage", false));
    let client = pinned(&service).await.build().unwrap();
    let options = call(&client, Method::OPTIONS, "/a", HeaderMap::new(), Body::empty()).await.unwrap_err();
    assert_eq!(told(&options), (Stage::Configuration, "usage", false));
    let other = Trust::Pins(vec![Pin::Key(new_key().public().into())]);
    let stranger = pinned(&service).await.trust(other).connect().await.unwrap_err();
    assert_eq!(told(&stranger), (Stage::Agreement, "key_untrusted", false));

    // Nothing was sent where no connection is.
    let gone = closed().await;
    for (client, stage) in [
        (Client::builder(format!("http://{gone}")).trust(trusted(&service)).build().unwrap(), Stage::Agreement),
        (apart(&service, &gone).await, Stage::Call),
    ] {
        let err = post(&client, "/a", b"x").await.unwrap_err();
        assert_eq!((told(&err), err.host()), ((stage, "unreachable", true), gone.as_str()));
    }
}

#[tokio::test]
async fn only_a_request_that_was_proven_not_served_may_be_sent_again() {
    for (acts, method, wanted) in [
        // Before the request: the reason may pass, or it stays.
        (vec![Act::Problem("store_unavailable")], Method::POST, (Stage::Agreement, "store_unavailable", true)),
        (vec![Act::Problem("rate_limited")], Method::POST, (Stage::Agreement, "rate_limited", true)),
        (vec![Act::Problem("policy")], Method::POST, (Stage::Agreement, "policy", false)),
        (vec![Act::Problem("unheard_of")], Method::POST, (Stage::Agreement, "unheard_of", false)),
        (vec![Act::Stall], Method::POST, (Stage::Agreement, "timeout", true)),
        // Behind it: an unsealed answer proves nothing, nor does silence.
        (vec![Act::Serve, Act::Problem("store_unavailable")], Method::GET, (Stage::Call, "store_unavailable", false)),
        (vec![Act::Serve, Act::Forget], Method::POST, (Stage::Call, "session_expired", false)),
        (vec![Act::Serve, Act::Stall], Method::GET, (Stage::Call, "timeout", false)),
        (vec![Act::Serve, Act::Altered], Method::GET, (Stage::Call, "unsealable", false)),
    ] {
        let service = Service::with(&acts);
        let client = pinned(&service).await.head_timeout(TOTAL).build().unwrap();
        let err = call(&client, method, "/a", HeaderMap::new(), Body::empty()).await.unwrap_err();
        assert_eq!(told(&err), wanted, "{acts:?}: {err}");
    }
    // A safe method was sent twice already, and may be sent a third time.
    let service = Service::with(&[Act::Serve, Act::Forget, Act::Serve, Act::Forget]);
    let client = pinned(&service).await.build().unwrap();
    let err = call(&client, Method::GET, "/a", HeaderMap::new(), Body::empty()).await.unwrap_err();
    assert_eq!(told(&err), (Stage::Call, "session_expired", true));
}

fn late(err: &Error, stage: Stage, since: Instant) {
    assert!(err.code() == "timeout" && err.to_string().ends_with("within 400 ms (total_timeout)"), "{err}");
    assert_eq!((err.stage(), err.is_retryable()), (stage, stage == Stage::Agreement), "{err}");
    assert!((TOTAL..TOTAL * 3).contains(&since.elapsed()), "{err} after {:?}", since.elapsed());
}

#[tokio::test]
async fn one_deadline_bounds_a_whole_call() {
    // The agreement, and the wait for the agreement of another caller.
    let service = Service::with(&[Act::Stall, Act::Stall, Act::Stall]);
    let client = pinned(&service).await.total_timeout(TOTAL).build().unwrap();
    let since = Instant::now();
    let waits = {
        let client = client.clone();
        tokio::spawn(async move { post(&client, "/a", b"x").await.unwrap_err() })
    };
    late(&post(&client, "/a", b"x").await.unwrap_err(), Stage::Agreement, since);
    late(&waits.await.unwrap(), Stage::Agreement, since);

    // The sealed request, with the time that the agreement took.
    let service = Service::with(&[Act::Serve, Act::Stall]);
    let client = pinned(&service).await.total_timeout(TOTAL).build().unwrap();
    let since = Instant::now();
    late(&post(&client, "/a", b"x").await.unwrap_err(), Stage::Call, since);

    // An answer that never pauses; read in parts, or whole.
    for is_whole in [false, true] {
        let (to, from) = mpsc::channel(1);
        let drip = tokio::spawn(async move { while to.send("drip".into()).await.is_ok() {} });
        let since = Instant::now();
        let request = Request::post("/flow").body(Flowing(from)).unwrap();
        let mut body = client.send(request).await.unwrap().into_body();
        let err = loop {
            if is_whole {
                break body.bytes().await.unwrap_err();
            }
            if let Err(err) = body.frame().await.unwrap() {
                break err;
            }
        };
        late(&err, Stage::Call, since);
        drip.await.unwrap();
    }
}

#[tokio::test]
async fn a_call_without_a_deadline_goes_on() {
    let service = Service::new();
    let client = pinned(&service).await.total_timeout(TOTAL).total_timeout(None).build().unwrap();
    let (to, from) = mpsc::channel(1);
    let mut body = client.send(Request::post("/flow").body(Flowing(from)).unwrap()).await.unwrap().into_body();
    tokio::time::sleep(TOTAL * 2).await;
    to.send(Bytes::from("late")).await.unwrap();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "late");
}
