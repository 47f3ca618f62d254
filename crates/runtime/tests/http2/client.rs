//! The client's side of a conversation, by this engine or by hyper.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use futures_util::future::join_all;
use http::{Request, Uri, Version};
use http_body_util::BodyExt;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sealway_runtime::http::h2::{Config, FieldLimits, RequestHead, Sender, connect};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;

use super::plan::{Exchange, Plan, announce};
use super::transport::{BodyOfPlan, Rest};
use super::verdict::{End, GotAnswer};

/// A client whose connection is driven.
pub(crate) enum Caller {
    Ours(Sender, JoinHandle<String>),
    Hyper(hyper::client::conn::http2::SendRequest<BodyOfPlan>, JoinHandle<String>),
}

impl Caller {
    pub(crate) fn ours(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, plan: &Plan) -> Caller {
        let settings = plan.client;
        let config = Config {
            streams_max: settings.streams_max,
            stream_window: settings.stream_window,
            connection_window: settings.connection_window,
            fields: FieldLimits { bytes_max: 100_000, fields_max: 200 },
            pending_max: settings.send_max,
            connect_protocol: false,
        };
        let (sender, drive) = connect(io, config, None);
        Caller::Ours(sender, tokio::spawn(async move { format!("{:?}", drive.await) }))
    }

    pub(crate) async fn hyper(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, plan: &Plan) -> Caller {
        let settings = plan.client;
        let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(settings.stream_window)
            .initial_connection_window_size(settings.connection_window)
            .max_frame_size(settings.frame_max)
            .header_table_size(settings.table_size)
            .max_send_buf_size(settings.send_max)
            .max_header_list_size(100_000)
            .handshake(TokioIo::new(io))
            .await
            .unwrap();
        Caller::Hyper(sender, tokio::spawn(async move { format!("{:?}", connection.await) }))
    }

    /// Sends a request and reads its answer.
    async fn ask(&self, exchange: &Exchange, got: &mut GotAnswer) -> Result<(), String> {
        let uri: Uri = format!("http://a.example{}", exchange.path).parse().unwrap();
        let mut headers = exchange.headers.clone();
        announce(&mut headers, &exchange.body);
        let body = BodyOfPlan::new(&exchange.body);
        let mut rest = Rest::default();
        match self {
            Caller::Ours(sender, _) => {
                let head = RequestHead { method: exchange.method.clone(), uri, headers, protocol: None };
                let body = (!exchange.body.is_empty()).then_some(body);
                let mut exchanging = sender.send(head, body).await.map_err(|(err, _)| err.to_string())?;
                loop {
                    let head = poll_fn(|cx| exchanging.poll_response(cx)).await.map_err(|err| err.to_string())?;
                    if !head.status.is_informational() {
                        got.head = Some((head.status, head.headers));
                        break;
                    }
                    got.interim.push((head.status, head.headers));
                }
                loop {
                    if exchange.reads_slowly {
                        poll_fn(|cx| rest.poll(cx)).await;
                    }
                    match poll_fn(|cx| exchanging.poll_piece(cx)).await {
                        Some(piece) => got.body.push(piece.map_err(|err| err.to_string())?),
                        None => break,
                    }
                }
                assert!(exchanging.is_end());
            }
            Caller::Hyper(sender, _) => {
                let mut sender = sender.clone();
                sender.ready().await.map_err(|err| err.to_string())?;
                let mut request = Request::new(body);
                *request.method_mut() = exchange.method.clone();
                *request.uri_mut() = uri;
                *request.version_mut() = Version::HTTP_2;
                *request.headers_mut() = headers;
                let answer = sender.send_request(request).await.map_err(|err| format!("{err:?}"))?;
                let (parts, mut body) = answer.into_parts();
                got.head = Some((parts.status, parts.headers));
                loop {
                    if exchange.reads_slowly {
                        poll_fn(|cx| rest.poll(cx)).await;
                    }
                    match body.frame().await {
                        Some(frame) => got.body.push(frame.map_err(|err| format!("{err:?}"))?),
                        // hyper takes a reset with NO_ERROR for an end, and this tells it from one.
                        None if hyper::body::Body::is_end_stream(&body) => break,
                        None => return Err("the stream was reset".into()),
                    }
                }
            }
        }
        got.body.end = End::Whole;
        Ok(())
    }
}

/// Carries a plan out: all exchanges at once. Returns what arrived, after the connection has ended.
pub(crate) async fn converse(caller: Caller, plan: &Plan) -> Vec<GotAnswer> {
    let first = Exchange::first(plan.seed);
    assert_eq!(caller.ask(&first, &mut GotAnswer::default()).await, Ok(()), "seed {}", plan.seed);
    let answers = join_all(plan.exchanges.iter().map(|exchange| async {
        let mut got = GotAnswer::default();
        let mut asking = Box::pin(caller.ask(exchange, &mut got));
        let mut left = exchange.given_up_after;
        let asked = poll_fn(|cx| {
            if let Poll::Ready(asked) = Pin::new(&mut asking).poll(cx) {
                return Poll::Ready(Some(asked));
            }
            match &mut left {
                Some(0) => Poll::Ready(None),
                Some(left) => {
                    *left -= 1;
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                None => Poll::Pending,
            }
        });
        let asked = asked.await;
        drop(asking);
        match asked {
            Some(Ok(())) => {}
            Some(Err(err)) => {
                got.body.end = End::Early;
                got.error = Some(err);
            }
            None => got.is_given_up = true,
        }
        got
    }));
    let answers = answers.await;
    let driving = match caller {
        Caller::Ours(sender, driving) => {
            drop(sender);
            driving
        }
        Caller::Hyper(sender, driving) => {
            drop(sender);
            driving
        }
    };
    assert_eq!(driving.await.unwrap(), "Ok(())", "seed {}: the connection", plan.seed);
    answers
}
