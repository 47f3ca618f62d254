//! Sealed answers that are kept for a while: a client whose connection broke before the answer came may send the same
//! bytes again, and gets the first answer. The service sees the request once.
//!
//! Bounded, in this process's memory alone; off by default, enabled per route. Only the client that made the request
//! can open a kept answer.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::body::{Body, full};

/// Maximum size of all answers of a route together, in bytes.
const BYTES_MAX: usize = 32 * 1024 * 1024;
/// Maximum number of answers of a route.
const ANSWERS_MAX: usize = 50_000;

/// Hash that identifies a request: its session, its nonce and stamp, and its plaintext.
pub(crate) type Fingerprint = [u8; 32];

/// A sealed answer that is kept.
#[derive(Clone, Debug)]
pub(crate) struct StoredAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// The kept answers of one route.
#[derive(Debug)]
pub struct KeptAnswers {
    life: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Channel on which each answer appears or has appeared.
    answers: HashMap<Fingerprint, watch::Receiver<Option<StoredAnswer>>>,
    /// Requests in the order in which they arrived, and so in which they expire.
    order: VecDeque<(Instant, Fingerprint)>,
    bytes: usize,
}

/// A request in progress at the service. When dropped, it signals that there will be no answer to keep.
pub(crate) struct Promise {
    fingerprint: Fingerprint,
    sender: watch::Sender<Option<StoredAnswer>>,
}

impl KeptAnswers {
    /// Creates a store of answers that are each kept for `life`.
    pub fn new(life: Duration) -> Self {
        KeptAnswers { life, state: Mutex::default() }
    }

    /// Registers a request that was admitted.
    pub(crate) fn begin(&self, fingerprint: Fingerprint) -> Promise {
        let (sender, receiver) = watch::channel(None);
        let mut state = self.state.lock();
        let now = Instant::now();
        state.forget(now);
        let replaced = state.answers.insert(fingerprint, receiver);
        state.release(replaced);
        state.order.push_back((now + self.life, fingerprint));
        Promise { fingerprint, sender }
    }

    /// Keeps the answer to a request, unless the request was forgotten or replaced meanwhile.
    pub(crate) fn keep(&self, promise: &Promise, answer: StoredAnswer) {
        let mut state = self.state.lock();
        let own = promise.sender.subscribe();
        if state.answers.get(&promise.fingerprint).is_some_and(|receiver| receiver.same_channel(&own)) {
            state.bytes += answer.len();
            promise.sender.send_replace(Some(answer));
        }
    }

    /// Returns the answer to a request that was received before; waits for an answer that is in progress.
    pub(crate) async fn find(&self, fingerprint: &Fingerprint) -> Option<StoredAnswer> {
        let mut receiver = {
            let mut state = self.state.lock();
            state.forget(Instant::now());
            state.answers.get(fingerprint)?.clone()
        };
        let answer = tokio::time::timeout(self.life, receiver.wait_for(Option::is_some)).await.ok()?.ok()?;
        answer.clone()
    }
}

impl State {
    /// Removes expired answers, and the oldest ones beyond the bounds: such a request is then rejected as a replay, as
    /// without kept answers.
    fn forget(&mut self, now: Instant) {
        while let Some((end, fingerprint)) = self.order.front() {
            if *end > now && self.bytes <= BYTES_MAX && self.order.len() < ANSWERS_MAX {
                break;
            }
            let removed = self.answers.remove(fingerprint);
            self.release(removed);
            self.order.pop_front();
        }
    }

    /// Releases the bytes of an answer that is kept no longer.
    fn release(&mut self, removed: Option<watch::Receiver<Option<StoredAnswer>>>) {
        let len = removed.map_or(0, |receiver| receiver.borrow().as_ref().map_or(0, StoredAnswer::len));
        self.bytes = self.bytes.saturating_sub(len);
    }
}

impl StoredAnswer {
    /// Returns the size of the answer, in bytes.
    fn len(&self) -> usize {
        let headers = self.headers.iter().map(|(name, value)| name.as_str().len() + value.len());
        self.body.len() + headers.sum::<usize>()
    }

    /// Returns the kept answer as a response.
    pub(crate) fn response(self) -> Response<Body> {
        let mut response = Response::new(full(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn kept(len: usize) -> StoredAnswer {
        StoredAnswer { status: StatusCode::OK, headers: HeaderMap::new(), body: vec![0; len].into() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_kept_answer_lasts_for_its_time_and_waiters_get_a_pending_one() {
        let answers = Arc::new(KeptAnswers::new(Duration::from_secs(60)));
        assert!(answers.find(&[1; 32]).await.is_none());
        let promise = answers.begin([1; 32]);
        let waiting = tokio::spawn({
            let answers = answers.clone();
            async move { answers.find(&[1; 32]).await }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        answers.keep(&promise, kept(3));
        assert_eq!(waiting.await.unwrap().unwrap().body.len(), 3);
        assert!(answers.find(&[1; 32]).await.is_some() && answers.find(&[2; 32]).await.is_none());
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(answers.find(&[1; 32]).await.is_none());
        assert_eq!(answers.state.lock().bytes, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_for_an_answer_that_is_not_kept_fails_at_once() {
        let answers = KeptAnswers::new(Duration::from_secs(60));
        let promise = answers.begin([1; 32]);
        let before = Instant::now();
        let (found, ()) = tokio::join!(answers.find(&[1; 32]), async { drop(promise) });
        assert!(found.is_none() && before.elapsed() < Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_comes_when_its_request_is_forgotten_takes_no_room() {
        let answers = KeptAnswers::new(Duration::from_secs(60));
        let promise = answers.begin([1; 32]);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(answers.find(&[1; 32]).await.is_none());
        answers.keep(&promise, kept(3));
        assert_eq!(answers.state.lock().bytes, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_replaced_takes_no_room() {
        let answers = KeptAnswers::new(Duration::from_secs(60));
        let replaced = [answers.begin([1; 32]), answers.begin([1; 32])];
        replaced.iter().for_each(|promise| answers.keep(promise, kept(3)));
        let promise = answers.begin([1; 32]);
        answers.keep(&replaced[1], kept(5));
        answers.keep(&promise, kept(7));
        assert_eq!(answers.state.lock().bytes, 7);
        assert_eq!(answers.find(&[1; 32]).await.unwrap().body.len(), 7);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(answers.find(&[1; 32]).await.is_none());
        assert_eq!(answers.state.lock().bytes, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_answer_is_evicted_at_the_bound() {
        let answers = KeptAnswers::new(Duration::from_secs(60));
        for number in 0..4 {
            let promise = answers.begin([number; 32]);
            answers.keep(&promise, kept(BYTES_MAX / 3));
        }
        assert!(answers.find(&[0; 32]).await.is_none() && answers.find(&[3; 32]).await.is_some());
    }
}
