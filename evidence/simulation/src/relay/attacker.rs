//! An attacker who owns the network of the endpoints: it reads every attach message, and sends it again to all nodes.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sealway_proto::relay::{Attach, Claims};
use sealway_runtime::dial::{ByteStream, Dial};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};

use super::history::{ATTACKER, Attempt, History, short};
use super::link::{frame_len, masked, unmasked};
use super::node::{PENDING_MAX, RelayNode, socket_host};
use crate::net::{Network, Outlet};
use crate::rng::Rng;
use crate::world::World;

/// The attacker's place in the network.
const PLACE: usize = 200;
/// Attach messages that the attacker keeps.
const CAPTURED_MAX: usize = 60;
/// Longest wait for a node's answer: it may ask for 10 s, and goes through a bridge.
const ANSWER_TIME: Duration = Duration::from_secs(14);
/// Close reasons that a node gives before a token is used up, or if it may not have been.
const NOT_ADMITTED: [&str; 14] = [
    "",
    "token replay",
    "node unavailable",
    "invalid token",
    "channel mismatch",
    "role mismatch",
    "expected attach",
    "invalid attach",
    "too many connections",
    "replay memory full",
    "protocol error",
    "relay draining",
    "non binary frame",
    "relay full",
];

/// An attach message on the wire.
#[derive(Clone)]
struct AttachCopy {
    text: Vec<u8>,
    claims: Claims,
}

/// The attacker of a run.
pub(super) struct Attacker {
    world: Arc<World>,
    network: Arc<Network>,
    history: Arc<History>,
    nodes: Vec<Arc<RelayNode>>,
    rng: Mutex<Rng>,
    captured: Mutex<Vec<AttachCopy>>,
}

impl Attacker {
    pub(super) fn new(
        world: &Arc<World>,
        network: &Arc<Network>,
        history: &Arc<History>,
        nodes: &[Arc<RelayNode>],
    ) -> Arc<Self> {
        let rng = Rng::new(world.rng.lock().bits());
        Arc::new(Attacker {
            world: world.clone(),
            network: network.clone(),
            history: history.clone(),
            nodes: nodes.to_vec(),
            rng: Mutex::new(rng),
            captured: Mutex::default(),
        })
    }

    pub(super) fn count_tampered(&self) {
        self.history.count(|counts| counts.tampered += 1);
    }

    /// Keeps an attach message that passes, and may send it to nodes at once.
    pub(super) fn capture(self: &Arc<Self>, frame: &[u8], node: usize) {
        if frame.first() != Some(&0x81) {
            return;
        }
        let text = unmasked(frame);
        let Ok(attach) = Attach::parse(&text) else { return };
        let Some(claims) = Claims::read_unverified(&attach.token) else { return };
        let captured = AttachCopy { text, claims };
        {
            let mut all = self.captured.lock();
            all.push(captured.clone());
            if all.len() > CAPTURED_MAX {
                // Some old ones stay.
                let index = self.rng.lock().index(CAPTURED_MAX / 2);
                all.remove(index);
            }
        }
        let (copies, other) = {
            let mut rng = self.rng.lock();
            (if rng.chance(300) { rng.range(1, 2) } else { 0 }, rng.index(self.nodes.len()))
        };
        for copy in 0..copies {
            self.send(&captured, if copy == 0 { other } else { node });
        }
    }

    /// Sends captured messages again: recent ones and old ones until a time, then each in turn.
    pub(super) async fn replay(self: Arc<Self>, until: Instant) {
        let mut turn = 0;
        loop {
            let is_late = Instant::now() >= until;
            let (ms, choice, node) = {
                let mut rng = self.rng.lock();
                let ms = if is_late { rng.range(50, 300) } else { rng.range(50, 900) };
                (ms, rng.bits(), rng.index(self.nodes.len()))
            };
            sleep(Duration::from_millis(ms)).await;
            let captured = {
                let all = self.captured.lock();
                // Half of them recent ones.
                let len = if choice & 1 == 0 && !is_late { all.len().min(6) } else { all.len() };
                turn += usize::from(is_late);
                let choice = if is_late { turn } else { usize::try_from(choice >> 1).unwrap_or(0) };
                let back = choice.checked_rem(len);
                back.and_then(|back| all.get(all.len() - 1 - back).cloned())
            };
            if let Some(captured) = captured {
                self.send(&captured, node);
            }
        }
    }

    fn send(self: &Arc<Self>, captured: &AttachCopy, node: usize) {
        let (attacker, captured) = (self.clone(), captured.clone());
        self.history.count(|counts| counts.replays += 1);
        tokio::spawn(async move { attacker.probe(captured, node).await });
    }

    /// Attaches with another's message. A node that admits the attacker has its message of more bytes than may wait, and says so.
    async fn probe(&self, captured: AttachCopy, index: usize) {
        let Some(node) = self.nodes.get(index) else { return };
        let outlet = Outlet { network: self.network.clone(), gateway: PLACE };
        let Ok(Ok(stream)) = timeout(ANSWER_TIME, outlet.dial(&socket_host(index), 80)).await else { return };
        let attempt = Attempt {
            claims: captured.claims,
            node: index,
            begun: Instant::now(),
            node_s: node.now_s(),
            by: ATTACKER.into(),
        };
        let reason = timeout(ANSWER_TIME, ask(stream, &captured.text)).await.ok().flatten();
        let Some(reason) = reason else { return };
        match reason.as_str() {
            "token replay" => self.history.count(|counts| counts.rejected += 1),
            "node unavailable" => self.history.unavailable(ATTACKER, index),
            _ => {}
        }
        let token = short(&attempt.claims.token_id);
        self.world.event(&format!("the attacker's token {token} at node {index}: {reason:?}"));
        if !NOT_ADMITTED.contains(&reason.as_str()) {
            self.history.admitted(&attempt, &reason);
        }
    }
}

/// Attaches, sends too much, and returns the reason of the close frame.
async fn ask(mut stream: Box<dyn ByteStream>, attach: &[u8]) -> Option<String> {
    let request = "GET /ws HTTP/1.1\r\nhost: relay\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
                   sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let sent = [masked(0x1, attach), masked(0x2, &[b'x'; PENDING_MAX + 1])].concat();
    stream.write_all(&sent).await.ok()?;
    let (mut input, mut buffer) = (Vec::new(), vec![0; 4096]);
    loop {
        while let Some(len) = frame_len(&input) {
            let frame: Vec<u8> = input.drain(..len).collect();
            if frame.first() == Some(&0x88) {
                let payload = unmasked(&frame);
                return Some(String::from_utf8_lossy(payload.get(2..).unwrap_or_default()).into_owned());
            }
        }
        let len = stream.read(&mut buffer).await.ok().filter(|len| *len > 0)?;
        input.extend_from_slice(buffer.get(..len).unwrap_or_default());
    }
}
