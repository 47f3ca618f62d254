//! A run's figures while it goes on, for Prometheus (asked, or pushed through a Pushgateway) and OpenTelemetry (OTLP over
//! HTTP, as JSON). docs/operating/metrics.md lists the names.
//!
//! It is fed by [`Event`]s and holds nobody back: there is one place for the newest figures, each second takes it over, and
//! who reads slowly misses some. What cannot be delivered is counted and told at the end, and is no fault of the run.

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

/// From one push to the next.
const PUSH_EVERY: Duration = Duration::from_secs(5);
/// What the last push of all may take.
const FINISH_MAX: Duration = Duration::from_secs(10);

/// Where figures go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exports {
    /// To be asked at, by Prometheus: `GET /metrics`. Whoever reaches the address may read.
    pub(crate) prometheus: Option<SocketAddr>,
    /// A Pushgateway, `http` alone: every 5 s and at the end. Without a path, `/metrics/job/sealway_load`.
    pub(crate) pushgateway: Option<Uri>,
    /// A collector of OTLP over HTTP, `http` alone: every 5 s and at the end. Without a path, `/v1/metrics`.
    pub(crate) otlp: Option<Uri>,
}

impl Exports {
    /// Whether figures go anywhere.
    pub(crate) fn is_any(&self) -> bool {
        *self != Exports::default()
    }
}

/// Why figures cannot be exported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    /// The address cannot be listened on.
    #[error("--prometheus {address}: cannot listen there: {error}; name another address or port")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// What the system said.
        error: std::io::Error,
    },
    /// An address to push to makes no sense.
    #[error("{flag}: {message}")]
    Address {
        /// The flag it came from.
        flag: &'static str,
        /// What is wrong, and what is allowed.
        message: String,
    },
}

/// Exports of one job.
#[derive(Debug)]
pub(crate) struct Exporter {
    newest: watch::Sender<Option<Arc<Snapshot>>>,
    listening: Option<(SocketAddr, JoinHandle<()>)>,
    pushing: Vec<JoinHandle<Option<String>>>,
}

impl Exporter {
    /// Starts listening and pushing. To be called on a Tokio runtime.
    ///
    /// # Errors
    /// When an address cannot be listened on, or is none to push to.
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
        let listening = match exports.prometheus {
            None => None,
            Some(address) => {
                let refused = |error| ExportError::Listen { address, error };
                let listener = std::net::TcpListener::bind(address).map_err(refused)?;
                listener.set_nonblocking(true).map_err(refused)?;
                let listener = TcpListener::from_std(listener).map_err(refused)?;
                let bound = listener.local_addr().map_err(refused)?;
                Some((bound, tokio::spawn(prometheus::serve(listener, figures.clone()))))
            }
        };
        let pushing = pushers.into_iter().map(|pusher| tokio::spawn(pusher.run(figures.clone(), PUSH_EVERY))).collect();
        Ok(Exporter { newest, listening, pushing })
    }

    /// Where it listens; the port is the one it got.
    #[cfg(test)]
    pub(crate) fn listens_at(&self) -> Option<SocketAddr> {
        self.listening.as_ref().map(|(address, _)| *address)
    }

    /// Takes the news. Never waits.
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
            Event::Cell { .. } | Event::Point { .. } | Event::CellDone(_) | Event::Note(_) => {}
        }
    }

    /// Takes all news until there are no more, then ends as [`Exporter::finish`] does.
    pub(crate) async fn follow(self, mut news: mpsc::Receiver<Event>) -> Vec<String> {
        while let Some(event) = news.recv().await {
            self.feed(&event);
        }
        self.finish().await
    }

    /// Pushes the last figures and stops. Takes 10 s at most.
    ///
    /// Returns what a reader should know, a sentence for each place that could not be pushed to.
    pub(crate) async fn finish(self) -> Vec<String> {
        // The end of the channel is what pushers end by.
        drop(self.newest);
        let mut told = Vec::new();
        for pushing in self.pushing {
            let abort = pushing.abort_handle();
            match tokio::time::timeout(FINISH_MAX, pushing).await {
                Ok(Ok(problem)) => told.extend(problem),
                Ok(Err(_)) => {}
                Err(_) => {
                    abort.abort();
                    told.push("The last figures could not be pushed within 10 s.".to_owned());
                }
            }
        }
        if let Some((_, listening)) = self.listening {
            listening.abort();
        }
        told
    }
}

#[cfg(test)]
mod tests;
