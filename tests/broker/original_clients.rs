//! The published JavaScript client of the Open Crypto Broker, unmodified, against `sealway broker serve` at the fixed socket path
//! that the client uses. Both run in a mount namespace with a /tmp of their own.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use sealway_testkit::daemon::root;

use crate::BINARY;

/// A folder in the place of /tmp, in which stays what is needed of what lies below it; then a program, from where it was
/// started.
const OWN_TMP: &str = r#"set -e
ground=$1 here=$PWD
for kept in "$2" "$3"; do
    if [[ $kept == /tmp/* ]]; then
        mkdir -p "$ground/${kept#/tmp/}"
        mount --bind "$kept" "$ground/${kept#/tmp/}"
    fi
done
mount --rbind "$ground" /tmp
cd "$here"
shift 3
exec "$@""#;

fn put(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
}

/// Returns the output of an openssl command about a certificate.
fn openssl(arguments: &[&str], file: &Path) -> String {
    let Output { status, stdout, stderr } = Command::new("openssl").args(arguments).arg(file).output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

#[test]
fn the_published_javascript_client_hashes_signs_encrypts_and_survives_a_crash() {
    let (root, ground) = (root(), tempfile::tempdir().unwrap());
    let client = root.join("tests/broker_originals");
    assert!(client.join("node_modules").is_dir(), "the client is missing: run scripts/setup-tests.sh");
    let profiles = std::fs::read_to_string(root.join("tests/broker_wires/Profiles.yaml")).unwrap();
    put(ground.path(), "Profiles.yaml", &profiles);
    put(ground.path(), "kek", &format!("test {}\n", "5a".repeat(32)));
    // The test finds the client's output here; it does not touch the /tmp of other processes.
    let mut run = Command::new("unshare");
    run.args(["-r", "-m", "bash", "-c", OWN_TMP, "bash"]).arg(ground.path()).arg(&root);
    run.arg(Path::new(BINARY).parent().unwrap()).arg("node").arg(client.join("client.mjs")).arg(BINARY);
    run.arg(root.join("crates/broker/tests/data")).current_dir(&client).stdin(Stdio::null());
    let Output { status, stdout, stderr } = run.output().unwrap();
    let (said, log) = (String::from_utf8_lossy(&stdout), std::fs::read_to_string(ground.path().join("log")));
    let log = log.unwrap_or_default();
    assert!(status.success(), "{said}{}{log}", String::from_utf8_lossy(&stderr));
    assert!(said.contains("all well"), "{said}");
    let authority = root.join("crates/broker/tests/data/ca/p384.pem").display().to_string();
    openssl(&["verify", "-CAfile", &authority], &ground.path().join("issued.pem"));
    let text = openssl(&["x509", "-noout", "-text", "-inform", "der", "-in"], &ground.path().join("issued.der"));
    assert!(
        text.contains("CN = Mine, O = Example, C = DE") && text.contains("http://example.com/crls/list1.crl"),
        "{text}"
    );
    // The paths of the client's calls. The broker had no other caller except the `sealway` command line.
    for method in ["HashData", "SignCertificate", "EncryptData", "DecryptData", "Check", "Benchmark"] {
        let is_answered = |line: &str| {
            let of = line.contains(&format!("\"grpc.method\":\"{method}\"")) && line.contains("finished call");
            of && line.contains("\"grpc.code\":\"OK\"")
        };
        assert!(log.lines().any(is_answered), "{method}: {log}");
    }
}
