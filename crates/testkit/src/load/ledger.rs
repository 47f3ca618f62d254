//! The records of a load: counts, every captured request, and a sentence for every violation.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::summary::Summary;
use crate::raw_http::Answer;
use crate::wire_client::random;

/// Most requests that are kept, the newest; about 700 bytes each.
const CAPTURED_MAX: usize = 250_000;
/// The newest requests, of which every other replay is one. In a long load most others are rejected by their stamps alone.
const RECENT: usize = 10_000;
/// Most sentences that are kept.
const WRONG_MAX: usize = 50;

/// A request as it was sent, and the number of times that it was accepted.
#[derive(Debug)]
pub struct RequestRecord {
    /// The bytes, ready to be sent again on a connection that stays open.
    pub bytes: Box<[u8]>,
    /// Number of times that it was accepted: at most once, however often it is sent.
    accepted: AtomicU32,
}

/// The counts, in the order of [`Summary`]'s fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    Inits,
    Purchases,
    Replays,
    LateFirsts,
    Unavailable,
    Refused,
    NotConnected,
    Broken,
}

/// The records of a load, shared by its threads.
#[derive(Debug, Default)]
pub struct Ledger {
    counts: [AtomicU64; 8],
    slowest_ms: AtomicU64,
    slowest_refusal_ms: AtomicU64,
    captured: Mutex<VecDeque<Arc<RequestRecord>>>,
    transactions: Mutex<HashSet<String>>,
    wrong: Mutex<Vec<String>>,
    stopped: AtomicBool,
}

impl Ledger {
    pub(super) fn add(&self, count: Count) {
        self.counts[count as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self, count: Count) -> u64 {
        self.counts[count as usize].load(Ordering::Relaxed)
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Records a violation, as a sentence.
    pub(super) fn wrong(&self, sentence: String) {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        if wrong.len() < WRONG_MAX {
            wrong.push(sentence);
        }
    }

    /// Captures a request that was sent, and answered with a 2xx or not. Over the bound the oldest is dropped.
    pub fn capture(&self, bytes: Vec<u8>, was_accepted: bool) {
        let mut captured = self.captured.lock().unwrap_or_else(PoisonError::into_inner);
        if captured.len() == CAPTURED_MAX {
            captured.pop_front();
        }
        let accepted = AtomicU32::new(u32::from(was_accepted));
        captured.push_back(Arc::new(RequestRecord { bytes: bytes.into(), accepted }));
    }

    /// Returns every captured request that is kept, the oldest first.
    pub fn captured(&self) -> Vec<Arc<RequestRecord>> {
        self.captured.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Returns one of them: every other time one of the newest, else of any age.
    pub(super) fn pick(&self) -> Option<Arc<RequestRecord>> {
        let captured = self.captured.lock().unwrap_or_else(PoisonError::into_inner);
        let draw = u64::from_le_bytes(random());
        let among = if draw % 2 == 0 { captured.len().min(RECENT) } else { captured.len() };
        let at = (draw / 2).checked_rem(among as u64)? as usize;
        captured.get(captured.len() - 1 - at).cloned()
    }

    /// Records the transaction of a receipt: no two requests may get the same.
    pub(super) fn receipt(&self, transaction: &str) {
        let mut transactions = self.transactions.lock().unwrap_or_else(PoisonError::into_inner);
        if !transactions.insert(transaction.to_owned()) {
            drop(transactions);
            self.wrong(format!("two answers name transaction {transaction}"));
        }
    }

    /// Records any answer; a 5xx must have `Retry-After`.
    pub(super) fn answered(&self, what: &str, answer: &Answer, took: Duration) {
        let took_ms = took.as_millis() as u64;
        self.slowest_ms.fetch_max(took_ms, Ordering::Relaxed);
        if answer.status >= 500 {
            self.unavailable(what, answer.status, !answer.all("retry-after").is_empty());
            self.slowest_refusal_ms.fetch_max(took_ms, Ordering::Relaxed);
        }
    }

    pub(super) fn unavailable(&self, what: &str, status: u16, says_when: bool) {
        self.add(Count::Unavailable);
        if !says_when {
            self.wrong(format!("{what}: {status} without Retry-After"));
        }
    }

    /// Records the answer to a replay.
    pub(super) fn replayed(&self, captured: &RequestRecord, status: u16, where_to: &str) {
        self.add(Count::Replays);
        match status {
            200..300 => match captured.accepted.fetch_add(1, Ordering::SeqCst) {
                // Its first answer was lost, or it was rejected because a store was unavailable: this is its one time.
                0 => self.add(Count::LateFirsts),
                times => {
                    let head = String::from_utf8_lossy(&captured.bytes);
                    let head = head.split("\r\n\r\n").next().unwrap_or_default().replace("\r\n", "; ");
                    self.wrong(format!("replay accepted at {where_to}, {status} for the time {}: {head}", times + 1));
                }
            },
            // Rejected, or undecidable now.
            400 | 401 | 409 | 500.. => {}
            _ => self.wrong(format!("replay answered with {status} at {where_to}")),
        }
    }

    pub(super) fn summary(&self, time: Duration) -> Summary {
        Summary {
            time,
            inits: self.count(Count::Inits),
            purchases: self.count(Count::Purchases),
            replays: self.count(Count::Replays),
            late_firsts: self.count(Count::LateFirsts),
            unavailable: self.count(Count::Unavailable),
            refused: self.count(Count::Refused),
            not_connected: self.count(Count::NotConnected),
            broken: self.count(Count::Broken),
            slowest_ms: self.slowest_ms.load(Ordering::Relaxed),
            slowest_refusal_ms: self.slowest_refusal_ms.load(Ordering::Relaxed),
            wrong: self.wrong.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&str, &str)]) -> Answer {
        let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Answer { status, headers, body: Vec::new() }
    }

    fn wrong(ledger: &Ledger) -> Vec<String> {
        ledger.summary(Duration::ZERO).wrong
    }

    #[test]
    fn a_request_that_is_accepted_twice_is_wrong_whether_its_first_answer_came_or_not() {
        let ledger = Ledger::default();
        ledger.capture(b"POST /known HTTP/1.1\r\n\r\n".to_vec(), true);
        ledger.capture(b"POST /lost HTTP/1.1\r\n\r\n".to_vec(), false);
        let captured = ledger.captured();
        for request in &captured {
            ledger.replayed(request, 400, "here");
            ledger.replayed(request, 503, "here");
        }
        assert_eq!(wrong(&ledger), [""; 0]);
        ledger.replayed(&captured[1], 200, "here");
        assert_eq!(wrong(&ledger), [""; 0], "the answer that was lost");
        ledger.replayed(&captured[0], 200, "here");
        assert!(wrong(&ledger)[0].contains("/known"), "{:?}", wrong(&ledger));
        ledger.replayed(&captured[1], 200, "there");
        assert!(wrong(&ledger)[1].contains("replay accepted at there"), "{:?}", wrong(&ledger));
    }

    #[test]
    fn a_long_load_keeps_the_newest_requests_and_replays_them_often() {
        let ledger = Ledger::default();
        let count = CAPTURED_MAX as u64 + 5;
        (0..count).for_each(|number| ledger.capture(number.to_le_bytes().to_vec(), true));
        let number = |record: &RequestRecord| u64::from_le_bytes((*record.bytes).try_into().unwrap());
        let captured = ledger.captured();
        assert_eq!((captured.len(), number(&captured[0])), (CAPTURED_MAX, 5));
        assert_eq!(captured.last().map(|record| number(record)), Some(count - 1));
        let recent = (0..200).filter(|_| number(&ledger.pick().unwrap()) >= count - RECENT as u64).count();
        assert!((50..150).contains(&recent), "{recent} of 200 are recent");
    }

    #[test]
    fn a_5xx_without_retry_after_and_a_receipt_given_twice_are_wrong() {
        let ledger = Ledger::default();
        ledger.answered("init", &answer(503, &[("Retry-After", "1")]), Duration::from_millis(7));
        ledger.receipt("TXN-1");
        assert_eq!(wrong(&ledger), [""; 0]);
        ledger.answered("init", &answer(502, &[]), Duration::from_millis(5));
        ledger.receipt("TXN-1");
        assert_eq!(wrong(&ledger), ["init: 502 without Retry-After", "two answers name transaction TXN-1"]);
        let summary = ledger.summary(Duration::ZERO);
        assert_eq!((summary.unavailable, summary.slowest_refusal_ms), (2, 7));
    }
}
