//! The benchmark of the session clients: flows of an init and a sealed purchase by several workers, and the clients' block of
//! figures. Percentiles come from a histogram of all flows that succeeded.
//!
//! `BENCHMARK_CONCURRENCY`, `SESSION_URL`, `SERVER_URL` and `CLIENT_REQUEST_TIMEOUT_MS` are the clients' own variables.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::{Request, Uri};
use sealway_client::{Body, Client, Wire};
use sealway_runtime::config::{ConfigError, Problems};
use tokio::sync::mpsc;

use crate::flags::values;
use crate::record::Times;

/// Default URL of the service.
const URL_DEFAULT: &str = "http://localhost:3000";
/// Paths of the two requests of a flow.
const INIT_PATH: &str = "/session/init";
const PURCHASE_PATH: &str = "/transaction/purchase";
/// Number of flows before the measured time.
const WARM_UP: u64 = 5;
/// Number of flows between two lines of progress.
const PROGRESS: u64 = 100;
/// Plaintext body of each purchase.
const PURCHASE: &[u8] = br#"{"schemeCode":"AEF","amount":5000}"#;

/// Settings of the session clients' benchmark.
#[derive(Clone, Debug)]
pub(crate) struct Benchmark {
    /// URL of the session service.
    pub(crate) url: Uri,
    /// Number of flows in total.
    pub(crate) flows: u64,
    /// Number of workers, at most the number of flows.
    pub(crate) workers: u64,
    /// Time limit of one exchange.
    pub(crate) timeout: Duration,
}

impl Benchmark {
    /// Reads the settings from flags and the clients' variables; a flag takes precedence over its variable.
    ///
    /// # Errors
    /// All problems, a line each.
    pub(crate) fn new(
        url: Option<&str>,
        flows: Option<&String>,
        workers: Option<&String>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let mut problems = Problems::default();
        let flows = values::whole(&mut problems, "--benchmark", flows, 1..=100_000_000).unwrap_or(1000);
        let workers_name = if workers.is_some() { "--concurrency" } else { "BENCHMARK_CONCURRENCY" };
        let workers = workers.cloned().or_else(|| variable("BENCHMARK_CONCURRENCY"));
        let workers = values::whole(&mut problems, workers_name, workers.as_ref(), 1..=10_000).unwrap_or(1);
        let timeout = variable("CLIENT_REQUEST_TIMEOUT_MS");
        let timeout = values::whole(&mut problems, "CLIENT_REQUEST_TIMEOUT_MS", timeout.as_ref(), 1..=3_600_000);
        let (session, server) = (variable("SESSION_URL"), variable("SERVER_URL"));
        if let (Some(session), Some(server), None) = (&session, &server, url)
            && session.trim_end_matches('/') != server.trim_end_matches('/')
        {
            problems.add(
                "SESSION_URL and SERVER_URL",
                "must be equal: this preset uses one server for sessions and purchases",
            );
        }
        let url = url.map(str::to_owned).or(server).or(session).unwrap_or_else(|| URL_DEFAULT.to_owned());
        let url = crate::flags::parse_url(&mut problems, "URL", &url);
        problems.into_result()?;
        let url = url.ok_or_else(|| ConfigError("URL: missing".into()))?;
        let timeout = Duration::from_millis(timeout.unwrap_or(5000));
        Ok(Benchmark { url, flows, workers: workers.min(flows), timeout })
    }
}

/// Times of the flows that succeeded, and the failures.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Times of the inits alone.
    pub(crate) init: Times,
    /// Times of the purchases alone.
    pub(crate) purchase: Times,
    /// Times of an init and its purchase together.
    pub(crate) combined: Times,
    /// Number of flows that failed.
    pub(crate) failed: u64,
    /// Text of the first failure.
    pub(crate) example: Option<String>,
    /// Time from the start of the first flow to the end of the last.
    pub(crate) elapsed: Duration,
}

type Flow = Result<(Duration, Duration), String>;

/// Runs all flows, and passes lines of progress to `progress`. `stop` ends the benchmark after the flows under way.
///
/// # Errors
/// If no client can be made, or the warm-up fails.
pub(crate) async fn run(
    benchmark: &Benchmark,
    stop: Arc<tokio::sync::Notify>,
    progress: impl Fn(&str),
) -> Result<Figures, String> {
    let warm = client(benchmark)?;
    progress(&format!("Warm-up: {WARM_UP} flows"));
    for _ in 0..WARM_UP {
        flow(&warm).await.map_err(|err| format!("the warm-up failed: {err}"))?;
    }
    drop(warm);
    let next = Arc::new(AtomicU64::new(0));
    let (send, mut done) = mpsc::channel(1024);
    let started = Instant::now();
    for _ in 0..benchmark.workers {
        tokio::spawn(worker(client(benchmark)?, Arc::clone(&next), benchmark.flows, send.clone()));
    }
    drop(send);
    let mut figures = Figures::default();
    let mut ended = 0_u64;
    loop {
        let flow = tokio::select! {
            flow = done.recv() => flow,
            () = stop.notified() => {
                next.store(benchmark.flows, Ordering::Relaxed);
                continue;
            }
        };
        let Some(flow) = flow else { break };
        ended += 1;
        figures.add(flow);
        if ended.is_multiple_of(PROGRESS) || ended == benchmark.flows {
            let rate = ended as f64 / started.elapsed().as_secs_f64().max(1e-9);
            progress(&format!(
                "Progress: {ended}/{} | Current RPS: {rate:.2} | Concurrency: {}",
                benchmark.flows, benchmark.workers
            ));
        }
    }
    figures.elapsed = started.elapsed();
    Ok(figures)
}

fn client(benchmark: &Benchmark) -> Result<Client, String> {
    let settings = Client::builder(benchmark.url.clone()).wire(Wire::V2).init_path(INIT_PATH);
    settings.head_timeout(benchmark.timeout).total_timeout(benchmark.timeout).build().map_err(|err| err.to_string())
}

async fn worker(client: Client, next: Arc<AtomicU64>, flows: u64, send: mpsc::Sender<Flow>) {
    while next.fetch_add(1, Ordering::Relaxed) < flows {
        if send.send(flow(&client).await).await.is_err() {
            return;
        }
    }
}

async fn flow(client: &Client) -> Flow {
    client.forget().await;
    let begin = Instant::now();
    client.session().await.map_err(|err| err.to_string())?;
    let init = begin.elapsed();
    let purchase = Request::post(PURCHASE_PATH).body(Body::from(PURCHASE)).map_err(|err| err.to_string())?;
    let answer = client.send(purchase).await.map_err(|err| err.to_string())?;
    if !answer.status().is_success() {
        return Err(format!("the purchase got the status {}", answer.status()));
    }
    Ok((init, begin.elapsed() - init))
}

impl Figures {
    fn add(&mut self, flow: Flow) {
        match flow {
            Ok((init, purchase)) => {
                self.init.record(init);
                self.purchase.record(purchase);
                self.combined.record(init + purchase);
            }
            Err(reason) => {
                self.failed += 1;
                self.example.get_or_insert(reason);
            }
        }
    }

    /// Formats the figures as the session clients print them.
    pub(crate) fn block(&self, workers: u64) -> String {
        let seconds = self.elapsed.as_secs_f64();
        let mut text = format!("\nTest Duration: {seconds:.2} s\n");
        let parts =
            [(INIT_PATH, &self.init), (PURCHASE_PATH, &self.purchase), ("Combined (init + purchase)", &self.combined)];
        for (name, times) in parts {
            let quantiles = times.quantiles();
            let ms = |ns: f64| ns / 1e6;
            let actual = quantiles.count as f64 / seconds.max(1e-9);
            let mean = ms(quantiles.mean_ns);
            let most = if mean > 0.0 { 1000.0 / mean * workers as f64 } else { 0.0 };
            let efficiency = if most > 0.0 { actual / most * 100.0 } else { 0.0 };
            let _ = write!(
                text,
                "\n{name}\n  Throughput: {actual:.2} req/s (actual) | {most:.2} req/s (theoretical max)\n  Efficiency: \
                 {efficiency:.1}%\n  Min/Max/Mean: {:.2}/{:.2}/{mean:.2} ms\n  P50/P95/P99: {:.2}/{:.2}/{:.2} ms\n",
                ms(quantiles.min_ns as f64),
                ms(quantiles.max_ns as f64),
                ms(quantiles.p50_ns as f64),
                ms(quantiles.p95_ns as f64),
                ms(quantiles.p99_ns as f64),
            );
        }
        if self.failed > 0 {
            let example = self.example.as_deref().unwrap_or_default();
            let _ = write!(text, "\nFailed: {} flows; the first: {example}\n", self.failed);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_has_the_clients_figures() {
        let mut figures = Figures { elapsed: Duration::from_secs(2), ..Figures::default() };
        for _ in 0..100 {
            figures.add(Ok((Duration::from_millis(10), Duration::from_millis(30))));
        }
        figures.add(Err("no answer".into()));
        let block = figures.block(4);
        for line in [
            "Test Duration: 2.00 s",
            "/session/init\n  Throughput: 50.00 req/s (actual) | 400.",
            "/transaction/purchase\n",
            "Combined (init + purchase)\n  Throughput: 50.00 req/s (actual) | 100.",
            "  Efficiency: 50.0%",
            "Failed: 1 flows; the first: no answer",
        ] {
            assert!(block.contains(line), "{line} is not in\n{block}");
        }
    }

    #[test]
    fn the_clients_variables_are_taken_and_checked() {
        let of = |pairs: &'static [(&str, &str)]| {
            let variable =
                |name: &str| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            Benchmark::new(None, Some(&"50".to_owned()), None, variable)
        };
        let given = of(&[
            ("BENCHMARK_CONCURRENCY", "8"),
            ("SERVER_URL", "http://a:1"),
            ("SESSION_URL", "http://a:1/"),
            ("CLIENT_REQUEST_TIMEOUT_MS", "700"),
        ])
        .unwrap();
        assert_eq!((given.workers, given.flows, given.timeout.as_millis()), (8, 50, 700));
        assert_eq!(given.url.host(), Some("a"));
        let err = of(&[("BENCHMARK_CONCURRENCY", "0"), ("SERVER_URL", "http://a"), ("SESSION_URL", "http://b")]);
        let err = err.unwrap_err().0;
        assert!(err.contains("BENCHMARK_CONCURRENCY 0: ") && err.contains("SESSION_URL and SERVER_URL: "), "{err}");
    }
}
