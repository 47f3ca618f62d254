//! Traces by OTLP over HTTP: they reach a collector, and hold no plaintext.

use sealway_proto::wire::Wire;
use sealway_testkit::process::Launch;
use sealway_testkit::upstream::{Upstream, answer};
use sealway_testkit::wire_client::WireSession;

use crate::BINARY;

const CONFIG: &str = "
listeners: [{ address: '127.0.0.1:0' }]
routes:
  - { match: { path_prefix: /session/ }, sessions: {} }
  - { match: { path_prefix: /transaction/ }, sealed: required, upstream: shop }
upstreams: { shop: { servers: ['demo:'] } }
";

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_sealed_call_exports_a_span_without_its_contents() {
    let collector = Upstream::answering(|_, _| answer("200 OK", &[], b"")).unwrap();
    let endpoint = format!("http://{}/v1/traces", collector.address);
    let mut server = Launch::new(BINARY, CONFIG).env("SEALWAY_TELEMETRY__OTLP_ENDPOINT", &endpoint).start().unwrap();
    let agreed = WireSession::open(server.address(), Wire::V2, "/session/init").unwrap();
    let (answer, _) = agreed.call("/transaction/purchase", br#"{"schemeCode":"SECRET-SCHEME","amount":5000}"#).unwrap();
    assert_eq!(answer.status, 200);
    // Spans are sent in batches, and at the end.
    assert!(server.stop().unwrap().success());
    let (head, body) = collector.next().unwrap();
    assert_eq!(head.method_and_target(), ("POST", "/v1/traces"));
    assert_eq!(head.header("content-type"), Some("application/x-protobuf"));
    for text in ["sealway", "request", "/transaction/purchase", "routes[1]", "store", "reserve"] {
        assert!(holds(&body, text), "{text}");
    }
    assert!(!holds(&body, "SECRET-SCHEME"));
    // Only spans of Sealway, and not a hundred of its libraries.
    assert!(body.len() < 4096, "{}", body.len());
}
