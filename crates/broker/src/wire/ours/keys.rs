//! The service of keys on our own wire.

use std::sync::Arc;

use prost::Message;
use sealway_proto::broker::v1::{
    DisableRequest, EnableRequest, GenerateRequest, ImportRequest, Key as KeyMessage, KeyResponse, KeyState,
    KeyVersion, ListRequest, ListResponse, PublicKeyRequest, PublicKeyResponse, RotateRequest,
};
use tokio::sync::{Semaphore, SemaphorePermit};
use tonic::{Request, Response, Status};
use zeroize::Zeroize;

use super::super::bounds;
use super::super::call::{NO_ROOM, work_of};
use super::super::generated::v1::keys_server::Keys;
use super::super::status::status;
use super::super::wiped::Wiped;
use super::keyed::Arrived;
use crate::keys::{Algorithm, KEY_ID_LEN_MAX, Key, LIST_MAX, State, Store};
use crate::service::{Allowed, Asked, Done, Service};
use crate::{Code, Refusal};

/// What answers it.
#[derive(Clone, Debug)]
pub(in super::super) struct OurKeys {
    service: Arc<Service>,
    /// A key of RSA takes a processor for up to a minute: many at once would leave none for other calls.
    making: Arc<Semaphore>,
}

/// Keys that are made at a time; others wait for their turn.
const MAKING_MAX: usize = 2;

impl OurKeys {
    pub(in super::super) fn new(service: Arc<Service>) -> OurKeys {
        OurKeys { service, making: Arc::new(Semaphore::new(MAKING_MAX)) }
    }

    async fn turn(&self) -> Result<SemaphorePermit<'_>, Status> {
        self.making.acquire().await.map_err(|_| Status::unavailable("the broker stops"))
    }

    /// Does something with a key, and tells of it.
    async fn run<T: Send>(
        &self,
        arrived: &Arrived,
        operation: &'static str,
        (key, bytes_in): (&str, usize),
        work: impl FnOnce(&Store) -> Result<T, Refusal> + Send,
    ) -> Result<T, Status> {
        let shape = bounds::required("key_id", key.len(), KEY_ID_LEN_MAX);
        // A key that is to be made is not there yet: the store itself says what is missing, so none is looked up here.
        let asked = Asked { operation, wire: "v1", profile: None, key: Some(key), count: 1, bytes_in };
        let work = |_: &Allowed| {
            let store = self.service.store()?;
            Ok(Done { value: work_of(u64::MAX, || work(store))?, key_version: None, bytes_out: 0 })
        };
        arrived.call.run(&self.service, arrived.trace(), asked, shape, work).await.map_err(status)
    }
}

fn algorithm(name: &str) -> Result<Algorithm, Refusal> {
    Algorithm::parse(name).ok_or_else(|| {
        let names: Vec<_> = Algorithm::names().collect();
        Refusal::invalid(format!("algorithm: expected one of {}", names.join(", ")))
    })
}

fn message(key: &Key) -> KeyMessage {
    let version = |version: &crate::keys::Version| KeyVersion {
        version: version.number(),
        state: match version.state() {
            State::Enabled => KeyState::Enabled,
            State::Disabled => KeyState::Disabled,
        }
        .into(),
        created_ms: version.created_ms(),
    };
    KeyMessage {
        key_id: key.id().to_owned(),
        algorithm: key.algorithm().to_string(),
        versions: key.versions().iter().map(version).collect(),
        is_imported: key.is_imported(),
    }
}

fn answer(key: Arc<Key>) -> Response<KeyResponse> {
    Response::new(KeyResponse { key: Some(message(&key)) })
}

#[tonic::async_trait]
impl Keys for OurKeys {
    async fn generate(&self, request: Request<GenerateRequest>) -> Result<Response<KeyResponse>, Status> {
        let (arrived, request) = Arrived::of(request)?;
        let now = self.service.now_ms();
        let _turn = self.turn().await?;
        let made = self.run(&arrived, "GenerateKey", (&request.key_id, 0), |store| {
            store.generate(&request.key_id, algorithm(&request.algorithm)?, now)
        });
        made.await.map(answer)
    }

    async fn import(&self, request: Request<ImportRequest>) -> Result<Response<KeyResponse>, Status> {
        let (arrived, request) = Arrived::of(request)?;
        let request = Wiped::new(request, |request: &mut ImportRequest| request.material.zeroize());
        let now = self.service.now_ms();
        let made = self.run(&arrived, "ImportKey", (&request.key_id, request.material.len()), |store| {
            store.import(&request.key_id, algorithm(&request.algorithm)?, &request.material, now)
        });
        made.await.map(answer)
    }

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        let (arrived, request) = Arrived::of(request)?;
        let peer = arrived.call.peer();
        let limit = usize::try_from(request.limit).ok().filter(|limit| (1..=LIST_MAX).contains(limit));
        let shape = bounds::at_most("after", request.after.len(), KEY_ID_LEN_MAX);
        let asked = Asked { operation: "ListKeys", wire: "v1", profile: None, key: None, count: 1, bytes_in: 0 };
        let work = |_: &Allowed| {
            let store = self.service.store()?;
            let profiles = self.service.profiles.current();
            let value = self.service.with_callers(&profiles, |callers| {
                page(store, &request.after, limit.unwrap_or(LIST_MAX), |key| callers.may_see(peer, key))
            });
            // The longest answer to the shortest question.
            if !arrived.call.holds(value.encoded_len()) {
                return Err(Refusal::new(Code::ResourceExhausted, NO_ROOM));
            }
            Ok(Done { value, key_version: None, bytes_out: 0 })
        };
        let listed = arrived.call.run(&self.service, arrived.trace(), asked, shape, work).await;
        listed.map(Response::new).map_err(status)
    }

    async fn rotate(&self, request: Request<RotateRequest>) -> Result<Response<KeyResponse>, Status> {
        let (arrived, request) = Arrived::of(request)?;
        let request = Wiped::new(request, |request: &mut RotateRequest| request.material.zeroize());
        let now = self.service.now_ms();
        let _turn = self.turn().await?;
        let made = self.run(&arrived, "RotateKey", (&request.key_id, request.material.len()), |store| {
            store.rotate(&request.key_id, &request.material, now)
        });
        made.await.map(answer)
    }

    async fn disable(&self, request: Request<DisableRequest>) -> Result<Response<KeyResponse>, Status> {
        let (arrived, request) = Arrived::of(request)?;
        let made = self
            .run(&arrived, "DisableKey", (&request.key_id, 0), |store| store.disable(&request.key_id, request.version));
        made.await.map(answer)
    }

    async fn enable(&self, request: Request<EnableRequest>) -> Result<Response<KeyResponse>, Status> {
        let (arrived, request) = Arrived::of(request)?;
        let made = self
            .run(&arrived, "EnableKey", (&request.key_id, 0), |store| store.enable(&request.key_id, request.version));
        made.await.map(answer)
    }

    async fn public_key(&self, request: Request<PublicKeyRequest>) -> Result<Response<PublicKeyResponse>, Status> {
        let (arrived, request) = Arrived::of(request)?;
        let made = self.run(&arrived, "PublicKey", (&request.key_id, 0), |store| {
            store.get(&request.key_id)?.public_key(request.version)
        });
        made.await.map(|(version, der)| Response::new(PublicKeyResponse { version, der }))
    }
}

/// The keys that a caller may see, in as many looks at the store as that takes.
fn page(store: &Store, after: &str, limit: usize, may_see: impl Fn(&str) -> bool) -> ListResponse {
    let mut after = after.to_owned();
    let mut keys = Vec::new();
    loop {
        let page = store.list(&after, LIST_MAX);
        for key in page.keys.iter().filter(|key| may_see(key.id())) {
            if keys.len() == limit {
                return ListResponse { keys, has_more: true };
            }
            keys.push(message(key));
        }
        match page.keys.last() {
            Some(last) if page.has_more => after = last.id().to_owned(),
            _ => return ListResponse { keys, has_more: false },
        }
    }
}
