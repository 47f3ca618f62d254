//! The key service of our own wire.

use prost::Message;
use sealway_proto::broker::v1::{
    DisableRequest, EnableRequest, GenerateRequest, ImportRequest, Key as KeyMessage, KeyResponse, KeyState,
    KeyVersion, ListRequest, ListResponse, PublicKeyRequest, PublicKeyResponse, RotateRequest,
};
use tokio::sync::SemaphorePermit;
use zeroize::Zeroizing;

use crate::call::Call;
use crate::callers::{Callers, Peer};
use crate::keys::{Algorithm, KEY_ID_LEN_MAX, Key, LIST_MAX, State, Store};
use crate::operation;
use crate::profile::policy::Profile;
use crate::service::{Grant, NO_ROOM, Outcome, Query, work_of};
use crate::wire::{Wires, bounds};
use crate::{Code, Refusal, Result};

fn query<'a>(call: &'a Call, operation: &'static str, key: Option<&'a str>) -> Query<'a> {
    Query { operation, wire: call.method.own_wire(), key, count: 1, trace: call.trace(), ..Query::default() }
}

/// Waits for a turn to generate a key.
pub(in crate::wire) async fn turn(wires: &Wires) -> Result<SemaphorePermit<'_>> {
    wires.making.acquire().await.map_err(|_| Refusal::new(Code::Unavailable, "the broker stops"))
}

/// Runs an operation on a key of the store, which may not exist yet: the store reports a missing key.
pub(in crate::wire) async fn run<T: Send>(
    wires: &Wires,
    call: &Call,
    operation: &'static str,
    (key, bytes_in): (&str, usize),
    work: impl FnOnce(&Store) -> Result<T> + Send,
) -> Result<T> {
    let shape = bounds::required("key_id", key.len(), KEY_ID_LEN_MAX);
    let work = |_: &Grant| {
        let store = wires.service.store()?;
        Ok(Outcome::new(work_of(u64::MAX, || work(store))?, 0))
    };
    let query = Query { bytes_in, ..query(call, operation, Some(key)) };
    Ok(wires.service.run(call, query, shape, work).await?.value)
}

fn algorithm(name: &str) -> Result<Algorithm> {
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
        current_version: 0,
        public_key: Vec::new(),
    }
}

fn response(key: &Key) -> KeyResponse {
    KeyResponse { key: Some(message(key)) }
}

pub(crate) async fn generate(wires: &Wires, call: &Call, request: GenerateRequest) -> Result<KeyResponse> {
    let now = wires.service.now_ms();
    let _turn = turn(wires).await?;
    let work =
        |store: &Store| store.generate(&request.key_id, algorithm(&request.algorithm)?, now).map(|key| response(&key));
    run(wires, call, "GenerateKey", (&request.key_id, 0), work).await
}

pub(crate) async fn import(wires: &Wires, call: &Call, mut request: ImportRequest) -> Result<KeyResponse> {
    let material = Zeroizing::new(std::mem::take(&mut request.material));
    let now = wires.service.now_ms();
    let work = |store: &Store| {
        store.import(&request.key_id, algorithm(&request.algorithm)?, &material, now).map(|key| response(&key))
    };
    run(wires, call, "ImportKey", (&request.key_id, material.len()), work).await
}

pub(crate) async fn list(wires: &Wires, call: &Call, request: ListRequest) -> Result<ListResponse> {
    let limit = usize::try_from(request.limit).ok().filter(|limit| (1..=LIST_MAX).contains(limit));
    let named = Some(request.profile.as_str()).filter(|profile| !profile.is_empty());
    let shape = bounds::at_most("after", request.after.len(), KEY_ID_LEN_MAX)
        .and_then(|()| named.map_or(Ok(()), bounds::profile));
    let work = |grant: &Grant| {
        let store = wires.service.store()?;
        let profiles = wires.service.profiles.current();
        let limit = limit.unwrap_or(LIST_MAX);
        let keys = wires.service.with_callers(&profiles, |callers| match named {
            None => {
                let visible = |key: &Key| Ok(callers.may_see(&call.peer, key.id()).then(|| message(key)));
                page(store, &request.after, limit, visible)
            }
            Some(_) => {
                let profile = grant.profile();
                let usable = |key: &Key| match &profile {
                    Ok(profile) => usable(callers, &call.peer, profile, key),
                    Err(refusal) => Err(refusal.clone()),
                };
                // Keys that were not used yet are unwrapped here.
                work_of(u64::MAX, || page(store, &request.after, limit, usable))
            }
        })?;
        // A short request can have the longest answer.
        if !call.holds(keys.encoded_len()) {
            return Err(Refusal::new(Code::ResourceExhausted, NO_ROOM));
        }
        Ok(Outcome::new(keys, 0))
    };
    let query = Query { profile: named, ..query(call, "ListKeys", None) };
    Ok(wires.service.run(call, query, shape, work).await?.value)
}

pub(crate) async fn rotate(wires: &Wires, call: &Call, mut request: RotateRequest) -> Result<KeyResponse> {
    let material = Zeroizing::new(std::mem::take(&mut request.material));
    let now = wires.service.now_ms();
    let _turn = turn(wires).await?;
    let work = |store: &Store| store.rotate(&request.key_id, &material, now).map(|key| response(&key));
    run(wires, call, "RotateKey", (&request.key_id, material.len()), work).await
}

pub(crate) async fn disable(wires: &Wires, call: &Call, request: DisableRequest) -> Result<KeyResponse> {
    let work = |store: &Store| store.disable(&request.key_id, request.version).map(|key| response(&key));
    run(wires, call, "DisableKey", (&request.key_id, 0), work).await
}

pub(crate) async fn enable(wires: &Wires, call: &Call, request: EnableRequest) -> Result<KeyResponse> {
    let work = |store: &Store| store.enable(&request.key_id, request.version).map(|key| response(&key));
    run(wires, call, "EnableKey", (&request.key_id, 0), work).await
}

pub(crate) async fn public_key(wires: &Wires, call: &Call, request: PublicKeyRequest) -> Result<PublicKeyResponse> {
    let work = |store: &Store| store.get(&request.key_id)?.public_key(request.version);
    let (version, der) = run(wires, call, "PublicKey", (&request.key_id, 0), work).await?;
    Ok(PublicKeyResponse { version, der })
}

/// Operations of a profile for which its keys are listed.
const USES: [&str; 5] = ["SignData", "SignDigest", "VerifyData", "VerifyDigest", "Unwrap"];

/// Describes a key with its public half, if the caller may use it in one of [`USES`] under the profile, and may have the
/// public half. A key whose versions are all disabled is not usable.
///
/// # Errors
/// The key-encryption key is busy or away: the list would be without a key that the caller may use.
fn usable(callers: &Callers, peer: &Peer, profile: &Profile, key: &Key) -> Result<Option<KeyMessage>> {
    let is_allowed = |operation: &&str| callers.allows(peer, operation, Some(&profile.name), Some(key.id())).is_ok();
    let fits = |operation: &&str| match *operation {
        "Unwrap" => profile.unwrap.is_some() && matches!(key.algorithm(), Algorithm::RsaUnwrap(_)),
        _ => operation::may_sign(profile, key),
    };
    let is_usable = USES.iter().any(|operation| fits(operation) && is_allowed(operation))
        && callers.allows(peer, "PublicKey", None, Some(key.id())).is_ok();
    let public = if is_usable { key.usable_public_key()? } else { None };
    Ok(public.map(|(current_version, public_key)| KeyMessage { current_version, public_key, ..message(key) }))
}

/// Lists the keys that a caller may see, with as many reads of the store as needed.
fn page(
    store: &Store,
    after: &str,
    limit: usize,
    shown: impl Fn(&Key) -> Result<Option<KeyMessage>>,
) -> Result<ListResponse> {
    let mut after = after.to_owned();
    let mut keys = Vec::new();
    loop {
        let page = store.list(&after, LIST_MAX);
        for key in page.keys.iter().filter_map(|key| shown(key).transpose()) {
            if keys.len() == limit {
                return Ok(ListResponse { keys, has_more: true });
            }
            keys.push(key?);
        }
        match page.keys.last() {
            Some(last) if page.has_more => after = last.id().to_owned(),
            _ => return Ok(ListResponse { keys, has_more: false }),
        }
    }
}
