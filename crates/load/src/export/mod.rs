//! Live export of a run's figures to Prometheus (scraped, or pushed through a Pushgateway) and OpenTelemetry (OTLP over
//! HTTP, as JSON). docs/reference/metrics.md lists the names.
//!
//! [`Event`]s feed the export, which never delays the run: it keeps only the newest snapshot, and a slow consumer misses
//! some. Failed deliveries are counted and reported at the end; they do not fail the run.

mod metrics;
mod otlp;
mod prometheus;
mod push;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use self::metrics::Snapshot;
use crate::progress::Event;

/// Interval between two pushes to a destination.
const PUSH_EVERY: Duration = Duration::from_secs(5);
/// Maximum time of the last pushes.
const FINISH_MAX: Duration = Duration::from_secs(10);

/// Destinations of a run's figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exports {
    /// Listen address for Prometheus: `GET /metrics`. Everyone who can reach the address may read.
    pub(crate) prometheus: Option<SocketAddr>,
    /// Pushgateway, `http` only, pushed to every 5 s and at the end. Default path: `/metrics/job/sealway_load`.
    pub(crate) pushgateway: Option<Uri>,
    /// OTLP collector over HTTP, `http` only, pushed to every 5 s and at the end. Default path: `/v1/metrics`.
    pub(crate) otlp: Option<Uri>,
}

impl Exports {
    /// Returns whether there is any destination.
    pub(crate) fn is_any(&self) -> bool {
        *self != Exports::default()
    }
}

/// Reason why figures cannot be exported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    /// The address cannot be listened on.
    #[error("--prometheus {address}: cannot listen: {error}; give another address or port")]
    Listen {
        /// Address that the caller gave.
        address: SocketAddr,
        /// Error that the system reported.
        error: std::io::Error,
    },
    /// The address of a push destination is invalid.
    #[error("{flag}: {message}")]
    Address {
        /// Flag that set the address.
        flag: &'static str,
        /// Description of the problem and of the allowed values.
        message: String,
    },
}

/// Running exports of one job.
#[derive(Debug)]
pub(crate) struct Exporter {
    newest: watch::Sender<Option<Arc<Snapshot>>>,
    listening: Option<(SocketAddr, JoinHandle<()>)>,
    pushing: Vec<JoinHandle<Option<String>>>,
}

impl Exporter {
    /// Starts listening and pushing. Must be called on a Tokio runtime.
    ///
    /// # Errors
    /// [`ExportError`] if an address cannot be listened on, or is no valid push destination.
    pub(crate) fn start(exports: &Exports) -> Result<Exporter, ExportError> {
        let (newest, figures) = watch::channel(None);
        let mut pushers = Vec::new();
        for (flag, address, path, form) in [
            ("--pushgateway", &exports.pushgateway, "/metrics/job/sealway_load", push::Form::Prometheus),
            ("--otlp", &exports.otlp, "/v1/metrics", push::Form::Otlp),
        ] {
            if let Some(address) = address {
                pushers.push(push::Pusher::new(flag, address, path, form)?);
            }
        }
        let listen = |address| {
            let listener = std::net::TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let listener = TcpListener::from_std(listener)?;
            let bound = listener.local_addr()?;
            Ok::<_, std::io::Error>((bound, tokio::spawn(prometheus::serve(listener, figures.clone()))))
        };
        let listen = |address| listen(address).map_err(|error| ExportError::Listen { address, error });
        let listening = exports.prometheus.map(listen).transpose()?;
        let pushing = pushers.into_iter().map(|pusher| tokio::spawn(pusher.run(figures.clone(), PUSH_EVERY))).collect();
        Ok(Exporter { newest, listening, pushing })
    }

    /// Returns the address it listens on, with the actual port.
    #[cfg(test)]
    pub(crate) fn listens_at(&self) -> Option<SocketAddr> {
        self.listening.as_ref().map(|(address, _)| *address)
    }

    /// Handles an event. Never waits.
    pub(crate) fn feed(&self, event: &Event) {
        match event {
            Event::Run { plan, .. } => {
                let label: Arc<str> = plan.label.as_str().into();
                self.newest.send_replace(Some(Arc::new(Snapshot::new(label))));
            }
            Event::Tick(tick) => {
                let label = self.newest.borrow().as_ref().map(|snapshot| snapshot.label.clone());
                self.newest.send_replace(Some(Arc::new(Snapshot::of(label.unwrap_or_default(), tick))));
            }
            Event::Outcome(_) => self.newest.send_modify(|newest| {
                if let Some(snapshot) = newest {
                    Arc::make_mut(snapshot).running = false;
                }
            }),
            Event::Cell { .. } | Event::Point { .. } | Event::CellDone(_) => {}
        }
    }

    /// Handles all events until the channel closes, then ends as [`Exporter::finish`] does.
    pub(crate) async fn follow(self, mut news: mpsc::Receiver<Event>) -> Vec<String> {
        while let Some(event) = news.recv().await {
            self.feed(&event);
        }
        self.finish().await
    }

    /// Pushes the last figures and stops. Takes at most 10 s.
    ///
    /// Returns a sentence for each destination that pushes failed for.
    pub(crate) async fn finish(self) -> Vec<String> {
        // The pushers end when the channel closes.
        drop(self.newest);
        let mut problems = Vec::new();
        for pushing in self.pushing {
            let abort = pushing.abort_handle();
            match tokio::time::timeout(FINISH_MAX, pushing).await {
                Ok(Ok(problem)) => problems.extend(problem),
                Ok(Err(_)) => {}
                Err(_) => {
                    abort.abort();
                    problems.push("The last figures could not be pushed within 10 s.".to_owned());
                }
            }
        }
        if let Some((_, listening)) = self.listening {
            listening.abort();
        }
        problems
    }
}

#[cfg(test)]
mod tests;
