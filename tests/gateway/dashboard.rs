//! The admin page in a real browser: it loads without errors, shows live numbers, and performs confirmed actions.

use std::process::{Command, Stdio};

use sealway_testkit::broker::Broker;
use sealway_testkit::daemon::{free_port, program, root};
use sealway_testkit::process::{ADMIN_TOKEN, Launch};
use sealway_testkit::relay::{Issuer, Relay};

use crate::BINARY;

#[test]
fn the_page_shows_live_numbers_and_stops_and_starts_a_listener_once_that_is_confirmed() {
    let port = free_port().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let _issuer = Issuer::new(folder.path()).unwrap();
    let relay = Relay::start(BINARY, folder.path(), &[]).unwrap();
    let metrics = format!("127.0.0.1:{}", free_port().unwrap());
    let broker = Broker::start_with(BINARY, folder.path(), &["--metrics".as_ref(), metrics.as_ref()]).unwrap();
    let config = format!(
        "
listeners: [{{ name: 'a <b>name</b>', address: '127.0.0.1:{port}' }}]
routes:
  - {{ match: {{ path: /health, path_prefix: /v3/ }}, sessions: {{}} }}
  - {{ name: 'sh<i>op', match: {{ host: [shop.example, '*.a-long-name-of-a-shop.example'], path_prefix: /shop/ }}, upstream: shop }}
  - {{ match: {{ path_prefix: /transaction/ }}, sealed: required, upstream: shop }}
  - {{ match: {{ path_prefix: /sealed-once/ }}, sealed: ehbp, upstream: shop }}
upstreams:
  shop: {{ servers: ['demo:'] }}
  far: {{ servers: ['http://a-long-name-of-a-server.internal.example:8080'] }}
  relay: {{ servers: ['http://{}', 'http://127.0.0.1:1'] }}
  broker: {{ servers: ['http://{metrics}'] }}
sessions: {{ store: 'memory:', identity: {{ allow_generated: true }} }}
admin: {{ address: '127.0.0.1:0', token_file: admin.token, services: [relay, broker] }}
",
        relay.address
    );
    let mut hash = Command::new(BINARY);
    hash.args(["broker", "hash", "--socket"]).arg(broker.socket()).args(["--profile", "Sha256", "x"]);
    assert!(hash.output().unwrap().status.success());
    let server = Launch::new(BINARY, &config).start().unwrap();
    let folder = root().join("tests/dashboard");
    assert!(
        folder.join("node_modules/playwright-core").is_dir(),
        "playwright-core is missing and this test needs it: run scripts/setup-tests.sh"
    );
    let asked = serde_json::json!({
        "url": format!("http://{}/", server.admin()),
        "token": ADMIN_TOKEN,
        "browser": program("chromium").unwrap(),
        "listener": "a <b>name</b>",
        "address": server.address().to_string(),
        // A folder, for pictures in place of the test.
        "shots": std::env::var("SEALWAY_SHOTS").ok(),
    });
    let mut node = Command::new(program("node").unwrap());
    let done = node.arg("drive.mjs").arg(asked.to_string()).current_dir(folder).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    let log = server.log();
    let last = &log[log.len().saturating_sub(20)..];
    assert!(done.status.success(), "{said}{}\n{}", String::from_utf8_lossy(&done.stderr), last.join("\n"));
}
