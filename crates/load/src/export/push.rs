//! Pushes of the newest figures at an interval and at the end, over plain HTTP.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Uri};
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use sealway_runtime::clock::{Clock, SystemClock};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::metrics::Snapshot;
use super::{ExportError, otlp, prometheus};

/// Maximum time of one push, from connecting to the head of its answer.
const PUSH_MAX: Duration = Duration::from_secs(4);

/// Format of the pushed figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Prometheus,
    Otlp,
}

/// Task that pushes to one destination.
#[derive(Debug)]
pub(super) struct Pusher {
    flag: &'static str,
    host: String,
    port: u16,
    authority: String,
    path: String,
    form: Form,
    started_ns: u64,
}

impl Pusher {
    /// Creates a pusher to this address; `path` is the default path.
    pub(super) fn new(flag: &'static str, address: &Uri, path: &str, form: Form) -> Result<Self, ExportError> {
        let failure = |message: &str| ExportError::Address { flag, message: message.to_owned() };
        let Some(authority) = address.authority() else {
            return Err(failure("expected an address such as http://127.0.0.1:9091"));
        };
        if address.scheme_str() != Some("http") {
            return Err(failure("only http is supported; run a collector on this machine that forwards over TLS"));
        }
        // Credentials would be shown in errors and in lists of processes.
        if authority.as_str().contains('@') {
            return Err(failure("a user and password in the address are not supported"));
        }
        let given = address.path_and_query().map_or("/", |path| path.as_str());
        Ok(Pusher {
            flag,
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(80),
            authority: authority.to_string(),
            path: if given == "/" { path.to_owned() } else { given.to_owned() },
            form,
            started_ns: now_ns(),
        })
    }

    /// Pushes until the figures end, and then once more. Returns a sentence if a push failed.
    pub(super) async fn run(
        self,
        mut figures: watch::Receiver<Option<Arc<Snapshot>>>,
        every: Duration,
    ) -> Option<String> {
        let (mut tried, mut failed, mut first) = (0_u64, 0_u64, None);
        let mut over = false;
        while !over {
            over = tokio::time::timeout(every, closed(&mut figures)).await.is_ok();
            let newest = figures.borrow().clone();
            let Some(newest) = newest else { continue };
            tried += 1;
            if let Err(why) = self.push(&newest).await {
                failed += 1;
                first.get_or_insert(why);
            }
        }
        let (flag, authority) = (self.flag, &self.authority);
        first.map(|why| format!("{flag}: {failed} of {tried} pushes to {authority} failed, the first with: {why}"))
    }

    async fn push(&self, snapshot: &Snapshot) -> Result<(), String> {
        let push = self.exchange(snapshot);
        tokio::time::timeout(PUSH_MAX, push)
            .await
            .map_err(|_| format!("no response within {} s", PUSH_MAX.as_secs()))?
    }

    async fn exchange(&self, snapshot: &Snapshot) -> Result<(), String> {
        let (method, media, body) = match self.form {
            // PUT replaces the whole group, so that nothing of an earlier run stays.
            Form::Prometheus => (Method::PUT, prometheus::TEXT, prometheus::text(snapshot)),
            Form::Otlp => (Method::POST, "application/json", otlp::request(snapshot, self.started_ns, now_ns())),
        };
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(|err| err.to_string())?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|err| err.to_string())?;
        let connection = tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(&self.path)
            .header("host", &self.authority)
            .header("content-type", media)
            .header("connection", "close")
            .body(Full::new(Bytes::from(body)))
            .map_err(|err| err.to_string())?;
        let answer = sender.send_request(request).await.map_err(|err| err.to_string());
        // The answer's body is ignored.
        connection.abort();
        let status = answer?.status();
        if status.is_success() { Ok(()) } else { Err(format!("status {}", status.as_u16())) }
    }
}

/// Resolves when the sender of the figures is dropped.
async fn closed(figures: &mut watch::Receiver<Option<Arc<Snapshot>>>) {
    while figures.changed().await.is_ok() {}
}

fn now_ns() -> u64 {
    SystemClock.now_ms().saturating_mul(1_000_000)
}
