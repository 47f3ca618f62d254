//! Prometheus' text format, and the small HTTP listener that serves it.

use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use super::metrics::{Data, Labels, Snapshot, bounds};

/// Media type of the text format.
pub(super) const TEXT: &str = "text/plain; version=0.0.4";
/// Maximum number of concurrent scrapes.
const CONNECTIONS_MAX: usize = 8;
/// Maximum time of a connection, and of reading its request head.
const CONNECTION_MAX: Duration = Duration::from_secs(30);
const HEAD_MAX: Duration = Duration::from_secs(5);

/// Formats the figures as text.
pub(super) fn text(snapshot: &Snapshot) -> String {
    let mut out = String::new();
    let run = ("run", snapshot.label.to_string());
    for metric in snapshot.metrics() {
        let name = metric.name;
        let (kind, empty) = match &metric.data {
            Data::Counter(points) => ("counter", points.is_empty()),
            Data::Gauge(points) => ("gauge", points.is_empty()),
            Data::Histogram(points) => ("histogram", points.is_empty()),
        };
        if empty {
            continue;
        }
        let _ = write!(out, "# HELP {name} {}\n# TYPE {name} {kind}\n", metric.help);
        match &metric.data {
            Data::Counter(points) | Data::Gauge(points) => {
                for (own, value) in points {
                    let _ = writeln!(out, "{name}{} {value}", labels(&run, own, None));
                }
            }
            Data::Histogram(points) => {
                for (own, buckets) in points {
                    let mut below = 0;
                    for (bound, count) in bounds().iter().zip(buckets.counts) {
                        below += count;
                        let _ = writeln!(out, "{name}_bucket{} {below}", labels(&run, own, Some(&bound.to_string())));
                    }
                    let count = buckets.count();
                    let _ = writeln!(out, "{name}_bucket{} {count}", labels(&run, own, Some("+Inf")));
                    let _ = writeln!(out, "{name}_sum{} {}", labels(&run, own, None), buckets.sum_s);
                    let _ = writeln!(out, "{name}_count{} {count}", labels(&run, own, None));
                }
            }
        }
    }
    out
}

fn labels(run: &(&'static str, String), own: &Labels, bound: Option<&str>) -> String {
    let mut out = String::from("{");
    let all = std::iter::once(run).chain(own).map(|(name, value)| (*name, value.as_str()));
    for (name, value) in all.chain(bound.map(|bound| ("le", bound))) {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let comma = if out.len() > 1 { "," } else { "" };
        let _ = write!(out, "{comma}{name}=\"{value}\"");
    }
    out + "}"
}

/// Serves scrapes until the future is dropped.
pub(super) async fn serve(listener: TcpListener, figures: watch::Receiver<Option<Arc<Snapshot>>>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // Acquires a permit first: connections beyond the bound wait in the kernel's queue and cost nothing here.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                // Most likely out of file descriptors: the load itself may hold them all.
                tokio::time::sleep(Duration::from_millis(200)).await;
                continue;
            }
        };
        let figures = figures.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let answer = answer(&request, &figures);
                async move { Ok::<_, Infallible>(answer) }
            });
            let mut builder = hyper::server::conn::http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD_MAX).max_buf_size(16 * 1024);
            let _ = tokio::time::timeout(CONNECTION_MAX, builder.serve_connection(TokioIo::new(stream), service)).await;
            drop(place);
        });
    }
}

fn answer(request: &Request<Incoming>, figures: &watch::Receiver<Option<Arc<Snapshot>>>) -> Response<Full<Bytes>> {
    let (status, body) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            let newest = figures.borrow().clone();
            (StatusCode::OK, newest.map(|snapshot| text(&snapshot)).unwrap_or_default())
        }
        (_, "/metrics") => (StatusCode::METHOD_NOT_ALLOWED, String::new()),
        _ => (StatusCode::NOT_FOUND, "GET /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let media = http::HeaderValue::from_static(TEXT);
    response.headers_mut().insert(http::header::CONTENT_TYPE, media);
    response
}
