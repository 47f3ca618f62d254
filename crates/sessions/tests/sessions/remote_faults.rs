//! An authority that is unavailable, slow, cut off, or another kind of server: the remote store rejects within its
//! deadline, and never repeats a request that may have granted a nonce.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::far::{Far, config, open, policy, within};
use sealway_sessions::store::remote::{Remote, RemoteConfig};
use sealway_sessions::store::{Memory, MemoryLimits, Part, ReserveError, Store, StoreError};
use sealway_testkit::store_contract::claims::{START_MS, SessionPair, agree};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Behaviour of the server in the authority's place.
#[derive(Clone, Debug)]
enum Does {
    /// Reads requests, and answers with these bytes.
    Say(Vec<u8>),
    /// Reads requests, and closes the connection.
    Close,
    /// Reads requests, and never answers.
    Hang,
    /// Forwards a request to the authority, and drops the answer.
    Lose(SocketAddr),
    /// Forwards a request, and returns the answer after this time.
    Delay(SocketAddr, Duration),
}

/// A listener that is no authority. Counts requests by their kind.
struct Stand {
    address: SocketAddr,
    claims: Arc<AtomicUsize>,
    gets: Arc<AtomicUsize>,
    puts: Arc<AtomicUsize>,
}

impl Stand {
    async fn new(does: Does) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let [claims, gets, puts] = [0; 3].map(|_| Arc::new(AtomicUsize::new(0)));
        let counts = [claims.clone(), gets.clone(), puts.clone()];
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(stand(stream, does.clone(), counts.clone()));
            }
        });
        Stand { address, claims, gets, puts }
    }

    async fn remote(&self) -> Arc<Remote> {
        open(RemoteConfig { deadline: Duration::from_millis(300), ..config(self.address) }).await.unwrap()
    }
}

/// Reads the head and body of a request.
async fn read_request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        let Some(head) = text.find("\r\n\r\n") else { continue };
        let len = text.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next()?.parse().ok());
        if bytes.len() >= head + 4 + len.unwrap_or(0) {
            return Some(bytes);
        }
    }
}

async fn stand(mut stream: TcpStream, does: Does, [claims, gets, puts]: [Arc<AtomicUsize>; 3]) {
    while let Some(request) = read_request(&mut stream).await {
        for (begins, count) in
            [("POST /v1/authority/nonces", &claims), ("GET /v1/authority/sessions/", &gets), ("PUT /", &puts)]
        {
            if request.starts_with(begins.as_bytes()) {
                count.fetch_add(1, Ordering::SeqCst);
            }
        }
        match &does {
            Does::Say(answer) => {
                if stream.write_all(answer).await.is_err() {
                    return;
                }
                // Closes after an overlong answer: the client must reject it without reading to its end.
                if answer.len() > 100_000 {
                    return;
                }
            }
            Does::Close => return,
            Does::Hang => {}
            Does::Lose(authority) => {
                assert!(!pass_on(&request, *authority).await.is_empty());
                return;
            }
            Does::Delay(authority, time) => {
                let answer = pass_on(&request, *authority).await;
                tokio::time::sleep(*time).await;
                stream.write_all(&answer).await.unwrap();
            }
        }
    }
}

/// Forwards a request to the authority and returns its answer.
async fn pass_on(request: &[u8], authority: SocketAddr) -> Vec<u8> {
    let mut behind = TcpStream::connect(authority).await.unwrap();
    behind.write_all(request).await.unwrap();
    let mut answer = vec![0; 8192];
    let len = behind.read(&mut answer).await.unwrap();
    answer.truncate(len);
    answer
}

fn says(status: &str, content: &str, body: &str) -> Does {
    let len = body.len();
    Does::Say(
        format!("HTTP/1.1 {status}\r\nContent-Type: {content}\r\nContent-Length: {len}\r\n\r\n{body}").into_bytes(),
    )
}

/// Asserts that nothing is granted, stored or found, within the deadline and with an error that names the route.
async fn is_of_no_use(what: &str, remote: &Arc<Remote>, agreed: &SessionPair) {
    let claim = *agreed.call("one", START_MS, START_MS).claim();
    let id = *agreed.server.id();
    let since = Instant::now();
    let Err(ReserveError::Unavailable(reason)) = remote.reserve(&claim).await else { panic!("{what}: a claim") };
    assert!(reason.starts_with("POST /v1/authority/nonces: "), "{what}: {reason}");
    assert!(!reason.contains("hunter2"), "{what}: {reason}");
    let Err(StoreError::Unavailable(reason)) = remote.get(&id).await else { panic!("{what}: a session") };
    assert!(reason.starts_with("GET /v1/authority/sessions/: ") && !reason.contains(id.as_str()), "{what}: {reason}");
    assert!(!reason.contains("hunter2"), "{what}: {reason}");
    let put = remote.put(agreed.server.clone()).await;
    assert!(matches!(put, Err(StoreError::Unavailable(_))), "{what}: {put:?}");
    let deleted = remote.delete(&id).await;
    assert!(matches!(deleted, Err(StoreError::Unavailable(_))), "{what}: {deleted:?}");
    assert!(since.elapsed() < Duration::from_secs(5), "{what}: four questions took {:?}", since.elapsed());
    assert!(!remote.status().up, "{what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_response_that_is_not_an_authoritys_grants_nothing() {
    const JSON: &str = "application/json";
    let huge = format!(r#"{{"key":"{}"}}"#, "0".repeat(1_000_000));
    let endless = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let endless = [endless, [b"ffff\r\n".as_slice(), &[b' '; 0xffff], b"\r\n"].concat().repeat(4)].concat();
    let cut =
        b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 900000\r\n\r\n{\"key\":".to_vec();
    let other_key = r#"{"key":"00000000000000000000000000000000"}"#;
    let key = "BQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU=";
    let other_session = format!(
        r#"{{"id":"S-00112233445566778899aabbccddeeff","wire":2,"client_id":"hunter2","subject":null,"created_ms":1,
        "expires_ms":{},"key":"{key}"}}"#,
        2 * START_MS
    );
    let other_id = r#"{"error":"SESSION_NOT_FOUND","id":"S-00112233445566778899aabbccddeeff"}"#;
    for (what, does) in [
        ("closed", Does::Close),
        ("silent", Does::Hang),
        ("no http", Does::Say(b"hunter2 hunter2\r\n\r\n".to_vec())),
        ("html", says("201 Created", "text/html", "<p>hunter2</p>")),
        ("a page that is not there", says("410 Gone", JSON, r#"{"error":"hunter2"}"#)),
        ("another 200", says("200 OK", JSON, r#"{"hunter2":true}"#)),
        ("another 201", says("201 Created", JSON, r#"{"hunter2":true}"#)),
        ("no json", says("201 Created", JSON, "hunter2")),
        ("an empty body", says("201 Created", JSON, "")),
        ("another's claim", says("201 Created", JSON, other_key)),
        ("another's replay", says("409 Conflict", JSON, other_key)),
        ("a redirect", says("307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/hunter2", JSON, "{}")),
        ("a bad request", says("400 Bad Request", JSON, r#"{"message":"hunter2"}"#)),
        ("an error", says("500 Internal Server Error", JSON, r#"{"message":"hunter2"}"#)),
        ("unavailable", says("503 Service Unavailable", JSON, r#"{"error":"SERVICE_UNAVAILABLE"}"#)),
        ("huge", says("201 Created", JSON, &huge)),
        ("endless", Does::Say(endless)),
        ("cut off", Does::Say(cut)),
        ("another's session", says("200 OK", JSON, &other_session)),
        ("another's 200", says("200 OK", JSON, other_id)),
    ] {
        let stand = Stand::new(does).await;
        let remote = stand.remote().await;
        is_of_no_use(what, &remote, &agree(Some("web"), 600, START_MS)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_answer_counts_only_as_json_and_within_its_bound() {
    let state = |more: &str| {
        format!(
            r#"{{"more":"{more}","up":true,"postgres":"up","redis":"down","sessions":1,"sealed_nonces":2,"init_nonces":3,
            "pool_total":4,"pool_idle":4,"pool_waiting":0,"now_ms":{START_MS},"window_ms":300000}}"#
        )
    };
    for (content, more, up) in [
        ("application/json", 1, true),
        ("application/json", 60_000, true),
        ("application/json", 66_000, false),
        ("text/html", 1, false),
        ("application/json, text/html", 1, false),
    ] {
        let stand = Stand::new(says("200 OK", content, &state(&"0".repeat(more)))).await;
        let remote = stand.remote().await;
        let status = remote.status();
        assert_eq!(status.up, up, "{content}, {more} bytes");
        if up {
            assert_eq!((status.postgres, status.redis, status.sessions), (Part::Up, Part::Down, 1));
            assert_eq!(status.nonces, (2, 3));
            // After an invalid answer the state of the parts is unknown.
            remote.get(agree(Some("web"), 600, START_MS).server.id()).await.unwrap_err();
            let status = remote.status();
            assert_eq!((status.up, status.postgres, status.redis), (false, Part::Down, Part::Down));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_404_without_the_session_id_does_not_end_the_session() {
    let far = Far::memory().await;
    let agreed = agree(Some("web"), 600, START_MS);
    for body in
        [r#"{"error":"NOT_FOUND"}"#, r#"{"error":"SESSION_NOT_FOUND","id":"S-00112233445566778899aabbccddeeff"}"#]
    {
        let (listener, does) =
            (TcpListener::bind("127.0.0.1:0").await.unwrap(), says("404 Not Found", "application/json", body));
        let (state, address) = (far.address, listener.local_addr().unwrap());
        // It answers like an authority about its state, so that the store opens.
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let Does::Say(answer) = &does else { unreachable!() };
                let Some(request) = read_request(&mut stream).await else { continue };
                if !request.starts_with(b"GET /v1/authority/state") {
                    stream.write_all(answer).await.unwrap();
                    continue;
                }
                stream.write_all(&pass_on(&request, state).await).await.unwrap();
            }
        });
        let remote = open(config(address)).await.unwrap();
        let got = remote.get(agreed.server.id()).await;
        assert!(matches!(got, Err(StoreError::Unavailable(_))), "{body}: {got:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_claim_whose_answer_is_lost_is_rejected_without_a_retry() {
    let far = Far::memory().await;
    let stand = Stand::new(Does::Lose(far.address)).await;
    let (lossy, good) = (stand.remote().await, far.remote().await);
    let agreed = agree(Some("web"), 600, START_MS);
    let claim = *agreed.call("lost", START_MS, START_MS).claim();
    let lost = lossy.reserve(&claim).await;
    assert!(matches!(lost, Err(ReserveError::Unavailable(_))), "{lost:?}");
    assert_eq!(stand.claims.load(Ordering::SeqCst), 1, "it was asked for twice");
    assert_eq!(good.reserve(&claim).await.map(drop), Err(ReserveError::Replayed), "it had been granted");
    // Repeatable requests are sent twice.
    assert!(lossy.put(agreed.server.clone()).await.is_err());
    assert!(lossy.get(agreed.server.id()).await.is_err());
    assert_eq!((stand.puts.load(Ordering::SeqCst), stand.gets.load(Ordering::SeqCst)), (2, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_fail_at_once_without_the_authority_and_resume_with_it() {
    let store = Arc::new(Memory::new(MemoryLimits::default()));
    let far = Far::with(store.clone(), policy()).await;
    let remote = far.remote().await;
    let agreed = agree(Some("web"), 600, START_MS);
    let (first, second) =
        (*agreed.call("1", START_MS, START_MS).claim(), *agreed.call("2", START_MS, START_MS).claim());
    remote.put(agreed.server.clone()).await.unwrap();
    remote.reserve(&first).await.unwrap();
    let address = far.kill().await;
    let since = Instant::now();
    let refused = remote.reserve(&second).await;
    assert!(matches!(refused, Err(ReserveError::Unavailable(_))), "{refused:?}");
    assert!(since.elapsed() < Duration::from_secs(3), "{:?}", since.elapsed());
    assert!(!remote.status().up);
    // The session is cached for a moment, and not longer although the authority is away.
    let is_refused = async || remote.get(agreed.server.id()).await.is_err();
    within(Duration::from_secs(2), "a session is used on that nobody vouches for", is_refused).await;
    let _far = Far::at(address, store, policy()).await;
    within(Duration::from_secs(2), "not up again", async || remote.status().up).await;
    assert!(remote.get(agreed.server.id()).await.unwrap().is_some());
    assert_eq!(remote.reserve(&first).await.map(drop), Err(ReserveError::Replayed));
    remote.reserve(&second).await.expect("it was never asked for");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_starts_down_while_its_authority_is_away_and_comes_up_by_itself() {
    let far = Far::memory().await;
    let address = far.kill().await;
    let remote = open(config(address)).await.expect("it starts");
    assert!(!remote.status().up);
    let store = Arc::new(Memory::new(MemoryLimits::default()));
    let _far = Far::at(address, store, policy()).await;
    within(Duration::from_secs(2), "not up", async || remote.status().up).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_session_that_came_late_is_not_kept_at_hand() {
    let far = Far::memory().await;
    let session = agree(Some("web"), 600, START_MS).server;
    far.authority.store().put(session.clone()).await.unwrap();
    for (delay_ms, asked) in [(10, 1), (600, 2)] {
        let stand = Stand::new(Does::Delay(far.address, Duration::from_millis(delay_ms))).await;
        let remote = open(config(stand.address)).await.unwrap();
        for _ in 0..2 {
            assert!(remote.get(session.id()).await.unwrap().is_some());
        }
        assert_eq!(stand.gets.load(Ordering::SeqCst), asked, "{delay_ms} ms on the way");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn waiting_requests_are_bounded_in_number_and_time() {
    let stand = Stand::new(Does::Hang).await;
    let how = RemoteConfig { deadline: Duration::from_millis(500), connections_max: 2, ..config(stand.address) };
    let remote = open(how).await.unwrap();
    let agreed = agree(Some("web"), 600, START_MS);
    let claims: Vec<_> = (0..200).map(|n| *agreed.call(&format!("n{n}"), START_MS, START_MS).claim()).collect();
    let since = Instant::now();
    let asking: Vec<_> = claims
        .into_iter()
        .map(|claim| {
            let remote = remote.clone();
            tokio::spawn(async move { remote.reserve(&claim).await.map(drop) })
        })
        .collect();
    let mut too_many = 0;
    for asked in asking {
        let Err(ReserveError::Unavailable(reason)) = asked.await.unwrap() else { panic!("granted") };
        too_many += usize::from(reason.ends_with("too many wait"));
    }
    assert!(since.elapsed() < Duration::from_secs(3), "{:?}", since.elapsed());
    // 2 requests are in progress, 128 wait; on a slow machine some arrive when the first have given up.
    assert!((1..=200 - 2 - 128).contains(&too_many), "{too_many}");
    let pool = remote.status().pool;
    assert_eq!((pool.total, pool.idle, pool.waiting), (2, 2, 0), "a place was lost");
}
