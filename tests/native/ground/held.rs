//! An attacker who delivers a request, holds its answer, makes the gateway lose the session, and forwards the gateway's next
//! answer to the same bytes to the client.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use sealway_testkit::process::{ADMIN_TOKEN, Launch, Server};
use sealway_testkit::raw_http::{Answer, Request};
use sealway_testkit::upstream::{RequestHead, Upstream, answer};

/// The way in which a session is lost after it served a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loss {
    /// The gateway restarts, with an in-memory store.
    Restart,
    /// A second process has the same identity, and a store of its own.
    OtherProcess,
    /// An operator revokes the session.
    Revocation,
}

struct Stage {
    binary: &'static str,
    folder: tempfile::TempDir,
    config: String,
    gateway: Mutex<Server>,
    second: Server,
    loss: Mutex<Option<Loss>>,
}

pub(crate) struct HoldingAttacker {
    /// The address on which the attacker listens.
    pub(crate) middle: Upstream,
    served: Arc<AtomicUsize>,
    stage: Arc<Stage>,
}

impl HoldingAttacker {
    pub(crate) fn start(binary: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let served = Arc::new(AtomicUsize::new(0));
        let count = served.clone();
        let shop = Upstream::answering(move |_, _| {
            count.fetch_add(1, Ordering::SeqCst);
            answer("200 OK", &[("Content-Type", "text/plain")], b"bought")
        });
        let config = format!(
            "
listeners: [{{ address: '127.0.0.1:0' }}]
routes:
  - {{ match: {{ path_prefix: [/v3/sessions, /.well-known/] }}, sessions: {{}} }}
  - {{ match: {{}}, sealed: required, upstream: shop }}
upstreams: {{ shop: {{ servers: ['http://{}'] }} }}
sessions: {{ store: 'memory:', identity: {{ key_file: identity.keys }} }}
admin: {{ address: '127.0.0.1:0', token_file: admin.token }}
",
            shop.unwrap().address
        );
        identity(folder.path());
        let launch = || Launch::new(binary, &config).folder(folder.path()).start().unwrap();
        let (gateway, second) = (launch(), launch());
        let stage = Stage { binary, config, gateway: gateway.into(), second, loss: Mutex::default(), folder };
        let stage = Arc::new(stage);
        let held = stage.clone();
        let middle = Upstream::serve(move |received, connection| {
            let body = connection.read_body(&received.headers, false)?;
            connection.write(&pass(&held, received, &body))?;
            Ok(body)
        });
        HoldingAttacker { middle: middle.unwrap(), served, stage }
    }

    /// Delivers the next sealed request, and then loses its session.
    pub(crate) fn lose(&self, loss: Loss) {
        *self.stage.loss.lock().unwrap() = Some(loss);
    }

    /// Returns the number of requests that the service received.
    pub(crate) fn served(&self) -> usize {
        self.served.load(Ordering::SeqCst)
    }
}

fn identity(folder: &Path) {
    use sealway_proto::crypto::default_provider;
    use sealway_proto::crypto::identity::{SignatureAlgorithm, default_identity_library};
    let (now, day) = (sealway_testkit::wire_client::now_ms(), 86_400_000);
    let mut keys = sealway_sessions::identity::KeyFile::default();
    keys.generate(
        default_provider(),
        default_identity_library(),
        SignatureAlgorithm::Es256,
        now - day,
        now + day,
        now - day,
    )
    .unwrap();
    keys.create(&folder.join("identity.keys")).unwrap();
}

fn pass(stage: &Stage, received: &RequestHead, body: &[u8]) -> Vec<u8> {
    let (method, target) = received.method_and_target();
    let own =
        |name: &str| !["connection", "content-length", "transfer-encoding"].contains(&name.to_lowercase().as_str());
    let mut request = Request::new(method, target).body(body);
    for (name, value) in received.headers.iter().filter(|(name, _)| own(name)) {
        request = request.header(name, value);
    }
    let first = request.send(stage.gateway.lock().unwrap().address()).unwrap();
    let loss = received.header("x-seal").and_then(|_| stage.loss.lock().unwrap().take());
    let told: Answer = match loss {
        None => first,
        Some(loss) => request.send(lose(stage, loss, received)).unwrap(),
    };
    let headers: Vec<_> = told.headers.iter().filter(|(name, _)| own(name)).map(|(a, b)| (&**a, &**b)).collect();
    answer(&format!("{} .", told.status), &headers, &told.body)
}

/// Loses the session. Returns the address to which the same bytes go next.
fn lose(stage: &Stage, loss: Loss, received: &RequestHead) -> SocketAddr {
    let mut gateway = stage.gateway.lock().unwrap();
    match loss {
        Loss::Restart => {
            gateway.kill().unwrap();
            *gateway = Launch::new(stage.binary, &stage.config).folder(stage.folder.path()).start().unwrap();
            gateway.address()
        }
        Loss::OtherProcess => stage.second.address(),
        Loss::Revocation => {
            let id = received.header("x-kid").unwrap().trim_start_matches("session:");
            let revoke = Request::new("DELETE", &format!("/admin/sessions/{id}"));
            let revoke = revoke.header("Authorization", format!("Bearer {ADMIN_TOKEN}"));
            assert!(revoke.send(gateway.admin.unwrap()).unwrap().status < 300);
            gateway.address()
        }
    }
}
