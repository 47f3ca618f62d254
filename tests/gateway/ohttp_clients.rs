//! A gateway of Oblivious HTTP and published clients in other languages, unchanged. The programs are in `tests/ohttp_clients`.

use std::path::Path;
use std::process::Command;

use sealway_testkit::daemon::root;
use serde_json::Value;

use crate::ohttp::Setup;

/// Builds the client of `github.com/openpcc/ohttp`.
fn go_client(folder: &Path) -> std::path::PathBuf {
    let binary = folder.join("ohttp-go");
    let mut go = Command::new("go");
    go.args(["build", "-buildvcs=false", "-o"])
        .arg(&binary)
        .arg(".")
        .current_dir(root().join("tests/ohttp_clients/go"));
    let built = go.output().expect("Go is there: run scripts/setup-tests.sh");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    binary
}

#[test]
fn the_client_for_go_reaches_a_target_whole_and_in_chunks_with_each_key() {
    let setup = Setup::new(&["x25519", "p256", "x-wing"], "");
    let folder = tempfile::tempdir().unwrap();
    let address = setup.server.address();
    let mut client = Command::new(go_client(folder.path()));
    client.args([format!("http://{address}/ohttp-keys"), format!("http://{address}/gateway")]);
    let ran = client.arg("https://api.example").output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let output = String::from_utf8(ran.stdout).unwrap();
    let results: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(results.len(), 3 * 4, "{output}");
    for result in &results {
        let mode = result["mode"].as_str().unwrap();
        let (method, body) = match mode {
            "get" => ("GET", ""),
            "large" => ("POST", "320000"),
            _ => ("POST", "from go"),
        };
        assert_eq!(result["error"], Value::Null, "{result}");
        assert_eq!((&result["status"], &result["body"]), (&Value::from(201), &Value::from(body)), "{result}");
        assert_eq!(
            (&result["method"], &result["path"]),
            (&Value::from(method), &Value::from(format!("/echo/{mode}?a=b")))
        );
    }
}
