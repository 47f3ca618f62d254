//! HTTP/2 against h2spec, an independent test of RFC 9113 and RFC 7541, in its strict form, on a listener without TLS and
//! on one with.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use sealway_testkit::certificates::Certificates;
use sealway_testkit::daemon::program;
use sealway_testkit::process::Launch;

use crate::BINARY;

/// A case that fails on the listener that also speaks HTTP/1. An invalid HTTP/2 preface is a request line of HTTP/1 there: the
/// gateway answers 400, which h2spec reads as an invalid frame. The TLS listener, on which ALPN selects HTTP/2, passes the case.
const NOT_FOR_BOTH: &str = "2: Sends invalid connection preface";
/// The fewest cases of this version of h2spec. Fewer mean that it has stopped early.
const CASES_MIN: usize = 140;

/// Runs h2spec. Returns the failed cases and the number of all cases.
fn h2spec(to: SocketAddr, arguments: &[&str]) -> (Vec<String>, usize) {
    let port = to.port().to_string();
    let ran = Command::new(program("h2spec").unwrap())
        .args(["--strict", "-h", "127.0.0.1", "-p", &port, "-o", "10"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    // `146 tests, 142 passed, 4 skipped, 0 failed`
    let summary = text.lines().rev().find(|line| line.contains(" tests, ")).unwrap_or_else(|| panic!("{text}"));
    let count = |what: &str| {
        let part = summary.split(", ").find(|part| part.ends_with(what));
        part.and_then(|part| part.split(' ').next()?.parse::<usize>().ok()).unwrap_or_else(|| panic!("{summary}"))
    };
    let failures = text.split_once("\nFailures:").map_or("", |(_, failures)| failures);
    let failed = failures.lines().filter_map(|line| line.trim().strip_prefix("× ")).map(str::to_owned);
    let failed: Vec<_> = failed.collect();
    assert_eq!(failed.len(), count("failed"), "{text}");
    (failed, count("tests"))
}

#[test]
fn every_case_passes_with_tls_and_without() {
    let folder = tempfile::tempdir().unwrap();
    let made = Certificates::make(folder.path(), "DNS:localhost,IP:127.0.0.1", "nobody").unwrap();
    let (cert, key) = (made.server.0.display(), made.server.1.display());
    let config = format!(
        "
listeners:
  - {{ address: '127.0.0.1:0' }}
  - {{ address: '127.0.0.1:0', tls: {{ cert: '{cert}', key: '{key}' }} }}
routes: [{{ match: {{ path_prefix: / }}, standalone: ok, delay_ms: 30 }}]
"
    );
    // An immediate answer would close a stream before its invalid trailers arrive, and the gateway would not check them.
    let server = Launch::new(BINARY, &config).start().unwrap();
    let addresses = &server.addresses;
    let (failed, cases) = h2spec(addresses[0], &[]);
    assert!(failed.iter().all(|case| case == NOT_FOR_BOTH) && cases >= CASES_MIN, "{cases} cases, failed: {failed:#?}");
    let (failed, cases) = h2spec(addresses[1], &["-t", "-k"]);
    assert!(failed.is_empty() && cases >= CASES_MIN, "{cases} cases, failed with TLS: {failed:#?}");
}
