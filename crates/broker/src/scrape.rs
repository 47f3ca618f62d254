//! Metrics over HTTP, for Prometheus: `GET /metrics`, and `GET /ready` for probes.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use sealway_runtime::listener::{self, BindError};
use sealway_runtime::shutdown::Shutdown;
use sealway_runtime::telemetry::PrometheusHandle;
use tokio::net::TcpStream;

use crate::accept;
use crate::keys::Tokens;

/// Concurrent connections; further ones wait.
const CONNECTIONS_MAX: usize = 16;
/// Longest duration of a connection.
const CONNECTION_TIME: Duration = Duration::from_secs(10);
/// Interval of the recorder's upkeep.
const KEEP: Duration = Duration::from_secs(5);

/// Function that renders all metrics as text.
pub(crate) type Render = Arc<dyn Fn() -> String + Send + Sync>;

/// Serves metrics until shutdown begins.
pub(crate) fn serve(address: SocketAddr, render: Render, tokens: Tokens, shutdown: &Shutdown) -> Result<(), BindError> {
    for listener in listener::bind(&[address], "--metrics")? {
        tracing::info!(address = %listener.local_addr().map_or(address, |bound| bound), "metrics at /metrics");
        let (render, tokens, begun) = (render.clone(), tokens.clone(), shutdown.clone());
        let serve = move |stream| {
            let (render, tokens, begun) = (render.clone(), tokens.clone(), begun.clone());
            async move {
                tokio::select! {
                    _ = tokio::time::timeout(CONNECTION_TIME, answer(stream, render, tokens)) => {}
                    () = begun.begun() => {}
                }
            }
        };
        shutdown.spawn(accept::each(listener, ("metrics", CONNECTIONS_MAX), shutdown.clone(), serve));
    }
    Ok(())
}

async fn answer(stream: TcpStream, render: Render, tokens: Tokens) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (render, tokens) = (render.clone(), tokens.clone());
        async move {
            let (status, text) = match (request.method(), request.uri().path()) {
                (&Method::GET, "/metrics") => (StatusCode::OK, render()),
                (&Method::GET, "/ready") => ready(&tokens),
                _ => (StatusCode::NOT_FOUND, String::new()),
            };
            let mut answer = Response::new(Full::new(Bytes::from(text)));
            *answer.status_mut() = status;
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // A scrape may fail: the scraper comes again.
    let _ = connection.await;
}

/// Returns 200, or 503 with a line for each token that is not ready.
fn ready(tokens: &Tokens) -> (StatusCode, String) {
    let lines: String = tokens.not_ready().iter().map(|(name, err)| format!("{name}: {err}\n")).collect();
    if lines.is_empty() { (StatusCode::OK, "ready\n".into()) } else { (StatusCode::SERVICE_UNAVAILABLE, lines) }
}

/// Returns the renderer of this process's metrics.
pub(crate) fn render(metrics: PrometheusHandle) -> Render {
    Arc::new(move || {
        gauge_memory();
        metrics.render()
    })
}

/// Runs the recorder's upkeep every few seconds until shutdown begins: samples without a scrape would fill the memory.
/// Push exporters read the gauges of the last upkeep.
pub(crate) fn keep(metrics: PrometheusHandle, shutdown: &Shutdown) {
    let stop = shutdown.clone();
    shutdown.spawn(async move {
        let mut tick = tokio::time::interval(KEEP);
        loop {
            tokio::select! {
                _ = tick.tick() => {
                    gauge_memory();
                    metrics.run_upkeep();
                }
                () = stop.begun() => return,
            }
        }
    });
}

/// Records this process's resident memory.
fn gauge_memory() {
    if let Some(bytes) = sealway_runtime::process::resident_bytes() {
        #[expect(clippy::cast_precision_loss, reason = "bytes of memory are far below 2^53")]
        metrics::gauge!("crypto_memory_usage_bytes").set(bytes as f64);
    }
}
