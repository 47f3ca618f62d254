//! The FIPS build while it serves: it performs what the module approves, rejects everything else with the reason, and does not
//! start with `strict` profiles that the module does not approve.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use sealway_client::broker::open::{self, Open};
use sealway_client::broker::{Client, Code, DecryptInput, Options, Plain};

const BINARY: &str = env!("CARGO_BIN_EXE_sealway");
const WAIT: Duration = Duration::from_secs(60);
const REFUSED: i32 = 70;

const APPROVED: &str = "
- { Name: Hash, Settings: { CryptoLibrary: native }, API: { HashData: { HashAlg: sha-256 } } }
- Name: Seal
  Settings: { CryptoLibrary: native }
  API: { EncryptData: { EncryptAlg: aes-gcm, KeySize: 256, NonceStrategy: broker-generated } }
- Name: Sign
  Settings: { CryptoLibrary: native }
  API: { SignData: { SignAlg: ecdsa, HashAlg: sha-384, Curve: P-256 } }
";
/// The published profiles for FIPS 140-3, and two profiles of this test.
const NOT_APPROVED: &str = "
- Name: Caller
  Settings: { CryptoLibrary: native }
  API:
    HashData: { HashAlg: sha-256 }
    EncryptData: { EncryptAlg: aes-gcm, KeySize: 256, NonceStrategy: user-provided, TagLength: 128 }
- Name: ChaCha
  Settings: { CryptoLibrary: native }
  API: { EncryptData: { EncryptAlg: chacha20-poly1305 } }
- { Name: Edwards, Settings: { CryptoLibrary: native }, API: { SignData: { SignAlg: ed25519 } } }
- Name: Short
  Settings: { CryptoLibrary: native }
  API: { EncryptData: { EncryptAlg: aes-gcm, KeySize: 256, NonceStrategy: user-provided, TagLength: 96 } }
- { Name: Lattice, Settings: { CryptoLibrary: native }, API: { SignData: { SignAlg: ml-dsa-65 } } }
";

/// A broker in a folder of its own, killed at the end of the test.
struct Broker {
    child: Child,
    folder: PathBuf,
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Broker {
    fn start(test: &str, profiles: &str, require: &str) -> Broker {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in [("Profiles.yaml", profiles), ("broker.kek", &"5a".repeat(32))] {
            std::fs::write(folder.join(name), text).unwrap();
            std::fs::set_permissions(folder.join(name), PermissionsExt::from_mode(0o600)).unwrap();
        }
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let mut command = Command::new(BINARY);
        command.args(["broker", "serve", "--profiles", "Profiles.yaml", "--keys", "keys", "--kek-file", "broker.kek"]);
        // The path is relative to the folder, because a socket path has at most 107 bytes.
        command.args(["--socket", "run/s", "--audit", "audit.log"]).current_dir(&folder);
        command.env_clear().env("CRYPTO_BROKER_REQUIRE_FIPS", require);
        let child = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        Broker { child, folder }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap()
    }

    /// Waits until the broker serves or has exited.
    fn settled(&mut self) -> Option<ExitStatus> {
        let begin = Instant::now();
        while begin.elapsed() < WAIT {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            if self.log().contains("\"serving\"") {
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("it neither serves nor ends: {}", self.log());
    }

    /// Returns a client. Its socket is a short link, because the absolute path of the socket may be too long.
    fn client(&self) -> Client {
        let link = std::env::temp_dir().join(format!("sealway-fips-{}.sock", self.child.id()));
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(self.folder.join("run/s"), &link).unwrap();
        Client::new(Options::new(link))
    }
}

fn plain(text: &[u8]) -> [Plain<'_>; 1] {
    [Plain { plaintext: text, aad: b"with it", nonce: &[] }]
}

#[tokio::test(flavor = "multi_thread")]
async fn approved_operations_work_and_others_are_off_by_profile_and_key() {
    let mut broker = Broker::start("serving", &format!("{APPROVED}{NOT_APPROVED}"), "true");
    assert_eq!(broker.settled(), None, "{}", broker.log());
    for name in [
        "Caller",
        "ChaCha",
        "Edwards",
        "Short",
        "Lattice",
        "API.EncryptData.NonceStrategy",
        "API.EncryptData.EncryptAlg",
    ] {
        assert!(broker.log().contains(name), "no warning of {name}: {}", broker.log());
    }
    let client = broker.client();
    let about = client.information().await.unwrap();
    assert!(about.is_fips, "{about:?}");
    assert_eq!((about.module_version.as_str(), about.certificate.as_str()), ("AWS-LC FIPS 3.6.0", "#5314"));

    let digest = client.hash("Hash", &[b"abc"]).await.unwrap().outputs.remove(0);
    assert_eq!(digest[..4], [0xba, 0x78, 0x16, 0xbf]);
    client.generate_key("seals", "aes-256-gcm").await.unwrap();
    client.generate_key("signs", "ecdsa-p256").await.unwrap();
    let sealed = client.encrypt("Seal", "seals", &plain(b"a text")).await.unwrap().outputs.remove(0);
    let whole = [DecryptInput { cipher: &sealed, aad: b"with it" }];
    let opened = client.decrypt("Seal", "seals", &whole).await.unwrap().outputs.remove(0).unwrap();
    assert_eq!(&*opened, b"a text");
    let signature = client.sign("Sign", "signs", &[b"a text"]).await.unwrap().outputs.remove(0);
    assert!(signature.len() > 60);

    let nonce = [Plain { plaintext: b"x", aad: &[], nonce: &[7; 12] }];
    let refused = client.encrypt("Caller", "seals", &nonce).await.unwrap_err();
    assert!(refused.code == Code::FailedPrecondition && refused.text.contains("NonceStrategy"), "{refused}");
    // The other operations of the profile remain available.
    client.hash("Caller", &[b"abc"]).await.unwrap();
    let refused = client.encrypt("ChaCha", "seals", &plain(b"x")).await.unwrap_err();
    assert!(refused.code == Code::FailedPrecondition && refused.text.contains("EncryptAlg"), "{refused}");
    for (id, algorithm) in [("lattice", "ml-dsa-65"), ("edwards", "ed25519")] {
        let refused = client.generate_key(id, algorithm).await.unwrap_err();
        assert_eq!(refused.code, Code::FailedPrecondition, "{refused}");
    }
    // Every tag of W4 is complete, whatever the profile says, so opening one is approved. A short tag of our own protocol is not.
    let w4 =
        open::Cipher { ciphertext: sealed.ciphertext.clone(), nonce: sealed.nonce.clone(), tag: sealed.tag.clone() };
    let other = Open(&client).decrypt_data("Short", "seals", &w4).await.unwrap_err();
    assert_eq!(other.code, Code::InvalidArgument, "it has an aad that W4's client does not send: {other}");
    let refused = client.decrypt("Short", "seals", &whole).await.unwrap_err();
    assert!(refused.code == Code::FailedPrecondition && refused.text.contains("TagLength"), "{refused}");

    let audit = std::fs::read_to_string(broker.folder.join("audit.log")).unwrap();
    assert!(audit.contains("\"certificate\":\"#5314\"") && audit.contains("\"code\":9"), "{audit}");
    drop(client);
    let begin = Instant::now();
    let stopped = Command::new("kill").arg(broker.child.id().to_string()).status().unwrap();
    assert!(stopped.success());
    let ended = broker.child.wait().unwrap();
    assert!(begin.elapsed() < Duration::from_secs(20), "nothing is in flight: {:?}", begin.elapsed());
    assert!(ended.success() && !broker.folder.join("run/s").exists(), "{ended}: {}", broker.log());
}

#[test]
fn strict_does_not_start_with_a_profile_that_the_module_does_not_approve() {
    let mut broker = Broker::start("strict", &format!("{APPROVED}{NOT_APPROVED}"), "strict");
    let ended = broker.settled().unwrap();
    assert_eq!(ended.code(), Some(REFUSED), "{}", broker.log());
    assert!(broker.log().contains("Caller") && !broker.folder.join("run/s").exists(), "{}", broker.log());
    let mut broker = Broker::start("strict_approved", APPROVED, "strict");
    assert_eq!(broker.settled(), None, "{}", broker.log());
}
