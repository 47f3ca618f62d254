//! Metrics over HTTP, for Prometheus: `GET /metrics` and nothing else.

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
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::telemetry::gauge_memory;

/// Connections at once; more wait.
const CONNECTIONS_MAX: usize = 16;
/// How long a connection may take in all.
const CONNECTION_TIME: Duration = Duration::from_secs(10);
/// From one time that measurements are put away to the next.
const KEEP: Duration = Duration::from_secs(5);
/// How long to wait when the process is out of descriptors.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// What renders the metrics.
pub(crate) type Render = Arc<dyn Fn() -> String + Send + Sync>;

/// Serves them until stopping begins.
pub(crate) fn serve(address: SocketAddr, render: Render, shutdown: &Shutdown) -> Result<(), BindError> {
    for listener in listener::bind(&[address], "--metrics")? {
        tracing::info!(address = %listener.local_addr().map_or(address, |bound| bound), "metrics at /metrics");
        shutdown.spawn(accept(listener, render.clone(), shutdown.clone()));
    }
    Ok(())
}

async fn accept(listener: TcpListener, render: Render, shutdown: Shutdown) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = async {
            let permit = room.clone().acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            accepted = accepted => accepted,
            () = shutdown.begun() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let (render, begun) = (render.clone(), shutdown.clone());
                shutdown.spawn(async move {
                    let _permit = permit;
                    tokio::select! {
                        _ = tokio::time::timeout(CONNECTION_TIME, answer(stream, render)) => {}
                        () = begun.begun() => {}
                    }
                });
            }
            Err(err) => {
                tracing::warn!(%err, "a connection to the metrics could not be accepted");
                tokio::time::sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
}

async fn answer(stream: TcpStream, render: Render) {
    let service = service_fn(move |request: Request<Incoming>| {
        let render = render.clone();
        async move {
            let is_asked = request.uri().path() == "/metrics" && request.method() == Method::GET;
            let (status, text) =
                if is_asked { (StatusCode::OK, render()) } else { (StatusCode::NOT_FOUND, String::new()) };
            let mut answer = Response::new(Full::new(Bytes::from(text)));
            *answer.status_mut() = status;
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // It may break off: whoever scrapes comes again.
    let _ = connection.await;
}

/// Renders this process's metrics.
pub(crate) fn render(metrics: PrometheusHandle) -> Render {
    Arc::new(move || {
        gauge_memory();
        metrics.render()
    })
}

/// Puts what was measured away every few seconds, until stopping begins: samples that nobody asks for would fill the memory.
/// Exporters that ask nobody find the gauges as of then.
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
