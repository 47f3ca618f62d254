//! The network between clients and gateways, which an attacker owns: it drops, delays, duplicates, changes, forges and replays.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use parking_lot::Mutex;
use sealway_proto::session::native::Problem;
use sealway_proto::wire::SessionId;
use tokio::time::{Instant, sleep, timeout};

use crate::gateway::{Gateway, WireAnswer, WireRequest};
use crate::world::World;

/// Requests that the attacker keeps.
const CAPTURED_MAX: usize = 400;

/// An answer as a client gets it.
pub(crate) struct Delivery {
    pub(crate) answer: WireAnswer,
    /// A gateway of the service gave this answer to this request, and the attacker changed neither.
    pub(crate) is_genuine: bool,
    /// The answer is of the service and not of an impostor.
    pub(crate) is_of_service: bool,
}

/// Course of one request through the attacker's network.
#[derive(Default)]
struct Plan {
    before: Duration,
    gateway: usize,
    is_dropped: bool,
    /// Another gateway that gets a copy, and the pause before it.
    copy: Option<(usize, Duration)>,
    is_changed: bool,
    is_to_impostor: bool,
    fate: Fate,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Fate {
    #[default]
    Passed,
    Dropped,
    Swapped,
    Forged,
}

pub(crate) struct Attacker {
    world: Arc<World>,
    gateways: Vec<Arc<Gateway>>,
    impostor: Arc<Gateway>,
    /// Ids of the identity keys: the service's, and the impostor's.
    key_ids: [String; 2],
    captured: Mutex<Vec<WireRequest>>,
    answers: Mutex<Vec<WireAnswer>>,
    sessions: Mutex<Vec<SessionId>>,
}

impl Attacker {
    pub(crate) fn new(
        world: &Arc<World>,
        gateways: &[Arc<Gateway>],
        impostor: &Arc<Gateway>,
        key_ids: [String; 2],
    ) -> Arc<Self> {
        Arc::new(Attacker {
            world: world.clone(),
            gateways: gateways.to_vec(),
            impostor: impostor.clone(),
            key_ids,
            captured: Mutex::default(),
            answers: Mutex::default(),
            sessions: Mutex::default(),
        })
    }

    /// Learns of a session, to revoke it later as the operator.
    pub(crate) fn learn(&self, id: SessionId) {
        self.sessions.lock().push(id);
    }

    fn plan(&self, is_init: bool) -> Plan {
        let mut rng = self.world.rng.lock();
        let before = if rng.chance(50) { rng.range(100, 2500) } else { rng.range(1, 30) };
        let gateway = rng.index(self.gateways.len());
        let copy = rng.chance(120).then(|| {
            let late = if rng.chance(300) { rng.range(50, 6000) } else { rng.range(0, 20) };
            (rng.index(self.gateways.len()), Duration::from_millis(late))
        });
        let fate = match rng.range(0, 99) {
            0..4 => Fate::Dropped,
            4..6 => Fate::Swapped,
            6..9 => Fate::Forged,
            _ => Fate::Passed,
        };
        Plan {
            before: Duration::from_millis(before),
            gateway,
            is_dropped: rng.chance(30),
            copy,
            is_changed: rng.chance(20),
            is_to_impostor: is_init && rng.chance(80),
            fate,
        }
    }

    /// Carries a request of a client to a gateway, and an answer back; `None` if there is none within the client's patience.
    pub(crate) async fn send(&self, client: usize, request: &WireRequest, patience: Duration) -> Option<Delivery> {
        let is_init = request.target == "/v3/sessions";
        let plan = self.plan(is_init);
        self.world.note(&format!("{client} {} {}", request.method, plan.gateway));
        // A copy without pauses overtakes a slow request, and takes its nonce: the attacker leaves half of them alone.
        let is_alone = !request.pauses.is_empty() && plan.before.as_millis().is_multiple_of(2);
        if !is_alone {
            self.capture(request);
        }
        if let Some((gateway, late)) = plan.copy.filter(|_| !is_alone) {
            self.copy(request, gateway, late);
        }
        let carried = async {
            sleep(plan.before).await;
            if plan.is_dropped {
                return std::future::pending().await;
            }
            if plan.is_to_impostor {
                return self.impostor_answers(request).await;
            }
            let request = if plan.is_changed { self.changed(request) } else { request.clone() };
            let gateway = self.gateways.get(plan.gateway)?;
            let answer = gateway.answer(request).await?;
            self.deliver(answer, &plan)
        };
        timeout(patience, carried).await.ok().flatten()
    }

    fn deliver(&self, answer: WireAnswer, plan: &Plan) -> Option<Delivery> {
        let swapped = {
            let mut answers = self.answers.lock();
            let old = (!answers.is_empty()).then(|| {
                let index = self.world.rng.lock().index(answers.len());
                answers.get(index).cloned()
            });
            answers.push(answer.clone());
            if answers.len() > 50 {
                answers.remove(0);
            }
            old.flatten()
        };
        let answer = match plan.fate {
            Fate::Passed => answer,
            Fate::Dropped => return None,
            Fate::Swapped => swapped.unwrap_or(answer),
            Fate::Forged => forged(),
        };
        let is_genuine = plan.fate == Fate::Passed && !plan.is_changed;
        Some(Delivery { answer, is_genuine, is_of_service: true })
    }

    async fn impostor_answers(&self, request: &WireRequest) -> Option<Delivery> {
        let mut answer = self.impostor.answer(request.clone()).await?;
        // It names the service's key as its own, or its own.
        if self.world.rng.lock().chance(500) {
            let [genuine, own] = &self.key_ids;
            answer.body = String::from_utf8_lossy(&answer.body).replace(own, genuine).into_bytes().into();
        }
        Some(Delivery { answer, is_genuine: false, is_of_service: false })
    }

    fn capture(&self, request: &WireRequest) {
        let mut captured = self.captured.lock();
        captured.push(request.clone());
        if captured.len() > CAPTURED_MAX {
            captured.remove(0);
        }
    }

    fn copy(&self, request: &WireRequest, gateway: usize, late: Duration) {
        let Some(gateway) = self.gateways.get(gateway).cloned() else { return };
        let mut request = request.clone();
        request.pauses.clear();
        let world = self.world.clone();
        tokio::spawn(async move {
            sleep(late).await;
            world.count(|counts| counts.replays += 1);
            if let Some(answer) = gateway.answer(request).await {
                note_rejection(&world, &answer);
            }
        });
    }

    /// Changes a bit of the body, or the target, or a header that is sealed.
    fn changed(&self, request: &WireRequest) -> WireRequest {
        let mut request = request.clone();
        let mut rng = self.world.rng.lock();
        match rng.index(3) {
            0 if !request.body.is_empty() => {
                let mut body = request.body.to_vec();
                let at = rng.index(body.len());
                if let Some(byte) = body.get_mut(at) {
                    *byte ^= 1 << rng.index(8);
                }
                request.body = Bytes::from(body);
            }
            1 => request.method = if request.method == "GET" { "POST" } else { "GET" },
            _ => request.target.push('x'),
        }
        request
    }

    /// Sends captured requests again, until a time.
    pub(crate) async fn replay(self: Arc<Self>, until: Instant) {
        while Instant::now() < until {
            let (ms, choice) = {
                let mut rng = self.world.rng.lock();
                (rng.range(20, 250), rng.bits())
            };
            sleep(Duration::from_millis(ms)).await;
            let request = {
                let captured = self.captured.lock();
                // Half of them recent ones: the others are too old for their stamps.
                let len = if choice & 1 == 0 { captured.len().min(20) } else { captured.len() };
                let back = usize::try_from(choice >> 1).unwrap_or(0).checked_rem(len);
                back.and_then(|back| captured.get(captured.len() - 1 - back).cloned())
            };
            if let Some(request) = request {
                self.copy(&request, usize::try_from(choice >> 33).unwrap_or(0) % self.gateways.len(), Duration::ZERO);
            }
        }
    }

    /// Sends the latest captured requests again to all gateways, one after the other.
    pub(crate) async fn replay_all(&self) {
        let captured = self.captured.lock().clone();
        for request in captured.iter().rev().take(40) {
            for gateway in 0..self.gateways.len() {
                self.copy(request, gateway, Duration::ZERO);
            }
            sleep(Duration::from_millis(5)).await;
        }
        sleep(Duration::from_millis(600)).await;
    }

    /// Revokes sessions as the operator does, until a time.
    pub(crate) async fn revoke(self: Arc<Self>, until: Instant) {
        while Instant::now() < until {
            let ms = self.world.rng.lock().range(400, 3000);
            sleep(Duration::from_millis(ms)).await;
            let (id, gateway) = {
                let sessions = self.sessions.lock();
                if sessions.is_empty() {
                    continue;
                }
                let mut rng = self.world.rng.lock();
                let back = rng.index(sessions.len().min(4));
                (sessions.get(sessions.len() - 1 - back).copied(), rng.index(self.gateways.len()))
            };
            let (Some(id), Some(gateway)) = (id, self.gateways.get(gateway)) else { continue };
            self.world.maybe_revoked(&id);
            let is_done = gateway.revoke(&id).await;
            self.world.event(&format!(
                "the operator revokes a session at gateway {gateway}: {is_done}",
                gateway = gateway.index()
            ));
            if is_done {
                self.world.revoked(&id);
            }
        }
    }
}

fn note_rejection(world: &World, answer: &WireAnswer) {
    if Problem::parse(answer.status.as_u16(), &answer.body).is_some_and(|problem| problem.code == "replayed") {
        world.count(|counts| counts.rejected += 1);
    }
}

/// A problem that anybody on the way can write.
fn forged() -> WireAnswer {
    let problem = Problem::new("session_expired");
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::UNAUTHORIZED);
    WireAnswer { status, headers, body: problem.encode().into() }
}
