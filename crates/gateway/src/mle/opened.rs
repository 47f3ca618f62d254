//! The second step of opening: content keys come from the keys in this process or from brokers, and tokens are decrypted with them.

use sealway_client::broker::Secret;
use sealway_proto::mle::{Class, NonceGuard, OpenRandoms, Opening, Plaintext, Refusal};
use sealway_runtime::http::Origin;

use super::broker::BrokerKeys;
use super::keys::jose_provider;
use super::message::Fault;
use super::pool::{self, Place};

/// Opens the tokens of one message. `shares_key` says that they have one encrypted key.
///
/// # Errors
/// [`Fault::Refused`], [`Fault::Overload`] before anything was done, [`Fault::Broker`].
pub(super) async fn open_all(
    origin: Option<&Origin>,
    openings: Vec<Opening>,
    shares_key: bool,
    brokers: &BrokerKeys,
) -> Result<Vec<NonceGuard<Plaintext>>, Fault> {
    if !brokers.hold_any(&openings) {
        let content_keys = openings.iter().map(|_| None).collect();
        let operations = if shares_key { 1 } else { openings.len() };
        return Ok(pool::run(origin, operations, move || decrypt(openings, content_keys, shares_key)).await??);
    }
    let place = Place::take(origin, openings.len())?;
    let brokers = brokers.clone();
    // A task of its own: a caller that goes away keeps its place as long as a broker works for it.
    let work = tokio::spawn(async move {
        let content_keys = brokers.unwrap(&openings).await.map_err(|_| Fault::Broker)?;
        Ok(place.run(move || decrypt(openings, content_keys, shares_key)).await??)
    });
    // It ends early only if the work panicked, or the runtime shuts down.
    work.await.map_err(|_| Fault::Overload)?
}

/// Decrypts tokens, with a key of this process where no content key is given. It blocks.
fn decrypt(
    openings: Vec<Opening>,
    content_keys: Vec<Option<Secret>>,
    shares_key: bool,
) -> Result<Vec<NonceGuard<Plaintext>>, Refusal> {
    let provider = jose_provider();
    let mut shared = None;
    let open = |(opening, content_key): (Opening, Option<Secret>)| {
        let randoms = OpenRandoms::draw(provider.base())
            .map_err(|_| Refusal::new(Class::Unwrap, "the generator of random numbers failed"))?;
        if let Some(content_key) = content_key {
            return opening.unwrapped(Some(&content_key), &randoms, provider);
        }
        let unwrap = || opening.wants().unwrap_here();
        let content_key = if shares_key { shared.get_or_insert_with(unwrap).clone() } else { unwrap() };
        opening.unwrapped(content_key.as_ref().map(|key| key.as_slice()), &randoms, provider)
    };
    openings.into_iter().zip(content_keys).map(open).collect()
}
