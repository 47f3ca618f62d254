//! Sends captured requests again: of every age, at every gateway, some at all of them at once.

use std::time::Instant;

use super::Plan;
use super::ledger::Ledger;
use super::peer::{Peer, SendResult};
use crate::wire_client::random;

/// Replays until the load stops.
pub(super) fn run(plan: &Plan, ledger: &Ledger) {
    let mut peers: Vec<Peer> = plan.targets.iter().map(|target| Peer::new(*target, plan.answer_max)).collect();
    while !ledger.has_stopped() {
        std::thread::sleep(plan.pause);
        let Some(captured) = ledger.pick() else { continue };
        let [how, at] = random::<2>().map(usize::from);
        // One time in four at all gateways at once: equal requests race.
        let chosen = if how % 4 == 0 { 0..peers.len() } else { at % peers.len()..at % peers.len() + 1 };
        let started = Instant::now();
        let mut written = Vec::new();
        for peer in &mut peers[chosen] {
            if peer.write(&captured.bytes, ledger) {
                written.push(peer);
            }
        }
        for peer in written {
            if let SendResult::Answered(answer) = peer.read(started, "replay", ledger) {
                ledger.replayed(&captured, answer.status, &peer.address.to_string());
            }
        }
    }
}
