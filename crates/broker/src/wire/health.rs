//! The service grpc.health.v1: the broker's status, as a whole (the empty name) and by service.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use sealway_proto::broker::health::health_check_response::ServingStatus;
use sealway_proto::broker::health::{HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse};
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tonic::Status;

use super::Wires;
use crate::call::Call;
use crate::callers::Shares;
use crate::{Code, Refusal, Result};

/// Concurrent streams of `Watch`: each holds its call as long as its caller likes.
const WATCHING_MAX: usize = 1024;

/// Serving status of the broker, true until it is stopped.
#[derive(Clone, Debug)]
pub struct Health {
    serves: watch::Sender<bool>,
    services: Vec<&'static str>,
    watching: Arc<Shares>,
}

impl Health {
    /// Creates a serving status for these services.
    pub(super) fn new(services: Vec<&'static str>) -> Health {
        Health { serves: watch::Sender::new(true), services, watching: Shares::places(WATCHING_MAX) }
    }

    /// Reports all services as not serving, which ends the streams of `Watch`.
    pub fn stop(&self) {
        self.serves.send_replace(false);
    }

    fn knows(&self, service: &str) -> bool {
        service.is_empty() || self.services.contains(&service)
    }
}

fn answer(serves: bool) -> HealthCheckResponse {
    let status = if serves { ServingStatus::Serving } else { ServingStatus::NotServing };
    HealthCheckResponse { status: status.into() }
}

pub(super) async fn check(wires: &Wires, _: &Call, request: HealthCheckRequest) -> Result<HealthCheckResponse> {
    if !wires.health.knows(&request.service) {
        return Err(Refusal::new(Code::NotFound, "unknown service"));
    }
    Ok(answer(*wires.health.serves.borrow()))
}

pub(super) async fn list(wires: &Wires, _: &Call, _: HealthListRequest) -> Result<HealthListResponse> {
    let serves = *wires.health.serves.borrow();
    let names = wires.health.services.iter().copied().chain([""]);
    let statuses: BTreeMap<String, _> = names.map(|name| (name.to_owned(), answer(serves))).collect();
    Ok(HealthListResponse { statuses })
}

type Watch = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

pub(super) async fn watch(wires: &Wires, call: &Call, request: HealthCheckRequest) -> Result<Watch> {
    let health = &wires.health;
    let place = health.watching.take(&call.peer, 1);
    let place =
        place.map_err(|err| Refusal::new(Code::ResourceExhausted, format!("Watch: {err}; use Check instead")))?;
    if !health.knows(&request.service) {
        // The stream stays open, as the service might appear. Here it never does, so the stream ends with the broker.
        let unknown = HealthCheckResponse { status: ServingStatus::ServiceUnknown.into() };
        let mut serves = WatchStream::from_changes(health.serves.subscribe());
        let end = stream::once(async move {
            serves.next().await;
            drop(place);
            Err(Status::unavailable("the broker stops"))
        });
        return Ok(Box::pin(stream::iter([Ok(unknown)]).chain(end)));
    }
    // The stream ends after the final state: a stop must not wait for watchers.
    let begin = (WatchStream::new(health.serves.subscribe()), place, true);
    Ok(Box::pin(stream::unfold(begin, |(mut states, place, goes_on)| async move {
        let serves = if goes_on { states.next().await? } else { return None };
        Some((Ok(answer(serves)), (states, place, serves)))
    })))
}
