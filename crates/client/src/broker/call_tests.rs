//! Tests of the client against a broker that answers by a script, over a real socket.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixListener;
use tokio::task::AbortHandle;

use super::*;

/// Reaction of the scripted broker to a call.
#[derive(Clone, Copy)]
enum Act {
    /// Answers with an empty message.
    Answer,
    /// Answers with this gRPC status code.
    Refuse(u16),
    /// Leaves the call without an answer.
    Stall,
    /// Ends the connection with the call unanswered.
    Break,
}

struct ScriptedBroker {
    folder: tempfile::TempDir,
    seen: Arc<Mutex<Vec<HeaderMap>>>,
    accepting: Mutex<Option<AbortHandle>>,
    acts: Arc<Mutex<VecDeque<Act>>>,
}

impl ScriptedBroker {
    /// Starts a broker that reacts by this list, and then answers every call.
    fn new(acts: &[Act]) -> Self {
        let scripted = ScriptedBroker {
            folder: tempfile::tempdir().unwrap(),
            seen: Arc::default(),
            accepting: Mutex::default(),
            acts: Arc::new(Mutex::new(acts.iter().copied().collect())),
        };
        scripted.listen();
        scripted
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn listen(&self) {
        let _ = std::fs::remove_file(self.socket());
        let listener = UnixListener::bind(self.socket()).unwrap();
        let (seen, acts) = (self.seen.clone(), self.acts.clone());
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, seen.clone(), acts.clone()));
            }
        });
        *self.accepting.lock().unwrap() = Some(task.abort_handle());
    }

    /// Stops listening; open connections stay.
    fn leave(&self) {
        self.accepting.lock().unwrap().take().unwrap().abort();
        std::fs::remove_file(self.socket()).unwrap();
    }

    fn calls(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

async fn serve(stream: tokio::net::UnixStream, seen: Arc<Mutex<Vec<HeaderMap>>>, acts: Arc<Mutex<VecDeque<Act>>>) {
    let (end, ended) = tokio::sync::watch::channel(false);
    let service = service_fn(move |request: Request<Incoming>| {
        let act = acts.lock().unwrap().pop_front().unwrap_or(Act::Answer);
        seen.lock().unwrap().push(request.headers().clone());
        let end = end.clone();
        async move {
            match act {
                Act::Stall => std::future::pending().await,
                Act::Break => {
                    let _ = end.send(true);
                    std::future::pending().await
                }
                Act::Answer | Act::Refuse(_) => {}
            }
            let _ = request.into_body().collect().await;
            let answer = Response::builder().header("content-type", "application/grpc");
            let (answer, code, body) = match act {
                Act::Refuse(code) => {
                    (answer.header("grpc-status", code).header("grpc-message", "told so"), code, Bytes::new())
                }
                _ => (answer, 0, Bytes::from_static(&[0; 5])),
            };
            let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), code.into())]);
            let body = Full::new(body).with_trailers(async move { Some(Ok(trailers)) });
            Ok::<_, hyper::Error>(answer.body(body).unwrap())
        }
    });
    let connection =
        hyper::server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service);
    let mut ended = ended;
    tokio::select! {
        _ = connection => {}
        _ = ended.wait_for(|ended| *ended) => {}
    }
}

fn options(socket: &Path) -> Options {
    let retry = RetryOptions { attempts: 3, first: Duration::from_millis(2), longest: Duration::from_millis(5) };
    Options { retry, deadline: Duration::from_secs(20), ..Options::new(socket) }
}

#[tokio::test]
async fn a_call_carries_its_deadline_and_trace() {
    let broker = ScriptedBroker::new(&[]);
    let parent = TraceParent::new(1, 2, true).unwrap();
    let client = Client::new(options(&broker.socket())).within(Duration::from_secs(3)).traced(parent);
    client.information().await.unwrap();
    let seen = broker.seen.lock().unwrap()[0].clone();
    assert_eq!(seen["traceparent"], parent.to_string());
    let timeout = seen["grpc-timeout"].to_str().unwrap();
    let micros: u64 = timeout.strip_suffix('u').unwrap().parse().unwrap();
    assert!((1_000_000..=3_000_000).contains(&micros), "{timeout}");
}

#[tokio::test]
async fn only_unavailable_calls_are_retried() {
    let broker = ScriptedBroker::new(&[Act::Refuse(14), Act::Break, Act::Answer, Act::Refuse(3), Act::Refuse(8)]);
    let client = Client::new(options(&broker.socket()));
    client.information().await.unwrap();
    assert_eq!(broker.calls(), 3);
    for code in [Code::InvalidArgument, Code::ResourceExhausted] {
        let err = client.information().await.unwrap_err();
        assert_eq!((err.code, err.sent, err.attempts, err.text.as_str()), (code, Delivery::Answered, 1, "told so"));
    }
    assert_eq!(broker.calls(), 5);
}

#[tokio::test]
async fn attempts_have_an_end_and_the_error_says_how_many_there_were() {
    let broker = ScriptedBroker::new(&[Act::Refuse(14); 10]);
    let client = Client::new(options(&broker.socket()));
    let err = client.information().await.unwrap_err();
    assert_eq!((err.code, err.sent, err.attempts), (Code::Unavailable, Delivery::Answered, 3));
    assert!(err.is_passing() && err.to_string().starts_with("Information: told so"), "{err}");
    assert_eq!(broker.calls(), 3);
}

#[tokio::test]
async fn calls_that_change_the_store_are_retried_only_if_they_were_not_sent() {
    let broker = ScriptedBroker::new(&[Act::Break]);
    let client = Client::new(options(&broker.socket()));
    let err = client.generate_key("k", "aes-256-gcm").await.unwrap_err();
    assert_eq!((err.code, err.sent, err.attempts), (Code::Unavailable, Delivery::Perhaps, 1));
    assert_eq!(broker.calls(), 1);
    broker.leave();
    // A new client finds no listener, so nothing was sent for certain.
    let err = Client::new(options(&broker.socket())).rotate_key("k", b"").await.unwrap_err();
    assert_eq!((err.code, err.sent, err.attempts), (Code::Unavailable, Delivery::No, 3));
}

#[tokio::test]
async fn a_call_to_a_silent_broker_ends_at_its_deadline() {
    let broker = ScriptedBroker::new(&[Act::Stall]);
    let client = Client::new(options(&broker.socket())).within(Duration::from_millis(50));
    let err = client.information().await.unwrap_err();
    assert_eq!((err.code, err.sent, err.attempts), (Code::DeadlineExceeded, Delivery::Perhaps, 1));
    assert_eq!(err.text, "no answer within 50 ms");
}

#[tokio::test]
async fn a_client_connects_again_when_the_socket_is_back() {
    let broker = ScriptedBroker::new(&[Act::Answer, Act::Break]);
    let client = Client::new(options(&broker.socket()));
    client.information().await.unwrap();
    broker.leave();
    let err = client.information().await.unwrap_err();
    assert_eq!((err.code, err.sent), (Code::Unavailable, Delivery::Perhaps), "{err}");
    let err = client.information().await.unwrap_err();
    assert_eq!((err.code, err.sent), (Code::Unavailable, Delivery::No), "{err}");
    broker.listen();
    client.information().await.unwrap();
}

#[tokio::test]
async fn an_open_breaker_fails_at_once_and_a_probe_closes_it() {
    let folder = tempfile::tempdir().unwrap();
    let breaker = BreakerOptions { failures: 3, open_for: Duration::from_millis(100), probes: 1 };
    let broker = ScriptedBroker::new(&[]);
    let client = Client::new(Options { breaker: Some(breaker), ..options(&folder.path().join("socket")) });
    assert_eq!(client.information().await.unwrap_err().attempts, 3);
    assert_eq!(client.breaker_state(), BreakerState::Open);
    let (before, err) = (Instant::now(), client.information().await.unwrap_err());
    assert_eq!((err.code, err.sent, err.attempts), (Code::Unavailable, Delivery::No, 0));
    assert!(err.text.contains("circuit breaker") && before.elapsed() < Duration::from_millis(90), "{err}");
    std::os::unix::fs::symlink(broker.socket(), folder.path().join("socket")).unwrap();
    tokio::time::sleep(Duration::from_millis(110)).await;
    assert_eq!(client.breaker_state(), BreakerState::HalfOpen);
    client.information().await.unwrap();
    assert_eq!(client.breaker_state(), BreakerState::Closed);
}

#[tokio::test]
async fn calls_beyond_the_bounds_fail_in_the_client() {
    let broker = ScriptedBroker::new(&[Act::Stall]);
    let bounds = Options { in_flight_max: 1, waiting_max: 1, message_len_max: 1000, ..options(&broker.socket()) };
    let client = Client::new(bounds).within(Duration::from_millis(300));
    let hasty = client.within(Duration::from_millis(100));
    let err = client.hash("p", &[[0; 1000]]).await.unwrap_err();
    assert_eq!((err.code, err.sent, err.attempts), (Code::OutOfRange, Delivery::No, 0));
    let (first, second, third) = tokio::join!(client.information(), hasty.information(), client.information());
    assert_eq!(first.unwrap_err().code, Code::DeadlineExceeded);
    // The call waited behind the first one until its deadline.
    let second = second.unwrap_err();
    assert_eq!((second.code, second.sent, second.attempts), (Code::DeadlineExceeded, Delivery::No, 0));
    let third = third.unwrap_err();
    assert_eq!((third.code, third.text.as_str()), (Code::ResourceExhausted, "too many calls wait already"));
}

#[tokio::test]
async fn nothing_is_sent_to_a_socket_of_another_user() {
    let broker = ScriptedBroker::new(&[]);
    let me = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(broker.socket()).unwrap());
    let client = |uid| Client::new(Options { broker_uid: Some(uid), ..options(&broker.socket()) });
    let err = client(me + 1).information().await.unwrap_err();
    assert_eq!((err.code, err.sent), (Code::Unavailable, Delivery::No));
    assert!(err.text.contains(&format!("user {me}'s")), "{err}");
    assert_eq!(broker.calls(), 0);
    client(me).information().await.unwrap();
}

#[tokio::test]
async fn an_answer_of_another_length_than_the_batch_is_refused() {
    let broker = ScriptedBroker::new(&[]);
    let err = Client::new(options(&broker.socket())).hash("p", &["a", "b"]).await.unwrap_err();
    assert_eq!((err.code, err.text.as_str()), (Code::Internal, "0 answers to 2 inputs"));
}

#[test]
fn calls_may_be_made_from_any_thread() {
    fn is_send(_: impl Send) {}
    let client = Client::new(Options::new("/nowhere"));
    is_send(client.hash("p", &["x"]));
    is_send(client.generate_key("k", "aes-256-gcm"));
}
