//! TLS scanners at a real listener: they find nothing except that its authority is private. testssl.sh takes a minute, and only
//! `make scan-tls` runs it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::tls_ground::Ground;

fn run(program: PathBuf, arguments: &[&str], install: &str) -> String {
    let done = Command::new(&program).args(arguments).stdin(Stdio::null()).output();
    let done = done.unwrap_or_else(|err| panic!("cannot run {}: {err}; {install}", program.display()));
    String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr)
}

fn report(path: &str, said: &str) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|err| panic!("{err}: {said}"));
    serde_json::from_str(&text).unwrap_or_else(|err| panic!("{err}: {text}"))
}

#[test]
fn sslyze_is_content_with_the_listener() {
    let ground = Ground::new();
    let serving = ground.serve();
    let sslyze = sealway_testkit::daemon::root().join(".venv/scan/bin/sslyze");
    let (ca, json, to) = (ground.cert("ca.cert.pem"), ground.text("sslyze.json"), serving.https.port());
    let arguments = ["--mozilla_config", "intermediate", "--certinfo_ca_file", &ca, "--json_out", &json];
    let target = format!("localhost:{to}");
    let said = run(sslyze, &[&arguments[..], &[&target]].concat(), "run scripts/setup-tests.sh");
    assert!(said.contains("OK - Compliant"), "{said}");
    let report = report(&json, &said);
    let results = &report["server_scan_results"][0]["scan_result"];
    for (pointer, want) in [
        ("/heartbleed/result/is_vulnerable_to_heartbleed", false),
        ("/openssl_ccs_injection/result/is_vulnerable_to_ccs_injection", false),
        ("/tls_compression/result/supports_compression", false),
        ("/tls_extended_master_secret/result/supports_ems_extension", true),
        ("/tls_fallback_scsv/result/supports_fallback_scsv", true),
        ("/session_renegotiation/result/supports_secure_renegotiation", true),
        ("/session_renegotiation/result/is_vulnerable_to_client_renegotiation_dos", false),
    ] {
        assert_eq!(results.pointer(pointer), Some(&Value::Bool(want)), "{pointer}");
    }
}

/// Findings of testssl.sh that are accepted: each concerns a property that a private authority or an internal service lacks, or
/// the scanner itself.
const REMARKS: [&str; 5] = [
    // A problem of the scanner's own OpenSSL.
    "engine_problem",
    // The authority publishes no revocation list and no OCSP: lists are local files.
    "cert_revocation",
    "DNS_CAArecord",
    // The service sets these headers, or a route does.
    "HSTS",
    "security_headers",
];

#[test]
#[ignore = "takes a minute or two; run by make scan-tls"]
fn testssl_finds_nothing_but_that_the_authority_is_private() {
    let ground = Ground::new();
    let serving = ground.serve();
    let (ca, json) = (ground.cert("ca.cert.pem"), ground.text("testssl.json"));
    let target = format!("localhost:{}", serving.https.port());
    let arguments = ["--quiet", "--color", "0", "--warnings", "off", "--add-ca", &ca, "--jsonfile", &json, &target];
    let said = run("testssl".into(), &arguments, "install the package testssl.sh");
    let report = report(&json, &said);
    let findings = report.as_array().unwrap();
    assert!(findings.len() > 100, "it looked at {} things: {said}", findings.len());
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap_or_default().to_owned();
    let grave: Vec<&Value> = findings
        .iter()
        .filter(|finding| !matches!(text(finding, "severity").as_str(), "OK" | "INFO"))
        .filter(|finding| !REMARKS.contains(&text(finding, "id").as_str()))
        .collect();
    assert!(grave.is_empty(), "{grave:#?}");
}
