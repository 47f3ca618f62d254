//! The schema of `SealPolicy`, judged by a real API server.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Runs a command of Go in tests/gateway_api, and returns what it printed.
fn go(args: &[&str]) -> String {
    let mut go = Command::new("go");
    go.args(args).current_dir(root().join("tests/gateway_api"));
    let output = go.output().unwrap_or_else(|err| panic!("go: {err}"));
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "go {args:?}: {}{}", said[0], said[1]);
    said[0].clone()
}

/// Runs one of the tests, with an API server of its own, and returns what it printed.
fn run(test: &str, folder: &Path) -> String {
    let built = tempfile::tempdir().unwrap();
    let path = |name: &str| built.path().join(name).to_str().unwrap().to_owned();
    let server = sealway_testkit::daemon::program("api-server").unwrap();
    // Modules and packages are in Go's caches since scripts/setup-tests.sh ran.
    go(&["test", "-trimpath", "-c", "-o", &path("schema"), "./schema"]);
    let mut command = Command::new(path("schema"));
    command.args(["-test.run", &format!("^{test}$")]).current_dir(built.path());
    command.env("API_SERVER", server);
    command
        .env("SEAL_POLICY_CRD", root().join("deploy/helm/sealway/crds/sealpolicies.yaml"))
        .env("SEAL_POLICIES", folder);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn an_api_server_rejects_policies_that_the_translation_would_not_accept() {
    let said = run("TestSealPolicies", &root().join("tests/gateway_api/policies"));
    assert!(said.contains("accepted 3, rejected 11"), "{said}");
}
