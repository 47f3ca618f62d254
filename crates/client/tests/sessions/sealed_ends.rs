//! Ends of sessions and calls on wire 3: a session renewed, a call cancelled, and a call rejected because it names
//! another service.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::{BodyExt, Full};
use sealway_client::{Client, ErrorKind};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::ground::{Act, Flowing, Service, fixed, pinned, post, trusted};

#[tokio::test]
async fn a_session_about_to_end_is_renewed_under_itself_and_one_that_is_over_is_agreed_anew() {
    let service = Service::new();
    *service.ttl_sec.lock().unwrap() = 0;
    let client = pinned(&service).await.authorization(fixed("Bearer the token")).build().unwrap();
    let first = client.session().await.unwrap().id;
    // The session's lifetime is over at once: there is nothing to renew.
    assert_ne!(client.session().await.unwrap().id, first);
    assert_eq!(service.count("POST /v3/sessions"), 2);
    *service.ttl_sec.lock().unwrap() = 2;
    // The last tenth of the lifetime is short: a busy machine may miss it once, but not repeatedly.
    let (started, mut last) = (Instant::now(), client.session().await.unwrap().id);
    let renewed_at = loop {
        assert!(started.elapsed() < Duration::from_secs(40), "no session was renewed");
        let (before, inits) = (service.paths().len(), service.count("POST /v3/sessions"));
        let now = client.session().await.unwrap().id;
        let renew = format!("POST /v3/sessions/{last}/renew");
        if now != last && service.paths()[before..] == [renew] {
            assert_eq!(service.count("POST /v3/sessions"), inits);
            break before;
        }
        last = now;
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    // The session that the client renews authorizes the renewal.
    let headers = service.seen.lock().unwrap()[renewed_at].1.clone();
    assert!(headers.contains_key("x-seal") && !headers.contains_key("authorization"), "{headers:?}");
    assert_eq!(post(&client, "/a", b"x").await.unwrap().body(), "POST /a x");
}

/// Starts a proxy for a service; counts the connections that the client has ended.
async fn watched(to: &Uri) -> (Uri, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let (to, ended) = (to.authority().unwrap().to_string(), Arc::new(AtomicUsize::new(0)));
    let counted = ended.clone();
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            let (to, ended) = (to.clone(), counted.clone());
            tokio::spawn(async move {
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_service, mut to_service) = TcpStream::connect(to).await.unwrap().into_split();
                tokio::spawn(async move { tokio::io::copy(&mut from_service, &mut to_client).await });
                let _ = tokio::io::copy(&mut from_client, &mut to_service).await;
                ended.fetch_add(1, Ordering::Relaxed);
                let _ = to_service.shutdown().await;
            });
        }
    });
    (url, ended)
}

async fn becomes(count: &AtomicUsize, wanted: usize) {
    let started = Instant::now();
    while count.load(Ordering::Relaxed) != wanted {
        assert!(started.elapsed() < Duration::from_secs(5), "the service sees no end of the exchange");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_call_that_its_caller_gives_up_ends_at_the_service_too() {
    let service = Service::new();
    let url = service.listen().await;
    let (through, ended) = watched(&url).await;
    let client = Client::builder(through).authority_url(url).trust(trusted(&service)).build().unwrap();
    post(&client, "/a", b"x").await.unwrap();
    post(&client, "/a", b"x").await.unwrap();
    assert_eq!(ended.load(Ordering::Relaxed), 0, "what has an answer keeps its connection");

    service.acts.lock().unwrap().push_back(Act::Stall);
    let call = tokio::spawn({
        let client = client.clone();
        async move { post(&client, "/b", b"x").await.map(drop) }
    });
    while service.count("POST /b") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(ended.load(Ordering::Relaxed), 0);
    call.abort();
    becomes(&ended, 1).await;

    // A request's body that was not sent whole.
    let (to, from) = mpsc::channel(1);
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.send(Request::post("/slow").body(Flowing(from)).unwrap()).await.map(drop) }
    });
    to.send("begun".into()).await.unwrap();
    while service.count("POST /slow") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    call.abort();
    becomes(&ended, 2).await;

    // An answer that was not read whole.
    let (to, from) = mpsc::channel(1);
    let mut flowing = client.send(Request::post("/flow").body(Flowing(from)).unwrap()).await.unwrap();
    to.send("begun".into()).await.unwrap();
    assert_eq!(flowing.body_mut().frame().await.unwrap().unwrap().into_data().unwrap(), "begun");
    assert_eq!(ended.load(Ordering::Relaxed), 2);
    drop(flowing);
    becomes(&ended, 3).await;
    post(&client, "/a", b"x").await.unwrap();
    assert_eq!(service.count("POST /v3/sessions"), 1);
}

#[tokio::test]
async fn a_request_to_another_origin_is_refused_before_anything_is_sent() {
    let (service, other) = (Service::new(), Service::new());
    let (url, elsewhere) = (service.listen().await, other.listen().await);
    let client = Client::builder(url.clone()).trust(trusted(&service)).build().unwrap();
    let empty = || Full::new(Bytes::new());
    let https = url.to_string().replace("http://", "https://");
    for uri in [format!("{elsewhere}a"), https, "http://example.org/a".into(), "example.org:80".into(), "a".into()] {
        let err = client.send(Request::get(&uri).body(empty()).unwrap()).await.unwrap_err();
        assert!(matches!(err.kind(), ErrorKind::Usage(_)), "{uri}: {err}");
    }
    assert!(other.paths().is_empty() && !service.paths().iter().any(|path| path.starts_with("GET")));
    client.send(Request::get(format!("{url}a")).body(empty()).unwrap()).await.unwrap();
    assert_eq!(service.count("GET /a"), 1);
}

#[tokio::test]
async fn a_path_of_the_service_that_only_begins_like_a_sessions_is_the_services() {
    let (service, authority) = (Service::new(), Service::new());
    let settings = Client::builder(service.listen().await).authority_url(authority.listen().await);
    let client = settings.trust(trusted(&authority)).build().unwrap();
    let id = client.session().await.unwrap().id;
    let session = authority.sessions.lock().unwrap()[id.as_str()].clone();
    service.sessions.lock().unwrap().insert(id.to_string(), session);
    assert_eq!(post(&client, "/v3/sessions-of-mine", b"x").await.unwrap().body(), "POST /v3/sessions-of-mine x");
    assert_eq!(service.paths(), ["POST /v3/sessions-of-mine"]);
}
