//! A client: agrees sessions, buys with any of them at any gateway, and checks the answers.

use std::net::SocketAddr;
use std::sync::Arc;

use sealway_proto::crypto::default_provider;
use sealway_proto::session::{ClientSession, SealBuffer};
use sealway_proto::wire::Wire;
use serde_json::Value;

use super::Plan;
use super::ledger::{Count, Ledger};
use super::peer::{Peer, SendResult};
use crate::raw_http::{Answer, Request};
use crate::wire_client::{PURCHASE, init, nonce, now_ms, open, random};

/// Factor of the pause after a request that was not served.
const AWAY: u32 = 5;
/// Time by which some requests are stamped ahead, in milliseconds.
const AHEAD_MS: u64 = 60_000;
/// Time before its end at which a session is used no more, in milliseconds.
const END_MS: u64 = 5_000;

/// The client of one thread.
#[derive(Debug)]
pub(super) struct Buyer {
    name: String,
    renews: bool,
    wire: Wire,
    plan: Plan,
    peers: Vec<Peer>,
    sessions: Vec<ClientSession>,
    ledger: Arc<Ledger>,
    bought: u64,
}

fn draw(below: usize) -> usize {
    (u64::from_le_bytes(random()) % below.max(1) as u64) as usize
}

/// Returns whether a session lasts for another request.
fn is_usable(session: &ClientSession) -> bool {
    session.expires_ms() >= now_ms() + END_MS
}

impl Buyer {
    pub(super) fn new(index: usize, wire: Wire, plan: Plan, ledger: Arc<Ledger>) -> Self {
        let peers = plan.targets.iter().map(|target| Peer::new(*target, plan.answer_max)).collect();
        // Half of them keep a session until it ends: they go on while no new ones can be agreed.
        let renews = index.is_multiple_of(2);
        Buyer { name: format!("buyer-{index}"), renews, wire, plan, peers, sessions: Vec::new(), ledger, bought: 0 }
    }

    /// Buys until the load stops.
    pub(super) fn run(&mut self) {
        while !self.ledger.has_stopped() {
            // Otherwise sessions that have ended would be drawn more and more often, and the load would fade.
            self.sessions.retain(is_usable);
            let at = draw(self.peers.len());
            let is_served = if self.sessions.is_empty() || (self.renews && draw(self.plan.init_every) == 0) {
                self.agree(at)
            } else {
                let session = draw(self.sessions.len());
                self.buy(session, at)
            };
            std::thread::sleep(if is_served { self.plan.pause } else { self.plan.pause * AWAY });
        }
    }

    /// Calls each session once at `target`.
    pub(super) fn call_every_session(&mut self, target: SocketAddr) -> usize {
        self.peers.push(Peer::new(target, self.plan.answer_max));
        let at = self.peers.len() - 1;
        for session in 0..self.sessions.len() {
            self.buy(session, at);
        }
        self.peers.pop();
        self.sessions.len()
    }

    /// Agrees a session; returns whether the request was served.
    fn agree(&mut self, at: usize) -> bool {
        let (init, request) = init(self.wire, "/session/init", &self.name, None);
        let bytes = request.header("Connection", "keep-alive").bytes();
        let sent = self.peers[at].exchange(&bytes, "init", &self.ledger);
        let Some(answer) = self.settle(sent, bytes, "init") else { return false };
        match init.finish(default_provider(), &answer.body, now_ms(), &mut |_| ()) {
            Ok(session) => {
                self.ledger.add(Count::Inits);
                self.sessions.push(session);
            }
            Err(err) => self.ledger.wrong(format!("init: an answer that cannot be used: {err}")),
        }
        true
    }

    /// Buys; returns whether the request was served.
    fn buy(&mut self, session: usize, at: usize) -> bool {
        let session = &self.sessions[session];
        if !is_usable(session) {
            return true;
        }
        self.bought += 1;
        let (scheme, amount) = (self.name.to_uppercase(), self.bought);
        let order = format!(r#"{{"schemeCode":"{scheme}","amount":{amount}}}"#);
        // A clock that runs ahead: a gateway that has lost its memory must not accept its requests again, either.
        let stamp = (now_ms() + if draw(8) == 0 { AHEAD_MS } else { 0 }).to_string();
        let order = SealBuffer::from(order.as_bytes());
        let sealed = session.seal_as(PURCHASE, order, &stamp, &nonce(), &random(), &mut |_| ());
        let (message, pending) = sealed.expect("sealing");
        let mut request = Request::post(PURCHASE, message.body).header("Content-Type", message.content_type);
        for (name, value) in message.headers {
            request = request.header(name, value);
        }
        let bytes = request.header("Connection", "keep-alive").bytes();
        let sent = self.peers[at].exchange(&bytes, "purchase", &self.ledger);
        let Some(answer) = self.settle(sent, bytes, "purchase") else { return false };
        match open(&pending, &answer).map(|plain| check_receipt(&plain, &scheme, amount)) {
            Ok(Ok(transaction)) => {
                self.ledger.add(Count::Purchases);
                self.ledger.receipt(&transaction);
            }
            Ok(Err(what)) => self.ledger.wrong(format!("purchase: wrong plaintext: {what}")),
            Err(err) => self.ledger.wrong(format!("purchase: an answer that does not open: {err}")),
        }
        true
    }

    /// Captures the request, and checks and counts the answer; returns a 200.
    fn settle(&self, sent: SendResult, bytes: Vec<u8>, what: &str) -> Option<Answer> {
        let answer = match sent {
            SendResult::NotConnected => return None,
            SendResult::Unknown => {
                self.ledger.capture(bytes, false);
                return None;
            }
            SendResult::Answered(answer) => answer,
        };
        self.ledger.capture(bytes, (200..300).contains(&answer.status));
        match answer.status {
            200 => return Some(answer),
            500.. => {}
            400 => self.ledger.add(Count::Refused),
            401 => self.ledger.wrong(format!("{what}: an acknowledged session is unknown: {}", answer.text())),
            status => self.ledger.wrong(format!("{what}: {status} {}", answer.text())),
        }
        None
    }
}

/// Returns the transaction of a receipt, if it is the receipt for this order.
fn check_receipt(plain: &[u8], scheme: &str, amount: u64) -> Result<String, String> {
    let text = || String::from_utf8_lossy(plain).into_owned();
    let receipt: Value = serde_json::from_slice(plain).map_err(|_| text())?;
    let transaction = receipt["transactionId"].as_str().unwrap_or_default();
    let digits = transaction.strip_prefix("TXN-").unwrap_or_default();
    let is_upper_hex = digits.len() == 16 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'A'..=b'F'));
    let is_ours = receipt["status"] == "SUCCESS" && receipt["schemeCode"] == scheme && receipt["amount"] == amount;
    if is_upper_hex && is_ours { Ok(transaction.to_owned()) } else { Err(text()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_for_another_order_is_told_apart() {
        let good = r#"{"status":"SUCCESS","transactionId":"TXN-0123456789ABCDEF","schemeCode":"A","amount":7}"#;
        assert_eq!(check_receipt(good.as_bytes(), "A", 7).as_deref(), Ok("TXN-0123456789ABCDEF"));
        for (bad, scheme, amount) in [
            (good.to_owned(), "B", 7),
            (good.to_owned(), "A", 8),
            (good.replace("SUCCESS", "FAILED"), "A", 7),
            (good.replace("CDEF", "cdef"), "A", 7),
            (good.replace("TXN-0", "TXN-"), "A", 7),
            ("[]".into(), "A", 7),
            ("".into(), "A", 7),
        ] {
            assert!(check_receipt(bad.as_bytes(), scheme, amount).is_err(), "{bad}");
        }
    }
}
