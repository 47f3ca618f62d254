//! The server's side of a conversation: a listener of this crate, or hyper.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use sealway_runtime::http::{Body, HttpLimits, Interim, Listening, RequestBody, serve};
use sealway_runtime::listener::Socket;
use sealway_runtime::shutdown::Shutdown;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixListener, UnixStream};

use super::plan::{BodyPlan, Exchange, FIRST, Plan, Reading, announce};
use super::transport::{BodyOfPlan, Rest};
use super::verdict::{End, Got, GotRequest, Record};

/// Reads a request's body into what is seen of it.
async fn read<B>(mut body: B, exchange: Exchange, number: usize, seen: Arc<Record>)
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    let mut rest = Rest::default();
    let end = loop {
        if exchange.reads_slowly {
            poll_fn(|cx| rest.poll(cx)).await;
        }
        match body.frame().await {
            Some(Ok(frame)) => {
                if let Some(request) = seen.lock().get_mut(&number) {
                    request.body.push(frame);
                }
            }
            Some(Err(_)) => break End::Early,
            None if body.is_end_stream() => break End::Whole,
            None => break End::Early,
        }
    };
    if let Some(request) = seen.lock().get_mut(&number) {
        request.body.end = end;
    }
}

/// Answers a request as the plan says.
async fn answer<B>(request: Request<B>, plan: Arc<Plan>, seen: Arc<Record>) -> Response<BodyOfPlan>
where
    B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
{
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().unwrap().to_string();
    if path.ends_with(FIRST) {
        return Response::new(BodyOfPlan::new(&BodyPlan::default()));
    }
    let (number, exchange) = plan.at(&path);
    let got = GotRequest {
        method: parts.method,
        authority: parts.uri.authority().map(ToString::to_string).unwrap_or_default(),
        path,
        headers: parts.headers,
        body: Got::default(),
    };
    assert!(seen.lock().insert(number, got).is_none(), "a request came twice");
    if let Some(interim) = parts.extensions.get::<Interim>() {
        for (status, headers) in &exchange.interim {
            interim.send(*status, headers.clone());
        }
    }
    match exchange.reading {
        Reading::First => read(body, exchange.clone(), number, seen).await,
        Reading::Meanwhile => drop(tokio::spawn(read(body, exchange.clone(), number, seen))),
        Reading::Never => drop(body),
    }
    let mut response = Response::new(BodyOfPlan::new(&exchange.answer));
    *response.status_mut() = exchange.status;
    *response.headers_mut() = exchange.answer_headers.clone();
    announce(response.headers_mut(), &exchange.answer);
    response
}

/// Serves one connection by hyper until it ends.
pub(crate) async fn hyper_server<IO>(io: IO, plan: Arc<Plan>, seen: Arc<Record>)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let settings = plan.server;
    let service = service_fn(|request: Request<hyper::body::Incoming>| {
        let answer = answer(request, plan.clone(), seen.clone());
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder
        .initial_stream_window_size(settings.stream_window)
        .initial_connection_window_size(settings.connection_window)
        .max_frame_size(settings.frame_max)
        .header_table_size(settings.table_size)
        .max_send_buf_size(settings.send_max)
        .max_header_list_size(100_000)
        .max_concurrent_streams(settings.streams_max);
    let served = builder.serve_connection(TokioIo::new(io), service).await;
    assert!(served.is_ok(), "seed {}: {served:?}", plan.seed);
}

type Conversations = Arc<Mutex<HashMap<u64, (Arc<Plan>, Arc<Record>)>>>;

/// A listener of this crate on a Unix socket.
pub(crate) struct Listener {
    folder: tempfile::TempDir,
    conversations: Conversations,
    listening: Arc<Listening>,
    _shutdown: Shutdown,
}

impl Listener {
    pub(crate) fn start() -> Listener {
        let folder = tempfile::tempdir().unwrap();
        let socket = Socket::Unix(UnixListener::bind(folder.path().join("socket")).unwrap());
        let conversations = Conversations::default();
        let known = conversations.clone();
        let service = service_fn(move |request: Request<RequestBody>| {
            let seed = request.uri().path().split('/').nth(1).unwrap().parse().unwrap();
            let (plan, seen) = known.lock().get(&seed).cloned().unwrap();
            async move {
                let answer = answer(request, plan, seen).await;
                Ok::<Response<Body>, Infallible>(answer.map(BodyExt::boxed_unsync))
            }
        });
        let limits = HttpLimits { header_bytes_max: 100_000, ..HttpLimits::DEFAULT };
        let (shutdown, listening) = (Shutdown::new(), Arc::new(Listening::plain("test", limits)));
        shutdown.spawn(serve(socket, listening.clone(), service, shutdown.clone()));
        Listener { folder, conversations, listening, _shutdown: shutdown }
    }

    /// Makes a plan known, and returns what will be seen of it.
    pub(crate) fn expect(&self, plan: &Arc<Plan>) -> Arc<Record> {
        let seen = Arc::new(Record::default());
        let mut conversations = self.conversations.lock();
        conversations.clear();
        conversations.insert(plan.seed, (plan.clone(), seen.clone()));
        seen
    }

    pub(crate) async fn open(&self) -> UnixStream {
        UnixStream::connect(self.folder.path().join("socket")).await.unwrap()
    }

    /// Waits until no connection is open.
    pub(crate) async fn settled(&self) {
        while self.listening.connections.open() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
