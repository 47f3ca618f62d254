//! Health checks and periodic maintenance of servers, with a task for each upstream.

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, HeaderValue, USER_AGENT};
use http::uri::PathAndQuery;
use http::{Request, Uri};
use sealway_runtime::http::{full, read_body};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::UpstreamError;
use super::group::Group;
use super::server::Server;

const CLOSE: HeaderValue = HeaderValue::from_static("close");
const AGENT: HeaderValue = HeaderValue::from_static("sealway-health");
/// Bytes of a check's answer that are read at most.
const BODY_MAX: usize = 64 * 1024;
/// Longest time for a text, and its most bytes.
const TEXT_TIME: Duration = Duration::from_secs(2);
const TEXT_MAX: usize = 4 * 1024 * 1024;
const TIDY_INTERVAL: Duration = Duration::from_secs(1);

/// Settings of health checks.
#[derive(Clone, Debug)]
pub struct HealthSettings {
    /// Path requested by GET; every 2xx is healthy.
    pub path: PathAndQuery,
    /// Interval between two checks.
    pub interval: Duration,
    /// Maximum time for an answer.
    pub timeout: Duration,
    /// Good answers in a row that bring a server back.
    pub healthy: u32,
    /// Bad answers in a row that take a server out.
    pub unhealthy: u32,
}

/// Number of consecutive answers with the same result.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    good: u32,
    bad: u32,
}

/// Checks every server until the task is aborted.
pub(super) async fn check(group: Arc<Group>, settings: HealthSettings) {
    let mut runs = vec![Run::default(); group.servers.len()];
    let mut ticks = interval(settings.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // All at once: a server that does not answer must not delay the checks of others.
        let mut checks = JoinSet::new();
        for (index, server) in group.servers.iter().enumerate() {
            let (group, server, settings) = (group.clone(), server.clone(), settings.clone());
            checks.spawn(async move { (index, ask(&group, &server, &settings).await) });
        }
        while let Some(done) = checks.join_next().await {
            let Ok((index, verdict)) = done else { continue };
            note(&group.servers[index], &mut runs[index], verdict, &settings);
        }
    }
}

/// Checks one server: `Some(Err)` has the reason that it is unhealthy; `None` means that it was not asked.
async fn ask(group: &Group, server: &Arc<Server>, settings: &HealthSettings) -> Option<Result<(), String>> {
    let mut request = Request::new(full(bytes::Bytes::new()));
    *request.uri_mut() = Uri::from(settings.path.clone());
    request.headers_mut().insert(USER_AGENT, AGENT);
    // Over a new connection: opening one is part of the check.
    request.headers_mut().insert(CONNECTION, CLOSE);
    let until = Instant::now() + settings.timeout;
    let answer = match timeout(settings.timeout, group.ask(server, request)).await {
        Err(_) => return Some(Err("no answer to a health check in time".into())),
        Ok(Err(UpstreamError::Overloaded)) => return None,
        Ok(Err(err)) => return Some(Err(err.to_string())),
        Ok(Ok(answer)) => answer,
    };
    let status = answer.status();
    // Read so that the server sees no cut connection; the status alone decides.
    let _ = read_body(answer.into_body(), BODY_MAX, until.saturating_duration_since(Instant::now())).await;
    Some(if status.is_success() { Ok(()) } else { Err(format!("{} to a health check", status.as_u16())) })
}

/// Gets a text of a bounded length from one server, in a bounded time.
pub(super) async fn get(group: &Group, server: &Arc<Server>, path: &'static str) -> Result<String, String> {
    let mut request = Request::new(full(bytes::Bytes::new()));
    *request.uri_mut() = Uri::from_static(path);
    request.headers_mut().insert(CONNECTION, CLOSE);
    let until = Instant::now() + TEXT_TIME;
    let answer = timeout(TEXT_TIME, group.ask(server, request)).await;
    let answer = answer.map_err(|_| "no answer in time".to_owned())?.map_err(|err| err.to_string())?;
    let status = answer.status();
    let body = read_body(answer.into_body(), TEXT_MAX, until.saturating_duration_since(Instant::now())).await;
    if !status.is_success() {
        return Err(format!("{path}: {}", status.as_u16()));
    }
    let body = body.map_err(|err| format!("{path}: {err:?}"))?;
    String::from_utf8(body).map_err(|_| format!("{path}: not UTF-8"))
}

fn note(server: &Server, run: &mut Run, verdict: Option<Result<(), String>>, settings: &HealthSettings) {
    let address = server.address.as_str();
    match verdict {
        None => {}
        Some(Ok(())) => {
            *run = Run { good: run.good.saturating_add(1), bad: 0 };
            if run.good >= settings.healthy && server.set_healthy(true, None) {
                tracing::info!(server = address, "upstream server healthy again");
            }
        }
        Some(Err(why)) => {
            *run = Run { good: 0, bad: run.bad.saturating_add(1) };
            if run.bad >= settings.unhealthy && server.set_healthy(false, Some(why.clone())) {
                tracing::warn!(server = address, why, "upstream server removed from rotation");
            }
        }
    }
}

/// Closes idle connections in time and updates the gauges, until the task is aborted.
pub(super) async fn tidy(group: Arc<Group>) {
    let mut ticks = interval(TIDY_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for server in &group.servers {
            server.tidy();
        }
    }
}
