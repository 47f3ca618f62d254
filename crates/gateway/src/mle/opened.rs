//! The second step of opening: content keys come from the keys in this process or from brokers, and tokens are decrypted with them.

use sealway_client::broker::Secret;
use sealway_proto::mle::{Class, NonceGuard, OpenRandoms, Opening, Plaintext, Refusal};
use sealway_runtime::http::Origin;

use super::broker::BrokerKeys;
use super::keys::jose_provider;
use super::message::Fault;
use super::pool::{self, Place};

/// Opens the tokens of one message.
///
/// # Errors
/// [`Fault::Refused`], [`Fault::Overload`] before anything was done, [`Fault::Broker`].
pub(super) async fn open_all(
    origin: Option<&Origin>,
    openings: Vec<Opening>,
    brokers: &BrokerKeys,
) -> Result<Vec<NonceGuard<Plaintext>>, Fault> {
    if !brokers.hold_any(&openings) {
        let content_keys = openings.iter().map(|_| None).collect();
        return Ok(pool::run(origin, openings.len(), move || decrypt(openings, content_keys)).await??);
    }
    let place = Place::take(origin, openings.len())?;
    let brokers = brokers.clone();
    // A task of its own: a caller that goes away keeps its place as long as a broker works for it.
    let work = tokio::spawn(async move {
        let content_keys = brokers.unwrap(&openings).await.map_err(|_| Fault::Broker)?;
        Ok(place.run(move || decrypt(openings, content_keys)).await??)
    });
    // It ends early only if the work panicked, or the runtime shuts down.
    work.await.map_err(|_| Fault::Overload)?
}

/// Decrypts tokens, with a key of this process where no content key is given. It blocks.
fn decrypt(openings: Vec<Opening>, content_keys: Vec<Option<Secret>>) -> Result<Vec<NonceGuard<Plaintext>>, Refusal> {
    let provider = jose_provider();
    let open = |(opening, content_key): (Opening, Option<Secret>)| {
        let randoms = OpenRandoms::draw(provider.base())
            .map_err(|_| Refusal::new(Class::Unwrap, "the generator of random numbers failed"))?;
        match content_key {
            Some(content_key) => opening.unwrapped(Some(&content_key), &randoms, provider),
            None => {
                let content_key = opening.wants().unwrap_here();
                opening.unwrapped(content_key.as_ref().map(|key| key.as_slice()), &randoms, provider)
            }
        }
    };
    openings.into_iter().zip(content_keys).map(open).collect()
}
