//! Session keys in PostgreSQL, wrapped by a real broker, at two gateways: a move from a key file to the broker and back, a broker
//! that is down, one that was restarted, a key rotation.

use std::process::Command;

use sealway_client::broker::{Client, Options};
use sealway_proto::wire::Wire;
use sealway_testkit::broker::Broker;
use sealway_testkit::postgres::Postgres;
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::wire_client::{ORDER, PURCHASE, WireSession};

use crate::BINARY;
use crate::exports::wait_for;
use crate::kek::{KEY, block_on};

/// A database, a broker, a key file, and two gateways that use them.
struct Fleet {
    postgres: Postgres,
    folder: tempfile::TempDir,
    place: tempfile::TempDir,
    broker: Broker,
    gateways: Vec<Server>,
    sessions: Vec<WireSession>,
}

impl Fleet {
    fn start(keys: &str) -> Fleet {
        let (folder, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let broker = Broker::start(BINARY, place.path()).unwrap();
        let key = sealway_proto::wire::base64::encode(&sealway_testkit::wire_client::random::<32>());
        std::fs::write(folder.path().join("sessions.kek"), format!("kek-1 {key}\n")).unwrap();
        let postgres = Postgres::start().unwrap();
        let mut fleet = Fleet { postgres, folder, place, broker, gateways: Vec::new(), sessions: Vec::new() };
        block_on(async { fleet.client().generate_key(KEY, "aes-256-gcm").await.unwrap() });
        for _ in 0..2 {
            let gateway = fleet.gateway(keys);
            fleet.gateways.push(gateway);
        }
        fleet.agree();
        fleet
    }

    fn client(&self) -> Client {
        Client::new(Options::new(self.broker.socket()))
    }

    /// Returns the configuration of a gateway whose keys come from a `kek_file`, a `kek_broker`, or both. `BROKER` in `keys`
    /// becomes the broker's settings.
    fn config(&self, keys: &str) -> String {
        let socket = self.place.path().join("broker.sock");
        let keys = keys.replace("BROKER", &format!("socket: '{}', profile: Seal, key: {KEY}", socket.display()));
        format!(
            "
listeners: [{{ address: '127.0.0.1:0' }}]
routes:
  - {{ match: {{ path_prefix: /session/ }}, sessions: {{}} }}
  - {{ match: {{}}, sealed: required, upstream: shop }}
upstreams: {{ shop: {{ servers: ['demo:'] }} }}
sessions:
  store: '{}'
  postgres: {{ migrate: true }}
  {keys}
  anonymous_inits_per_minute: 0
  authenticated_inits_per_minute: 0
",
            self.postgres.url()
        )
    }

    fn gateway(&self, keys: &str) -> Server {
        Launch::new(BINARY, &self.config(keys)).folder(self.folder.path()).start().unwrap()
    }

    /// Opens a session at each gateway.
    fn agree(&mut self) {
        for gateway in &self.gateways {
            self.sessions.push(WireSession::open(gateway.address(), Wire::V2, "/session/init").unwrap());
        }
    }

    /// Checks that every session works at every gateway.
    fn works(&self) {
        for (at, gateway) in self.gateways.iter().enumerate() {
            for (index, session) in self.sessions.iter().enumerate() {
                assert_eq!(call(gateway, session), 200, "session {index} at gateway {at}");
            }
        }
    }

    /// Restarts one gateway after the other. After each restart, new sessions are opened, and all sessions work at both gateways.
    fn roll(&mut self, keys: &str) {
        for at in 0..self.gateways.len() {
            assert_eq!(self.gateways[at].stop().unwrap().code(), Some(0));
            self.gateways[at] = self.gateway(keys);
            self.agree();
            self.works();
        }
    }

    /// Runs `sealway kek` with this action. Returns its success and its output.
    fn kek(&self, action: &str, keys: &str) -> (bool, String) {
        let file = self.folder.path().join("kek.yaml");
        std::fs::write(&file, self.config(keys)).unwrap();
        let output = Command::new(BINARY).args(["kek", action, "--config"]).arg(file).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.success(), text)
    }
}

fn call(gateway: &Server, session: &WireSession) -> u16 {
    session.seal(PURCHASE, ORDER).0.send(gateway.address()).unwrap().status
}

const FILE: &str = "kek_file: sessions.kek";
const FILE_AND_BROKER: &str = "kek_file: sessions.kek\n  kek_broker: { BROKER, wraps: false }";
const BROKER_AND_FILE: &str = "kek_file: sessions.kek\n  kek_broker: { BROKER, wraps: true }";
const BROKER: &str = "kek_broker: { BROKER }";

#[test]
fn sessions_move_from_a_key_file_to_the_broker_and_back_and_none_is_lost() {
    let mut fleet = Fleet::start(FILE);
    let file = fleet.folder.path().join("sessions.kek");
    let aside = fleet.folder.path().join("aside");
    let rotated = |fleet: &Fleet, keys: &str, first: &str| {
        let (is_well, text) = fleet.kek("rotate", keys);
        assert!(is_well && text.contains(&format!("all that live are under {first}")), "{text}");
        let (is_well, text) = fleet.kek("status", keys);
        let all = format!("{first}  wraps and unwraps, {} live sessions", fleet.sessions.len());
        assert!(is_well && text.contains(&all) && text.matches(" 0 live sessions").count() == 1, "{text}");
    };
    // First all gateways can unwrap with both keys, then all wrap with the broker: at no time can a gateway not read a row that
    // the other wrote.
    fleet.roll(FILE_AND_BROKER);
    fleet.roll(BROKER_AND_FILE);
    rotated(&fleet, BROKER_AND_FILE, "sessions:1");
    std::fs::rename(&file, &aside).unwrap();
    fleet.roll(BROKER);
    // The same way back.
    std::fs::rename(&aside, &file).unwrap();
    fleet.roll(BROKER_AND_FILE);
    fleet.roll(FILE_AND_BROKER);
    rotated(&fleet, FILE_AND_BROKER, "kek-1");
    fleet.broker.stop().unwrap();
    fleet.roll(FILE);
}

#[test]
fn while_the_broker_is_away_sessions_at_hand_go_on_and_the_rest_is_503_until_it_is_back() {
    let mut fleet = Fleet::start(BROKER);
    fleet.works();
    // A session that the first gateway has never seen.
    let unseen = WireSession::open(fleet.gateways[1].address(), Wire::V2, "/session/init").unwrap();
    fleet.broker.kill().unwrap();
    fleet.works();
    assert_eq!(call(&fleet.gateways[0], &unseen), 503, "a session that cannot be unwrapped now is not lost");
    assert_eq!(call(&fleet.gateways[1], &unseen), 200);
    let refused = WireSession::open(fleet.gateways[0].address(), Wire::V2, "/session/init").err().unwrap().to_string();
    assert!(refused.contains("503"), "{refused}");
    fleet.broker.start_again().unwrap();
    wait_for("the session is not read again", || call(&fleet.gateways[0], &unseen) == 200);
    wait_for("nothing is agreed again", || {
        WireSession::open(fleet.gateways[0].address(), Wire::V2, "/session/init").is_ok()
    });
    fleet.works();
}

#[test]
fn a_rotation_in_the_broker_under_two_gateways_loses_no_session() {
    let mut fleet = Fleet::start(BROKER);
    block_on(async { fleet.client().rotate_key(KEY, b"").await.unwrap() });
    // New sessions are wrapped by the new version, which the other gateway does not know yet.
    fleet.agree();
    fleet.works();
    let (is_well, text) = fleet.kek("rotate", BROKER);
    assert!(is_well && text.contains("all that live are under sessions:2"), "{text}");
    block_on(async { fleet.client().disable_key(KEY, 1).await.unwrap() });
    fleet.roll(BROKER);
    let (is_well, text) = fleet.kek("status", BROKER);
    let all = format!("sessions:2  wraps and unwraps, {} live sessions", fleet.sessions.len());
    assert!(is_well && text.contains(&all) && !text.contains("sessions:1"), "{text}");
}
