//! Faults, and the alerts that are about them. An alert is written as it stands in the rules: severity, name, and the objective
//! if it has one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use sealway_proto::crypto::default_provider;
use sealway_proto::crypto::identity::{SignatureAlgorithm, default_identity_library};
use sealway_proto::relay::Claims;
use sealway_proto::wire::Wire;
use sealway_sessions::identity::KeyFile;
use sealway_testkit::raw_http::Connection;
use sealway_testkit::raw_ws::RawWs;
use sealway_testkit::toxiproxy::Toxic;
use sealway_testkit::wire_client::{WireSession, nonce, now_ms};

use crate::services::{CHANNELS_MAX, CONNECTIONS_MAX, NONCES_MAX, Services, TOKENS_MAX, replace, sign_key_set};
use crate::traffic::{SEALED, Switches, Traffic, attached, pair};

/// Repetitions of a client, where an alert counts more than ten.
const OFTEN: usize = 15;
const DAY_MS: u64 = 86_400_000;

/// Connections that a fault keeps open.
pub(crate) type Connections = (Vec<Connection>, Vec<RawWs>);

pub(crate) struct Fault {
    pub(crate) name: &'static str,
    pub(crate) begin: fn(&Services, &Traffic, &mut Connections),
    /// Alerts that must fire when it begins.
    pub(crate) fires: &'static [&'static str],
    /// Alerts that may fire as well, because the fault has the same effect.
    pub(crate) may_fire: &'static [&'static str],
    /// In the short form, the round in which it begins together with others; 0: it is not part of the short form.
    pub(crate) round: u8,
}

const GATEWAY_FAILS: &str = "page SealwayBudgetBurnsFast gateway-availability";
const GATEWAY_SLOW: &str = "page SealwayBudgetBurnsFast gateway-latency";
const GATEWAY_FAILS_SLOWLY: &str = "ticket SealwayBudgetBurnsSlowly gateway-availability";
const GATEWAY_SLOW_SLOWLY: &str = "ticket SealwayBudgetBurnsSlowly gateway-latency";

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "requests are sent again",
        begin: |services, _, _| {
            let session = session(services);
            let request = session.seal(SEALED, b"{}").0;
            (0..=OFTEN).for_each(|_| drop(request.send(services.shared.address())));
        },
        fires: &["ticket SealwayReplays"],
        may_fire: &[],
        round: 1,
    },
    Fault {
        name: "requests are changed on their way",
        begin: |services, _, _| {
            let session = session(services);
            for _ in 0..OFTEN {
                let request = session.seal(SEALED, b"{\"amount\":5000}").0;
                let mut body = request.body_bytes().to_vec();
                // A character of base64 that stands for other bits.
                body[20] = if body[20] == b'A' { b'B' } else { b'A' };
                let _ = request.body(body).send(services.shared.address());
            }
        },
        fires: &["ticket SealwayTampering"],
        may_fire: &[],
        round: 1,
    },
    Fault {
        name: "a client's clock is an hour behind",
        begin: |services, _, _| {
            let (session, stamp) = (session(services), (now_ms() - 3_600_000).to_string());
            for _ in 0..OFTEN {
                let _ = session.seal_as(SEALED, b"{}", &stamp, &nonce()).0.send(services.shared.address());
            }
        },
        fires: &["ticket SealwayClockSkew"],
        may_fire: &[],
        round: 1,
    },
    Fault {
        name: "a certificate is replaced by something else",
        begin: |services, _, _| replace(&services.path("certs/server.cert.pem"), "no certificate"),
        fires: &["ticket SealwayCertificateReloadFailed"],
        may_fire: &[],
        round: 0,
    },
    Fault {
        name: "the configuration is wrong",
        begin: |services, _, _| {
            services.shared.write_config("listeners: 7\n").unwrap();
            services.shared.hang_up().unwrap();
        },
        fires: &["ticket SealwayConfigReloadFailed"],
        may_fire: &[],
        round: 1,
    },
    Fault {
        name: "a listener is stopped",
        begin: |services, _, _| services.act("/admin/listeners/tls/stop"),
        fires: &["page SealwayListenerDown"],
        may_fire: &[],
        round: 1,
    },
    Fault {
        name: "the last identity key is about to end",
        begin: |services, _, _| {
            let (file, now_ms) = (services.path("shared/keys.identity"), now_ms());
            let mut keys = KeyFile::default();
            keys.generate(
                default_provider(),
                default_identity_library(),
                SignatureAlgorithm::Es256,
                now_ms,
                now_ms + 2 * DAY_MS,
                now_ms,
            )
            .unwrap();
            std::fs::remove_file(&file).unwrap();
            keys.create(&file).unwrap();
        },
        fires: &["ticket SealwayIdentityKeyExpires", "page SealwayIdentityKeyExpires"],
        may_fire: &[],
        round: 0,
    },
    Fault {
        name: "the key set that the root signed is about to end",
        begin: |services, _, _| sign_key_set(services.folder.path(), "2d"),
        fires: &["ticket SealwayKeySetExpires", "page SealwayKeySetExpires"],
        may_fire: &[],
        round: 0,
    },
    Fault {
        name: "the disk of the access log is full",
        begin: |services, _, _| services.shared.forbid_file_writes().unwrap(),
        fires: &["ticket SealwayAccessLogLost"],
        may_fire: &[],
        round: 1,
    },
    Fault {
        name: "a client sends more requests than nonces can be remembered",
        begin: |services, _, _| {
            let address = services.single.address();
            let open = || WireSession::open(address, Wire::V2, "/session/init").unwrap();
            // One session uses the first half; after that each is held to its share.
            let (first, others): (_, Vec<_>) = (open(), (0..NONCES_MAX / 8).map(|_| open()).collect());
            let mut connection = Connection::open(address).unwrap();
            for number in 0..NONCES_MAX {
                let half = NONCES_MAX / 2;
                let session = number.checked_sub(half).map_or(&first, |number| &others[number / 4]);
                let request = session.seal(SEALED, b"{}").0.header("Connection", "keep-alive");
                connection.write(&request.bytes()).unwrap();
                connection.read_answer("POST").unwrap();
            }
        },
        fires: &["ticket SealwayNoncesNearlyFull", "page SealwayNoncesFull"],
        may_fire: &[GATEWAY_FAILS, GATEWAY_FAILS_SLOWLY],
        round: 0,
    },
    Fault {
        name: "a client opens connections and keeps them",
        begin: |services, _, open| {
            let address = services.single.address();
            open.0.extend((0..CONNECTIONS_MAX).map_while(|_| Connection::open(address).ok()));
            // It wants more of them until the service ends: the alert is about rejections that go on.
            std::thread::spawn(move || {
                while Connection::open(address).is_ok() {
                    std::thread::sleep(Duration::from_millis(200));
                }
            });
        },
        fires: &["ticket SealwayConnectionsRejected", "ticket SealwayDescriptorsScarce"],
        may_fire: &[],
        round: 1,
    },
    Fault {
        name: "the audit log cannot grow",
        begin: |services, _, _| services.limit_broker_files(0),
        fires: &["page SealwayBrokerAuditFails", "page SealwayBudgetBurnsFast broker-availability"],
        may_fire: &["ticket SealwayBudgetBurnsSlowly broker-availability"],
        round: 2,
    },
    Fault {
        name: "the profiles are wrong",
        begin: |services, _, _| replace(&services.path("broker/Profiles.yaml"), "- {Name: 7}\n"),
        fires: &["ticket SealwayBrokerReloadFailed"],
        may_fire: &[],
        round: 1,
    },
    Fault {
        name: "a caller wants what its rule does not allow",
        begin: |_, traffic, _| on(traffic, |switches| &switches.is_denied),
        fires: &["ticket SealwayBrokerDenies"],
        may_fire: &[],
        round: 1,
    },
    Fault {
        name: "a caller uses a disabled key",
        begin: |_, traffic, _| on(traffic, |switches| &switches.uses_disabled_key),
        fires: &["ticket SealwayBrokerKeyUnusable"],
        may_fire: &[],
        round: 1,
    },
    Fault {
        name: "callers have long batches signed",
        begin: |_, traffic, _| on(traffic, |switches| &switches.signs_batches),
        fires: &["page SealwayBudgetBurnsFast broker-latency"],
        may_fire: &["ticket SealwayBudgetBurnsSlowly broker-latency"],
        round: 1,
    },
    Fault {
        name: "a token is used again and again",
        begin: |services, _, open| {
            let claims = &pair()[0];
            open.1.extend((0..=OFTEN).map(|_| attach(services, claims)));
        },
        fires: &["ticket SealwayRelayTokensRejected"],
        may_fire: &[],
        round: 1,
    },
    Fault {
        name: "endpoints wait for peers that do not come, and send meanwhile",
        begin: |services, _, open| {
            let text = vec![0; 60 * 1024];
            open.1.extend((0..5).map(|_| {
                let mut ws = attach(services, &pair()[0]);
                (0..4).for_each(|_| ws.send(0x82, &text).unwrap());
                ws
            }));
        },
        fires: &["ticket SealwayRelayBacklog"],
        may_fire: &[],
        round: 1,
    },
    Fault {
        name: "a relay has as many channels as it may",
        begin: |services, _, open| {
            open.1.extend((0..2 * CHANNELS_MAX).map(|_| attach(services, &pair()[0])));
        },
        fires: &["page SealwayBudgetBurnsFast relay-availability"],
        may_fire: &["ticket SealwayBudgetBurnsSlowly relay-availability"],
        round: 1,
    },
    Fault {
        name: "endpoints come and go with new tokens",
        begin: |services, _, _| (0..TOKENS_MAX * 7 / 8).for_each(|_| drop(attach(services, &pair()[0]))),
        fires: &["ticket SealwayRelayTokensNearlyFull"],
        may_fire: &[
            "page SealwayBudgetBurnsFast relay-availability",
            "ticket SealwayBudgetBurnsSlowly relay-availability",
        ],
        round: 0,
    },
    // After those of the relay: endpoints do not connect to it any more.
    Fault {
        name: "certificates have expired, and no new list of revoked ones came",
        begin: |services, _, _| {
            for file in ["server.key.pem", "server.cert.pem", "ca.crl.pem"] {
                let old = std::fs::read(services.path(&format!("old/{file}"))).unwrap();
                replace(&services.path(&format!("certs/{file}")), old);
            }
        },
        fires: &[
            "ticket SealwayCertificateExpires",
            "page SealwayCertificateExpires",
            "ticket SealwayRevocationListStale",
        ],
        // Between the key and its certificate, they do not fit.
        may_fire: &["ticket SealwayCertificateReloadFailed"],
        round: 1,
    },
    Fault {
        name: "the service is slow",
        begin: |services, _, _| services.behaviour.delay_ms.store(400, Ordering::Relaxed),
        fires: &[GATEWAY_SLOW],
        may_fire: &[GATEWAY_SLOW_SLOWLY],
        round: 0,
    },
    Fault {
        name: "the service fails",
        begin: |services, _, _| services.behaviour.fails_each.store(1, Ordering::Relaxed),
        fires: &[GATEWAY_FAILS],
        may_fire: &[GATEWAY_FAILS_SLOWLY],
        round: 0,
    },
    Fault {
        name: "the service fails now and then",
        begin: |services, _, _| services.behaviour.fails_each.store(400, Ordering::Relaxed),
        fires: &[GATEWAY_FAILS_SLOWLY],
        may_fire: &[],
        round: 0,
    },
    Fault {
        name: "the service is away",
        begin: |services, _, _| services.to_service.disable().unwrap(),
        fires: &["ticket SealwayUpstreamDown", GATEWAY_FAILS],
        may_fire: &[GATEWAY_FAILS_SLOWLY],
        round: 1,
    },
    Fault {
        name: "PostgreSQL is slow, and asked more often than it has connections",
        begin: |services, traffic, _| {
            services.ground.to_postgres.add(Toxic::Latency(Duration::from_millis(140))).unwrap();
            on(traffic, |switches| &switches.is_unknown);
        },
        fires: &["ticket SealwayStoreSlow", "ticket SealwayStorePoolExhausted", GATEWAY_SLOW],
        may_fire: &[GATEWAY_SLOW_SLOWLY, GATEWAY_FAILS, GATEWAY_FAILS_SLOWLY, "page SealwayStoreRejects"],
        round: 1,
    },
    Fault {
        name: "Redis is away",
        begin: |services, _, _| services.ground.to_redis.disable().unwrap(),
        fires: &["page SealwayStoreDown", "page SealwayStorePartDown", "page SealwayStoreRejects", GATEWAY_FAILS],
        may_fire: &[GATEWAY_FAILS_SLOWLY, GATEWAY_SLOW, GATEWAY_SLOW_SLOWLY],
        round: 2,
    },
    Fault {
        name: "a relay is killed",
        begin: |services, _, _| services.relay.signal(Signal::KILL).unwrap(),
        fires: &["page SealwayTargetDown"],
        may_fire: &[],
        round: 0,
    },
];

fn session(services: &Services) -> WireSession {
    WireSession::open(services.shared.address(), Wire::V2, "/session/init").unwrap()
}

fn on(traffic: &Traffic, switch: fn(&Switches) -> &AtomicBool) {
    switch(&traffic.switches).store(true, Ordering::Relaxed);
}

fn attach(services: &Services, claims: &Claims) -> RawWs {
    attached(services.relay.address, &services.path("certs/ca.cert.pem"), &services.issuer, claims).unwrap()
}
