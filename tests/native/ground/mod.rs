//! Fixtures of the tests of wire 3 against tampering: a gateway, the service behind it, and an attacker between client and
//! gateway.

#![allow(clippy::print_stdout, reason = "what was tried, for who looks")]

pub(crate) mod held;
pub(crate) mod middle;
pub(crate) mod recorder;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Mutex;

use sealway_proto::session::native::{KeySet, PendingAnswer, Suite};
use sealway_testkit::native_client::{Link, NativeSession, code, key_set};
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http::{Answer, Request};
use sealway_testkit::wire_client::nonce;

use middle::Middle;
use recorder::{CASE, Recorder};

pub(crate) struct Ground {
    pub(crate) server: Mutex<Server>,
    pub(crate) gateway: SocketAddr,
    pub(crate) recorder: Recorder,
    pub(crate) trusted: KeySet,
    /// The plaintext of each case, and the number of times that its service may receive it completely.
    sent: Mutex<HashMap<String, (Vec<u8>, usize)>>,
    tally: Mutex<BTreeMap<(&'static str, String), usize>>,
}

impl Ground {
    pub(crate) fn start(binary: &'static str) -> Self {
        let recorder = Recorder::start();
        let config = format!(
            "
listeners: [{{ address: '127.0.0.1:0' }}]
routes:
  - {{ match: {{ path_prefix: [/v3/sessions, /.well-known/] }}, sessions: {{}} }}
  - {{ match: {{}}, sealed: required, upstream: shop }}
upstreams: {{ shop: {{ servers: ['http://{}'] }} }}
sessions: {{ store: 'memory:', identity: {{ allow_generated: true }} }}
",
            recorder.address
        );
        // It logs many warnings here, which the test ignores; a panic is an error.
        let server = Launch::new(binary, &config).start().unwrap();
        let gateway = server.address();
        let trusted = key_set(gateway).unwrap();
        Ground {
            server: Mutex::new(server),
            gateway,
            recorder,
            trusted,
            sent: Mutex::default(),
            tally: Mutex::default(),
        }
    }

    pub(crate) fn lane(&self) -> Lane<'_> {
        let middle = Middle::before(self.gateway);
        Lane { ground: self, link: Link::new(middle.address), middle }
    }

    /// Counts an attack that was rejected with this error, which must be one of the permitted ones.
    #[track_caller]
    pub(crate) fn refused(&self, group: &'static str, what: impl Debug, how: &str, allowed: &[&str]) {
        assert!(allowed.contains(&how), "{group}: {what:?} ended with {how}, not with any of {allowed:?}");
        *self.tally.lock().unwrap().entry((group, how.to_owned())).or_default() += 1;
    }

    /// Stops the server, and compares what the service received with what was sent. Prints the number of attacks.
    pub(crate) fn end(self) -> Summary {
        let mut server = self.server.into_inner().unwrap();
        let alive = Request::get("/.well-known/sealway-keys").send(self.gateway).unwrap();
        assert_eq!(alive.status, 200);
        assert!(server.stop().unwrap().success());
        let panics: Vec<_> = server.log().into_iter().filter(|line| line.contains("panic")).collect();
        assert!(panics.is_empty(), "{panics:?}");
        let (parts, whole) = self.recorder.check(&self.sent.into_inner().unwrap());
        let tally = self.tally.into_inner().unwrap();
        for ((group, how), count) in &tally {
            println!("{count:6} {group}: {how}");
        }
        let attacks = tally.values().sum();
        println!("{attacks:6} attacks, all refused; the service got {whole} requests whole and {parts} in part");
        Summary { attacks, whole, parts }
    }
}

/// The counts of a test: rejected attacks, and requests that the service received completely or in part.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) attacks: usize,
    pub(crate) whole: usize,
    pub(crate) parts: usize,
}

/// A client and an attacker, for one thread.
pub(crate) struct Lane<'a> {
    pub(crate) ground: &'a Ground,
    pub(crate) link: Link,
    pub(crate) middle: Middle,
}

impl Lane<'_> {
    pub(crate) fn agree(&mut self, suite: Suite) -> NativeSession {
        NativeSession::open(&mut self.link, &self.ground.trusted, suite).unwrap()
    }

    /// Seals a request under a new case, which may reach the service completely so often.
    pub(crate) fn seal<'s>(
        &self,
        agreed: &'s NativeSession,
        method: &str,
        target: &str,
        parts: &[&[u8]],
        wholes: usize,
    ) -> (Request, PendingAnswer<'s>) {
        let case = nonce();
        let sealed = agreed.seal_as(method, target, &[(CASE, &case)], parts, agreed.stamp_ms());
        self.ground.sent.lock().unwrap().insert(case, (parts.concat(), wholes));
        sealed
    }

    /// Sends a request that the attacker changes. Returns the answer that the client receives.
    pub(crate) fn send_changed(
        &mut self,
        request: &Request,
        change: impl FnOnce(Request) -> Request + Send + 'static,
    ) -> Answer {
        self.middle.change_request(change);
        self.link.send(request).unwrap()
    }

    /// Runs an attack on a request, which must be rejected with one of these errors.
    #[track_caller]
    pub(crate) fn attack(
        &mut self,
        (group, what): (&'static str, &dyn Debug),
        request: &Request,
        change: impl FnOnce(Request) -> Request + Send + 'static,
        allowed: &[&str],
    ) {
        let answer = self.send_changed(request, change);
        self.ground.refused(group, what, &code(&answer), allowed);
    }
}
