//! grpc.health.v1: whether the broker serves, as a whole (the empty name) and by service.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use sealway_proto::broker::health::health_check_response::ServingStatus;
use sealway_proto::broker::health::{HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse};
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status};

use super::call::Call;
use super::generated::health::health_server;
use crate::shares::{Place, Shares};

/// Streams of `Watch` at a time: each holds its call for as long as its caller likes.
const WATCHING_MAX: usize = 1024;

/// Tells whether the broker serves. It does until told otherwise.
#[derive(Clone, Debug)]
pub struct Health {
    serves: watch::Sender<bool>,
    services: Vec<&'static str>,
    watching: Arc<Shares>,
}

impl Health {
    /// Serving, with these services.
    pub(super) fn new(services: Vec<&'static str>) -> Health {
        Health { serves: watch::Sender::new(true), services, watching: Shares::new(WATCHING_MAX) }
    }

    /// From now on everything is told not to serve, and streams of those who watch end with that.
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

#[tonic::async_trait]
impl health_server::Health for Health {
    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        if !self.knows(&request.get_ref().service) {
            return Err(Status::not_found("unknown service"));
        }
        Ok(Response::new(answer(*self.serves.borrow())))
    }

    async fn list(&self, _: Request<HealthListRequest>) -> Result<Response<HealthListResponse>, Status> {
        let serves = *self.serves.borrow();
        let names = self.services.iter().copied().chain([""]);
        let statuses: BTreeMap<String, _> = names.map(|name| (name.to_owned(), answer(serves))).collect();
        Ok(Response::new(HealthListResponse { statuses }))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let place = self.watching.place(Call::of(&request)?.peer());
        let place = place.map_err(|err| Status::resource_exhausted(format!("Watch: {err}; use Check instead")))?;
        if !self.knows(&request.get_ref().service) {
            // The stream stays open, for the service might come: ours never does, so it ends with the broker.
            let unknown = HealthCheckResponse { status: ServingStatus::ServiceUnknown.into() };
            let mut serves = WatchStream::from_changes(self.serves.subscribe());
            let end = futures_util::stream::once(async move {
                serves.next().await;
                drop(place);
                Err(Status::unavailable("the broker stops"))
            });
            return Ok(Response::new(Box::pin(tokio_stream::once(Ok(unknown)).chain(end))));
        }
        let states = WatchStream::new(self.serves.subscribe());
        Ok(Response::new(Box::pin(UntilStopped { states, is_over: false, _place: place })))
    }
}

/// Ends after the state that is the last: a stop must not wait for those who watch.
struct UntilStopped {
    states: WatchStream<bool>,
    is_over: bool,
    _place: Place,
}

impl Stream for UntilStopped {
    type Item = Result<HealthCheckResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let next = ready!(Pin::new(&mut self.states).poll_next(cx));
        self.is_over = next != Some(true);
        Poll::Ready(next.map(|serves| Ok(answer(serves))))
    }
}
