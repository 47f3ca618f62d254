//! The behavior of a relay, case by case, over raw WebSockets: the same list for a plain relay, one with TLS, and two nodes.

mod attaching;
mod ending;
mod limits;
mod pairing;
mod replacing;
mod upgrading;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use sealway_proto::relay::{Attach, Claims, Profile, Role};
use sealway_runtime::clock::{Clock, SystemClock};
use sealway_testkit::raw_ws::{Got, RawWs};
use sealway_testkit::relay::{Issuer, Relay, attach, claims, connect, unique};

/// The number of cases that run concurrently.
const TOGETHER: usize = 6;

/// A case: its name and its test.
pub(crate) type Case = (&'static str, fn(&Ground));

/// Returns the cases of all groups.
pub(crate) fn all() -> Vec<Case> {
    [attaching::CASES, pairing::CASES, replacing::CASES, ending::CASES, limits::CASES, upgrading::CASES].concat()
}

/// The relays under test: their arguments, and the number of nodes.
pub(crate) struct Ground {
    pub(crate) binary: &'static str,
    pub(crate) folder: PathBuf,
    pub(crate) issuer: Issuer,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) arguments: Vec<String>,
    /// The additional arguments of each node.
    pub(crate) nodes: fn(&Path) -> Vec<Vec<String>>,
    /// The fleet of all cases that need no fleet of their own.
    pub(crate) shared: Fleet,
}

/// Nodes that serve one set of channels.
pub(crate) struct Fleet {
    pub(crate) relays: Vec<Relay>,
    ca: Option<PathBuf>,
}

impl Fleet {
    pub(crate) fn start(
        binary: &str,
        folder: &Path,
        ca: Option<&Path>,
        nodes: &[Vec<String>],
        arguments: &[&str],
    ) -> Fleet {
        let relays = nodes.iter().map(|own| {
            let all: Vec<&str> = own.iter().map(String::as_str).chain(arguments.iter().copied()).collect();
            Relay::start(binary, folder, &all).unwrap()
        });
        Fleet { relays: relays.collect(), ca: ca.map(Path::to_owned) }
    }

    /// Connects to the first node.
    pub(crate) fn near(&self) -> RawWs {
        connect(self.relays[0].address, self.ca.as_deref())
    }

    /// Connects to the last node.
    pub(crate) fn far(&self) -> RawWs {
        connect(self.relays[self.relays.len() - 1].address, self.ca.as_deref())
    }

    pub(crate) fn upgrade(&self, path: &str, headers: &[(&str, &str)]) -> Result<RawWs, u16> {
        RawWs::connect(self.relays[0].address, self.ca.as_deref(), path, headers).unwrap()
    }
}

pub(crate) fn now_s() -> i64 {
    i64::try_from(SystemClock.now_ms() / 1000).unwrap()
}

impl Ground {
    /// Starts a separate fleet with these arguments.
    pub(crate) fn fleet(&self, arguments: &[&str]) -> Fleet {
        let all: Vec<&str> = self.arguments.iter().map(String::as_str).chain(arguments.iter().copied()).collect();
        Fleet::start(self.binary, &self.folder, self.ca.as_deref(), &(self.nodes)(&self.folder), &all)
    }

    /// Returns valid claims for both ends of a new channel.
    pub(crate) fn pair(&self) -> [Claims; 2] {
        self.pair_until(120)
    }

    /// Returns valid claims for both ends, with so many seconds to begin.
    pub(crate) fn pair_until(&self, seconds: i64) -> [Claims; 2] {
        let (channel, now) = (unique("channel"), now_s());
        [Role::Client, Role::Server].map(|role| claims(&channel, role, now, now + seconds))
    }

    pub(crate) fn message(&self, claims: &Claims) -> Attach {
        attach(&self.issuer, claims, Profile::V1, 1)
    }

    /// Sends the attach message, without waiting for the result.
    pub(crate) fn attach(&self, mut ws: RawWs, claims: &Claims) -> RawWs {
        ws.text(&self.message(claims).encode());
        ws
    }

    /// Attaches as a native endpoint with this instance number.
    pub(crate) fn attach_native(&self, mut ws: RawWs, claims: &Claims, number: u8) -> RawWs {
        ws.text(&attach(&self.issuer, claims, Profile::Native, number).encode());
        ws
    }

    /// Waits until the relay has processed all that was sent: a successful attach has no answer.
    pub(crate) fn known(&self, mut ws: RawWs) -> RawWs {
        ws.answers = false;
        ws.send(0x89, b"known?").unwrap();
        assert_eq!(ws.got(), Got::Frame(0x8a, b"known?".to_vec()));
        ws.answers = true;
        ws
    }

    /// Attaches, and waits until the relay has processed it.
    pub(crate) fn attached(&self, ws: RawWs, claims: &Claims) -> RawWs {
        self.known(self.attach(ws, claims))
    }

    pub(crate) fn waiting(&self, claims: &Claims) -> RawWs {
        self.attached(self.shared.near(), claims)
    }

    /// Returns both ends of a new channel after they are paired.
    pub(crate) fn paired(&self, fleet: &Fleet) -> (RawWs, RawWs) {
        self.paired_as(fleet, &self.pair())
    }

    pub(crate) fn paired_as(&self, fleet: &Fleet, claims: &[Claims; 2]) -> (RawWs, RawWs) {
        let mut client = self.attach(fleet.near(), &claims[0]);
        let mut server = self.attach(fleet.far(), &claims[1]);
        client.binary(b"over");
        assert_eq!(server.message().unwrap(), b"over");
        server.binary(b"back");
        assert_eq!(client.message().unwrap(), b"back");
        (client, server)
    }
}

/// Returns a copy of the claims with a token id of its own.
pub(crate) fn again(claims: &Claims) -> Claims {
    Claims { token_id: unique("token"), ..claims.clone() }
}

pub(crate) fn closed(code: u16, reason: &str) -> Got {
    Got::Close(code, reason.into())
}

/// Returns bytes with the shape of a v1 record.
pub(crate) fn record(len: usize) -> Vec<u8> {
    let mut record = b"FSEC\x01\x00\x00\x00\x00\x00\x00\x00\x00\x01".to_vec();
    record.extend(u32::try_from(len).unwrap().to_be_bytes());
    record.resize(18 + len, 7);
    record
}

/// Runs every case, and reports all that failed.
pub(crate) fn run(ground: &Ground) {
    let cases = all();
    assert!(cases.len() >= 45, "{} cases", cases.len());
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..TOGETHER {
            scope.spawn(|| {
                while let Some((name, case)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if catch_unwind(AssertUnwindSafe(|| case(ground))).is_err() {
                        failed.lock().unwrap().push(*name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {} cases failed: {failed:#?}", failed.len(), cases.len());
}
