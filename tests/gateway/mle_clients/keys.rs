//! Keys of the gateway and of the other side, as files.

use std::path::{Path, PathBuf};
use std::process::Command;

use sealway_testkit::daemon::program;
use sealway_testkit::rsa::{certify, make_pair};

/// Key pairs and certificates of the gateway and of the other side.
pub(super) struct Keys {
    pub(super) folder: tempfile::TempDir,
}

impl Keys {
    pub(super) fn new(alg: &str) -> Keys {
        let keys = Keys { folder: tempfile::tempdir().unwrap() };
        for (name, serial_number) in [("gateway", "1600000000000000000001"), ("peer", "1600000000000000000002")] {
            let subject = format!("/CN={name}_test/serialNumber={serial_number}");
            let [key, certificate] = ["key", "pem"].map(|extension| keys.path(name, extension));
            match alg {
                "ECDH-ES" => ec_pair(&key, &certificate, &subject),
                _ => certify(&key, &certificate, &subject).unwrap(),
            }
        }
        for name in ["gateway-sign", "peer-sign"] {
            make_pair(keys.folder.path(), name).unwrap();
        }
        keys
    }

    pub(super) fn path(&self, name: &str, extension: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.{extension}"))
    }
}

/// Makes a key on P-256 with a self-signed certificate.
fn ec_pair(key: &Path, certificate: &Path, subject: &str) {
    let mut openssl = Command::new(program("openssl").unwrap());
    openssl.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-sha256",
        "-days",
        "30",
    ]);
    let made = openssl.args(["-subj", subject]).arg("-keyout").arg(key).arg("-out").arg(certificate).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}
